// What slogger move does at a cluster's metadata: shows the owners and the moves, plans a move and watches it, calls one off.
using System.Collections.Immutable;
using Slogger.Cli.Terminal;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Metadata;

namespace Slogger.Cli;

/// <summary>One run of the command.</summary>
/// <param name="metadata">The metadata.</param>
/// <param name="partitions">How the cluster's keys fall into partitions.</param>
/// <param name="cluster">Its name.</param>
/// <param name="host">Where it is shown.</param>
/// <param name="asJson">For a program.</param>
/// <param name="stop">Ends it; a move that was planned goes on.</param>
internal sealed class MoveRun(IMetadataStore metadata, Partitioning partitions, string cluster, AppHost host, bool asJson,
    CancellationToken stop)
{
    private static readonly TimeSpan LookPeriod = TimeSpan.FromMilliseconds(100);

    // How long the metadata may be away before the command gives up; the move goes on by itself.
    private static readonly TimeSpan Patience = TimeSpan.FromMinutes(2);

    public async Task<CommandResult> ListAsync()
    {
        OwnershipTable table = await metadata.OwnershipAsync(cluster, stop).ConfigureAwait(false);
        IReadOnlyDictionary<MoveId, string> notes = await metadata.MoveNotesAsync(cluster, stop).ConfigureAwait(false);
        new OwnersReport(partitions.Noun,
            [.. table.Map.Rows.Select(row => new OwnerFacts($"{row.Slots}",
                partitions.KeysOf(row.Slots) is { Length: > 0 } keys ? keys : null, row.Shard.Number))],
            [.. table.Moves.Select(move => FactsOf(move, notes))]).Write(host, asJson);
        return CommandResult.Done;
    }

    public async Task<CommandResult> CancelAsync(ImmutableArray<SlotRange> slots)
    {
        OwnershipTable table = await metadata.OwnershipAsync(cluster, stop).ConfigureAwait(false);
        SlotMove[] moves = [.. table.Moves.Where(m => m.Slots.Any(s => slots.Any(s.Overlaps)))];
        if (moves.Length == 0)
        {
            return CommandResult.Failed($"no unfinished move has any of the {Text(slots)}", "slogger move --list shows the moves");
        }
        List<MoveFacts> calledOff = [];
        try
        {
            foreach (SlotMove move in moves)
            {
                if (!await metadata.CancelMoveAsync(cluster, move.Id, stop).ConfigureAwait(false))
                {
                    return CommandResult.Failed($"move {move.Id.Number} of {Text(move.Slots)} has landed: shard {move.To} owns them",
                        $"move them back: slogger move --{Text(move.Slots)} --to {move.From}");
                }
                calledOff.Add(MoveFacts.Of(move, partitions.Noun, null) with { State = nameof(MoveState.Cancelled) });
            }
            return CommandResult.Done;
        }
        finally
        {
            // Those before one that could not be are.
            new CancelledReport(calledOff).Write(host, asJson);
        }
    }

    public async Task<CommandResult> MoveAsync(ImmutableArray<SlotRange> slots, ShardId to, bool waits)
    {
        MovePlan plan = await metadata.PlanMoveAsync(cluster, slots, to, stop).ConfigureAwait(false);
        if (plan.Move is not { } id)
        {
            // The same command again, after it was interrupted: goes on showing.
            SlotMove? same = (await metadata.OwnershipAsync(cluster, stop).ConfigureAwait(false)).Moves
                .FirstOrDefault(m => m.To == to && m.Slots.SequenceEqual(slots) && m.State != MoveState.Cancelled);
            if (same is null) { return CommandResult.Failed(plan.Error!, "slogger move --list shows owners and moves"); }
            id = same.Id;
        }
        if (!asJson || !waits) { ReportOf(id, slots, to, isDone: false).Write(host, asJson); }
        return waits ? await WatchAsync(id, slots, to).ConfigureAwait(false) : CommandResult.Done;
    }

    private async Task<CommandResult> WatchAsync(MoveId id, ImmutableArray<SlotRange> slots, ShardId to)
    {
        string shown = "";
        TextWriter progress = Report.Progress(host, asJson);
        DateTime lastAnswer = DateTime.UtcNow;
        while (true)
        {
            try
            {
                OwnershipTable table = await metadata.OwnershipAsync(cluster, stop).ConfigureAwait(false);
                IReadOnlyDictionary<MoveId, string> notes = await metadata.MoveNotesAsync(cluster, stop).ConfigureAwait(false);
                lastAnswer = DateTime.UtcNow;
                if (table.Moves.FirstOrDefault(m => m.Id == id) is not { } move)
                {
                    bool isThere = slots.All(s => table.Map.Owner(s.First) == to);
                    if (!isThere)
                    {
                        return CommandResult.Failed($"move {id.Number} was called off: its {partitions.Noun} stayed where they were");
                    }
                    ReportOf(id, slots, to, isDone: true).Write(host, asJson);
                    return CommandResult.Done;
                }
                string now = FactsOf(move, notes).Text;
                if (now != shown)
                {
                    progress.WriteLine(now);
                    progress.Flush();
                }
                shown = now;
            }
            catch (MetadataUnavailableException) when (DateTime.UtcNow - lastAnswer < Patience)
            {
                // It goes on by itself; so does this when the database is back.
            }
            await Task.Delay(LookPeriod, stop).ConfigureAwait(false);
        }
    }

    private MoveFacts FactsOf(SlotMove move, IReadOnlyDictionary<MoveId, string> notes) =>
        MoveFacts.Of(move, partitions.Noun, notes.GetValueOrDefault(move.Id));

    private MoveReport ReportOf(MoveId id, ImmutableArray<SlotRange> slots, ShardId to, bool isDone) =>
        new(id.Number, partitions.Noun, MoveFacts.RangesOf(slots), to.Number, isDone);

    private string Text(ImmutableArray<SlotRange> slots) => $"{partitions.Noun} {MoveFacts.RangesOf(slots)}";
}
