// slogger move: plans a move of partitions (hash slots, or ranges of keys) in the cluster's metadata, where the proxies find it, and
// shows how far it is until it is done. The proxies do the work: this command may end, or be started again, at any time. Here its
// options are read; MoveRun does it.
using System.Collections.Immutable;
using System.Globalization;
using Slogger.Cli.Terminal;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Moves partitions.</summary>
internal static class MoveCommand
{
    public const string Name = "move";

    private const string Origin = "the command line";
    private static readonly string[] Names = ["slots", "partitions", "partition"];

    private sealed record Wanted(ImmutableArray<SlotRange> Slots, ShardId? To, bool Cancels, bool Lists, bool Waits, bool AsJson,
        MetadataSpec Metadata, string Cluster);

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        if (Read(texts, host, errors) is not { } wanted) { return CommandResult.BadOptions(errors); }
        using LineLog log = new(host.Error, LogLevel.Information);
        using StopSignals signals = new(log, host.HandlesSignals);
        try
        {
            await using IMetadataStore metadata = MetadataStoreFactory.Create(wanted.Metadata.Text);
            await metadata.InitializeAsync(signals.Token).ConfigureAwait(false);
            Partitioning partitions = (await metadata.FindClusterAsync(wanted.Cluster, signals.Token).ConfigureAwait(false))?.Partitions
                ?? throw new MetadataException($"The metadata knows no cluster \"{wanted.Cluster}\".");
            if (partitions.Missing(wanted.Slots) is { } missing)
            {
                return CommandResult.Failed($"cluster \"{wanted.Cluster}\": {missing}", "slogger move --list shows them");
            }
            var run = new MoveRun(metadata, partitions, wanted.Cluster, host, wanted.AsJson, signals.Token);
            return wanted.Lists ? await run.ListAsync().ConfigureAwait(false)
                : wanted.Cancels ? await run.CancelAsync(wanted.Slots).ConfigureAwait(false)
                : await run.MoveAsync(wanted.Slots, wanted.To!.Value, wanted.Waits).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return CommandResult.Failed(e.Message, "check --metadata and --cluster; a move that was planned goes on by itself");
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Failed("interrupted", "a move that was planned goes on by itself: slogger move --list shows it, slogger "
                + "move --slots ... --cancel calls it off");
        }
    }

    private static Wanted? Read(OptionLayer texts, AppHost host, List<OptionError> errors)
    {
        void Fail(string what, string remedy) => errors.Add(new OptionError(what, Origin, remedy));
        string? One(string name) => texts.One(name, errors);
        bool Flag(string name) => texts.Values.ContainsKey(name);
        string[] names = [.. Names.Where(Flag)];
        string? ranges = names.Length > 0 ? One(names[0]) : null, to = One("to");
        bool cancels = Flag("cancel"), lists = Flag("list");
        ImmutableArray<SlotRange> slots = [];
        if (names.Length > 1) { Fail($"--{names[0]} and --{names[1]} are both given", "they mean the same: give one"); }
        if (lists && (ranges ?? to) is not null) { Fail("--list is given with other options", "give --list alone"); }
        if (!lists && ranges is null)
        {
            Fail("no slots are named", "give --slots 0-99, or --partitions 0-9 where keys are cut into ranges");
        }
        if (ranges is not null && !SlotRange.TryParseList(ranges, out slots, out string problem))
        {
            Fail($"--{names[0]} \"{ranges}\" {problem}", $"write --{names[0]} 0-99,200");
        }
        int shard = -1;
        if (to is not null && (!int.TryParse(to, NumberStyles.None, CultureInfo.InvariantCulture, out shard) || cancels))
        {
            Fail(cancels ? "--to is given with --cancel" : $"--to \"{to}\" is not a shard's number",
                cancels ? "remove one of them" : "give a number from 0 on");
        }
        if (!lists && !cancels && to is null) { Fail("no new owner is named", "give --to SHARD"); }
        string? spec = One("metadata") ?? host.Environment["SLOGGER_METADATA"] as string;
        MetadataSpec? metadata = null;
        if (spec is null) { Fail("no metadata is named", "give --metadata as for slogger serve, or set SLOGGER_METADATA"); }
        else if (!MetadataSpec.TryParse(spec, out metadata, out string? wrong))
        {
            Fail($"--metadata {wrong}", "write sqlite:PATH, postgres:CONNECTION or sqlserver:CONNECTION");
        }
        string cluster = One("cluster") ?? host.Environment["SLOGGER_CLUSTER"] as string ?? "default";
        return errors.Count > 0 ? null
            : new Wanted(slots, shard < 0 ? null : new ShardId(shard), cancels, lists, !Flag("no-wait"), Flag(Report.Option),
                metadata!, cluster);
    }
}
