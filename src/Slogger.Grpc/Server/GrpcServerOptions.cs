// Where a server listens, whom it serves, and its limits. Every limit that a peer meets it is told of by a status.
using System.Net;

namespace Slogger.Grpc.Server;

/// <summary>Options of a server.</summary>
public sealed record GrpcServerOptions
{
    /// <summary>Address and port; port 0: any that is free, see <see cref="GrpcServer.EndPoint"/>.</summary>
    public required IPEndPoint Listen { get; init; }

    /// <summary>TLS; null: none. With authorities or thumbprints a client needs a certificate.</summary>
    public GrpcTls? Tls { get; init; }

    /// <summary>What callers have to know; null: nothing. Travels in clear without <see cref="Tls"/>.</summary>
    public string? Secret { get; init; }

    /// <summary>The largest message that is taken. Unit: bytes. Default: 4 MiB. It is in memory as a whole.</summary>
    public int MessageBytesMax { get; init; } = 4 << 20;

    /// <summary>Calls at a time, of all connections together; one more gets RESOURCE_EXHAUSTED. Default: 1024.</summary>
    public int CallsMax { get; init; } = 1024;

    /// <summary>Connections at a time; calls on one more get RESOURCE_EXHAUSTED. Twice as many are closed without a word. Default:
    /// 256.</summary>
    public int ConnectionsMax { get; init; } = 256;

    /// <summary>What a peer may send on one stream before a handler has read it; on all streams of a connection together four times as
    /// much, so that one handler that does not read holds up no other. Kestrel makes room again by halves, so half of it can be on its way
    /// at a time. Unit: bytes. Default: 16 MiB: a link of 1 Gbit/s and 50 ms has 6 MB on its way.</summary>
    public int WindowBytes { get; init; } = 16 << 20;

    /// <summary>A connection on which nothing has arrived for so long is asked. Default: 2 s; at least 1 s.</summary>
    public TimeSpan PingAfter { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>And given up if it does not answer within this. Default: 3 s.</summary>
    public TimeSpan PingTimeout { get; init; } = TimeSpan.FromSeconds(3);
}
