// How a client reaches a server.
using Grpc.Core;

namespace Slogger.Grpc.Client;

/// <summary>Options of a channel.</summary>
public sealed record GrpcChannelOptions
{
    /// <summary>TLS; null: none. Without authorities and thumbprints the server needs a certificate that this machine trusts.</summary>
    public GrpcTls? Tls { get; init; }

    /// <summary>What the server wants its callers to know; null: nothing.</summary>
    public string? Secret { get; init; }

    /// <summary>The largest message that is taken. Unit: bytes. Default: 4 MiB. It is in memory as a whole.</summary>
    public int MessageBytesMax { get; init; } = 4 << 20;

    /// <summary>What a server may send on one stream before it is read; on a long link HttpClient raises it by itself, up to 16 MiB. Unit:
    /// bytes. Default: 8 MiB.</summary>
    public int WindowBytes { get; init; } = 8 << 20;

    /// <summary>A server that cannot be connected to in this time is UNAVAILABLE. Default: 5 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>While calls are under way, a connection on which nothing has arrived for so long is asked. Default: 2 s; at least 1
    /// s.</summary>
    public TimeSpan PingAfter { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>And given up if it does not answer within this. Default: 3 s; at least 1 s.</summary>
    public TimeSpan PingTimeout { get; init; } = TimeSpan.FromSeconds(3);
}

/// <summary>What a caller says of one call.</summary>
public readonly record struct CallOptions
{
    /// <summary>It is to end in this time, or does with DEADLINE_EXCEEDED; null: no limit.</summary>
    public TimeSpan? Timeout { get; init; }

    /// <summary>What goes with the request.</summary>
    public Metadata? Metadata { get; init; }

    /// <summary>Whether requests are compressed.</summary>
    public bool IsGzip { get; init; }

    /// <summary>Ends it with CANCELLED.</summary>
    public CancellationToken Cancellation { get; init; }
}
