// What a shard does whose site is a backup: an intake appends the primary's stream to a log and says to which version the store goes;
// readers are let in between versions. What follows the log, and how it is loaded, kept and compared, is the store's (IFollowedStore).
//
// _feeding is held by whoever changes where the store stands: the intake, or the control task when the store was lost.
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Drills;
using Slogger.Proxy.Stores;
using Slogger.Proxy.Ports;
using Slogger.Redis.Connections;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

/// <summary>The store that follows, where it stands, and who is let in.</summary>
/// <param name="shard">Whose.</param>
/// <param name="store">Its store.</param>
/// <param name="checkpointing">Held by who deletes what a store can begin from, or needs that it stays.</param>
/// <param name="report">For people.</param>
internal sealed class ShardFollower(VersionedShard shard, IStore store, SemaphoreSlim checkpointing, ILogger report) : IFollowingShard
{
    private const int Rehearsals = 8;
    private readonly SemaphoreSlim _feeding = new(1, 1);
    private readonly RestoreTrials _trials = new(checkpointing);
    private readonly TaskCompletionSource<SiteState> _takenOver = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private IFollowedStore? _followed;
    private Boundary? _stands;                  // the end of a version, which readers see; under _feeding

    /// <summary>What follows.</summary>
    public IFollowedStore Followed => _followed!;

    /// <inheritdoc cref="IFollowedStore.SettingsAreBack"/>
    public bool SettingsAreBack => _followed is { SettingsAreBack: true };

    /// <summary>Where it stands; null: at no version. For people.</summary>
    public Boundary? Stands => _stands;

    /// <summary>Whether nobody is let in any more before the shard is a primary's.</summary>
    public bool IsPromoting { get; private set; }

    // ---- What the intake sees ----

    public ClusterSeat Seat => shard.Seat;

    public IPrimaryShard Primary => shard.Site;

    public VersionLog Log => shard.StreamLog;

    public CheckpointStore Checkpoints => shard.StreamCheckpoints;

    public StreamGuard? Guard => shard.Guard;

    public ICohortShard? Cohort => shard.CohortShard;

    public bool StoreFollows => _followed is { Follows: true };

    public WorldPoint Applied { get; private set; }

    public string? Problem => _followed?.Problem;

    public long? BaseBelow(long offset) => shard.BaseBelow(offset);

    public Task EnterAsync(WorldLine line, CancellationToken stop) => shard.EnterAsync(line, stop);

    public Task<RestoreTrial> TryRestoreAsync(CancellationToken stop) => _trials.RunAsync(shard.CompareAsync, stop);

    // ---- The start ----

    /// <summary>Goes on where the store stands, if it has followed before, and begins to receive.</summary>
    /// <param name="followed">What follows from now on.</param>
    /// <param name="isPrimarys">Whether the store is a primary's already.</param>
    /// <param name="stop">Gives up.</param>
    public async Task BeginAsync(IFollowedStore followed, bool isPrimarys, CancellationToken stop)
    {
        _followed = followed;
        bool mayBePromoted = Seat.FollowedSite!.Role == SiteRole.FailingOver;
        if (await followed.ResumeAsync(mayBePromoted, stop).ConfigureAwait(false) && followed.Offset is { } offset
            && LogPlaces.EndAtOrBelow(Log, offset) is var (end, isExact))
        {
            Applied = end.Point;
            if (isExact) { StandAt(end); }
            IsPromoting = isPrimarys;
        }
        shard.Lifetime.State = "following";
        string whom = Cohort is null ? $"the primary, as a backup in site epoch {Seat.FollowedSite.Epoch}" : "the leader of its cohort";
        report.Info($"shard {Seat.Shard}: follows {whom}{(Applied == default ? "" : $", from version {Applied} on")}");
        await shard.Intake!.StartAsync(this, stop).ConfigureAwait(false);
    }

    // ---- Versions ----

    public async Task BringToAsync(Boundary end, CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            await BringAsync(end, stop).ConfigureAwait(false);
        }
        finally
        {
            _feeding.Release();
        }
    }

    // Whoever reads waits until the store is there, however often that has to be tried.
    private async Task BringAsync(Boundary end, CancellationToken stop)
    {
        // Empty versions: what is read is the same.
        if (_stands is { } before && before.Offset == end.Offset && before.WorldLine == end.WorldLine && shard.IsOpen && _followed!.Follows)
        {
            StandAt(end);
            return;
        }
        await _followed!.RequireKnownAsync(end, stop).ConfigureAwait(false);
        if (shard.Access.Loop is { } loop) { await loop.HoldAsync().WaitAsync(stop).ConfigureAwait(false); }
        if (!_followed.Follows) { await BeginAnewAsync(end, stop).ConfigureAwait(false); }
        else { await _followed.BringToAsync(end, stop).ConfigureAwait(false); }
        StandAt(end);
        shard.Access.Loop?.LetGo();
        if (!shard.IsOpen) { OpenForReaders(); }
    }

    public async Task<bool> RenewAsync(Func<bool> begin, CancellationToken stop)
    {
        _trials.Bar();
        try
        {
            return await RenewNowAsync(begin, stop).ConfigureAwait(false);
        }
        finally
        {
            _trials.Allow();
        }
    }

    private async Task<bool> RenewNowAsync(Func<bool> begin, CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        // A checkpoint that is being taken is of the life before.
        _followed!.Renewing();
        await checkpointing.WaitAsync(CancellationToken.None).ConfigureAwait(false);
        try
        {
            bool hasBegun = await Task.Run(begin, CancellationToken.None).ConfigureAwait(false);
            if (!hasBegun) { return false; }
            (_stands, Applied) = (null, default);
            _followed!.Renewed();
            await TellUnknownAsync(stop).ConfigureAwait(false);
            return true;
        }
        finally
        {
            checkpointing.Release();
            _feeding.Release();
        }
    }

    // Of the copy it is known now, before there is a version to which it could be brought.
    private async Task TellUnknownAsync(CancellationToken stop)
    {
        try
        {
            await _followed!.RequireKnownAsync(LogPlaces.BaseOf(Log), stop).ConfigureAwait(false);
        }
        catch (Exception e) when (e is UnknownToStoreException or IOException or RedisException)
        {
            report.Error($"shard {Seat.Shard}: {e.Message}");
        }
    }

    private void StandAt(Boundary end)
    {
        (_stands, Applied) = (end, end.Point);
        shard.Versions.OnApplied(end.Point);
    }

    private async Task BeginAnewAsync(Boundary end, CancellationToken stop)
    {
        shard.Lifetime.State = "loading";
        // Who waits for the first version has read nothing yet.
        if (_stands is not null || shard.IsOpen)
        {
            await shard.Access.ShutOutAsync($"{store.Name} has to begin from a checkpoint").ConfigureAwait(false);
        }
        await store.EnsureRunningAsync(stop).ConfigureAwait(false);
        await _followed!.BringToAsync(end, stop).ConfigureAwait(false);
        await shard.OnLoadedAsync(stop).ConfigureAwait(false);
        report.Info($"shard {Seat.Shard}: {store.Name} was loaded from a checkpoint, and stands at version {end.Version}");
    }

    private void OpenForReaders()
    {
        if (!IsPromoting) { shard.Access.OpenForReaders(); }
    }

    // ---- Taking over ----

    public async Task PromoteAsync(CancellationToken stop)
    {
        // For good: what follows is a primary's.
        _trials.Bar();
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            // A master takes writes, and nobody would log them yet.
            IsPromoting = true;
            await shard.Access.ShutOutAsync("the site takes over").ConfigureAwait(false);
            await _followed!.PromoteAsync(stop).ConfigureAwait(false);
        }
        finally
        {
            _feeding.Release();
        }
    }

    public void TakeOver(SiteState site)
    {
        _takenOver.TrySetResult(site);
        shard.Lifetime.Wake();
    }

    public void OnGrid(VersionGrid grid) => shard.OnFollowedGrid(grid);

    public void OnIntakeFailed(string why) =>
        shard.Fail(ProxyExit.Failed($"shard {Seat.Shard}: its stream cannot be received any more: {why}", "see to the cause, and start "
            + "this process again"));

    /// <summary>Follows until the site has taken over. The control task.</summary>
    /// <returns>Where the log ends then, and what the site is.</returns>
    public async Task<(Boundary Final, SiteState Site)> FollowToEndAsync(CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        if (_stands is not null) { OpenForReaders(); }
        _feeding.Release();
        while (!_takenOver.Task.IsCompleted)
        {
            await shard.Lifetime.AttentionAsync(stop).ConfigureAwait(false);
            if (_takenOver.Task.IsCompleted) { break; }
            try
            {
                await LookAfterAsync(stop).ConfigureAwait(false);
            }
            // Cancelled without our having stopped: one life of the stream has ended, and the next is about to begin.
            catch (Exception e) when (e is RedisException or UnknownToStoreException or MetadataException or IOException
                or LogHistoryChangedException or LogIOException { IsFatal: false }
                    || (e is OperationCanceledException && !stop.IsCancellationRequested))
            {
                report.Error($"shard {Seat.Shard}: {e.Message}; trying again");
                await Task.Delay(ShardRecovery.RetryDelay, stop).ConfigureAwait(false);
                shard.Lifetime.Wake();
            }
        }
        return (Log.IsEmpty ? default : Log.LastBoundary ?? LogPlaces.BaseOf(Log), await _takenOver.Task.ConfigureAwait(false));
    }

    /// <summary>Asks ahead of a failover what that will ask of the metadata: nothing is compiled or prepared for the first time when it
    /// counts. Several times, since an answer may be there at once or be waited for, and what goes on after waiting is compiled by
    /// itself.</summary>
    public async Task RehearseAsync(CancellationToken stop)
    {
        try
        {
            for (int i = 0; i < Rehearsals; i++)
            {
                ClusterView view = await Seat.LookAsync(stop).ConfigureAwait(false);
                await Seat.LinesUpToAsync(view.Cut.Cut.WorldLine, stop).ConfigureAwait(false);
                await Seat.OutsideAsync(view.Cut.Cut.WorldLine, stop).ConfigureAwait(false);
                await Seat.Metadata.SnapshotAsync(Seat.Cluster, stop).ConfigureAwait(false);
                // Of an epoch that nobody ever takes: refused.
                await Seat.Metadata.OpenStreamsAsync(Seat.Cluster, new(-1), [new(Seat.Shard, Seat.Epoch, ClusterSeat.Name)],
                    stop).ConfigureAwait(false);
            }
        }
        catch (MetadataException)
        {
            // Then it is slower.
        }
    }

    /// <summary>The shard serves, or ends: what was only for following is given back. What is frozen takes nothing, and appends nothing:
    /// nobody has to wait for its end. Also of a shard that never followed.</summary>
    public async Task EndAsync()
    {
        if (shard.Intake is { } intake) { await intake.EndAsync().ConfigureAwait(false); }
        if (_followed is { } followed) { await followed.DisposeAsync().ConfigureAwait(false); }
    }

    // ---- When the store is lost ----

    private async Task LookAfterAsync(CancellationToken stop)
    {
        // The next one is somewhere else, and empty: nobody waits for this one any more.
        if (store.HasEnded) { _followed!.Lose(); }
        await shard.LookAtFollowedAsync(stop).ConfigureAwait(false);
        bool isLost = _followed!.Lost is { IsCompleted: true };
        if ((shard.Access.IsSuspected || isLost) && !IsPromoting) { await ResolveAsync(stop).ConfigureAwait(false); }
        await shard.KeepFollowedAsync(stop).ConfigureAwait(false);
    }

    // A connection of the front end broke, or Redis is not what it was.
    private async Task ResolveAsync(CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            // Before anything was applied there is nothing that it could have lost.
            if (_stands is not { } end || IsPromoting) { return; }
            if (_followed!.Follows && await shard.IsSameStoreAsync(stop).ConfigureAwait(false))
            {
                if (shard.Access.IsSuspected) { OpenForReaders(); }
                return;
            }
            if (_followed.Lost is { IsCompleted: true } lost) { report.Warn($"shard {Seat.Shard}: {await lost.ConfigureAwait(false)}"); }
            if (_followed.Follows) { throw new RedisException(RedisProblem.Unreachable, $"{store.Name} cannot be reached"); }
            await BringAsync(end, stop).ConfigureAwait(false);
        }
        finally
        {
            _feeding.Release();
        }
    }

    // ---- Where it stands ----

    /// <summary>Does something with the store where it stands, brought there anew if it does not follow.</summary>
    public async Task WhereItStandsAsync(Func<Boundary, Task> act, CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            Boundary end = _stands ?? throw new InvalidOperationException("The store stands at no version.");
            if (!_followed!.Follows) { await BringAsync(end, stop).ConfigureAwait(false); }
            await act(end).ConfigureAwait(false);
        }
        finally
        {
            _feeding.Release();
        }
    }

    /// <summary>Holds the store at the version at which it stands until what is returned is called, again: nothing. Null: it stands at
    /// none.</summary>
    public async Task<(Boundary At, Action LetGo)?> HoldStandingAsync(CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        if (_stands is not { } end || !_followed!.Follows)
        {
            _feeding.Release();
            return null;
        }
        int isHeld = 1;
        return (end, () =>
        {
            if (Interlocked.Exchange(ref isHeld, 0) == 1) { _feeding.Release(); }
        });
    }
}
