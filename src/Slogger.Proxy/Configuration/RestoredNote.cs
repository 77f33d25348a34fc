// Which stores slogger restore has brought to an older version of this shard, and whether the shard is to go on from one: noted before a
// store is touched, forgotten when it was decided and done. While a store is noted no start brings another version back into it by itself.
using System.Text.Json.Serialization;
using Slogger.Log.Files;

namespace Slogger.Proxy.Configuration;

/// <summary>A store that holds an older version.</summary>
/// <param name="Address">As it was given, in any spelling (<see cref="StoreSpelling"/>); empty: the shard's own supervised Redis.</param>
/// <param name="RunId">The run of the Redis, by which it is known under another address; empty: not known.</param>
/// <param name="Version">What it was brought to.</param>
internal sealed record RestoredStore(string Address, string RunId, long Version);

/// <summary>The administrator's word: the shard goes on from an older version.</summary>
internal sealed record GoingOn
{
    /// <summary>Which one.</summary>
    public required long Version { get; init; }

    /// <summary>Versions that were committed may be lost: those that are not in what is kept.</summary>
    public bool AcceptsLoss { get; init; }

    /// <summary>The world-line that a start begins with it; 0: none has yet. What is kept of that world-line proves that it was
    /// done.</summary>
    public long WorldLine { get; init; }

    /// <summary>Identities of the streams with which starts have filled the store: one that has such an identity is the shard's.</summary>
    public IReadOnlyList<string> Feeds { get; init; } = [];
}

/// <summary>The content of restored.json.</summary>
internal sealed record RestoredNote
{
    private const string FileName = "restored.json";

    /// <summary>Nothing was restored.</summary>
    public static readonly RestoredNote None = new();

    /// <summary>Stores of which it is still to be decided, or was decided that the shard goes on from another version.</summary>
    public IReadOnlyList<RestoredStore> Stores { get; init; } = [];

    /// <summary>Null: that was not said.</summary>
    public GoingOn? GoesOn { get; init; }

    /// <summary>What was noted.</summary>
    /// <exception cref="InvalidDataException">It is damaged.</exception>
    public static RestoredNote Read(string dataDirectory) =>
        DurableFile.ReadJson(SystemFileLayer.Instance, Path.Combine(dataDirectory, FileName), RestoredNoteJson.Default.RestoredNote,
            mayReturn: true) ?? None;

    /// <summary>Durable when it returns. Throws IOException.</summary>
    public void Write(string dataDirectory)
    {
        if (Stores.Count > 0 || GoesOn is not null)
        {
            DurableFile.WriteJson(SystemFileLayer.Instance, Path.Combine(dataDirectory, FileName), this,
                RestoredNoteJson.Default.RestoredNote);
            return;
        }
        // A crash may bring it back: then it is decided once more.
        DurableFile.Delete(SystemFileLayer.Instance, Path.Combine(dataDirectory, FileName));
    }

    /// <summary>The noted store that this one is; null: it is none of them.</summary>
    public RestoredStore? Find(string address, string runId) => Stores.FirstOrDefault(s => Is(s, address, runId));

    /// <summary>Without this store.</summary>
    public RestoredNote Without(string address, string runId) => this with { Stores = [.. Stores.Where(s => !Is(s, address, runId))] };

    // A Redis that was restarted has another run, and may be named in other words.
    private static bool Is(RestoredStore store, string address, string runId) =>
        (runId.Length > 0 && store.RunId == runId) || StoreSpelling.IsSame(store.Address, address);
}

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower,
    RespectRequiredConstructorParameters = true)]
[JsonSerializable(typeof(RestoredNote))]
internal sealed partial class RestoredNoteJson : JsonSerializerContext;
