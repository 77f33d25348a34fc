// A shard that joins its cluster, or leaves it (Core's Members has the rules), and a clock grid that changes meanwhile.
//
// Joining: until it is admitted nobody is let in, cuts say nothing about this shard, and it has each of its versions in SQL at once,
// where it asks to be admitted with it. Whatever goes wrong before, it begins anew with its empty store.
// Leaving: nobody is served any more, and the cut is awaited; then, as at any ordered end, the last version is closed and recorded, the
// membership is ended, and so is the process.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;
using Slogger.Proxy.Stores;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    private static readonly TimeSpan EndMembershipLimit = TimeSpan.FromSeconds(10);
    private readonly SemaphoreSlim _admission = new(1, 1);
    private static readonly TimeSpan LeavePeriod = TimeSpan.FromMilliseconds(5);
    private static readonly TimeSpan LeaveWarning = TimeSpan.FromSeconds(10);
    private readonly TaskCompletionSource _mayLeave = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private Task _leaving = Task.CompletedTask;
    private volatile bool _isLeaving;
    private volatile bool _isJoining;
    private volatile bool _mayBeAdmitted;

    // What is below was said by an earlier beginning; none while it is not clear with what this shard begins.
    private Version? _joinsFrom;

    /// <summary>Completes when the shard can leave its cluster, as it is to: then it is stopped.</summary>
    public Task MayLeave => _mayLeave.Task;

    // ---- Joining ----

    bool ICutListener.IsJoining => _isJoining;

    // Nothing is claimed for what is over while the recovery looks where the shard stands.
    private async Task SuspendAdmissionAsync(CancellationToken stop)
    {
        if (!_isJoining) { return; }
        await _admission.WaitAsync(stop).ConfigureAwait(false);
        _joinsFrom = null;
        _admission.Release();
    }

    private async Task<bool> BeginToJoinAsync(WorldPoint at, WorldPoint recorded, CancellationToken stop)
    {
        // Admitted with what is thrown away here, it could not go back where the others can. Who takes the shard anew has another epoch.
        if (_mayBeAdmitted)
        {
            throw new RecoveryRefusedException($"shard {_seat.Shard}: its Redis was lost while it joined cluster \"{_seat.Cluster}\", and the metadata did not answer whether it has joined: start this proxy again");
        }
        // The machine of an attempt before has closed nothing that anybody knows of.
        lock (_machineLock) { _machine = null; }
        if (!await BeginAsync(at, recorded, $"{EmptyStoreName}, to join the cluster", goesOn: false, stop).ConfigureAwait(false)) { return false; }
        FailPoint.Pass(FailPoint.JoinBegun);
        await _admission.WaitAsync(stop).ConfigureAwait(false);
        _joinsFrom = at.Version;
        _admission.Release();
        return true;
    }

    async Task<DurableClaim?> ICutListener.AskToJoinAsync(WorldPoint recorded, WorldPoint cut, CancellationToken stop)
    {
        FailPoint.Pass(FailPoint.JoinAsks);
        await _admission.WaitAsync(stop).ConfigureAwait(false);
        DurableClaim claim = default;
        try
        {
            lock (_machineLock)
            {
                if (_joinsFrom is not { } from || _machine is not { } machine) { return null; }
                if (machine.WorldLine != recorded.WorldLine || recorded.Version < from) { return null; }
                // The newest: meanwhile the cut may have passed what was recorded, which would not do for it any more.
                claim = machine.ClaimOf(machine.Durable);
            }
            if (!await _seat.Metadata.AdmitShardAsync(_seat.Cluster, _seat.Shard, claim, _seat.Epoch, stop).ConfigureAwait(false))
            {
                CatchUp(claim.Point, cut);
                return null;
            }
            FailPoint.Pass(FailPoint.JoinAdmitted);
            _isJoining = false;
            _report.Info($"shard {_seat.Shard}: has joined cluster \"{_seat.Cluster}\" at {claim.Point}; it owns no slots until slogger move gives it some");
            return claim;
        }
        catch (MetadataUnavailableException)
        {
            // It asks again with the next version. This claim may have arrived, or arrive yet.
            _mayBeAdmitted = true;
            return claim;
        }
        finally
        {
            _admission.Release();
        }
    }

    private void CatchUp(WorldPoint durable, WorldPoint cut)
    {
        if (Members.CatchesUpAt(cut, durable) is not { } version) { return; }
        lock (_machineLock)
        {
            if (_machine is { } machine && machine.WorldLine == cut.WorldLine) { machine.FastForward(version); }
        }
    }

    // ---- Leaving ----

    void IPulseListener.OnMembers()
    {
        _messages?.Follow(_seat.Members);
        if (_seat.State != MemberState.Leaving || _isLeaving) { return; }
        _isLeaving = true;
        _report.Info($"shard {_seat.Shard}: leaves cluster \"{_seat.Cluster}\"");
        _leaving = Task.Run(() => AwaitLastCutAsync(_ending.Token), CancellationToken.None);
    }

    // Serves nobody from now on, and counts until the cut has come to all that it has answered.
    private async Task AwaitLastCutAsync(CancellationToken stop)
    {
        _door.Shut();
        FailPoint.Pass(FailPoint.LeaveBegun);
        OnClosing();
        Version? open = null, last = null;
        long began = Stopwatch.GetTimestamp();
        bool isTold = false;
        while (!stop.IsCancellationRequested)
        {
            // What was let through before the door was shut has been forwarded when the loop has seen that.
            if (_loop is { } loop)
            {
                if (open is null) { await loop.SeenAsync().ConfigureAwait(false); }
                lock (_machineLock)
                {
                    // All that was forwarded is in this version, or before it. Whether it holds anything is known to the front end
                    // alone until the version ends.
                    open ??= _machine?.OpenVersion;
                    if (_machine is { NeedsMarker: false, MarkerInFlight: false } machine && machine.LastBoundary.Version >= open)
                    {
                        last ??= machine.LastBoundary.Version;
                        if (machine.Committed.Version >= last)
                        {
                            FailPoint.Pass(FailPoint.LeaveAllowed);
                            _mayLeave.TrySetResult();
                            return;
                        }
                    }
                }
            }
            if (!isTold && Stopwatch.GetElapsedTime(began) > LeaveWarning)
            {
                isTold = true;
                _report.Warn($"shard {_seat.Shard}: can leave when the cut has come to {(last is { } version ? $"version {version}" : "its last version")}, and it has not in {LeaveWarning.TotalSeconds} s: is a shard down? slogger recover has the others go on without one that is");
            }
            await Task.Delay(LeavePeriod, CancellationToken.None).ConfigureAwait(false);
        }
    }

    // Whatever was answered is in the cut.
    private async Task EndMembershipAsync()
    {
        if (_seat.State != MemberState.Leaving) { return; }
        if (!_mayLeave.Task.IsCompleted)
        {
            // Stopped before: it counts until it has been started again, or slogger leave has found it dead.
            _report.Warn($"shard {_seat.Shard}: stopped before the cut had come to what it served, so that it has not left: start it again, or give slogger leave once more");
            return;
        }
        bool isClosed;
        lock (_machineLock) { isClosed = _machine is { IsClosed: true }; }
        if (!isClosed)
        {
            // Something that was answered is in no durable version: a world-line has to say that it is lost.
            _report.Warn($"shard {_seat.Shard}: its store was lost before its last version could be closed: give slogger leave once more");
            return;
        }
        FailPoint.Pass(FailPoint.LeaveClosed);
        using var limit = new CancellationTokenSource(EndMembershipLimit);
        try
        {
            bool hasLeft = await _seat.RetryAsync(() => _seat.Metadata.EndMembershipAsync(_seat.Cluster, _seat.Shard, _seat.Epoch, limit.Token), limit.Token).ConfigureAwait(false);
            FailPoint.Pass(FailPoint.LeaveTold);
            if (hasLeft) { _report.Info($"shard {_seat.Shard}: has left cluster \"{_seat.Cluster}\"; its data directory is of no use any more"); }
        }
        catch (Exception e) when (e is OperationCanceledException or MetadataException)
        {
            _report.Warn($"shard {_seat.Shard}: the metadata could not be told that it has left ({e.Message}): give slogger leave once more");
        }
    }

    // ---- The grid ----

    long IPulseListener.NowUs => Now().Microseconds;

    void IPulseListener.OnGrid(GridView grid)
    {
        lock (_machineLock)
        {
            if (_machine is not { } machine) { return; }
            bool isNews = !ReferenceEquals(machine.Grid, grid.Grid);
            machine.GridChanged(grid.Grid, grid.ValidUntilUs);
            if (!isNews) { return; }
        }
        long interval = grid.Grid.Stretches[^1].IntervalUs;
        _report.Info($"shard {_seat.Shard}: versions are of {interval / 1000.0} ms from version {grid.Grid.Stretches[^1].FirstVersion} on");
        if (_options.ClockError.TotalMicroseconds > interval / 2.0)
        {
            _report.Warn($"shard {_seat.Shard}: --clock-error of {_options.ClockError.TotalMilliseconds} ms is more than half of a version: most replies wait. Lengthen versions again, or keep the clocks closer together");
        }
    }
}
