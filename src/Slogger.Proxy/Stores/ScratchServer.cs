// A redis-server beside the shard's own, for a while: nobody else reaches it, and it keeps nothing.
using Slogger.Proxy.Configuration;
using Slogger.Redis.Supervision;

namespace Slogger.Proxy.Stores;

/// <summary>What such servers have in common.</summary>
internal static class ScratchServer
{
    // Whatever the shard's own settings are.
    private static readonly string[] s_settings = ["port 0", "save \"\"", "appendonly no"];

    /// <summary>How it is run.</summary>
    /// <param name="folder">Its directory, in the data directory.</param>
    /// <param name="options">The process's options.</param>
    /// <param name="further">Lines of configuration that win over those.</param>
    public static RedisSupervisorOptions In(string folder, ServeOptions options, params IReadOnlyList<string> further) =>
        SupervisedStore.ServerIn(folder, options, [.. s_settings, .. further]);

    /// <summary>Ends what a process has left behind that was killed.</summary>
    public static async Task EndLeftAsync(RedisSupervisorOptions how, CancellationToken stop)
    {
        if (!Directory.Exists(how.Directory)) { return; }
        await using var server = new RedisSupervisor(how);
        stop.ThrowIfCancellationRequested();
        await EndAsync(server, how).ConfigureAwait(false);
    }

    /// <summary>Ends it, and deletes what it has left.</summary>
    public static async Task EndAsync(RedisSupervisor server, RedisSupervisorOptions how)
    {
        await server.KillAsync(CancellationToken.None).ConfigureAwait(false);
        // Also one that was about to start, which it does not know yet.
        await server.EndLeftBehindAsync().ConfigureAwait(false);
        try
        {
            if (Directory.Exists(how.Directory)) { Directory.Delete(how.Directory, recursive: true); }
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // The next start deletes it.
        }
    }
}
