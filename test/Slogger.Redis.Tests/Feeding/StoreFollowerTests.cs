// A real Redis that follows what another one has replicated: at each boundary it has that one's data, never beyond; it waits, goes on after
// its feeder has changed, and is promoted where it stands.
using System.Globalization;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Feeding;

public sealed class StoreFollowerTests(ITestOutputHelper output)
{
    private static async Task<StoreFollower> BeginAsync(RedisConnection control, FeedPlan plan, RestoreOptions? options = null)
    {
        FollowStart start = await StoreFollower.BeginAsync(control, plan, options);
        Assert.True(start.Follower is not null, start.Message);
        return start.Follower;
    }

    private static async Task<StoreFollower> ResumeAsync(RedisConnection control, string id, IHistorySource history, long end,
        RestoreOptions? options = null)
    {
        FollowStart start = await StoreFollower.ResumeAsync(control, id, history, end, options);
        Assert.True(start.Follower is not null, start.Message);
        return start.Follower;
    }

    private static async Task<string> SettingAsync(RedisConnection control, string name) =>
        (await control.ExpectAsync("CONFIG", "GET", name)).Items[1].Text;

    private static async Task<string> LogAsync(TestRedis redis) => await File.ReadAllTextAsync(Path.Combine(redis.Directory, "log"));

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task BringTo_ManyBoundaries_HasThePrimarysDataAndIsNeverBeyond(bool withBase)
    {
        int seed = Environment.TickCount;
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        await using FollowedHistory history = await FollowedHistory.StartAsync(
            withBase ? c => new Workload(c, seed + 1).RunAsync(300) : null);
        var workload = new Workload(history.Client, seed);
        var points = new List<FollowedHistory.Point>();
        for (int i = 0; i < 200; i++)
        {
            await workload.RunAsync(random.Next(1, 40));
            points.Add(await history.TakeAsync());
        }
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using StoreFollower follower = await BeginAsync(control, history.Plan());
        Assert.Equal(history.BaseOffset, follower.Offset);
        long limit = history.BaseOffset, looks = 0;
        using var stop = new CancellationTokenSource();
        Task watching = Task.Run(async () =>
        {
            await using RedisConnection watcher = await backup.ConnectAsync();
            while (!stop.IsCancellationRequested)
            {
                // What Redis has taken in, executed or not, is bounded by the limit as it is raised before.
                Dictionary<string, string> info = await watcher.InfoAsync("replication");
                long highest = Volatile.Read(ref limit);
                Assert.InRange(long.Parse(info["slave_read_repl_offset"], CultureInfo.InvariantCulture), 0, highest);
                Assert.InRange(long.Parse(info["slave_repl_offset"], CultureInfo.InvariantCulture), 0, highest);
                looks++;
            }
        });
        foreach (FollowedHistory.Point point in points)
        {
            Volatile.Write(ref limit, point.Offset);
            FollowResult result = await follower.BringToAsync(point.Offset);
            Assert.True(result.IsThere, result.Message);
            Assert.Equal(point.Offset, (await control.RoleAsync()).Offset);
            Assert.Equal(point.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
            Assert.Equal(point.Offset, follower.Offset);
        }
        await stop.CancelAsync();
        await watching;
        Assert.True(looks > 10, $"{looks} looks");
        // And what a restore gives at some of them, with its functions.
        string functions = Convert.ToHexString((await control.ExpectAsync("FUNCTION", "DUMP")).Bytes.Span);
        await using TestRedis other = await TestRedis.StartAsync();
        await using RedisConnection restored = await other.ConnectAsync();
        foreach (FollowedHistory.Point point in points.Where((_, i) => i % 40 == 39))
        {
            Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(restored, history.Plan(point.Offset), new()
            {
                BeforePromotion = async (c, _) =>
                {
                    Assert.Equal(point.Digest, (await c.ExpectAsync("DEBUG", "DIGEST")).Text);
                    if (point == points[^1])
                        Assert.Equal(functions, Convert.ToHexString((await c.ExpectAsync("FUNCTION", "DUMP")).Bytes.Span));
                },
            }));
        }
    }

    [Fact]
    public async Task BringTo_KeysThatExpire_HiddenAtOnceAndDeletedByThePrimaryOnly()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await history.Client.ExpectAsync("SET", "short", "1", "PX", "150");
        await history.Client.ExpectAsync("SET", "long", "1");
        FollowedHistory.Point before = await history.TakeAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using StoreFollower follower = await BeginAsync(control, history.Plan(before.Offset));
        FollowedHistory.Point after;
        do
        {
            await Task.Delay(20);
            after = await history.TakeAsync();
        }
        while (after.Offset == before.Offset); // the primary has deleted it
        for (int i = 0; i < 100; i++) Assert.Equal(RedisReplyKind.Nil, (await control.ExpectAsync("GET", "short")).Kind);
        Assert.Equal(2, (await control.ExpectAsync("DBSIZE")).Integer);
        Assert.Equal(before.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
        Assert.Equal(before.Offset, (await control.RoleAsync()).Offset);
        Assert.True((await follower.BringToAsync(after.Offset)).IsThere);
        Assert.Equal(1, (await control.ExpectAsync("DBSIZE")).Integer);
        Assert.Equal(after.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
    }

    [Fact]
    public async Task Following_SmallMemoryAndStrayWrites_NothingIsEvictedOrWritten()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await history.Client.ExpectAsync("EVAL", "for i=1,2000 do redis.call('SET','t'..i,string.rep('v',1000)) end", "0");
        FollowedHistory.Point point = await history.TakeAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await control.ExpectAsync("CONFIG", "SET", "maxmemory", "2mb", "maxmemory-policy", "allkeys-lru", "replica-ignore-maxmemory", "no",
            "replica-read-only", "no",
            "replica-serve-stale-data", "no");
        await using StoreFollower follower = await BeginAsync(control, history.Plan());
        Assert.True((await follower.BringToAsync(point.Offset)).IsThere);
        Assert.StartsWith("READONLY", (await control.CommandAsync("SET", "x", "1")).Text);
        Assert.Equal(point.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
        await follower.DisposeAsync(); // its master is away
        Assert.Equal(1000, (await control.ExpectAsync("GET", "t7")).Text.Length);
        Assert.StartsWith("READONLY", (await control.CommandAsync("SET", "x", "1")).Text);
    }

    [Fact]
    public async Task Resume_AfterItsFeederIsGone_GoesOnWithoutLoading()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync(c => new Workload(c, 5).RunAsync(100));
        var workload = new Workload(history.Client, 6);
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        string undo = Path.Combine(backup.Directory, "undo");
        await control.ExpectAsync("CONFIG", "SET", "repl-timeout", "33", "notify-keyspace-events", "KEA");
        FeedPlan plan = history.Plan();
        StoreFollower follower = await BeginAsync(control, plan, new() { UndoFile = undo });
        for (int i = 0; i < 10; i++)
        {
            await workload.RunAsync(100);
            FollowedHistory.Point point = await history.TakeAsync();
            Assert.True((await follower.BringToAsync(point.Offset)).IsThere);
            await follower.DisposeAsync();
            long loaded = long.Parse((await control.InfoAsync("stats"))["total_net_repl_input_bytes"], CultureInfo.InvariantCulture);
            follower = await ResumeAsync(control, plan.ReplicationId, history.Sink, point.Offset, new() { UndoFile = undo });
            Assert.Equal(point.Offset, follower.Offset);
            Assert.Equal(loaded, long.Parse((await control.InfoAsync("stats"))["total_net_repl_input_bytes"],
                CultureInfo.InvariantCulture));
        }
        await using (follower)
        {
            await workload.RunAsync(100);
            FollowedHistory.Point last = await history.TakeAsync();
            Assert.True((await follower.BringToAsync(last.Offset)).IsThere);
            Assert.Equal(last.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
            Assert.IsType<RestoreResult.Restored>(await follower.PromoteAsync());
            Assert.True(follower.SettingsAreBack && File.Exists(undo));
        }
        // Not what the second one found, which was the first one's.
        Assert.Equal("33", await SettingAsync(control, "repl-timeout"));
        Assert.Equal("AKE", await SettingAsync(control, "notify-keyspace-events"));
        Assert.Equal("", await SettingAsync(control, "masterauth"));
        Assert.False(File.Exists(undo));
    }

    [Fact]
    public async Task Resume_FeederGoneInTheMiddle_ContinuesThere()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        // The bytes end inside the transaction that the target lies behind.
        await history.Client.ExpectAsync("SET", "a", "1");
        long middle = (await history.Client.RoleAsync()).Offset;
        await history.Client.ExpectAsync("SELECT", "5");
        await history.Client.ExpectAsync("EVAL", "redis.call('INCR','n') redis.call('SET','v',string.rep('v',100))", "0");
        FollowedHistory.Point point = await history.TakeAsync();
        var torn = new TornHistory(history.Sink) { End = point.Offset - 40 };
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        FeedPlan plan = history.Plan(history: torn);
        StoreFollower follower = await BeginAsync(control, plan);
        FollowResult torn1 = await follower.BringToAsync(point.Offset);
        Assert.Contains("history ends", torn1.Message);
        long stands = (await control.RoleAsync()).Offset;
        await follower.DisposeAsync();
        follower = await ResumeAsync(control, plan.ReplicationId, history.Sink, point.Offset);
        await using (follower)
        {
            Assert.Equal(stands, follower.Offset);
            Assert.InRange(stands, middle, point.Offset - 1);
            Assert.True((await follower.BringToAsync(point.Offset)).IsThere);
            Assert.Equal(point.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
        }
    }

    [Fact]
    public async Task Begin_FailsBehindTheBase_KeepsWhatItHasUntilResumed()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await history.Client.ExpectAsync("SET", "a", "1");
        FollowedHistory.Point point = await history.TakeAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        string undo = Path.Combine(backup.Directory, "undo");
        await control.ExpectAsync("CONFIG", "SET", "replica-read-only", "no");
        FeedPlan plan = history.Plan(point.Offset, new TornHistory(history.Sink) { End = point.Offset - 1 });
        FollowStart failed = await StoreFollower.BeginAsync(control, plan, new() { UndoFile = undo });
        Assert.Null(failed.Follower);
        Assert.Contains("history ends", failed.Message);
        Assert.StartsWith("READONLY", (await control.CommandAsync("SET", "x", "1")).Text);
        await using StoreFollower follower = await ResumeAsync(
            control, plan.ReplicationId, history.Sink, point.Offset, new() { UndoFile = undo });
        Assert.True((await follower.BringToAsync(point.Offset)).IsThere);
        Assert.Equal(point.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
        Assert.IsType<RestoreResult.Restored>(await follower.PromoteAsync());
        Assert.Equal("no", await SettingAsync(control, "replica-read-only"));
    }

    [Theory]
    [InlineData("-config")]
    [InlineData("-config|set")]
    public async Task Begin_SettingsNotAllowed_SaysSoAndTouchesNothing(string denied)
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection admin = await backup.ConnectAsync();
        await admin.ExpectAsync("ACL", "SETUSER", "slog", "on", ">pw", "~*", "&*", "+@all", denied);
        await using RedisConnection control = await RedisConnection.ConnectAsync(backup.Endpoint with { User = "slog", Password = "pw" });
        FollowStart failed = await StoreFollower.BeginAsync(control, history.Plan(), new() { Feed = new() { RequireSecret = false } });
        Assert.Equal(RedisProblem.NoPermission, failed.Problem);
        Assert.True((await admin.RoleAsync()).IsMaster);
    }

    [Fact]
    public async Task Resume_NotTheSameHistory_SaysThatABaseIsNeeded()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await history.Client.ExpectAsync("SET", "a", "1");
        FollowedHistory.Point point = await history.TakeAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        FeedPlan plan = history.Plan(point.Offset);
        // A master.
        Assert.Equal(RedisProblem.HistoryGone,
            (await StoreFollower.ResumeAsync(control, plan.ReplicationId, history.Sink, point.Offset)).Problem);
        Assert.True((await control.RoleAsync()).IsMaster);
        await (await BeginAsync(control, plan)).DisposeAsync();
        // Another identity; beyond the end of the log.
        Assert.Equal(RedisProblem.HistoryGone,
            (await StoreFollower.ResumeAsync(control, FeedPlan.NewReplicationId(), history.Sink, point.Offset)).Problem);
        Assert.Equal(RedisProblem.HistoryGone,
            (await StoreFollower.ResumeAsync(control, plan.ReplicationId, history.Sink, point.Offset - 1)).Problem);
        Assert.Equal(point.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
        await using StoreFollower resumed = await ResumeAsync(control, plan.ReplicationId, history.Sink, point.Offset);
        Assert.Equal(point.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
    }

    [Fact]
    public async Task Silence_BeyondReplTimeout_KeepsTheLink()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await control.ExpectAsync("CONFIG", "SET", "repl-timeout", "1");
        await using StoreFollower follower = await BeginAsync(control, history.Plan());
        await Task.Delay(4000);
        Assert.DoesNotContain("timeout", await LogAsync(backup));
        RedisRole role = await control.RoleAsync();
        Assert.Equal(("connected", history.BaseOffset), (role.LinkState, role.Offset));
        // And where it ends all the same: it is continued.
        await history.Client.ExpectAsync("SET", "a", "1");
        FollowedHistory.Point point = await history.TakeAsync();
        Assert.True((await follower.BringToAsync(point.Offset)).IsThere);
        await control.ExpectAsync("CONFIG", "SET", "repl-timeout", "1");
        while (!(await LogAsync(backup)).Contains("MASTER timeout", StringComparison.Ordinal)) await Task.Delay(50);
        await control.ExpectAsync("CONFIG", "SET", "repl-timeout", "3600");
        await history.Client.ExpectAsync("SET", "a", "2");
        FollowedHistory.Point next = await history.TakeAsync();
        Assert.True((await follower.BringToAsync(next.Offset)).IsThere);
        Assert.Contains("Successful partial resynchronization", await LogAsync(backup));
        Assert.Equal(next.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
        Assert.False(follower.Lost.IsCompleted);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)] // its link is down just then
    public async Task Promote_AtABoundary_StreamContinuesThere(bool cut)
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync(c => new Workload(c, 8).RunAsync(200));
        await new Workload(history.Client, 9).RunAsync(300);
        FollowedHistory.Point point = await history.TakeAsync();
        await history.Client.ExpectAsync("SET", "beyond", "1");
        await history.Sink.WaitForAsync(point.Offset + 1);
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        string[] names = ["replica-read-only", "replica-ignore-maxmemory", "notify-keyspace-events", "repl-diskless-load",
            "tls-replication", "masteruser", "masterauth",
            "replica-serve-stale-data", "repl-timeout"];
        await control.ExpectAsync("CONFIG", "SET", "replica-read-only", "no", "masterauth", "theirs", "repl-diskless-load", "on-empty-db",
            "repl-timeout", "77");
        var before = new List<string>();
        foreach (string name in names) before.Add((await control.ExpectAsync("CONFIG", "GET", name)).ToString());
        bool looked = false;
        await using StoreFollower follower = await BeginAsync(control, history.Plan(), new()
        {
            BeforePromotion = async (c, _) =>
            {
                looked = true;
                Assert.Equal(point.Digest, (await c.ExpectAsync("DEBUG", "DIGEST")).Text);
            },
        });
        Assert.True((await follower.BringToAsync(point.Offset)).IsThere);
        if (cut)
        {
            // A password that is wrong keeps it from coming back.
            await control.ExpectAsync("CONFIG", "SET", "masterauth", "wrong");
            await control.ExpectAsync("CLIENT", "KILL", "TYPE", "master");
        }
        var restored = Assert.IsType<RestoreResult.Restored>(await follower.PromoteAsync());
        Assert.True(looked);
        Assert.Equal(point.Offset, restored.Offset);
        var after = new List<string>();
        foreach (string name in names) after.Add((await control.ExpectAsync("CONFIG", "GET", name)).ToString());
        Assert.Equal(before, after);
        Assert.False(follower.Lost.IsCompleted);
        await Assert.ThrowsAsync<InvalidOperationException>(() => follower.BringToAsync(point.Offset));
        Assert.IsType<RestoreResult.Restored>(await follower.PromoteAsync()); // as after an answer that was lost
        using var link = new ReplicationLink(new() { Endpoint = backup.Endpoint });
        var continued = Assert.IsType<AttachResult.Continued>(await link.AttachAsync(
            new() { ReplicationId = follower.ReplicationId, Position = new StreamScanner(point.Offset, 0), OnFull = OnFullSync.Refuse }));
        Assert.Equal(restored.ReplicationId, continued.ReplicationId);
        var sink = new RecordingSink(point.Offset);
        link.Start(sink);
        await control.ExpectAsync("SET", "new", "life");
        await sink.WaitForAsync((await control.RoleAsync()).Offset);
        Assert.Contains("life", System.Text.Encoding.ASCII.GetString(sink.Bytes));
        Assert.Equal(0, (await control.ExpectAsync("EXISTS", "beyond")).Integer);
    }

    [Fact]
    public async Task Promote_NotBroughtToItsTarget_IsRefused()
    {
        await using FollowedHistory history = await FollowedHistory.StartAsync();
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using StoreFollower follower = await BeginAsync(control, history.Plan());
        Assert.False((await follower.BringToAsync(history.BaseOffset + 100)).IsThere);
        await Assert.ThrowsAsync<InvalidOperationException>(() => follower.PromoteAsync());
        Assert.False((await control.RoleAsync()).IsMaster);
    }
}
