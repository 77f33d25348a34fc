// What a data directory belongs to, in its file store.json: the kind of store, the cluster, the shard. Written when the
// directory is first used; every later start must agree. The commit mode and the store's address are what was last used:
// they may change, and the record then follows. The cluster's identity tells its metadata from another one with a cluster of the same name:
// without it a deleted database would be made anew, and know nothing of what is kept here.
using System.Text.Json;
using System.Text.Json.Serialization;
using Slogger.Core.Identities;
using Slogger.Core.Shards;
using Slogger.Log.Files;

namespace Slogger.Proxy.Configuration;

/// <summary>The content of store.json.</summary>
public sealed record StoreRecord
{
    /// <summary>Name of the file.</summary>
    public const string FileName = "store.json";

    /// <summary>The format that this program writes, and the newest that it reads.</summary>
    public const int CurrentFormat = 1;

    /// <summary>Format of the file; see <see cref="CurrentFormat"/>.</summary>
    public int Format { get; init; } = CurrentFormat;

    /// <summary>The kind of store. Never changes.</summary>
    public required StoreKind Store { get; init; }

    /// <summary>The cluster. Never changes.</summary>
    public required string Cluster { get; init; }

    /// <summary>The shard's number. Never changes.</summary>
    public required int Shard { get; init; }

    /// <summary>The commit mode of the last start.</summary>
    public required CommitMode Commit { get; init; }

    /// <summary>The attached Redis's address, or the supervised server's program, at the last start.</summary>
    public required string Address { get; init; }

    /// <summary>When the directory was first used.</summary>
    public required DateTimeOffset Created { get; init; }

    /// <summary>The identity of the cluster in its metadata; empty before a start has found it, and where no metadata is used. Never
    /// changes.</summary>
    public string ClusterIdentity { get; init; } = "";

    /// <summary>The shard.</summary>
    [JsonIgnore]
    public ShardId ShardId => new(Shard);

    /// <summary>The record of a first start with these options.</summary>
    public static StoreRecord From(ServeOptions options) => new()
    {
        Store = options.Store,
        Cluster = options.Cluster,
        Shard = options.Shard.Number,
        Commit = options.Commit,
        Address = options.Store == StoreKind.Faster ? "" : options.Redis?.ToString() ?? options.RedisServerPath ?? "",
        Created = DateTimeOffset.UtcNow,
    };

    /// <summary>What a start with these options would contradict; null if nothing.</summary>
    public string? Contradiction(ServeOptions options)
    {
        if (options.Store != Store)
        {
            return $"it belongs to {Describe(Store)}, not to {Describe(options.Store)}";
        }

        if (options.Cluster != Cluster)
        {
            return $"it belongs to the cluster \"{Cluster}\", not to \"{options.Cluster}\"";
        }

        return options.Shard != ShardId ? $"it belongs to shard {Shard}, not to shard {options.Shard}" : null;
    }

    /// <summary>Why a metadata is not the one that the data directory was used with; null if it may be.</summary>
    /// <param name="dataDirectory">The directory of this record.</param>
    /// <param name="metadata">The metadata, for people.</param>
    /// <param name="identity">The identity of the cluster there.</param>
    public string? Contradiction(string dataDirectory, string metadata, string identity) =>
        ClusterIdentity.Length == 0 || ClusterIdentity == identity
        ? null
        : $"the data directory {dataDirectory} belongs to the cluster \"{Cluster}\" of identity {ClusterIdentity}, and {metadata} has one "
            + $"of that name with identity {identity}: the metadata was deleted, or replaced by another";

    /// <summary>Reads the record of a data directory; null if there is none. Throws IOException or InvalidDataException.</summary>
    public static StoreRecord? Read(string dataDirectory)
    {
        string path = Path.Combine(dataDirectory, FileName);
        if (!File.Exists(path))
        {
            return null;
        }

        try
        {
            // The format first: a newer one may have lost or gained fields.
            byte[] json = File.ReadAllBytes(path);
            using JsonDocument document = JsonDocument.Parse(json);
            if (document.RootElement.TryGetProperty("format", out JsonElement format) && format.GetInt32() > CurrentFormat)
            {
                throw new InvalidDataException(
                    $"{path} was written by a newer Slogger (format {format.GetInt32()}; this one knows {CurrentFormat})");
            }

            return JsonSerializer.Deserialize(json, ConfigurationJson.Default.StoreRecord)
                ?? throw new InvalidDataException($"{path} is empty");
        }
        catch (Exception e) when (e is JsonException or InvalidOperationException or FormatException)
        {
            throw new InvalidDataException($"{path} is damaged: {e.Message}", e);
        }
    }

    /// <summary>Writes the record, atomically and durably. Throws IOException.</summary>
    public void Write(string dataDirectory)
        => DurableFile.WriteJson(SystemFileLayer.Instance, Path.Combine(dataDirectory, FileName), this,
            ConfigurationJson.Default.StoreRecord);

    private static string Describe(StoreKind store) => store switch
    {
        StoreKind.Redis => "a Redis that others run (--redis)",
        StoreKind.RedisServer => "a supervised Redis (--redis-server)",
        _ => "an embedded store (neither --redis nor --redis-server)",
    };
}

/// <summary>How the records of a data directory are written as JSON.</summary>
[JsonSourceGenerationOptions(WriteIndented = true, UseStringEnumConverter = true,
    PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower, RespectRequiredConstructorParameters = true,
        RespectNullableAnnotations = true)]
[JsonSerializable(typeof(StoreRecord))]
[JsonSerializable(typeof(ProxyRecord))]
internal sealed partial class ConfigurationJson : JsonSerializerContext;
