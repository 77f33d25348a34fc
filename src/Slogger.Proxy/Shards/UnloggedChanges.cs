// Changes of data that Redis does not put into its replication stream (DEBUG POPULATE and its like). The log cannot replay
// them, so from before such a change no version is closed until a checkpoint holds it. A file says so meanwhile: a proxy that
// is killed in between takes the checkpoint when it comes back. The file stays until the cut has come to that checkpoint: what is in
// no log cannot be taken back in place.
//
// Order of locks: this one's, then the machine's.
using Slogger.Log.Files;

namespace Slogger.Proxy.Shards;

/// <summary>The unlogged changes of one shard.</summary>
/// <param name="note">The file. It has no content.</param>
/// <param name="files">Where it lies.</param>
/// <param name="machineLock">The machine asks under it whether a version may be closed.</param>
/// <param name="checkpoints">Takes the checkpoint that holds the changes.</param>
/// <param name="dumps">What it is taken with.</param>
internal sealed class UnloggedChanges(string note, IFileLayer files, Lock machineLock, Checkpointer checkpoints, RedisDumps dumps)
{
    private readonly Lock _lock = new();
    private readonly List<Action> _unsettled = [];
    private long _begun;
    private int _underWay;

    // Changed under both locks.
    private volatile bool _arePending;

    // Where the checkpoint lies that holds all such changes, and to which the cut has yet to come; null: there is none. Under the lock.
    private long? _heldAt;

    /// <summary>A change is in no checkpoint: versions stay open. Any thread; it changes under the machine's lock.</summary>
    public bool ArePending => _arePending;

    /// <summary>A change may lie above the cut, so what the log says is not all that a rollback has to take back. Any thread.</summary>
    public bool MayLieAboveCut => _arePending || HasNote;

    private bool HasNote => File.Exists(note);

    /// <summary>A change is about to be made: that is noted when this returns. The front end's loop.</summary>
    public void Begin()
    {
        lock (_lock)
        {
            _begun++;
            _underWay++;
            _heldAt = null;
            SetPending(true);
            DurableFile.Write(files, note, []);
        }
    }

    /// <summary>The change was made, or not. The front end's loop.</summary>
    /// <param name="settled">Called when a checkpoint holds the change, or could not be taken: see <see cref="KeepAsync"/>.</param>
    public void End(Action settled)
    {
        lock (_lock)
        {
            _underWay--;
            _unsettled.Add(settled);
        }
    }

    /// <summary>The store is followed again. At a start nobody knows whether the change was made.</summary>
    /// <param name="storeGoesOn">The store has what there is of it; else it was restored, without it.</param>
    /// <returns>Whether there was a change: <see cref="KeepAsync"/> is to look after it.</returns>
    public bool Resume(bool storeGoesOn)
    {
        lock (_lock)
        {
            if (!HasNote) { return false; }
            SetPending(true);
            if (!storeGoesOn && _underWay == 0) { Forget(); }
            return true;
        }
    }

    /// <summary>Takes a checkpoint if a change needs one. The control task, while the shard is open.</summary>
    /// <param name="post">Has the front end's loop call who waits for a change to be settled.</param>
    /// <param name="stop">Gives up.</param>
    public async Task KeepAsync(Action<Action> post, CancellationToken stop)
    {
        ForgetCommitted();
        Action[] settled;
        long begun;
        bool isNeeded;
        lock (_lock)
        {
            if (_underWay > 0) { return; }
            begun = _begun;
            isNeeded = _arePending;
            settled = [.. _unsettled];
            _unsettled.Clear();
        }
        try
        {
            if (isNeeded && await checkpoints.TakeAsync(stop).ConfigureAwait(false))
            {
                lock (_lock)
                {
                    // A change that has begun meanwhile wants a checkpoint of its own.
                    if (_begun == begun)
                    {
                        _heldAt = checkpoints.Newest!.Offset;
                        SetPending(false);
                    }
                }
                if (settled.Length > 0) { await dumps.ChildEndedAsync(stop).ConfigureAwait(false); }
            }
        }
        finally
        {
            foreach (Action action in settled) { post(action); }
        }
    }

    // No rollback goes below the cut.
    private void ForgetCommitted()
    {
        lock (_lock)
        {
            if (_heldAt is { } held && checkpoints.CutOffset >= held) { Forget(); }
        }
    }

    private void Forget()
    {
        // Not synced: a note that a crash brings back costs a checkpoint.
        files.Delete(note);
        _heldAt = null;
        SetPending(false);
    }

    private void SetPending(bool arePending)
    {
        lock (machineLock) { _arePending = arePending; }
    }
}
