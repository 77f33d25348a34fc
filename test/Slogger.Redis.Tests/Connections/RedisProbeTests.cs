// What the probe says about Redises that cannot be used, and about things that are no Redis.
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Connections;

public sealed class RedisProbeTests
{
    [Fact]
    public async Task Probe_Usable_TellsFacts()
    {
        await using TestRedis redis = await TestRedis.StartAsync("pw", "--databases", "20");
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("SET", "a", "1");
        await client.ExpectAsync("SELECT", "19");
        await client.ExpectAsync("SET", "b", "1");
        ProbeResult probe = await RedisProbe.InspectAsync(redis.Endpoint);
        Assert.True(probe.IsUsable, probe.Message);
        Assert.Equal(2, probe.Facts!.KeyCount);
        Assert.Equal(20, probe.Facts.Databases);
        Assert.Equal(40, probe.Facts.ReplicationId.Length);
        Assert.Equal(-1, probe.Facts.SecondReplicationOffset);
        Assert.Equal(redis.ProcessId, probe.Facts.ProcessId);
    }

    [Fact]
    public async Task Probe_Replica_NotMaster()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("REPLICAOF", "127.0.0.1", $"{TestRedis.FreePort()}");
        ProbeResult probe = await RedisProbe.InspectAsync(redis.Endpoint);
        Assert.Equal(RedisProblem.NotMaster, probe.Problem);
        Assert.Contains("REPLICAOF NO ONE", probe.Message);
        // A replica whose master is away refuses to be one's master.
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        Assert.Equal(RedisProblem.NotNow, Assert.IsType<AttachResult.Failed>(await link.AttachAsync(new())).Problem);
    }

    [Fact]
    public async Task Probe_Cluster_ClusterMode()
    {
        await using TestRedis redis = await TestRedis.StartAsync(null, "--cluster-enabled", "yes");
        Assert.Equal(RedisProblem.ClusterMode, (await RedisProbe.InspectAsync(redis.Endpoint)).Problem);
    }

    [Fact]
    public async Task Probe_OldVersion_TooOld()
    {
        using var fake = new FakeRedis(command => command[0].ToUpperInvariant() switch
        {
            "PING" => "+PONG\r\n",
            "INFO" => Bulk("redis_version:6.2.14\r\nredis_mode:standalone\r\nrole:master\r\n"),
            "CONFIG" => "*0\r\n",
            "REPLCONF" when command[1] == "rdb-filter-only" => "-ERR Unrecognized REPLCONF option: rdb-filter-only\r\n",
            "REPLCONF" => "+OK\r\n",
            _ => "-ERR unknown command\r\n",
        });
        ProbeResult probe = await RedisProbe.InspectAsync(fake.Endpoint);
        Assert.Equal(RedisProblem.TooOld, probe.Problem);
        Assert.Contains("6.2.14", probe.Message);
        using var link = new ReplicationLink(new() { Endpoint = fake.Endpoint });
        Assert.Equal(RedisProblem.TooOld, Assert.IsType<AttachResult.Failed>(await link.AttachAsync(new())).Problem);
    }

    [Theory]
    [InlineData("HTTP/1.1 400 Bad Request\r\n\r\n", RedisProblem.Protocol)]
    [InlineData("", RedisProblem.Closed)]
    [InlineData("-LOADING Redis is loading the dataset in memory\r\n", RedisProblem.Loading)]
    [InlineData("-DENIED Redis is running in protected mode\r\n", RedisProblem.PasswordNeeded)]
    public async Task Probe_OtherAnswers_Classified(string answer, RedisProblem expected)
    {
        using var fake = new FakeRedis(_ => answer);
        Assert.Equal(expected, (await RedisProbe.InspectAsync(fake.Endpoint, TimeSpan.FromSeconds(20))).Problem);
        using var link = new ReplicationLink(new() { Endpoint = fake.Endpoint });
        var failed = Assert.IsType<AttachResult.Failed>(await link.AttachAsync(new()));
        Assert.Equal(expected, failed.Problem);
    }

    [Fact]
    public async Task Probe_Silent_Timeout()
    {
        using var fake = new FakeRedis(_ => null);
        Assert.Equal(RedisProblem.Timeout, (await RedisProbe.InspectAsync(fake.Endpoint, TimeSpan.FromMilliseconds(300))).Problem);
        using var link = new ReplicationLink(new() { Endpoint = fake.Endpoint, HandshakeSilenceMax = TimeSpan.FromMilliseconds(300) });
        Assert.Equal(RedisProblem.Timeout, Assert.IsType<AttachResult.Failed>(await link.AttachAsync(new())).Problem);
    }

    [Theory]
    [InlineData("127.0.0.1:6379", "127.0.0.1:6379")]
    [InlineData("[::1]:7000", "[::1]:7000")]
    [InlineData("unix:/run/redis.sock", "unix:/run/redis.sock")]
    [InlineData("/run/redis.sock", "unix:/run/redis.sock")]
    [InlineData("redis://me:geheim%21@host", "host:6379")]
    [InlineData("rediss://:geheim!@host:6380/", "host:6380 (TLS)")]
    public void Endpoint_Parsed_TextHasNoPassword(string text, string expected)
    {
        RedisEndpoint endpoint = RedisEndpoint.Parse(text);
        Assert.Equal(expected, endpoint.ToString());
        if (text.Contains("geheim", StringComparison.Ordinal))
            Assert.Equal("geheim!", endpoint.Password);
    }

    [Theory]
    [InlineData("host")]
    [InlineData("host:99999")]
    [InlineData("redis://")]
    public void Endpoint_Malformed_Explained(string text) =>
        Assert.Contains("host:port", Assert.Throws<ArgumentException>(() => RedisEndpoint.Parse(text)).Message);

    private static string Bulk(string text) => $"${text.Length}\r\n{text}\r\n";

    // Answers each command by a function: null: not at all, "": by closing.
    private sealed class FakeRedis : IDisposable
    {
        private readonly TcpListener _listener = new(IPAddress.Loopback, TestRedis.FreePort());

        public FakeRedis(Func<string[], string?> answer)
        {
            _listener.Start();
            new Thread(() => Serve(answer)) { IsBackground = true }.Start();
        }

        public RedisEndpoint Endpoint => RedisEndpoint.Tcp("127.0.0.1", ((IPEndPoint)_listener.LocalEndpoint).Port);

        public void Dispose() => _listener.Dispose();

        private void Serve(Func<string[], string?> answer)
        {
            try
            {
                while (true)
                {
                    TcpClient client = _listener.AcceptTcpClient();
                    new Thread(() => Talk(client, answer)) { IsBackground = true }.Start();
                }
            }
            catch (Exception e) when (e is SocketException or InvalidOperationException or ObjectDisposedException)
            {
            }
        }

        private static void Talk(TcpClient client, Func<string[], string?> answer)
        {
            using TcpClient owned = client;
            try
            {
                using var reader = new StreamReader(client.GetStream(), Encoding.ASCII);
                while (reader.ReadLine() is { } head)
                {
                    var words = new string[int.Parse(head.AsSpan(1), System.Globalization.CultureInfo.InvariantCulture)];
                    for (int i = 0; i < words.Length; i++)
                    {
                        reader.ReadLine();
                        words[i] = reader.ReadLine() ?? "";
                    }
                    string? text = answer(words);
                    if (text == "")
                        return;
                    if (text is not null)
                        client.GetStream().Write(Encoding.ASCII.GetBytes(text));
                }
            }
            catch (IOException)
            {
            }
        }
    }
}
