// Which incarnation of the store holds what: noted when the store was found or brought to a point of history, so that a
// restarted proxy knows whether it stands before the same one, that has lost nothing.
using System.Text.Json;
using System.Text.Json.Serialization;
using Slogger.Log.Files;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Shards;

/// <summary>The content of bgsave-store.json.</summary>
internal sealed record StoreNote
{
    private const string FileName = "bgsave-store.json";
    private const int KnownIdentities = 8;

    /// <summary>No store is known.</summary>
    public static readonly StoreNote Unknown = new() { RunId = "", WorldLine = 0, ReplicationIds = [] };

    /// <summary>The run of the store: another one has started anew.</summary>
    public required string RunId { get; init; }

    /// <summary>The world-line whose state it holds.</summary>
    public required long WorldLine { get; init; }

    /// <summary>Identities of its replication stream, by which it is known again after a restart of its own.</summary>
    public required IReadOnlyList<string> ReplicationIds { get; init; }

    public static StoreNote? Read(string dataDirectory)
    {
        string path = Path.Combine(dataDirectory, FileName);
        try
        {
            return File.Exists(path) ? JsonSerializer.Deserialize(File.ReadAllBytes(path), StoreNoteJson.Default.StoreNote) : null;
        }
        catch (JsonException)
        {
            return null;
        }
    }

    /// <summary>With another stream of the store, the newest of those that are known.</summary>
    public StoreNote With(string replicationId) =>
        this with { ReplicationIds = [.. new[] { replicationId }.Concat(ReplicationIds).Distinct().Take(KnownIdentities)] };

    /// <summary>The content of a store is replaced by a feed.</summary>
    /// <param name="runId">Its run; null: it is the one of this note, whichever that is.</param>
    /// <param name="replicationId">The feed's.</param>
    public StoreNote Replaced(string? runId, string replicationId) =>
        With(replicationId) with { RunId = runId is null || runId == RunId ? "" : RunId };

    /// <summary>Durable when it returns. Throws IOException.</summary>
    public void Write(string dataDirectory) =>
        DurableFile.WriteJson(SystemFileLayer.Instance, Path.Combine(dataDirectory, FileName), this, StoreNoteJson.Default.StoreNote);
}

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower)]
[JsonSerializable(typeof(StoreNote))]
internal sealed partial class StoreNoteJson : JsonSerializerContext;
