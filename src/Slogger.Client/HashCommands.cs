// Commands of hashes.
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>Commands of hashes. Names of fields and values come back as text (UTF-8); <see cref="HashGetBytesAsync"/> gives
/// bytes.</summary>
public static class HashCommands
{
    /// <summary>A field's value; null: there is none. Redis's HGET. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string?>> HashGetAsync(this SloggerSession session, Argument key, Argument field,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Text, flags, cancellation, "HGET"u8, key, field);

    /// <summary>A field's value as bytes; null: there is none. Redis's HGET. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<byte[]?>> HashGetBytesAsync(this SloggerSession session, Argument key, Argument field,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Bytes, flags, cancellation, "HGET"u8, key, field);

    /// <summary>The values of several fields, in the order of the fields; null: there is none. Redis's HMGET. Parameters and exceptions as
    /// for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string?[]>> HashGetAsync(this SloggerSession session, Argument key, IReadOnlyCollection<Argument> fields,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.TextsOrNone, flags, cancellation, "HMGET"u8, key, [.. fields]);

    /// <summary>All fields and their values, in no order; none if there is no hash. Redis's HGETALL. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<KeyValuePair<string, string>[]>> HashGetAllAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Pairs, flags, cancellation, "HGETALL"u8, key);

    /// <summary>The names of all fields, in no order. Redis's HKEYS. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<string[]>> HashKeysAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Texts, flags, cancellation, "HKEYS"u8, key);

    /// <summary>How many fields there are. Redis's HLEN. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<long>> HashLengthAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "HLEN"u8, key);

    /// <summary>Whether a field is there. Redis's HEXISTS. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<bool>> HashExistsAsync(this SloggerSession session, Argument key, Argument field,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsOne, flags, cancellation, "HEXISTS"u8, key, field);

    /// <summary>Sets a field. Redis's HSET. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>Whether the field is new.</returns>
    public static ValueTask<Result<bool>> HashSetAsync(this SloggerSession session, Argument key, Argument field, Argument value,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsOne, flags, cancellation, "HSET"u8, key, field, value);

    /// <summary>Sets several fields. Redis's HSET. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many of them are new.</returns>
    public static ValueTask<Result<long>> HashSetAsync(this SloggerSession session, Argument key,
        IReadOnlyCollection<KeyValuePair<string, Argument>> fields,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "HSET"u8, key, fields.InTurn());

    /// <summary>Sets a field if it is not there. Redis's HSETNX. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>Whether it was set.</returns>
    public static ValueTask<Result<bool>> HashSetIfAbsentAsync(this SloggerSession session, Argument key, Argument field, Argument value,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsOne, flags, cancellation, "HSETNX"u8, key, field, value);

    /// <summary>Deletes a field. Redis's HDEL. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>Whether it was there.</returns>
    public static ValueTask<Result<bool>> HashDeleteAsync(this SloggerSession session, Argument key, Argument field,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.IsOne, flags, cancellation, "HDEL"u8, key, field);

    /// <summary>Deletes several fields. Redis's HDEL. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many of them were there.</returns>
    public static ValueTask<Result<long>> HashDeleteAsync(this SloggerSession session, Argument key, IReadOnlyCollection<Argument> fields,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "HDEL"u8, key, [.. fields]);

    /// <summary>Adds to a field's number, which is 0 if there is none. Redis's HINCRBY. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>The sum.</returns>
    public static ValueTask<Result<long>> HashIncrementAsync(this SloggerSession session, Argument key, Argument field, long by = 1,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "HINCRBY"u8, key, field, by);

    /// <summary>Adds to a field's number, which is 0 if there is none. Redis's HINCRBYFLOAT. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>The sum.</returns>
    public static ValueTask<Result<double>> HashIncrementAsync(this SloggerSession session, Argument key, Argument field, double by,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Number, flags, cancellation, "HINCRBYFLOAT"u8, key, field, by);

    /// <summary>Names and values in turn.</summary>
    internal static Argument[] InTurn(this IReadOnlyCollection<KeyValuePair<string, Argument>> fields) =>
        [.. fields.SelectMany(f => (Argument[])[f.Key, f.Value])];
}
