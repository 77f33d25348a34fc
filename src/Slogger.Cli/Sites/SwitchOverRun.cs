// Performs a switch-over as Core's SwitchOver decides, from what both sites' SQL say: it may be killed at any step, and the next one goes
// on.
using System.Diagnostics;
using Slogger.Cli.Terminal;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Failovers;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>One run of it. It owns the connections to both sites.</summary>
/// <param name="primary">The primary.</param>
/// <param name="backup">The backup.</param>
/// <param name="ships">The primary's processes.</param>
/// <param name="shards">How many shards there are.</param>
/// <param name="limit">So long clients wait at most until the backup is offered to take over; zero: it is called off.</param>
/// <param name="host">Where the outcome is shown.</param>
/// <param name="asJson">Whether for a program.</param>
/// <param name="log">Where the steps are.</param>
internal sealed class SwitchOverRun(SiteAccess primary, SiteAccess backup, IReadOnlyList<SiteProcess> ships, int shards, TimeSpan limit,
    AppHost host, bool asJson, StepLog log) : IAsyncDisposable
{
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(2), RetryPause = TimeSpan.FromMilliseconds(50);
    private Task<FailoverOutcome>? _taking;
    private WorldPoint? _offered;
    private string _waitsFor = "", _said = "";

    /// <summary>Does what can be done before anybody is held up. Changes nothing.</summary>
    /// <exception cref="MetadataException">A database cannot be used.</exception>
    public static async Task<SwitchOverRun> PrepareAsync(SiteAccess primary, SiteAccess backup, int shards, TimeSpan limit, AppHost host,
        bool asJson, StepLog log, CancellationToken stop)
    {
        await ManagerOf(backup, log).RehearseAsync(stop).ConfigureAwait(false);
        await primary.ChangeAsync(s => new(s, null), stop).ConfigureAwait(false);
        IReadOnlyList<SiteProcess> ships = await primary.ProcessesAsync(stop).ConfigureAwait(false);
        await SiteAccess.AskAllAsync(ships, SiteControlMethods.Status, new V1.StatusRequest(), stop).ConfigureAwait(false);
        return new(primary, backup, ships, shards, limit, host, asJson, log);
    }

    /// <summary>Does it. A database that cannot be used is asked again at the same place: what was begun has to come to its end.</summary>
    public async Task<CommandResult> RunAsync(CancellationToken stop)
    {
        log.Begin();
        var machine = new SwitchOver(NowUs + (long)limit.TotalMicroseconds);
        while (true)
        {
            SiteState here = await TryAsync(() => primary.StateAsync(stop), "primary", stop).ConfigureAwait(false);
            SiteState? there = await OrNullAsync(() => backup.StateAsync(stop)).ConfigureAwait(false);
            _offered = here.HandOver.Cut ?? _offered;
            switch (machine.Next(here, there, await ProgressAsync(here, stop).ConfigureAwait(false), NowUs))
            {
                case SwitchOverStep.Hold hold:
                    if (await ChangeAsync(primary, "primary", s => s.Hold(hold.After), stop).ConfigureAwait(false))
                    {
                        log.Info("the primary holds all operations of its clients");
                    }
                    break;
                case SwitchOverStep.Await wait:
                    _waitsFor = wait.For;
                    await Task.Delay(Pause, stop).ConfigureAwait(false);
                    break;
                case SwitchOverStep.Offer offer:
                    if (await ChangeAsync(primary, "primary", s => s.Offer(offer.Number, offer.Cut), stop).ConfigureAwait(false))
                    {
                        log.Info($"everything that was done is in cut {offer.Cut}, which the backup holds: it is offered to take over");
                    }
                    break;
                case SwitchOverStep.Take take:
                    if (await ChangeAsync(backup, "backup", s => s.TakeOffered(take.Number), stop).ConfigureAwait(false))
                    {
                        log.Info("the backup takes over");
                        Begin(stop);
                    }
                    else { await Task.Delay(RetryPause, stop).ConfigureAwait(false); }
                    break;
                case SwitchOverStep.CallOff off:
                    if (!await ChangeAsync(backup, "backup", s => s.CallOff(off.Number), stop).ConfigureAwait(false))
                    {
                        await Task.Delay(RetryPause, stop).ConfigureAwait(false);
                    }
                    break;
                case SwitchOverStep.Resume resume:
                    if (await ChangeAsync(primary, "primary", s => s.Resume(resume.Number, resume.IsCalledOff), stop).ConfigureAwait(false))
                    {
                        await TellAsync(resume.Number, stop).ConfigureAwait(false);
                    }
                    break;
                case SwitchOverStep.Depose depose:
                    // Whoever held nothing is deposed by somebody else's failover, whose end is that one's business: a site lease may have
                    // to be waited for.
                    if (_offered is not null) { Begin(stop); }
                    await ChangeAsync(primary, "primary", s => new(s.DeposedBy(depose.By), null), stop).ConfigureAwait(false);
                    break;
                case SwitchOverStep.Done { HasSwitched: true }:
                    return await SwitchedAsync(stop).ConfigureAwait(false);
                case SwitchOverStep.Done:
                    return limit == TimeSpan.Zero ? CalledOff()
                        : CommandResult.Failed("the switch-over was called off: it waited for "
                            + $"{(_waitsFor.Length > 0 ? _waitsFor : "the backup")}. Clients of the primary go on", "slogger status "
                            + "--site shows both sites; give the command again, or with a longer --within");
                default:
                    throw new UnreachableException();
            }
        }
    }

    private CommandResult CalledOff()
    {
        new SwitchOverReport(IsCalledOff: true).Write(host, asJson);
        return CommandResult.Done;
    }

    private void Begin(CancellationToken stop)
    {
        if (_taking is not null) { return; }
        _taking = Task.Run(() => ManagerOf(backup, log).RunAsync([], stop), stop);
    }

    // No lease is waited for: the primary holds everything, and commits nothing that is not in the cut.
    private static FailoverManager ManagerOf(SiteAccess backup, StepLog log) =>
        new(backup.Metadata, backup.Cluster, backup.PeersAsync, leaseWaitUs: 0, log);

    private async Task<CommandResult> SwitchedAsync(CancellationToken stop)
    {
        SiteState there = await TryAsync(() => backup.StateAsync(stop), "backup", stop).ConfigureAwait(false);
        if (_taking is null && there.Role == SiteRole.FailingOver)
        {
            if (_offered is null)
            {
                return CommandResult.Failed("the primary is deposed by a failover that somebody else has begun",
                    "slogger failover, at the backup, goes on with it");
            }
            Begin(stop);
        }
        if (_taking is not null && (await _taking.ConfigureAwait(false)).Error is { } error)
        {
            return CommandResult.Failed(error, "slogger failover, at the backup, goes on with it");
        }
        there = await TryAsync(() => backup.StateAsync(stop), "backup", stop).ConfigureAwait(false);
        var report = new SwitchOverReport(IsCalledOff: false, there.Epoch.Number, there.Epoch.FirstWorldLine.Number)
        {
            Cut = _offered,
            From = there.Final,
        };
        if (report is { Cut: { } cut, From: { } final } && final < cut)
        {
            report.Write(host, asJson);
            return CommandResult.Failed($"the backup has gone on from {final}, which lies below the cut {cut} at which "
                + "the primary ended", "please report this, with what both sites' slogger status --site shows");
        }
        if (limit == TimeSpan.Zero)
        {
            report.Write(host, asJson);
            return CommandResult.Failed("it was too late to call the switch-over off: the backup had taken over",
                "send clients there; slogger seed here makes this site the backup");
        }
        (report with { Held = log.Elapsed }).Write(host, asJson);
        return CommandResult.Done;
    }

    // The recorded cut goes on while nothing is done, and the watermark comes behind it for ever. Any recorded cut that has everything will
    // do, and watermarks are such.
    private async Task<SwitchOverProgress> ProgressAsync(SiteState here, CancellationToken stop)
    {
        var held = new WorldPoint?[shards];
        if (here.Role != SiteRole.HandingOver || here.HandOver.Cut is not null || limit == TimeSpan.Zero)
        {
            return new(held, default, default);
        }
        WorldPoint cut = default, watermark = default;
        foreach (Answered<V1.HoldReply> answer in await SiteAccess.AskAllAsync(
            ships, SiteControlMethods.Hold, new V1.HoldRequest { Number = here.HandOver.Number }, stop).ConfigureAwait(false))
        {
            foreach (V1.HeldShard shard in answer.Reply?.Shards.Where(s => s.Shard >= 0 && s.Shard < shards).ToArray() ?? [])
            {
                held[shard.Shard] = shard.Held is { } point ? SiteText.Of(point) : null;
                (cut, watermark) = (Max(cut, SiteText.Of(shard.Cut)), Max(watermark, SiteText.Of(shard.Watermark)));
            }
        }
        return new(held, watermark < cut && held.All(h => h is { } at && at.WorldLine == watermark.WorldLine && at <= watermark)
            ? watermark : cut, watermark);
    }

    // They look by themselves; asked, they do at once.
    private Task TellAsync(long number, CancellationToken stop) =>
        SiteAccess.AskAllAsync(ships, SiteControlMethods.Hold, new V1.HoldRequest { Number = number }, stop);

    private async Task<bool> ChangeAsync(SiteAccess site, string what, Func<SiteState, SiteChange> change, CancellationToken stop)
    {
        SiteAnswer answer = await TryAsync(() => site.ChangeAsync(change, stop), what, stop).ConfigureAwait(false);
        if (answer.Error is { } error) { Say(error); }
        return answer.Error is null;
    }

    private async Task<T> TryAsync<T>(Func<Task<T>> call, string what, CancellationToken stop)
    {
        while (true)
        {
            try
            {
                return await call().ConfigureAwait(false);
            }
            catch (MetadataUnavailableException e)
            {
                Say($"the {what}'s database cannot be used, and is tried again: {e.Message}");
                await Task.Delay(RetryPause, stop).ConfigureAwait(false);
            }
        }
    }

    private async Task<SiteState?> OrNullAsync(Func<Task<SiteState>> call)
    {
        try
        {
            return await call().ConfigureAwait(false);
        }
        catch (MetadataUnavailableException e)
        {
            Say($"the backup's database cannot be used, and is tried again: {e.Message}");
            return null;
        }
    }

    private void Say(string text)
    {
        if (text != _said) { log.Warn(text); }
        _said = text;
    }

    public async ValueTask DisposeAsync()
    {
        await backup.DisposeAsync().ConfigureAwait(false);
        await primary.DisposeAsync().ConfigureAwait(false);
    }

    private static WorldPoint Max(WorldPoint a, WorldPoint b) => a > b ? a : b;

    private static long NowUs => (long)Stopwatch.GetElapsedTime(0).TotalMicroseconds;
}
