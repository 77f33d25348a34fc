// Commands of lists. Those that block are refused by the proxy.
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>Commands of lists. Values come back as text (UTF-8). Places count from 0, or from the end: -1 is the last value.</summary>
public static class ListCommands
{
    /// <summary>Appends to a list. Redis's RPUSH. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>The list's length then.</returns>
    public static ValueTask<Result<long>> ListAppendAsync(this SloggerSession session, Argument key, Argument value,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "RPUSH"u8, key, value);

    /// <summary>Appends several values to a list, in their order. Redis's RPUSH. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>The list's length then.</returns>
    public static ValueTask<Result<long>> ListAppendAsync(this SloggerSession session, Argument key, IReadOnlyCollection<Argument> values,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "RPUSH"u8, key, [.. values]);

    /// <summary>Puts a value before a list. Redis's LPUSH. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>The list's length then.</returns>
    public static ValueTask<Result<long>> ListPrependAsync(this SloggerSession session, Argument key, Argument value,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "LPUSH"u8, key, value);

    /// <summary>Puts several values before a list, one after the other: the last of them is the first then. Redis's LPUSH. Parameters and
    /// exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>The list's length then.</returns>
    public static ValueTask<Result<long>> ListPrependAsync(this SloggerSession session, Argument key, IReadOnlyCollection<Argument> values,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "LPUSH"u8, key, [.. values]);

    /// <summary>Takes the first value out; null: there is none. Redis's LPOP. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string?>> ListPopFirstAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Text, flags, cancellation, "LPOP"u8, key);

    /// <summary>Takes the first values out, as many as there are at most. Redis's LPOP. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string[]>> ListPopFirstAsync(this SloggerSession session, Argument key, long count,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Texts, flags, cancellation, "LPOP"u8, key, count);

    /// <summary>Takes the last value out; null: there is none. Redis's RPOP. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string?>> ListPopLastAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Text, flags, cancellation, "RPOP"u8, key);

    /// <summary>Takes the last values out, the last one first, as many as there are at most. Redis's RPOP. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string[]>> ListPopLastAsync(this SloggerSession session, Argument key, long count,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Texts, flags, cancellation, "RPOP"u8, key, count);

    /// <summary>The values from one place to another, both included. Redis's LRANGE. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string[]>> ListRangeAsync(this SloggerSession session, Argument key, long start = 0, long stop = -1,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Texts, flags, cancellation, "LRANGE"u8, key, start, stop);

    /// <summary>The value at a place; null: there is none. Redis's LINDEX. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string?>> ListGetAsync(this SloggerSession session, Argument key, long index,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Text, flags, cancellation, "LINDEX"u8, key, index);

    /// <summary>How many values there are. Redis's LLEN. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<long>> ListLengthAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "LLEN"u8, key);

    /// <summary>Sets the value at a place, which is an error if there is none. Redis's LSET. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>True.</returns>
    public static ValueTask<Result<bool>> ListSetAsync(this SloggerSession session, Argument key, long index, Argument value,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsDone, flags, cancellation, "LSET"u8, key, index, value);

    /// <summary>Keeps the values from one place to another, both included, and removes the others. Redis's LTRIM. Parameters and exceptions
    /// as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>True.</returns>
    public static ValueTask<Result<bool>> ListTrimAsync(this SloggerSession session, Argument key, long start, long stop,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsDone, flags, cancellation, "LTRIM"u8, key, start, stop);

    /// <summary>Removes a value wherever it is; with a count so often at most, from the beginning, or if it is negative from the end.
    /// Redis's LREM. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How often it was removed.</returns>
    public static ValueTask<Result<long>> ListRemoveAsync(this SloggerSession session, Argument key, Argument value, long count = 0,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "LREM"u8, key, count, value);
}
