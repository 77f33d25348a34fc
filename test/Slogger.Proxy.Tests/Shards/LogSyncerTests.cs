// The threads that sync a log may hang when the process ends: on a disk that does not answer, say. Then nobody waits for them for ever, and
// they end quietly if they go on after all.
using Slogger.Core.Identities;
using Slogger.Log;
using Slogger.Log.Tests.Simulation;
using Slogger.Proxy.Shards;

namespace Slogger.Proxy.Tests.Shards;

public class LogSyncerTests
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(1);

    [Fact]
    public void Dispose_AThreadHasOutlivedJoin_ItEndsWithoutAnError()
    {
        using VersionLog log = VersionLog.Open(
            new VersionLogOptions { Directory = "/log", Shard = new ShardId(1), Files = new SimulatedDisk(seed: 1) });
        using ManualResetEventSlim hangs = new(), goesOn = new();
        using CancellationTokenSource ending = new();
        Thread? thread = null;
        var syncer = new LogSyncer(log, _ =>
        {
            thread = Thread.CurrentThread;
            hangs.Set();
            goesOn.Wait();
        }, e => throw e);
        syncer.Start(ending.Token);
        syncer.Request();
        Assert.True(hangs.Wait(s_limit));
        ending.Cancel();
        syncer.Join();
        syncer.Dispose();
        goesOn.Set();
        // An error would end this process.
        Assert.True(thread!.Join(s_limit));
    }
}
