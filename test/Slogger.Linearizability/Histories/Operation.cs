// What a client did, and what it was told: the only thing that the checkers look at.
//
// An operation is a transaction of one or more steps. On registers it has one step; on lists it may have several, which a right store
// does at one moment. Values that are written are numbers, and no two operations write the same one to the same key: so a read says
// whose write it has seen.
using System.Globalization;
using System.Text.Json.Serialization;

namespace Slogger.Linearizability.Histories;

/// <summary>What a step does.</summary>
internal enum StepKind
{
    /// <summary>Reads a register. <see cref="Step.Value"/> is what it held, null for nothing.</summary>
    Read,

    /// <summary>Sets a register to <see cref="Step.Value"/>.</summary>
    Write,

    /// <summary>Sets a register to <see cref="Step.Value"/> if it holds <see cref="Step.Expected"/> (null: nothing).</summary>
    CompareAndSet,

    /// <summary>Appends <see cref="Step.Value"/> to a list.</summary>
    Append,

    /// <summary>Reads a whole list into <see cref="Step.List"/>.</summary>
    ReadList,
}

/// <summary>What is known of an operation's effect.</summary>
internal enum Outcome
{
    /// <summary>It happened, between its invocation and its return.</summary>
    Done,

    /// <summary>It did not happen, and never will.</summary>
    Failed,

    /// <summary>It may have happened at any time after its invocation, or may yet, or never.</summary>
    Unknown,
}

/// <summary>One step of an operation. Results are null where the outcome is unknown.</summary>
/// <param name="Kind">What it does.</param>
/// <param name="Key">The register or list.</param>
internal sealed record Step(StepKind Kind, string Key)
{
    public long? Value { get; init; }

    public long? Expected { get; init; }

    /// <summary>Of a compare-and-set: whether the value was set.</summary>
    public bool? Succeeded { get; init; }

    public long[]? List { get; init; }

    [JsonIgnore]
    public bool IsOfList => Kind is StepKind.Append or StepKind.ReadList;

    public static Step Read(string key, long? value) => new(StepKind.Read, key) { Value = value };

    public static Step Write(string key, long value) => new(StepKind.Write, key) { Value = value };

    public static Step CompareAndSet(string key, long? expected, long value, bool? succeeded) =>
        new(StepKind.CompareAndSet, key) { Expected = expected, Value = value, Succeeded = succeeded };

    public static Step Append(string key, long value) => new(StepKind.Append, key) { Value = value };

    public static Step ReadList(string key, params long[]? list) => new(StepKind.ReadList, key) { List = list };

    /// <summary>In words, as "read r1: 17".</summary>
    public override string ToString() => Kind switch
    {
        StepKind.Read => $"read {Key}: {Said(Value)}",
        StepKind.Write => $"set {Key} to {Said(Value)}",
        StepKind.CompareAndSet => $"set {Key} from {Said(Expected)} to {Said(Value)}"
            + (Succeeded switch { true => ", which succeeded", false => ", which was refused", null => "" }),
        StepKind.Append => $"appended {Said(Value)} to {Key}",
        _ => $"read {Key}: {(List is null ? "?" : Said(List))}",
    };

    private static string Said(long? value) => value?.ToString(CultureInfo.InvariantCulture) ?? "nothing";

    private static string Said(long[] list)
    {
        const int Shown = 12;
        string end = string.Join(' ', list.TakeLast(Shown));
        return list.Length == 0 ? "[]" : list.Length <= Shown ? $"[{end}]" : $"[{list.Length - Shown} numbers, then {end}]";
    }
}

/// <summary>An operation of one client.</summary>
/// <param name="Id">Unique in its history.</param>
/// <param name="Client">Who did it. A client has one operation at a time.</param>
/// <param name="Steps">At least one; of registers exactly one.</param>
/// <param name="Outcome">What is known of it.</param>
/// <param name="InvokedUs">Before anything of it was sent; microseconds of a monotonic clock that all clients share.</param>
/// <param name="ReturnedUs">After its whole answer had come. Without a meaning unless it is done.</param>
internal sealed record Operation(int Id, int Client, Step[] Steps, Outcome Outcome, long InvokedUs, long ReturnedUs)
{
    /// <summary>The only step of an operation on a register.</summary>
    [JsonIgnore]
    public Step Step => Steps[0];

    [JsonIgnore]
    public bool IsAcknowledgedWrite => Outcome == Outcome.Done
        && Steps.Any(s => s.Kind is StepKind.Write or StepKind.Append || s is { Kind: StepKind.CompareAndSet, Succeeded: true });

    /// <summary>In words, with client and time.</summary>
    public override string ToString()
    {
        string steps = string.Join("; ", Steps.Select(s => s.ToString()));
        string ended = Outcome switch
        {
            Outcome.Done => $"to {Ms(ReturnedUs)} ms",
            Outcome.Failed => "and was refused",
            _ => "and never knew whether it was done",
        };
        return $"#{Id} client {Client}, from {Ms(InvokedUs)} {ended}: {steps}";
    }

    private static string Ms(long us) => (us / 1000.0).ToString("0.000", CultureInfo.InvariantCulture);
}
