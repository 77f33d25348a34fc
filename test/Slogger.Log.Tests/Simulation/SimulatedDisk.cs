// A disk that keeps nothing it was not told to keep. It holds, for each sector of 512 bytes, what is durable and every later state
// that a write left; at a crash each sector independently becomes any of these. Names are durable after SyncDirectory only; until
// then a crash keeps an arbitrary part of the creations, renames and deletions. Lengths behave like sectors.
// It can also fill up, fail syncs (after which the unsynced sectors are in doubt although they read back), and stop the
// process at any operation. And it can be a disk for each directory, which crash each in its own way.
using Slogger.Log.Files;

namespace Slogger.Log.Tests.Simulation;

/// <summary>The process stops here; not a failure that the log may handle.</summary>
internal sealed class SimulatedCrashException : Exception;

internal sealed class SimulatedDisk(int seed) : IFileLayer
{
    private const int DiskFullErrno = 28;

    private readonly Random _random = new(seed);
    private readonly Lock _lock = new();
    private readonly List<(string Directory, Action<Dictionary<string, Inode>> Change)> _pendingNames = [];
    private Dictionary<string, Inode> _durableNames = [];
    private Dictionary<string, Inode> _names = [];
    private readonly HashSet<string> _locks = [];
    private readonly HashSet<string> _directories = [];
    private int _incarnation;

    /// <summary>Operations until the process stops; negative: never.</summary>
    public int OperationsUntilCrash { get; set; } = -1;

    /// <summary>Most bytes all files may take.</summary>
    public long CapacityBytes { get; set; } = long.MaxValue;

    /// <summary>Chance that a sync of data fails.</summary>
    public double SyncFailureRate { get; set; }

    /// <summary>Chance that a sync of a directory fails.</summary>
    public double DirectorySyncFailureRate { get; set; }

    /// <summary>Chance that a write fails.</summary>
    public double WriteFailureRate { get; set; }

    /// <summary>Mutation: syncs of data do nothing.</summary>
    public bool IgnoresDataSync { get; init; }

    /// <summary>Mutation: in this directory they do.</summary>
    public string? IgnoresDataSyncIn { get; init; }

    /// <summary>Mutation: the sync behind the first write to a file's beginning, a segment's header, does nothing.</summary>
    public bool IgnoresHeaderSync { get; init; }

    /// <summary>Each directory is a disk of its own: at a crash one loses all that was not synced, another nothing, a third any part.
    /// </summary>
    public bool HasDisksOfDirectories { get; init; }

    /// <summary>Mutation: syncs of directories do nothing.</summary>
    public bool IgnoresDirectorySync { get; init; }

    public int DataSyncs { get; private set; }

    public int DirectorySyncs { get; private set; }

    public IEnumerable<string> Paths => _names.Keys.Order(StringComparer.Ordinal);

    /// <summary>Power off and on: unsynced sectors, lengths and names become what they may.</summary>
    public void Crash()
    {
        lock (_lock)
        {
            var names = new Dictionary<string, Inode>(_durableNames);
            Dictionary<string, Fate> fates = [];
            foreach ((string directory, Action<Dictionary<string, Inode>> change) in _pendingNames)
            {
                if (Happens(FateOf(fates, directory)))
                {
                    change(names);
                }
            }
            _pendingNames.Clear();
            foreach ((string path, Inode inode) in names.DistinctBy(n => n.Value))
            {
                inode.Crash(_random, FateOf(fates, Path.GetDirectoryName(path)!));
            }
            _durableNames = names;
            _names = new(names);
            EndProcess();
        }
    }

    /// <summary>The process ends, the machine does not: what was written stays, unsynced.</summary>
    public void Kill()
    {
        lock (_lock)
        {
            EndProcess();
        }
    }

    /// <summary>Changes a byte behind everyone's back.</summary>
    public void Flip(string path, long position, byte mask) => _names[path].Flip(position, mask);

    public byte ByteAt(string path, long position) => _names[path].Content[(int)position];

    public long LengthOf(string path) => _names[path].Content.Length;

    // Durable when it returns, and so are its parents.
    public void CreateDirectory(string path) => Do(() =>
    {
        for (string? directory = path; directory is not null; directory = Path.GetDirectoryName(directory)) { _directories.Add(directory); }
        return 0;
    });

    public IReadOnlyList<string> List(string directory) => Do(() =>
        (IReadOnlyList<string>)[.. _names.Keys.Where(p => Path.GetDirectoryName(p) == directory).Select(p => Path.GetFileName(p))]);

    public ILogFile Create(string path) => Do(() =>
    {
        if (!_directories.Contains(Path.GetDirectoryName(path)!)) { throw new DirectoryNotFoundException(path); }
        var inode = new Inode();
        ChangeNames(path, names => names[path] = inode);
        return (ILogFile)new OpenFile(this, inode, path);
    });

    public ILogFile Open(string path, bool writable) => Do(() => _names.TryGetValue(path, out Inode? inode)
        ? (ILogFile)new OpenFile(this, inode, path) : throw new FileNotFoundException(path));

    public void Rename(string from, string to) => Do(() =>
    {
        Inode inode = _names[from];
        ChangeNames(to, names =>
        {
            if (names.GetValueOrDefault(from) == inode)
            {
                names.Remove(from);
                names[to] = inode;
            }
        });
        return 0;
    });

    public void LinkOrCopy(string from, string to) => Do(() =>
    {
        Inode inode = _names[from];
        ChangeNames(to, names => names[to] = inode);
        return 0;
    });

    public void Delete(string path) => Do(() =>
    {
        if (_names.TryGetValue(path, out Inode? inode))
        {
            ChangeNames(path, names =>
            {
                if (names.GetValueOrDefault(path) == inode)
                {
                    names.Remove(path);
                }
            });
        }
        return 0;
    });

    public void SyncDirectory(string directory) => Do(() =>
    {
        DirectorySyncs++;
        if (_random.NextDouble() < DirectorySyncFailureRate) { throw new IOException("simulated: input/output error", 5); }
        if (!IgnoresDirectorySync)
        {
            foreach ((string of, Action<Dictionary<string, Inode>> change) in _pendingNames)
            {
                if (of == directory) { change(_durableNames); }
            }
            _pendingNames.RemoveAll(p => p.Directory == directory);
        }
        return 0;
    });

    public IDisposable? TryLock(string path)
    {
        lock (_lock)
        {
            return _locks.Add(path) ? new Unlocker(this, path) : null;
        }
    }

    private Fate FateOf(Dictionary<string, Fate> fates, string directory)
    {
        if (!HasDisksOfDirectories) { return Fate.Any; }
        if (!fates.TryGetValue(directory, out Fate fate)) { fates[directory] = fate = (Fate)_random.Next(3); }
        return fate;
    }

    private bool Happens(Fate fate) => fate == Fate.All || (fate == Fate.Any && _random.Next(2) == 0);

    // What of that which was not synced a crash leaves.
    private enum Fate
    {
        Any,
        All,
        None,
    }

    private void EndProcess()
    {
        _incarnation++;
        _locks.Clear();
        OperationsUntilCrash = -1;
    }

    private void ChangeNames(string path, Action<Dictionary<string, Inode>> change)
    {
        change(_names);
        _pendingNames.Add((Path.GetDirectoryName(path)!, change));
    }

    private T Do<T>(Func<T> operation)
    {
        lock (_lock)
        {
            if (OperationsUntilCrash == 0)
            {
                throw new SimulatedCrashException();
            }
            if (OperationsUntilCrash > 0)
            {
                OperationsUntilCrash--;
            }
            return operation();
        }
    }

    private sealed class Unlocker(SimulatedDisk disk, string path) : IDisposable
    {
        private readonly int _incarnation = disk._incarnation;

        public void Dispose()
        {
            if (_incarnation == disk._incarnation)
            {
                disk._locks.Remove(path);
            }
        }
    }

    private sealed class OpenFile(SimulatedDisk disk, Inode inode, string path) : ILogFile
    {
        private readonly int _incarnation = disk._incarnation;

        public long Length => inode.Content.Length;

        public int Read(Span<byte> destination, long position)
        {
            lock (disk._lock)
            {
                int count = (int)Math.Clamp(inode.Content.Length - position, 0, destination.Length);
                inode.Content.AsSpan((int)Math.Min(position, inode.Content.Length), count).CopyTo(destination);
                return count;
            }
        }

        public void Write(ReadOnlySpan<byte> source, long position)
        {
            byte[] bytes = source.ToArray();
            Do(() =>
            {
                if (disk._random.NextDouble() < disk.WriteFailureRate)
                {
                    // Some sectors of it may have been written.
                    long end = (position + disk._random.Next(bytes.Length)) / 512 * 512;
                    inode.Write(bytes.AsSpan(0, (int)Math.Max(0, end - position)), position);
                    throw new IOException("simulated: no space left on device", DiskFullErrno);
                }
                inode.Write(bytes, position);
            });
        }

        public void Allocate(long length) => Do(() =>
        {
            if (disk._names.Values.Sum(i => (long)i.Content.Length) + length - inode.Content.Length > disk.CapacityBytes)
            {
                throw new IOException("simulated: no space left on device", DiskFullErrno);
            }
            inode.SetLength((int)Math.Max(length, inode.Content.Length));
        });

        public void SetLength(long length) => Do(() => inode.SetLength((int)length));

        public void SyncData() => Do(() =>
        {
            disk.DataSyncs++;
            if (disk._random.NextDouble() < disk.SyncFailureRate)
            {
                inode.FailSync(disk._random);
                throw new IOException("simulated: input/output error", 5);
            }
            bool isIgnored = disk.IgnoresDataSync || disk.IgnoresDataSyncIn == Path.GetDirectoryName(path)
                || (disk.IgnoresHeaderSync && inode.IsBegun);
            if (!isIgnored)
            {
                inode.Sync();
            }
        });

        public void Dispose()
        {
        }

        private void Do(Action operation) => disk.Do(() =>
        {
            if (_incarnation != disk._incarnation)
            {
                throw new InvalidOperationException("A file of a dead process is used.");
            }
            operation();
            return 0;
        });
    }

    private sealed class Inode
    {
        private readonly Dictionary<int, List<byte[]>> _laterStates = [];
        private readonly List<int> _laterLengths = [];
        private byte[] _durable = [];

        public byte[] Content { get; private set; } = [];

        /// <summary>Whether its beginning was written, and never synced.</summary>
        public bool IsBegun => Content.Length > 0 && Content[0] != 0 && (_durable.Length == 0 || _durable[0] == 0);

        public void Write(ReadOnlySpan<byte> bytes, long position)
        {
            int end = (int)position + bytes.Length;
            if (end > Content.Length)
            {
                SetLength(end);
            }
            bytes.CopyTo(Content.AsSpan((int)position));
            if (bytes.Length == 0)
            {
                return;
            }
            for (int sector = (int)position / 512; sector <= (end - 1) / 512; sector++)
            {
                Remember(sector);
            }
        }

        public void SetLength(int length)
        {
            byte[] content = Content;
            Array.Resize(ref content, length);
            Content = content;
            _laterLengths.Add(length);
        }

        public void Sync()
        {
            _durable = [.. Content];
            _laterStates.Clear();
            _laterLengths.Clear();
        }

        /// <summary>Each sector reached the disk or did not, and will not be tried again; reads see it all the same.</summary>
        public void FailSync(Random random)
        {
            Array.Resize(ref _durable, Content.Length);
            foreach ((int sector, List<byte[]> states) in _laterStates)
            {
                if (random.Next(2) == 0)
                {
                    Put(_durable, sector, states[^1]);
                }
            }
            _laterStates.Clear();
            _laterLengths.Clear();
        }

        public void Crash(Random random, Fate fate)
        {
            int length = _durable.Length;
            if (_laterLengths.Count > 0 && (fate == Fate.Any ? random.Next(2) == 0 : fate == Fate.All))
            {
                length = _laterLengths[fate == Fate.All ? ^1 : random.Next(_laterLengths.Count)];
            }
            Array.Resize(ref _durable, length);
            foreach ((int sector, List<byte[]> states) in _laterStates)
            {
                int pick = fate == Fate.Any ? random.Next(states.Count + 1) : fate == Fate.All ? states.Count : 0;
                if (pick > 0)
                {
                    Put(_durable, sector, states[pick - 1]);
                }
            }
            Content = _durable;
            Sync();
        }

        public void Flip(long position, byte mask)
        {
            Content[position] ^= mask;
            if (position < _durable.Length)
            {
                _durable[position] ^= mask;
            }
        }

        private void Remember(int sector)
        {
            if (!_laterStates.TryGetValue(sector, out List<byte[]>? states))
            {
                _laterStates[sector] = states = [];
            }
            int start = sector * 512;
            byte[] state = new byte[512];
            Content.AsSpan(start, Math.Min(512, Content.Length - start)).CopyTo(state);
            states.Add(state);
        }

        private static void Put(byte[] content, int sector, byte[] state)
        {
            int start = sector * 512;
            if (start < content.Length)
            {
                state.AsSpan(0, Math.Min(512, content.Length - start)).CopyTo(content.AsSpan(start));
            }
        }
    }
}
