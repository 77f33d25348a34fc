// Settings of the client and of its sessions: records, so that a variant is made by `with`.
using System.Net.Security;
using Microsoft.Extensions.Logging;

namespace Slogger.Client;

/// <summary>Settings of a <see cref="SloggerClient"/>. Immutable.</summary>
public sealed record SloggerClientOptions
{
    /// <summary>Proxies of one cluster, each as HOST:PORT or [IPV6]:PORT. One that answers is enough: it tells the others.
    /// Of a cluster with a second site, some of each: sessions go on at the one that has taken over, and are told what of theirs
    /// survived.</summary>
    public required IReadOnlyList<string> Endpoints { get; init; }

    /// <summary>Sessions read at a backup site, and the endpoints are those of its processes. What a session reads is no older than what it
    /// has read before, at whichever shard: it waits for a shard that is behind. All of it is committed. A write is answered with an error
    /// (READONLY), and what only a session of a primary can do fails. Reads are repeated when a connection breaks, as if each were
    /// <see cref="OperationFlags.Idempotent"/>. When the site takes over, its reads fail as those of a shard that cannot be reached:
    /// connect anew, without this. Default false.</summary>
    public bool ReadsBackup { get; init; }

    /// <summary>The user of the ACL to log in as; null: the default user.</summary>
    public string? User { get; init; }

    /// <summary>The password; null: none is sent.</summary>
    public string? Password { get; init; }

    /// <summary>Settings of TLS; null: plain TCP. Where it names no target host, the endpoint's is taken.</summary>
    public SslClientAuthenticationOptions? Tls { get; init; }

    /// <summary>How long one attempt to connect may take, the login and the first probe included. Default 5 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>The first pause before connecting again; it doubles up to <see cref="ReconnectDelayMax"/>. Default 10 ms.</summary>
    public TimeSpan ReconnectDelayMin { get; init; } = TimeSpan.FromMilliseconds(10);

    /// <summary>The longest pause before connecting again. Default 500 ms.</summary>
    public TimeSpan ReconnectDelayMax { get; init; } = TimeSpan.FromMilliseconds(500);

    /// <summary>How long operations wait for a shard that cannot be reached. Then those that were not sent fail with
    /// <see cref="ShardUnreachableException"/>, and those that were are uncertain. Default 15 s: a proxy that is killed and started
    /// again is back before that.</summary>
    public TimeSpan GiveUpAfter { get; init; } = TimeSpan.FromSeconds(15);

    /// <summary>How often an operation follows redirections (-MOVED, -ASK, -TRYAGAIN, -CLUSTERDOWN) before the error is its
    /// answer. Default 16.</summary>
    public int RedirectionsMax { get; init; } = 16;

    /// <summary>Where the client logs; null: nowhere. Categories are the names of its classes.</summary>
    public ILoggerFactory? LoggerFactory { get; init; }

    internal void Check()
    {
        ArgumentNullException.ThrowIfNull(Endpoints);
        if (Endpoints.Count == 0) { throw new ArgumentException("Give at least one proxy in Endpoints, as HOST:PORT."); }
        foreach (string endpoint in Endpoints) { _ = Wire.Address.Parse(endpoint); }
        ArgumentOutOfRangeException.ThrowIfLessThanOrEqual(ConnectTimeout, TimeSpan.Zero);
        ArgumentOutOfRangeException.ThrowIfLessThanOrEqual(ReconnectDelayMin, TimeSpan.Zero);
        ArgumentOutOfRangeException.ThrowIfLessThan(ReconnectDelayMax, ReconnectDelayMin);
        ArgumentOutOfRangeException.ThrowIfLessThan(GiveUpAfter, TimeSpan.Zero);
        ArgumentOutOfRangeException.ThrowIfNegative(RedirectionsMax);
    }
}

/// <summary>Settings of a <see cref="SloggerSession"/>. Immutable.</summary>
public sealed record SloggerSessionOptions
{
    /// <summary>How many operations go in one batch at most, 1 to 65536. Default 64. A batch is sent when it is full, and at
    /// once when nothing of the session is under way to its shard.</summary>
    public int BatchMax { get; init; } = 64;

    /// <summary>How many operations may be unanswered; at least <see cref="BatchMax"/>. Default 4096.</summary>
    public int Window { get; init; } = 4096;

    /// <summary>How many operations may be started and not answered, those included that wait for room in the window; at least
    /// <see cref="Window"/>. Default 65536. Starting more is an error: see <see cref="SloggerSession.ReadyAsync"/>.</summary>
    public int OutstandingMax { get; init; } = 65536;

    /// <summary>How many runs of operations that are not committed are kept apart, at 40 bytes each; at least 8. Default 4096.</summary>
    public int RunsMax { get; init; } = 4096;

    internal void Check()
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(BatchMax, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(BatchMax, 65536);
        ArgumentOutOfRangeException.ThrowIfLessThan(Window, BatchMax);
        ArgumentOutOfRangeException.ThrowIfLessThan(OutstandingMax, Window);
        ArgumentOutOfRangeException.ThrowIfLessThan(RunsMax, 8);
    }
}
