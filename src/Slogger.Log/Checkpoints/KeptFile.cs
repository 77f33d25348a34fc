using System.Text.Json.Serialization;

namespace Slogger.Log.Checkpoints;

/// <summary>What is known of a kept file; kept as JSON beside it, so that a person can read it.</summary>
public abstract record KeptFile
{
    /// <summary>Name of the file within its directory; given when it is added.</summary>
    public string FileName { get; init; } = "";

    /// <summary>When it was taken.</summary>
    public required DateTimeOffset CreatedAt { get; init; }

    /// <summary>Length of the file, in bytes; measured when it is added.</summary>
    public long Bytes { get; init; }

    /// <summary>CRC-32C of the file; computed when it is added.</summary>
    public uint Checksum { get; init; }
}

[JsonSourceGenerationOptions(WriteIndented = true, PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(Checkpoint))]
[JsonSerializable(typeof(Snapshot))]
internal sealed partial class KeptFileJson : JsonSerializerContext;
