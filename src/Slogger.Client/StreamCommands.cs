// Commands of streams. Those that block are refused by the proxy.
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>An entry of a stream.</summary>
/// <param name="Id">Its id, as <c>1700000000000-0</c>.</param>
/// <param name="Fields">Names and values in their order, as text (UTF-8). None: it was deleted while a consumer had it.</param>
public readonly record struct StreamEntry(string Id, IReadOnlyList<KeyValuePair<string, string>> Fields);

/// <summary>What the consumers of a group have been given and have not acknowledged.</summary>
/// <param name="Count">How many entries.</param>
/// <param name="First">The id of the first of them; null: there is none.</param>
/// <param name="Last">The id of the last of them; null: there is none.</param>
/// <param name="Consumers">The consumers that have some, each with how many.</param>
public readonly record struct StreamPending(
    long Count, string? First, string? Last, IReadOnlyList<KeyValuePair<string, long>> Consumers);

/// <summary>Commands of streams. Ids are as Redis writes them. Fields come back as text (UTF-8).</summary>
public static class StreamCommands
{
    /// <summary>Appends an entry. Redis's XADD. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <param name="session">The session.</param>
    /// <param name="key">The key.</param>
    /// <param name="fields">Names and values.</param>
    /// <param name="id">Its id; <c>*</c>: Redis gives it one.</param>
    /// <param name="maxLength">How many entries stay then, the last ones; null: all.</param>
    /// <param name="isApproximate">Some more may stay, which costs Redis less.</param>
    /// <param name="flags">What is asked for besides.</param>
    /// <param name="cancellation">Ends the wait for the answer.</param>
    /// <returns>Its id.</returns>
    public static ValueTask<Result<string>> StreamAddAsync(this SloggerSession session, Argument key,
        IReadOnlyCollection<KeyValuePair<string, Argument>> fields, string id = "*", long? maxLength = null, bool isApproximate = false,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Name, flags, cancellation, "XADD"u8, key,
            [.. maxLength is { } most ? MaxLength(most, isApproximate) : [], id, .. fields.InTurn()]);

    /// <summary>The entries from one id to another, both included, the first or the last ones first. Redis's XRANGE and XREVRANGE.
    /// Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <param name="session">The session.</param>
    /// <param name="key">The key.</param>
    /// <param name="from">The lower id; <c>-</c>: the first one.</param>
    /// <param name="to">The higher id; <c>+</c>: the last one.</param>
    /// <param name="count">How many there may be; null: all.</param>
    /// <param name="isDescending">Whether the last one comes first.</param>
    /// <param name="flags">What is asked for besides.</param>
    /// <param name="cancellation">Ends the wait for the answer.</param>
    public static ValueTask<Result<StreamEntry[]>> StreamRangeAsync(this SloggerSession session, Argument key, string from = "-",
        string to = "+", long? count = null, bool isDescending = false,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Entries, flags, cancellation, isDescending ? "XREVRANGE"u8 : "XRANGE"u8, key,
            [isDescending ? to : from, isDescending ? from : to, .. Count(count)]);

    /// <summary>The entries behind an id, as many as there are at most. Redis's XREAD of one stream. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<StreamEntry[]>> StreamReadAsync(this SloggerSession session, Argument key, string after = "0",
        long? count = null, OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKeys(Replies.EntriesOfOneStream, flags, cancellation, "XREAD", [.. Count(count), "STREAMS", key, after]);

    /// <summary>How many entries there are. Redis's XLEN. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<long>> StreamLengthAsync(this SloggerSession session, Argument key,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "XLEN"u8, key);

    /// <summary>Deletes entries. Redis's XDEL. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many of them were there.</returns>
    public static ValueTask<Result<long>> StreamDeleteAsync(this SloggerSession session, Argument key, IReadOnlyCollection<string> ids,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "XDEL"u8, key, [.. ids]);

    /// <summary>Keeps the last entries, and deletes the others. Redis's XTRIM. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <param name="session">The session.</param>
    /// <param name="key">The key.</param>
    /// <param name="maxLength">How many entries stay.</param>
    /// <param name="isApproximate">Some more may stay, which costs Redis less.</param>
    /// <param name="flags">What is asked for besides.</param>
    /// <param name="cancellation">Ends the wait for the answer.</param>
    /// <returns>How many were deleted.</returns>
    public static ValueTask<Result<long>> StreamTrimAsync(this SloggerSession session, Argument key, long maxLength,
        bool isApproximate = false, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "XTRIM"u8, key, MaxLength(maxLength, isApproximate));

    /// <summary>Makes a group of consumers, and the stream if it is not there. A group that is there is an error (BUSYGROUP). Redis's
    /// XGROUP CREATE. Parameters and exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <param name="session">The session.</param>
    /// <param name="key">The key.</param>
    /// <param name="group">The group's name.</param>
    /// <param name="after">The group is given the entries behind this id; <c>$</c>: those that are added from now on.</param>
    /// <param name="flags">What is asked for besides.</param>
    /// <param name="cancellation">Ends the wait for the answer.</param>
    /// <returns>True.</returns>
    public static ValueTask<Result<bool>> StreamGroupCreateAsync(this SloggerSession session, Argument key, Argument group,
        string after = "$", OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKeys(Replies.IsDone, flags, cancellation, "XGROUP", "CREATE", key, group, after, "MKSTREAM");

    /// <summary>Gives entries to a consumer of a group, as many as there are at most. Redis's XREADGROUP of one stream. Parameters and
    /// exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <param name="session">The session.</param>
    /// <param name="key">The key.</param>
    /// <param name="group">The group's name.</param>
    /// <param name="consumer">The consumer's name.</param>
    /// <param name="after"><c>&gt;</c>: entries that the group was not given yet. An id: what this consumer was given behind it, and has
    /// not acknowledged.</param>
    /// <param name="count">How many there may be; null: all.</param>
    /// <param name="flags">What is asked for besides.</param>
    /// <param name="cancellation">Ends the wait for the answer.</param>
    public static ValueTask<Result<StreamEntry[]>> StreamReadGroupAsync(this SloggerSession session, Argument key, Argument group,
        Argument consumer, string after = ">", long? count = null,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKeys(Replies.EntriesOfOneStream, flags, cancellation, "XREADGROUP",
            ["GROUP", group, consumer, .. Count(count), "STREAMS", key, after]);

    /// <summary>Says that entries which a group was given are done with. Redis's XACK. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <returns>How many of them were pending.</returns>
    public static ValueTask<Result<long>> StreamAcknowledgeAsync(this SloggerSession session, Argument key, Argument group,
        IReadOnlyCollection<string> ids, OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Integer, flags, cancellation, "XACK"u8, key, [group, .. ids]);

    /// <summary>What a group was given and has not acknowledged, as a summary. Redis's XPENDING. Parameters and exceptions as for
    /// <see cref="SloggerSession.GetAsync"/>.</summary>
    public static ValueTask<Result<StreamPending>> StreamPendingAsync(this SloggerSession session, Argument key, Argument group,
        OperationFlags flags = OperationFlags.Idempotent, CancellationToken cancellation = default) =>
        session.OnKey(Replies.Pending, flags, cancellation, "XPENDING"u8, key, group);

    internal static Argument[] Count(long? count) => count is { } most ? ["COUNT", most] : [];

    private static Argument[] MaxLength(long most, bool isApproximate) => ["MAXLEN", isApproximate ? "~" : "=", most];
}
