// Going back to a commit while operations go on (DPR, section 5.5 and figure 8). FASTER has no such thing, so: at one moment all records
// above the commit become invisible: whoever meets one puts its key back first, lazily. A purge behind it does so for all keys. The
// first commit of the new timeline comes after the purge, so no commit ever holds a record that was taken back.
using System.Buffers.Binary;
using FASTER.core;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Disk;
using Slogger.Faster.Memory;
using Slogger.Faster.Records;

namespace Slogger.Faster;

/// <summary>The rollbacks of a store: what is being taken back, and how often that was done.</summary>
internal sealed class Rollback(
    FasterStore store, FasterOptions options, LogDevice device, CommitList commits, RecordCounts counts, LogSpace space, LogLimits limits,
    CommitTurn turn, Committer committer, Compactor compactor)
{
    // Whoever asks may hold up others who ask for nothing of the kind.
    private static readonly TimeSpan s_purgeMax = TimeSpan.FromSeconds(1);
    private volatile Undo? _undo;
    private int _number;
    private long _undone;
    private volatile bool _isGoingBack;   // a rollback is about to begin

    /// <summary>What is being taken back; null: nothing.</summary>
    public Undo? BeingUndone => _undo;

    /// <summary>Whether a rollback is about to begin, or under way: compaction waits.</summary>
    public bool IsGoingBack => _isGoingBack || _undo is not null;

    /// <summary>Rises with each rollback, before anything is taken back.</summary>
    public int Number => Volatile.Read(ref _number);

    /// <summary>How often something was taken back. Changes with all stripes held.</summary>
    public long UndoneCount => Volatile.Read(ref _undone);

    /// <summary>While a rollback's purge is under way: has the list of keys show all that the rollback has brought back. What it has taken
    /// back may still be listed: who reads such a key finds none. Once for each rollback it reads what was taken back, and puts back what
    /// was removed there; nothing else is waited for.</summary>
    /// <param name="worker">The caller's.</param>
    public void ListAgain(FasterWorker worker)
    {
        if (_undo is not { IsListed: false } undo) return;
        using (IFasterScanIterator<SpanByte, SpanByte> records = store.Kv.Log.Scan(undo.From, undo.To))
        {
            while (records.GetNext(out _))
            {
                if (!RecordHeader.IsRemoved(BinaryPrimitives.ReadInt64LittleEndian(records.GetValue().AsReadOnlySpan()))) continue;
                ReadOnlySpan<byte> key = records.GetKey().AsReadOnlySpan();
                worker.PutBack(key, FasterWorker.HashOf(key), undo);
            }
        }

        undo.IsListed = true;
    }

    /// <summary>Waits, a second at most, until the list of keys shows nothing that a rollback has taken back, and all that it has brought
    /// back.</summary>
    /// <returns>Whether it does.</returns>
    public bool WaitUntilPurged()
    {
        long start = Environment.TickCount64;
        while (_undo is not null)
        {
            if (Environment.TickCount64 - start > s_purgeMax.TotalMilliseconds) return false;
            Thread.Sleep(1);
        }

        return true;
    }

    /// <summary>Goes back to a commit.</summary>
    /// <param name="to">The commit.</param>
    /// <param name="next">The version that is to be open later, which must be later than the open one; null: it is not known yet.</param>
    /// <param name="begun">Called while nobody changes a record: the moment between the timelines. It must be short.</param>
    /// <param name="cancellation">Ends the wait for the turn.</param>
    /// <returns>Whether nothing of what was taken back is left: then the turn is still taken. False: another rollback came
    /// before.</returns>
    public async Task<bool> GoBackAsync(WorldPoint to, VersionNumber? next, Action begun, CancellationToken cancellation)
    {
        RequireLater(next);
        if (commits.Find(to) is null) throw NoCommit(to);
        // A purge that is under way would have to begin again anyhow.
        int number = Interlocked.Increment(ref _number);
        try
        {
            await turn.TakeAsync(cancellation).ConfigureAwait(false);
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
            CommitRecord commit = commits.Hold(to) ?? throw NoCommit(to);
            // What compaction took from here on would be missing.
            _isGoingBack = true;
            RequireRoom(commit);
            // Should this process die now, the next one finds nothing of what is taken back.
            commits.ForgetAfter(to);
            store.Stripes.Alone(() =>
            {
                var undo = new Undo(commit.To, store.Kv.Log.TailAddress);
                // What is found is left as it is: a record that was taken back is never brought up to date in its place.
                store.Kv.Log.ShiftReadOnlyAddress(undo.To, wait: false);
                _undo = undo;
                Volatile.Write(ref _undone, _undone + 1);
                counts.Reset(commit.Keys, commit.LiveBytes);
                compactor.BeginAnew();
                begun();
            });
            _isGoingBack = false;
            committer.BeginAnewAt(_undo!.To);
            isPurging = true;
            if (await PurgeAsync(number).ConfigureAwait(false)) return true;
            turn.Give();
            return false;
        }
        catch
        {
            _isGoingBack = false;
            if (_undo is null) commits.EndHold();
            turn.Give();
            if (!isPurging && _undo is not null) await FinishPurgeAsync(number).ConfigureAwait(false);
            throw;
        }
    }

    // A rollback that has failed may have stopped the purge of one before: the last that was asked for takes care of that.
    private async Task FinishPurgeAsync(int number)
    {
        await turn.TakeAsync(CancellationToken.None).ConfigureAwait(false);
        try
        {
            if (_undo is not null) await PurgeAsync(number).ConfigureAwait(false);
        }
        finally
        {
            turn.Give();
        }
    }

    // In its turn. False: another rollback has been asked for.
    private async Task<bool> PurgeAsync(int number)
    {
        Undo undo = _undo!;
        if (!await Task.Run(() => Purge(undo, number), CancellationToken.None).ConfigureAwait(false)) return false;
        _undo = null;
        commits.EndHold();
        return true;
    }

    private void RequireLater(VersionNumber? next)
    {
        if (next <= store.Open)
            throw new ArgumentOutOfRangeException(nameof(next), $"Version {next} is not later than the open one, {store.Open}.");
    }

    private InvalidOperationException NoCommit(WorldPoint to) =>
        new($"{options.Directory} has no commit of version {to}: the store cannot go back to it.");

    // What is put back is written anew: if there is no room for that, nothing is begun. Some is left for what is written meanwhile.
    private void RequireRoom(CommitRecord commit)
    {
        long tail = store.Kv.Log.TailAddress, room = space.Room;
        // At most all that there was, and of keys that there were not their removals, which are no longer than their records.
        if (commit.LiveBytes + tail - commit.To < room / 2) return;
        long needed = space.Budget.PageBytes;
        using FasterWorker worker = store.NewWorker();
        using IFasterScanIterator<SpanByte, SpanByte> records = store.Kv.Log.Scan(commit.To, tail);
        while (records.GetNext(out RecordInfo record))
            needed += worker.BytesToPutBack(records.GetKey().AsReadOnlySpan(), record.PreviousAddress, commit.To);
        if (needed > room) throw TooSmallToGoBack(commit.Point);
    }

    private bool Purge(Undo undo, int number)
    {
        using FasterWorker worker = store.NewWorker();
        AwaitWriting(worker, undo);
        var records = new FetchedWalk(store.Walk(undo.From, undo.To), store.Hints, withPrevious: true);
        while (records.GoOn())
        {
            if (Number != number) return false;
            if (limits.IsFull) throw TooSmallToGoBack();
            worker.PutBack(records.Current.Key, records.Hash, undo);
        }

        return true;
    }

    // Until FASTER has begun to write the stretch, and so has said where it is in memory: when each of its threads has learnt that it is
    // read-only. An operation of ours tells it to look.
    private void AwaitWriting(FasterWorker worker, Undo undo)
    {
        var wait = default(SpinWait);
        for (long page = undo.From >> options.PageBits; undo.From < undo.To && page << options.PageBits < undo.To; page++)
        {
            while (!device.Knows(page))
            {
                _ = worker.TryRead([], null, out _, out _);
                wait.SpinOnce();
            }
        }
    }

    public InvalidOperationException TooSmallToGoBack(WorldPoint? to = null) =>
        new($"The memory for records ({options.MemoryBytes} bytes) is too small to take so much back in place: open the store again at "
            + $"version {to ?? commits.Newest!.Point}.");
}
