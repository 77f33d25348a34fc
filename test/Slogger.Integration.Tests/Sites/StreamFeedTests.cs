// What an embedded store makes of a copy of a real Redis, and of a stream that Redis gets, too: all strings as Redis packs them, commands
// at random, cut anywhere; and what it refuses, by name.
using System.Buffers;
using System.Globalization;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commands;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Replication.Following;
using Slogger.Replication.Seeding;

namespace Slogger.Integration.Tests.Sites;

public sealed class StreamFeedTests : IAsyncLifetime
{
    private readonly Workspace _workspace = new();
    private RedisProcess _redis = null!;
    private RespClient _client = null!;
    private FasterStore _store = null!;
    private CommandEngine _engine = null!;

    public async ValueTask InitializeAsync()
    {
        _redis = await RedisProcess.StartAsync(_workspace.Folder("redis"), "--dbfilename", "copy.rdb");
        _client = await _redis.ConnectAsync();
        _store = FasterStore.OpenAt(new() { Directory = _workspace.Folder("faster"), MemoryBytes = 256 << 20, PageBits = 22 });
        _engine = new(_store, new EngineOptions()) { IsFollowing = true };
    }

    public ValueTask DisposeAsync()
    {
        _engine.Dispose();
        _store.Dispose();
        _client.Dispose();
        _redis.Dispose();
        _workspace.Dispose();
        return ValueTask.CompletedTask;
    }

    [Fact]
    public async Task Copy_OfEveryKindOfString_IsLoaded()
    {
        string[] values = ["", "0", "-1", "127", "128", "-32768", "65536", "2147483647", "-2147483649", "x", new string('z', 100_000),
            string.Concat(Enumerable.Range(0, 5000).Select(i => $"{i}-")), "\0\r\n"];
        for (int i = 0; i < values.Length; i++) { await _client.DoAsync("SET", $"key{i}", values[i]); }
        await _client.DoAsync("SET", "brief", "1", "PXAT", "4102444800123");
        for (int i = 0; i < 2000; i++) { await _client.DoAsync("SET", $"many{i}", new string('v', i)); }
        string file = await CopyAsync();
        RdbBase.RequireKnown(file, _store.RecordBytesMax, default);
        RdbBase.Load(file, _store, default);
        await CompareAsync();
    }

    [Theory]
    [InlineData("a \\\"list\\\"", "list", "RPUSH", "a \"list\"", "1")]
    [InlineData("h", "hash", "HSET", "h", "f", "v")]
    [InlineData("z", "zset", "ZADD", "z", "1", "m")]
    [InlineData("s", "set", "SADD", "s", "1")]
    [InlineData("x", "stream", "XADD", "x", "*", "f", "v")]
    public async Task Copy_WithAnotherType_IsRefusedByName(string key, string type, params string[] command)
    {
        await _client.DoAsync("SET", "before", "1");
        await _client.DoAsync(command);
        string file = await CopyAsync();
        string refusal = Assert.Throws<UnknownToStoreException>(() => RdbBase.RequireKnown(file, _store.RecordBytesMax, default)).Message;
        Assert.Contains(type, refusal);
        Assert.Contains(key.Replace("\\\"", "\\x22", StringComparison.Ordinal), refusal);
        Assert.Contains("slogger backup", refusal);
    }

    // The log does not begin with it; another copy, that the store knows, makes up for it.
    [Fact]
    public async Task Log_OfAStreamWhoseCopyTheStoreDoesNotKnow_DoesNotBegin()
    {
        string directory = _workspace.Folder("backup");
        using VersionLog log = VersionLog.Open(new() { Directory = Path.Combine(directory, "log"), Shard = new(0), TailBytes = 1 << 20 });
        CheckpointStore checkpoints = CheckpointStore.Open(Path.Combine(directory, "checkpoints"));
        using StreamDisk disk = StreamDisk.Open(directory, log, checkpoints, new StoreGuard(_store.RecordBytesMax), StreamDisk.DatabaseOf);
        await _client.DoAsync("SET", "k", "1");
        await ReceiveAsync(1);
        Assert.True(disk.Begin());
        Assert.Equal(1, disk.Life);
        await _client.DoAsync("RPUSH", "a list", "1");
        await ReceiveAsync(2);
        Assert.Contains("\"a list\" is a list", Assert.Throws<UnfollowableException>(() => disk.Begin()).Message);
        Assert.Null(disk.Life);
        Assert.True(disk.HasCopy(2));
        await _client.DoAsync("DEL", "a list");
        await ReceiveAsync(3);
        Assert.True(disk.Begin());
        Assert.Equal(3, disk.Life);

        // What follows is as the copy leaves it: in database 3, without a word.
        using var link = new ReplicationLink(new() { Endpoint = RedisEndpoint.Tcp("127.0.0.1", _redis.Port) });
        Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        await Eventually.AsyncTrue("Redis may save again", TimeSpan.FromSeconds(60),
            async () => (await _client.DoAsync("INFO", "persistence")).Text.Contains("rdb_bgsave_in_progress:0"));
        await _client.DoAsync("SELECT", "3");
        await _client.DoAsync("INCR", "elsewhere");
        await _client.DoAsync("DEL", "elsewhere");
        await ReceiveAsync(4);
        Assert.True(disk.Begin());
        Assert.Equal(3, log.Origin.Database);
        var bytes = new ArrayBufferWriter<byte>();
        RespClient.Append(bytes, ["SET", "k", "2"]);
        disk.Guard!.Restart(log);
        Assert.Contains("in database 3", Assert.Throws<UnfollowableException>(() => disk.Guard.Look(bytes.WrittenSpan)).Message);

        async Task ReceiveAsync(long generation)
        {
            await _client.DoAsync("SAVE");
            byte[] copy = File.ReadAllBytes(Path.Combine(_workspace.Folder("redis"), "copy.rdb"));
            var seed = new Seed($"copy {generation}", generation, copy.Length, new(WrittenPrimary.ReplicationId, 0),
                new(WorldLine.First, 0, VersionNumber.Zero), new(WorldLine.First, new(1)))
            {
                Checksum = CheckpointStore.ChecksumOf(Path.Combine(_workspace.Folder("redis"), "copy.rdb")),
            };
            disk.Write(new(seed, 0, copy.Length), new ReadOnlySequence<byte>(copy));
            disk.Sync();
        }
    }

    [Fact]
    public async Task Copy_WithAnotherDatabaseAFunctionOrALargeValue_IsRefused()
    {
        async Task<string> RefusalAsync() { string file =
            await CopyAsync(); return Assert.Throws<UnknownToStoreException>(
                () => RdbBase.RequireKnown(file, _store.RecordBytesMax, default)).Message; }
        await _client.DoAsync("SELECT", "3");
        await _client.DoAsync("SET", "elsewhere", "1");
        Assert.Contains("database 3", await RefusalAsync());
        await _client.DoAsync("FLUSHALL");
        await _client.DoAsync("SELECT", "0");
        // Packed it is a fraction of that.
        await _client.DoAsync("SETRANGE", "large", "5000000", "x");
        Assert.Contains("\"large\"", await RefusalAsync());
        await _client.DoAsync("FLUSHALL");
        await _client.DoAsync("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)");
        Assert.Contains("functions", await RefusalAsync());
    }

    [Fact]
    public async Task Stream_AtRandom_MakesWhatRedisMakesOfIt()
    {
        int seed = int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int given) ? given : Environment.TickCount & 0xFFFFFF;
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        var random = new Random(seed);
        using VersionLog log = VersionLog.Open(new() { Directory = _workspace.Folder("log"), Shard = new(0), TailBytes = 1 << 20 });
        log.Begin(new(WrittenPrimary.ReplicationId, 0, 0), WorldLine.First, new(1));
        using var feed = new StreamFeed(log, 0, 0, _engine, _store.RecordBytesMax, feeds: true);
        using var look = new StreamFeed(log, 0, 0, _engine, _store.RecordBytesMax, feeds: false);
        for (int version = 1; version <= 60; version++)
        {
            var bytes = new ArrayBufferWriter<byte>();
            for (int i = random.Next(1, 200); i > 0; i--)
            {
                string[] command = Command(random);
                // What a primary refuses is in no stream.
                if ((await _client.CallAsync(command)).IsError) { continue; }
                bool isTransaction = random.Next(10) == 0;
                if (isTransaction) { RespClient.Append(bytes, ["MULTI"]); }
                RespClient.Append(bytes, command);
                if (isTransaction) { RespClient.Append(bytes, ["EXEC"]); }
                if (random.Next(20) == 0)
                {
                    RespClient.Append(bytes,
                        random.Next(3) switch { 0 => ["PING"], 1 => ["SPUBLISH", "channel", "mark"], _ => ["SELECT", "0"] });
                }
            }
            log.Append(bytes.WrittenSpan);
            log.AppendBoundary(new(WorldLine.First, new(version), log.EndOffset, 0, HybridTimestamp.Of(version, 0)));
            log.Sync();
            look.GoTo(log.EndOffset, default);
            feed.GoTo(log.EndOffset, default);
            Assert.Equal(log.EndOffset, feed.Offset);
        }
        await CompareAsync();
    }

    [Theory]
    [InlineData("RPUSH", "RPUSH", "l", "1")]
    [InlineData("relative", "SET", "relative", "1", "EX", "10")]
    [InlineData("EXPIRE", "EXPIRE", "k", "10")]
    [InlineData("SWAPDB", "SWAPDB", "0", "1")]
    [InlineData("BITFIELD", "BITFIELD", "k", "SET", "u8", "0", "1")]
    [InlineData("FUNCTION", "FUNCTION", "LOAD", "x")]
    [InlineData("database \"7\"", "COPY", "k", "other", "DB", "7")]
    public void Stream_WithWhatTheStoreDoesNotKnow_IsRefusedByName_AndNothingIsDone(string named, params string[] command)
    {
        using VersionLog log = VersionLog.Open(new() { Directory = _workspace.Folder("log"), Shard = new(0), TailBytes = 1 << 20 });
        log.Begin(new(WrittenPrimary.ReplicationId, 0, 0), WorldLine.First, new(1));
        var bytes = new ArrayBufferWriter<byte>();
        RespClient.Append(bytes, ["SET", "k", "1"]);
        int at = bytes.WrittenCount;
        RespClient.Append(bytes, command);
        log.Append(bytes.WrittenSpan);
        log.AppendBoundary(new(WorldLine.First, new(1), log.EndOffset, 0, HybridTimestamp.Of(1, 0)));
        log.Sync();
        using var look = new StreamFeed(log, 0, 0, _engine, _store.RecordBytesMax, feeds: false);
        string refusal = Assert.Throws<UnknownToStoreException>(() => look.GoTo(log.EndOffset, default)).Message;
        Assert.Contains(named, refusal);
        Assert.Contains($"offset {at} ", refusal);
        Assert.Equal(0, _engine.KeyCount);
        // Nothing of the kind would have come into the log, however it had been sent.
        var guard = new StoreGuard(_store.RecordBytesMax);
        byte[] all = bytes.WrittenSpan.ToArray();
        foreach (byte b in all.AsSpan(0, all.Length - 1)) { guard.Look([b]); }
        Assert.Contains(named, Assert.Throws<UnfollowableException>(() => guard.Look(all.AsSpan(all.Length - 1))).Message);
    }

    private async Task<string> CopyAsync()
    {
        await _client.DoAsync("SAVE");
        return Path.Combine(_workspace.Folder("redis"), "copy.rdb");
    }

    // Every key with its value and when it expires.
    private async Task CompareAsync()
    {
        RespValue keys = await _client.DoAsync("KEYS", "*");
        using FasterWorker worker = _store.NewWorker();
        var value = new Slogger.Faster.Records.ValueBuffer();
        foreach (RespValue key in keys.Items)
        {
            RespValue there = await _client.DoAsync("GET", key.Text), expiry = await _client.DoAsync("PEXPIRETIME", key.Text);
            Assert.True(worker.TryRead(System.Text.Encoding.Latin1.GetBytes(key.Text), value, out long expiryMs, out _), key.Text);
            Assert.Equal(there.Text, System.Text.Encoding.Latin1.GetString(value.Bytes));
            Assert.Equal(Math.Max(0, expiry.Number), expiryMs);
        }
        Assert.Equal(keys.Items.Count, _engine.KeyCount);
    }

    private static string[] Command(Random random)
    {
        string key = $"key{random.Next(40)}", other = $"key{random.Next(40)}", number = random.Next(1000)
            .ToString(CultureInfo.InvariantCulture), count = $"count{random.Next(4)}";
        string moment = (4102444800000 + random.Next(1000)).ToString(CultureInfo.InvariantCulture);
        return random.Next(20) switch
        {
            0 => ["SET", key, number, "PXAT", moment],
            1 => ["SET", key, number, "KEEPTTL"],
            2 => ["SET", key, number, "XX"],
            3 => ["APPEND", key, number],
            4 => ["SETRANGE", key, number, number],
            5 => ["DEL", key, other],
            6 => ["unlink", key],
            7 => ["PEXPIREAT", key, moment],
            8 => ["PERSIST", key],
            9 => random.Next(2) == 0 ? ["SET", "from", "1"] : ["COPY", key, other, "REPLACE"],
            10 => ["INCRBY", count, number],
            11 => ["decr", count],
            12 => ["MSET", key, number, other, moment],
            13 => ["MSETNX", key, number, other, moment],
            14 => ["GETSET", key, number],
            15 => ["SETBIT", "bits", number, "1"],
            16 => random.Next(50) == 0 ? ["FLUSHALL", "ASYNC"] : ["SETNX", key, number],
            17 => ["SET", $"large{random.Next(3)}", new string((char)('a' + random.Next(26)), random.Next(100_000))],
            18 => ["SET", key, "\0\r\n$5"],
            _ => ["SET", key, number],
        };
    }
}
