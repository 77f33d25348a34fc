// The link against a real Redis: attaching in all its ways, what the stream holds, and how it ends.
using System.Text;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Replication;

public sealed class ReplicationLinkTests
{
    private static readonly MarkerCodec Codec = new("0123456789abcdef0123456789abcdef");

    [Fact]
    public async Task Attach_NewWithoutData_StreamsWritesAndMarkers()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("SET", "before", "1");
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint, Markers = Codec, ListeningPort = 21999 });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        Assert.True(full.RdbBytes < 1000, "the data set was not filtered");
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        await client.ExpectAsync("SELECT", "3");
        await client.ExpectAsync("SET", "key", "value");
        var payload = new MarkerPayload(new WorldLine(2), new VersionNumber(7), new VersionNumber(8), new HybridTimestamp(ulong.MaxValue));
        Assert.Equal(0, (await client.ExpectAsync("SPUBLISH", Codec.Channel, MarkerCodec.Format(payload))).Integer);
        await client.ExpectAsync("spublish", Codec.Channel, MarkerCodec.Format(payload));
        await client.ExpectAsync("SPUBLISH", Codec.Channel, "nonsense");
        await client.ExpectAsync("SPUBLISH", "other", "1:2:3:4");
        long offset = (await client.RoleAsync()).Offset;
        await sink.WaitForAsync(offset);
        Assert.Equal(offset, link.Offset);
        Assert.Contains("*3\r\n$3\r\nsET\r\n$3\r\nkey\r\n", Encoding.ASCII.GetString(sink.Bytes), StringComparison.Ordinal);
        Assert.Equal(2, sink.Markers.Length);
        Assert.All(sink.Markers, m => Assert.Equal(payload, m.Payload));
        Assert.All(sink.Markers, m => Assert.Equal(3, m.Database));
        Assert.Equal(1, link.SuspectMarkers);
        Assert.Equal("online", Field((await client.InfoAsync("replication"))["slave0"], "state"));
    }

    [Fact]
    public async Task Attach_ContinuedAfterDisconnect_LosesNothing()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        var first = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await first.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        first.Start(sink);
        await client.ExpectAsync("SELECT", "5");
        await client.ExpectAsync("SET", "a", "1");
        await sink.WaitForAsync((await client.RoleAsync()).Offset);
        first.Dispose();
        await first.Completion;
        LinkClosed closed = await sink.Closed;
        Assert.Equal(RedisProblem.Cancelled, closed.Problem);
        Assert.Equal(sink.EndOffset, closed.Offset);
        await client.ExpectAsync("SET", "b", "2");
        using var second = new ReplicationLink(new() { Endpoint = redis.Endpoint, Markers = Codec });
        var continued = Assert.IsType<AttachResult.Continued>(await second.AttachAsync(
            new() { ReplicationId = full.ReplicationId, Position = first.Position, OnFull = OnFullSync.Refuse }));
        Assert.Equal(full.ReplicationId, continued.ReplicationId);
        Assert.Equal(closed.Offset, continued.Offset);
        var sink2 = new RecordingSink(continued.Offset);
        second.Start(sink2);
        await client.ExpectAsync("SPUBLISH", Codec.Channel, "1:1:2:3");
        await sink2.WaitForAsync((await client.RoleAsync()).Offset, markers: 1);
        Assert.Equal(5, sink2.Markers.Single().Database); // +CONTINUE sends no SELECT
        Assert.DoesNotContain("SELECT", Encoding.ASCII.GetString(sink2.Bytes));
    }

    [Fact]
    public async Task Attach_BacklogOverflow_FullWithSameIdentityOrRefused()
    {
        await using TestRedis redis = await TestRedis.StartAsync(null, "--repl-backlog-size", "16kb");
        await using RedisConnection client = await redis.ConnectAsync();
        var first = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await first.AttachAsync(new()));
        first.Start(new RecordingSink(full.Offset));
        first.Dispose();
        await first.Completion;
        for (int i = 0; i < 3; i++)
            await client.ExpectAsync("SET", "k" + i, new string('x', 1 << 20));
        using var refused = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var failed = Assert.IsType<AttachResult.Failed>(await refused.AttachAsync(
            new() { ReplicationId = full.ReplicationId, Position = new StreamScanner(full.Offset, 0), OnFull = OnFullSync.Refuse }));
        Assert.Equal(RedisProblem.HistoryGone, failed.Problem);
        using var second = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        string rdb = Path.Combine(redis.Directory, "base.rdb");
        var again = Assert.IsType<AttachResult.Full>(await second.AttachAsync(
            new() { ReplicationId = full.ReplicationId, Position = new StreamScanner(full.Offset, 0), OnFull = OnFullSync.WithData,
                RdbFile = rdb }));
        Assert.Equal(full.ReplicationId, again.ReplicationId);
        Assert.True(again.Offset > full.Offset + (3 << 20));
        Assert.Equal(again.RdbBytes, new FileInfo(rdb).Length);
        Assert.Equal(again.Offset, Slogger.Redis.Rdb.RdbFile.Inspect(rdb).Offset);
    }

    [Fact]
    public async Task Stream_CommandLargerThanBuffer_IsHandedOverInPieces()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        var link = new ReplicationLink(new() { Endpoint = redis.Endpoint, Markers = Codec, BufferBytes = 8192 });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        string large = new('v', 300_000);
        await client.ExpectAsync("SET", "large", large);
        await client.ExpectAsync("SPUBLISH", Codec.Channel, "1:1:2:3");
        await client.ExpectAsync(["RPUSH", "list", .. Enumerable.Range(0, 5000).Select(i => $"item{i}")]);
        await client.ExpectAsync("SPUBLISH", Codec.Channel, "1:2:3:3");
        await sink.WaitForAsync((await client.RoleAsync()).Offset, markers: 2);
        Assert.Equal(2, sink.Markers.Length);
        Assert.True(sink.Calls > 30);
        Assert.Contains(large, Encoding.ASCII.GetString(sink.Bytes));
        link.Dispose();
        await link.Completion;
        Assert.True(link.Position!.AtCommandBoundary);
    }

    [Fact]
    public async Task Stream_ReadPause_DeliversTheSame()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint, ReadPause = TimeSpan.FromMicroseconds(200) });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        for (int i = 0; i < 2000; i++)
            await client.ExpectAsync("INCR", "n");
        await sink.WaitForAsync((await client.RoleAsync()).Offset);
        Assert.True(sink.Calls <= 2001);
    }

    [Fact]
    public async Task Stream_RedisKilled_EndsWithClosed()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        await redis.KillAsync();
        LinkClosed closed = await sink.Closed.WaitAsync(TimeSpan.FromSeconds(30));
        Assert.Equal(RedisProblem.Closed, closed.Problem);
        Assert.Contains(redis.Endpoint.ToString(), closed.Message);
    }

    [Fact]
    public async Task Stream_RedisStopped_EndsWithTimeout()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint, SilenceMax = TimeSpan.FromSeconds(1) });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        LinkClosed closed = await sink.Closed.WaitAsync(TimeSpan.FromSeconds(30));
        Assert.Equal(RedisProblem.Timeout, closed.Problem);
    }

    [Fact]
    public async Task Stream_TimeoutSetting_DoesNotCutTheLink()
    {
        await using TestRedis redis = await TestRedis.StartAsync(null, "--timeout", "1", "--repl-ping-replica-period", "1");
        await using RedisConnection client = await redis.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        await Task.Delay(3500); // the control connection is closed by Redis meanwhile
        await client.ExpectAsync("SET", "a", "1");
        await sink.WaitForAsync((await client.RoleAsync()).Offset);
        Assert.False(sink.Closed.IsCompleted);
        Assert.True(sink.Keepalives > 0);
    }

    [Fact]
    public async Task Attach_BusyScript_IsTransientFailure()
    {
        await using TestRedis redis = await TestRedis.StartAsync(null, "--busy-reply-threshold", "50");
        await using RedisConnection client = await redis.ConnectAsync();
        Task<RedisReply> busy = client.CommandAsync("EVAL", "while true do end", "0");
        await Task.Delay(300);
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var failed = Assert.IsType<AttachResult.Failed>(await link.AttachAsync(new()));
        Assert.Equal(RedisProblem.Busy, failed.Problem);
        Assert.True(failed.Problem.IsTransient());
        Assert.Equal(RedisProblem.Busy, (await RedisProbe.InspectAsync(redis.Endpoint)).Problem);
        await using RedisConnection other = await redis.ConnectAsync();
        await other.CommandAsync("SCRIPT", "KILL");
        await busy;
    }

    [Theory]
    [InlineData(null, RedisProblem.PasswordNeeded)]
    [InlineData("wrong", RedisProblem.WrongPassword)]
    public async Task Attach_BadPassword_FailsWithAdvice(string? password, RedisProblem expected)
    {
        await using TestRedis redis = await TestRedis.StartAsync("right");
        RedisEndpoint endpoint = redis.Endpoint with { Password = password };
        using var link = new ReplicationLink(new() { Endpoint = endpoint });
        var failed = Assert.IsType<AttachResult.Failed>(await link.AttachAsync(new()));
        Assert.Equal(expected, failed.Problem);
        Assert.DoesNotContain("wrong\"", failed.Message);
        ProbeResult probe = await RedisProbe.InspectAsync(endpoint);
        Assert.Equal(expected, probe.Problem);
        var fetched = Assert.IsType<CheckpointResult.Failed>(
            await CheckpointFetcher.FetchAsync(endpoint, Path.Combine(redis.Directory, "x")));
        Assert.Equal(expected, fetched.Problem);
    }

    [Fact]
    public async Task Attach_AclUser_WorksWithNeededRights()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("ACL", "SETUSER", "slog", "on", ">pw", "+psync", "+replconf", "+ping", "+info", "+role", "+config|get");
        RedisEndpoint endpoint = redis.Endpoint with { User = "slog", Password = "pw" };
        using var link = new ReplicationLink(new() { Endpoint = endpoint });
        Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        Assert.True((await RedisProbe.InspectAsync(endpoint)).IsUsable);
        await client.ExpectAsync("ACL", "SETUSER", "slog", "-psync");
        using var second = new ReplicationLink(new() { Endpoint = endpoint });
        Assert.Equal(RedisProblem.NoPermission, Assert.IsType<AttachResult.Failed>(await second.AttachAsync(new())).Problem);
    }

    [Fact]
    public async Task Attach_NobodyThere_Unreachable()
    {
        using var link = new ReplicationLink(new() { Endpoint = RedisEndpoint.Tcp("127.0.0.1", TestRedis.FreePort()) });
        Assert.Equal(RedisProblem.Unreachable, Assert.IsType<AttachResult.Failed>(await link.AttachAsync(new())).Problem);
    }

    [Fact]
    public async Task Attach_Cancelled_EndsAtOnce()
    {
        // The default delay of a diskless synchronisation keeps the handshake waiting.
        await using TestRedis redis = await TestRedis.StartAsync(null, "--repl-diskless-sync-delay", "30");
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        using var cancel = new CancellationTokenSource(200);
        var failed = Assert.IsType<AttachResult.Failed>(await link.AttachAsync(new(), cancel.Token).WaitAsync(TimeSpan.FromSeconds(20)));
        Assert.Equal(RedisProblem.Cancelled, failed.Problem);
    }

    [Fact]
    public async Task QuickAttach_DelayConfigured_IsBypassedAndPutBack()
    {
        await using TestRedis redis = await TestRedis.StartAsync(null, "--repl-diskless-sync-delay", "100");
        await using RedisConnection client = await redis.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        string undo = Path.Combine(redis.Directory, "undo");
        Assert.IsType<AttachResult.Full>(await QuickAttach.AttachAsync(client, link, new(), undo).WaitAsync(TimeSpan.FromSeconds(60)));
        Assert.IsType<CheckpointResult.Fetched>(await QuickAttach.FetchAsync(client, Path.Combine(redis.Directory, "c.rdb"), undo)
            .WaitAsync(TimeSpan.FromSeconds(60)));
        Assert.Equal("100", (await client.ExpectAsync("CONFIG", "GET", "repl-diskless-sync-delay")).Items[1].Text);
        Assert.False(File.Exists(undo));
    }

    [Fact]
    public async Task Tls_LinkProbeAndCheckpoint_Work()
    {
        string directory = TestRedis.NewDirectory();
        (string certificate, string key) = Certificates.Write(directory);
        int port = TestRedis.FreePort();
        await using TestRedis redis = await TestRedis.StartAsync("pw", "--tls-port", $"{port}", "--tls-cert-file", certificate,
            "--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-replication", "yes");
        RedisEndpoint endpoint = RedisEndpoint.Tcp("127.0.0.1", port, "pw") with
        {
            Tls = new() { CaFile = certificate, CertificateFile = certificate, KeyFile = key },
        };
        Assert.True((await RedisProbe.InspectAsync(endpoint)).IsUsable);
        await using RedisConnection client = await RedisConnection.ConnectAsync(endpoint);
        using var link = new ReplicationLink(new() { Endpoint = endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        await client.ExpectAsync("SET", "a", new string('x', 3_000_000));
        long offset = (await client.RoleAsync()).Offset;
        await sink.WaitForAsync(offset);
        Assert.IsType<CheckpointResult.Fetched>(await CheckpointFetcher.FetchAsync(endpoint, Path.Combine(redis.Directory, "c.rdb")));
        var plan = new Slogger.Redis.Feeding.FeedPlan { BaseOffset = full.Offset, History = sink, TargetOffset = offset };
        Assert.IsType<Slogger.Redis.Feeding.RestoreResult.Restored>(await Slogger.Redis.Feeding.RedisRestore.RunAsync(client, plan));
        Assert.Equal("yes", (await client.ExpectAsync("CONFIG", "GET", "tls-replication")).Items[1].Text);
        Assert.Equal(RedisProblem.Tls, (await RedisProbe.InspectAsync(endpoint with { Tls = new() })).Problem);
        ProbeResult plain = await RedisProbe.InspectAsync(endpoint with { Tls = null });
        Assert.False(plain.IsUsable);
        Directory.Delete(directory, recursive: true);
    }

    [Theory]
    [InlineData("yes")]
    [InlineData("no")]
    public async Task Checkpoint_Fetched_HoldsItsOffset(string diskless)
    {
        await using TestRedis redis = await TestRedis.StartAsync(null, "--repl-diskless-sync", diskless);
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("DEBUG", "POPULATE", "1000");
        await client.ExpectAsync("SET", "a", "1");
        string path = Path.Combine(redis.Directory, "check.rdb");
        var fetched = Assert.IsType<CheckpointResult.Fetched>(await CheckpointFetcher.FetchAsync(redis.Endpoint, path));
        Slogger.Redis.Rdb.RdbInfo info = Slogger.Redis.Rdb.RdbFile.Inspect(path);
        Assert.Equal(fetched.Offset, info.Offset);
        Assert.Equal(fetched.ReplicationId, info.ReplicationId);
        Assert.Equal(fetched.Bytes, info.Bytes);
        Assert.Equal(Slogger.Redis.Rdb.RdbIntegrity.Good, Slogger.Redis.Rdb.RdbFile.Verify(path));
    }

    private static string Field(string line, string name) =>
        line.Split(',').Single(p => p.StartsWith(name + "=", StringComparison.Ordinal))[(name.Length + 1)..];
}
