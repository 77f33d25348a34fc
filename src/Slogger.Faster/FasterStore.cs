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
using FASTER.core;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Disk;
using Slogger.Faster.Memory;
using Slogger.Faster.Records;
using Slogger.Log.Format;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Faster;

/// <summary>A store of records. Source: DPR, section 5; Prasaad et al., Concurrent Prefix Recovery.</summary>
public sealed partial class FasterStore : IDisposable
{
    private const string CommitsDirectory = "commits";
    private const int ReadBytes = 1 << 20;
    private const int PagesAdvised = 8;
    private static readonly TimeSpan s_disposePause = TimeSpan.FromMilliseconds(20);
    private readonly FasterOptions _options;
    private readonly IDisposable _directoryLock;
    private readonly LogDevice _device;
    private readonly CommitFiles _files;
    private readonly FasterKV<SpanByte, SpanByte> _kv;
    private readonly SemaphoreSlim _turn = new(1, 1);
    private readonly CommitList _commits;
    private readonly RecordCounts _counts = new();
    private readonly LogBudget _budget;
    private readonly LogLimits _limits;
    private readonly VersionEnds _ends = new();
    private readonly Compactor _compactor;
    private long _opened;                           // where the log ended when the store was opened
    private long _from;                             // where the open version begins in the log
    private long _since;                            // up to where the log is covered by checksums
    private long _open;                             // changes with all stripes held
    private long _ended;                            // where the last version ended in the log; changes with all stripes held
    private volatile Undo? _undo;
    private volatile bool _isDisposed;

    private FasterStore(FasterOptions options)
    {
        options.Validate();
        _options = options;
        options.Files.CreateDirectory(options.Directory);
        _directoryLock = options.Files.TryLock(Path.Combine(options.Directory, "lock"))
            ?? throw new InvalidOperationException($"{options.Directory} is in use by another process.");
        try
        {
            _files = new(options.Files, Path.Combine(options.Directory, CommitsDirectory));
            _commits = new(_files);
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
                new CheckpointSettings { CheckpointManager = _files, CheckpointVersionSwitchBarrier = true },
                comparer: new KeyComparer(), concurrencyControlMode: ConcurrencyControlMode.None);
            _kv.UnsafeRegisterCallback(_ends);
            Hints = MemoryHints.Of(_kv, options.PageBits, options.OwnsProcess ? PagesAdvised : 0);
            _budget = new(1L << options.PageBits, 1L << (Bits(options.MemoryBytes) - options.PageBits));
            _limits = new(_budget);
            _compactor = new(this);
            Stripes = new((int)Math.Min(options.Stripes, buckets));
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
    public Version Open => new(Volatile.Read(ref _open));

    /// <summary>Whether anything was written since the last version's end. Then the log has grown: what was there before is
    /// read-only.</summary>
    public bool IsChanged => _kv.Log.TailAddress != Volatile.Read(ref _ended);

    /// <summary>The commits that are on disk, oldest first.</summary>
    public IReadOnlyList<CommitRecord> Commits => _commits.All;

    /// <summary>How many commits are on disk.</summary>
    public int CommitCount => _commits.Count;

    /// <summary>What was found damaged when the store was opened; null: nothing.</summary>
    public string? Damage { get; private set; }

    internal StripeLocks Stripes { get; }

    internal FasterKV<SpanByte, SpanByte> Kv => _kv;

    internal Undo? BeingUndone => _undo;

    /// <summary>Null: this FASTER's memory is not known.</summary>
    internal MemoryHints? Hints { get; }

    /// <summary>Opens a store at its newest commit, or empty if it has none.</summary>
    /// <param name="options">The options.</param>
    /// <param name="at">The commit to open; null: the newest. Newer ones are deleted.</param>
    /// <param name="open">The version that is open then, later than the commit's if there is one; null: the next one.</param>
    /// <exception cref="InvalidOperationException">There is no such commit.</exception>
    /// <exception cref="InvalidDataException">The directory holds something else, or what it holds is damaged.</exception>
    public static FasterStore OpenAt(FasterOptions options, WorldPoint? at = null, Version? open = null)
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

    /// <summary>A way to the records, for one thread at a time.</summary>
    public FasterWorker NewWorker()
    {
        var worker = new FasterWorker(this);
        _counts.Add(worker);
        return worker;
    }

    /// <summary>Ends the store. What is not committed is lost. No worker may be used any more.</summary>
    public void Dispose()
    {
        if (_isDisposed) return;
        // A commit that waits for room on the disk is given up.
        bool isMine;
        while (!(isMine = _turn.Wait(s_disposePause)) && !_device.Failed.IsCompleted)
        {
        }

        _isDisposed = true;
        _compactor.Dispose();
        Keys?.Dispose();
        // Before the memory from which it writes.
        _device.Dispose();
        _kv.Dispose();
        _directoryLock.Dispose();
        // For those who wait: they find that there is no store any more.
        if (isMine) _turn.Release();
    }

    private void Recover(WorldPoint? at, Version? open)
    {
        RequireSizes(_options, _commits.All);
        Verify();
        CommitRecord? commit = at is not { } point ? _commits.Newest : _commits.Find(point)
            ?? throw new InvalidOperationException($"{_options.Directory} has no commit of version {at}: it has "
                + $"{(_commits.Count == 0 ? "none" : string.Join(", ", _commits.All.Select(c => c.Point)))}.");
        Version last = commit?.Point.Version ?? Version.Zero;
        if (commit is not null && open <= last)
            throw new ArgumentOutOfRangeException(
                nameof(open), $"Version {open} cannot be open in {_options.Directory}: it goes on from version {last}.");
        _open = (open ?? last.Next).Number;
        // A newer one that is left behind would be taken for the present one, or be written over in part.
        _commits.ForgetAfter(commit?.Point);
        _commits.DeleteDamaged();
        if (commit is not null) Recover(commit);
        _opened = _from = _since = _ended = _kv.Log.TailAddress;
        _device.GoOnFrom(_from);
        _counts.Reset(commit?.Keys ?? 0, commit?.LiveBytes ?? 0);
        Judge();
        _compactor.Start();
    }

    private void Recover(CommitRecord commit)
    {
        if (commit.To - (commit.Begin & -_budget.PageBytes) > (_budget.Pages - 1) * _budget.PageBytes)
            throw new InvalidDataException($"{_options.Directory} holds {commit.To - commit.Begin} bytes of records: give the store at "
                + "least "
                + $"{_options.MemoryBytes * 2} bytes of memory, not {_options.MemoryBytes}.");
        long number = _kv.RecoverAsync(default, commit.Token).AsTask().GetAwaiter().GetResult();
        // Of a log without a record it says -1.
        if (number != commit.Number && !(number == -1 && commit.To == _kv.Log.BeginAddress))
            throw new InvalidDataException($"{_options.Directory}: FASTER recovered its checkpoint {number} from the commit of version "
                + $"{commit.Point.Version}, which is {commit.Number}.");
    }

    // With other sizes the log is read in the wrong places, and looks damaged.
    private static void RequireSizes(FasterOptions options, IReadOnlyList<CommitRecord> commits)
    {
        if (commits.FirstOrDefault(c => c.PageBits != options.PageBits || c.SegmentBits != options.SegmentBits) is { } commit)
            throw new InvalidDataException($"{options.Directory} was made with pages of 2^{commit.PageBits} bytes and files of "
                + $"2^{commit.SegmentBits}: open it with the same, not 2^{options.PageBits} and 2^{options.SegmentBits}.");
    }

    // A commit whose log is damaged, and all that rest on it, are none.
    private void Verify()
    {
        IReadOnlyList<CommitRecord> commits = _commits.All;
        int damaged = FirstDamaged(_device, commits);
        if (damaged < 0) return;
        CommitRecord first = commits[damaged];
        Damage = $"{_options.Directory}: the log is damaged between {first.Since} and {first.To}: "
            + $"{commits.Count - damaged} commits from version {first.Point} on are lost.";
        _commits.Damaged(damaged);
    }

    private static int FirstDamaged(LogDevice device, IReadOnlyList<CommitRecord> commits)
    {
        for (int i = 0; i < commits.Count; i++) if (Checksum(device, commits[i].Since, commits[i].To) != commits[i].Checksum) return i;
        return -1;
    }

    private uint Checksum(long from, long to) => Checksum(_device, from, to);

    private static uint Checksum(LogDevice device, long from, long to)
    {
        uint checksum = 0;
        byte[] buffer = new byte[(int)Math.Min(ReadBytes, Math.Max(1, to - from))];
        for (int bytes; from < to; from += bytes)
        {
            bytes = (int)Math.Min(buffer.Length, to - from);
            device.Read(from, buffer.AsSpan(0, bytes));
            checksum = Crc32C.Compute(buffer.AsSpan(0, bytes), checksum);
        }

        return checksum;
    }

    private static long Floor2(long bytes) => 1L << System.Numerics.BitOperations.Log2((ulong)bytes);

    private static int Bits(long bytes) => System.Numerics.BitOperations.Log2((ulong)bytes);
}
