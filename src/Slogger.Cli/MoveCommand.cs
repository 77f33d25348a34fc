// slogger move: plans a move of hash slots in the cluster's metadata, where the proxies find it, and shows how far it is until it is
// done. The proxies do the work: this command may end, or be started again, at any time.
using System.Collections.Immutable;
using System.Globalization;
using Slogger.Core.Ownership;
using Slogger.Core.Shards;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Moves slots.</summary>
internal static class MoveCommand
{
    public const string Name = "move";

    private const string Origin = "the command line";
    private static readonly TimeSpan LookPeriod = TimeSpan.FromMilliseconds(100);

    // How long the metadata may be away before the command gives up; the move goes on by itself.
    private static readonly TimeSpan Patience = TimeSpan.FromMinutes(2);

    private sealed record Wanted(ImmutableArray<SlotRange> Slots, ShardId? To, bool Cancels, bool Lists, bool Waits, MetadataSpec Metadata, string Cluster);

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        if (Read(texts, host, errors) is not { } wanted) { return CommandResult.BadOptions(errors); }
        using LineLog log = new(host.Error, LogLevel.Info);
        using StopSignals signals = new(log, host.HandlesSignals);
        try
        {
            await using IMetadataStore metadata = MetadataStoreFactory.Create(wanted.Metadata.Text);
            await metadata.InitializeAsync(signals.Token).ConfigureAwait(false);
            return wanted.Lists ? await ListAsync(metadata, wanted, host, signals.Token).ConfigureAwait(false)
                : wanted.Cancels ? await CancelAsync(metadata, wanted, host, signals.Token).ConfigureAwait(false)
                : await MoveAsync(metadata, wanted, host, signals.Token).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return CommandResult.Failed(e.Message, "check --metadata and --cluster; a move that was planned goes on by itself");
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Failed("interrupted", "a move that was planned goes on by itself: slogger move --list shows it, slogger move --slots ... --cancel calls it off");
        }
    }

    private static Wanted? Read(OptionLayer texts, AppHost host, List<OptionError> errors)
    {
        void Fail(string what, string remedy) => errors.Add(new OptionError(what, Origin, remedy));
        string? One(string name)
        {
            OptionTexts? given = texts.Values.GetValueOrDefault(name);
            if (given is { Texts.Count: > 1 }) { Fail($"--{name} is given {given.Texts.Count} times", "give it once"); }
            return given?.Texts[0];
        }
        bool Flag(string name) => texts.Values.ContainsKey(name);
        string? ranges = One("slots") ?? One("partition"), to = One("to");
        bool cancels = Flag("cancel"), lists = Flag("list");
        ImmutableArray<SlotRange> slots = [];
        if (Flag("slots") && Flag("partition")) { Fail("--slots and --partition are both given", "they mean the same: give one"); }
        if (lists && (ranges ?? to) is not null) { Fail("--list is given with other options", "give --list alone"); }
        if (!lists && ranges is null) { Fail("no slots are named", "give --slots 0-99"); }
        if (ranges is not null && !SlotRange.TryParseList(ranges, out slots, out string problem)) { Fail($"--slots \"{ranges}\" {problem}", "write --slots 0-99,200"); }
        int shard = -1;
        if (to is not null && (!int.TryParse(to, NumberStyles.None, CultureInfo.InvariantCulture, out shard) || cancels))
        {
            Fail(cancels ? "--to is given with --cancel" : $"--to \"{to}\" is not a shard's number", cancels ? "remove one of them" : "give a number from 0 on");
        }
        if (!lists && !cancels && to is null) { Fail("no new owner is named", "give --to SHARD"); }
        string? spec = One("metadata") ?? host.Environment["SLOGGER_METADATA"] as string;
        MetadataSpec? metadata = null;
        if (spec is null) { Fail("no metadata is named", "give --metadata as for slogger serve, or set SLOGGER_METADATA"); }
        else if (!MetadataSpec.TryParse(spec, out metadata, out string? wrong)) { Fail($"--metadata {wrong}", "write sqlite:PATH, postgres:CONNECTION or sqlserver:CONNECTION"); }
        string cluster = One("cluster") ?? host.Environment["SLOGGER_CLUSTER"] as string ?? "default";
        return errors.Count > 0 ? null : new Wanted(slots, shard < 0 ? null : new ShardId(shard), cancels, lists, !Flag("no-wait"), metadata!, cluster);
    }

    private static async Task<CommandResult> ListAsync(IMetadataStore metadata, Wanted wanted, AppHost host, CancellationToken stop)
    {
        OwnershipTable table = await metadata.OwnershipAsync(wanted.Cluster, stop).ConfigureAwait(false);
        IReadOnlyDictionary<MoveId, string> notes = await metadata.MoveNotesAsync(wanted.Cluster, stop).ConfigureAwait(false);
        foreach (SlotRow row in table.Map.Rows) { host.Output.WriteLine($"slots {row.Slots}: shard {row.Shard}"); }
        foreach (SlotMove move in table.Moves) { host.Output.WriteLine(Describe(move, notes)); }
        return CommandResult.Done;
    }

    private static async Task<CommandResult> CancelAsync(IMetadataStore metadata, Wanted wanted, AppHost host, CancellationToken stop)
    {
        OwnershipTable table = await metadata.OwnershipAsync(wanted.Cluster, stop).ConfigureAwait(false);
        SlotMove[] moves = [.. table.Moves.Where(m => m.Slots.Any(s => wanted.Slots.Any(s.Overlaps)))];
        if (moves.Length == 0) { return CommandResult.Failed($"no unfinished move has any of the slots {string.Join(',', wanted.Slots)}", "slogger move --list shows the moves"); }
        foreach (SlotMove move in moves)
        {
            if (!await metadata.CancelMoveAsync(wanted.Cluster, move.Id, stop).ConfigureAwait(false))
            {
                return CommandResult.Failed($"move {move.Id.Number} of slots {string.Join(',', move.Slots)} has landed: shard {move.To} owns them", $"move them back: slogger move --slots {string.Join(',', move.Slots)} --to {move.From}");
            }
            host.Output.WriteLine($"move {move.Id.Number} is called off: slots {string.Join(',', move.Slots)} stay at shard {move.From}");
        }
        return CommandResult.Done;
    }

    private static async Task<CommandResult> MoveAsync(IMetadataStore metadata, Wanted wanted, AppHost host, CancellationToken stop)
    {
        ShardId to = wanted.To!.Value;
        MovePlan plan = await metadata.PlanMoveAsync(wanted.Cluster, wanted.Slots, to, stop).ConfigureAwait(false);
        if (plan.Move is not { } id)
        {
            // The same command again, after it was interrupted: goes on showing.
            SlotMove? same = (await metadata.OwnershipAsync(wanted.Cluster, stop).ConfigureAwait(false)).Moves
                .FirstOrDefault(m => m.To == to && m.Slots.SequenceEqual(wanted.Slots) && m.State != MoveState.Cancelled);
            if (same is null) { return CommandResult.Failed(plan.Error!, "slogger move --list shows owners and moves"); }
            id = same.Id;
        }
        host.Output.WriteLine($"move {id.Number}: slots {string.Join(',', wanted.Slots)} to shard {to}");
        host.Output.Flush();
        return wanted.Waits ? await WatchAsync(metadata, wanted, id, host, stop).ConfigureAwait(false) : CommandResult.Done;
    }

    private static async Task<CommandResult> WatchAsync(IMetadataStore metadata, Wanted wanted, MoveId id, AppHost host, CancellationToken stop)
    {
        string shown = "";
        DateTime lastAnswer = DateTime.UtcNow;
        while (true)
        {
            try
            {
                OwnershipTable table = await metadata.OwnershipAsync(wanted.Cluster, stop).ConfigureAwait(false);
                IReadOnlyDictionary<MoveId, string> notes = await metadata.MoveNotesAsync(wanted.Cluster, stop).ConfigureAwait(false);
                lastAnswer = DateTime.UtcNow;
                if (table.Moves.FirstOrDefault(m => m.Id == id) is not { } move)
                {
                    bool isThere = wanted.Slots.All(s => table.Map.Owner(s.First) == wanted.To);
                    if (!isThere) { return CommandResult.Failed($"move {id.Number} was called off: its slots stayed where they were"); }
                    host.Output.WriteLine($"move {id.Number} is done: shard {wanted.To} owns slots {string.Join(',', wanted.Slots)}, and the old copy is deleted");
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

    private static string Describe(SlotMove move, IReadOnlyDictionary<MoveId, string> notes)
    {
        string state = move.State switch
        {
            MoveState.Planned => $"shard {move.From} serves, its keys are being copied",
            MoveState.Leaving => "the last changes are being copied, requests wait",
            MoveState.Landed => $"shard {move.To} serves; the old copy is deleted when the move is committed",
            _ => $"called off, what was copied is being deleted at shard {move.To}",
        };
        string note = notes.GetValueOrDefault(move.Id, "");
        return $"move {move.Id.Number}: slots {string.Join(',', move.Slots)} from shard {move.From} to shard {move.To}: {state}{(note.Length > 0 ? $" ({note})" : "")}";
    }
}
