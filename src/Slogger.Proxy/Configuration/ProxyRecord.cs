// Where the running proxy of a data directory listens, in its file proxy.json, so that `slogger status --data DIR` finds it.
// Written by the proxy once it listens (with the real ports); removed at an orderly stop, so after a crash it may be stale:
// readers must expect that nobody answers. Not synced: it means nothing after a crash of the machine.
using System.Collections.Immutable;
using System.Text.Json;
using Slogger.Log.Files;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

/// <summary>The content of proxy.json.</summary>
public sealed record ProxyRecord
{
    /// <summary>Name of the file.</summary>
    public const string FileName = "proxy.json";

    /// <summary>The proxy's process.</summary>
    public required int Pid { get; init; }

    /// <summary>Addresses that take clear text, as <see cref="ListenAddress"/> writes them.</summary>
    public ImmutableArray<string> Listen { get; init; } = [];

    /// <summary>Addresses that take TLS.</summary>
    public ImmutableArray<string> TlsListen { get; init; } = [];

    /// <summary>When it began to listen.</summary>
    public DateTimeOffset Started { get; init; }

    /// <summary>Announces this process, listening at these addresses (the real ports). Call it once the listeners are bound. Throws
    /// IOException.</summary>
    public static void Publish(string dataDirectory, IEnumerable<ListenAddress> listen, IEnumerable<ListenAddress> tlsListen)
    {
        ProxyRecord record = new()
        {
            Pid = Environment.ProcessId,
            Listen = [.. listen.Select(address => address.ToString())],
            TlsListen = [.. tlsListen.Select(address => address.ToString())],
            Started = DateTimeOffset.UtcNow,
        };
        string path = Path.Combine(dataDirectory, FileName);
        PrivateFile.Write(path + ".tmp", JsonSerializer.SerializeToUtf8Bytes(record, ConfigurationJson.Default.ProxyRecord));
        File.Move(path + ".tmp", path, overwrite: true);
    }

    /// <summary>Reads the record; null if there is none or it cannot be understood.</summary>
    public static ProxyRecord? Read(string dataDirectory)
    {
        try
        {
            return JsonSerializer.Deserialize(File.ReadAllBytes(Path.Combine(dataDirectory, FileName)),
                ConfigurationJson.Default.ProxyRecord);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or JsonException)
        {
            return null;
        }
    }

    /// <summary>Removes the record of this or of a dead process. Never throws: a stale record is harmless.</summary>
    internal static void Remove(string dataDirectory) => DataDirectory.TryDelete(Path.Combine(dataDirectory, FileName));
}
