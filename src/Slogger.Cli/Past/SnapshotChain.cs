// A snapshot, and those that it rests on: one of what differs (slogger snapshot --from) names the one before, and the checksum of its
// manifest. The last of them has all keys.
using System.Security.Cryptography;
using System.Text;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;

namespace Slogger.Cli.Past;

/// <summary>A snapshot in its directory.</summary>
/// <param name="Directory">The directory.</param>
/// <param name="Manifest">Its manifest.</param>
internal sealed record SnapshotLayer(string Directory, SnapshotManifest Manifest)
{
    /// <summary>Where a file of it is.</summary>
    public string PathOf(string file) => Path.Combine(Directory, file);
}

/// <summary>The chain.</summary>
internal sealed class SnapshotChain
{
    private SnapshotChain(IReadOnlyList<SnapshotLayer> layers) => Layers = layers;

    /// <summary>The snapshot first, and last the one that has all keys.</summary>
    public IReadOnlyList<SnapshotLayer> Layers { get; }

    /// <summary>Finds all of them. Each is where the one above says, or beside that one.</summary>
    /// <param name="directory">The snapshot's.</param>
    /// <exception cref="IOException">One is missing, or is another; the text says what to do.</exception>
    public static SnapshotChain Read(string directory)
    {
        List<SnapshotLayer> layers = [new(Path.TrimEndingDirectorySeparator(Path.GetFullPath(directory)),
            SnapshotManifest.Read(directory))];
        // No ring: a checksum cannot be of what holds it.
        while (layers[^1] is { Manifest.Previous: { } previous } above) { layers.Add(Below(above.Directory, previous)); }
        return new(layers);
    }

    /// <summary>The checksum by which a snapshot is told from others.</summary>
    /// <exception cref="IOException">Its manifest cannot be read.</exception>
    public static string ChecksumOf(string directory) =>
        Convert.ToHexStringLower(SHA256.HashData(File.ReadAllBytes(Path.Combine(directory, SnapshotManifest.FileName))));

    /// <summary>Reads all files once.</summary>
    /// <exception cref="IOException">One is damaged, or is missing.</exception>
    public void Verify()
    {
        foreach (SnapshotLayer layer in Layers)
        {
            foreach (SnapshotShard shard in layer.Manifest.Shards)
            {
                if (RdbFile.Verify(layer.PathOf(shard.File)) != RdbIntegrity.Good) { throw Damaged(layer, shard.File); }
                if (shard.Removed is { } removed && ChecksumOfFile(layer.PathOf(removed.File)) != removed.Sha256)
                {
                    throw Damaged(layer, removed.File);
                }
            }
        }
    }

    /// <summary>The checksum of a file of removals.</summary>
    /// <exception cref="IOException">It cannot be read.</exception>
    public static string ChecksumOfFile(string path)
    {
        using FileStream file = File.OpenRead(path);
        return Convert.ToHexStringLower(SHA256.HashData(file));
    }

    /// <summary>Which keys a file of removals names: commands as Redis takes them, SELECT and DEL.</summary>
    /// <exception cref="IOException">It cannot be read, or holds something else.</exception>
    public static IEnumerable<StoreKey> Removals(string path)
    {
        using var file = new BufferedStream(File.OpenRead(path), 1 << 16);
        int database = 0;
        while (CommandIn(file, path) is { } command)
        {
            switch (Encoding.ASCII.GetString(command[0]))
            {
                case "SELECT" when command.Length == 2 && int.TryParse(command[1], out int selected): database = selected; break;
                case "DEL" when command.Length == 2: yield return new StoreKey(database, command[1]); break;
                default: throw NoRemovals(path);
            }
        }
    }

    private static SnapshotLayer Below(string above, SnapshotPrevious previous)
    {
        string name = Path.GetFileName(Path.TrimEndingDirectorySeparator(previous.Directory));
        string beside = Path.Combine(Path.GetDirectoryName(above) ?? above, name);
        string? other = null;
        foreach (string directory in ((string[])[previous.Directory, beside]).Distinct())
        {
            if (!File.Exists(Path.Combine(directory, SnapshotManifest.FileName))) { continue; }
            if (ChecksumOf(directory) == previous.Sha256) { return new(directory, SnapshotManifest.Read(directory)); }
            other = directory;
        }
        throw new IOException(other is not null
            ? $"{above} rests on {name}, of version {previous.Version}, and {other} is another snapshot: its "
                + $"{SnapshotManifest.FileName} has another checksum"
            : $"{above} rests on {name}, of version {previous.Version}, which is neither at {previous.Directory} nor beside it");
    }

    // Null: there is no more.
    private static byte[][]? CommandIn(Stream file, string path)
    {
        if (HeaderIn(file, '*', path) is not { } count) { return null; }
        var words = new byte[count][];
        for (int i = 0; i < count; i++)
        {
            words[i] = new byte[HeaderIn(file, '$', path) ?? throw NoRemovals(path)];
            file.ReadExactly(words[i]);
            if (file.ReadByte() != '\r' || file.ReadByte() != '\n') { throw NoRemovals(path); }
        }
        return words;
    }

    private static int? HeaderIn(Stream file, char kind, string path)
    {
        int first = file.ReadByte();
        if (first < 0 && kind == '*') { return null; }
        int number = 0, digits = 0, next;
        while ((next = file.ReadByte()) is >= '0' and <= '9' && digits++ < 9) { number = (number * 10) + next - '0'; }
        bool isHeader = first == kind && digits > 0 && next == '\r' && file.ReadByte() == '\n';
        return isHeader && (number > 0 || kind == '$') ? number : throw NoRemovals(path);
    }

    private static IOException Damaged(SnapshotLayer layer, string file) =>
        new($"{layer.PathOf(file)} is damaged: its checksum does not fit. Use another copy of the snapshot");

    private static IOException NoRemovals(string path) => new($"{path} is damaged: it holds something else than removals");
}
