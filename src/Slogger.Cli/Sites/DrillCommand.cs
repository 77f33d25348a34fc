// slogger drill: shows what a failover would come to, and that it would succeed, while everything goes on. What is measured and what is
// estimated of it is said.
using System.Diagnostics;
using System.Globalization;
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
        new(Restore, "How much is tried", "", "Each process also starts a redis-server of its own, restores its newest checkpoint and log "
            + "into that, and compares it with the store that follows, key by key. Takes as long as a restore, and the memory and disk of "
            + "one more store; readers and the primary do not wait for it.", "", "") { Shape = OptionShape.Flag },
        Patience.Option("How much is tried"),
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
                    return await RunAsync(site, arguments.Flag(Restore), host, patience, signals.Token).ConfigureAwait(false);
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

    private static async Task<CommandResult> RunAsync(SiteAccess site, bool restores, AppHost host, Patience patience,
        CancellationToken stop)
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
        WorldPoint final = SiteText.Of(least.Held);
        foreach (V1.StreamStatus? s in streams)
        {
            host.Output.WriteLine($"shard {state.NameOf(s!.Shard)}: holds {SiteText.Of(s.Held)}, the store is at {SiteText.Of(s.Applied)}{(s.SilentUs < 0 ? ", its primary was never heard" : $", its primary was heard {SiteText.Age(TimeSpan.FromMicroseconds(s.SilentUs))} ago")}");
        }
        host.Output.WriteLine($"a failover now would go on from {final}, the newest recorded cut that all shards hold");
        if (SiteText.TimeOf(least.HeldTime) is { } time)
        {
            DateTimeOffset newest = streams.Select(s => SiteText.TimeOf(s!.DurableTime) ?? time).Max();
            host.Output.WriteLine(
                $"RPO (measured): {SiteText.Window(time, newest)} would be lost. Kept: up to {SiteText.Time(time)}. "
                + $"Come here: up to {SiteText.Time(newest)}. What the primary did since is not known here.");
        }

        // ---- How long it would take ----
        TimeSpan apply = TimeSpan.FromMicroseconds(streams.Max(s => s!.ApplyUs)), lease =
            TimeSpan.FromMicroseconds(answers.Max(a => a.Reply?.LeaseUs ?? 0));
        host.Output.WriteLine($"measured: {string.Create(CultureInfo.InvariantCulture, $"{sql.TotalMilliseconds:0.00} ms")} for a transaction of the site's database that is rolled back, {SiteText.Ms(rpc)} to ask all {answers.Count} processes at once, {SiteText.Ms(apply)} for the slowest store's last version (medians of {Samples}, but for the last)");
        // Taking, deciding and opening; before each of the last two, and after them, all processes are asked at once; and each shard
        // recovers, by what it reads of the database.
        TimeSpan takeover = (sql * 3) + (rpc * 3) + (read * ReadsToServe) + apply;
        string taken = SiteText.Ms(known.Failover), lacks = "without the promotion of each Redis and without syncs of disks";
        string basis = known.Failover == TimeSpan.Zero
            ? $"from what is measured alone, {lacks}: no failover of this site has been measured yet"
            : known.FailoverDrill == TimeSpan.Zero ? $"from what is measured, and from the last failover here, which took {taken}"
            : $"{SiteText.Ms(takeover)} from what is measured, corrected by the last failover here, which took {taken} "
                + $"where {SiteText.Ms(known.FailoverDrill)} had been estimated";
        TimeSpan corrected = known.Correct(takeover);
        string rto = SiteText.Ms(looked + rehearsed + corrected);
        string forLease = lease == TimeSpan.Zero ? ""
            : $", and {SiteText.Ms(lease)} for the site lease, unless you attest that the primary is down";
        host.Output.WriteLine($"RTO (estimated, from the command's start until every shard serves clients): {rto}{forLease}");
        host.Output.WriteLine(
            $"of these: {SiteText.Ms(looked)} to start and to see whether anything stands in the way, and {SiteText.Ms(rehearsed)} to rehearse it, "
            + $"as this command took; {SiteText.Ms(corrected)} to take over ({basis})");
        try
        {
            await site.Metadata.NoteDrillAsync(site.Cluster, takeover, stop).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            host.Output.WriteLine($"warning: the estimate could not be noted: {e.Message}");
        }

        // ---- That it would succeed ----
        string? drillFlaw = null, wrongShards = null;
        bool isWhole = true;
        Answered<V1.VerifyReply>[] proofs = await Task.WhenAll(Enumerable.Range(0, streams.Length).Select(stream =>
            SiteAccess.AskAsync(SiteStatus.StreamOf(state, answers, stream).Of!.Value.Process, SiteControlMethods.Verify,
                new V1.VerifyRequest { Shard = stream, To = least.Held }, stop, VerifyLimit))).ConfigureAwait(false);
        for (int stream = 0; stream < proofs.Length; stream++)
        {
            string shard = state.NameOf(stream);
            if (proofs[stream].Reply is not { } proof)
            {
                drillFlaw ??= $"shard {shard}: its log could not be looked at: {proofs[stream].Problem}";
                host.Output.WriteLine($"shard {shard}: its log could not be looked at: {proofs[stream].Problem}");
                continue;
            }
            isWhole &= proof.Flaw.Length == 0;
            host.Output.WriteLine(proof.Flaw.Length > 0 ? $"shard {shard}: cannot be brought to {final}: {proof.Flaw}"
                : Whole(shard, proof, final));
        }
        if (isWhole && drillFlaw is null && restores)
        {
            Answered<V1.TryRestoreReply>[] trials = await Task.WhenAll(
                Enumerable.Range(0, state.Shards).Select(shard => state.StreamsOf(new(shard))[0]).Select(stream =>
                SiteAccess.AskAsync(SiteStatus.StreamOf(state, answers, stream).Of!.Value.Process, SiteControlMethods.TryRestore,
                    new V1.TryRestoreRequest { Shard = stream }, stop, RestoreLimit))).ConfigureAwait(false);
            for (int shard = 0; shard < trials.Length; shard++)
            {
                string flaw = trials[shard].Reply?.Flaw ?? trials[shard].Problem;
                host.Output.WriteLine(flaw.Length > 0 ? $"shard {shard}: the drill of a restore failed: {flaw}"
                    : Restored(shard, trials[shard].Reply!));
                if (flaw.Length == 0) { continue; }
                // Whoever was compared says at which version.
                if (SiteText.Of(trials[shard].Reply?.At) != default)
                {
                    wrongShards = wrongShards is null ? $"{shard}" : $"{wrongShards}, {shard}";
                }
                else { drillFlaw ??= $"shard {shard}: a restore could not be tried: {flaw}"; }
            }
        }
        if (!isWhole) { return CommandResult.Failed(SiteFails, "slogger seed --shard N has a shard seeded anew while the primary lives"); }
        if (wrongShards is not null)
        {
            return CommandResult.Failed($"the site is not right: a restore of shard {wrongShards} does not give what its store holds",
                "a shard whose store differs is seeded anew by slogger seed --shard N, while the primary lives");
        }
        if (drillFlaw is not null)
        {
            return CommandResult.Failed($"{DrillFails}: {drillFlaw}", "give the command again when that is over; slogger drill without "
                + "--restore, and slogger status --site, show whether the site can take over");
        }
        host.Output.WriteLine("a failover would succeed; nothing was changed");
        return CommandResult.Done;
    }

    // Not of the site is what this command is not let in by, or not answered in time: a failover may well be.
    private static bool IsOfSite(SiteState state, IReadOnlyList<Answered<V1.StatusReply>> answers) =>
        state.Take([]).Error is not null || answers.Any(a => a.Reply?.Streams.Any(s => s.Failure.Length > 0) ?? false)
        || answers.All(a => a.Silence is not (Silence.Slow or Silence.LocksOut or Silence.Refuses))
        || answers.Any(a => a.Silence is Silence.NotRunning);

    private static string Whole(string shard, V1.VerifyReply reply, WorldPoint final) => string.Create(CultureInfo.InvariantCulture,
        $"shard {shard}: whole up to {final}: {ConsoleText.Bytes(reply.Bytes)} of log behind offset {reply.FromOffset}, and the "
        + $"checkpoint there, read with every checksum right in {reply.TookUs / 1000.0:0} ms");

    private static string Restored(int shard, V1.TryRestoreReply reply) => string.Create(CultureInfo.InvariantCulture,
        $"shard {shard}: restored to {SiteText.Of(reply.At)} in {reply.RestoreUs / 1000.0:0} ms, from a checkpoint of {ConsoleText.Bytes(reply.BaseBytes)} "
        + $"and {ConsoleText.Bytes(reply.LogBytes)} of log: {reply.Keys} keys, the same as the store holds");

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
