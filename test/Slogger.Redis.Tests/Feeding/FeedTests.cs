// The feed beyond one restore: a growing target, a connection that breaks on the way, Redis killed and restored.
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;
using Slogger.Redis.Supervision;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Feeding;

public sealed class FeedTests
{
    // A history that gives out its bytes slowly, so that a connection can be cut in the middle.
    private sealed class Slow(IHistorySource inner) : IHistorySource
    {
        public int Read(long offset, Span<byte> destination)
        {
            Thread.Sleep(1);
            return inner.Read(offset, destination[..Math.Min(destination.Length, 7000)]);
        }
    }

    [Fact]
    public async Task Feed_ConnectionsCutOnTheWay_ContinuesToTheSameData()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        await client.ExpectAsync("SELECT", "2");
        // Many small transactions: Redis continues from the last one that it has executed whole.
        for (int i = 0; i < 600; i++)
            await client.ExpectAsync("EVAL", "for i=1,10 do redis.call('SET',KEYS[1]..i,string.rep('v',500)) redis.call('INCR','n') "
                + "redis.call('PUBLISH','c','m') end", "1", $"k{i}");
        long target = (await client.RoleAsync()).Offset;
        await sink.WaitForAsync(target);
        string digest = (await client.ExpectAsync("DEBUG", "DIGEST")).Text;
        await using TestRedis other = await TestRedis.StartAsync();
        await using RedisConnection control = await other.ConnectAsync();
        await using RedisConnection killer = await other.ConnectAsync();
        var plan = new FeedPlan { BaseOffset = full.Offset, BaseDatabase = 0, History = new Slow(sink), TargetOffset = target };
        Task<RestoreResult> restore = RedisRestore.RunAsync(control, plan, new()
        {
            BeforePromotion = async (c, _) => Assert.Equal(digest, (await c.ExpectAsync("DEBUG", "DIGEST")).Text),
        });
        int cuts = 0;
        while (!restore.IsCompleted)
        {
            await Task.Delay(120);
            if (cuts < 10)
                cuts += (int)(await killer.CommandAsync("CLIENT", "KILL", "TYPE", "master")).Integer;
        }
        Assert.IsType<RestoreResult.Restored>(await restore);
        Assert.True(cuts > 0, "nothing was cut");
        Assert.Contains("Successful partial resynchronization", await File.ReadAllTextAsync(Path.Combine(other.Directory, "log")));
    }

    [Fact]
    public async Task Feed_TargetExtended_FollowsAndCanBePromoted()
    {
        await using TestRedis primary = await TestRedis.StartAsync();
        await using RedisConnection client = await primary.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = primary.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        await using TestRedis backup = await TestRedis.StartAsync();
        await using RedisConnection control = await backup.ConnectAsync();
        await using ReplicationFeed feed = ReplicationFeed.Start(
            new() { BaseOffset = full.Offset, History = sink, TargetOffset = full.Offset }, new() { RequireSecret = false });
        await control.ExpectAsync("REPLICAOF", "127.0.0.1", $"{feed.LocalEndPoint.Port}");
        for (int i = 1; i <= 20; i++)
        {
            await client.ExpectAsync("INCR", "n");
            long offset = (await client.RoleAsync()).Offset;
            await sink.WaitForAsync(offset);
            feed.ExtendTo(offset);
            for (int wait = 0; (await control.RoleAsync()).Offset != offset; wait++)
            {
                Assert.True(wait < 3000, $"stuck at {feed.Progress}: {feed.Failure}");
                await Task.Delay(5);
            }
            Assert.Equal($"{i}", (await control.ExpectAsync("GET", "n")).Text);
        }
        await control.ExpectAsync("REPLICAOF", "NO", "ONE");
        Assert.Equal(feed.ReplicationId, (await control.InfoAsync("replication"))["master_replid2"]);
        Assert.Throws<ArgumentOutOfRangeException>(() => feed.ExtendTo(0));
    }

    [Fact]
    public async Task Feed_CutWhileItSends_ContinuesWhatWasExecuted()
    {
        // Less fits in between than the feed sends at a time: what a replica has executed lies beyond what was sent to the end.
        byte[] command = Encoding.ASCII.GetBytes("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$50\r\n" + new string('v', 50) + "\r\n");
        var history = new RecordingSink(0);
        for (int i = 0; i < 30_000; i++) history.OnBytes(command, history.EndOffset);
        await using ReplicationFeed feed = ReplicationFeed.Start(
            new() { BaseOffset = 0, History = history, TargetOffset = history.EndOffset }, new() { RequireSecret = false });
        long at = 0;
        for (int round = 0; round < 5; round++)
        {
            using var replica = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 4096,
                ReceiveTimeout = 30_000 };
            replica.SetRawSocketOption(6, 2, BitConverter.GetBytes(536)); // IPPROTO_TCP, TCP_MAXSEG
            await replica.ConnectAsync(feed.LocalEndPoint);
            string next = $"{at + 1}";
            replica.Send(Encoding.ASCII.GetBytes(round == 0 ? "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"
                : $"*3\r\n$5\r\nPSYNC\r\n$40\r\n{feed.ReplicationId}\r\n${next.Length}\r\n{next}\r\n"));
            string answer = ReadLine(replica);
            Assert.StartsWith(round == 0 ? "+FULLRESYNC" : "+CONTINUE", answer);
            if (round == 0) ReadExactly(replica, int.Parse(ReadLine(replica)[1..], CultureInfo.InvariantCulture));
            for (int i = 0; i < 100; i++, at += command.Length) Assert.Equal(command, ReadExactly(replica, command.Length));
            Assert.InRange(feed.Progress.OffsetSent, 0, at - 1);
        }
    }

    private static byte[] ReadExactly(Socket socket, int count)
    {
        byte[] bytes = new byte[count];
        for (int have = 0; have < count;)
        {
            int read = socket.Receive(bytes.AsSpan(have));
            Assert.True(read > 0, "closed");
            have += read;
        }
        return bytes;
    }

    private static string ReadLine(Socket socket)
    {
        var line = new StringBuilder();
        for (char c; (c = (char)ReadExactly(socket, 1)[0]) != '\n';) line.Append(c);
        return line.ToString().TrimEnd('\r');
    }

    [Fact]
    public async Task Supervised_KilledUnderLoad_RestoredToWhatTheLinkHad()
    {
        string directory = TestRedis.NewDirectory();
        await using var supervisor = new RedisSupervisor(new() { Directory = Path.Combine(directory, "redis") });
        Assert.IsType<SupervisedStart.Started>(await supervisor.StartOrAdoptAsync());
        var codec = new MarkerCodec(new string('b', 32));
        string? identity = null;
        RecordingSink? history = null;
        long start = 0;
        for (int round = 1; round <= 3; round++)
        {
            var link = new ReplicationLink(new() { Endpoint = supervisor.Endpoint, Markers = codec });
            AttachResult attached = await link.AttachAsync(identity is null ? new() : new()
            {
                ReplicationId = identity,
                Position = new StreamScanner(history!.Markers[^1].OffsetAfter, history.Markers[^1].Database),
                OnFull = OnFullSync.Refuse,
            });
            long from = attached switch { AttachResult.Full f => f.Offset, AttachResult.Continued c => c.Offset, _ =>
                throw new InvalidOperationException($"{attached}") };
            if (history is null)
                start = from;
            var sink = new Joined(history, from, start);
            link.Start(sink);
            await using RedisConnection client = await RedisConnection.ConnectAsync(supervisor.Endpoint);
            for (int i = 0; i < 200; i++)
            {
                await client.ExpectAsync("INCR", "n");
                if (i % 10 == 9)
                    await client.ExpectAsync("SPUBLISH", codec.Channel, MarkerCodec.Format(new(new(round), new(i), new(i + 1), default)));
            }
            await sink.All.WaitForAsync(0, markers: (history?.Markers.Length ?? 0) + 1);
            System.Diagnostics.Process.GetProcessById(supervisor.ProcessId).Kill();
            await supervisor.Exited;
            await sink.All.Closed.WaitAsync(TimeSpan.FromMinutes(2));
            history = sink.All;
            StreamMarker last = history.Markers[^1];
            Assert.IsType<SupervisedStart.Started>(await supervisor.StartOrAdoptAsync());
            await using RedisConnection control = await RedisConnection.ConnectAsync(supervisor.Endpoint);
            var plan = new FeedPlan { BaseOffset = start, History = history, TargetOffset = last.OffsetAfter };
            var restored = Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(control, plan));
            identity = restored.FeedReplicationId;
            int markers = history.Markers.Length;
            Assert.Equal($"{markers * 10}", (await control.ExpectAsync("GET", "n")).Text);
            link.Dispose();
        }
        await supervisor.StopAsync();
        Directory.Delete(directory, recursive: true);
    }

    // The history so far, cut at its last marker, and what comes now.
    private sealed class Joined : IStreamSink
    {
        public Joined(RecordingSink? before, long from, long start)
        {
            All = new RecordingSink(start);
            if (before is null)
                return;
            All.OnBytes(before.Bytes.AsSpan(0, (int)(from - start)), start);
            All.TakeMarkers(before.Markers);
        }

        public RecordingSink All { get; }

        public void OnBytes(ReadOnlySpan<byte> bytes, long startOffset) => All.OnBytes(bytes, startOffset);
        public void OnMarker(in StreamMarker marker) => All.OnMarker(marker);
        public void OnClosed(LinkClosed reason) => All.OnClosed(reason);
    }
}
