namespace Slogger.Resp;

/// <summary>The address that a proxy's replication connection announces to Redis.</summary>
public static class ReplicaAddress
{
    /// <summary>Redis shows it in INFO and ROLE. It is no name that resolves: who looks for replicas there (Sentinel, client libraries)
    /// cannot take it for one to connect to.</summary>
    public const string Text = "slogger";
}
