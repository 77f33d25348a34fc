// Going back to a commit while operations go on (DPR, section 5.5 and figure 8). FASTER has no such thing, so: at one moment all records
// above the commit become invisible: whoever meets one puts its key back first, lazily. A purge behind it does so for all keys. The
// first commit of the new timeline comes after the purge, so no commit ever holds a record that was taken back.
using FASTER.core;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Records;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Faster;

public sealed partial class FasterStore
{
    private int _rollbacks;
    private long _undone;
    private volatile bool _isGoingBack;   // a rollback is about to begin

    /// <summary>Whether a rollback is about to begin, or under way: compaction waits.</summary>
    internal bool IsGoingBack => _isGoingBack || _undo is not null;

    /// <summary>Rises with each rollback, before anything is taken back.</summary>
    internal int Rollbacks => Volatile.Read(ref _rollbacks);

    /// <summary>How often something was taken back. Changes with all stripes held.</summary>
    internal long UndoneCount => Volatile.Read(ref _undone);

    /// <summary>Goes back to a commit. When <paramref name="begun"/> is called nobody sees anything later any more; commits
    /// follow.</summary>
    /// <param name="to">The commit.</param>
    /// <param name="line">The timeline that begins.</param>
    /// <param name="next">The version that is open after the first commit of that timeline: later than the open one.</param>
    /// <param name="begun">Called while nobody changes a record: the moment between the timelines. It must be short.</param>
    /// <param name="cancellation">Ends the wait for a commit that is under way.</param>
    /// <returns>The first commit of the new timeline; null: another rollback came before it was made.</returns>
    /// <exception cref="InvalidOperationException">There is no such commit; or the memory is too small for what has to be put back: then
    /// nothing has changed, and the store is to be opened again at the commit.</exception>
    public async Task<CommitRecord?> RollbackAsync(
        WorldPoint to, WorldLine line, Version next, Action begun, CancellationToken cancellation = default) =>
        await GoBackAsync(to, next, begun, cancellation).ConfigureAwait(false)
            ? await CommitInTurnAsync(line, next).ConfigureAwait(false) : null;

    /// <summary>Goes back to a commit, and leaves the first commit of the new timeline to the caller: versions end where the caller
    /// says.</summary>
    /// <param name="to">The commit.</param>
    /// <param name="begun">Called while nobody changes a record: the moment between the timelines. It must be short.</param>
    /// <param name="cancellation">Ends the wait for a commit that is under way.</param>
    /// <returns>When commits can be made again: whether nothing of what was taken back is left. False: another rollback came
    /// before.</returns>
    /// <exception cref="InvalidOperationException">There is no such commit.</exception>
    public async Task<bool> RollbackAsync(WorldPoint to, Action begun, CancellationToken cancellation = default)
    {
        bool done = await GoBackAsync(to, null, begun, cancellation).ConfigureAwait(false);
        if (done) _turn.Release();
        return done;
    }

    // If true, with the turn still taken.
    private async Task<bool> GoBackAsync(WorldPoint to, Version? next, Action begun, CancellationToken cancellation)
    {
        RequireLater(next);
        if (_commits.Find(to) is null) throw NoCommit(to);
        // A purge that is under way would have to begin again anyhow.
        int number = Interlocked.Increment(ref _rollbacks);
        try
        {
            await TakeTurnAsync(cancellation).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // Not so after all.
            if (_undo is not null) await FinishPurgeAsync(number).ConfigureAwait(false);
            throw;
        }

        bool isPurging = false;
        try
        {
            RequireLater(next);
            CommitRecord commit = _commits.Hold(to) ?? throw NoCommit(to);
            // What compaction took from here on would be missing.
            _isGoingBack = true;
            RequireRoom(commit);
            // Should this process die now, the next one finds nothing of what is taken back.
            _commits.ForgetAfter(to);
            Stripes.Alone(() =>
            {
                var undo = new Undo(commit.To, _kv.Log.TailAddress);
                // What is found is left as it is: a record that was taken back is never brought up to date in its place.
                _kv.Log.ShiftReadOnlyAddress(undo.To, wait: false);
                _undo = undo;
                Volatile.Write(ref _undone, _undone + 1);
                _counts.Reset(commit.Keys, commit.LiveBytes);
                _compactor.BeginAnew();
                begun();
            });
            _isGoingBack = false;
            _from = _undo!.To;
            isPurging = true;
            if (await PurgeAsync(number).ConfigureAwait(false)) return true;
            _turn.Release();
            return false;
        }
        catch
        {
            _isGoingBack = false;
            if (_undo is null) _commits.EndHold();
            _turn.Release();
            if (!isPurging && _undo is not null) await FinishPurgeAsync(number).ConfigureAwait(false);
            throw;
        }
    }

    // A rollback that has failed may have stopped the purge of one before: the last that was asked for takes care of that.
    private async Task FinishPurgeAsync(int number)
    {
        await TakeTurnAsync(CancellationToken.None).ConfigureAwait(false);
        try
        {
            if (_undo is not null) await PurgeAsync(number).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    }

    // In its turn. False: another rollback has been asked for.
    private async Task<bool> PurgeAsync(int number)
    {
        Undo undo = _undo!;
        if (!await Task.Run(() => Purge(undo, number), CancellationToken.None).ConfigureAwait(false)) return false;
        _undo = null;
        _commits.EndHold();
        return true;
    }

    private void RequireLater(Version? next)
    {
        if (next <= Open) throw new ArgumentOutOfRangeException(nameof(next), $"Version {next} is not later than the open one, {Open}.");
    }

    private InvalidOperationException NoCommit(WorldPoint to) =>
        new($"{_options.Directory} has no commit of version {to}: the store cannot go back to it.");

    // What is put back is written anew: if there is no room for that, nothing is begun. Some is left for what is written meanwhile.
    private void RequireRoom(CommitRecord commit)
    {
        long tail = _kv.Log.TailAddress, room = _budget.Wall - UsedBytes;
        // At most all that there was, and of keys that there were not their removals, which are no longer than their records.
        if (commit.LiveBytes + tail - commit.To < room / 2) return;
        long needed = _budget.PageBytes;
        using FasterWorker worker = NewWorker();
        using IFasterScanIterator<SpanByte, SpanByte> records = _kv.Log.Scan(commit.To, tail);
        while (records.GetNext(out RecordInfo record))
            needed += worker.BytesToPutBack(records.GetKey().AsReadOnlySpan(), record.PreviousAddress, commit.To);
        if (needed > room) throw TooSmallToGoBack(commit.Point);
    }

    private bool Purge(Undo undo, int number)
    {
        using FasterWorker worker = NewWorker();
        AwaitWriting(worker, undo);
        var records = new FetchedWalk(Walk(undo.From, undo.To), Hints, withPrevious: true);
        while (records.GoOn())
        {
            if (Rollbacks != number) return false;
            if (_limits.IsFull) throw TooSmallToGoBack();
            worker.PutBack(records.Current.Key, records.Hash, undo);
        }

        return true;
    }

    // Until FASTER has begun to write the stretch, and so has said where it is in memory: when each of its threads has learnt that it is
    // read-only. An operation of ours tells it to look.
    private void AwaitWriting(FasterWorker worker, Undo undo)
    {
        var wait = default(SpinWait);
        for (long page = undo.From >> _options.PageBits; undo.From < undo.To && page << _options.PageBits < undo.To; page++)
        {
            while (!_device.Knows(page))
            {
                _ = worker.TryRead([], null, out _, out _);
                wait.SpinOnce();
            }
        }
    }

    internal InvalidOperationException TooSmallToGoBack(WorldPoint? to = null) =>
        new($"The memory for records ({_options.MemoryBytes} bytes) is too small to take so much back in place: open the store again at "
            + $"version {to ?? _commits.Newest!.Point}.");
}
