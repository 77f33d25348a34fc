// slogger drill: shows what a failover would come to, and that it would succeed, while everything goes on. What is measured and what is
// estimated of it is said.
using System.Diagnostics;
using Slogger.Cli.Terminal;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Access;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>Drills.</summary>
internal static class DrillCommand
{
    public const string Name = "drill";

    private const int Samples = 20;

    // A failure is one or the other: the site's means that a failover would not succeed, the drill's that it is not known.
    private const string SiteFails = "the site could not take over now", DrillFails =
        "the drill itself has failed, and says nothing of the site";

    // The grid, the shard's row, the cut, the world-lines, the site, the other shards, and who owns which slots.
    private const int ReadsToServe = 7;
    private static readonly TimeSpan VerifyLimit = TimeSpan.FromMinutes(30), RestoreLimit = TimeSpan.FromHours(6);

    private const string Restore = "restore";

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new(Restore, "How much is tried", "",
            "Each process also starts a redis-server of its own, restores its newest checkpoint and log into it, and compares it with the "
            + "store that follows, key by key. Takes as long as a restore, and the memory and disk of one more store. Readers and the "
            + "primary do not wait for it.", "", "") { Shape = OptionShape.Flag },
        Patience.Option("How much is tried"),
        Report.Json("How much is tried"),
        .. SiteArguments.Common("The backup's database, as given to slogger backup"),
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        var arguments = new SiteArguments(texts, host);
        MetadataSpec? spec = arguments.Metadata("metadata", "the backup's, as for slogger backup");
        TimeSpan timeout = Patience.LimitIn(arguments);
        SiteCredentials credentials = arguments.Known();
        string cluster = arguments.Cluster;
        if (arguments.Errors.Count > 0) { return CommandResult.BadOptions(arguments.Errors); }
        using LineLog log = new(host.Error, LogLevel.Information);
        using StopSignals signals = new(log, host.HandlesSignals, host.Stop);
        try
        {
            var patience = new Patience(timeout, log);
            return await patience.WithDatabasesAsync(
                async () =>
                {
                    await using SiteAccess site = await SiteAccess.OpenAsync(
                        spec!, cluster, credentials, signals.Token).ConfigureAwait(false);
                    return await RunAsync(site, arguments.Flag(Restore), arguments.Flag(Report.Option), host, patience,
                        signals.Token).ConfigureAwait(false);
                },
                signals.Token).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return CommandResult.Failed($"{(e is MetadataUnavailableException ? SiteFails : DrillFails)}: {e.Message}",
                "check --metadata and --cluster: a failover needs this database, too");
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Failed("interrupted", "nothing was changed");
        }
    }

    private static async Task<CommandResult> RunAsync(SiteAccess site, bool restores, bool asJson, AppHost host,
        Patience patience, CancellationToken stop)
    {
        SiteState state = await site.StateAsync(stop).ConfigureAwait(false);
        if (state.Role != SiteRole.Backup)
        {
            return CommandResult.Failed($"this site is {SiteStatus.RoleText(state)}: a failover is drilled at a backup",
                "give the backup's --metadata");
        }
        (IReadOnlyList<Answered<V1.StatusReply>> answers, CommandResult? obstacle) =
            await patience.AskAsync(site, a => FailoverCommand.Obstacle(state, [], a), stop).ConfigureAwait(false);
        if (obstacle is not null)
        {
            return CommandResult.Failed($"{(IsOfSite(state, answers) ? SiteFails : DrillFails)}: {obstacle.Errors[0].What}",
                obstacle.Errors[0].Remedy);
        }
        // As a failover would: what it takes until then is measured, and only the takeover itself is estimated.
        TimeSpan looked = Stopwatch.GetElapsedTime(host.Began);
        long rehearses = Stopwatch.GetTimestamp();
        await FailoverCommand.RehearseAsync(answers.First(a => a.Reply is { Streams.Count: > 0 }).Process, stop).ConfigureAwait(false);
        TimeSpan rehearsed = Stopwatch.GetElapsedTime(rehearses);
        // All that is asked of the database, before anything is shown: while it fails all is asked again.
        TimeSpan sql = await MedianAsync(() => site.ChangeAsync(s => new(s, null), stop)).ConfigureAwait(false);
        SiteProcess[] all = [.. answers.Select(a => a.Process)];
        TimeSpan rpc = await MedianAsync(
            () => SiteAccess.AskAllAsync(all, SiteControlMethods.Status, new V1.StatusRequest(), stop)).ConfigureAwait(false);
        TimeSpan read = await MedianAsync(() => site.StateAsync(stop)).ConfigureAwait(false);
        TakeoverTimes known = await site.Metadata.TakeoverTimesAsync(site.Cluster, stop).ConfigureAwait(false);
        V1.StreamStatus?[] streams = [.. Enumerable.Range(0, state.Streams.Length)
            .Select(s => SiteStatus.StreamOf(state, answers, s).Status)];

        // ---- What it would keep ----
        V1.StreamStatus least = streams.MinBy(s => SiteText.Of(s!.Held))!;
        DateTimeOffset? kept = SiteText.TimeOf(least.HeldTime);
        DateTimeOffset? newest = kept is { } time ? streams.Select(s => SiteText.TimeOf(s!.DurableTime) ?? time).Max() : null;
        var keeps = new KeptFacts(
            [.. streams.Select(s => new HeldFacts(state.NameOf(s!.Shard), SiteText.Of(s.Held), SiteText.Of(s.Applied),
                s.SilentUs < 0 ? null : TimeSpan.FromMicroseconds(s.SilentUs)))],
            SiteText.Of(least.Held), SiteText.Window(kept, newest), kept, newest);
        if (!asJson) { keeps.Print(host); }

        // ---- How long it would take ----
        TimeSpan apply = TimeSpan.FromMicroseconds(streams.Max(s => s!.ApplyUs)), lease =
            TimeSpan.FromMicroseconds(answers.Max(a => a.Reply?.LeaseUs ?? 0));
        // Taking, deciding and opening; before each of the last two, and after them, all processes are asked at once; and each shard
        // recovers, by what it reads of the database.
        TimeSpan takeover = (sql * 3) + (rpc * 3) + (read * ReadsToServe) + apply;
        var takes = new TakeoverFacts(sql, rpc, answers.Count, Samples, apply, lease, looked, rehearsed, takeover, known.Correct(takeover),
            known.Failover == TimeSpan.Zero ? null : known.Failover, known.FailoverDrill == TimeSpan.Zero ? null : known.FailoverDrill);
        if (!asJson) { takes.Print(host); }
        try
        {
            await site.Metadata.NoteDrillAsync(site.Cluster, takeover, stop).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            Report.Progress(host, asJson).WriteLine($"warning: the estimate could not be noted: {e.Message}");
        }

        // ---- That it would succeed ----
        Answered<V1.VerifyReply>[] proofs = await Task.WhenAll(Enumerable.Range(0, streams.Length).Select(stream =>
            SiteAccess.AskAsync(SiteStatus.StreamOf(state, answers, stream).Of!.Value.Process, SiteControlMethods.Verify,
                new V1.VerifyRequest { Shard = stream, To = least.Held }, stop, VerifyLimit))).ConfigureAwait(false);
        LogFacts[] logs = [.. proofs.Select((proof, stream) => FactsOf(state.NameOf(stream), proof, keeps.From))];
        if (!asJson) { foreach (LogFacts log in logs) { log.Print(host); } }
        bool isWhole = logs.All(l => l.Flaw is null);
        string? drillFlaw = logs.FirstOrDefault(l => l.Problem is not null) is { } unseen
            ? $"shard {unseen.Shard}: its log could not be looked at: {unseen.Problem}" : null;
        RestoreFacts[] trials = [];
        if (isWhole && drillFlaw is null && restores)
        {
            Answered<V1.TryRestoreReply>[] tried = await Task.WhenAll(
                Enumerable.Range(0, state.Shards).Select(shard => state.StreamsOf(new(shard))[0]).Select(stream =>
                SiteAccess.AskAsync(SiteStatus.StreamOf(state, answers, stream).Of!.Value.Process, SiteControlMethods.TryRestore,
                    new V1.TryRestoreRequest { Shard = stream }, stop, RestoreLimit))).ConfigureAwait(false);
            trials = [.. tried.Select((trial, shard) => FactsOf(trial, shard))];
            if (!asJson) { foreach (RestoreFacts trial in trials) { trial.Print(host); } }
            drillFlaw = trials.FirstOrDefault(t => t is { Flaw: not null, At: null }) is { } untried
                ? $"shard {untried.Shard}: a restore could not be tried: {untried.Flaw}" : null;
        }
        // Whoever was compared says at which version.
        string wrongShards = string.Join(", ", trials.Where(t => t is { Flaw: not null, At: not null }).Select(t => t.Shard));
        new DrillReport(keeps, takes, logs, trials, isWhole && wrongShards.Length == 0 && drillFlaw is null).Write(host, asJson);
        if (!isWhole) { return CommandResult.Failed(SiteFails, "slogger seed --shard N has a shard seeded anew while the primary lives"); }
        if (wrongShards.Length > 0)
        {
            return CommandResult.Failed($"the site is not right: a restore of shard {wrongShards} does not give what its store holds",
                "a shard whose store differs is seeded anew by slogger seed --shard N, while the primary lives");
        }
        if (drillFlaw is not null)
        {
            return CommandResult.Failed($"{DrillFails}: {drillFlaw}", "give the command again when that is over; slogger drill without "
                + "--restore, and slogger status --site, show whether the site can take over");
        }
        return CommandResult.Done;
    }

    // Not of the site is what this command is not let in by, or not answered in time: a failover may well be.
    private static bool IsOfSite(SiteState state, IReadOnlyList<Answered<V1.StatusReply>> answers) =>
        state.Take([]).Error is not null || answers.Any(a => a.Reply?.Streams.Any(s => s.Failure.Length > 0) ?? false)
        || answers.All(a => a.Silence is not (Silence.Slow or Silence.LocksOut or Silence.Refuses))
        || answers.Any(a => a.Silence is Silence.NotRunning);

    private static LogFacts FactsOf(string shard, Answered<V1.VerifyReply> proof, WorldPoint to) => proof.Reply is { } reply
        ? new(shard, to, null, reply.Flaw.Length > 0 ? reply.Flaw : null, reply.Bytes, reply.FromOffset,
            TimeSpan.FromMicroseconds(reply.TookUs))
        : new(shard, to, proof.Problem, null, 0, 0, TimeSpan.Zero);

    private static RestoreFacts FactsOf(Answered<V1.TryRestoreReply> trial, int shard)
    {
        if (trial.Reply is not { } reply) { return new(shard, trial.Problem, null, TimeSpan.Zero, 0, 0, 0); }
        WorldPoint at = SiteText.Of(reply.At);
        return new(shard, reply.Flaw.Length > 0 ? reply.Flaw : null, at == default ? null : at, TimeSpan.FromMicroseconds(reply.RestoreUs),
            reply.BaseBytes, reply.LogBytes, reply.Keys);
    }

    private static async Task<TimeSpan> MedianAsync<T>(Func<Task<T>> call)
    {
        var times = new TimeSpan[Samples];
        await call().ConfigureAwait(false);
        for (int i = 0; i < Samples; i++)
        {
            long began = Stopwatch.GetTimestamp();
            await call().ConfigureAwait(false);
            times[i] = Stopwatch.GetElapsedTime(began);
        }
        Array.Sort(times);
        return times[Samples / 2];
    }
}
