// The version log of a shard: the replication stream of its store, cut into versions, on disk.
//
// What it promises:
//   - after Sync returns, everything appended before it was called survives a crash of the process and of the machine;
//   - what is recovered is a prefix of what was appended, never with a hole and never with other bytes;
//   - a change of history (Begin, BeginWorldLine, BeginReign, RewindTo) has happened completely or not at all, and is durable when it
//     returns;
//   - memory is bounded: an appender that outruns the disk waits.
// Who calls it: one thread appends (the replication link); one, usually another, syncs, or as many as there are directories; any number
// read. Trimming may come from any thread at any time; changes of history from any thread, but not while another appends.
//
// Locks: _io is held by whoever writes files, _gate for the moments in which memory changes hands; _io before _gate. An
// append takes only _gate, unless the buffers are full. A log in several directories has more: see VersionLog.Writers.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

/// <summary>The version log of one shard.</summary>
public sealed partial class VersionLog : IDisposable
{
    private readonly VersionLogOptions _options;
    private readonly IFileLayer _files;
    private readonly IDisposable _directoryLock;
    private readonly LogDirectories _directories;
    private readonly int _fileBytes;                   // of a segment, in each directory
    private readonly SegmentFactory _factory;
    private readonly Lock _io = new();
    private readonly Lock _gate = new();

    // Under _gate: what has been appended.
    private readonly Stack<AppendChunk> _free = new();
    private readonly Queue<AppendChunk> _sealed = new();
    private AppendChunk? _current;
    private long _endOffset;
    private long _appendedPosition;
    private Boundary? _last;
    private WorldPoint _held;
    private LogWindows _windows;
    private LogIndex _line;            // of what was appended, its beginning: a change of history is in the files before it is here
    private long _generation;          // of the view that had it first
    private readonly LogTail? _tail;
    private LogIOException? _failure;
    private bool _isDisposed;

    // Under _io: the file being written, and what it holds.
    private SegmentFile? _file;
    private Task _sealing = Task.CompletedTask;     // of files before
    private long _filePosition;
    private long _fileSynced;
    private long _blockNumber;
    private Progress _written;

    // Replaced as a whole, under _io; read by anyone.
    private volatile LogView _view;

    private VersionLog(VersionLogOptions options, IDisposable directoryLock, LogDirectories directories)
    {
        _options = options;
        _files = options.Files;
        _directoryLock = directoryLock;
        _directories = directories;
        _writers = directories.All.Count == 0 ? [] : [.. Enumerable.Range(0, 1 + directories.All.Count).Select(i => new LogWriter(i))];
        VersionLogOptions ofFile = options.OfFile(1 + directories.All.Count);
        _fileBytes = ofFile.SegmentBytes;
        _factory = new SegmentFactory(ofFile, TimeProvider.System, directories.All);
        _view = LogView.Empty;
        if (options.TailBytes > 0) { _tail = new LogTail(options.TailBytes); }
        // At least 8: a block of few bytes still has room for a run of small versions.
        int entryCapacity = Math.Clamp(options.BlockBytes / LogEntry.Bytes, 8, 2048);
        for (int i = 0; i < options.BufferBytes / options.BlockBytes; i++)
        {
            _free.Push(new AppendChunk(options.BlockBytes, entryCapacity));
        }
    }

    /// <summary>What opening the log found.</summary>
    public OpenReport Report { get; private set; } = new(0, false, null, 0, []);

    /// <summary>The shard whose log this is.</summary>
    public ShardId Shard => _options.Shard;

    /// <summary>The disk that it is on.</summary>
    public IFileLayer Files => _files;

    /// <summary>Whether no history has begun: call <see cref="Begin"/>.</summary>
    public bool IsEmpty => _view.Head is null;

    /// <summary>Where the current history started. It names the history, see <see cref="StreamOrigin"/>.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public StreamOrigin Origin => Head.Origin;

    /// <summary>The present identity of the stream: a partial resync asks for it and <see cref="EndOffset"/>.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public string ReplicationId => Head.ReplicationId;

    /// <summary>The present world-line.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public WorldLine WorldLine => Head.WorldLine;

    /// <summary>The world-line with which the current history began.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public WorldLine FirstWorldLine => Head.FirstWorldLine;

    /// <summary>The present reign.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public Reign Reign => Head.Reign;

    /// <summary>The reign with which the current history began.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public Reign FirstReign => Head.FirstReign;

    /// <summary>The first version of the current history; what came before is not in the log.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public VersionNumber FirstVersion => Head.FirstVersion;

    /// <summary>The world-lines and reigns started in this history, oldest first; the newest 64. Void ones are among them, but none that
    /// <see cref="RewindTo"/> went back behind.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public IReadOnlyList<LogBranch> Branches => Head.Branches;

    /// <summary>The log as its lines, up to the last version closed durably: bytes behind that do not count. What was trimmed is among
    /// them: see <see cref="StartOffset"/>.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public LogLines Lines
    {
        get
        {
            LogView view = _view;
            SegmentHeader head = view.Head ?? throw Empty();
            return new([.. head.KeptLines], ClosedIn(view, head));
        }
    }

    /// <summary>The end of the last version closed durably: bytes behind that do not count.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public LogIndex DurableClosed => _view is { Head: { } head } view ? ClosedIn(view, head) : throw Empty();

    private static LogIndex ClosedIn(LogView view, SegmentHeader head) => new(head.WorldLine,
        view.Durable.Last?.Offset ?? head.Origin.Offset, view.Durable.Last?.Version ?? head.FirstVersion.Previous) { Reign = head.Reign };

    /// <summary>The first stream offset that can be read; 0 if the log is empty.</summary>
    public long StartOffset => _view.StartOffset;

    /// <summary>The stream offset at which the next append continues; may be above <see cref="DurableOffset"/>.</summary>
    public long EndOffset
    {
        get
        {
            lock (_gate)
            {
                return _endOffset;
            }
        }
    }

    /// <summary>The stream offset below which everything is durable and can be read.</summary>
    public long DurableOffset => _view.Durable.Offset;

    /// <summary>The last version closed, durable or not. After <see cref="BeginWorldLine"/> it is the branch, counted to
    /// the new world-line.</summary>
    public Boundary? LastBoundary
    {
        get
        {
            lock (_gate)
            {
                return _last;
            }
        }
    }

    /// <summary>The last version closed durably: by a boundary, or by a run of empty versions (then with the offset of
    /// the boundary before it).</summary>
    public Boundary? DurableBoundary => _view.Durable.Last;

    /// <summary>The end of the last version closed, durable or not.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public LogIndex ClosedEnd
    {
        get
        {
            lock (_gate)
            {
                return _line with { Offset = _last?.Offset ?? Head.Origin.Offset, Closed = _last?.Version ?? Head.FirstVersion.Previous };
            }
        }
    }

    /// <summary>How far the log goes, durable or not.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public LogIndex End
    {
        get
        {
            lock (_gate)
            {
                return _line with { Offset = _endOffset, Closed = _last?.Version ?? Head.FirstVersion.Previous };
            }
        }
    }

    /// <summary>How far the log is durable.</summary>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public LogIndex DurableEnd
    {
        get
        {
            LogView view = _view;
            SegmentHeader head = view.Head ?? Head;
            return new(head.WorldLine, view.Durable.Offset, view.Durable.Last?.Version ?? head.FirstVersion.Previous)
            {
                Reign = head.Reign,
            };
        }
    }

    /// <summary>The newest recorded cut that was noted durably: see <see cref="AppendHeldCut"/>. The default if none was.</summary>
    public WorldPoint HeldCut => _view.Durable.Held;

    /// <summary>What the log, a backup's or one that was, knows of windows that were shipped to it, durable or not.</summary>
    public LogWindows Windows
    {
        get
        {
            lock (_gate) { return _windows; }
        }
    }

    // A count of everything appended since the log was opened; grows with each append.
    private long AppendedPosition
    {
        get
        {
            lock (_gate)
            {
                return _appendedPosition;
            }
        }
    }

    /// <summary>Whether all that was appended is durable.</summary>
    public bool IsSynced => _view.Durable.Position >= AppendedPosition;

    /// <summary>Space the segment files take, in bytes, without the one being prepared.</summary>
    public long SizeBytes => _view.Segments.Sum(s => s.FileBytes);

    /// <summary>Why the log must be reopened, or null.</summary>
    public LogIOException? Failure
    {
        get
        {
            lock (_gate)
            {
                return _failure;
            }
        }
    }

    private SegmentHeader Head => _view.Head ?? throw Empty();

    private static InvalidOperationException Empty() => new("The version log is empty: no history has begun.");

    /// <summary>Closes the files. What was not synced may be lost. Not to be called during other calls.</summary>
    public void Dispose()
    {
        using (EnterAll())
        {
            lock (_gate)
            {
                if (_isDisposed)
                {
                    return;
                }
                _isDisposed = true;
            }
            _file?.Dispose();
            _file = null;
            AwaitSealing();
            _factory.Dispose();
            _sealNow.Dispose();
            _directories.Dispose();
            _directoryLock.Dispose();
        }
    }

    private void ThrowUnlessUsable()
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        if (_failure is not null)
        {
            throw new LogIOException("go on with", _options.Directory, isFatal: true, _failure.InnerException);
        }
    }

    private LogIOException Fail(string operation, string file, Exception cause)
    {
        var failure = new LogIOException(operation, file, isFatal: true, cause);
        lock (_gate)
        {
            _failure ??= failure;
        }
        return failure;
    }

    private static bool IsDiskFailure(Exception e) => e is IOException or UnauthorizedAccessException;
}
