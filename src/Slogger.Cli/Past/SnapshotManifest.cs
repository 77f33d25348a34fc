// What a snapshot has beside the files of its shards: manifest.json.
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Past;

/// <summary>A snapshot of a cluster. Where it is, the snapshot is whole.</summary>
/// <param name="Format">Of this file: 1; of a snapshot that rests on another: 2.</param>
/// <param name="Cluster">The cluster's name.</param>
/// <param name="WorldLine">The world-line of the version.</param>
/// <param name="Version">The version at whose end all shards are.</param>
/// <param name="Time">When that was.</param>
/// <param name="Shards">Its files.</param>
/// <param name="Previous">The snapshot that it rests on: it has what differs from that. Null: it has all keys.</param>
internal sealed record SnapshotManifest(
    int Format, string Cluster, long WorldLine, long Version, DateTimeOffset Time, IReadOnlyList<SnapshotShard> Shards,
    [property: JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)] SnapshotPrevious? Previous = null) : Report
{
    public const string FileName = "manifest.json";

    private const int FormatOfAll = 1, FormatOfDifference = 2;

    protected override JsonTypeInfo Shape => PastReportJson.Default.SnapshotManifest;

    /// <summary>One of this build's format.</summary>
    public static SnapshotManifest Of(string cluster, long worldLine, long version, DateTimeOffset time,
        IReadOnlyList<SnapshotShard> shards, SnapshotPrevious? previous) =>
        new(previous is null ? FormatOfAll : FormatOfDifference, cluster, worldLine, version, time, shards, previous);

    /// <summary>Understands one.</summary>
    /// <param name="bytes">The file.</param>
    /// <param name="path">Where it is.</param>
    /// <exception cref="IOException">It is none; the text says what to do.</exception>
    public static SnapshotManifest Of(byte[] bytes, string path)
    {
        try
        {
            SnapshotManifest? read = JsonSerializer.Deserialize(bytes, PastReportJson.Default.SnapshotManifest);
            return read is { Format: FormatOfAll, Shards.Count: > 0, Previous: null }
                or { Format: FormatOfDifference, Shards.Count: > 0, Previous: not null } ? read
                : throw new IOException($"{path} is of format {read?.Format}, and this slogger reads formats {FormatOfAll} and "
                    + $"{FormatOfDifference}");
        }
        catch (JsonException e)
        {
            throw new IOException($"{path} is damaged: {e.Message}");
        }
    }

    /// <summary>The file.</summary>
    public byte[] ToBytes() => JsonSerializer.SerializeToUtf8Bytes(this, PastReportJson.Default.SnapshotManifest);

    public override void Print(AppHost host)
    {
        host.Output.WriteLine(PastText.Head(Version, Time));
        foreach (SnapshotShard shard in Shards)
        {
            string removed = shard.Removed is { } gone ? $"; {gone.Keys} removed, {gone.File}" : "";
            host.Output.WriteLine($"shard {shard.Shard}: {shard.Keys} keys, {ConsoleText.Bytes(shard.Bytes)}, {shard.File}{removed}");
        }
        if (Previous is { } previous) { host.Output.WriteLine($"it rests on {previous.Directory}"); }
    }
}

/// <summary>A shard's part.</summary>
/// <param name="Shard">Which.</param>
/// <param name="File">Its file, in the same place: an RDB of Redis.</param>
/// <param name="Bytes">The size of that.</param>
/// <param name="Keys">How many keys it has, those that have expired by then among them.</param>
/// <param name="Removed">Which keys are not there any more; null: it rests on no other snapshot.</param>
internal sealed record SnapshotShard(long Shard, string File, long Bytes, long Keys,
    [property: JsonIgnore(Condition = JsonIgnoreCondition.WhenWritingNull)] SnapshotRemovals? Removed = null)
{
    /// <summary>What the names of all files of shards begin with.</summary>
    public const string FilesBegin = "shard-";
}

/// <summary>The keys of a shard that a snapshot removes from the one that it rests on.</summary>
/// <param name="File">The file, in the same place: commands that delete them.</param>
/// <param name="Bytes">The size of that.</param>
/// <param name="Keys">How many they are.</param>
/// <param name="Sha256">The checksum of the file.</param>
internal sealed record SnapshotRemovals(string File, long Bytes, long Keys, string Sha256);

/// <summary>The snapshot that another rests on.</summary>
/// <param name="Directory">Where it was: a directory, or s3://BUCKET/PREFIX.</param>
/// <param name="Version">Its version.</param>
/// <param name="Sha256">The checksum of its manifest.</param>
internal sealed record SnapshotPrevious(string Directory, long Version, string Sha256);
