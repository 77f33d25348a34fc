// slogger failover: makes the backup site the primary. What can be known beforehand to stand in its way is looked for before SQL takes the
// epoch, since from then on there is no way back; then a process of the backup performs it (FailoverRole), or, if none does, this command
// itself. Given again after an interruption it goes on.
using System.Diagnostics;
using Slogger.Cli.Terminal;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Access;
using Slogger.Sites.Failovers;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>Fails over.</summary>
internal static class FailoverCommand
{
    public const string Name = "failover";

    private const string Attest = "i-attest-the-primary-is-down", What = "What is known of the primary";

    // How much two clocks may run apart, in millionths: a lease is counted by the primary's, and waited for by ours.
    private const long DriftPpm = 1000;

    private static readonly TimeSpan NoteLimit = TimeSpan.FromSeconds(2), RehearsalLimit = TimeSpan.FromSeconds(1);

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new(Attest, What, "",
            "You know that no process of the primary serves clients now, and that none will start before it has heard of this failover. "
            + "Needed without a site lease: a primary that is only cut off goes on committing writes, and they are lost.", "",
            "") { Shape = OptionShape.Flag },
        new("lose-shard", What, "N",
            "Lose the data of this shard: its backup's disk is gone, or it was being seeded, and the primary is gone for good. May be "
            + "repeated. The shard's process is asked for the whole --timeout. Refused while it exists.", "none",
            "") { Shape = OptionShape.List },
        Patience.Option("How"),
        Report.Json("How"),
        .. SiteArguments.Database("primary-metadata", "The primary's database, if it can be reached. The command records there that the "
            + "primary is deposed, so that its processes end. The failover does not wait for it"),
        .. SiteArguments.Common("The backup's database, as given to slogger backup"),
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        var arguments = new SiteArguments(texts, host);
        MetadataSpec? spec = arguments.Metadata("metadata", "the backup's, as for slogger backup"), primary =
            arguments.Metadata("primary-metadata", null);
        int[] losing = arguments.Shards("lose-shard");
        TimeSpan timeout = Patience.LimitIn(arguments);
        SiteCredentials credentials = arguments.Known();
        string cluster = arguments.Cluster;
        if (arguments.Errors.Count > 0) { return CommandResult.BadOptions(arguments.Errors); }
        bool asJson = arguments.Flag(Report.Option);
        var log = new StepLog(Report.Progress(host, asJson));
        using StopSignals signals = new(log, host.HandlesSignals, host.Stop);
        try
        {
            var patience = new Patience(timeout, log);
            // Whatever was begun is gone on with.
            return await patience.WithDatabasesAsync(
                async () =>
                {
                    await using SiteAccess site = await SiteAccess.OpenAsync(
                        spec!, cluster, credentials, signals.Token).ConfigureAwait(false);
                    return await RunAsync(site, losing, arguments.Flag(Attest), primary, host, asJson, log, patience,
                        signals.Token).ConfigureAwait(false);
                },
                signals.Token).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return CommandResult.Failed(e.Message, "check --metadata and --cluster, and give the command again");
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Failed("interrupted", "slogger status --site shows how far it came; if the site is taking over, nothing "
                + "of the primary is received any more: give the command again, and it goes on");
        }
    }

    private static async Task<CommandResult> RunAsync(SiteAccess site, int[] losing, bool isAttested, MetadataSpec? primary, AppHost host,
        bool asJson, StepLog log, Patience patience, CancellationToken stop)
    {
        var parts = new Parts(host.Began);
        SiteState state = await site.StateAsync(stop).ConfigureAwait(false);
        parts.Passed("to start and to reach the database");
        if (state is { Role: SiteRole.Primary, Final: { } taken })
        {
            new FailoverReport(WasOverBefore: true, state.Epoch.Number, state.Epoch.FirstWorldLine.Number, taken, state.Shards)
                .Write(host, asJson);
            return CommandResult.Done;
        }
        if (state.Role is not (SiteRole.Backup or SiteRole.FailingOver))
        {
            return CommandResult.Failed(
                state.Role == SiteRole.Deposed ? $"this site was deposed by site epoch {state.Epoch}: it has nothing that "
                    + "could be taken over" : "this site is a primary, and no backup",
                state.Role == SiteRole.Deposed ? "the other site serves; make this one its backup with slogger seed"
                    : "give the backup's --metadata");
        }
        if (losing.FirstOrDefault(s => s >= state.Shards, -1) is >= 0 and var unknown)
        {
            return CommandResult.Failed($"there is no shard {unknown}: this site has {state.Shards}", "correct --lose-shard");
        }
        bool isUnderWay = state.Role == SiteRole.FailingOver;
        // A failover of which every stream is lost has nothing to go to.
        if (losing.Length == state.Shards)
        {
            return CommandResult.Failed("all shards are given up: nothing would be left",
                "name fewer with --lose-shard, or start a new cluster with slogger serve");
        }

        // What is given up is lost for good: a process that is silent now is asked to the end of the time.
        (IReadOnlyList<Answered<V1.StatusReply>> answers, CommandResult? obstacle) = await patience.AskAsync(
            site, a => isUnderWay ? null : Obstacle(state, losing, a), stop,
            a => Judge(state, losing, a).Select(j => j.MayComeBack).FirstOrDefault(why => why is not null)).ConfigureAwait(false);
        if (Judge(state, losing, answers).FirstOrDefault(j => j.Living is not null).Living is { } living) { return living; }
        if (obstacle is not null) { return obstacle; }
        parts.Passed("to see whether anything stands in the way");
        V1.StreamStatus[] streams = [.. answers.Where(a => a.Reply is not null).SelectMany(a => a.Reply!.Streams)];
        foreach (Answered<V1.StatusReply> silent in answers.Where(a => a.Reply is null))
        {
            log.Warn($"{silent.Process} does not answer: {silent.Problem}");
        }
        long leaseUs = answers.Max(a => a.Reply?.LeaseUs ?? 0);
        if (leaseUs == 0 && !isAttested && !(isUnderWay && state.Final is not null))
        {
            return CommandResult.Failed(
                "no site lease is configured here: a primary that is only cut off would go on committing writes, and they would be lost",
                $"if you know that it is down, and stays down, give --{Attest}; if it lives, use slogger switchover, which loses nothing. "
                    + "With --site-lease at both sites a failover waits for the lease instead");
        }
        if (isAttested && streams.Where(s => s.SilentUs >= 0).Select(s => s.SilentUs).DefaultIfEmpty(long.MaxValue)
            .Min() is < 2_000_000 and var recent)
        {
            log.Warn($"the primary was heard {SiteText.Age(TimeSpan.FromMicroseconds(recent))} ago: if it still runs, its commits from "
                + "now on are lost. It ends when it hears of this failover");
        }

        Task<Noted>? noting = null;
        void Taken(SiteEpoch number) => noting ??= primary is null ? null : NoteAsync(primary, site.Cluster, number);
        long leaseWaitUs = isAttested || leaseUs == 0 ? 0 : SiteLease.WaitUs(leaseUs, DriftPpm);
        Performed done;
        if (await PerformedAsync(answers, losing, leaseWaitUs, log, Taken, parts, stop).ConfigureAwait(false) is { } warm) { done = warm; }
        else
        {
            log.Warn("no process of the backup performs it, so this command does, which takes longer");
            var manager = new FailoverManager(site.Metadata, site.Cluster, site.PeersAsync, leaseWaitUs, log, Taken);
            async Task<bool> RehearseAsync()
            {
                await manager.RehearseAsync(stop).ConfigureAwait(false);
                return true;
            }
            if (!isUnderWay) { await patience.WithDatabasesAsync(RehearseAsync, stop).ConfigureAwait(false); }
            parts.Passed("to rehearse it");
            log.Begin();
            FailoverOutcome outcome = await manager.RunAsync(losing, stop).ConfigureAwait(false);
            done = new(outcome.Error, log.Elapsed, outcome.FinalTime, [.. outcome.Silent ?? []], manager.Stages);
            parts.Passed("to take over");
        }
        if (done.Error is { } error) { return CommandResult.Failed(error, "slogger status --site shows the site and its streams"); }
        Noted? noted = noting is null ? null : await noting.WaitAsync(NoteLimit, stop).ContinueWith(
            t => t.IsCompletedSuccessfully ? t.Result : new("the primary's database does not answer: its site has yet to hear that "
                + "it is deposed", null), TaskScheduler.Default).ConfigureAwait(false);
        string? unasked = primary is null ? "with --primary-metadata its database is asked"
            : noted is { HasAnswered: true } ? null : "its database (--primary-metadata) could not be asked";
        // It is done: what a database does from here on must not have it begun anew, and found done already.
        SiteState after = await patience.WithDatabasesAsync(() => site.StateAsync(stop), stop).ConfigureAwait(false);
        ReportOf(state, after, done, streams, noted, unasked, losing, parts).Write(host, asJson);
        // Of a failover as a whole: the next drill is compared with it.
        if (!isUnderWay && done.Silent.Count == 0)
        {
            try
            {
                await site.Metadata.NoteFailoverAsync(site.Cluster,
                    Longer(done.Took - TimeSpan.FromMicroseconds(leaseWaitUs), TimeSpan.Zero), stop).ConfigureAwait(false);
            }
            catch (MetadataException e)
            {
                // It has succeeded all the same.
                Report.Progress(host, asJson).WriteLine($"warning: how long it took could not be noted for the next drill: {e.Message}");
            }
        }
        return CommandResult.Done;
    }

    // Of each shard that is to be given up and still has something: why it must not be, and why that cannot be told yet.
    // Both null: it may be.
    private static IEnumerable<(CommandResult? Living, string? MayComeBack)> Judge(
        SiteState state, int[] losing, IReadOnlyList<Answered<V1.StatusReply>> answers) =>
        state.Final is not null ? [] : losing.Select(shard => Judge(state, shard, answers));

    private static (CommandResult? Living, string? MayComeBack) Judge(
        SiteState state, int shard, IReadOnlyList<Answered<V1.StatusReply>> answers)
    {
        int[] numbers = [.. state.StreamsOf(new(shard))];
        // Given up before, or being seeded.
        if (numbers.Any(n => state.Streams[n] is { IsLost: true } or not { Phase: StreamPhase.Counts })) { return default; }
        V1.StreamStatus[] streams = [.. answers.Where(a => a.Reply is not null).SelectMany(a => a.Reply!.Streams)];
        V1.StreamStatus[] its = [.. streams.Where(s => numbers.Contains(s.Shard))];
        if (its.Any(s => s.Failure.Length > 0)) { return default; }
        string refused = $"shard {shard} is not to be given up: ", without = $"give the command without --lose-shard {shard}";
        if (its.Length == numbers.Length)
        {
            return (CommandResult.Failed(refused + "its process answers, and it can take over", without), null);
        }
        int at = answers.Select(a => a.Process.Shards.Any(s => s.Number == shard)).ToList().IndexOf(true);
        if (at < 0) { return default; }
        Answered<V1.StatusReply> known = answers[at];
        const string end = "; to give the shard up all the same, end that process for good first";
        if (known.Reply is { } reply)
        {
            // At its address another shard's process may run by now.
            if (its.Length == 0 && reply.Streams.Count > 0) { return default; }
            string starts = $"{known.Process} answers, and does not receive its stream yet: it starts";
            return (CommandResult.Failed(refused + starts, $"wait until its log says that it is ready, and {without}{end}"), starts);
        }
        string silent = $"{known.Process} does not answer: {known.Problem}";
        string? mayComeBack = known.Silence is Silence.LocksOut or Silence.Refuses ? null : silent;
        if (!known.IsThere) { return (null, mayComeBack); }
        return (CommandResult.Failed($"{refused}{known.Process} is there. {Sentence(known.Problem)}", $"{without}; {known.Remedy}{end}"),
            mayComeBack);
    }

    private static string Sentence(string text) => text.Length == 0 ? text : char.ToUpperInvariant(text[0]) + text[1..];

    // Each of these would have the failover wait, when nothing is served any more.
    public static CommandResult? Obstacle(SiteState state, int[] losing, IReadOnlyList<Answered<V1.StatusReply>> answers)
    {
        V1.StreamStatus[] streams = [.. answers.Where(a => a.Reply is not null).SelectMany(a => a.Reply!.Streams)];
        if (state.Take([.. losing]).Error is { } refused)
        {
            return CommandResult.Failed(refused, "slogger status --site shows how far the seeding is");
        }
        foreach (int number in Enumerable.Range(0, state.Streams.Length).Where(s => !losing.Contains(state.ShardOf(s))))
        {
            int shard = state.ShardOf(number);
            string loses = $"only if its disk is gone for good, give it up: slogger failover --lose-shard {shard}";
            if (streams.FirstOrDefault(s => s.Shard == number) is { } stream)
            {
                if (stream.Failure.Length > 0)
                {
                    return CommandResult.Failed($"the stream of shard {state.NameOf(number)} has failed: {stream.Failure}",
                        $"start its slogger backup again; {loses}");
                }
                continue;
            }
            Answered<V1.StatusReply>? its = answers.Where(a => a.Process.Shards.Any(s => s.Number == shard))
                .Select(a => (Answered<V1.StatusReply>?)a).FirstOrDefault();
            return its is not { } known
                ? CommandResult.Failed($"no process has ever said that it receives shard {shard}", $"start its slogger backup; {loses}")
                : known.Reply is null ? CommandResult.Failed($"{known.Process} does not answer: {known.Problem}",
                known.Silence is Silence.NotRunning or Silence.NotReached
                    ? $"start its slogger backup, or let it be reached, and give the command again; {loses}" : known.Remedy)
                : CommandResult.Failed($"{known.Process} answers, and does not receive shard {shard}: it starts, or another process has "
                + $"taken the shard", $"start the slogger backup of shard {shard}, or wait until its log says that it receives its stream");
        }
        return null;
    }

    private static TimeSpan Longer(TimeSpan a, TimeSpan b) => a > b ? a : b;

    private readonly record struct Performed(string? Error, TimeSpan Took, ulong FinalTime, IReadOnlyList<int> Silent, string Stages);

    // What the primary's database says: whether it has noted that its site is deposed, and when the last version ended that it had recorded
    // as committed.
    private readonly record struct Noted(string Text, DateTimeOffset? Known, bool HasAnswered = false);

    /// <summary>What the time since the command's start went into.</summary>
    /// <param name="began">A timestamp of <see cref="Stopwatch"/>.</param>
    private sealed class Parts(long began)
    {
        private readonly List<PartFacts> _parts = [];

        public IReadOnlyList<PartFacts> All => _parts;

        public TimeSpan Total { get; private set; }

        public void Passed(string what)
        {
            TimeSpan now = Stopwatch.GetElapsedTime(began);
            _parts.Add(new(now - Total, what));
            Total = now;
        }
    }

    // By the first process that does it to the end; whatever one has begun the next goes on with. Null: by none.
    private static async Task<Performed?> PerformedAsync(
        IReadOnlyList<Answered<V1.StatusReply>> answers, int[] losing, long leaseWaitUs, StepLog log, Action<SiteEpoch> taken, Parts parts,
            CancellationToken stop)
    {
        var request = new V1.FailoverRequest { LeaseWaitUs = leaseWaitUs };
        request.Losing.AddRange(losing);
        TimeSpan before = TimeSpan.Zero;
        foreach (SiteProcess process in answers.Where(a => a.Reply is { Streams.Count: > 0 }).Select(a => a.Process))
        {
            TimeSpan elapsed = before;
            void Heard(V1.FailoverNotice notice)
            {
                elapsed = before + TimeSpan.FromMicroseconds(notice.ElapsedUs);
                if (notice.Taken > 0) { taken(new(notice.Taken)); }
                if (notice.Text.Length > 0) { log.Step(elapsed, notice.IsWarning ? LogLevel.Warning : LogLevel.Information, notice.Text); }
            }
            await RehearseAsync(process, stop).ConfigureAwait(false);
            parts.Passed($"to rehearse it with {process}");
            try
            {
                if (await AskAsync(process, request, new CallOptions { Cancellation = stop }, Heard).ConfigureAwait(false) is { } end)
                {
                    parts.Passed($"for {process} to take over");
                    return new(end.Error.Length > 0 ? end.Error : null, elapsed, end.FinalTime, end.Silent, end.Stages);
                }
            }
            catch (RpcException e)
            {
                stop.ThrowIfCancellationRequested();
                log.Step(elapsed, LogLevel.Warning, LogText.Bounded($"{process} does not perform the failover: {e.Message}"));
            }
            before = elapsed;
            parts.Passed($"for {process}, which did not end it");
        }
        return null;
    }

    /// <summary>Has a process go through a failover that is refused everywhere: what it needs would else be compiled beside the real one.
    /// Changes nothing. In vain, and the failover is slower.</summary>
    public static async Task RehearseAsync(SiteProcess process, CancellationToken stop)
    {
        try
        {
            CallOptions options = new() { Cancellation = stop, Timeout = RehearsalLimit };
            await AskAsync(process, new() { Rehearse = true, LeaseWaitUs = -1 }, options, _ => { }).ConfigureAwait(false);
        }
        catch (RpcException)
        {
            stop.ThrowIfCancellationRequested();
        }
    }

    private static async Task<V1.FailoverEnd?> AskAsync(SiteProcess process, V1.FailoverRequest request, CallOptions options,
        Action<V1.FailoverNotice> heard)
    {
        await using ClientCall<V1.FailoverRequest, V1.FailoverNotice> call = process.Channel.Open(SiteControlMethods.Failover, options);
        if (await call.WriteAsync(request).ConfigureAwait(false)) { await call.CompleteAsync().ConfigureAwait(false); }
        while (await call.ReadAsync().ConfigureAwait(false) is { } notice)
        {
            heard(notice);
            if (notice.End is { } end) { return end; }
        }
        return null;
    }

    private static FailoverReport ReportOf(SiteState before, SiteState after, Performed done, V1.StreamStatus[] streams, Noted? noted,
        string? unasked, int[] losing, Parts parts)
    {
        DateTimeOffset? kept = SiteText.TimeOf(done.FinalTime), recorded = noted?.Known;
        DateTimeOffset? came = kept is null ? null : streams.Select(s => SiteText.TimeOf(s.DurableTime)).Max() ?? kept;
        // What it had recorded is an end: without it there may have been any more.
        bool isFromPrimary = recorded is not null && recorded >= came;
        DateTimeOffset? known = isFromPrimary ? recorded : came;
        return new(WasOverBefore: false, after.Epoch.Number, after.Epoch.FirstWorldLine.Number, after.Final!.Value, after.Shards)
        {
            ShardsTaken = after.Shards - losing.Length,
            Silent = done.Silent,
            WasUnderWay = before.Role == SiteRole.FailingOver,
            Rto = parts.Total,
            RtoParts = parts.All,
            Stages = done.Stages,
            Rpo = SiteText.Window(kept, known),
            KeptUntil = kept,
            KnownUntil = known,
            IsFromPrimary = isFromPrimary,
            Unasked = unasked,
            Primary = noted?.Text,
        };
    }

    private static async Task<Noted> NoteAsync(MetadataSpec primary, string cluster, SiteEpoch number)
    {
        try
        {
            await using SiteAccess site = await SiteAccess.OpenAsync(
                primary, cluster, SiteCredentials.None, CancellationToken.None).ConfigureAwait(false);
            await site.ChangeAsync(s => new(s.DeposedBy(number), null), CancellationToken.None).ConfigureAwait(false);
            ClusterSettings settings = (await site.Metadata.FindClusterAsync(cluster).ConfigureAwait(false))!;
            WorldPoint cut = (await site.Metadata.WatchAsync(cluster).ConfigureAwait(false)).Cut.Cut;
            DateTimeOffset? end = cut.Version.Number == 0 ? null
                : DateTimeOffset.UnixEpoch.AddTicks(
                new VersionGrid(settings.Grid).StartOf(cut.Version.Next) * TimeSpan.TicksPerMicrosecond);
            return new("the primary's database has noted that its site is deposed: what runs there ends, and nothing is served", end,
                HasAnswered: true);
        }
        catch (MetadataException e)
        {
            return new($"the primary's database cannot note that its site is deposed ({e.Message}): its processes hear it from this site "
                + "when they reach it", null);
        }
    }
}
