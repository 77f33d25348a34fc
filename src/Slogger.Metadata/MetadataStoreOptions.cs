// The time limits of a metadata store. The defaults suit a database in the same site.
namespace Slogger.Metadata;

/// <summary>Time limits and bounds of a metadata store.</summary>
public sealed record MetadataStoreOptions
{
    /// <summary>How long one attempt to connect may take. Default 5 s; a limit in the connection string wins.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>How long one statement may take, waiting for locks included; whole seconds for the servers. Default 5 s; a limit
    /// in the connection string wins. A longer one hides a hung database from callers for as long.</summary>
    public TimeSpan CommandTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>The pause before the first attempt to reconnect; doubled, with jitter, for each further one. Default 50 ms.</summary>
    public TimeSpan ReconnectDelayMin { get; init; } = TimeSpan.FromMilliseconds(50);

    /// <summary>The longest pause between attempts to reconnect. Default 2 s: how late the return of a database may be noticed.</summary>
    public TimeSpan ReconnectDelayMax { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>How many calls may wait for the one connection; more fail as unavailable. Default 1024.</summary>
    public int WaitingCallsMax { get; init; } = 1024;
}
