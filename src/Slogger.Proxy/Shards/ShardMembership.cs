// A shard that joins its cluster, or leaves it (Core's Membership has the rules).
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
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;

namespace Slogger.Proxy.Shards;

/// <summary>The membership of a shard in its cluster. Any thread.</summary>
internal sealed class ShardMembership(VersionedShard shard, ILogger report) : IDisposable
{
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan LeavePeriod = TimeSpan.FromMilliseconds(5);
    private static readonly TimeSpan LeaveWarning = TimeSpan.FromSeconds(10);
    private readonly SemaphoreSlim _admission = new(1, 1);
    private readonly TaskCompletionSource _mayLeave = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly Leaver _leaver = new();        // under the machine's lock
    private volatile bool _isLeaving;

    /// <summary>Completes when the shard can leave its cluster, as it is to: then it is stopped.</summary>
    public Task MayLeave => _mayLeave.Task;

    /// <summary>Whether it is to leave.</summary>
    public bool IsLeaving => _isLeaving;

    /// <summary>Waiting for what it needs to leave; ends with the shard.</summary>
    public Task Leaving { get; private set; } = Task.CompletedTask;

    // ---- Joining ----

    /// <summary>Whether the shard has yet to join.</summary>
    public bool IsJoining => shard.Recovery.Joiner.IsJoining;

    /// <summary>Nobody asks to be admitted before that is allowed.</summary>
    public async Task SuspendAdmissionAsync(CancellationToken stop)
    {
        await _admission.WaitAsync(stop).ConfigureAwait(false);
        shard.Recovery.Joiner.Suspend();
        _admission.Release();
    }

    /// <summary>The shard has begun with this version, and may be admitted with a later one.</summary>
    public async Task AllowAdmissionAsync(VersionNumber begun, CancellationToken stop)
    {
        await _admission.WaitAsync(stop).ConfigureAwait(false);
        shard.Recovery.Joiner.Begun(begun);
        _admission.Release();
    }

    /// <summary>See <see cref="ICutListener.AskToJoinAsync"/>.</summary>
    public async Task<DurableClaim?> AskToJoinAsync(WorldPoint recorded, WorldPoint cut, CancellationToken stop)
    {
        FailPoint.Pass(FailPoint.JoinAsks);
        await _admission.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            DurableClaim claim;
            lock (shard.Versions.Lock)
            {
                if (shard.Versions.Machine is not { } machine || !shard.Recovery.Joiner.MayAsk(recorded, machine.WorldLine))
                {
                    return null;
                }
                // The newest: meanwhile the cut may have passed what was recorded, which would not do for it any more.
                claim = machine.ClaimOf(machine.Durable);
            }
            bool? isAdmitted = await AdmitAsync(claim, stop).ConfigureAwait(false);
            if (shard.Recovery.Joiner.Answered(isAdmitted, claim.Point, cut) is { } version)
            {
                lock (shard.Versions.Lock)
                {
                    if (shard.Versions.Machine is { } machine && machine.WorldLine == cut.WorldLine) { machine.FastForward(version); }
                }
            }
            if (isAdmitted == true)
            {
                FailPoint.Pass(FailPoint.JoinAdmitted);
                report.Info($"shard {shard.Seat.Shard}: has joined cluster \"{shard.Seat.Cluster}\" at {claim.Point}; it owns no slots "
                    + "until slogger move gives it some");
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
            return await shard.Metadata.AdmitShardAsync(shard.Seat.Cluster, shard.Seat.Shard, claim, shard.Seat.Epoch,
                stop).ConfigureAwait(false);
        }
        catch (MetadataUnavailableException)
        {
            return null;
        }
    }

    // ---- Leaving ----

    /// <summary>Who is in the cluster was looked at. The pulse's task.</summary>
    public void OnMembers()
    {
        if (shard.Seat.State != MemberState.Leaving || _isLeaving) { return; }
        _isLeaving = true;
        report.Info($"shard {shard.Seat.Shard}: leaves cluster \"{shard.Seat.Cluster}\"");
        Leaving = Task.Run(() => AwaitLastCutAsync(shard.Lifetime.End), CancellationToken.None);
    }

    // Serves nobody from now on, and counts until the cut has come to all that it has answered.
    private async Task AwaitLastCutAsync(CancellationToken stop)
    {
        shard.Access.ShutForGood();
        FailPoint.Pass(FailPoint.LeaveBegun);
        long began = Stopwatch.GetTimestamp();
        bool isTold = false, isSeen = false;
        while (!stop.IsCancellationRequested)
        {
            VersionNumber? last = null;
            if (shard.Access.Loop is { } loop)
            {
                // What was let through before the door was shut has been forwarded when the loop has seen that.
                if (!isSeen) { await loop.SeenAsync().ConfigureAwait(false); }
                isSeen = true;
                lock (shard.Versions.Lock)
                {
                    bool mayLeave = shard.Versions.Machine is { } machine && _leaver.Look(machine);
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
                string until = last is { } version ? $"version {version}" : "its last version";
                report.Warn($"shard {shard.Seat.Shard}: can leave when the cut has come to {until}, and it has not in "
                    + $"{LeaveWarning.TotalSeconds} s: is a shard down? slogger recover has the others go on without one that is");
            }
            await Task.Delay(LeavePeriod, CancellationToken.None).ConfigureAwait(false);
        }
    }

    /// <summary>The last version is committed: ends the membership, if the shard is to leave. Whatever was answered is in the
    /// cut.</summary>
    public async Task EndAsync()
    {
        if (shard.Seat.State != MemberState.Leaving) { return; }
        bool mayLeave, mayEnd;
        lock (shard.Versions.Lock) { (mayLeave, mayEnd) = (_leaver.MayLeave, _leaver.MayEnd(shard.Versions.Machine)); }
        if (!mayLeave)
        {
            // Stopped before: it counts until it has been started again, or slogger leave has found it dead.
            report.Warn($"shard {shard.Seat.Shard}: stopped before the cut had come to what it served, so that it has not left: start it "
                + "again, or give slogger leave once more");
            return;
        }
        if (!mayEnd)
        {
            report.Warn($"shard {shard.Seat.Shard}: its store was lost before its last version could be closed: give slogger "
                + "leave once more");
            return;
        }
        FailPoint.Pass(FailPoint.LeaveClosed);
        using var limit = new CancellationTokenSource(EndLimit);
        try
        {
            bool hasLeft = await shard.Seat.RetryAsync(
                () => shard.Metadata.EndMembershipAsync(shard.Seat.Cluster, shard.Seat.Shard, shard.Seat.Epoch, limit.Token),
                    limit.Token).ConfigureAwait(false);
            FailPoint.Pass(FailPoint.LeaveTold);
            if (hasLeft)
            {
                report.Info($"shard {shard.Seat.Shard}: has left cluster \"{shard.Seat.Cluster}\"; its data directory is of "
                    + "no use any more");
            }
        }
        catch (Exception e) when (e is OperationCanceledException or MetadataException)
        {
            report.Warn($"shard {shard.Seat.Shard}: the metadata could not be told that it has left ({e.Message}): give slogger "
                + "leave once more");
        }
    }

    // ---- The shard is another process's ----

    /// <summary>Nothing may be promised any more, and nothing that was is broken.</summary>
    public void OnDeposed(string owner)
    {
        // One that has left, and has nothing more to promise, is nobody's by its own doing.
        if (IsLeaving && shard.Versions.Stopped.IsCompleted) { return; }
        if (shard.StepsDown(later: null)) { return; }
        shard.Versions.Deposed();
        shard.Fail(owner == Nobody.Name
            ? ProxyExit.Failed($"shard {shard.Seat.Shard} has been removed from cluster \"{shard.Seat.Cluster}\" by slogger leave: "
            + "its proxy ends", "to have it join anew give --join, the next number, an empty Redis and an empty --data")
            : ProxyExit.Failed(DeposedText(owner), "give each proxy a shard of its own, or stop one of the two"));
    }

    /// <summary>Whose it is, for people.</summary>
    public string DeposedText(string owner) =>
        $"shard {shard.Seat.Shard} of cluster \"{shard.Seat.Cluster}\" has been taken by another proxy"
        + $"{(owner.Length > 0 ? $" ({owner})" : "")}: this one stops";

    public void Dispose() => _admission.Dispose();
}
