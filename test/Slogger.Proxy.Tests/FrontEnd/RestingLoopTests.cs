// The loop sleeps over the ends of versions while the shard says that it may. What wakes it is of the version that is open then.
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class RestingLoopTests
{
    [Fact]
    public void Rest_VersionsThatHaveEndedOnlyPass_UntilItIsDisturbed()
    {
        using var redis = new RedisServer();
        var shard = new HeldShard(holdsReplies: false);
        using var loop = new HeldLoop(redis, shard);
        loop.Begin();
        long closed = shard.Closed;
        // Nothing is busy behind a boundary.
        loop.EndVersion();
        Assert.Equal(closed + 1, shard.Closed);

        shard.Rest(true);
        loop.Loop.Post(() => { });
        for (int i = 1; i <= 3; i++)
        {
            HeldLoop.Until(() => loop.Loop.Boundary.Rests);
            shard.EndVersion();
            // By housekeeping it wakes now and then.
            HeldLoop.Until(() => shard.Passes == i);
        }
        Assert.Equal(closed + 1, shard.Closed);

        // The version that had ended is not the one that the change is in.
        HeldLoop.Until(() => loop.Loop.Boundary.Rests);
        shard.EndVersion();
        shard.Rest(false);
        loop.Loop.Boundary.Disturb();
        HeldLoop.Until(() => shard.Passes == 4);
        loop.EndVersion();
        Assert.Equal((closed + 2, 4), (shard.Closed, shard.Passes));
    }

    [Fact]
    public void Rest_IsNoneWhileSomethingWasForwarded()
    {
        using var redis = new RedisServer();
        var shard = new HeldShard(holdsReplies: false);
        using var loop = new HeldLoop(redis, shard);
        loop.Begin();
        shard.Rest(true);
        using RespConnection client = loop.Connect();
        Assert.Equal("+OK\r\n", client.Call("SET", "k", "1"));
        long closed = shard.Closed;
        shard.EndVersion();
        // The loop awaits an end that it has asked for; asked again it learns that it has come.
        loop.Loop.Post(() => { });
        HeldLoop.Until(() => shard.Closed == closed + 1);
    }
}
