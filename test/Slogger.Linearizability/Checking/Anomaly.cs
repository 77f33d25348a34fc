// What a checker found: its name, why it is wrong, and the few operations that show it.
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Checking;

/// <summary>The kinds of wrong. The names of the papers stand behind them where they have one.</summary>
internal enum AnomalyKind
{
    /// <summary>A value was read that nobody wrote.</summary>
    NeverWritten,

    /// <summary>A value was read whose write was refused (G1a).</summary>
    AbortedRead,

    /// <summary>A read has missed a write that was acknowledged before it began, and that others saw later.</summary>
    StaleRead,

    /// <summary>A write that was acknowledged is missing afterwards: an older value is there again.</summary>
    LostWrite,

    /// <summary>A write that had no answer was seen, and is missing afterwards.</summary>
    SeenThenLost,

    /// <summary>A compare-and-set succeeded on a value that had been replaced, or two succeeded on the same one.</summary>
    CompareAndSetOnOldValue,

    /// <summary>A compare-and-set was refused though its value was there.</summary>
    RefusedWrongly,

    /// <summary>An append that was acknowledged is missing in each later read of the list.</summary>
    LostAppend,

    /// <summary>A list holds a value twice that was appended once.</summary>
    AppliedTwice,

    /// <summary>Two reads of a list disagree on its order, so neither is the beginning of the other.</summary>
    IncompatibleOrders,

    /// <summary>A transaction's appends to one list were seen in part (G1b).</summary>
    IntermediateRead,

    /// <summary>A transaction did not see what it had done itself (internal).</summary>
    OwnStepMissed,

    /// <summary>Writes stand in a circle (G0).</summary>
    WriteCycle,

    /// <summary>Transactions have seen each other in a circle (G1c).</summary>
    InformationCycle,

    /// <summary>A transaction saw one part of another and missed the other part, or the like (G-single, G2).</summary>
    MissedWriteCycle,

    /// <summary>No order explains the results, and no simpler name fits.</summary>
    NotLinearizable,
}

/// <summary>One finding.</summary>
/// <param name="Kind">What it is called.</param>
/// <param name="Text">Why that is wrong, in a sentence or two.</param>
/// <param name="Operations">The fewest operations that show it, in the order of their invocations.</param>
internal sealed record Anomaly(AnomalyKind Kind, string Text, IReadOnlyList<Operation> Operations)
{
    /// <summary>The whole of it, a line for each operation.</summary>
    public override string ToString() => $"{Kind}: {Text}\n" + string.Join('\n', Operations.Select(o => "  " + o));

    public static Anomaly Of(AnomalyKind kind, string text, params IEnumerable<Operation> operations) =>
        new(kind, text, [.. operations.DistinctBy(o => o.Id).OrderBy(o => o.InvokedUs)]);
}
