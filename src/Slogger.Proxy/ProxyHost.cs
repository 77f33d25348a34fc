// The entry point of `slogger serve`. Temporary: the front end replaces it.
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy;

/// <summary>Runs a proxy for one shard.</summary>
public static class ProxyHost
{
    /// <summary>
    /// Serves until cancelled, then stops in order. The caller holds the <see cref="DataDirectory"/>; this calls
    /// <see cref="ProxyRecord.Publish"/> once it listens. Expected failures are returned, not thrown.
    /// </summary>
    public static Task<ProxyExit> RunAsync(ServeOptions options, ILogSink log, CancellationToken stop)
        => throw new InvalidOperationException("this build has no front end yet");
}
