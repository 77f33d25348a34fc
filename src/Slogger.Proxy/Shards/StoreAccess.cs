// Who uses the store: opens it to the front end and closes it. It is shut at once by whoever suspects that it was lost, and opened by a
// recovery alone (StoreDoor); what the loop is to do about it is posted to the loop.
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Proxy.Stores;

namespace Slogger.Proxy.Shards;

/// <summary>The front end, and the door between it and the store. Any thread, if nothing else is said.</summary>
internal sealed class StoreAccess(VersionedShard shard)
{
    private readonly StoreDoor _door = new();
    private readonly TaskCompletionSource _serving = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _taken;        // whoever opens: the control task; while the store follows, whoever changes where it stands

    /// <summary>The front end's, once it is there.</summary>
    public FrontEndLoop? Loop { get; private set; }

    /// <summary>Completes when the shard first serves, and not as a backup's.</summary>
    public Task Serving => _serving.Task;

    /// <inheritdoc cref="StoreDoor.IsOpen"/>
    public bool IsOpen => _door.IsOpen;

    /// <inheritdoc cref="StoreDoor.IsSuspected"/>
    public bool IsSuspected => _door.IsSuspected;

    /// <inheritdoc cref="StoreDoor.LastReason"/>
    public string LastReason => _door.LastReason;

    /// <summary>The front end is there. Once.</summary>
    public void Attach(FrontEndLoop loop) => Loop = loop;

    /// <inheritdoc cref="StoreDoor.Suspect"/>
    public void Suspect(string reason) => _door.Suspect(reason);

    /// <inheritdoc cref="StoreDoor.Shut"/>
    public void Shut() => _door.Shut();

    /// <summary>Nobody is let in any more.</summary>
    public void ShutForGood()
    {
        _door.Shut();
        shard.OnClosing();
    }

    /// <summary>What is suspected from here on keeps it shut. Whoever opens it next.</summary>
    public void TakeSuspicion() => _taken = _door.Take();

    /// <summary>Closes the front end: nothing of the old world-line may still be on its way when the store is overwritten.</summary>
    public async Task CloseAsync()
    {
        shard.OnClosing();
        if (Loop is not { } loop) { return; }
        var closed = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        loop.Post(() =>
        {
            loop.CloseStore("the store was lost");
            closed.SetResult();
        });
        await closed.Task.ConfigureAwait(false);
    }

    /// <summary>Opens the front end. After a rollback every client learns of it first. Whoever has taken the suspicion.</summary>
    public void Open(Boundary? rolledBack)
    {
        if (Loop is not { } loop) { return; }
        shard.SessionBatches.Publish(shard.Recovery.Lines);
        IStoreConnector connector = shard.Connector;
        long taken = _taken;
        string run = shard.StoreRun;
        if (!shard.Lifetime.IsStopping && !shard.IsFollowing) { shard.Lifetime.State = "serving"; }
        loop.Post(() =>
        {
            loop.Store = connector;
            if (rolledBack is { } branch)
            {
                loop.OnRolledBack(branch.WorldLine, branch.Version);
                FailPoint.Pass(FailPoint.ClientsTold);
            }
            // The store may be lost again already: nothing is forwarded to what was not restored. Who ends forwards nothing either.
            if (!_door.TryOpen(taken) && !shard.IsEnding) { return; }
            loop.OpenStore(run);
            shard.OnOpened();
            if (!shard.IsFollowing) { _serving.TrySetResult(); }
        });
    }

    /// <summary>Waits until what was let through is answered. The caller has seen to it that no more is.</summary>
    /// <param name="limit">How long it waits.</param>
    /// <param name="stop">Gives up.</param>
    /// <param name="endsBlocked">Whether all that blocks is ended, since others than clients will write.</param>
    /// <returns>The version that is open then: it holds the last of it, and is committed soon. Null: it took too long, or there is no front
    /// end.</returns>
    public async Task<WorldPoint?> AwaitForwardedAsync(TimeSpan limit, CancellationToken stop, bool endsBlocked = false)
    {
        if (Loop is not { } loop) { return null; }
        var withholding = new Withholding(FrontEndLoop.Microseconds() + (long)limit.TotalMicroseconds,
            connections => shard.EndBlocked(connections, stop));
        loop.Post(() => loop.AwaitForwarded(withholding, endsBlocked));
        try
        {
            if (!await withholding.Answered.Task.WaitAsync(limit, stop).ConfigureAwait(false)) { return null; }
        }
        catch (TimeoutException)
        {
            return null;
        }
        finally
        {
            withholding.IsGivenUp = true;
        }
        WorldPoint last;
        lock (shard.Versions.Lock)
        {
            ShardMachine machine = shard.Versions.Machine!;
            last = new(machine.WorldLine, machine.OpenVersion);
        }
        shard.AwaitCommitOf(last.Version);
        return last;
    }

    // ---- While the store follows ----

    /// <summary>Nobody reads from here on, until it is opened again.</summary>
    public async Task ShutOutAsync(string why)
    {
        _door.Suspect(why);
        TakeSuspicion();
        await CloseAsync().ConfigureAwait(false);
    }

    /// <summary>Readers are let in.</summary>
    public void OpenForReaders()
    {
        TakeSuspicion();
        shard.Lifetime.State = "following";
        Open(rolledBack: null);
    }

    // ---- What the loop is told ----

    /// <summary>Has the front end's loop do something.</summary>
    public void Post(Action action) => Loop?.Post(action);

    /// <summary>Has the open version end now, not at its time.</summary>
    public void EndVersion()
    {
        if (Loop is { } loop) { loop.Post(loop.Boundary.OnFastForward); }
    }

    /// <summary>Clients that wait for a commit, or for a watermark, may be told more than before.</summary>
    public void WakeWaiting()
    {
        if (Loop is { AnybodyWaits: true } loop) { loop.Post(loop.OnCommitted); }
    }

    /// <summary>More may be settled than before: replies that wait for it leave. Under the machine's lock.</summary>
    /// <param name="settled">The last version that is settled.</param>
    public void WakeReplies(long settled)
    {
        if (settled == _settledLast) { return; }
        _settledLast = settled;
        // The loop says that somebody waits, and then looks: here it is the other way round.
        Interlocked.MemoryBarrier();
        if (Loop is { Replies: { AnybodyWaits: true } replies }) { replies.Post(); }
    }

    private long _settledLast;

    /// <summary>What was read may be told again (<see cref="IShardPort.MaySpeak"/>). Any thread.</summary>
    public void WakeSilent()
    {
        if (Loop is { Replies: { AnybodyWaits: true } replies }) { replies.Post(); }
    }

    /// <summary>Less is held than before.</summary>
    public void OnHoldEnded()
    {
        if (Loop is { } loop) { loop.Post(loop.OnHoldEnded); }
    }
}
