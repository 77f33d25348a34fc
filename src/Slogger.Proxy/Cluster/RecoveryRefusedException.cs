namespace Slogger.Proxy.Cluster;

/// <summary>A person must decide; the text says what.</summary>
internal sealed class RecoveryRefusedException(string message) : Exception(message);
