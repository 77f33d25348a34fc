// slogger switchover: hands a cluster over from its primary site to its backup by plan, so that nothing is lost. What can be known
// beforehand to stand in its way is looked for before anybody is held up; then SwitchOverRun does it.
using Slogger.Cli.Terminal;
using Slogger.Core.Sites;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Access;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>Switches over.</summary>
internal static class SwitchOverCommand
{
    public const string Name = "switchover";

    private const string How = "How";
    private static readonly TimeSpan LimitDefault = TimeSpan.FromSeconds(10);

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new("within", How, "DURATION",
            "Clients of the primary wait at most this long, 1s to 10m. If the backup cannot take over by then, the switch-over is called "
            + "off, and they go on.", "10s", ""),
        Patience.Option(How),
        Report.Json(How),
        new("call-off", How, "",
            "Call off a switch-over that was interrupted: clients of the primary go on, unless the backup has taken over already.",
            "", "") { Shape = OptionShape.Flag },
        .. SiteArguments.Database("backup-metadata", "The backup's database, as given to slogger backup"),
        .. SiteArguments.Common("The primary's database, as given to slogger serve"),
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        var arguments = new SiteArguments(texts, host);
        MetadataSpec? spec = arguments.Metadata("metadata", "the primary's, as for slogger serve"), backupSpec =
            arguments.Metadata("backup-metadata", "the backup's, as for slogger backup");
        TimeSpan limit = arguments.Value("within", OptionText.Duration(TimeSpan.FromSeconds(1), TimeSpan.FromMinutes(10)), LimitDefault);
        TimeSpan timeout = Patience.LimitIn(arguments);
        bool callsOff = arguments.Flag("call-off");
        SiteCredentials credentials = arguments.Known();
        string cluster = arguments.Cluster;
        if (spec is not null && spec.Text == backupSpec?.Text)
        {
            arguments.Fail("--metadata and --backup-metadata are the same database", "each site has one of its own");
        }
        if (arguments.Errors.Count > 0) { return CommandResult.BadOptions(arguments.Errors); }
        bool asJson = arguments.Flag(Report.Option);
        var log = new StepLog(Report.Progress(host, asJson));
        using StopSignals signals = new(log, host.HandlesSignals, host.Stop);
        try
        {
            var patience = new Patience(timeout, log);
            // Clients are held by the run alone, for one --within, and by one run.
            (SwitchOverRun? prepared, CommandResult? obstacle) = await patience.WithDatabasesAsync(
                () => PrepareAsync(spec!, backupSpec!, cluster, credentials, callsOff ? TimeSpan.Zero : limit, host, asJson, log,
                    patience, signals.Token), signals.Token).ConfigureAwait(false);
            if (prepared is null) { return obstacle!; }
            await using SwitchOverRun run = prepared;
            return await run.RunAsync(signals.Token).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return CommandResult.Failed(e.Message, "check --metadata, --backup-metadata and --cluster. If a switch-over was begun clients "
                + "wait: give the command again, or with --call-off");
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Failed("interrupted", "slogger status --site shows how far it came. If the primary is handing over its "
                + "clients wait: give the command again, or with --call-off");
        }
    }

    // Nobody is held up yet.
    private static async Task<(SwitchOverRun? Run, CommandResult? Obstacle)> PrepareAsync(
        MetadataSpec spec, MetadataSpec backupSpec, string cluster, SiteCredentials credentials, TimeSpan limit, AppHost host, bool asJson,
            StepLog log, Patience patience, CancellationToken stop)
    {
        SiteAccess? primary = null, backup = null;
        SwitchOverRun? run = null;
        try
        {
            primary = await SiteAccess.OpenAsync(spec, cluster, credentials, stop).ConfigureAwait(false);
            backup = await SiteAccess.OpenAsync(backupSpec, cluster, credentials, stop).ConfigureAwait(false);
            SiteState before = await primary.StateAsync(stop).ConfigureAwait(false), other =
                await backup.StateAsync(stop).ConfigureAwait(false);
            int shards = (await primary.Metadata.FindClusterAsync(cluster, stop).ConfigureAwait(false))!.ShardCount;
            // One that is under way is gone on with, whatever stands in its way: only its end lets clients go on.
            if (before.Role == SiteRole.Primary && limit > TimeSpan.Zero
                && await ObstacleAsync(primary, backup, before, other, shards, patience, stop).ConfigureAwait(false) is { } obstacle)
            {
                return (null, obstacle);
            }
            if (before.Role is SiteRole.Backup or SiteRole.FailingOver)
            {
                return (null, CommandResult.Failed("the site of --metadata is no primary", "give the primary's --metadata, and the "
                    + "backup's --backup-metadata"));
            }
            run = await SwitchOverRun.PrepareAsync(primary, backup, shards, limit, host, asJson, log, stop).ConfigureAwait(false);
            return (run, null);
        }
        finally
        {
            if (run is null)
            {
                if (backup is not null) { await backup.DisposeAsync().ConfigureAwait(false); }
                if (primary is not null) { await primary.DisposeAsync().ConfigureAwait(false); }
            }
        }
    }

    private static async Task<CommandResult?> ObstacleAsync(SiteAccess primary, SiteAccess backup, SiteState before, SiteState other,
        int shards, Patience patience, CancellationToken stop)
    {
        if (other.Role != SiteRole.Backup)
        {
            return other.Epoch > before.Epoch && other.Role is SiteRole.Primary or SiteRole.FailingOver ? null
                : CommandResult.Failed($"the site of --backup-metadata is no backup, but {SiteStatus.RoleText(other)}",
                other.Role == SiteRole.Deposed ? "make it one with slogger seed"
                    : "start its slogger backup processes, with a database of their own");
        }
        if (other.Sources != shards)
        {
            return CommandResult.Failed($"the primary has {shards} shards, and the backup is one of a primary of {other.Sources}",
                "give the databases of two sites that belong together");
        }
        if (other.Take([]).Error is { } seeding)
        {
            return CommandResult.Failed(seeding, "slogger status --site shows how far the seeding is");
        }
        foreach ((SiteAccess site, string what, string start) in new[] { (primary, "primary", "slogger serve with --site-listen"),
            (backup, "backup", "slogger backup") })
        {
            int count = site == primary ? shards : other.Shards;
            if ((await patience.AskAsync(site, a => ObstacleOf(a, other, count, what, start),
                stop).ConfigureAwait(false)).Obstacle is { } obstacle)
            {
                return obstacle;
            }
        }
        return null;
    }

    private static CommandResult? ObstacleOf(IReadOnlyList<Answered<V1.StatusReply>> answers, SiteState other, int shards, string what,
        string start)
    {
        foreach (Answered<V1.StatusReply> silent in answers.Where(a => a.Reply is null))
        {
            return CommandResult.Failed($"at the {what}, {silent.Process} does not answer: {silent.Problem}",
                silent.Silence is Silence.NotRunning ? $"start it ({start}), and give the command again" : silent.Remedy);
        }
        int[] there = [.. answers.SelectMany(a => a.Reply!.Streams.Select(s => other.ShardOf(s.Shard))
            .Concat(a.Reply.Shipped.Select(s => s.Shard)))];
        if (Enumerable.Range(0, shards).Except(there).Select(s => (int?)s).FirstOrDefault() is { } missing)
        {
            return CommandResult.Failed($"at the {what}, no process has shard {missing}", $"start it with {start}");
        }
        return answers.SelectMany(a => a.Reply!.Streams).FirstOrDefault(s => s.Failure.Length > 0) is { } failed
            ? CommandResult.Failed($"the stream of shard {other.NameOf(failed.Shard)} has failed: {failed.Failure}",
            "start its slogger backup again") : null;
    }
}
