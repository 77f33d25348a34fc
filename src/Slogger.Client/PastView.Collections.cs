// Reads of hashes, lists, sets, sorted sets and streams as they were, and scripts. As those of a session, which say more.
using Slogger.Resp;

namespace Slogger.Client;

public sealed partial class PastView
{
    /// <summary>A field's value; null: there was none. Redis's HGET. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<string?> HashGetAsync(Argument key, Argument field, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Text, cancellation, "HGET", key, field);

    /// <summary>A field's value as bytes; null: there was none. Redis's HGET. Parameters and exceptions as for
    /// <see cref="GetAsync"/>.</summary>
    public ValueTask<byte[]?> HashGetBytesAsync(Argument key, Argument field, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Bytes, cancellation, "HGET", key, field);

    /// <summary>The values of several fields, in the order of the fields; null: there was none. Redis's HMGET. Parameters and exceptions as
    /// for <see cref="GetAsync"/>.</summary>
    public ValueTask<string?[]> HashGetAsync(Argument key, IReadOnlyCollection<Argument> fields,
        CancellationToken cancellation = default) =>
        ReadAsync(Replies.TextsOrNone, cancellation, "HMGET", [key, .. fields]);

    /// <summary>All fields and their values, in no order; none if there was no hash. Redis's HGETALL. Parameters and exceptions as for
    /// <see cref="GetAsync"/>.</summary>
    public ValueTask<KeyValuePair<string, string>[]> HashGetAllAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Pairs, cancellation, "HGETALL", key);

    /// <summary>The names of all fields, in no order. Redis's HKEYS. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<string[]> HashKeysAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Texts, cancellation, "HKEYS", key);

    /// <summary>How many fields there were. Redis's HLEN. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<long> HashLengthAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Integer, cancellation, "HLEN", key);

    /// <summary>Whether a field was there. Redis's HEXISTS. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<bool> HashExistsAsync(Argument key, Argument field, CancellationToken cancellation = default) =>
        ReadAsync(Replies.IsOne, cancellation, "HEXISTS", key, field);

    /// <summary>The values of a list from one place to another, both included. Redis's LRANGE. Parameters and exceptions as for
    /// <see cref="GetAsync"/>.</summary>
    public ValueTask<string[]> ListRangeAsync(Argument key, long start = 0, long stop = -1, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Texts, cancellation, "LRANGE", key, start, stop);

    /// <summary>The value at a place of a list; null: there was none. Redis's LINDEX. Parameters and exceptions as for
    /// <see cref="GetAsync"/>.</summary>
    public ValueTask<string?> ListGetAsync(Argument key, long index, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Text, cancellation, "LINDEX", key, index);

    /// <summary>How many values there were in a list. Redis's LLEN. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<long> ListLengthAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Integer, cancellation, "LLEN", key);

    /// <summary>Whether a set had a member. Redis's SISMEMBER. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<bool> SetContainsAsync(Argument key, Argument member, CancellationToken cancellation = default) =>
        ReadAsync(Replies.IsOne, cancellation, "SISMEMBER", key, member);

    /// <summary>All members of a set, in no order. Redis's SMEMBERS. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<string[]> SetMembersAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Texts, cancellation, "SMEMBERS", key);

    /// <summary>How many members a set had. Redis's SCARD. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<long> SetCountAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Integer, cancellation, "SCARD", key);

    /// <summary>A member's score; null: there was no such member. Redis's ZSCORE. Parameters and exceptions as for
    /// <see cref="GetAsync"/>.</summary>
    public ValueTask<double?> SortedSetScoreAsync(Argument key, Argument member, CancellationToken cancellation = default) =>
        ReadAsync(Replies.NumberOrNone, cancellation, "ZSCORE", key, member);

    /// <summary>A member's rank by rising or falling scores, from 0; null: there was no such member. Redis's ZRANK and ZREVRANK. Parameters
    /// and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<long?> SortedSetRankAsync(Argument key, Argument member, bool isDescending = false,
        CancellationToken cancellation = default) =>
        ReadAsync(Replies.IntegerOrNone, cancellation, isDescending ? "ZREVRANK" : "ZRANK", key, member);

    /// <summary>The members from one rank to another, both included, by rising or falling scores. Redis's ZRANGE and ZREVRANGE. Parameters
    /// and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<ScoredMember[]> SortedSetRangeByRankAsync(Argument key, long start = 0, long stop = -1, bool isDescending = false,
        CancellationToken cancellation = default) =>
        ReadAsync(Replies.Scored, cancellation, isDescending ? "ZREVRANGE" : "ZRANGE", key, start, stop, "WITHSCORES");

    /// <summary>The members whose score was in a range, by rising or falling scores. Redis's ZRANGEBYSCORE and ZREVRANGEBYSCORE. Parameters
    /// as for <see cref="SortedSetCommands.SortedSetRangeByScoreAsync"/>, exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<ScoredMember[]> SortedSetRangeByScoreAsync(Argument key, Argument min, Argument max, bool isDescending = false,
        long skip = 0, long take = -1, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Scored, cancellation, isDescending ? "ZREVRANGEBYSCORE" : "ZRANGEBYSCORE", key, isDescending ? max : min,
            isDescending ? min : max, "WITHSCORES", "LIMIT", skip, take);

    /// <summary>How many members a sorted set had. Redis's ZCARD. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<long> SortedSetCountAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Integer, cancellation, "ZCARD", key);

    /// <summary>How many members had a score in a range. Redis's ZCOUNT. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<long> SortedSetCountAsync(Argument key, Argument min, Argument max, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Integer, cancellation, "ZCOUNT", key, min, max);

    /// <summary>The entries of a stream from one id to another, both included, from either end. Redis's XRANGE and XREVRANGE. Parameters as
    /// for <see cref="StreamCommands.StreamRangeAsync"/>, exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<StreamEntry[]> StreamRangeAsync(Argument key, string from = "-", string to = "+", long? count = null,
        bool isDescending = false, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Entries, cancellation, isDescending ? "XREVRANGE" : "XRANGE",
            [key, isDescending ? to : from, isDescending ? from : to, .. StreamCommands.Count(count)]);

    /// <summary>How many entries a stream had. Redis's XLEN. Parameters and exceptions as for <see cref="GetAsync"/>.</summary>
    public ValueTask<long> StreamLengthAsync(Argument key, CancellationToken cancellation = default) =>
        ReadAsync(Replies.Integer, cancellation, "XLEN", key);

    /// <summary>Runs a script that only reads the keys that it is given. Redis's EVAL_RO. Exceptions as for <see cref="GetAsync"/>.</summary>
    /// <param name="script">Its text.</param>
    /// <param name="keys">All keys that it uses, one at least: KEYS. All are in one partition.</param>
    /// <param name="arguments">What it is given besides: ARGV.</param>
    /// <param name="cancellation">Ends the wait for the answer.</param>
    /// <returns>What the script returns.</returns>
    public ValueTask<RespValue> ScriptEvaluateAsync(string script, IReadOnlyCollection<Argument> keys,
        IReadOnlyCollection<Argument>? arguments = null, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(script);
        ArgumentNullException.ThrowIfNull(keys);
        return ReadAsync(Replies.Value, cancellation, "EVAL_RO", [script, keys.Count, .. keys, .. arguments ?? []]);
    }
}
