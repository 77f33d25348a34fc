// A registry of RDB files. A file is kept exactly when its manifest has its final name: the data file is synced and renamed
// first, then the manifest, then the directory is synced. No name is used twice, so nothing that is kept is ever overwritten.
// Opening removes what an interrupted Add or Delete left.
using System.Globalization;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Checkpoints;

/// <summary>The kept files of one shard, in a directory of their own. Thread-safe.</summary>
public abstract class KeptFiles<T> where T : KeptFile
{
    private const string DataExtension = ".rdb";
    private const string ManifestExtension = ".json";
    private const string TemporaryExtension = ".tmp";

    private readonly IFileLayer _files;
    private readonly string _directory;
    private readonly JsonTypeInfo<T> _json;
    private readonly Comparison<T> _order;
    private readonly List<T> _all = [];
    private long _lastId;

    private protected KeptFiles(string directory, IFileLayer? files, JsonTypeInfo<T> json, Comparison<T> order)
    {
        _directory = directory;
        _files = files ?? SystemFileLayer.Instance;
        _json = json;
        // Of equals the one that was added last is last.
        _order = (a, b) => order(a, b) is not 0 and var difference ? difference : IdOf(a.FileName).CompareTo(IdOf(b.FileName));
        Attempt("open", directory, Load);
    }

    private protected Lock Gate { get; } = new();

    private protected IFileLayer Files => _files;

    private protected string Folder => _directory;

    /// <summary>The files in order, under the gate.</summary>
    private protected IReadOnlyList<T> Kept => _all;

    /// <summary>All kept files, oldest first.</summary>
    public IReadOnlyList<T> All
    {
        get
        {
            lock (Gate) { return [.. _all]; }
        }
    }

    /// <summary>A path for a file in the making; give it to <see cref="Add"/>, or it is deleted at the next opening.</summary>
    public string NewTemporaryPath()
    {
        lock (Gate)
        {
            return Path.Combine(_directory, string.Create(CultureInfo.InvariantCulture, $"{++_lastId:D8}{TemporaryExtension}"));
        }
    }

    /// <summary>The path of a kept file.</summary>
    public string PathOf(T kept) => Path.Combine(_directory, kept.FileName);

    /// <summary>Keeps a finished temporary file; durable when it returns.</summary>
    /// <param name="temporaryPath">From <see cref="NewTemporaryPath"/>.</param>
    /// <param name="described">What it holds; name, length and checksum are filled in.</param>
    /// <exception cref="LogIOException">The disk refused; the file is not kept.</exception>
    public virtual T Add(string temporaryPath, T described)
    {
        lock (Gate)
        {
            T added = described with { FileName = string.Create(
                CultureInfo.InvariantCulture, $"{StemOf(described)}-{++_lastId:D8}{DataExtension}") };
            try
            {
                Attempt("add a file to", _directory, () =>
                {
                    (long bytes, uint checksum) = SyncAndMeasure(temporaryPath);
                    added = added with { Bytes = bytes, Checksum = checksum };
                    _files.Rename(temporaryPath, PathOf(added));
                    // The data's name must be durable before the manifest's.
                    _files.SyncDirectory(_directory);
                    WriteManifest(added);
                });
            }
            catch (LogIOException)
            {
                TryForget(added);
                throw;
            }
            _all.Add(added);
            _all.Sort(_order);
            return added;
        }
    }

    /// <summary>Reads a kept file and checks it against its manifest.</summary>
    /// <exception cref="LogCorruptException">It is not what was added.</exception>
    /// <exception cref="LogIOException">It cannot be read.</exception>
    public void Verify(T kept)
    {
        Attempt("read", PathOf(kept), () =>
        {
            using ILogFile file = _files.Open(PathOf(kept), writable: false);
            (long bytes, uint checksum) = Measure(file);
            if (bytes != kept.Bytes || checksum != kept.Checksum)
            {
                throw new LogCorruptException(PathOf(kept), Math.Min(bytes, kept.Bytes),
                    "the file's length or checksum is not that of its manifest");
            }
        });
    }

    /// <summary>The checksum of a file, as it stands in manifests: CRC-32C. Throws IOException.</summary>
    public static uint ChecksumOf(string path, IFileLayer? files = null)
    {
        using ILogFile file = (files ?? SystemFileLayer.Instance).Open(path, writable: false);
        return Measure(file).Checksum;
    }

    /// <summary>How a file's name begins, for people.</summary>
    private protected abstract string StemOf(T described);

    /// <summary>Notes something new of a file, if it is still kept. Durable when it returns; under the gate.</summary>
    private protected void Note(T kept, T changed)
    {
        int at = _all.FindIndex(k => k.FileName == kept.FileName);
        if (at < 0) { return; }
        Attempt("note a change in", ManifestOf(kept), () => WriteManifest(changed));
        _all[at] = changed;
    }

    /// <summary>Deletes a kept file; under the gate.</summary>
    private protected virtual void Delete(T kept)
    {
        Attempt("delete", PathOf(kept), () =>
        {
            _files.Delete(ManifestOf(kept));
            // A manifest without its file would be an error at the next opening.
            _files.SyncDirectory(_directory);
            _files.Delete(PathOf(kept));
        });
        _all.Remove(kept);
    }

    // The manifest may have its name, and only the sync of that failed: the next opening would take the file for kept.
    private void TryForget(T added)
    {
        try
        {
            _files.Delete(ManifestOf(added));
            _files.SyncDirectory(_directory);
            _files.Delete(PathOf(added));
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // What is left is whole.
        }
    }

    private string ManifestOf(T kept) => Path.ChangeExtension(PathOf(kept), ManifestExtension);

    private void Load()
    {
        _files.CreateDirectory(_directory);
        var names = _files.List(_directory).ToHashSet();
        foreach (string name in names.Where(n => n.EndsWith(ManifestExtension, StringComparison.Ordinal)))
        {
            T kept = ReadManifest(Path.Combine(_directory, name));
            // Snapshots were once kept without their names.
            _all.Add(string.IsNullOrEmpty(kept.FileName) ? kept with { FileName = Path.ChangeExtension(name, DataExtension) } : kept);
        }
        _all.Sort(_order);
        if (_all.Find(k => !names.Contains(k.FileName)) is { } missing)
        {
            throw new LogCorruptException(PathOf(missing), 0, "the file of a manifest is missing");
        }
        var known = _all.Select(k => k.FileName).ToHashSet();
        foreach (string name in names)
        {
            _lastId = Math.Max(_lastId, IdOf(name));
            bool isLeftover = name.EndsWith(TemporaryExtension, StringComparison.Ordinal)
                || (name.EndsWith(DataExtension, StringComparison.Ordinal) && !known.Contains(name));
            if (isLeftover) { _files.Delete(Path.Combine(_directory, name)); }
        }
        _files.SyncDirectory(_directory);
    }

    private static long IdOf(string name)
    {
        string last = name.Split('.')[0].Split('-')[^1];
        return long.TryParse(last, NumberStyles.None, CultureInfo.InvariantCulture, out long id) ? id : 0;
    }

    private T ReadManifest(string path)
    {
        using ILogFile file = _files.Open(path, writable: false);
        byte[] bytes = new byte[file.Length];
        file.Read(bytes, 0);
        try
        {
            return JsonSerializer.Deserialize(bytes, _json) ?? throw new LogCorruptException(path, 0, "the manifest is empty");
        }
        catch (JsonException e)
        {
            throw new LogCorruptException(path, e.BytePositionInLine ?? 0, "the manifest cannot be read");
        }
    }

    private void WriteManifest(T kept) => DurableFile.WriteJson(_files, ManifestOf(kept), kept, _json);

    private (long Bytes, uint Checksum) SyncAndMeasure(string path)
    {
        // A linked file may belong to Redis's user: where links are made, reading it is enough to sync it.
        using ILogFile file = _files.Open(path, writable: OperatingSystem.IsWindows());
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

    private protected static void Attempt(string operation, string target, Action action)
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
