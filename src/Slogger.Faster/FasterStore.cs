// FASTER as a state object: keys and values of any bytes, versions that end at one place of the log, commits that are incremental,
// and going back to a commit while operations go on. In mode fold-over, with the whole log in memory.
//
// How FASTER has to be used, so that its log is not spoilt (each found by experiment):
// - whoever changes a record holds its stripe (StripeLocks);
// - a version ends while all stripes are held: FASTER's version and the log's tail then say the same, and no record is of two versions;
// - what lies below that place is read-only from then on: a later change makes a new record, so that each version's records are its own;
// - a checkpoint that was begun is completed, and only then is another begun; the version that is to follow is checked by us;
// - commits that are newer than the one to be recovered are deleted first; older ones before the log that they need is cut;
// - the log never grows so far that FASTER would put a part of it out of memory (LogBudget).
//
// Threads: each uses workers of its own. Commits and rollbacks run one after the other. Compaction has a thread, and so has the disk.
//
// Its parts: Committer ends versions, Rollback goes back, CommitTurn has them follow each other; LogSpace says who may write, Compactor
// gives back what is dead.
using System.Buffers.Binary;
using FASTER.core;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Disk;
using Slogger.Faster.Keys;
using Slogger.Faster.Memory;
using Slogger.Faster.Records;

namespace Slogger.Faster;

/// <summary>A store of records. Source: DPR, section 5; Prasaad et al., Concurrent Prefix Recovery.</summary>
public sealed class FasterStore : IDisposable
{
    private const int PagesAdvised = 8;
    private readonly FasterOptions _options;
    private readonly IDisposable _directoryLock;
    private readonly LogDevice _device;
    private readonly FasterKV<SpanByte, SpanByte> _kv;
    private readonly CommitTurn _turn = new();
    private readonly CommitList _commits;
    private readonly RecordCounts _counts = new();
    private readonly LogLimits _limits;
    private readonly Compactor _compactor;
    private readonly Committer _committer;
    private long _opened;                           // where the log ended when the store was opened

    private long _localUntil = long.MaxValue;

    // These change with all stripes held.
    private long _open;
    private long _ended;                            // where the last version ended in the log
    private long _admitted;

    private FasterStore(FasterOptions options)
    {
        options.Validate();
        _options = options;
        options.Files.CreateDirectory(options.Directory);
        _directoryLock = options.Files.TryLock(Path.Combine(options.Directory, "lock"))
            ?? throw new InvalidOperationException($"{options.Directory} is in use by another process.");
        try
        {
            var files = new CommitFiles(options.Files, StoredCommits.DirectoryIn(options.Directory));
            _commits = new(files);
            _device = new(options.Files, options.Directory, options.SegmentBits, options.PageBits);
            long buckets = Floor2(options.IndexBytes) / 64;
            _kv = new(
                buckets,
                new LogSettings
                {
                    LogDevice = _device,
                    MemorySizeBits = Bits(options.MemoryBytes),
                    PageSizeBits = options.PageBits,
                    SegmentSizeBits = options.SegmentBits,
                    MutableFraction = 0.9,
                },
                new CheckpointSettings { CheckpointManager = files, CheckpointVersionSwitchBarrier = true },
                comparer: new KeyComparer(), concurrencyControlMode: ConcurrencyControlMode.None);
            Hints = MemoryHints.Of(_kv, options.PageBits, options.OwnsProcess ? PagesAdvised : 0);
            Stripes = new((int)Math.Min(options.Stripes, buckets));
            var budget = new LogBudget(1L << options.PageBits, 1L << (Bits(options.MemoryBytes) - options.PageBits));
            _limits = new(budget);
            _compactor = new(this);
            Space = new(_kv, options.MemoryBytes, budget, _limits, _counts, _compactor.Wake);
            _committer = new(this, options, _device, files, _commits, _counts, _turn, _compactor);
            Rollback = new(this, options, _device, _commits, _counts, Space, _limits, _turn, _committer, _compactor);
        }
        catch
        {
            // Whoever tries again finds the directory free.
            _device?.Dispose();
            _kv?.Dispose();
            _directoryLock.Dispose();
            throw;
        }
    }

    /// <summary>The version that is open: that of a change, for whoever holds its lock; of a read, when it is asked for behind
    /// it.</summary>
    public VersionNumber Open => new(Volatile.Read(ref _open));

    /// <summary>Whether anything was written since the last version's end. Then the log has grown: what was there before is
    /// read-only.</summary>
    public bool IsChanged => _kv.Log.TailAddress != Volatile.Read(ref _ended);

    /// <summary>The commits that are on disk, oldest first.</summary>
    public IReadOnlyList<CommitRecord> Commits => _commits.All;

    /// <summary>How many commits are on disk.</summary>
    public int CommitCount => _commits.Count;

    /// <summary>What was found damaged when the store was opened; null: nothing.</summary>
    public string? Damage { get; private set; }

    /// <summary>The most bytes of a key and its value: a page has to hold their record.</summary>
    public long RecordBytesMax => Space.RecordBytesMax;

    internal StripeLocks Stripes { get; }

    internal FasterKV<SpanByte, SpanByte> Kv => _kv;

    internal LogSpace Space { get; }

    internal LogBudget Budget => Space.Budget;

    /// <summary>From the page in which the log begins to its end.</summary>
    internal long UsedBytes => Space.UsedBytes;

    /// <summary>Whether nothing at all may be written.</summary>
    internal bool IsFull => _limits.IsFull;

    internal Rollback Rollback { get; }

    internal Undo? BeingUndone => Rollback.BeingUndone;

    /// <summary>The keys that there are; null: nobody has asked for them.</summary>
    internal KeyDirectory? Keys { get; private set; }

    /// <summary>Null: this FASTER's memory is not known.</summary>
    internal MemoryHints? Hints { get; }

    /// <summary>Opens a store at its newest commit, or empty if it has none.</summary>
    /// <param name="options">The options.</param>
    /// <param name="at">The commit to open; null: the newest. Newer ones are deleted.</param>
    /// <param name="open">The version that is open then, later than the commit's if there is one; null: the next one.</param>
    /// <exception cref="InvalidOperationException">There is no such commit.</exception>
    /// <exception cref="InvalidDataException">The directory holds something else, or what it holds is damaged.</exception>
    public static FasterStore OpenAt(FasterOptions options, WorldPoint? at = null, VersionNumber? open = null)
    {
        var store = new FasterStore(options);
        try
        {
            store.Recover(at, open);
            return store;
        }
        catch
        {
            store.Dispose();
            throw;
        }
    }

    /// <summary>The commits in a directory in which no store is open, oldest first: those that are whole, and rest on a log that
    /// is.</summary>
    public static IReadOnlyList<CommitRecord> CommitsIn(FasterOptions options) => StoredCommits.In(options);

    /// <summary>As <see cref="CommitsIn(FasterOptions)"/>, with the sizes that the store was made with.</summary>
    public static IReadOnlyList<CommitRecord> CommitsIn(string directory) => StoredCommits.In(directory);

    /// <summary>Copies a commit into another directory, so that a store can be opened there. The one that has made it may be open, if it
    /// keeps the commit meanwhile.</summary>
    /// <param name="options">The store's.</param>
    /// <param name="commit">The commit.</param>
    /// <param name="directory">The other directory; it exists, and is empty.</param>
    /// <param name="cancellation">Gives up: a part is there then.</param>
    /// <exception cref="IOException">The disk refused.</exception>
    public static void CopyCommit(FasterOptions options, CommitRecord commit, string directory, CancellationToken cancellation = default) =>
        StoredCommits.Copy(options, commit, directory, cancellation);

    /// <summary>Whether what a commit has added to the log is on disk as it was written. The store may be open, if it keeps the commit
    /// meanwhile.</summary>
    /// <exception cref="IOException">It cannot be read.</exception>
    public static bool IsWhole(FasterOptions options, CommitRecord commit) => StoredCommits.IsWhole(options, commit);

    /// <summary>A way to the records, for one thread at a time.</summary>
    public FasterWorker NewWorker()
    {
        var worker = new FasterWorker(this);
        _counts.Add(worker);
        return worker;
    }

    /// <summary>Ends the open version, and makes it durable. Operations wait for its end only, a fraction of a millisecond.</summary>
    /// <param name="line">The timeline.</param>
    /// <param name="next">The version that is open from then on: later than the open one. All before it is in the commit.</param>
    /// <param name="cancellation">Ends the wait for a commit or rollback that is under way. One that has begun is completed.</param>
    /// <returns>The commit, when it is on disk.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="next"/> is not later than the open version.</exception>
    /// <exception cref="IOException">The disk is full, or fails: the commit is not durable. The store goes on; what was to be in the commit
    /// is in the next one. That is not begun before the log can be written again, and then the failed one may be there after
    /// all.</exception>
    public async Task<CommitRecord> CommitAsync(WorldLine line, VersionNumber next, CancellationToken cancellation = default)
    {
        await _turn.TakeAsync(cancellation).ConfigureAwait(false);
        return await _committer.CommitAsync(line, next).ConfigureAwait(false);
    }

    /// <summary>Ends the open version at this very place among the calling thread's operations: when this returns, <paramref name="next"/>
    /// is open. The thread holds no key's lock.</summary>
    /// <param name="line">The timeline.</param>
    /// <param name="next">The version that is open from then on: later than the open one. All before it is in the commit.</param>
    /// <param name="open">The version that is open instead, if later: those before it pass empty. Null: <paramref name="next"/>.</param>
    /// <returns>The commit, when it is on disk. Null: a commit or a rollback is under way, and nothing has been done.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="next"/> is not later than the open version.</exception>
    public Task<CommitRecord>? BeginCommit(WorldLine line, VersionNumber next, VersionNumber? open = null) =>
        _turn.TryTake() ? _committer.CommitAsync(line, next, open) : null;

    /// <summary>Whether <see cref="BeginCommit"/> would begin one: no commit or rollback is under way.</summary>
    public bool CanBeginCommit => _turn.IsFree;

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
        WorldPoint to, WorldLine line, VersionNumber next, Action begun, CancellationToken cancellation = default) =>
        await Rollback.GoBackAsync(to, next, begun, cancellation).ConfigureAwait(false)
            ? await _committer.CommitAsync(line, next).ConfigureAwait(false) : null;

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
        bool done = await Rollback.GoBackAsync(to, null, begun, cancellation).ConfigureAwait(false);
        if (done) _turn.Give();
        return done;
    }

    /// <summary>The keys that a commit has changed, each once, with what they were at its end. Nothing is kept in memory for it: it reads
    /// the log, which reaches as far back as commits are kept (<see cref="Keep"/>). What compaction and rollbacks have put there is no
    /// change: behind a rollback, the changes follow those of the commit that it went back to.</summary>
    /// <exception cref="InvalidOperationException">The commit was not kept.</exception>
    public IEnumerable<Change> Changes(CommitRecord commit) => ChangeFeed.Of(_kv, commit);

    /// <summary>The keys that there are at the end of a commit, each once, while the store goes on. It reads the log in memory. Whoever
    /// looks keeps the commit (<see cref="Keep"/>), and is done before the store ends.</summary>
    /// <exception cref="InvalidOperationException">The commit was not kept; what was read is not all.</exception>
    public IEnumerable<Change> Records(CommitRecord commit) => ChangeFeed.All(_kv, commit, () => _commits.Find(commit.Point) is not null);

    /// <summary>How many keys there are, expired ones that nobody has removed among them. Exact while nobody writes.</summary>
    public long KeyCount => _counts.Sum().Keys;

    /// <summary>Whether records in use take more memory than they may, or the log does since commits that are kept need it. Who would write
    /// then does not. Cheap.</summary>
    public bool IsOutOfMemory => _limits.IsOutOfMemory;

    /// <summary>Whether writers should wait a little: the log grows faster than compaction gives it back. Cheap.</summary>
    public bool IsPressed => _limits.IsPressed;

    /// <summary>Waits a little if writers should, 50 ms at most. Whoever writes much calls it before a write, holding no lock.</summary>
    public void Throttle()
    {
        if (IsPressed) Space.WaitWhilePressed();
    }

    /// <summary>Says which commits are needed no more: all before the newest one that is not after a point. What only they needed of the
    /// log is given back soon; their changes cannot be read any more.</summary>
    /// <param name="oldestNeeded">The oldest point that the store may have to go back to, or whose changes are still to be read.</param>
    public void Keep(WorldPoint oldestNeeded)
    {
        _commits.Keep(oldestNeeded);
        _compactor.Wake();
    }

    /// <summary>The state of the store.</summary>
    public FasterStatistics Statistics()
    {
        (long keys, long live) = _counts.Sum();
        return new()
        {
            Keys = keys, LiveBytes = live, LogBytes = UsedBytes, LogBytesMax = Budget.Wall,
            DiskBytes = _device.Bytes, Commits = CommitCount,
            LastCommit = _committer.LastCommit, UndoneBytes = BeingUndone is { } undo ? undo.To - undo.From : 0,
            CompactedBytes = _compactor.Bytes,
        };
    }

    // Callers in the same process as the store, past all connections (DPR, section 5: co-location). Nobody stands between them and the
    // records, so what a shard decides for its clients by holding their requests back is decided here at each operation's own moment: in
    // which world-line the store may be used at all, and in which version the operation is. Both change while all stripes are held, so
    // whoever holds one of them sees them as they are.

    /// <summary>The world-line in which callers in this process may use the store; 0: none.</summary>
    public WorldLine Admitted => new(Volatile.Read(ref _admitted));

    /// <summary>Until when they may begin something, by Stopwatch: where other shards close the same versions, what begins after a
    /// version's end is in the next. Default: without end.</summary>
    public long LocalUntil
    {
        get => Volatile.Read(ref _localUntil);
        set => Volatile.Write(ref _localUntil, value);
    }

    /// <summary>Lets callers in this process in.</summary>
    /// <param name="line">The store's world-line.</param>
    /// <param name="open">The version that is open; the store's own is behind if versions have passed without it.</param>
    public void AdmitLocal(WorldLine line, VersionNumber open) => Stripes.Alone(() =>
    {
        Raise(open);
        Volatile.Write(ref _admitted, line.Number);
    });

    /// <summary>Lets nobody in this process in any more. When it returns none of their changes is under way; a read that is learns at its
    /// end that it does not count.</summary>
    public void ShutOutLocal() => Stripes.Alone(() => Volatile.Write(ref _admitted, 0));

    /// <summary>Has versions pass in which nothing was done, while nobody does anything.</summary>
    /// <param name="pass">Given whether anything has changed in the open version. Returns the version that is open
    /// from now on; null if it does not change now. Must be short.</param>
    public void PassVersions(Func<bool, VersionNumber?> pass) => Stripes.Alone(() =>
    {
        if (pass(IsChanged) is { } open) Raise(open);
    });

    /// <summary>Ends the store. What is not committed is lost. No worker may be used any more.</summary>
    public void Dispose()
    {
        if (_turn.IsClosed) return;
        // A commit that waits for room on the disk is given up.
        bool isMine = _turn.Close(isGivenUp: () => _device.Failed.IsCompleted);
        _compactor.Dispose();
        Keys?.Dispose();
        // Before the memory from which it writes.
        _device.Dispose();
        _kv.Dispose();
        _directoryLock.Dispose();
        // For those who wait: they find that there is no store any more.
        if (isMine) _turn.Give();
    }

    /// <summary>The records of a stretch that is durable, in memory.</summary>
    internal RecordWalk Walk(long from, long until) => new(_device, _options.PageBits, from, until);

    /// <summary>The same without those that have been replaced, as far as that is noted.</summary>
    internal RecordWalk WalkUnreplaced(long from, long until) => new(_device, _options.PageBits, from, until, marked: _opened);

    /// <summary>A worker is gone.</summary>
    internal void Retire(FasterWorker worker) => _counts.Retire(worker);

    /// <summary>Deletes the commits that are needed no more, before <see cref="Truncate"/>.</summary>
    internal void Prune() => _commits.Prune();

    /// <summary>Gives back the log below an address, in memory. On disk it stays while a commit is recovered from it.</summary>
    internal void Truncate(long address)
    {
        if (address > _kv.Log.BeginAddress) _kv.Log.ShiftBeginAddress(address, snapToPageStart: false, truncateLog: false);
        // A later commit never begins before an earlier one.
        if (Oldest is { } oldest) _device.DeleteBelow(oldest.Begin);
        Space.Judge();
    }

    internal CommitRecord? Oldest => _commits.Oldest;

    internal CommitRecord? Newest => _commits.Newest;

    /// <summary>The version before ended at this place of the log. With all stripes held.</summary>
    internal void BeginVersion(VersionNumber open, long ended)
    {
        Volatile.Write(ref _open, open.Number);
        Volatile.Write(ref _ended, ended);
    }

    /// <summary>Lists the keys from now on. Reads the whole log once, during which nobody writes: to be called before there is a load. A
    /// rollback brings the list up to date as its purge comes along.</summary>
    internal KeyDirectory ListKeys()
    {
        Stripes.Alone(() =>
        {
            if (Keys is not null) return;
            var keys = new KeyDirectory();
            using IFasterScanIterator<SpanByte, SpanByte> records = _kv.Log.Scan(_kv.Log.BeginAddress, _kv.Log.TailAddress);
            // In the order of the log: the last record of a key says whether there is one.
            while (records.GetNext(out _))
            {
                ref SpanByte key = ref records.GetKey();
                long header = BinaryPrimitives.ReadInt64LittleEndian(records.GetValue().AsReadOnlySpan());
                keys.Note(FasterWorker.HashOf(key.AsReadOnlySpan()), key.AsReadOnlySpan(), header);
            }

            Keys = keys;
        });
        return Keys!;
    }

    private void Raise(VersionNumber open)
    {
        if (open.Number > _open) Volatile.Write(ref _open, open.Number);
    }

    private void Recover(WorldPoint? at, VersionNumber? open)
    {
        StoredCommits.RequireSizes(_options, _commits.All);
        Verify();
        CommitRecord? commit = at is not { } point ? _commits.Newest : _commits.Find(point)
            ?? throw new InvalidOperationException($"{_options.Directory} has no commit of version {at}: it has "
                + $"{(_commits.Count == 0 ? "none" : string.Join(", ", _commits.All.Select(c => c.Point)))}.");
        VersionNumber last = commit?.Point.Version ?? VersionNumber.Zero;
        if (commit is not null && open <= last)
            throw new ArgumentOutOfRangeException(
                nameof(open), $"Version {open} cannot be open in {_options.Directory}: it goes on from version {last}.");
        _open = (open ?? last.Next).Number;
        // A newer one that is left behind would be taken for the present one, or be written over in part.
        _commits.ForgetAfter(commit?.Point);
        _commits.DeleteDamaged();
        if (commit is not null) Recover(commit);
        _opened = _ended = _kv.Log.TailAddress;
        _committer.BeginAt(_opened);
        _device.GoOnFrom(_opened);
        _counts.Reset(commit?.Keys ?? 0, commit?.LiveBytes ?? 0);
        Space.Judge();
        _compactor.Start();
    }

    private void Recover(CommitRecord commit)
    {
        if (commit.To - (commit.Begin & -Budget.PageBytes) > (Budget.Pages - 1) * Budget.PageBytes)
            throw new InvalidDataException($"{_options.Directory} holds {commit.To - commit.Begin} bytes of records: give the store at "
                + "least "
                + $"{_options.MemoryBytes * 2} bytes of memory, not {_options.MemoryBytes}.");
        long number = _kv.RecoverAsync(default, commit.Token).AsTask().GetAwaiter().GetResult();
        // Of a log without a record it says -1.
        if (number != commit.Number && !(number == -1 && commit.To == _kv.Log.BeginAddress))
            throw new InvalidDataException($"{_options.Directory}: FASTER recovered its checkpoint {number} from the commit of version "
                + $"{commit.Point.Version}, which is {commit.Number}.");
    }

    // A commit whose log is damaged, and all that rest on it, are none.
    private void Verify()
    {
        IReadOnlyList<CommitRecord> commits = _commits.All;
        int damaged = StoredCommits.FirstDamaged(_device, commits);
        if (damaged < 0) return;
        CommitRecord first = commits[damaged];
        Damage = $"{_options.Directory}: the log is damaged between {first.Since} and {first.To}: "
            + $"{commits.Count - damaged} commits from version {first.Point} on are lost.";
        _commits.Damaged(damaged);
    }

    private static long Floor2(long bytes) => 1L << System.Numerics.BitOperations.Log2((ulong)bytes);

    private static int Bits(long bytes) => System.Numerics.BitOperations.Log2((ulong)bytes);
}
