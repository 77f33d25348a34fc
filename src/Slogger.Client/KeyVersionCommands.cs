// Values with their versions, and writes that are done if a version is still that one: Slogger's DPR.GETV, DPR.CPUT and so on.
using Slogger.Core.Keys;
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>A value, and the version of its key or field.</summary>
/// <param name="Value">The value; null: there is none.</param>
/// <param name="Version">It was not written since.</param>
public readonly record struct Versioned<T>(T Value, KeyVersion Version);

/// <summary>What came of a conditional write.</summary>
/// <param name="IsDone">Whether it was done: the version was the one that was expected.</param>
/// <param name="Version">The new version if it was done, else the present one.</param>
public readonly record struct ConditionalOutcome(bool IsDone, KeyVersion Version);

/// <summary>Commands with versions of keys. Every write of a key counts, by whomever, and so does its expiry. A write is done if the key
/// was not written since the version that is expected; <see cref="KeyVersion.Missing"/>: if there is no such key, or no such field. They
/// need proxies with <c>--commit log</c>.</summary>
public static class KeyVersionCommands
{
    /// <summary>A key's value as text (UTF-8), and its version. Slogger's DPR.GETV. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<Versioned<string?>>> GetVersionedAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.VersionedText, flags, cancellation, "DPR.GETV"u8, key);

    /// <summary>A key's value as bytes, and its version. Slogger's DPR.GETV. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<Versioned<byte[]?>>> GetVersionedBytesAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.VersionedBytes, flags, cancellation, "DPR.GETV"u8, key);

    /// <summary>Sets a key's value, and gives its new version. Slogger's DPR.PUTV. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<KeyVersion>> PutVersionedAsync(this SloggerSession session, Argument key, Argument value,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Version, flags, cancellation, "DPR.PUTV"u8, key, value);

    /// <summary>Deletes a key, and gives its new version. Slogger's DPR.DELV. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<KeyVersion>> DeleteVersionedAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Version, flags, cancellation, "DPR.DELV"u8, key);

    /// <summary>Sets a key's value if its version is the one that is expected. Slogger's DPR.CPUT. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<ConditionalOutcome>> PutIfAsync(this SloggerSession session, Argument key, KeyVersion expected,
        Argument value, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Outcome, flags, cancellation, "DPR.CPUT"u8, key, expected.ToString(), value);

    /// <summary>Sets a key's value for a time if its version is the one that is expected. Slogger's DPR.CPUT PX. Parameters and exceptions
    /// as for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<ConditionalOutcome>> PutIfAsync(this SloggerSession session, Argument key, KeyVersion expected,
        Argument value, TimeSpan expiry, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Outcome, flags, cancellation, "DPR.CPUT"u8, key, expected.ToString(), value, "PX",
            SloggerSession.Milliseconds(expiry));

    /// <summary>Deletes a key if its version is the one that is expected. Slogger's DPR.CDEL. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<ConditionalOutcome>> DeleteIfAsync(this SloggerSession session, Argument key, KeyVersion expected,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Outcome, flags, cancellation, "DPR.CDEL"u8, key, expected.ToString());

    /// <summary>A field's value as text (UTF-8), and its version. Slogger's DPR.HGETV. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<Versioned<string?>>> HashGetVersionedAsync(this SloggerSession session, Argument key, Argument field,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.VersionedText, flags, cancellation, "DPR.HGETV"u8, key, field);

    /// <summary>Sets a field if its version is the one that is expected. Slogger's DPR.HCPUT. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<ConditionalOutcome>> HashPutIfAsync(this SloggerSession session, Argument key, Argument field,
        KeyVersion expected, Argument value, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Outcome, flags, cancellation, "DPR.HCPUT"u8, key, field, expected.ToString(), value);

    /// <summary>Deletes a field if its version is the one that is expected. Slogger's DPR.HCDEL. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<ConditionalOutcome>> HashDeleteIfAsync(this SloggerSession session, Argument key, Argument field,
        KeyVersion expected, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Outcome, flags, cancellation, "DPR.HCDEL"u8, key, field, expected.ToString());
}
