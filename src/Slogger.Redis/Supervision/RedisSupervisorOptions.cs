// Settings of a supervised redis-server, and what starting it can lead to.
using Slogger.Redis.Connections;

namespace Slogger.Redis.Supervision;

/// <summary>Settings of a supervised Redis.</summary>
public sealed record RedisSupervisorOptions
{
    /// <summary>Redis's own directory: configuration, log, pid file, socket. Created with mode 0700.</summary>
    public required string Directory { get; init; }

    /// <summary>The program. Default: redis-server of the PATH.</summary>
    public string Executable { get; init; } = "redis-server";

    /// <summary>TCP port on loopback besides the Unix socket. Default: 0, none: only the proxy can get in.</summary>
    public int Port { get; init; }

    /// <summary>Password, of <see cref="User"/> or of everybody (requirepass). It is in the configuration file, which only this user can
    /// read, and on no command line. Default: null; the socket's directory is closed to other users.</summary>
    public string? Password { get; init; }

    /// <summary>An ACL user of the proxy's own, made with all rights and <see cref="Password"/>. Default: null.</summary>
    public string? User { get; init; }

    /// <summary>Memory limit in bytes. Default: 0, none.</summary>
    public long MemoryBytesMax { get; init; }

    /// <summary>Replication backlog in bytes. Default: 64 MiB. Larger bridges a longer absence of the proxy, and costs
    /// Redis some throughput.</summary>
    public long BacklogBytes { get; init; } = 64L << 20;

    /// <summary>Further lines of redis.conf. They come last and win. Default: none.</summary>
    public IReadOnlyList<string> ExtraLines { get; init; } = [];

    /// <summary>How long a start may take until it answers. Default: 30 s.</summary>
    public TimeSpan StartTimeMax { get; init; } = TimeSpan.FromSeconds(30);

    /// <summary>How long a stop may take before the next stronger means. Default: 5 s.</summary>
    public TimeSpan StopTimeMax { get; init; } = TimeSpan.FromSeconds(5);
}

/// <summary>The outcome of starting: one of the nested records.</summary>
public abstract record SupervisedStart
{
    private SupervisedStart()
    {
    }

    /// <summary>It was started, with an empty data set.</summary>
    /// <param name="ProcessId">Its process.</param>
    /// <param name="RunId">Its run.</param>
    public sealed record Started(int ProcessId, string RunId) : SupervisedStart;

    /// <summary>It was running already, and holds whatever it held.</summary>
    /// <param name="ProcessId">Its process.</param>
    /// <param name="RunId">Its run.</param>
    /// <param name="SettingsDiffer">It was started with other settings than the present ones; they take effect at its next start.</param>
    public sealed record Adopted(int ProcessId, string RunId, bool SettingsDiffer) : SupervisedStart;

    /// <summary>It does not run.</summary>
    /// <param name="Problem">Why.</param>
    /// <param name="Message">For a person; holds the end of Redis's log.</param>
    public sealed record Failed(RedisProblem Problem, string Message) : SupervisedStart;
}
