namespace Slogger.Proxy.Ports;

/// <summary>What waits long says so: else nobody knows what a process does.</summary>
internal static class LongWait
{
    private static readonly TimeSpan TellEvery = TimeSpan.FromSeconds(5);

    /// <summary>Waits for a task, and tells every few seconds that it does.</summary>
    /// <param name="task">Which.</param>
    /// <param name="report">For people.</param>
    /// <param name="what">Who waits, and for what: "shard 0: its end waits for its node".</param>
    public static async Task ToldAsync(this Task task, ILogger report, string what)
    {
        while (await Task.WhenAny(task, Task.Delay(TellEvery)).ConfigureAwait(false) != task) { report.Warn(what); }
        await task.ConfigureAwait(false);
    }
}
