// Whether a user may read what it asks of the past: the live Redis knows, by its rules of today.
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Rollback;
using Slogger.Resp;

namespace Slogger.Redis.Past;

/// <summary>Asks a Redis who may read what, over one connection. Any thread.</summary>
public sealed class ReadRights : IAsyncDisposable
{
    private const int AskedAtOnce = 1000;

    private static readonly string[] s_all = ["+@all"];

    private readonly RedisConnection? _live;    // null: there are no users

    private ReadRights(RedisConnection? live) => _live = live;

    /// <summary>The right to know all names of keys.</summary>
    public static IReadOnlyList<byte[]> OfNames { get; } = ["SCAN"u8.ToArray(), "0"u8.ToArray()];

    /// <summary>The right to all data, which is what a replica gets.</summary>
    public static IReadOnlyList<byte[]> OfAllData { get; } = ["SYNC"u8.ToArray()];

    /// <summary>The right to read the value of a key, of whatever type.</summary>
    /// <param name="key">The key.</param>
    public static IReadOnlyList<byte[]> OfValue(byte[] key) => ["DUMP"u8.ToArray(), key];

    /// <summary>Connects.</summary>
    /// <param name="live">The Redis, as a user who may ask. Null: the store has no users, and whoever reaches it may read all.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="RedisException">It cannot be reached.</exception>
    public static async Task<ReadRights> OpenAsync(RedisEndpoint? live, CancellationToken stop) =>
        new(live is null ? null : await RedisConnection.ConnectAsync(live, cancellation: stop).ConfigureAwait(false));

    /// <summary>Asks whether a user may run a command (<c>ACL DRYRUN</c>, Redis 7.0 or later); nothing of it is run.</summary>
    /// <param name="user">The user.</param>
    /// <param name="words">The command.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The error that Redis would answer, without '-' and line end; null: the user may.</returns>
    /// <exception cref="RedisException">Redis could not be asked.</exception>
    public async Task<string?> RefusalAsync(string user, IReadOnlyList<byte[]> words, CancellationToken stop)
    {
        if (_live is null) { return null; }
        RedisReply reply = (await AskAsync(_live, user, [words], stop).ConfigureAwait(false))[0];
        return IsYes(reply) ? null
            : reply.IsError ? $"ERR SLOGGER it cannot be asked whether {user} may read this: Redis answered {reply.Text}"
            : $"NOPERM {reply.Text}";
    }

    /// <summary>Which commands a user may run, as ACL SETUSER takes it. Rights that go with other keys (selectors) are not among
    /// them.</summary>
    /// <param name="user">The user.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="RedisException">Redis could not be asked.</exception>
    public async Task<IReadOnlyList<string>> CommandRulesAsync(string user, CancellationToken stop)
    {
        if (_live is null) { return s_all; }
        RedisBatch asked = new RedisBatch().Add("ACL"u8.ToArray(), "GETUSER"u8.ToArray(), Encoding.Latin1.GetBytes(user));
        using CommandCounts.Sending? counted = _live.Endpoint.Counts?.Send("ACL", "GETUSER");
        RedisReply facts = (await _live.PipelineAsync(asked.Written, asked.Count, stop).ConfigureAwait(false))[0];
        int at = facts.Items.Select(f => f.Text).ToList().IndexOf("commands");
        return at >= 0 ? facts.Items[at + 1].Text.Split(' ', StringSplitOptions.RemoveEmptyEntries)
            : throw new RedisException(RedisProblem.NoPermission, $"Redis does not say which commands {user} may run: {facts.Text}");
    }

    /// <summary>Asks which of some keys a user may not read.</summary>
    /// <param name="user">The user.</param>
    /// <param name="keys">The keys.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>Those.</returns>
    /// <exception cref="RedisException">Redis could not be asked.</exception>
    public async Task<IReadOnlySet<StoreKey>> UnreadableAsync(string user, IReadOnlyCollection<StoreKey> keys, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(keys);
        var unreadable = new HashSet<StoreKey>();
        if (_live is null) { return unreadable; }
        foreach (StoreKey[] some in keys.Chunk(AskedAtOnce))
        {
            IReadOnlyList<RedisReply> replies = await AskAsync(_live, user, [.. some.Select(k => OfValue(k.Name))], stop)
                .ConfigureAwait(false);
            unreadable.UnionWith(some.Where((_, i) => !IsYes(replies[i])));
        }
        return unreadable;
    }

    /// <inheritdoc />
    public ValueTask DisposeAsync() => _live?.DisposeAsync() ?? ValueTask.CompletedTask;

    private static bool IsYes(RedisReply reply) => reply is { Kind: RedisReplyKind.Status, Text: "OK" };

    private static async Task<IReadOnlyList<RedisReply>> AskAsync(RedisConnection live, string user,
        IReadOnlyList<IReadOnlyList<byte[]>> commands, CancellationToken stop)
    {
        var asked = new RedisBatch();
        foreach (IReadOnlyList<byte[]> words in commands)
        {
            asked.Add(["ACL"u8.ToArray(), "DRYRUN"u8.ToArray(), Encoding.Latin1.GetBytes(user), .. words]);
        }
        CommandCounts.Sending?[] counted = [.. commands.Select(_ => live.Endpoint.Counts?.Send("ACL", "DRYRUN"))];
        try
        {
            return await live.PipelineAsync(asked.Written, asked.Count, stop).ConfigureAwait(false);
        }
        finally
        {
            foreach (CommandCounts.Sending? sending in counted) { sending?.Dispose(); }
        }
    }
}
