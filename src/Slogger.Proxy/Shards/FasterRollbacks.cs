// Rollbacks of an embedded store in place (DPR, section 5.5), in a process that goes on when another shard was lost. Clients wait only
// until what lies above the commit is out of sight; it is purged while they go on.
using System.Diagnostics;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Shards;

/// <summary>The rollbacks of one shard's store, one after the other. The control task, if nothing else is said.</summary>
/// <param name="shard">The shard, for messages.</param>
/// <param name="report">For people.</param>
/// <param name="failed">The store could not go back. Any thread.</param>
internal sealed class FasterRollbacks(ShardId shard, ILogger report, Action<ProxyExit> failed)
{
    private long _done;
    private long _milliseconds;
    private long _purgeMilliseconds;

    /// <summary>The last one; it ends when all is purged.</summary>
    public Task Last { get; private set; } = Task.CompletedTask;

    /// <summary>Lines for people. Any thread.</summary>
    public IEnumerable<(string Name, long Value)> Status =>
    [
        ("rollbacks_in_place", Volatile.Read(ref _done)),
        ("rollback_last_ms", Volatile.Read(ref _milliseconds)),
        ("purge_last_ms", Volatile.Read(ref _purgeMilliseconds)),
    ];

    /// <summary>Goes back. Returns when nobody can see anything any more that lies above the commit.</summary>
    /// <param name="store">The store.</param>
    /// <param name="commit">Where to.</param>
    /// <param name="version">What it stands for, for a message.</param>
    /// <param name="ending">Cancelled when the shard ends.</param>
    /// <exception cref="RecoveryRefusedException">It cannot go back in place; a process that starts opens it there.</exception>
    public async Task RunAsync(FasterStore store, WorldPoint commit, VersionNumber version, CancellationToken ending)
    {
        long began = Stopwatch.GetTimestamp();
        var begun = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Task rollback = Last = Task.Run(() => store.RollbackAsync(commit, begun.SetResult, ending), CancellationToken.None);
        _ = Task.Run(() => WatchPurgeAsync(rollback, began), CancellationToken.None);
        await Task.WhenAny(begun.Task, rollback).ConfigureAwait(false);
        if (!begun.Task.IsCompleted)
        {
            try
            {
                await rollback.ConfigureAwait(false);
            }
            catch (InvalidOperationException e)
            {
                throw new RecoveryRefusedException($"shard {shard}: the embedded store cannot go back in place to version {version}: "
                    + $"{e.Message} Start the proxy again: it does so. With more --faster-memory there is room to go back in place");
            }
        }
        long milliseconds = (long)Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        Interlocked.Increment(ref _done);
        Volatile.Write(ref _milliseconds, milliseconds);
        report.Info($"shard {shard}: rolled back in place: to version {version} in {milliseconds} ms; what lies above it is purged while "
            + "operations go on");
    }

    private async Task WatchPurgeAsync(Task rollback, long began)
    {
        await rollback.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        Volatile.Write(ref _purgeMilliseconds, (long)Stopwatch.GetElapsedTime(began).TotalMilliseconds);
        if (rollback.Exception is { } why)
        {
            failed(ProxyExit.Failed($"shard {shard}: the embedded store could not go back: {why.InnerException?.Message}",
                "start the proxy again"));
        }
    }
}
