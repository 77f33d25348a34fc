// Changes of data that Redis does not put into its replication stream (DEBUG POPULATE and its like). The log cannot replay
// them, so from before such a change no version is closed until a checkpoint holds it. A file says so meanwhile: a proxy that
// is killed in between takes the checkpoint when it comes back. The file stays until the cut has come to that checkpoint: what is in
// no log cannot be taken back in place.
using Slogger.Log.Files;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    // Redis sees the end of its child in the next tick of its own clock (100 ms); what runs longer is somebody else's child.
    private static readonly TimeSpan ChildEndMax = TimeSpan.FromSeconds(1);

    private readonly object _unloggedLock = new();
    private readonly List<Action> _unsettled = [];
    private long _unloggedBegun;
    private int _unloggedUnderWay;

    // Above 0 while a change is in no checkpoint: versions stay open. Changed under both locks.
    private volatile int _unlogged;

    // Where the checkpoint lies that holds all such changes, and to which the cut has yet to come; null: there is none. Under the lock.
    private long? _unloggedHeldAt;

    private string UnloggedNote => Path.Combine(_options.DataDirectory, "unlogged-change");

    private bool HasUnloggedNote => File.Exists(UnloggedNote);

    /// <inheritdoc />
    public override void BeforeUnloggedChange()
    {
        lock (_unloggedLock)
        {
            _unloggedBegun++;
            _unloggedUnderWay++;
            _unloggedHeldAt = null;
            lock (_machineLock) { _unlogged = 1; }
            DurableFile.Write(_files, UnloggedNote, []);
        }
    }

    /// <inheritdoc />
    public override void AfterUnloggedChange(Action settled)
    {
        lock (_unloggedLock)
        {
            _unloggedUnderWay--;
            _unsettled.Add(settled);
        }
        Wake();
    }

    // At a start: the change was made, or not; the store that goes on has what there is of it.
    private void ResumeUnlogged(bool storeGoesOn)
    {
        lock (_unloggedLock)
        {
            if (!HasUnloggedNote) { return; }
            lock (_machineLock) { _unlogged = 1; }
            if (!storeGoesOn && _unloggedUnderWay == 0) { ForgetUnlogged(); }
        }
        Wake();
    }

    private void ForgetUnlogged()
    {
        // Not synced: a note that a crash brings back costs a checkpoint.
        _files.Delete(UnloggedNote);
        _unloggedHeldAt = null;
        lock (_machineLock) { _unlogged = 0; }
    }

    // No rollback goes below the cut.
    private void ForgetCommittedUnlogged()
    {
        lock (_unloggedLock)
        {
            if (_unloggedHeldAt is { } held && _log.BoundaryAtOrBelow(RecordedCut.Version)?.Offset >= held) { ForgetUnlogged(); }
        }
    }

    private async Task KeepUnloggedAsync(CancellationToken stop)
    {
        if (!IsOpen) { return; }
        ForgetCommittedUnlogged();
        Action[] settled;
        long begun;
        bool needed;
        lock (_unloggedLock)
        {
            if (_unloggedUnderWay > 0) { return; }
            begun = _unloggedBegun;
            needed = _unlogged != 0;
            settled = [.. _unsettled];
            _unsettled.Clear();
        }
        try
        {
            if (needed && await _checkpointer.TakeAsync(stop).ConfigureAwait(false))
            {
                lock (_unloggedLock)
                {
                    // A change that has begun meanwhile wants a checkpoint of its own.
                    if (_unloggedBegun == begun)
                    {
                        _unloggedHeldAt = _checkpoints.All[^1].Offset;
                        lock (_machineLock) { _unlogged = 0; }
                    }
                }
                if (settled.Length > 0) { await ChildEndedAsync(stop).ConfigureAwait(false); }
            }
        }
        finally
        {
            foreach (Action action in settled) { PostToLoop(action); }
        }
    }

    // Until its child has been seen to end, Redis puts a rewrite of its AOF off.
    private async Task ChildEndedAsync(CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false);
        long began = MonotonicMicroseconds();
        while ((await control.InfoAsync("persistence", stop).ConfigureAwait(false)).GetValueOrDefault("rdb_bgsave_in_progress") == "1"
            && MonotonicMicroseconds() - began < ChildEndMax.TotalMicroseconds)
        {
            await Task.Delay(5, stop).ConfigureAwait(false);
        }
    }
}
