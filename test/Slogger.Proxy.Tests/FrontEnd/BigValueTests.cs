// The largest values that Redis takes, and clients that read them slowly or not at all while others share the connection.
using System.Globalization;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

[Collection(nameof(AloneInTheProcess))]
public sealed class BigValueTests(BothTransports servers, ITestOutputHelper output) : IClassFixture<BothTransports>
{
    private const long HalfGigabyte = 512L << 20;

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public async Task Value_Of512Megabytes_GoesThereAndBackBesideASlowReader(TransportKind transport)
    {
        using RespConnection big = servers.Fresh(transport), small = servers.Proxy(transport).Connect(), slow = servers.Proxy(transport)
            .Connect();
        Task setting = Task.Factory.StartNew(() =>
        {
            byte[] piece = new byte[1 << 20];
            Array.Fill(piece, (byte)'x');
            big.SendRaw($"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n${HalfGigabyte}\r\n");
            for (long sent = 0; sent < HalfGigabyte; sent += piece.Length) { big.SendRaw(piece); }
            big.SendRaw("\r\n");
            Assert.Equal("+OK\r\n", big.Read());
        }, TestContext.Current.CancellationToken, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        while (!setting.IsCompleted) { Assert.Equal("+PONG\r\n", small.Call("PING")); }
        await setting;

        // The slow reader takes the beginning of its reply and stops, on the shared connection: the others go on.
        long before = Environment.WorkingSet;
        slow.Send("GET", "big");
        while (slow.Socket.Available == 0) { await Task.Delay(5, TestContext.Current.CancellationToken); }
        for (int i = 0; i < 500; i++) { Assert.Equal("+PONG\r\n", small.Call("PING")); }
        big.Send("GET", "big");
        long seen = 0;
        bool same = true;
        Assert.Equal(HalfGigabyte, big.ReadBulkLength((bytes, count) =>
        {
            same &= bytes.AsSpan(0, count).IndexOfAnyExcept((byte)'x') < 0;
            seen += count;
        }));
        Assert.True(same && seen == HalfGigabyte);
        Assert.Equal("+PONG\r\n", small.Call("PING"));
        // What waits for the slow one, not more: one value, and a second one under way at the most.
        long grown = Environment.WorkingSet - before;
        output.WriteLine($"{transport}: {grown >> 20} MB more while one value of 512 MB waits");
        Assert.InRange(grown, long.MinValue, 1280L << 20);
        Assert.Equal(HalfGigabyte, slow.ReadBulkLength());
        Assert.Equal("+PONG\r\n", slow.Call("PING"));
        small.Call("DEL", "big");
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void ClientOutputLimit_Exceeded_ClosesThatClientOnly(TransportKind transport)
    {
        using TestProxy proxy = new(servers.Redis, transport,
            o => o with { ClientOutputLimitBytes = 8 << 20, OutputMemoryLimitBytes = 64 << 20 });
        using RespConnection other = proxy.Connect(), never = proxy.Connect();
        other.Call("SET", "mb", new string('m', 1 << 20));
        for (int i = 0; i < 40; i++) { never.Send("GET", "mb"); }
        for (int i = 0; i < 200 && !proxy.Log.Contains("--client-output-limit", StringComparison.Ordinal); i++)
        {
            Assert.StartsWith("$1048576", other.Call("GET", "mb"), StringComparison.Ordinal);
        }
        Assert.Contains("--client-output-limit", proxy.Log, StringComparison.Ordinal);
        Assert.ThrowsAny<IOException>(() =>
        {
            for (int i = 0; i < 40; i++) { never.Read(); }
        });
        Assert.Equal("+PONG\r\n", other.Call("PING"));
    }

    [Theory]
    [MemberData(nameof(BothTransports.Transports), MemberType = typeof(BothTransports))]
    public void OutputMemoryLimit_Exceeded_ClosesTheOneWithTheMost(TransportKind transport)
    {
        using TestProxy proxy = new(servers.Redis, transport,
            o => o with { ClientOutputLimitBytes = 30 << 20, OutputMemoryLimitBytes = 32 << 20 });
        using RespConnection other = proxy.Connect(), much = proxy.Connect(), little = proxy.Connect(), redis = servers.Redis.Connect();
        other.Call("SET", "mb", new string('m', 1 << 20));
        long before = Sent();
        for (int i = 0; i < 28; i++) { much.Send("GET", "mb"); }
        // First it has much, and what little has comes after: who has the most is then no question of who was served first.
        for (int i = 0; Sent() - before < 28 << 20; i++)
        {
            Assert.True(i < 6000, "Redis has not given out what was asked for");
            Thread.Sleep(5);
        }
        for (int i = 0; i < 20; i++) { little.Send("GET", "mb"); }
        for (int i = 0; i < 500 && !proxy.Log.Contains("--output-memory-limit", StringComparison.Ordinal); i++) { other.Call("GET", "mb"); }
        Assert.Contains("--output-memory-limit", proxy.Log, StringComparison.Ordinal);
        Assert.Equal("+PONG\r\n", other.Call("PING"));
        for (int i = 0; i < 20; i++) { Assert.Equal(1 << 20, little.ReadBulkLength()); }

        // What Redis has given out.
        long Sent() => long.Parse(redis.Call("INFO", "stats").Split("total_net_output_bytes:")[1].Split('\r')[0],
            CultureInfo.InvariantCulture);
    }
}
