// The log on disk, as FASTER writes it: files of equal size, by number. FASTER cannot go on after a write that has failed, nor take one
// back; so here a write is tried until it succeeds, from the same memory, and what waits for it is told of the failure meanwhile. Nor does
// FASTER always wait for the log before it calls a checkpoint complete: the device itself says up to where the log is on disk. Files are
// deleted when we say so, not when FASTER would: it does not know which commits are still needed.
using System.Collections.Concurrent;
using FASTER.core;
using Slogger.Log.Files;

namespace Slogger.Faster.Disk;

internal sealed class LogDevice : StorageDeviceBase
{
    private const string Prefix = "log.";

    // A write of FASTER's begins where the one before ended; LogWriter makes blocks of them.
    private const uint SectorBytes = 8;
    private static readonly TimeSpan s_retryInterval = TimeSpan.FromMilliseconds(100);
    private readonly IFileLayer _files;
    private readonly string _directory;
    private readonly int _segmentBits, _pageBits;
    private readonly BlockingCollection<Transfer> _queue = [];
    private readonly ConcurrentDictionary<int, ILogFile> _open = [];
    private readonly LogWriter _writer;
    private readonly ConcurrentDictionary<long, nint> _pages = [];
    private readonly Thread _thread;
    private readonly Dictionary<long, long> _ahead = [];   // written stretches, by their beginnings, that others have not reached yet
    private volatile TaskCompletionSource<IOException> _failed = New<IOException>();
    private readonly TaskCompletionSource _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private (long Until, TaskCompletionSource Written)? _waits;   // guarded by _ahead, as the next one
    private long _until;                                          // up to where all is on disk
    private volatile bool _disposed;
    private bool _isNamed;   // a file was made, and its name is not synced yet

    public LogDevice(IFileLayer files, string directory, int segmentBits, int pageBits)
        : base(Path.Combine(directory, "log"), SectorBytes, Devices.CAPACITY_UNSPECIFIED)
    {
        (_files, _directory, _segmentBits, _pageBits) = (files, directory, segmentBits, pageBits);
        try
        {
            OpenAll();
        }
        catch
        {
            foreach (ILogFile file in _open.Values) file.Dispose();
            throw;
        }

        _writer = new(this);
        _thread = new Thread(Run) { IsBackground = true, Name = "slogger-faster-log" };
        _thread.Start();
    }

    private readonly record struct Transfer(
        bool IsRead, int Segment, long Offset, nint Memory, int Bytes, DeviceIOCompletionCallback Callback, object Context);

    /// <summary>Completes when a write fails; another takes its place when it has succeeded after all.</summary>
    public Task<IOException> Failed => _failed.Task;

    /// <summary>Fails when the device is disposed of.</summary>
    public Task Ended => _ended.Task;

    /// <summary>Bytes on disk, about.</summary>
    public long Bytes => Math.Max(0, Volatile.Read(ref _until) - ((long)startSegment << _segmentBits));

    public override void WriteAsync(
        IntPtr sourceAddress, int segmentId, ulong destinationAddress, uint numBytesToWrite, DeviceIOCompletionCallback callback,
        object context) =>
        Take(new(false, segmentId, (long)destinationAddress, sourceAddress, (int)numBytesToWrite, callback, context));

    public override void ReadAsync(
        int segmentId, ulong sourceAddress, IntPtr destinationAddress, uint readLength, DeviceIOCompletionCallback callback,
        object context) =>
        Take(new(true, segmentId, (long)sourceAddress, destinationAddress, (int)readLength, callback, context));

    /// <summary>Whether a page of the log was read or written, if only in part.</summary>
    public bool Knows(long page) => _pages.ContainsKey(page);

    /// <summary>Where a page of the log is in memory that was read or written.</summary>
    public nint MemoryOf(long page) =>
        _pages.TryGetValue(page, out nint memory) ? memory : throw new InvalidOperationException($"Page {page} of the log has been neither "
            + "written nor read.");

    /// <summary>Where the log goes on: all before is on disk.</summary>
    public void GoOnFrom(long address)
    {
        lock (_ahead)
        {
            _ahead.Clear();
            _until = address;
            _writer.GoOnFrom(address);
        }
    }

    /// <summary>A version ends at an address: see <see cref="TryTakeSum"/>.</summary>
    public void EndAt(long address) => _writer.SumUntil(address);

    /// <summary>The checksum of the log between the ends of two versions, one after the other, when that is on disk.</summary>
    /// <returns>No: nobody knows it without reading.</returns>
    public bool TryTakeSum(long from, long to, out uint checksum) => _writer.TryTakeSum(from, to, out checksum);

    /// <summary>Completes when the log is on disk up to an address. One asks at a time.</summary>
    public Task WrittenAsync(long until)
    {
        lock (_ahead)
        {
            if (_until >= until) return Task.CompletedTask;
            var written = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            _waits = (until, written);
            return written.Task;
        }
    }

    /// <summary>Reads a stretch of the log; what was never written reads as zero.</summary>
    public void Read(long address, Span<byte> into)
    {
        while (!into.IsEmpty)
        {
            long offset = address & ((1L << _segmentBits) - 1);
            int bytes = (int)Math.Min(into.Length, (1L << _segmentBits) - offset);
            int read = _open.TryGetValue((int)(address >> _segmentBits), out ILogFile? file) ? file.Read(into[..bytes], offset) : 0;
            into[read..bytes].Clear();
            address += bytes;
            into = into[bytes..];
        }
    }

    /// <summary>Writes a stretch that lies in one file. On the device's thread.</summary>
    internal void Write(long address, ReadOnlySpan<byte> bytes) =>
        Segment((int)(address >> _segmentBits)).Write(bytes, address & ((1L << _segmentBits) - 1));

    /// <summary>Where the file ends that an address is in.</summary>
    internal long SegmentEnd(long address) => ((address >> _segmentBits) + 1) << _segmentBits;

    /// <summary>Deletes the files that are wholly below an address.</summary>
    public void DeleteBelow(long address)
    {
        int first = (int)(address >> _segmentBits);
        for (; startSegment < first && startSegment < endSegment; startSegment++)
        {
            if (_open.TryRemove(startSegment, out ILogFile? file)) file.Dispose();
            _files.Delete(NameOf(startSegment));
            for (long page = 0; page < 1L << (_segmentBits - _pageBits); page++)
                _pages.TryRemove(((long)startSegment << (_segmentBits - _pageBits)) + page, out _);
        }
    }

    public override void TruncateUntilAddressAsync(long toAddress, AsyncCallback callback, IAsyncResult result) => callback(result);

    public override void TruncateUntilAddress(long toAddress)
    {
    }

    public override void RemoveSegmentAsync(int segment, AsyncCallback callback, IAsyncResult result) => callback(result);

    public override void Dispose()
    {
        if (_disposed) return;
        _disposed = true;
        _queue.CompleteAdding();
        _thread.Join();
        var end = new IOException($"The store in {_directory} has ended before its log could be written.");
        lock (_ahead) _waits?.Written.TrySetException(end);
        _ended.SetException(end);
        // As a rule nobody waits.
        _ = _ended.Task.Exception;
        foreach (ILogFile file in _open.Values) file.Dispose();
        _open.Clear();
        _queue.Dispose();
    }

    private static TaskCompletionSource<T> New<T>() => new(TaskCreationOptions.RunContinuationsAsynchronously);

    private void Run()
    {
        var batch = new List<Transfer>();
        foreach (Transfer first in _queue.GetConsumingEnumerable())
        {
            batch.Clear();
            batch.Add(first);
            while (_queue.TryTake(out Transfer next)) batch.Add(next);
            if (!Perform(batch)) return;
            foreach (Transfer done in batch) done.Callback(0, (uint)done.Bytes, done.Context);
            Note(batch);
        }
    }

    // FASTER gives memory of a page, from its beginning or from within.
    private void Take(in Transfer transfer)
    {
        long address = ((long)transfer.Segment << _segmentBits) + transfer.Offset;
        _pages[address >> _pageBits] = transfer.Memory - (nint)(address & ((1L << _pageBits) - 1));
        try
        {
            _queue.Add(transfer);
        }
        catch (InvalidOperationException) when (_disposed)
        {
            // Behind the end nothing is written, and nobody waits for it.
        }
    }

    // Pages may be written before others that lie before them.
    private void Note(List<Transfer> batch)
    {
        lock (_ahead)
        {
            foreach (Transfer write in batch)
            {
                long from = ((long)write.Segment << _segmentBits) + write.Offset;
                if (!write.IsRead && from >= _until) _ahead[from] = from + write.Bytes;
            }

            while (_ahead.Remove(_until, out long until)) _until = until;
            if (_waits is not { } waits || _until < waits.Until) return;
            _waits = null;
            waits.Written.SetResult();
        }
    }

    private bool Perform(List<Transfer> batch)
    {
        while (!_disposed)
        {
            try
            {
                _writer.Begin();
                foreach (Transfer transfer in batch) Perform(transfer);
                _writer.End();
                foreach (int segment in batch.Where(t => !t.IsRead).Select(t => t.Segment).Distinct()) _open[segment].SyncData();
                if (_isNamed) _files.SyncDirectory(_directory);
                _isNamed = false;
                _writer.Kept();
                if (_failed.Task.IsCompleted) _failed = New<IOException>();
                return true;
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException)
            {
                _writer.Failed();
                _failed.TrySetResult(e as IOException ?? new IOException(e.Message, e));
                Thread.Sleep(s_retryInterval);
            }
        }

        return false;
    }

    private unsafe void Perform(Transfer transfer)
    {
        long address = ((long)transfer.Segment << _segmentBits) + transfer.Offset;
        if (transfer.IsRead) Read(address, new((void*)transfer.Memory, transfer.Bytes));
        else _writer.Append(address, new((void*)transfer.Memory, transfer.Bytes));
    }

    private ILogFile Segment(int number)
    {
        if (_open.TryGetValue(number, out ILogFile? file)) return file;
        file = _files.Create(NameOf(number));
        _isNamed = true;
        _open[number] = file;
        endSegment = Math.Max(endSegment, number);
        return file;
    }

    private void OpenAll()
    {
        foreach (string name in _files.List(_directory))
        {
            if (!name.StartsWith(Prefix, StringComparison.Ordinal) || !int.TryParse(name.AsSpan(Prefix.Length), out int number)) continue;
            _open[number] = _files.Open(NameOf(number), writable: true);
        }

        if (!_open.IsEmpty) (startSegment, endSegment) = (_open.Keys.Min(), _open.Keys.Max());
    }

    private string NameOf(int segment) => FileOf(_directory, segment);

    /// <summary>The file of a part of the log.</summary>
    internal static string FileOf(string directory, int segment) =>
        Path.Combine(directory, Prefix + segment.ToString(System.Globalization.CultureInfo.InvariantCulture));
}
