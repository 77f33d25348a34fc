// The real file system, but writes or syncs fail when a test says so, and it is known what has been written and not synced.
using Slogger.Log.Files;

namespace Slogger.Faster.Tests;

internal sealed class WatchedFiles : IFileLayer
{
    private readonly SystemFileLayer _real = SystemFileLayer.Instance;
    private readonly HashSet<string> _unsynced = [];
    private volatile string? _failing;
    private int _open;

    /// <summary>Called before a file is created, with its path.</summary>
    public Action<string>? Creating { get; set; }

    /// <summary>Called before a file is opened, with its path.</summary>
    public Action<string>? Opening { get; set; }

    /// <summary>How many files are open.</summary>
    public int OpenCount => Volatile.Read(ref _open);

    /// <summary>Files below which path cannot be written; null: none.</summary>
    public string? Failing
    {
        get => _failing;
        set => _failing = value;
    }

    /// <summary>Files, and directories whose names have changed, that a power failure now would spoil.</summary>
    public string[] Unsynced
    {
        get { lock (_unsynced) return [.. _unsynced]; }
    }

    public void CreateDirectory(string path) => _real.CreateDirectory(path);

    public IReadOnlyList<string> List(string directory) => _real.List(directory);

    public ILogFile Create(string path)
    {
        Creating?.Invoke(path);
        FailIf(path);
        Note(Path.GetDirectoryName(path)!);
        return new WatchedFile(this, path, _real.Create(path));
    }

    public ILogFile Open(string path, bool writable)
    {
        Opening?.Invoke(path);
        return new WatchedFile(this, path, _real.Open(path, writable));
    }

    public void Rename(string from, string to) => _real.Rename(from, to);

    public void LinkOrCopy(string from, string to) => _real.LinkOrCopy(from, to);

    public void Delete(string path)
    {
        _real.Delete(path);
        Forget(path);
        Note(Path.GetDirectoryName(path)!);
    }

    public void SyncDirectory(string directory)
    {
        _real.SyncDirectory(directory);
        Forget(directory);
    }

    public IDisposable? TryLock(string path) => _real.TryLock(path);

    private void Note(string path)
    {
        lock (_unsynced) _unsynced.Add(path);
    }

    private void Forget(string path)
    {
        lock (_unsynced) _unsynced.Remove(path);
    }

    private void FailIf(string path)
    {
        if (_failing is { } failing && path.StartsWith(failing, StringComparison.Ordinal))
            throw new IOException($"No space left on device: '{path}'.");
    }

    private sealed class WatchedFile : ILogFile
    {
        private readonly WatchedFiles _files;
        private readonly string _path;
        private readonly ILogFile _real;

        public WatchedFile(WatchedFiles files, string path, ILogFile real)
        {
            (_files, _path, _real) = (files, path, real);
            Interlocked.Increment(ref files._open);
        }

        public long Length => _real.Length;

        public int Read(Span<byte> destination, long position) => _real.Read(destination, position);

        public void Write(ReadOnlySpan<byte> source, long position)
        {
            _files.FailIf(_path);
            _files.Note(_path);
            _real.Write(source, position);
        }

        public void Allocate(long length) => _real.Allocate(length);

        public void SetLength(long length) => _real.SetLength(length);

        public void SyncData()
        {
            _files.FailIf(_path);
            _real.SyncData();
            _files.Forget(_path);
        }

        public void Dispose()
        {
            Interlocked.Decrement(ref _files._open);
            _real.Dispose();
        }
    }
}
