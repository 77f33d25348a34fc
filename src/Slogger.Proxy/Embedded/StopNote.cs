// That a store was stopped in order: all that was answered is in its last commit. It is good for the very next process that takes the
// shard, which is told by the epoch: so it need not be removed, and none that is left behind can be taken for true.
using System.Text.Json;
using System.Text.Json.Serialization;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Embedded;

/// <summary>The content of stopped.json.</summary>
internal sealed record StopNote
{
    private const string FileName = "stopped.json";

    /// <summary>The epoch of the process that stopped.</summary>
    public required long Epoch { get; init; }

    /// <summary>The world-line.</summary>
    public required long Line { get; init; }

    /// <summary>The last version.</summary>
    public required long Version { get; init; }

    /// <summary>When it was closed, by the hybrid clock: before its time, so that the version does not tell.</summary>
    public required ulong ClosedAt { get; init; }

    /// <summary>The last version, and its world-line.</summary>
    [JsonIgnore]
    public WorldPoint Point => new(new(Line), new VersionNumber(Version));

    /// <summary>When the last version was closed.</summary>
    [JsonIgnore]
    public HybridTimestamp Time => new(ClosedAt);

    /// <summary>Reads it; null if there is none, or none that can be read.</summary>
    public static StopNote? Read(string directory)
    {
        string path = Path.Combine(directory, FileName);
        try
        {
            return File.Exists(path) ? JsonSerializer.Deserialize(File.ReadAllBytes(path), StopNoteJson.Default.StopNote) : null;
        }
        catch (JsonException)
        {
            return null;
        }
    }

    /// <summary>Durable when it returns. Throws IOException.</summary>
    public void Write(string directory) =>
        DurableFile.WriteJson(SystemFileLayer.Instance, Path.Combine(directory, FileName), this, StopNoteJson.Default.StopNote);
}

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower,
    RespectRequiredConstructorParameters = true)]
[JsonSerializable(typeof(StopNote))]
internal sealed partial class StopNoteJson : JsonSerializerContext;
