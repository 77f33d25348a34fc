// A shard that joins its cluster, or leaves it (Core's Members has the rules), and a clock grid that changes meanwhile.
//
// Joining: until it is admitted nobody is let in, cuts say nothing about this shard, and it has each of its versions in SQL at once,
// where it asks to be admitted with it. Whatever goes wrong before, it begins anew with its empty store.
// Leaving: nobody is served any more, and the cut is awaited; then, as at any ordered end, the last version is closed and recorded, the
// membership is ended, and so is the process.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.Lifecycle;
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
    private readonly Leaver _leaver = new();        // under the machine's lock
    private Task _leaving = Task.CompletedTask;
    private volatile bool _isLeaving;

    /// <summary>Completes when the shard can leave its cluster, as it is to: then it is stopped.</summary>
    public Task MayLeave => _mayLeave.Task;

    // ---- Joining ----

    bool ICutListener.IsJoining => _life.Joiner.IsJoining;

    async Task<DurableClaim?> ICutListener.AskToJoinAsync(WorldPoint recorded, WorldPoint cut, CancellationToken stop)
    {
        FailPoint.Pass(FailPoint.JoinAsks);
        await _admission.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            DurableClaim claim;
            lock (_machineLock)
            {
                if (_machine is not { } machine || !_life.Joiner.MayAsk(recorded, machine.WorldLine)) { return null; }
                // The newest: meanwhile the cut may have passed what was recorded, which would not do for it any more.
                claim = machine.ClaimOf(machine.Durable);
            }
            bool? isAdmitted = await AdmitAsync(claim, stop).ConfigureAwait(false);
            if (_life.Joiner.Answered(isAdmitted, claim.Point, cut) is { } version)
            {
                lock (_machineLock)
                {
                    if (_machine is { } machine && machine.WorldLine == cut.WorldLine) { machine.FastForward(version); }
                }
            }
            if (isAdmitted == true)
            {
                FailPoint.Pass(FailPoint.JoinAdmitted);
                _report.Info($"shard {_seat.Shard}: has joined cluster \"{_seat.Cluster}\" at {claim.Point}; it owns no slots until slogger move gives it some");
            }
            return isAdmitted == false ? null : claim;
        }
        finally
        {
            _admission.Release();
        }
    }

    // Null: the metadata does not answer. The claim may have arrived, or arrive yet; the shard asks again with the next version.
    private async Task<bool?> AdmitAsync(DurableClaim claim, CancellationToken stop)
    {
        try
        {
            return await _seat.Metadata.AdmitShardAsync(_seat.Cluster, _seat.Shard, claim, _seat.Epoch, stop).ConfigureAwait(false);
        }
        catch (MetadataUnavailableException)
        {
            return null;
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
        long began = Stopwatch.GetTimestamp();
        bool isTold = false, isSeen = false;
        while (!stop.IsCancellationRequested)
        {
            Version? last = null;
            if (_loop is { } loop)
            {
                // What was let through before the door was shut has been forwarded when the loop has seen that.
                if (!isSeen) { await loop.SeenAsync().ConfigureAwait(false); }
                isSeen = true;
                lock (_machineLock)
                {
                    bool mayLeave = _machine is { } machine && _leaver.Look(machine);
                    last = _leaver.Last;
                    if (mayLeave)
                    {
                        FailPoint.Pass(FailPoint.LeaveAllowed);
                        _mayLeave.TrySetResult();
                        return;
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
        bool mayLeave, mayEnd;
        lock (_machineLock) { (mayLeave, mayEnd) = (_leaver.MayLeave, _leaver.MayEnd(_machine)); }
        if (!mayLeave)
        {
            // Stopped before: it counts until it has been started again, or slogger leave has found it dead.
            _report.Warn($"shard {_seat.Shard}: stopped before the cut had come to what it served, so that it has not left: start it again, or give slogger leave once more");
            return;
        }
        if (!mayEnd)
        {
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
