// Looks at a Redis before anything is built on it: can the proxy make this one recoverable, and if not, what has to be
// changed. The answer is a value with one sentence for a person.
using System.Globalization;

namespace Slogger.Redis.Connections;

/// <summary>What a Redis says about itself.</summary>
public sealed record RedisFacts
{
    /// <summary>E.g. 7.0.15.</summary>
    public required string ServerVersion { get; init; }
    /// <summary>Changes at each start of the server: 40 hex characters.</summary>
    public required string RunId { get; init; }
    /// <summary>Process id on its machine.</summary>
    public required int ProcessId { get; init; }
    /// <summary>Identity of its replication stream: 40 hex characters.</summary>
    public required string ReplicationId { get; init; }
    /// <summary>The former identity, valid below <see cref="SecondReplicationOffset"/>; all zeros if none.</summary>
    public required string SecondReplicationId { get; init; }
    /// <summary>First offset (1-based, as Redis counts) not covered by the former identity; -1 if none.</summary>
    public required long SecondReplicationOffset { get; init; }
    /// <summary>Bytes of history executed.</summary>
    public required long Offset { get; init; }
    /// <summary>Keys of all databases together.</summary>
    public required long KeyCount { get; init; }
    /// <summary>Number of databases configured; 16 if CONFIG GET is not allowed.</summary>
    public required int Databases { get; init; }
    /// <summary>Whether it is a master.</summary>
    public required bool IsMaster { get; init; }
    /// <summary>Whether it runs in cluster mode.</summary>
    public required bool IsCluster { get; init; }
}

/// <summary>The outcome of a probe: no problem, or the reason why this Redis cannot be used (now).</summary>
/// <param name="Problem">None if usable.</param>
/// <param name="Message">For a person: what is the matter and what to do. Empty if usable.</param>
/// <param name="Facts">What was learned; null if it did not answer.</param>
public sealed record ProbeResult(RedisProblem Problem, string Message, RedisFacts? Facts)
{
    /// <summary>Whether it can be used.</summary>
    public bool IsUsable => Problem == RedisProblem.None;
}

/// <summary>Inspects a Redis.</summary>
public static class RedisProbe
{
    /// <summary>The oldest major version that has SPUBLISH, rdb-filter-only and rdb-only.</summary>
    public const int MajorVersionMin = 7;

    /// <summary>Connects, asks and judges. Never throws for what a Redis can do wrong.</summary>
    public static async Task<ProbeResult> InspectAsync(
        RedisEndpoint endpoint, TimeSpan? timeout = null, CancellationToken cancellation = default)
    {
        try
        {
            await using RedisConnection connection = await RedisConnection.ConnectAsync(
                endpoint, timeout, cancellation).ConfigureAwait(false);
            return await InspectAsync(connection, cancellation).ConfigureAwait(false);
        }
        catch (RedisException e)
        {
            return new ProbeResult(e.Problem, e.Message, null);
        }
    }

    /// <summary>The same over a connection that exists.</summary>
    public static async Task<ProbeResult> InspectAsync(RedisConnection connection, CancellationToken cancellation = default)
    {
        try
        {
            // At once: while a shard takes over, each exchange counts.
            IReadOnlyList<RedisReply> replies = await connection.CommandsAsync(
                [["PING"], ["INFO", "server"], ["INFO", "replication"], ["INFO", "keyspace"], ["CONFIG", "GET", "databases"]],
                    cancellation).ConfigureAwait(false);
            RedisReply ping = replies[0];
            if (ping.IsError)
            {
                RedisProblem problem = RedisProblems.Classify(ping.Text);
                // A replica without its master may answer PING with MASTERDOWN; INFO still tells the more useful fact.
                if (!ping.Text.StartsWith("MASTERDOWN", StringComparison.Ordinal))
                    return Bad(connection, problem, $"answered PING with: {ping.Text}.", null);
            }
            RedisFacts facts = Read(connection, replies);
            if (!int.TryParse(facts.ServerVersion.Split('.')[0], NumberStyles.None, CultureInfo.InvariantCulture, out int major)
                || major < MajorVersionMin)
                return Bad(connection, RedisProblem.TooOld, $"is version {facts.ServerVersion}; 7.0 is the oldest that works.", facts);
            if (facts.IsCluster)
                return Bad(connection, RedisProblem.ClusterMode, "runs in cluster mode.", facts);
            if (!facts.IsMaster)
                return Bad(connection, RedisProblem.NotMaster, "is a replica of another Redis.", facts);
            return new ProbeResult(RedisProblem.None, "", facts);
        }
        catch (RedisException e)
        {
            return new ProbeResult(e.Problem, e.Message, null);
        }
    }

    private static ProbeResult Bad(RedisConnection connection, RedisProblem problem, string text, RedisFacts? facts) =>
        new(problem, $"Redis at {connection.Endpoint} {text} {problem.Remedy()}", facts);

    private static RedisFacts Read(RedisConnection connection, IReadOnlyList<RedisReply> replies)
    {
        Dictionary<string, string> server = connection.InfoOf("server", replies[1]);
        Dictionary<string, string> replication = connection.InfoOf("replication", replies[2]);
        Dictionary<string, string> keyspace = connection.InfoOf("keyspace", replies[3]);
        RedisReply databases = replies[4];
        return new RedisFacts
        {
            ServerVersion = Field(server, "redis_version", "0"),
            RunId = Field(server, "run_id", ""),
            ProcessId = (int)Long(server, "process_id", 0),
            IsCluster = Field(server, "redis_mode", "") == "cluster",
            IsMaster = Field(replication, "role", "") == "master",
            ReplicationId = Field(replication, "master_replid", ""),
            SecondReplicationId = Field(replication, "master_replid2", new string('0', 40)),
            SecondReplicationOffset = Long(replication, "second_repl_offset", -1),
            Offset = Long(replication, "master_repl_offset", 0),
            KeyCount = KeysIn(keyspace),
            Databases = databases.Items.Count == 2 && int.TryParse(databases.Items[1].Text, CultureInfo.InvariantCulture, out int n) ? n
                : 16,
        };
    }

    /// <summary>How many keys all databases have, expired ones among them.</summary>
    /// <exception cref="RedisException">It could not be asked.</exception>
    public static async Task<long> KeyCountAsync(RedisConnection connection, CancellationToken cancellation)
    {
        ArgumentNullException.ThrowIfNull(connection);
        return KeysIn(await connection.InfoAsync("keyspace", cancellation).ConfigureAwait(false));
    }

    private static long KeysIn(Dictionary<string, string> keyspace) =>
        keyspace.Where(f => f.Key.StartsWith("db", StringComparison.Ordinal)).Sum(f => Keys(f.Value));

    // keys=12,expires=3,avg_ttl=0
    private static long Keys(string line)
    {
        foreach (string part in line.Split(','))
        {
            if (part.StartsWith("keys=", StringComparison.Ordinal)
                && long.TryParse(part.AsSpan(5), NumberStyles.None, CultureInfo.InvariantCulture, out long keys))
                return keys;
        }
        return 0;
    }

    private static string Field(Dictionary<string, string> fields, string name, string otherwise) =>
        fields.GetValueOrDefault(name, otherwise);

    private static long Long(Dictionary<string, string> fields, string name, long otherwise) =>
        long.TryParse(fields.GetValueOrDefault(name), NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out long value) ? value
            : otherwise;
}
