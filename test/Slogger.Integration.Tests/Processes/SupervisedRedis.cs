// Finds and kills the Redis that a proxy runs: by the pid file in the data directory, and only after looking that the
// process is a redis-server, so that a stale file never kills a stranger.
using System.Globalization;
using System.Net.Sockets;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Processes;

internal static class SupervisedRedis
{
    private const int SigKill = 9;

    private static readonly string[] s_scratch = ["past", "roll", "snapshot"];

    /// <summary>The process id of the store, or null if none runs.</summary>
    public static int? Find(string dataDirectory) => Find(dataDirectory, "redis");

    /// <summary>The process id, or null if none runs.</summary>
    /// <param name="dataDirectory">The data directory.</param>
    /// <param name="folder">Its folder in there: that of the store, or of what shows the past.</param>
    public static int? Find(string dataDirectory, string folder)
    {
        string file = Path.Combine(dataDirectory, folder, "redis.pid");
        try
        {
            return int.TryParse(File.ReadAllText(file).Trim(), NumberStyles.None, CultureInfo.InvariantCulture, out int id) && IsRedis(id)
                ? id : null;
        }
        catch (IOException)
        {
            return null;
        }
    }

    /// <summary>Connects to it, past its proxy.</summary>
    public static Task<RespClient> ConnectAsync(string dataDirectory) => RespClient.ConnectAsync(new UnixDomainSocketEndPoint(
        File.ReadLines(Path.Combine(dataDirectory, "redis", "redis.conf"))
            .First(line => line.StartsWith("unixsocket \"", StringComparison.Ordinal)).Split('"')[1]));

    /// <summary>Kills it if it runs, and waits until it is gone; false if there was none.</summary>
    public static async Task<bool> KillAsync(string dataDirectory, string folder = "redis")
    {
        if (Find(dataDirectory, folder) is not { } id)
        {
            return false;
        }

        ChildProcess.Signal(id, SigKill);
        await Eventually.AsyncTrue($"process {id} is gone", TimeSpan.FromSeconds(10), () => Task.FromResult(!IsRedis(id)));
        return true;
    }

    /// <summary>Kills those that show the past, whose proxy was killed.</summary>
    public static async Task KillScratchAsync(string dataDirectory)
    {
        foreach (string folder in s_scratch) { await KillAsync(dataDirectory, folder); }
    }

    /// <summary>Kills those that show the past in any data directory below a root. It does not wait for their end.</summary>
    public static void KillScratchBelow(string root)
    {
        foreach (string file in Directory.EnumerateFiles(root, "redis.pid", SearchOption.AllDirectories).ToList())
        {
            string folder = Path.GetDirectoryName(file)!;
            bool isScratch = s_scratch.Contains(Path.GetFileName(folder));
            if (isScratch && Find(Path.GetDirectoryName(folder)!, Path.GetFileName(folder)) is { } id) { ChildProcess.Signal(id, SigKill); }
        }
    }

    /// <summary>Whether a process runs, and is a redis-server.</summary>
    public static bool IsRedis(int id)
    {
        try
        {
            // A zombie has no command line any more.
            return File.ReadAllText($"/proc/{id}/cmdline").Contains("redis-server", StringComparison.Ordinal);
        }
        catch (IOException)
        {
            return false;
        }
        catch (UnauthorizedAccessException)
        {
            return false;
        }
    }
}
