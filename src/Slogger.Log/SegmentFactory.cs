// Makes segment files: reserves their space, so that a full disk shows here and not in the middle of a block, and writes
// zeros ahead, so that later syncs carry data only. The next file is prepared while the current one fills.
using Slogger.Log.Files;
using Slogger.Log.Segments;

namespace Slogger.Log;

/// <param name="options">Of the log, with the size of one file for that of a segment.</param>
/// <param name="clock">By which a write's time is taken.</param>
/// <param name="more">The log's further directories, each of which has a file of each segment.</param>
internal sealed class SegmentFactory(VersionLogOptions options, TimeProvider clock, IReadOnlyList<LogDirectory>? more = null) : IDisposable
{
    // 2 ms here; a file that is needed at once gets no more.
    private const int HurriedFillBytes = 4 << 20;
    private const int FillChunkBytes = 256 << 10;

    // The disk is for the syncs of the current file: filling the next takes a quarter of its time. A process that was stopped in a write
    // has not used the disk meanwhile.
    private const int RestPerFill = 3;
    private static readonly TimeSpan RestMax = TimeSpan.FromMilliseconds(100);

    // A file that nobody will need for long is begun so much later: another one has just begun, maybe since a world-line has, and disk and
    // processors are wanted elsewhere.
    private static readonly TimeSpan LeisurePause = TimeSpan.FromSeconds(1);

    private readonly Lock _lock = new();
    private readonly ManualResetEventSlim _wanted = new();
    private readonly ManualResetEventSlim _hurried = new(initialState: false, spinCount: 0);   // who needs the file waits for it
    private Task<SegmentFile>? _spare;
    private long _spareSequence;

    /// <summary>Where the files of a segment go: first that with the header.</summary>
    public IReadOnlyList<string> PathsOf(long sequence) =>
        [Path.Combine(options.Directory, SegmentName.Format(options.OwnEpoch, sequence)), .. (more ?? []).Select(
            d => Path.Combine(d.Path, SegmentName.FormatPart(options.OwnEpoch, sequence, d.Number)))];

    /// <summary>Starts to prepare a file. A failure shows when it is taken.</summary>
    /// <param name="sequence">Its number.</param>
    /// <param name="isWanted">Whether the current one fills; else there is time.</param>
    public void Prepare(long sequence, bool isWanted)
    {
        lock (_lock)
        {
            if (isWanted)
            {
                _wanted.Set();
            }
            if (_spare is not null)
            {
                return;
            }
            if (!isWanted)
            {
                _wanted.Reset();
            }
            _spareSequence = sequence;
            _hurried.Reset();
            // It sleeps and writes: not for a thread of the pool, of which there may be one.
            _spare = options.PrepareInBackground
                ? Task.Factory.StartNew(() => CreateAtLeisure(sequence), CancellationToken.None, TaskCreationOptions.LongRunning,
                TaskScheduler.Default)
                : PrepareNow(sequence);
        }
    }

    private SegmentFile CreateAtLeisure(long sequence)
    {
        _wanted.Wait(LeisurePause);
        return Create(sequence);
    }

    /// <summary>Whether a file is prepared: who takes it does not wait.</summary>
    public bool IsReady
    {
        get
        {
            lock (_lock)
            {
                return _spare is { IsCompleted: true };
            }
        }
    }

    /// <summary>A segment's files, of zeros, open for writing; their names are durable.</summary>
    /// <exception cref="IOException">There is no space, or the disk failed.</exception>
    public SegmentFile Take(long sequence)
    {
        Task<SegmentFile>? spare;
        lock (_lock)
        {
            (spare, _spare) = (_spare, null);
        }
        Hurry();
        if (spare is not null)
        {
            try
            {
                SegmentFile file = spare.GetAwaiter().GetResult();
                if (_spareSequence == sequence)
                {
                    return file;
                }
                file.Dispose();
                Delete(_spareSequence);
            }
            catch (IOException)
            {
                // Tried again below: the cause may be gone.
            }
        }
        return Create(sequence);
    }

    /// <summary>Closes and deletes a prepared file.</summary>
    public void Dispose()
    {
        Hurry();
        try
        {
            _spare?.GetAwaiter().GetResult().Dispose();
            if (_spare is not null)
            {
                Delete(_spareSequence);
            }
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // A leftover is deleted when the log is opened.
        }
        _spare = null;
        _wanted.Dispose();
        _hurried.Dispose();
    }

    private void Hurry()
    {
        _hurried.Set();
        _wanted.Set();
    }

    private Task<SegmentFile> PrepareNow(long sequence)
    {
        try
        {
            return Task.FromResult(Create(sequence));
        }
        catch (IOException e)
        {
            return Task.FromException<SegmentFile>(e);
        }
    }

    private SegmentFile Create(long sequence)
    {
        try
        {
            return new(SegmentFile.ForAll(PathsOf(sequence), Create));
        }
        catch (IOException)
        {
            TryDelete(sequence);
            throw;
        }
    }

    private ILogFile Create(string path)
    {
        ILogFile file = options.Files.Create(path);
        try
        {
            file.Allocate(options.SegmentBytes);
            if (options.ZeroFill)
            {
                FillWithZeros(file);
            }
            // For speed alone: the sync of the header would carry the zeros, too.
            file.SyncData();
            options.Files.SyncDirectory(Path.GetDirectoryName(path)!);
            return file;
        }
        catch (IOException)
        {
            file.Dispose();
            throw;
        }
    }

    private void FillWithZeros(ILogFile file)
    {
        ArraySegment<byte> zeros = AlignedBuffer.Allocate(Math.Min(FillChunkBytes, options.SegmentBytes));
        zeros.AsSpan().Clear();
        for (int at = 0; at < options.SegmentBytes && !(_hurried.IsSet && at >= HurriedFillBytes); at += zeros.Count)
        {
            long began = clock.GetTimestamp();
            file.Write(zeros.AsSpan(0, Math.Min(zeros.Count, options.SegmentBytes - at)), at);
            if (options.PrepareInBackground)
            {
                TimeSpan rest = RestPerFill * clock.GetElapsedTime(began);
                _hurried.Wait(rest < RestMax ? rest : RestMax);
            }
        }
    }

    private void Delete(long sequence)
    {
        foreach (string path in PathsOf(sequence)) { options.Files.Delete(path); }
    }

    private void TryDelete(long sequence)
    {
        try
        {
            Delete(sequence);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // A leftover is deleted when the log is opened.
        }
    }
}
