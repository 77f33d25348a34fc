// What a command engine is made with.
using System.Security.Cryptography;

namespace Slogger.Faster.Commands;

/// <summary>Options of a <see cref="CommandEngine"/>.</summary>
public sealed record EngineOptions
{
    /// <summary>The present time, in milliseconds since the Unix epoch: what expiry goes by. Default: the system's clock.</summary>
    public Func<long> NowMs { get; init; } = static () => DateTimeOffset.UtcNow.ToUnixTimeMilliseconds();

    /// <summary>Names this run of the store in INFO: 40 hexadecimal digits. Default: a random one.</summary>
    public string RunId { get; init; } = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(20));

    /// <summary>Whether there is no room for more: then commands that need memory are refused as Redis does at its limit. Asked before each
    /// of them, so it must be cheap. Default: as the store says.</summary>
    public Func<bool>? IsOutOfMemory { get; init; }

    /// <summary>What a writer does while the log grows faster than it is compacted; for tests.</summary>
    internal Action Pause { get; init; } = static () => Thread.Sleep(1);

    /// <summary>Further fields for a section of INFO, whose name it is given in small letters. One of the engine's own with the same name
    /// gives way. Default: none.</summary>
    public Func<string, IEnumerable<KeyValuePair<string, string>>> InfoFields { get; init; } = static _ => [];

    /// <summary>Further settings for CONFIG GET; they are read-only. Default: none.</summary>
    public Func<IEnumerable<KeyValuePair<string, string>>> Settings { get; init; } = static () => [];
}
