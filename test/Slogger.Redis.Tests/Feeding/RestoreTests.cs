// Restore against a real Redis: the data set is equal, by DEBUG DIGEST, to what the original had at that offset.
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Feeding;

public sealed class RestoreTests(ITestOutputHelper output)
{
    private sealed record Point(long Offset, string Digest, string Functions);

    private static async Task<Point> TakeAsync(RedisConnection client)
    {
        // The digest must belong to the offset: nothing may expire in between.
        while (true)
        {
            long before = (await client.RoleAsync()).Offset;
            string digest = (await client.ExpectAsync("DEBUG", "DIGEST")).Text;
            string functions = Convert.ToHexString((await client.ExpectAsync("FUNCTION", "DUMP")).Bytes.Span);
            if ((await client.RoleAsync()).Offset == before)
                return new Point(before, digest, functions);
        }
    }

    private static Func<RedisConnection, CancellationToken, Task> Equals(Point point) => async (control, _) =>
    {
        Assert.Equal(point.Digest, (await control.ExpectAsync("DEBUG", "DIGEST")).Text);
        Assert.Equal(point.Functions, Convert.ToHexString((await control.ExpectAsync("FUNCTION", "DUMP")).Bytes.Span));
        Assert.Equal(point.Offset, (await control.RoleAsync()).Offset);
    };

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Restore_ArbitraryOffsets_DigestEqual(bool swap)
    {
        int seed = Environment.TickCount;
        output.WriteLine($"seed {seed}");
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        var workload = new Workload(client, seed);
        await workload.RunAsync(500);
        string rdb = Path.Combine(redis.Directory, "base.rdb");
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new() { OnFull = OnFullSync.WithData, RdbFile = rdb }));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        var points = new List<Point>();
        for (int i = 0; i < 6; i++)
        {
            await workload.RunAsync(400);
            points.Add(await TakeAsync(client));
        }
        await sink.WaitForAsync(points[^1].Offset);
        await Task.Delay(500); // let keys of the tail pass their time
        await using TestRedis other = await TestRedis.StartAsync();
        foreach (Point point in points.OrderBy(p => p.Digest, StringComparer.Ordinal))
        {
            TestRedis target = point.Offset % 2 == 0 ? redis : other;
            await using RedisConnection control = await target.ConnectAsync();
            var plan = new FeedPlan { BaseFile = rdb, BaseOffset = full.Offset, History = sink, TargetOffset = point.Offset };
            RestoreResult result = await RedisRestore.RunAsync(control, plan,
                new() { BeforePromotion = Equals(point), SwapDatabases = swap, UndoFile = Path.Combine(redis.Directory, "undo") });
            var restored = Assert.IsType<RestoreResult.Restored>(result);
            Assert.Equal(point.Offset, restored.Offset);
            Assert.True(restored.Suppressed > 0);
            Assert.False(File.Exists(Path.Combine(redis.Directory, "undo")));
            Assert.Equal("", (await control.ExpectAsync("CONFIG", "GET", "masterauth")).Items[1].Text);
            // The link goes on at the very offset.
            using var next = new ReplicationLink(new() { Endpoint = target.Endpoint });
            var continued = Assert.IsType<AttachResult.Continued>(await next.AttachAsync(
                new() { ReplicationId = restored.FeedReplicationId, Position = new StreamScanner(restored.Offset, 0),
                    OnFull = OnFullSync.Refuse }));
            Assert.Equal(restored.ReplicationId, continued.ReplicationId);
            var after = new RecordingSink(restored.Offset);
            next.Start(after);
            await control.ExpectAsync("SET", "new", "life");
            await after.WaitForAsync((await control.RoleAsync()).Offset);
            Assert.Contains("life", Encoding.ASCII.GetString(after.Bytes));
            Assert.Contains("SELECT", Encoding.ASCII.GetString(after.Bytes));
        }
    }

    [Fact]
    public async Task Restore_FromLaterCheckpointAndGivenDatabase_DigestEqual()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        await client.ExpectAsync("SELECT", "3");
        for (int i = 0; i < 50; i++)
            await client.ExpectAsync("INCR", "n");
        // A base that ends where no SELECT follows: history without data at all, then with the database given.
        long middle = (await client.RoleAsync()).Offset;
        string rdb = Path.Combine(redis.Directory, "dump.rdb");
        // The child of the attaching counts as a background save until Redis notices its end, up to 100 ms later.
        while ((await client.CommandAsync("SAVE")).IsError)
            await Task.Delay(20);
        for (int i = 0; i < 50; i++)
            await client.ExpectAsync("INCR", "n");
        Point point = await TakeAsync(client);
        await sink.WaitForAsync(point.Offset);
        foreach (int? database in new int?[] { 3, null }) // null: SAVE wrote repl-stream-db
        {
            var plan = new FeedPlan { BaseFile = rdb, BaseOffset = middle, BaseDatabase = database, History = sink,
                TargetOffset = point.Offset };
            Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(client, plan, new() { BeforePromotion = Equals(point) }));
        }
        var whole = new FeedPlan { BaseOffset = full.Offset, History = sink, TargetOffset = point.Offset };
        Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(client, whole, new() { BeforePromotion = Equals(point) }));
        await client.ExpectAsync("SELECT", "3");
        Assert.Equal("100", (await client.ExpectAsync("GET", "n")).Text);
    }

    [Fact]
    public async Task Restore_MemoryLimitOfTheTarget_EvictsNothingBeforePromotion()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        await client.ExpectAsync("EVAL", "for i=1,2000 do redis.call('SET','t'..i,string.rep('v',1000)) end", "0");
        Point point = await TakeAsync(client);
        await sink.WaitForAsync(point.Offset);
        await client.ExpectAsync("CONFIG", "SET", "maxmemory", "2mb", "maxmemory-policy", "allkeys-lru", "replica-ignore-maxmemory", "no");
        var plan = new FeedPlan { BaseOffset = full.Offset, History = sink, TargetOffset = point.Offset };
        Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(client, plan, new() { BeforePromotion = Equals(point) }));
        Assert.Equal("no", (await client.ExpectAsync("CONFIG", "GET", "replica-ignore-maxmemory")).Items[1].Text);
    }

    [Fact]
    public async Task Restore_BaseWithoutTail_ReachesBase()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("SET", "a", "1");
        string rdb = Path.Combine(redis.Directory, "base.rdb");
        var fetched = Assert.IsType<CheckpointResult.Fetched>(await CheckpointFetcher.FetchAsync(redis.Endpoint, rdb));
        await client.ExpectAsync("SET", "a", "2");
        var plan = new FeedPlan { BaseFile = rdb, BaseOffset = fetched.Offset, History = new RecordingSink(fetched.Offset),
            TargetOffset = fetched.Offset };
        Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(client, plan));
        Assert.Equal("1", (await client.ExpectAsync("GET", "a")).Text);
    }

    [Fact]
    public async Task Restore_Messages_AreNotPublishedAgain()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        // Every length near the lengths that a filler cannot meet by itself, and one larger than the feed's chunk.
        foreach (int length in new[] { 0, 1, 5, 6, 7, 8, 9, 10, 70, 80, 81, 82, 83, 84, 90, 980, 981, 982, 983, 984, 985, 986, 990, 9990,
            3_000_000 })
        {
            await client.ExpectAsync("PUBLISH", "c", new string('x', length));
            await client.ExpectAsync("MULTI");
            await client.ExpectAsync("SPUBLISH", "c", new string('x', length));
            await client.ExpectAsync("INCR", "n");
            await client.ExpectAsync("EXEC");
        }
        Point point = await TakeAsync(client);
        await sink.WaitForAsync(point.Offset);
        await client.ExpectAsync("CONFIG", "SET", "notify-keyspace-events", "KEA", "proto-max-bulk-len", "1mb");
        await using RedisConnection listener = await redis.ConnectAsync();
        await listener.ExpectAsync("PSUBSCRIBE", "*");
        var plan = new FeedPlan { BaseOffset = full.Offset, History = sink, TargetOffset = point.Offset };
        var restored = Assert.IsType<RestoreResult.Restored>(
            await RedisRestore.RunAsync(client, plan, new() { BeforePromotion = Equals(point) }));
        Assert.Equal(50, restored.Suppressed);
        await client.ExpectAsync("SET", "x", "1"); // its notification is the first message
        RedisReply events = await client.ExpectAsync("CONFIG", "GET", "notify-keyspace-events");
        Assert.Equal("AKE", events.Items[1].Text);
        long delivered = (await client.InfoAsync("commandstats")).Where(f => f.Key is "cmdstat_publish" or "cmdstat_spublish")
            .Sum(f => long.Parse(f.Value.Split(',')[0]["calls=".Length..], System.Globalization.CultureInfo.InvariantCulture));
        Assert.Equal(50, delivered); // those of the original run
    }

    [Fact]
    public async Task Restore_TargetInsideTransaction_FailsAndLeavesNoMaster()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        await client.ExpectAsync("MULTI");
        await client.ExpectAsync("INCR", "a");
        await client.ExpectAsync("INCR", "b");
        await client.ExpectAsync("EXEC");
        long end = (await client.RoleAsync()).Offset;
        await sink.WaitForAsync(end);
        foreach (long target in new[] { end - 14, end - 5 }) // before EXEC, inside EXEC
        {
            var plan = new FeedPlan { BaseOffset = full.Offset, History = sink, TargetOffset = target };
            var failed = Assert.IsType<RestoreResult.Failed>(await RedisRestore.RunAsync(client, plan));
            Assert.Contains("inside a command or a transaction", failed.Message);
            Assert.Contains("accepts no writes", failed.Message);
            Assert.StartsWith("READONLY", (await client.CommandAsync("SET", "x", "1")).Text);
        }
        var beyond = new FeedPlan { BaseOffset = full.Offset, History = sink, TargetOffset = end + 10 };
        Assert.Contains("history ends", Assert.IsType<RestoreResult.Failed>(await RedisRestore.RunAsync(client, beyond)).Message);
        // And then a good one.
        var good = new FeedPlan { BaseOffset = full.Offset, History = sink, TargetOffset = end };
        Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(client, good));
        Assert.Equal("1", (await client.ExpectAsync("GET", "b")).Text);
    }

    [Fact]
    public async Task Restore_PasswordAndUndoFileOfADeadRestore_SettingsComeBack()
    {
        await using TestRedis redis = await TestRedis.StartAsync("secret");
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("CONFIG", "SET", "notify-keyspace-events", "KEA", "masterauth", "original");
        string undo = Path.Combine(redis.Directory, "undo");
        await File.WriteAllTextAsync(undo, "{\"masterauth\":\"older\",\"hz\":\"42\"}");
        var plan = new FeedPlan { BaseOffset = 0, History = new RecordingSink(0), TargetOffset = 0 };
        Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(client, plan, new() { UndoFile = undo }));
        Assert.Equal("older", (await client.ExpectAsync("CONFIG", "GET", "masterauth")).Items[1].Text);
        Assert.Equal("42", (await client.ExpectAsync("CONFIG", "GET", "hz")).Items[1].Text);
        Assert.Equal("AKE", (await client.ExpectAsync("CONFIG", "GET", "notify-keyspace-events")).Items[1].Text);
        Assert.False(File.Exists(undo));
    }

    [Fact]
    public async Task Feed_Stranger_GetsNothing()
    {
        await using ReplicationFeed feed = ReplicationFeed.Start(
            new() { BaseOffset = 0, History = new RecordingSink(0), TargetOffset = 0 });
        RedisEndpoint there = RedisEndpoint.Tcp("127.0.0.1", feed.LocalEndPoint.Port);
        RedisException refused = await Assert.ThrowsAsync<RedisException>(
            () => RedisConnection.ConnectAsync(there with { User = ReplicationFeed.SecretUser, Password = "guess" }));
        Assert.Equal(RedisProblem.WrongPassword, refused.Problem);
        await using RedisConnection stranger = await RedisConnection.ConnectAsync(there);
        Assert.StartsWith("NOAUTH", (await stranger.CommandAsync("PSYNC", "?", "-1")).Text);
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("REPLICAOF", "127.0.0.1", $"{feed.LocalEndPoint.Port}");
        await Task.Delay(1500);
        Assert.NotEqual("connected", (await client.RoleAsync()).LinkState);
    }

    [Fact]
    public async Task Restore_ConfigNotAllowed_SaysSo()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection admin = await redis.ConnectAsync();
        await admin.ExpectAsync("ACL", "SETUSER", "slog", "on", ">pw", "~*", "&*", "+@all", "-config");
        await using RedisConnection control = await RedisConnection.ConnectAsync(redis.Endpoint with { User = "slog", Password = "pw" });
        var plan = new FeedPlan { BaseOffset = 100, History = new RecordingSink(100), TargetOffset = 100 };
        var failed = Assert.IsType<RestoreResult.Failed>(await RedisRestore.RunAsync(control, plan));
        Assert.Equal(RedisProblem.NoPermission, failed.Problem);
        Assert.DoesNotContain("accepts no writes", failed.Message);
        Assert.True((await admin.RoleAsync()).IsMaster);
        Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(control, plan, new() { Feed = new() { RequireSecret = false } }));
    }
}
