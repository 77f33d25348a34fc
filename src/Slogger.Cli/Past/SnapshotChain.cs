// A snapshot, and those that it rests on: one of what differs (slogger snapshot --from) names the one before, and the checksum of its
// manifest. The last of them has all keys.
using System.Security.Cryptography;
using System.Text;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;

namespace Slogger.Cli.Past;

/// <summary>A snapshot where it lies.</summary>
/// <param name="Place">The place.</param>
/// <param name="Manifest">Its manifest.</param>
/// <param name="Sha256">The checksum of that, by which a snapshot is told from others.</param>
internal sealed record SnapshotLayer(SnapshotPlace Place, SnapshotManifest Manifest, string Sha256)
{
    /// <summary>Reads what is in a place; null: there is no snapshot.</summary>
    /// <exception cref="IOException">It cannot be read, or is damaged.</exception>
    public static async Task<SnapshotLayer?> ReadAsync(SnapshotPlace place, CancellationToken stop) =>
        await place.ReadAsync(SnapshotManifest.FileName, stop).ConfigureAwait(false) is not { } bytes ? null
            : new(place, SnapshotManifest.Of(bytes, place.PathOf(SnapshotManifest.FileName)),
                Convert.ToHexStringLower(SHA256.HashData(bytes)));
}

/// <summary>The chain.</summary>
internal sealed class SnapshotChain
{
    private SnapshotChain(IReadOnlyList<SnapshotLayer> layers) => Layers = layers;

    /// <summary>The snapshot first, and last the one that has all keys.</summary>
    public IReadOnlyList<SnapshotLayer> Layers { get; }

    /// <summary>Finds all of them. Each is where the one above says, or beside that one.</summary>
    /// <param name="place">The snapshot's.</param>
    /// <param name="stop">Interrupts.</param>
    /// <exception cref="IOException">One is missing, or is another; the text says what to do.</exception>
    public static async Task<SnapshotChain> ReadAsync(SnapshotPlace place, CancellationToken stop)
    {
        List<SnapshotLayer> layers = [await SnapshotLayer.ReadAsync(place, stop).ConfigureAwait(false)
            ?? throw new IOException($"{place.Name} is no snapshot: it has no {SnapshotManifest.FileName}")];
        // No ring: a checksum cannot be of what holds it.
        while (layers[^1] is { Manifest.Previous: { } previous } above)
        {
            layers.Add(await BelowAsync(above.Place, previous, stop).ConfigureAwait(false));
        }
        return new(layers);
    }

    /// <summary>Reads all files once.</summary>
    /// <exception cref="IOException">One is damaged, or is missing.</exception>
    public async Task VerifyAsync()
    {
        foreach (SnapshotLayer layer in Layers)
        {
            foreach (SnapshotShard shard in layer.Manifest.Shards)
            {
                await using (Stream file = await layer.Place.OpenAsync(shard.File).ConfigureAwait(false))
                {
                    if (RdbFile.Verify(file) != RdbIntegrity.Good) { throw Damaged(layer, shard.File); }
                }
                if (shard.Removed is not { } removed) { continue; }
                await using Stream removals = await layer.Place.OpenAsync(removed.File).ConfigureAwait(false);
                if (Convert.ToHexStringLower(SHA256.HashData(removals)) != removed.Sha256) { throw Damaged(layer, removed.File); }
            }
        }
    }

    /// <summary>Which keys a file of removals names: commands as Redis takes them, SELECT and DEL.</summary>
    /// <param name="removals">The file, which is closed at the end.</param>
    /// <param name="path">What it is called in errors.</param>
    /// <exception cref="IOException">It cannot be read, or holds something else.</exception>
    public static IEnumerable<StoreKey> Removals(Stream removals, string path)
    {
        using var file = new BufferedStream(removals, 1 << 16);
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

    private static async Task<SnapshotLayer> BelowAsync(SnapshotPlace above, SnapshotPrevious previous, CancellationToken stop)
    {
        SnapshotPlace beside = above.Beside(previous.Directory);
        SnapshotLayer? other = null;
        foreach (SnapshotPlace place in ((SnapshotPlace[])[beside, SnapshotPlace.Of(previous.Directory, out _) ?? beside])
            .DistinctBy(p => p.Name))
        {
            if (await SnapshotLayer.ReadAsync(place, stop).ConfigureAwait(false) is not { } found) { continue; }
            if (found.Sha256 == previous.Sha256) { return found; }
            other = found;
        }
        string rests = $"{above.Name} rests on {previous.Directory}, of version {previous.Version}";
        throw new IOException(other is not null
            ? $"{rests}, and {other.Place.Name} is another snapshot: its {SnapshotManifest.FileName} has another checksum"
            : $"{rests}, which is neither at {previous.Directory} nor beside it");
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
        new($"{layer.Place.PathOf(file)} is damaged: its checksum does not fit. Use another copy of the snapshot");

    private static IOException NoRemovals(string path) => new($"{path} is damaged: it holds something else than removals");
}
