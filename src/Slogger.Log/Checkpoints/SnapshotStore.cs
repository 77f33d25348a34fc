// The snapshots of mode bgsave: one RDB file per version kept, <world-line>-<version>.rdb, each with its manifest. A snapshot
// exists exactly when its manifest has its final name: the data file is synced and renamed first, then the manifest, then
// the directory is synced. Opening removes what an interrupted Add or Prune left.
using System.Globalization;
using System.Text.Json;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Log.Checkpoints;

/// <summary>A snapshot, and the last version for which it may be used: lower than its own if a later world-line branched off
/// while the shard was idle.</summary>
public readonly record struct UsableSnapshot(Snapshot Snapshot, Version Last);

/// <summary>The snapshots of one shard, in a directory of their own. Thread-safe.</summary>
public sealed class SnapshotStore
{
    private const string DataExtension = ".rdb";
    private const string ManifestExtension = ".json";
    private const string TemporaryExtension = ".tmp";

    private readonly Lock _lock = new();
    private readonly IFileLayer _files;
    private readonly string _directory;
    private readonly List<Snapshot> _all = [];
    private long _temporaries;

    private SnapshotStore(string directory, IFileLayer files)
    {
        _directory = directory;
        _files = files;
    }

    /// <summary>All snapshots, by rising world-line and version.</summary>
    public IReadOnlyList<Snapshot> All
    {
        get
        {
            lock (_lock) { return [.. _all]; }
        }
    }

    /// <summary>Opens the snapshots of a directory; creates it if missing.</summary>
    /// <exception cref="LogCorruptException">A manifest cannot be read, or its file is missing.</exception>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public static SnapshotStore Open(string directory, IFileLayer? files = null)
    {
        var store = new SnapshotStore(directory, files ?? SystemFileLayer.Instance);
        Attempt("open", directory, store.Load);
        return store;
    }

    /// <summary>A path for a snapshot in the making; give it to <see cref="Add"/>, or it is deleted at the next opening.</summary>
    public string NewTemporaryPath()
    {
        lock (_lock)
        {
            return Path.Combine(_directory, string.Create(CultureInfo.InvariantCulture, $"making-{++_temporaries}{TemporaryExtension}"));
        }
    }

    /// <summary>The path of a snapshot's file.</summary>
    public string PathOf(Snapshot snapshot) => Path.Combine(_directory, snapshot.Stem + DataExtension);

    /// <summary>Makes a finished temporary file a snapshot; durable when it returns. One of the same world-line and version
    /// is replaced.</summary>
    /// <exception cref="LogIOException">The disk refused; the snapshot does not exist.</exception>
    public Snapshot Add(string temporaryPath, Snapshot described)
    {
        lock (_lock)
        {
            Snapshot added = described;
            Attempt("add a snapshot to", _directory, () =>
            {
                (long bytes, uint checksum) = SyncAndMeasure(temporaryPath);
                added = described with { Bytes = bytes, Checksum = checksum };
                _files.Rename(temporaryPath, PathOf(added));
                // The data's name must be durable before the manifest's.
                _files.SyncDirectory(_directory);
                WriteManifest(added);
            });
            _all.RemoveAll(s => s.Stem == added.Stem);
            _all.Add(added);
            Sort();
            return added;
        }
    }

    /// <summary>Notes that the snapshot also stands for the versions up to <paramref name="last"/>, in which nothing was done.
    /// Durable when it returns.</summary>
    /// <exception cref="LogIOException">The disk refused; nothing has changed.</exception>
    public Snapshot Extend(Snapshot snapshot, Version last, HybridTimestamp time)
    {
        lock (_lock)
        {
            Snapshot extended = snapshot with { LastVersion = last.Number, ClosedAt = time.Bits };
            Attempt("extend a snapshot in", _directory, () => WriteManifest(extended));
            _all[_all.FindIndex(s => s.Stem == snapshot.Stem)] = extended;
            return extended;
        }
    }

    /// <summary>The newest snapshot that is part of the current history.</summary>
    /// <param name="current">The current world-line.</param>
    /// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
    /// <param name="atMost">A version that it must not hold more than.</param>
    public UsableSnapshot? Latest(WorldLine current, Func<WorldLine, Version> lastValid, Version atMost)
    {
        UsableSnapshot? best = null;
        foreach (UsableSnapshot candidate in Usable(current, lastValid))
        {
            if (candidate.Snapshot.Version > atMost.Number) { continue; }
            UsableSnapshot limited = candidate with { Last = Version.Min(candidate.Last, atMost) };
            if (best is not { } b || limited.Last >= b.Last) { best = limited; }
        }
        return best;
    }

    /// <summary>All snapshots that are part of the current history, oldest first.</summary>
    public IEnumerable<UsableSnapshot> Usable(WorldLine current, Func<WorldLine, Version> lastValid)
    {
        foreach (Snapshot snapshot in All)
        {
            var line = new WorldLine(snapshot.WorldLine);
            if (line > current) { continue; }
            Version valid = line == current ? new Version(long.MaxValue) : lastValid(line);
            if (snapshot.Version <= valid.Number)
            {
                yield return new UsableSnapshot(snapshot, Version.Min(new Version(snapshot.LastVersion), valid));
            }
        }
    }

    /// <summary>Deletes what no recovery needs: all but the newest usable snapshots at or below the recorded cut. Usable ones
    /// above it are kept.</summary>
    /// <param name="keep">How many to keep at or below the cut; at least 1.</param>
    /// <param name="cut">The recorded cut, of the current world-line.</param>
    /// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public void Prune(int keep, WorldPoint cut, Func<WorldLine, Version> lastValid)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(keep, 1);
        lock (_lock)
        {
            List<Snapshot> usable = [.. Usable(cut.WorldLine, lastValid).Select(u => u.Snapshot)];
            IEnumerable<Snapshot> kept = usable.Where(s => s.Version <= cut.Version.Number)
                .OrderBy(s => s.Version).ThenBy(s => s.WorldLine).TakeLast(keep)
                .Concat(usable.Where(s => s.Version > cut.Version.Number));
            List<Snapshot> needless = [.. _all.Where(s => s.WorldLine <= cut.WorldLine.Number).Except(kept)];
            foreach (Snapshot snapshot in needless)
            {
                Attempt("delete", PathOf(snapshot), () =>
                {
                    _files.Delete(ManifestOf(snapshot));
                    // A manifest without its file would be an error at the next opening.
                    _files.SyncDirectory(_directory);
                    _files.Delete(PathOf(snapshot));
                });
                _all.Remove(snapshot);
            }
        }
    }

    /// <summary>Reads a snapshot's file and checks it against its manifest.</summary>
    /// <exception cref="LogCorruptException">It is not what was added.</exception>
    /// <exception cref="LogIOException">It cannot be read.</exception>
    public void Verify(Snapshot snapshot)
    {
        Attempt("read", PathOf(snapshot), () =>
        {
            using ILogFile file = _files.Open(PathOf(snapshot), writable: false);
            (long bytes, uint checksum) = Measure(file);
            if (bytes != snapshot.Bytes || checksum != snapshot.Checksum)
            {
                throw new LogCorruptException(PathOf(snapshot), Math.Min(bytes, snapshot.Bytes),
                    "the snapshot's length or checksum is not that of its manifest");
            }
        });
    }

    private string ManifestOf(Snapshot snapshot) => Path.Combine(_directory, snapshot.Stem + ManifestExtension);

    private void Sort() => _all.Sort((a, b) => (a.WorldLine, a.Version).CompareTo((b.WorldLine, b.Version)));

    private void Load()
    {
        _files.CreateDirectory(_directory);
        var names = _files.List(_directory).ToHashSet();
        foreach (string name in names.Where(n => n.EndsWith(ManifestExtension, StringComparison.Ordinal)))
        {
            _all.Add(ReadManifest(Path.Combine(_directory, name)));
        }
        Sort();
        foreach (Snapshot missing in _all.Where(s => !names.Contains(s.Stem + DataExtension)))
        {
            throw new LogCorruptException(PathOf(missing), 0, "the snapshot's file is missing");
        }
        var known = _all.Select(s => s.Stem + DataExtension).ToHashSet();
        foreach (string name in names)
        {
            bool isLeftover = name.EndsWith(TemporaryExtension, StringComparison.Ordinal)
                || (name.EndsWith(DataExtension, StringComparison.Ordinal) && !known.Contains(name));
            if (isLeftover) { _files.Delete(Path.Combine(_directory, name)); }
        }
        _files.SyncDirectory(_directory);
    }

    private Snapshot ReadManifest(string path)
    {
        using ILogFile file = _files.Open(path, writable: false);
        byte[] bytes = new byte[file.Length];
        file.Read(bytes, 0);
        try
        {
            return JsonSerializer.Deserialize(bytes, SnapshotJson.Default.Snapshot)
                ?? throw new LogCorruptException(path, 0, "the snapshot's manifest is empty");
        }
        catch (JsonException e)
        {
            throw new LogCorruptException(path, e.BytePositionInLine ?? 0, "the snapshot's manifest cannot be read");
        }
    }

    private void WriteManifest(Snapshot snapshot)
    {
        string manifest = ManifestOf(snapshot);
        using (ILogFile file = _files.Create(manifest + TemporaryExtension))
        {
            file.Write(JsonSerializer.SerializeToUtf8Bytes(snapshot, SnapshotJson.Default.Snapshot), 0);
            file.SyncData();
        }
        _files.Rename(manifest + TemporaryExtension, manifest);
        _files.SyncDirectory(_directory);
    }

    private (long Bytes, uint Checksum) SyncAndMeasure(string path)
    {
        // A linked file may belong to Redis's user: reading it is enough to sync it.
        using ILogFile file = _files.Open(path, writable: false);
        file.SyncData();
        return Measure(file);
    }

    private static (long Bytes, uint Checksum) Measure(ILogFile file)
    {
        byte[] buffer = new byte[1 << 20];
        uint checksum = 0;
        long position = 0;
        int read;
        while ((read = file.Read(buffer, position)) > 0)
        {
            checksum = Crc32C.Compute(buffer.AsSpan(0, read), checksum);
            position += read;
        }
        return (position, checksum);
    }

    private static void Attempt(string operation, string target, Action action)
    {
        try
        {
            action();
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            throw new LogIOException(operation, target, isFatal: false, e);
        }
    }
}
