// Commands of sorted sets.
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>A member of a sorted set.</summary>
/// <param name="Member">The member, as text (UTF-8).</param>
/// <param name="Score">What it is sorted by.</param>
public readonly record struct ScoredMember(string Member, double Score);

/// <summary>Commands of sorted sets. Members come back as text (UTF-8). Ranks count from 0, or from the end: -1 is the last one. A bound of
/// scores is a number, or a text as Redis takes it: <c>(5</c> is 5 and not included, <c>-inf</c> and <c>+inf</c> are no bounds.</summary>
public static class SortedSetCommands
{
    /// <summary>Adds a member, or sets its score. Redis's ZADD. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>Whether it is new.</returns>
    public static ValueTask<Result<bool>> SortedSetAddAsync(this SloggerSession session, Argument key, Argument member, double score,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsOne, flags, cancellation, "ZADD"u8, key, score, member);

    /// <summary>Adds several members, or sets their scores. Redis's ZADD. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many of them are new.</returns>
    public static ValueTask<Result<long>> SortedSetAddAsync(this SloggerSession session, Argument key,
        IReadOnlyCollection<ScoredMember> members,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "ZADD"u8, key, [.. members.SelectMany(m => (Argument[])[m.Score, m.Member])]);

    /// <summary>Removes a member. Redis's ZREM. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>Whether it was there.</returns>
    public static ValueTask<Result<bool>> SortedSetRemoveAsync(this SloggerSession session, Argument key, Argument member,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsOne, flags, cancellation, "ZREM"u8, key, member);

    /// <summary>Removes several members. Redis's ZREM. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many of them were there.</returns>
    public static ValueTask<Result<long>> SortedSetRemoveAsync(this SloggerSession session, Argument key,
        IReadOnlyCollection<Argument> members,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "ZREM"u8, key, [.. members]);

    /// <summary>Adds to a member's score, which is 0 if there is none. Redis's ZINCRBY. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>The sum.</returns>
    public static ValueTask<Result<double>> SortedSetIncrementAsync(this SloggerSession session, Argument key, Argument member,
        double by = 1, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Number, flags, cancellation, "ZINCRBY"u8, key, by, member);

    /// <summary>A member's score; null: it is not there. Redis's ZSCORE. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<double?>> SortedSetScoreAsync(this SloggerSession session, Argument key, Argument member,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.NumberOrNone, flags, cancellation, "ZSCORE"u8, key, member);

    /// <summary>A member's rank, by rising or falling scores; null: it is not there. Redis's ZRANK and ZREVRANK. Parameters and exceptions
    /// as for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<long?>> SortedSetRankAsync(this SloggerSession session, Argument key, Argument member,
        bool isDescending = false, OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IntegerOrNone, flags, cancellation, isDescending ? "ZREVRANK"u8 : "ZRANK"u8, key, member);

    /// <summary>The members from one rank to another, both included, by rising or falling scores. Redis's ZRANGE and ZREVRANGE. Parameters
    /// and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<ScoredMember[]>> SortedSetRangeByRankAsync(this SloggerSession session, Argument key,
        long start = 0, long stop = -1, bool isDescending = false,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Scored, flags, cancellation, isDescending ? "ZREVRANGE"u8 : "ZRANGE"u8, key, start, stop, "WITHSCORES");

    /// <summary>The members whose score is in a range, by rising or falling scores. Redis's ZRANGEBYSCORE and ZREVRANGEBYSCORE. Parameters
    /// and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <param name="session">The session.</param>
    /// <param name="key">The key.</param>
    /// <param name="min">The lower bound.</param>
    /// <param name="max">The upper bound.</param>
    /// <param name="isDescending">Whether the highest score comes first.</param>
    /// <param name="skip">How many are left out at the beginning.</param>
    /// <param name="take">How many there may be; -1: all.</param>
    /// <param name="flags">What is asked for besides.</param>
    /// <param name="cancellation">Ends the wait for the answer.</param>
    public static ValueTask<Result<ScoredMember[]>> SortedSetRangeByScoreAsync(this SloggerSession session, Argument key, Argument min,
        Argument max, bool isDescending = false, long skip = 0, long take = -1,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Scored, flags, cancellation, isDescending ? "ZREVRANGEBYSCORE"u8 : "ZRANGEBYSCORE"u8, key,
            isDescending ? max : min, isDescending ? min : max, "WITHSCORES", "LIMIT", skip, take);

    /// <summary>How many members there are. Redis's ZCARD. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<long>> SortedSetCountAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "ZCARD"u8, key);

    /// <summary>How many members have a score in a range. Redis's ZCOUNT. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<long>> SortedSetCountAsync(this SloggerSession session, Argument key, Argument min, Argument max,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "ZCOUNT"u8, key, min, max);

    /// <summary>Removes the members from one rank to another, both included. Redis's ZREMRANGEBYRANK. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many.</returns>
    public static ValueTask<Result<long>> SortedSetRemoveRangeByRankAsync(this SloggerSession session, Argument key, long start, long stop,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "ZREMRANGEBYRANK"u8, key, start, stop);

    /// <summary>Removes the members whose score is in a range. Redis's ZREMRANGEBYSCORE. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many.</returns>
    public static ValueTask<Result<long>> SortedSetRemoveRangeByScoreAsync(this SloggerSession session, Argument key, Argument min,
        Argument max, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "ZREMRANGEBYSCORE"u8, key, min, max);

    /// <summary>Takes the members with the lowest scores out, the lowest one first, as many as there are at most. Redis's ZPOPMIN.
    /// Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<ScoredMember[]>> SortedSetPopMinAsync(this SloggerSession session, Argument key, long count = 1,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Scored, flags, cancellation, "ZPOPMIN"u8, key, count);

    /// <summary>Takes the members with the highest scores out, the highest one first, as many as there are at most. Redis's ZPOPMAX.
    /// Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<ScoredMember[]>> SortedSetPopMaxAsync(this SloggerSession session, Argument key, long count = 1,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Scored, flags, cancellation, "ZPOPMAX"u8, key, count);
}
