// The heart-beat of a proxy in a cluster of several shards: renews its shard's lease while it has its store, sees which others
// are alive, finds out where the coordinator is, and takes that role when its lease has run out. All through SQL: who cannot
// reach it deposes nobody. Core's LeaseWatch says when a lease has run out.
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Core.Leases;
using Slogger.Core.Membership;
using Slogger.Core.Versions;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Coordination;

/// <summary>How a shard of the cluster looks from here.</summary>
public enum ShardLife
{
    /// <summary>Its lease is renewed, or it was seen too short a time ago to say.</summary>
    Up,

    /// <summary>Its lease has run out: its proxy is gone, has lost its store, or cannot reach the metadata.</summary>
    Down,

    /// <summary>It has not run yet.</summary>
    Never,

    /// <summary>It has not joined yet.</summary>
    Joining,

    /// <summary>It has left.</summary>
    Left,
}

/// <summary>What is known of a shard.</summary>
/// <param name="Shard">Which.</param>
/// <param name="Life">Whether it lives.</param>
/// <param name="QuietFor">Since its lease was last seen to change.</param>
/// <param name="Address">Where clients reach it.</param>
internal readonly record struct ShardPulse(ShardId Shard, ShardLife Life, TimeSpan QuietFor, string Address);

/// <summary>Who is told. The pulse's task calls.</summary>
internal interface IPulseListener
{
    /// <summary>Whether the shard's store is there: only then its lease is renewed.</summary>
    bool HasStore { get; }

    /// <summary>The recorded cut, and the current world-line.</summary>
    void OnCut(ClusterCut cut);

    /// <summary>The shard's clock, in microseconds since the Unix epoch.</summary>
    long NowUs { get; }

    /// <summary>The clock grid, and until when it is known now.</summary>
    void OnGrid(GridView grid);

    /// <summary>Who is in the cluster was looked at.</summary>
    void OnMembers();

    /// <summary>Another process has taken the shard.</summary>
    void OnDeposed(string owner);

    /// <summary>A person has to act.</summary>
    void OnMetadataFailed(ProxyExit exit);
}

internal sealed class ClusterPulse(ClusterSeat seat, IPulseListener listener, CoordinatorLink link, CutCoordinator coordinator)
{
    /// <summary>How long a lease holds without being renewed.</summary>
    public static readonly TimeSpan Term = TimeSpan.FromSeconds(2);

    /// <summary>How often it is renewed, and looked at.</summary>
    public static readonly TimeSpan Period = TimeSpan.FromMilliseconds(400);

    // Up to so many shards everybody looks at all others with each beat; beyond, in proportion less often: what all of them together read
    // grows with their number.
    private const int ShardsAtATime = 16;

    // How long after its time a proposed change of the interval is given up.
    private static readonly TimeSpan GridGrace = TimeSpan.FromSeconds(1);

    private readonly GridFollower _grid = new(seat.GridView, (long)GridGrace.TotalMicroseconds);
    private readonly LeaseWatch _role = new((long)Term.TotalMicroseconds);
    private readonly List<LeaseWatch> _watches = [];
    private long _lookedAt = long.MinValue / 2, _owners = -1, _watchedUs;
    private volatile IReadOnlyList<ShardPulse> _shards = [];
    private Task _coordinating = Task.CompletedTask;

    /// <summary>The shards, as of the last beat; none before the first.</summary>
    public IReadOnlyList<ShardPulse> Shards => _shards;

    /// <summary>Beats until stopped.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        try
        {
            while (await BeatAsync(stop).ConfigureAwait(false)) { await Task.Delay(Period, stop).ConfigureAwait(false); }
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            // Stopped.
        }
        catch (MetadataException e)
        {
            listener.OnMetadataFailed(ProxyExit.Failed($"the metadata failed: {e.Message}", ""));
        }
        await _coordinating.ConfigureAwait(false);
    }

    // False: this process has nothing more to do here.
    private async Task<bool> BeatAsync(CancellationToken stop)
    {
        try
        {
            if (listener.HasStore)
            {
                await seat.Metadata.RenewShardAsync(seat.Cluster, seat.Shard, seat.Epoch, stop).ConfigureAwait(false);
            }
            long asked = Now();
            ClusterWatch? watch = asked - _lookedAt >= LookPeriodUs
                ? await seat.Metadata.WatchAsync(seat.Cluster, stop).ConfigureAwait(false) : null;
            ClusterBeat beat = watch?.BeatOf(seat.Shard)
                ?? await seat.Metadata.BeatAsync(seat.Cluster, seat.Shard, stop).ConfigureAwait(false);
            long answered = Now();
            if (beat.Own.Epoch != seat.Epoch)
            {
                listener.OnDeposed(beat.Own.Owner);
                return false;
            }
            if (watch is not null)
            {
                (_lookedAt, _owners) = (asked, watch.Owners);
                seat.See(watch.Shards);
                listener.OnMembers();
                See(watch, asked, answered);
            }
            // Somebody has come or gone: at once.
            else if (beat.Owners != _owners) { _lookedAt = long.MinValue / 2; }
            listener.OnCut(beat.Cut);
            await FollowGridAsync(beat.ChangeUs, stop).ConfigureAwait(false);
            bool hasRunOut = _role.Look(beat.Coordinator, asked, answered) || beat.Coordinator.Epoch == 0;
            if (hasRunOut && _coordinating.IsCompleted) { await TakeRoleAsync(beat, stop).ConfigureAwait(false); }
            else { link.Aim(beat.CoordinatorAddress, beat.Coordinator.Epoch); }
        }
        catch (MetadataUnavailableException)
        {
            _role.Missed();
            foreach (LeaseWatch watch in _watches) { watch.Missed(); }
        }
        return true;
    }

    // 0: with each beat.
    private long LookPeriodUs => seat.ShardCount <= ShardsAtATime ? 0 : (long)Period.TotalMicroseconds * seat.ShardCount / ShardsAtATime;

    private async Task FollowGridAsync(long proposedUs, CancellationToken stop)
    {
        GridStep step = _grid.Beat(proposedUs);
        while (step.Kind == GridStepKind.Read)
        {
            if (await seat.LearnGridAsync(step.ChangeUs, stop).ConfigureAwait(false) is not { } view) { return; }
            if (_grid.Learned(view)) { listener.OnGrid(view); }
            step = _grid.Next(listener.NowUs);
        }
        // Who has proposed it may be gone.
        if (step.Kind == GridStepKind.Settle)
        {
            await seat.Metadata.SettleIntervalAsync(seat.Cluster, step.ChangeUs, step.GivesUp, stop).ConfigureAwait(false);
        }
    }

    private void See(ClusterWatch watch, long asked, long answered)
    {
        // Looks may be further apart than a term: what a lease says then is for people only, and comes later.
        long termUs = (long)Term.TotalMicroseconds * (1 + (watch.Shards.Count / ShardsAtATime));
        if (termUs != _watchedUs) { _watches.Clear(); }
        _watchedUs = termUs;
        var shards = new ShardPulse[watch.Shards.Count];
        for (int i = 0; i < shards.Length; i++)
        {
            if (i == _watches.Count) { _watches.Add(new LeaseWatch(termUs)); }
            bool hasRunOut = _watches[i].Look(watch.Leases[i], asked, answered);
            ShardLife life = watch.Shards[i].State switch
            {
                MemberState.Joining => ShardLife.Joining,
                MemberState.Left => ShardLife.Left,
                _ => watch.Shards[i].Epoch == 0 ? ShardLife.Never : hasRunOut ? ShardLife.Down : ShardLife.Up,
            };
            shards[i] = new(watch.Shards[i].Shard, life, TimeSpan.FromMicroseconds(answered - _watches[i].UnchangedSinceUs),
                watch.Shards[i].Address);
        }
        _shards = shards;
    }

    private async Task TakeRoleAsync(ClusterBeat beat, CancellationToken stop)
    {
        if (await seat.Metadata.TakeCoordinatorAsync(seat.Cluster, beat.Coordinator, seat.Address,
            stop).ConfigureAwait(false) is not { } epoch)
        {
            return;
        }
        _coordinating = Task.Run(
            async () =>
            {
                try
                {
                    await coordinator.RunAsync(epoch, stop).ConfigureAwait(false);
                }
                catch (MetadataException e)
                {
                    listener.OnMetadataFailed(ProxyExit.Failed($"the metadata failed: {e.Message}", ""));
                }
                catch (Exception e)
                {
                    // A finder that contradicts itself must not go on.
                    listener.OnMetadataFailed(ProxyExit.Failed($"shard {seat.Shard}: coordinating the cuts failed: {e}", "report this"));
                }
            },
            CancellationToken.None);
        link.Aim(seat.Address, epoch);
    }

    private static long Now() => (long)Stopwatch.GetElapsedTime(0).TotalMicroseconds;
}
