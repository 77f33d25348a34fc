// What is remembered of a copy that is being sent, beside its file: a process that follows this one goes on sending it.
using System.Text.Json;
using System.Text.Json.Serialization;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;

namespace Slogger.Replication.Seeding;

/// <summary>The content of copy.json.</summary>
internal sealed record CopyRecord(string Id, long Generation, long Bytes, uint Checksum, string ReplicationId, long HistoryOffset,
    long WorldLine, long Offset, long Closed, long Floor)
{
    /// <summary>The reign in which it was made; 0: none.</summary>
    public long Reign { get; init; }

    private const string FileName = "copy.json";

    /// <summary>Where a copy's file lies.</summary>
    public static string PathOf(string directory, string id) => Path.Combine(directory, id + ".rdb");

    /// <summary>Remembers a copy, durably; its file lies there. What is in that is not synced: a copy that a crash has damaged is refused
    /// by the backup, which knows its checksum. Throws IOException.</summary>
    public static void Write(string directory, Seed seed)
    {
        CopyRecord record = new(
            seed.Id, seed.Generation, seed.Bytes, seed.Checksum, seed.History.ReplicationId, seed.History.Offset,
                seed.Base.WorldLine.Number, seed.Base.Offset, seed.Base.Closed.Number, seed.Floor.Version.Number)
        {
            Reign = seed.Base.Reign.Number,
        };
        DurableFile.WriteJson(SystemFileLayer.Instance, Path.Combine(directory, FileName), record, CopyJson.Default.CopyRecord);
    }

    /// <summary>The copy that is remembered, if its file is there; else whatever lies there is deleted. Throws IOException.</summary>
    public static SeedCopy? Find(string directory)
    {
        if (!Directory.Exists(directory)) { return null; }
        try
        {
            CopyRecord? record = JsonSerializer.Deserialize(File.ReadAllBytes(Path.Combine(directory, FileName)),
                CopyJson.Default.CopyRecord);
            if (record is not null && new FileInfo(PathOf(directory, record.Id)) is { Exists: true } file && file.Length == record.Bytes)
            {
                WorldLine line = new(record.WorldLine);
                return new(
                    new(record.Id, record.Generation, record.Bytes, new(record.ReplicationId, record.HistoryOffset),
                        new(line, record.Offset, new VersionNumber(record.Closed)) { Reign = new(record.Reign) },
                            new(line, new VersionNumber(record.Floor))) { Checksum = record.Checksum },
                    file.FullName);
            }
        }
        catch (Exception e) when (e is FileNotFoundException or JsonException)
        {
            // Of no use.
        }
        Directory.Delete(directory, recursive: true);
        return null;
    }
}

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower,
    RespectRequiredConstructorParameters = true, RespectNullableAnnotations = true)]
[JsonSerializable(typeof(CopyRecord))]
internal sealed partial class CopyJson : JsonSerializerContext;
