// What slogger move shows: who owns which partitions (hash slots, or ranges of keys), and moves of them.
using System.Collections.Immutable;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;
using Slogger.Core.Ownership;

namespace Slogger.Cli;

/// <summary>Owners, and moves that are not finished.</summary>
/// <param name="Kind">slots or partitions: what the numbers are.</param>
/// <param name="Owners">All partitions, in order.</param>
/// <param name="Moves">Those that are not finished.</param>
internal sealed record OwnersReport(string Kind, IReadOnlyList<OwnerFacts> Owners, IReadOnlyList<MoveFacts> Moves) : Report
{
    protected override JsonTypeInfo Shape => ReportJson.Default.OwnersReport;

    public override void Print(AppHost host)
    {
        foreach (OwnerFacts owner in Owners)
        {
            host.Output.WriteLine($"{Kind} {owner.Partitions}{(owner.Keys is null ? "" : $" ({owner.Keys})")}: shard {owner.Shard}");
        }
        foreach (MoveFacts move in Moves) { host.Output.WriteLine(move.Text); }
    }
}

/// <summary>Partitions that one shard owns.</summary>
/// <param name="Partitions">As 0-99.</param>
/// <param name="Keys">Which keys these are; null where that is a hash's business.</param>
/// <param name="Shard">The owner.</param>
internal sealed record OwnerFacts(string Partitions, string? Keys, int Shard);

/// <summary>One move.</summary>
/// <param name="Number">Its number.</param>
/// <param name="Kind">slots or partitions.</param>
/// <param name="Partitions">As 0-99,200.</param>
/// <param name="From">The old owner.</param>
/// <param name="To">The new one.</param>
/// <param name="State">Planned, Leaving, Landed or Cancelled.</param>
/// <param name="Note">What stands in its way; null: nothing is known to.</param>
internal sealed record MoveFacts(long Number, [property: JsonIgnore] string Kind, string Partitions, int From, int To, string State,
    string? Note)
{
    public static MoveFacts Of(SlotMove move, string kind, string? note) => new(move.Id.Number, kind, RangesOf(move.Slots),
        move.From.Number, move.To.Number, move.State.ToString(), string.IsNullOrEmpty(note) ? null : note);

    public static string RangesOf(ImmutableArray<SlotRange> partitions) => string.Join(',', partitions);

    /// <summary>How far it is, for a person.</summary>
    [JsonIgnore]
    public string Text
    {
        get
        {
            string state = State switch
            {
                nameof(MoveState.Planned) => $"shard {From} serves, its keys are being copied",
                nameof(MoveState.Leaving) => "the last changes are being copied, requests wait",
                nameof(MoveState.Landed) => $"shard {To} serves; the old copy is deleted when the move is committed",
                _ => $"called off, what was copied is being deleted at shard {To}",
            };
            return $"move {Number}: {Kind} {Partitions} from shard {From} to shard {To}: {state}{(Note is null ? "" : $" ({Note})")}";
        }
    }
}

/// <summary>A move that was asked for.</summary>
/// <param name="Move">Its number.</param>
/// <param name="Kind">slots or partitions.</param>
/// <param name="Partitions">What moves.</param>
/// <param name="To">The new owner.</param>
/// <param name="IsDone">Whether the new owner has them, and the old copy is deleted; else it is planned, and goes on by itself.</param>
internal sealed record MoveReport(long Move, string Kind, string Partitions, int To, bool IsDone) : Report
{
    protected override JsonTypeInfo Shape => ReportJson.Default.MoveReport;

    public override void Print(AppHost host) => host.Output.WriteLine(IsDone
        ? $"move {Move} is done: shard {To} owns {Kind} {Partitions}, and the old copy is deleted"
        : $"move {Move}: {Kind} {Partitions} to shard {To}");
}

/// <summary>Moves that were called off.</summary>
/// <param name="CalledOff">Which.</param>
internal sealed record CancelledReport(IReadOnlyList<MoveFacts> CalledOff) : Report
{
    protected override JsonTypeInfo Shape => ReportJson.Default.CancelledReport;

    public override void Print(AppHost host)
    {
        foreach (MoveFacts move in CalledOff)
        {
            host.Output.WriteLine($"move {move.Number} is called off: {move.Kind} {move.Partitions} stay at shard {move.From}");
        }
    }
}
