// FASTER as a state object: keys and values of any bytes, versions that end at one place of the log, commits that are incremental,
// and going back to a commit while operations go on. In mode fold-over, with the whole log in memory.
//
// How FASTER has to be used, so that its log is not spoilt (each found by experiment):
// - whoever changes a record holds its stripe (StripeLocks);
// - a version ends while all stripes are held: FASTER's version and the log's tail then say the same, and no record is of two versions;
// - what lies below that place is read-only from then on: a later change makes a new record, so that each version's records are its own;
// - a checkpoint that was begun is completed, and only then is another begun; the version that is to follow is checked by us;
// - commits that are newer than the one to be recovered are deleted first.
//
// Threads: each uses workers of its own. Commits and rollbacks run one after the other.
using FASTER.core;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Records;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Faster;

/// <summary>A store of records. Source: DPR, section 5; Prasaad et al., Concurrent Prefix Recovery.</summary>
public sealed partial class FasterStore : IDisposable
{
    private readonly FasterOptions _options;
    private readonly IDevice _device;
    private readonly CommitFiles _files;
    private readonly FasterKV<SpanByte, SpanByte> _kv;
    private readonly SemaphoreSlim _turn = new(1, 1);
    private readonly List<CommitRecord> _commits;   // on disk, oldest first; guarded by itself
    private readonly VersionEnds _ends = new();
    private long _from;                             // where the open version begins in the log
    private long _open;                             // changes with all stripes held
    private volatile Undo? _undo;

    private FasterStore(FasterOptions options)
    {
        options.Validate();
        _options = options;
        Directory.CreateDirectory(options.Directory);
        _files = new(Path.Combine(options.Directory, "commits"));
        _commits = _files.Load();
        _device = Devices.CreateLogDevice(Path.Combine(options.Directory, "log"));
        long buckets = Floor2(options.IndexBytes) / 64;
        _kv = new(
            buckets,
            new LogSettings { LogDevice = _device, MemorySizeBits = Bits(options.MemoryBytes), PageSizeBits = options.PageBits, SegmentSizeBits = options.SegmentBits, MutableFraction = 0.9 },
            new CheckpointSettings { CheckpointManager = _files, CheckpointVersionSwitchBarrier = true },
            concurrencyControlMode: ConcurrencyControlMode.LockTable);
        _kv.UnsafeRegisterCallback(_ends);
        Stripes = new((int)Math.Min(options.Stripes, buckets));
    }

    /// <summary>A stretch of the log that a rollback has taken back, while records of it can still be found.</summary>
    internal sealed record Undo(long From, long To)
    {
        public bool Holds(long address) => address >= From && address < To;
    }

    /// <summary>The version that is open: that of a change, for whoever holds its lock; of a read, when it is asked for behind it.</summary>
    public Version Open => new(Volatile.Read(ref _open));

    /// <summary>The commits that are on disk, oldest first.</summary>
    public IReadOnlyList<CommitRecord> Commits
    {
        get { lock (_commits) { return [.. _commits]; } }
    }

    internal StripeLocks Stripes { get; }

    internal FasterKV<SpanByte, SpanByte> Kv => _kv;

    internal Undo? BeingUndone => _undo;

    /// <summary>Opens a store at its newest commit, or empty if it has none.</summary>
    /// <param name="options">The options.</param>
    /// <param name="at">The commit to open; null: the newest. Newer ones are deleted.</param>
    /// <param name="open">The version that is open then, later than the commit's; null: the next one.</param>
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
    public FasterWorker NewWorker() => new(this);

    /// <inheritdoc />
    public void Dispose()
    {
        _turn.Wait();
        _kv.Dispose();
        _device.Dispose();
        _files.Dispose();
        _turn.Dispose();
    }

    private void Recover(WorldPoint? at, Version? open)
    {
        CommitRecord? commit = at is null ? _commits.LastOrDefault() : _commits.Find(c => c.Point == at)
            ?? throw new InvalidOperationException($"{_options.Directory} has no commit of version {at}: it has {(_commits.Count == 0 ? "none" : string.Join(", ", _commits.Select(c => c.Point)))}.");
        Version last = commit?.Point.Version ?? Version.Zero;
        if (open <= last) throw new ArgumentOutOfRangeException(nameof(open), $"Version {open} cannot be open in {_options.Directory}: it goes on from version {last}.");
        _open = (open ?? last.Next).Number;
        // A newer one that is left behind would be taken for the present one, or be written over in part.
        ForgetAfter(commit?.Point);
        if (commit is null)
        {
            _from = _kv.Log.TailAddress;
            return;
        }

        long number = _kv.RecoverAsync(default, commit.Token).AsTask().GetAwaiter().GetResult();
        // Of a log without a record it says -1.
        if (number != commit.Number && !(number == -1 && commit.To == _kv.Log.BeginAddress))
            throw new InvalidDataException($"{_options.Directory}: FASTER recovered its checkpoint {number} from the commit of version {commit.Point.Version}, which is {commit.Number}.");
        _from = _kv.Log.TailAddress;
    }

    private void ForgetAfter(WorldPoint? point)
    {
        lock (_commits)
        {
            for (int i = _commits.Count - 1; i >= 0 && (point is null || _commits[i].Point > point); i--)
            {
                _files.Purge(_commits[i].Token);
                _commits.RemoveAt(i);
            }
        }
    }

    private static long Floor2(long bytes) => 1L << System.Numerics.BitOperations.Log2((ulong)bytes);

    private static int Bits(long bytes) => System.Numerics.BitOperations.Log2((ulong)bytes);
}
