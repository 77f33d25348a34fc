// slogger seed: makes a site that was deposed the backup of the one that took over, or has streams of a backup seeded anew; and shows how
// far that is. The processes do it: this command may end, or be given again, at any time.
using Slogger.Cli.Terminal;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Sites;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Access;
using Spectre.Console;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>Seeds.</summary>
internal static class SeedCommand
{
    public const string Name = "seed";

    private const string What = "What is to be seeded", Of = "The site that it follows";
    private static readonly TimeSpan LookPeriod = TimeSpan.FromMilliseconds(250), LinePeriod = TimeSpan.FromSeconds(1);

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new("shard", What, "N",
            "At a backup, seed this shard's stream anew; may be repeated. Until it is seeded the site cannot take over.",
            "none: those that are not seeded yet", "") { Shape = OptionShape.List },
        new("no-wait", What, "",
            "Return when the seeding is recorded. It goes on by itself. slogger status --site shows how far it is.", "",
            "") { Shape = OptionShape.Flag },
        Patience.Option(What, "How long a site that is not there yet, or a database that is starting, is waited for: 1s to 10m."),
        Report.Json(What),
        .. SiteArguments.Database("primary-metadata", "The database of the site that serves. The command reads its site epoch and its "
            + "number of shards there. A primary that had given this backup up ships again").Select(o => o with { Group = Of }),
        new("of-epoch", Of, "N",
            "Without --primary-metadata: the site epoch of the site that serves, as its slogger status --site shows it.", "none", ""),
        new("shards", Of, "N",
            "With --of-epoch: how many shards that site has. If it is another number than this site's, the streams are divided by hash "
            + "slots.", "as many as this site", ""),
        .. SiteArguments.Common("This site's database, as given to its processes"),
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        var arguments = new SiteArguments(texts, host);
        MetadataSpec? spec = arguments.Metadata("metadata", "this site's", mayCome: true),
            primarySpec = arguments.Metadata("primary-metadata", null, mayCome: true);
        TimeSpan timeout = Patience.LimitIn(arguments);
        int[] shards = arguments.Shards("shard");
        int ofEpoch = arguments.Value("of-epoch", OptionText.Number(0, int.MaxValue), -1), count =
            arguments.Value("shards", OptionText.Number(1, ClusterSettings.ShardCountMax), 0);
        SiteCredentials credentials = arguments.Known();
        string cluster = arguments.Cluster;
        if (spec is not null && spec.Text == primarySpec?.Text)
        {
            arguments.Fail("--metadata and --primary-metadata are the same database", "each site has one of its own");
        }
        if (ofEpoch >= 0 && primarySpec is not null)
        {
            arguments.Fail("--of-epoch and --primary-metadata are both given", "remove --of-epoch: the primary's database says it");
        }
        if (arguments.Errors.Count > 0) { return CommandResult.BadOptions(arguments.Errors); }
        bool asJson = arguments.Flag(Report.Option);
        TextWriter progress = Report.Progress(host, asJson);
        var report = new SeedReport(null, [], [], [], CanTakeOver: false);
        using LineLog log = new(host.Error, LogLevel.Information);
        using StopSignals signals = new(log, host.HandlesSignals, host.Stop);
        try
        {
            var patience = new Patience(timeout, log, awaitsSite: true);
            Task<SiteAccess> Open(MetadataSpec of) => patience.WithDatabasesAsync(
                () => OpenMadeAsync(of, cluster, credentials, signals.Token), signals.Token);
            await using SiteAccess site = await Open(spec!).ConfigureAwait(false);
            await using SiteAccess? primary = primarySpec is null ? null : await Open(primarySpec).ConfigureAwait(false);
            SiteState state = await LearnAsync(site, primary, await site.StateAsync(signals.Token).ConfigureAwait(false), progress,
                signals.Token).ConfigureAwait(false);
            if (state.Role == SiteRole.Deposed)
            {
                if (shards.Length > 0)
                {
                    return CommandResult.Failed("this site was deposed: all of its shards are seeded, not some", "remove --shard");
                }
                (SiteEpoch followed, CommandResult? failed) =
                    await FollowAsync(site, primary, state, ofEpoch, count, progress, signals.Token).ConfigureAwait(false);
                if (failed is not null) { return failed; }
                report = report with { FollowsEpoch = followed.Number };
            }
            else if (state.Role != SiteRole.Backup)
            {
                return CommandResult.Failed(
                    $"this site is {SiteStatus.RoleText(state)}: only a backup, or a site that was deposed, is seeded",
                    "give the --metadata of the other site; or, if that has taken over and this one was lost before it could hear of it, "
                        + "its database as --primary-metadata");
            }
            else
            {
                List<ReseededFacts> reseeded = [];
                CommandResult? failed = await ReseedAsync(site, state, shards, reseeded, signals.Token).ConfigureAwait(false);
                report = report with { Reseeded = reseeded };
                foreach (ReseededFacts shard in reseeded) { progress.WriteLine(shard); }
                if (failed is not null) { return failed; }
            }
            if (primary is not null)
            {
                int[] missing = await AttachAsync(primary, state, shards, progress, signals.Token).ConfigureAwait(false);
                report = report with { NotShipping = missing };
            }
            CommandResult? gone = null;
            if (!arguments.Flag("no-wait"))
            {
                (IReadOnlyList<StreamProgress> streams, gone) =
                    await WatchAsync(site, host, asJson, progress, signals.Token).ConfigureAwait(false);
                report = report with { Streams = streams, CanTakeOver = gone is null };
            }
            if (gone is null) { report.Write(host, asJson); }
            return gone ?? CommandResult.Done;
        }
        catch (MetadataException e)
        {
            return CommandResult.Failed(
                e.Message, e is NoSiteException ? "start the site's processes, or correct --metadata, --primary-metadata or --cluster"
                    : "check --metadata, --primary-metadata and --cluster; what was decided goes on by itself");
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Failed(
                "interrupted", "the seeding goes on by itself: slogger seed shows it again, slogger status --site how far it is");
        }
    }

    // What a cluster is shows when the first process has taken a shard: before, a backup looks like a primary.
    private static async Task<SiteAccess> OpenMadeAsync(MetadataSpec spec, string cluster, SiteCredentials credentials,
        CancellationToken stop)
    {
        SiteAccess site = await SiteAccess.OpenAsync(spec, cluster, credentials, stop).ConfigureAwait(false);
        if (await site.StateAsync(stop).ConfigureAwait(false) == SiteState.Alone
            && (await site.Metadata.ShardsAsync(cluster, stop).ConfigureAwait(false)).All(s => s.Epoch == 0))
        {
            await site.DisposeAsync().ConfigureAwait(false);
            throw new NoSiteException($"No process of cluster \"{cluster}\" in {spec} has taken a shard yet.");
        }
        return site;
    }

    // A site that was lost as the primary has not heard what happened since: the other one's database says it.
    private static async Task<SiteState> LearnAsync(SiteAccess site, SiteAccess? primary, SiteState state, TextWriter progress,
        CancellationToken stop)
    {
        if (primary is null || state.Role is not (SiteRole.Primary or SiteRole.HandingOver)) { return state; }
        SiteState there = await primary.StateAsync(stop).ConfigureAwait(false);
        if (there.Role is not (SiteRole.Primary or SiteRole.HandingOver) || there.Epoch <= state.Epoch) { return state; }
        progress.WriteLine($"the other site has taken over, with site epoch {there.Epoch}: this one is deposed");
        return (await site.ChangeAsync(s => new(s.DeposedBy(there.Epoch), null), stop).ConfigureAwait(false)).Site;
    }

    // Everything that the site has is void from then on.
    private static async Task<(SiteEpoch Of, CommandResult? Failed)> FollowAsync(SiteAccess site, SiteAccess? primary, SiteState state,
        int ofEpoch, int count, TextWriter progress, CancellationToken stop)
    {
        const string give = "give --primary-metadata, the database of the site that serves; or --of-epoch with the site epoch that its "
            + "slogger status --site shows";
        SiteEpoch of;
        if (primary is not null)
        {
            SiteState there = await primary.StateAsync(stop).ConfigureAwait(false);
            if (there.Role is not (SiteRole.Primary or SiteRole.HandingOver))
            {
                return (default, CommandResult.Failed(
                    $"the site of --primary-metadata is {SiteStatus.RoleText(there)}: there is nothing to follow",
                    "let it take over first (slogger failover), or give the database of the site that serves"));
            }
            // What would be void by this command may be all that is left of a copy.
            if ((await primary.Metadata.ShardsAsync(site.Cluster, stop).ConfigureAwait(false)).FirstOrDefault(
                s => s.StoreKind == ShardRecord.FasterStore) is { } embedded)
            {
                return (default, CommandResult.Failed(
                    $"shard {embedded.Shard} of the site that serves has an embedded store, which ships no log: it has no backup",
                        "copy its data with a client to a cluster of Redis servers, which can have one"));
            }
            of = there.Epoch;
            count = (await primary.Metadata.FindClusterAsync(site.Cluster, stop).ConfigureAwait(false))!.ShardCount;
        }
        else if (ofEpoch >= 0)
        {
            of = new(ofEpoch);
            if (count == 0) { count = (await site.Metadata.FindClusterAsync(site.Cluster, stop).ConfigureAwait(false))!.ShardCount; }
        }
        else
        {
            return (default, CommandResult.Failed(
                $"this site was deposed by site epoch {state.Epoch}, and nothing says which site it is to follow", give));
        }
        ClusterSettings here = (await site.Metadata.FindClusterAsync(site.Cluster, stop).ConfigureAwait(false))!;
        int own = here.ShardCount;
        if (own != count && here.Partitions.Kind != PartitionKind.Hash)
        {
            return (default, CommandResult.Failed($"the site that serves has {count} shards, and this one {own}, and its keys fall into "
                + "ranges: only hash slots can be divided otherwise than at the primary",
                "make this site anew: another --metadata database, empty data directories, slogger backup --shards"));
        }
        SiteAnswer answer = await site.ChangeAsync(s => s.Follow(count, own, of), stop).ConfigureAwait(false);
        if (answer.Error is { } error) { return (default, CommandResult.Failed(error, give)); }
        progress.WriteLine($"this site is a backup of site epoch {of} now: its data is void, and its {own} shards are seeded anew"
            + (own == count ? "" : $", from the {count} of the primary"));
        progress.WriteLine("start its processes, one for each shard, if they do not run:");
        for (int s = 0; s < own; s++)
        {
            progress.WriteLine($"  slogger backup --shard {s} --data DIR --redis-server redis-server --site-listen HOST:PORT "
                + $"--metadata ... --cluster {site.Cluster}");
        }
        progress.WriteLine(own == count ? "and the primary's processes, each with the address of one of these: --backup HOST:PORT"
            : "and the primary's processes, each with the addresses of these: --backup HOST:PORT[,HOST:PORT...]");
        if (own != count)
        {
            foreach (IGrouping<int, int> source in answer.Site.Layout.Pairs.GroupBy(p => p.Source, p => p.Shard).OrderBy(g => g.Key))
            {
                progress.WriteLine($"  shard {source.Key} of the primary: those of shard {string.Join(" and ", source)}");
            }
        }
        progress.Flush();
        return (of, null);
    }

    private static async Task<CommandResult?> ReseedAsync(SiteAccess site, SiteState state, int[] shards,
        List<ReseededFacts> reseeded, CancellationToken stop)
    {
        foreach (int shard in shards)
        {
            if (shard >= state.Shards)
            {
                return CommandResult.Failed($"there is no shard {shard}: this site has {state.Shards}", "correct --shard");
            }
            // With one of its streams all others are.
            int stream = state.StreamsOf(new(shard)) is var all
                && all.FirstOrDefault(s => state.Streams[s].Phase != StreamPhase.Empty, -1) is >= 0 and var one ? one : all[0];
            long generation = state.Streams[stream].Generation;
            SiteAnswer answer = await site.ChangeAsync(s => s.Reseed(new(stream), generation), stop).ConfigureAwait(false);
            if (answer.Error is { } error) { return CommandResult.Failed(error, "slogger status --site shows the site"); }
            reseeded.Add(new(shard, answer.Site.Streams[stream].Generation, state.Streams[stream].Phase == StreamPhase.Empty));
        }
        return null;
    }

    private static async Task<int[]> AttachAsync(SiteAccess primary, SiteState state, int[] shards, TextWriter progress,
        CancellationToken stop)
    {
        int[] wanted = shards.Length > 0
            ? [.. shards.SelectMany(s => state.StreamsOf(new(s))).Select(s => state.Layout[s].Source).Distinct()]
            : [.. Enumerable.Range(0,
            Math.Max(state.Sources, (await primary.Metadata.FindClusterAsync(primary.Cluster, stop).ConfigureAwait(false))!.ShardCount))];
        var request = new V1.AttachRequest();
        request.Shards.AddRange(wanted);
        Answered<V1.AttachReply>[] answers = await SiteAccess.AskAllAsync(
            await primary.ProcessesAsync(stop).ConfigureAwait(false), SiteControlMethods.Attach, request, stop).ConfigureAwait(false);
        int[] missing = [.. wanted.Except(answers.SelectMany(a => a.Reply?.Shards ?? Enumerable.Empty<int>()))];
        foreach (Answered<V1.AttachReply> silent in answers.Where(a => a.Reply is null))
        {
            progress.WriteLine($"at the primary, {silent.Process} does not answer: {silent.Problem}");
        }
        if (missing.Length > 0)
        {
            progress.WriteLine($"at the primary, shard {string.Join(", ", missing)} does not ship: start its slogger serve with "
                + "--backup HOST:PORT and --site-listen HOST:PORT");
        }
        progress.Flush();
        return missing;
    }

    private static async Task<(IReadOnlyList<StreamProgress> Streams, CommandResult? Gone)> WatchAsync(SiteAccess site, AppHost host,
        bool asJson, TextWriter progress, CancellationToken stop)
    {
        if (!host.Colours || asJson)
        {
            string shown = "";
            DateTime next = default;
            return await UntilAsync(site, streams =>
            {
                string now = string.Join("; ", streams);
                if (now == shown || (DateTime.UtcNow < next && !streams.All(s => s.IsDone))) { return; }
                (shown, next) = (now, DateTime.UtcNow + LinePeriod);
                progress.WriteLine(now);
                progress.Flush();
            }, stop).ConfigureAwait(false);
        }
        var tasks = new Dictionary<string, ProgressTask>();
        return await ConsoleText.ConsoleOf(host).Progress().AutoClear(false).HideCompleted(false)
            .Columns(new TaskDescriptionColumn { Alignment = Justify.Left }, new ProgressBarColumn(), new PercentageColumn())
            .StartAsync(context => UntilAsync(site, streams =>
            {
                foreach (StreamProgress s in streams)
                {
                    if (!tasks.TryGetValue(s.Shard, out ProgressTask? task))
                    {
                        tasks[s.Shard] = task = context.AddTask($"shard {s.Shard}", maxValue: 1);
                    }
                    task.Description = Markup.Escape($"{s}");
                    task.Value = s.IsDone ? 1 : s.Share;
                }
            }, stop)).ConfigureAwait(false);
    }

    // Until all count: then the site can take over.
    private static async Task<(IReadOnlyList<StreamProgress> Streams, CommandResult? Gone)> UntilAsync(SiteAccess site,
        Action<IReadOnlyList<StreamProgress>> show, CancellationToken stop)
    {
        while (true)
        {
            SiteState state = await site.StateAsync(stop).ConfigureAwait(false);
            if (state.Role != SiteRole.Backup)
            {
                return ([], CommandResult.Failed($"this site is {SiteStatus.RoleText(state)} by now", "slogger status --site shows it"));
            }
            IReadOnlyList<Answered<V1.StatusReply>> answers = await site.StatusesAsync(stop).ConfigureAwait(false);
            StreamProgress[] streams =
                [.. state.Streams.Select((row, shard) => Progress(row, state.NameOf(shard), SiteStatus.StreamOf(state, answers, shard)))];
            show(streams);
            if (streams.All(s => s.IsDone)) { return (streams, null); }
            await Task.Delay(LookPeriod, stop).ConfigureAwait(false);
        }
    }

    private static StreamProgress Progress(StreamState row, string shard, (Answered<V1.StatusReply>? Of, V1.StreamStatus? Status) its)
    {
        if (its.Status is not { } s)
        {
            return new(shard, false, 0, its.Of is not { } known ? "waits for its slogger backup" : known.Reply is null ? $"its slogger "
                + $"backup does not answer: {known.Problem}" : "its slogger backup has yet to receive it");
        }
        if (s.Failure.Length > 0) { return new(shard, false, 0, "has failed: " + s.Failure); }
        if (row.Phase == StreamPhase.Counts) { return new(shard, true, 1, "follows"); }
        if (row.Phase == StreamPhase.Follows) { return new(shard, false, 1, "the copy is here; the watermark has yet to come to it"); }
        if (s.SeedBytes == 0)
        {
            return new(shard, false, 0, s.SilentUs is >= 0 and < 2_000_000 ? "the primary makes a copy of its store"
                : "waits for the primary");
        }
        return new(shard, false, (double)s.SeedHasBytes / s.SeedBytes,
            $"{ConsoleText.Bytes(s.SeedHasBytes)} of {ConsoleText.Bytes(s.SeedBytes)}");
    }
}
