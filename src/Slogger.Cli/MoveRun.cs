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
/// <param name="stop">Ends it; a move that was planned goes on.</param>
internal sealed class MoveRun(IMetadataStore metadata, Partitioning partitions, string cluster, AppHost host, CancellationToken stop)
{
    private static readonly TimeSpan LookPeriod = TimeSpan.FromMilliseconds(100);

    // How long the metadata may be away before the command gives up; the move goes on by itself.
    private static readonly TimeSpan Patience = TimeSpan.FromMinutes(2);

    public async Task<CommandResult> ListAsync()
    {
        OwnershipTable table = await metadata.OwnershipAsync(cluster, stop).ConfigureAwait(false);
        IReadOnlyDictionary<MoveId, string> notes = await metadata.MoveNotesAsync(cluster, stop).ConfigureAwait(false);
        foreach (SlotRow row in table.Map.Rows)
        {
            string keys = partitions.KeysOf(row.Slots);
            host.Output.WriteLine($"{Text([row.Slots])}{(keys.Length > 0 ? $" ({keys})" : "")}: shard {row.Shard}");
        }
        foreach (SlotMove move in table.Moves) { host.Output.WriteLine(Describe(move, notes)); }
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
        foreach (SlotMove move in moves)
        {
            if (!await metadata.CancelMoveAsync(cluster, move.Id, stop).ConfigureAwait(false))
            {
                return CommandResult.Failed($"move {move.Id.Number} of {Text(move.Slots)} has landed: shard {move.To} owns them",
                    $"move them back: slogger move --{Text(move.Slots)} --to {move.From}");
            }
            host.Output.WriteLine($"move {move.Id.Number} is called off: {Text(move.Slots)} stay at shard {move.From}");
        }
        return CommandResult.Done;
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
        host.Output.WriteLine($"move {id.Number}: {Text(slots)} to shard {to}");
        host.Output.Flush();
        return waits ? await WatchAsync(id, slots, to).ConfigureAwait(false) : CommandResult.Done;
    }

    private async Task<CommandResult> WatchAsync(MoveId id, ImmutableArray<SlotRange> slots, ShardId to)
    {
        string shown = "";
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
                    host.Output.WriteLine($"move {id.Number} is done: shard {to} owns {Text(slots)}, and the old copy is deleted");
                    return CommandResult.Done;
                }
                string now = Describe(move, notes);
                if (now != shown)
                {
                    host.Output.WriteLine(now);
                    host.Output.Flush();
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

    private string Describe(SlotMove move, IReadOnlyDictionary<MoveId, string> notes)
    {
        string state = move.State switch
        {
            MoveState.Planned => $"shard {move.From} serves, its keys are being copied",
            MoveState.Leaving => "the last changes are being copied, requests wait",
            MoveState.Landed => $"shard {move.To} serves; the old copy is deleted when the move is committed",
            _ => $"called off, what was copied is being deleted at shard {move.To}",
        };
        string note = notes.GetValueOrDefault(move.Id, "");
        return $"move {move.Id.Number}: {Text(move.Slots)} from shard {move.From} to shard {move.To}: {state}{(note.Length > 0 ? $" ({note})" : "")}";
    }

    private string Text(ImmutableArray<SlotRange> slots) => $"{partitions.Noun} {string.Join(',', slots)}";
}
