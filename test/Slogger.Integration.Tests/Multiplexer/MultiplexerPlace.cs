// Keys of one slot that one worker alone writes, and what it knows of them. Every value names its key and a number.
using System.Globalization;

namespace Slogger.Integration.Tests.Multiplexer;

internal sealed class MultiplexerPlace(string tag)
{
    // The number of the last SET that was sent, that was answered (null: it is not known what is there), that is committed.
    public long Sent, Committed;

    // Of the counter: how many increments were sent, answered, and committed.
    public long IncrementsSent, IncrementsAnswered, IncrementsCommitted;

    // Of list and stream: how many elements were sent.
    public long PushesSent, EntriesSent;

    public long? Known { get; set; } = 0;

    /// <summary>Something failed: what was sent may be done late, so nobody writes here any more.</summary>
    public bool IsUncertain { get; set; }

    public string Text { get; } = "{" + tag + "}text";

    public string Counter { get; } = "{" + tag + "}counter";

    public string Hash { get; } = "{" + tag + "}hash";

    public string List { get; } = "{" + tag + "}list";

    public string Stream { get; } = "{" + tag + "}stream";

    public string Lock { get; } = "{" + tag + "}lock";

    public string Large { get; } = "{" + tag + "}large";

    public static string Value(string key, long number) => string.Create(CultureInfo.InvariantCulture, $"{key}#{number}");

    /// <summary>The number of a value of the key; -1 if it is another key's, 0 if there is none.</summary>
    public static long NumberOf(string key, string? value) =>
        value is null ? 0
        : value.StartsWith(key + "#", StringComparison.Ordinal)
        && long.TryParse(value[(key.Length + 1)..], NumberStyles.None, CultureInfo.InvariantCulture, out long number) ? number : -1;

    /// <summary>Whether the text may hold this now.</summary>
    public bool MayHold(string? value) => NumberOf(Text, value) is var number && number >= Committed && number <= Sent;

    /// <summary>Whether the counter may be at this now.</summary>
    public bool MayCount(long value) => value >= IncrementsCommitted && value <= IncrementsSent;
}
