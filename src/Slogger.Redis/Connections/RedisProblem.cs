// Why something with a Redis did not work, as a value that a caller can branch on, beside the text that a person reads.
namespace Slogger.Redis.Connections;

/// <summary>Kinds of trouble with a Redis. <see cref="RedisProblems.IsTransient"/> tells which pass by themselves.</summary>
public enum RedisProblem
{
    /// <summary>No trouble.</summary>
    None,
    /// <summary>Nobody answers at the address.</summary>
    Unreachable,
    /// <summary>No answer in time.</summary>
    Timeout,
    /// <summary>The connection was closed.</summary>
    Closed,
    /// <summary>The TLS handshake failed.</summary>
    Tls,
    /// <summary>Redis wants a password and none was given.</summary>
    PasswordNeeded,
    /// <summary>Redis does not accept the user or password.</summary>
    WrongPassword,
    /// <summary>The ACL does not allow a command that is needed.</summary>
    NoPermission,
    /// <summary>Redis is loading its data set.</summary>
    Loading,
    /// <summary>A script keeps Redis busy.</summary>
    Busy,
    /// <summary>Redis cannot serve a replica now (no memory, fork failed, its own master is away).</summary>
    NotNow,
    /// <summary>Older than Redis 7.0.</summary>
    TooOld,
    /// <summary>Redis is a replica of another one.</summary>
    NotMaster,
    /// <summary>Redis runs with cluster-enabled yes.</summary>
    ClusterMode,
    /// <summary>The server does not speak (this part of) Redis's protocol.</summary>
    Protocol,
    /// <summary>A command was answered with an error that none of the above names.</summary>
    CommandFailed,
    /// <summary>A local file could not be written or read.</summary>
    LocalFile,
    /// <summary>Redis would need a full synchronisation, and the caller wanted none.</summary>
    HistoryGone,
    /// <summary>The operation was given up by the caller.</summary>
    Cancelled,
}

/// <summary>Rules about <see cref="RedisProblem"/>.</summary>
public static class RedisProblems
{
    /// <summary>Whether trying again later can help without anybody doing anything.</summary>
    public static bool IsTransient(this RedisProblem problem) => problem is RedisProblem.Unreachable or RedisProblem.Timeout
        or RedisProblem.Closed or RedisProblem.Loading or RedisProblem.Busy or RedisProblem.NotNow;

    /// <summary>Classifies an error reply by its first word.</summary>
    public static RedisProblem Classify(string errorReply)
    {
        if (errorReply.StartsWith("NOAUTH", StringComparison.Ordinal))
            return RedisProblem.PasswordNeeded;
        if (errorReply.StartsWith("WRONGPASS", StringComparison.Ordinal)
            || errorReply.StartsWith("ERR AUTH", StringComparison.Ordinal)
            || errorReply.StartsWith("ERR Client sent AUTH", StringComparison.Ordinal)
            || errorReply.StartsWith("ERR invalid password", StringComparison.Ordinal))
            return RedisProblem.WrongPassword;
        if (errorReply.StartsWith("NOPERM", StringComparison.Ordinal))
            return RedisProblem.NoPermission;
        if (errorReply.StartsWith("LOADING", StringComparison.Ordinal))
            return RedisProblem.Loading;
        if (errorReply.StartsWith("BUSY", StringComparison.Ordinal))
            return RedisProblem.Busy;
        if (errorReply.StartsWith("NOMASTERLINK", StringComparison.Ordinal)
            || errorReply.StartsWith("MASTERDOWN", StringComparison.Ordinal))
            return RedisProblem.NotNow;
        if (errorReply.StartsWith("DENIED", StringComparison.Ordinal))
            return RedisProblem.PasswordNeeded;
        return RedisProblem.CommandFailed;
    }

    /// <summary>What a person can do about a problem; one sentence.</summary>
    public static string Remedy(this RedisProblem problem) => problem switch
    {
        RedisProblem.Unreachable => "Check that Redis runs and that the address is right.",
        RedisProblem.Timeout => "Redis may be overloaded, stopped or behind a firewall; it is tried again.",
        RedisProblem.Closed => "See Redis's log for the reason; it is tried again.",
        RedisProblem.Tls => "Check the authority file, the certificate's name, and that the port is a TLS port.",
        RedisProblem.PasswordNeeded => "Give the user and password of an ACL user made for the proxy.",
        RedisProblem.WrongPassword => "Correct the user or password; ACL LIST in Redis shows the users.",
        RedisProblem.NoPermission => "Give the proxy's ACL user +@all on ~* and &*, or at least the command named.",
        RedisProblem.Loading => "It becomes ready by itself when its data is loaded.",
        RedisProblem.Busy => "Wait for the script, or end it with SCRIPT KILL.",
        RedisProblem.NotNow => "See Redis's log for the reason; it is tried again.",
        RedisProblem.TooOld => "Upgrade to Redis 7.0 or later.",
        RedisProblem.NotMaster => "Point the proxy at the master, or promote this one with REPLICAOF NO ONE.",
        RedisProblem.ClusterMode => "Run Redis with cluster-enabled no: its markers do not reach replicas otherwise.",
        RedisProblem.Protocol => "Check that the address is that of a Redis.",
        RedisProblem.LocalFile => "Check free space and permissions of the directory.",
        RedisProblem.HistoryGone => "Take a new base with a full synchronisation.",
        _ => "See Redis's log.",
    };
}

/// <summary>Something with a Redis failed. The message says what, where, and what to do.</summary>
public sealed class RedisException : Exception
{
    /// <summary>Makes one; the remedy of the problem is appended to the message.</summary>
    public RedisException(RedisProblem problem, string message, Exception? inner = null)
        : base(message.TrimEnd() + " " + problem.Remedy(), inner) => Problem = problem;

    /// <summary>The kind of trouble.</summary>
    public RedisProblem Problem { get; }
}
