// The registry of checkpoints. A checkpoint exists exactly when its manifest has its final name: the data file is synced and
// renamed first, then the manifest, then the directory is synced. Opening removes what an interrupted Add or Prune left.
using System.Globalization;
using System.Text.Json;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Checkpoints;

/// <summary>The checkpoints of one shard, in a directory of their own. Thread-safe.</summary>
public sealed class CheckpointStore
{
    private const string DataExtension = ".rdb";
    private const string ManifestExtension = ".json";
    private const string TemporaryExtension = ".tmp";

    private readonly Lock _lock = new();
    private readonly IFileLayer _files;
    private readonly string _directory;
    private readonly List<Checkpoint> _all = [];
    private long _lastId;

    private CheckpointStore(string directory, IFileLayer files)
    {
        _directory = directory;
        _files = files;
    }

    /// <summary>All checkpoints, by rising offset.</summary>
    public IReadOnlyList<Checkpoint> All
    {
        get
        {
            lock (_lock)
            {
                return [.. _all];
            }
        }
    }

    /// <summary>Opens the registry of a directory; creates it if missing.</summary>
    /// <param name="directory">The directory; nothing else may use it.</param>
    /// <param name="files">The file layer; default the operating system's.</param>
    /// <exception cref="LogCorruptException">A manifest cannot be read.</exception>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public static CheckpointStore Open(string directory, IFileLayer? files = null)
    {
        var store = new CheckpointStore(directory, files ?? SystemFileLayer.Instance);
        Attempt("open", directory, store.Load);
        return store;
    }

    /// <summary>A path for a checkpoint in the making; give it to <see cref="Add"/>, or it is deleted at the next
    /// opening.</summary>
    public string NewTemporaryPath()
    {
        lock (_lock)
        {
            return Path.Combine(_directory, string.Create(CultureInfo.InvariantCulture, $"{++_lastId:D8}{TemporaryExtension}"));
        }
    }

    /// <summary>The path of a checkpoint's file.</summary>
    public string PathOf(Checkpoint checkpoint) => Path.Combine(_directory, checkpoint.FileName);

    /// <summary>Makes a finished temporary file a checkpoint; durable when it returns.</summary>
    /// <param name="temporaryPath">From <see cref="NewTemporaryPath"/>.</param>
    /// <param name="described">What it holds; name, length and checksum are filled in.</param>
    /// <exception cref="LogIOException">The disk refused; the checkpoint does not exist.</exception>
    public Checkpoint Add(string temporaryPath, Checkpoint described)
    {
        lock (_lock)
        {
            Checkpoint added = described;
            Attempt("add a checkpoint to", _directory, () =>
            {
                (long bytes, uint checksum) = SyncAndMeasure(temporaryPath);
                string stem = string.Create(CultureInfo.InvariantCulture, $"{described.Offset:D16}-{++_lastId:D8}");
                added = described with { FileName = stem + DataExtension, Bytes = bytes, Checksum = checksum };
                _files.Rename(temporaryPath, PathOf(added));
                string manifest = Path.Combine(_directory, stem + ManifestExtension);
                WriteSynced(manifest + TemporaryExtension, JsonSerializer.SerializeToUtf8Bytes(added, CheckpointJson.Default.Checkpoint));
                // The data's name must be durable before the manifest's.
                _files.SyncDirectory(_directory);
                _files.Rename(manifest + TemporaryExtension, manifest);
                _files.SyncDirectory(_directory);
            });
            _all.Add(added);
            _all.Sort((a, b) => a.Offset.CompareTo(b.Offset));
            return added;
        }
    }

    /// <summary>The newest checkpoint from which the log can restore a point at <paramref name="maxOffset"/>: of its current
    /// history, not above that offset, and not below the log's start. Null if there is none.</summary>
    public Checkpoint? Latest(VersionLog log, long maxOffset)
    {
        lock (_lock)
        {
            return _all.LastOrDefault(c => c.Offset <= maxOffset && IsUsable(log, c));
        }
    }

    /// <summary>Notes of every usable checkpoint that fell behind that it belongs to the log's present world-line too. The log
    /// remembers a limited number of branches, and a checkpoint from before them could not be told from a void one: to be
    /// called after each new world-line. Durable when it returns.</summary>
    /// <exception cref="LogIOException">The disk refused; every checkpoint is as it was, or noted.</exception>
    public void CarryForward(VersionLog log)
    {
        lock (_lock)
        {
            for (int i = 0; i < _all.Count; i++)
            {
                Checkpoint checkpoint = _all[i];
                if (log.IsEmpty || log.WorldLine.Number - checkpoint.WorldLine < WorldLinesBehindMax || !IsUsable(log, checkpoint)) { continue; }
                Checkpoint carried = checkpoint with { WorldLine = log.WorldLine.Number };
                string manifest = Path.Combine(_directory, Path.ChangeExtension(checkpoint.FileName, ManifestExtension));
                Attempt("note a world-line in", manifest, () =>
                {
                    WriteSynced(manifest + TemporaryExtension, JsonSerializer.SerializeToUtf8Bytes(carried, CheckpointJson.Default.Checkpoint));
                    _files.Rename(manifest + TemporaryExtension, manifest);
                    _files.SyncDirectory(_directory);
                });
                _all[i] = carried;
            }
        }
    }

    // A fraction of what the log remembers, so that a refusal of the disk now and then does no harm.
    private const int WorldLinesBehindMax = SegmentHeader.BranchesMax / 4;

    /// <summary>Deletes all but the newest usable checkpoints at or below an offset. Those above it are kept: an earlier point
    /// may still be the one to restore.</summary>
    /// <param name="log">Tells which are usable; those that are not are deleted.</param>
    /// <param name="keep">How many to keep at or below <paramref name="offset"/>; at least 1.</param>
    /// <param name="offset">An offset that any later restore is at or above: the recorded cut's.</param>
    /// <returns>The offset of the oldest checkpoint left, or null: the log may be trimmed below it.</returns>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public long? Prune(VersionLog log, int keep, long offset)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(keep, 1);
        lock (_lock)
        {
            List<Checkpoint> usable = [.. _all.Where(c => IsUsable(log, c))];
            IEnumerable<Checkpoint> kept = usable.Where(c => c.Offset <= offset).TakeLast(keep)
                .Concat(usable.Where(c => c.Offset > offset));
            foreach (Checkpoint checkpoint in _all.Except(kept).ToList())
            {
                Attempt("delete", checkpoint.FileName, () => Delete(checkpoint));
                _all.Remove(checkpoint);
            }
            return _all.Count > 0 ? _all[0].Offset : null;
        }
    }

    /// <summary>Reads a checkpoint's file and checks it against its manifest.</summary>
    /// <exception cref="LogCorruptException">It is not what was added.</exception>
    /// <exception cref="LogIOException">It cannot be read.</exception>
    public void Verify(Checkpoint checkpoint)
    {
        Attempt("read", PathOf(checkpoint), () =>
        {
            using ILogFile file = _files.Open(PathOf(checkpoint), writable: false);
            (long bytes, uint checksum) = Measure(file);
            if (bytes != checkpoint.Bytes || checksum != checkpoint.Checksum)
            {
                throw new LogCorruptException(PathOf(checkpoint), Math.Min(bytes, checkpoint.Bytes),
                    "the checkpoint's length or checksum is not that of its manifest");
            }
        });
    }

    private static bool IsUsable(VersionLog log, Checkpoint c) =>
        !log.IsEmpty && log.IsInHistory(c.Origin, new WorldLine(c.WorldLine), c.Offset) && c.Offset >= log.StartOffset;

    private void Load()
    {
        _files.CreateDirectory(_directory);
        var names = _files.List(_directory).ToHashSet();
        foreach (string name in names.Where(n => n.EndsWith(ManifestExtension, StringComparison.Ordinal)))
        {
            _all.Add(ReadManifest(Path.Combine(_directory, name)));
        }
        _all.Sort((a, b) => a.Offset.CompareTo(b.Offset));
        foreach (Checkpoint missing in _all.Where(c => !names.Contains(c.FileName)))
        {
            throw new LogCorruptException(PathOf(missing), 0, "the checkpoint's file is missing");
        }
        var known = _all.Select(c => c.FileName).ToHashSet();
        foreach (string name in names)
        {
            _lastId = Math.Max(_lastId, IdOf(name));
            bool isLeftover = name.EndsWith(TemporaryExtension, StringComparison.Ordinal)
                || (name.EndsWith(DataExtension, StringComparison.Ordinal) && !known.Contains(name));
            if (isLeftover)
            {
                _files.Delete(Path.Combine(_directory, name));
            }
        }
        _files.SyncDirectory(_directory);
    }

    private static long IdOf(string name)
    {
        string last = name.Split('.')[0].Split('-')[^1];
        return long.TryParse(last, NumberStyles.None, CultureInfo.InvariantCulture, out long id) ? id : 0;
    }

    private Checkpoint ReadManifest(string path)
    {
        using ILogFile file = _files.Open(path, writable: false);
        byte[] bytes = new byte[file.Length];
        file.Read(bytes, 0);
        try
        {
            return JsonSerializer.Deserialize(bytes, CheckpointJson.Default.Checkpoint)
                ?? throw new LogCorruptException(path, 0, "the checkpoint's manifest is empty");
        }
        catch (JsonException e)
        {
            throw new LogCorruptException(path, e.BytePositionInLine ?? 0, "the checkpoint's manifest cannot be read");
        }
    }

    private void Delete(Checkpoint checkpoint)
    {
        _files.Delete(Path.Combine(_directory, Path.ChangeExtension(checkpoint.FileName, ManifestExtension)));
        // A manifest without its file would be an error at the next opening.
        _files.SyncDirectory(_directory);
        _files.Delete(PathOf(checkpoint));
    }

    private void WriteSynced(string path, ReadOnlySpan<byte> bytes)
    {
        using ILogFile file = _files.Create(path);
        file.Write(bytes, 0);
        file.SyncData();
    }

    private (long Bytes, uint Checksum) SyncAndMeasure(string path)
    {
        using ILogFile file = _files.Open(path, writable: true);
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
