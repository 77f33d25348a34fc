// What goes wrong while a Redis follows: the link is cut at any byte, Redis dies, sleeps, is promoted or pointed elsewhere, strangers come,
// the log ends too soon. It goes on exactly, or says that it cannot.
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Feeding;

public sealed class FollowerFaultTests(ITestOutputHelper output)
{
    private static readonly RestoreOptions s_impatient = new() { StallMax = TimeSpan.FromSeconds(3) };

    private static async Task<StoreFollower> BeginAsync(RedisConnection control, FeedPlan plan, RestoreOptions? options = null)
    {
        FollowStart start = await StoreFollower.BeginAsync(control, plan, options);
        Assert.True(start.Follower is not null, start.Message);
        return start.Follower;
    }

    private static async Task ReachesAsync(StoreFollower follower, RedisConnection control, FollowedHistory.Point point)
    {
        FollowResult result = await follower.BringToAsync(point.Offset);
        Assert.True(result.IsThere, result.Message);
        Assert.Equal(point.Offset, (await control.RoleAsync()).Offset);
        Assert.Equal(point.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
    }

    private static async Task<FollowedHistory.Point> SetAsync(FollowedHistory history, string value)
    {
        await history.Client.ExpectAsync("SET", "a", value);
        return await history.TakeAsync();
    }

    private static void Signal(TestRedis redis, string signal) => Process.Start("kill", [signal, $"{redis.ProcessId}"]).WaitForExit();

    [Fact]
    public async Task Link_CutBehindEachByteOfAVersion_GoesOnThere()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using var relay = new CuttingRelay();
        await using StoreFollower follower = await BeginAsync(control, history.Plan(), relay.Options);
        long from = history.BaseOffset;
        for (long cut = 0; ; cut++)
        {
            await history.Client.ExpectAsync("SELECT", $"{cut % 2}");
            await history.Client.ExpectAsync("EVAL", "redis.call('INCR','n') redis.call('PUBLISH','c','m') redis.call('RPUSH','l','x')",
                "0");
            await history.Client.ExpectAsync("SPUBLISH", "s", "m");
            await history.Client.ExpectAsync("APPEND", "s", "y");
            FollowedHistory.Point point = await history.TakeAsync();
            int cuts = relay.Cuts;
            relay.CutAfter(cut);
            await ReachesAsync(follower, control, point);
            if (cut < point.Offset - from) Assert.Equal(cuts + 1, relay.Cuts);
            else break;
            from = point.Offset;
        }
        output.WriteLine($"{relay.Cuts} cuts");
        Assert.InRange(relay.Cuts, 150, 1000);
        Assert.False(follower.Lost.IsCompleted);
    }

    [Fact]
    public async Task Link_CutInTheMiddleOfMuch_GoesOnThere()
    {
        int seed = Environment.TickCount;
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using var relay = new CuttingRelay();
        await using StoreFollower follower = await BeginAsync(control, history.Plan(), relay.Options);
        var workload = new Workload(history.Client, seed);
        for (int i = 0; i < 8; i++)
        {
            // More than one piece of the feed.
            await history.Client.ExpectAsync("EVAL", "for i=1,3000 do redis.call('SET','big'..i,string.rep('v',1000)) end", "0");
            await workload.RunAsync(200);
            FollowedHistory.Point point = await history.TakeAsync();
            relay.CutNext(random.Next(200, 3_000_000), random.Next(200, 3_000_000));
            relay.CutAfter(random.Next(3_000_000));
            await ReachesAsync(follower, control, point);
        }
        output.WriteLine($"{relay.Cuts} cuts");
        Assert.True(relay.Cuts >= 8);
    }

    [Fact]
    public async Task Link_CutInHandshakeAndBase_BeginsAndGoesOn()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync(c => new Workload(c, 3).RunAsync(300));
        FollowedHistory.Point begin = await history.TakeAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using var relay = new CuttingRelay();
        // The answers before the base are some 100 bytes. Redis tries once a second.
        relay.CutNext(0, 7, 40, 100, 130, 1000, 4000);
        await using StoreFollower follower = await BeginAsync(control, history.Plan(begin.Offset), relay.Options);
        Assert.Equal(begin.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
        Assert.Equal(0, relay.Planned);
        // And those of a continuation, when no base is served any more.
        relay.CutNext(0, 5, 30, 50, 60, 70, 90);
        relay.CutAfter(0);
        await ReachesAsync(follower, control, await SetAsync(history, "1"));
        Assert.Equal(0, relay.Planned);
        Assert.False(follower.Lost.IsCompleted);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)] // with a dump, from which Redis knows its history
    public async Task Redis_Restarted_IsLostAndBeginsFromABase(bool dump)
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        FollowedHistory.Point one = await SetAsync(history, "1");
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await RedisConnection.ConnectAsync(backup.Endpoint);
        string undo = Path.Combine(backup.Directory, "undo");
        FeedPlan plan = history.Plan(one.Offset);
        StoreFollower follower = await BeginAsync(control, plan, s_impatient with { UndoFile = undo });
        if (dump)
        {
            while ((await control.CommandAsync("SAVE")).IsError) await Task.Delay(20);
        }
        await backup.KillAsync();
        FollowedHistory.Point two = await SetAsync(history, "2");
        FollowResult away = await follower.BringToAsync(two.Offset);
        Assert.False(away.IsThere);
        Assert.True(away.Problem.IsTransient(), away.Message);
        Assert.False(follower.Lost.IsCompleted); // a dead one and one out of reach look the same
        await backup.LaunchAsync();
        Assert.Contains("was restarted", await follower.Lost.WaitAsync(TimeSpan.FromMinutes(1))); // nobody has asked
        Assert.Equal(RedisProblem.HistoryGone, (await follower.BringToAsync(two.Offset)).Problem);
        await follower.DisposeAsync();
        Assert.Equal(RedisProblem.HistoryGone,
            (await StoreFollower.ResumeAsync(control, plan.ReplicationId, history.Sink, two.Offset, new() { UndoFile = undo })).Problem);
        await using StoreFollower again = await BeginAsync(control, history.Plan(), new() { UndoFile = undo });
        await ReachesAsync(again, control, two);
        Assert.IsType<RestoreResult.Restored>(await again.PromoteAsync());
        Assert.Equal("60", (await control.ExpectAsync("CONFIG", "GET", "repl-timeout")).Items[1].Text);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Redis_RestartedBeforePromotion_IsNotTakenForPromoted(bool atTheLastMoment)
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        FollowedHistory.Point one = await SetAsync(history, "1");
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        bool restarted = false;
        async Task RestartAsync()
        {
            while ((await control.CommandAsync("SAVE")).IsError) await Task.Delay(20);
            await backup.KillAsync();
            await backup.LaunchAsync();
            // By its dump it is at the very offset, and a master already; but what had expired is gone without a word in the stream.
            Dictionary<string, string> info = await control.InfoAsync("replication");
            Assert.Equal($"{one.Offset + 1}", info["second_repl_offset"]);
            restarted = true;
        }
        var options = new RestoreOptions { BeforePromotion = async (_, _) =>
            await (atTheLastMoment ? RestartAsync() : Task.CompletedTask) };
        await using StoreFollower follower = await BeginAsync(control, history.Plan(one.Offset), options);
        if (!atTheLastMoment) await RestartAsync();
        Assert.Equal(RedisProblem.HistoryGone, Assert.IsType<RestoreResult.Failed>(await follower.PromoteAsync()).Problem);
        Assert.True(restarted);
    }

    [Fact]
    public async Task Redis_Stopped_IsWaitedForOrLaterTriedAgain()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await RedisConnection.ConnectAsync(backup.Endpoint, TimeSpan.FromMilliseconds(300));
        await using StoreFollower follower = await BeginAsync(control, history.Plan(), s_impatient);
        FollowedHistory.Point one = await SetAsync(history, "1");
        Signal(backup, "-STOP");
        FollowResult late = await follower.BringToAsync(one.Offset);
        Assert.Equal(RedisProblem.Timeout, late.Problem);
        Signal(backup, "-CONT");
        await ReachesAsync(follower, control, one);
        await follower.DisposeAsync();

        await using StoreFollower patient =
            (await StoreFollower.ResumeAsync(control, follower.ReplicationId, history.Sink, one.Offset)).Follower!;
        FollowedHistory.Point two = await SetAsync(history, "2");
        Signal(backup, "-STOP");
        Task<FollowResult> brought = patient.BringToAsync(two.Offset);
        await Task.Delay(3000);
        Assert.False(brought.IsCompleted);
        Signal(backup, "-CONT");
        Assert.True((await brought).IsThere);
        Assert.Equal(two.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
    }

    [Fact]
    public async Task Redis_PromotedOrPointedElsewhere_IsLost()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using (StoreFollower follower = await BeginAsync(control, history.Plan()))
        {
            await control.ExpectAsync("REPLICAOF", "NO", "ONE");
            Assert.Contains("promoted by somebody", await follower.Lost.WaitAsync(TimeSpan.FromMinutes(1)));
            Assert.IsType<RestoreResult.Failed>(await follower.PromoteAsync());
        }
        await using (StoreFollower follower = await BeginAsync(control, history.Plan()))
        {
            await control.ExpectAsync("REPLICAOF", "127.0.0.1", $"{history.Primary.Port}");
            Assert.Contains("replica of another", await follower.Lost.WaitAsync(TimeSpan.FromMinutes(1)));
        }
    }

    [Fact]
    public async Task Redis_AsksForABaseAgain_IsRefusedAndLostAndKeepsItsData()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using var relay = new CuttingRelay();
        await using StoreFollower follower = await BeginAsync(control, history.Plan(), relay.Options);
        FollowedHistory.Point point = await SetAsync(history, "1");
        await ReachesAsync(follower, control, point);
        // A protocol error makes it forget where it was.
        relay.Inject("GARBAGE\r\n"u8);
        Assert.Contains("cannot continue", await follower.Lost.WaitAsync(TimeSpan.FromMinutes(1)));
        Assert.Equal(RedisProblem.HistoryGone, (await follower.BringToAsync(point.Offset)).Problem);
        Assert.Equal(point.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
    }

    [Fact]
    public async Task Redis_RefusedByAFeedOfAnotherPlace_KeepsItsOwn()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        FollowedHistory.Point one = await SetAsync(history, "1"), two = await SetAsync(history, "2");
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        FeedPlan plan = history.Plan(one.Offset);
        await (await BeginAsync(control, plan)).DisposeAsync();
        var elsewhere = plan with { BaseOffset = two.Offset, TargetOffset = two.Offset, ContinuesOnly = true };
        await using (ReplicationFeed feed = ReplicationFeed.Start(elsewhere, new() { RequireSecret = false }))
        {
            await control.ExpectAsync("REPLICAOF", "127.0.0.1", $"{feed.LocalEndPoint.Port}");
            while (!feed.HasRefused) await Task.Delay(10);
        }
        FollowStart start = await StoreFollower.ResumeAsync(control, plan.ReplicationId, history.Sink, two.Offset);
        Assert.True(start.Follower is not null, start.Message);
        await using StoreFollower follower = start.Follower;
        await ReachesAsync(follower, control, two);
    }

    [Fact]
    public async Task Strangers_AtTheFeed_GetNothingAndDelayNobody()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync(c => c.ExpectAsync("SET", "secret", "data"));
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        var options = new RestoreOptions { Feed = new() { Port = TestRedis.FreePort(), AuthenticationTimeMax = TimeSpan.FromHours(1) } };
        await using StoreFollower follower = await BeginAsync(control, history.Plan(), options);
        await ReachesAsync(follower, control, await SetAsync(history, "1"));
        var feed = new IPEndPoint(IPAddress.Loopback, options.Feed.Port);
        var strangers = new List<Socket>();
        for (int i = 0; i < 8; i++)
        {
            strangers.Add(new Socket(SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 30_000 });
            await strangers[i].ConnectAsync(feed); // says nothing, which one may for an hour
        }
        foreach (string asked in new[] { "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n",
            $"*3\r\n$4\r\nAUTH\r\n$12\r\nslogger-feed\r\n$5\r\nguess\r\n", "GET / HTTP/1.1\r\n\r\n" })
        {
            using var asker = new Socket(SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = 30_000 };
            await asker.ConnectAsync(feed);
            await asker.SendAsync(Encoding.ASCII.GetBytes(asked));
            var answer = new StringBuilder();
            byte[] buffer = new byte[4096];
            for (int read; (read = await asker.ReceiveAsync(buffer)) > 0;) answer.Append(Encoding.ASCII.GetString(buffer, 0, read));
            Assert.True(answer.Length == 0 || (answer[0] == '-' && answer.ToString().Count('\n') == 1), answer.ToString());
        }
        await control.ExpectAsync("CLIENT", "KILL", "TYPE", "master");
        await ReachesAsync(follower, control, await SetAsync(history, "2"));
        Assert.All(strangers, s => Assert.True(s.Connected && s.Available == 0 && !s.Poll(0, SelectMode.SelectRead)));
        strangers.ForEach(s => s.Dispose());
    }

    [Fact]
    public async Task Secret_Wrong_StaysAwayUntilItIsRight()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using StoreFollower follower = await BeginAsync(control, history.Plan(), s_impatient);
        string secret = (await control.ExpectAsync("CONFIG", "GET", "masterauth")).Items[1].Text;
        await control.ExpectAsync("CONFIG", "SET", "masterauth", "wrong");
        await control.ExpectAsync("CLIENT", "KILL", "TYPE", "master");
        FollowedHistory.Point point = await SetAsync(history, "1");
        FollowResult result = await follower.BringToAsync(point.Offset);
        Assert.Equal(RedisProblem.Timeout, result.Problem);
        Assert.False(follower.Lost.IsCompleted);
        Assert.Throws<InvalidOperationException>(() => { follower.PromoteAsync().GetAwaiter().GetResult(); });
        await control.ExpectAsync("CONFIG", "SET", "masterauth", secret);
        for (FollowResult again = default; !(again = await follower.BringToAsync(point.Offset)).IsThere;)
            Assert.True(again.Problem.IsTransient(), again.Message);
        await ReachesAsync(follower, control, point);
    }

    [Fact]
    public async Task Log_EndsBelowTheTargetOrFails_IsSaidAndTriedAgain()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        var torn = new TornHistory(history.Sink);
        await using StoreFollower follower = await BeginAsync(control, history.Plan(history: torn));
        FollowedHistory.Point one = await SetAsync(history, "1"), two = await SetAsync(history, "2");
        torn.End = one.Offset;
        for (int i = 0; i < 3; i++)
        {
            FollowResult result = await follower.BringToAsync(two.Offset);
            Assert.Equal(RedisProblem.CommandFailed, result.Problem);
            Assert.Contains("history ends", result.Message);
        }
        torn.End = two.Offset - 1;
        Assert.False((await follower.BringToAsync(two.Offset)).IsThere);
        Assert.Equal(one.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
        torn.End = long.MaxValue;
        await ReachesAsync(follower, control, two);
        torn.Failure = new IOException("the disk is gone");
        FollowedHistory.Point three = await SetAsync(history, "3");
        int reads = torn.Reads;
        for (int i = 0; i < 3; i++) Assert.Contains("the disk is gone", (await follower.BringToAsync(three.Offset)).Message);
        await Task.Delay(300);
        Assert.InRange(torn.Reads - reads, 3, 4); // not as often as Redis can come back
        torn.Failure = null;
        await ReachesAsync(follower, control, three);
        await Assert.ThrowsAsync<ArgumentOutOfRangeException>(() => follower.BringToAsync(two.Offset));
    }

    [Fact]
    public async Task Target_InsideACommandOrATransaction_IsRefusedAndNotExecuted()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using StoreFollower follower = await BeginAsync(control, history.Plan());
        FollowedHistory.Point before = await SetAsync(history, "1");
        await history.Client.ExpectAsync("EVAL", "redis.call('SET','a',string.rep('v',100)) redis.call('SET','b',string.rep('v',3000000))",
            "0");
        FollowedHistory.Point after = await history.TakeAsync();
        // In the first command, in the large one (partly sent), before EXEC, and in it.
        foreach (long target in new[] { before.Offset + 3, before.Offset + 80, before.Offset + 2_500_000, after.Offset - 14,
            after.Offset - 1 })
        {
            FollowResult result = await follower.BringToAsync(target);
            Assert.Equal(RedisProblem.CommandFailed, result.Problem);
            Assert.Contains("inside a command or a transaction", result.Message);
            Assert.Equal(before.Offset, (await control.RoleAsync()).Offset);
            Assert.Equal(before.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
            await Assert.ThrowsAsync<InvalidOperationException>(() => follower.PromoteAsync());
        }
        await ReachesAsync(follower, control, after);
    }
}
