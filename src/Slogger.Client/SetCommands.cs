// Commands of sets.
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>Commands of sets. Members come back as text (UTF-8).</summary>
public static class SetCommands
{
    /// <summary>Adds a member. Redis's SADD. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>Whether it is new.</returns>
    public static ValueTask<Result<bool>> SetAddAsync(this SloggerSession session, Argument key, Argument member,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsOne, flags, cancellation, "SADD"u8, key, member);

    /// <summary>Adds several members. Redis's SADD. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many of them are new.</returns>
    public static ValueTask<Result<long>> SetAddAsync(this SloggerSession session, Argument key, IReadOnlyCollection<Argument> members,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "SADD"u8, key, [.. members]);

    /// <summary>Removes a member. Redis's SREM. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>Whether it was there.</returns>
    public static ValueTask<Result<bool>> SetRemoveAsync(this SloggerSession session, Argument key, Argument member,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsOne, flags, cancellation, "SREM"u8, key, member);

    /// <summary>Removes several members. Redis's SREM. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many of them were there.</returns>
    public static ValueTask<Result<long>> SetRemoveAsync(this SloggerSession session, Argument key, IReadOnlyCollection<Argument> members,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "SREM"u8, key, [.. members]);

    /// <summary>Whether a member is there. Redis's SISMEMBER. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<bool>> SetContainsAsync(this SloggerSession session, Argument key, Argument member,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsOne, flags, cancellation, "SISMEMBER"u8, key, member);

    /// <summary>All members, in no order. Redis's SMEMBERS. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string[]>> SetMembersAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Texts, flags, cancellation, "SMEMBERS"u8, key);

    /// <summary>How many members there are. Redis's SCARD. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<long>> SetCountAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "SCARD"u8, key);

    /// <summary>Takes any member out; null: there is none. Redis's SPOP. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string?>> SetPopAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Text, flags, cancellation, "SPOP"u8, key);

    /// <summary>Takes several members out, as many as there are at most. Redis's SPOP. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string[]>> SetPopAsync(this SloggerSession session, Argument key, long count,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Texts, flags, cancellation, "SPOP"u8, key, count);

    /// <summary>Any member, which stays; null: there is none. Redis's SRANDMEMBER. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string?>> SetRandomAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Text, flags, cancellation, "SRANDMEMBER"u8, key);

    /// <summary>Several members, which stay: different ones, as many as there are at most; if the count is negative so many in any case,
    /// some perhaps more than once. Redis's SRANDMEMBER. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string[]>> SetRandomAsync(this SloggerSession session, Argument key, long count,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Texts, flags, cancellation, "SRANDMEMBER"u8, key, count);
}
