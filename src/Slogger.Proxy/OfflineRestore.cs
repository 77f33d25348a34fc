// The entry point of `slogger restore`. Temporary: the recovery part replaces it.
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy;

/// <summary>Puts a Redis into the state of one version while no proxy runs.</summary>
public static class OfflineRestore
{
    /// <summary>Restores and returns. The caller holds the <see cref="DataDirectory"/>. Expected failures are returned, not thrown.</summary>
    public static Task<ProxyExit> RunAsync(RestoreOptions options, ILogSink log, CancellationToken stop)
        => throw new InvalidOperationException("this build cannot restore offline yet");
}
