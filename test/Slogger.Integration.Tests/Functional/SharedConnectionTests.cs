// Ordinary commands of many clients over one upstream: nothing of one client may show at another.
using System.Buffers;
using System.Text;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

public sealed class SharedConnectionTests(Servers servers) : IClassFixture<Servers>
{
    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Select_ManyClients_EachHasItsOwnDatabase(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        var clients = await Task.WhenAll(Enumerable.Range(0, 24).Select(_ => RespClient.ConnectAsync(endpoint)));
        await Task.WhenAll(clients.Select(async (client, i) =>
        {
            await client.DoAsync("SELECT", $"{i % 12}");
            for (int n = 0; n < 200; n++)
            {
                await client.SendAsync("SET", $"k{i}", $"{i}.{n}");
                await client.SendAsync("GET", $"k{i}");
                Assert.Equal("+OK", (await client.ReadAsync()).Compact);
                Assert.Equal($"${i}.{n}", (await client.ReadAsync()).Compact);
            }

            Assert.Equal(":2", (await client.CallAsync("DBSIZE")).Compact);
        }));
        Assert.Equal("_", (await clients[0].CallAsync("GET", "k1")).Compact);
        Array.ForEach(clients, c => c.Dispose());
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Select_BadDatabase_LeavesTheOldOne(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var client = await RespClient.ConnectAsync(endpoint);
        await client.DoAsync("SELECT", "5");
        await client.DoAsync("SET", "a", "1");
        Assert.True((await client.CallAsync("SELECT", "99")).IsError);
        Assert.True((await client.CallAsync("SELECT", "x")).IsError);
        Assert.Equal("$1", (await client.CallAsync("GET", "a")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Hello3_OneClient_OthersStayInResp2(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var new3 = await RespClient.ConnectAsync(endpoint);
        using var old2 = await RespClient.ConnectAsync(endpoint);
        Assert.Equal(RespKind.Map, (await new3.CallAsync("HELLO", "3")).Kind);
        await new3.DoAsync("HSET", "h", "f", "v");
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal(RespKind.Map, (await new3.CallAsync("HGETALL", "h")).Kind);
            Assert.Equal(RespKind.Array, (await old2.CallAsync("HGETALL", "h")).Kind);
        }

        Assert.Equal(RespKind.Array, (await new3.CallAsync("HELLO", "2")).Kind);
        Assert.Equal(RespKind.Array, (await new3.CallAsync("HGETALL", "h")).Kind);
        Assert.StartsWith("-NOPROTO", (await new3.CallAsync("HELLO", "9")).Compact, StringComparison.Ordinal);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task SetName_TwoClients_EachKeepsItsOwn(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var a = await RespClient.ConnectAsync(endpoint);
        using var b = await RespClient.ConnectAsync(endpoint);
        await a.DoAsync("CLIENT", "SETNAME", "alice");
        Assert.Matches("^(_|\\$)$", (await b.CallAsync("CLIENT", "GETNAME")).Compact);
        await b.DoAsync("HELLO", "2", "SETNAME", "bob");
        Assert.Equal("$alice", (await a.CallAsync("CLIENT", "GETNAME")).Compact);
        Assert.Equal("$bob", (await b.CallAsync("CLIENT", "GETNAME")).Compact);
        Assert.NotEqual((await a.CallAsync("CLIENT", "ID")).Number, (await b.CallAsync("CLIENT", "ID")).Number);
        Assert.Equal("+RESET", (await a.CallAsync("RESET")).Compact);
        Assert.Matches("^(_|\\$)$", (await a.CallAsync("CLIENT", "GETNAME")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task ClientReply_OffAndSkip_SilenceOnlyThatClient(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var quiet = await RespClient.ConnectAsync(endpoint);
        using var other = await RespClient.ConnectAsync(endpoint);
        await quiet.SendAsync("CLIENT", "REPLY", "SKIP");
        await quiet.SendAsync("SET", "a", "1");
        await quiet.SendAsync("GET", "a");
        Assert.Equal("$1", (await quiet.ReadAsync()).Compact);
        await quiet.SendAsync("CLIENT", "REPLY", "OFF");
        for (int i = 0; i < 50; i++)
        {
            await quiet.SendAsync("INCR", "n");
            Assert.Equal("$1", (await other.CallAsync("GET", "a")).Compact);
        }

        await quiet.SendAsync("CLIENT", "REPLY", "ON");
        Assert.Equal("+OK", (await quiet.ReadAsync()).Compact);
        Assert.Equal("$50", (await quiet.CallAsync("GET", "n")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Pipeline_HundredThousandDeep_AnswersInOrder(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var client = await RespClient.ConnectAsync(endpoint);
        var bytes = new ArrayBufferWriter<byte>();
        for (int i = 0; i < 100_000; i++)
        {
            RespClient.Append(bytes, ["INCR", "n"]);
        }

        var sending = client.WriteAsync(bytes.WrittenMemory);
        for (int i = 1; i <= 100_000; i++)
        {
            Assert.Equal(i, (await client.ReadAsync()).Number);
        }

        await sending;
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Request_ByteByByte_IsAnswered(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var client = await RespClient.ConnectAsync(endpoint);
        var bytes = new ArrayBufferWriter<byte>();
        RespClient.Append(bytes, ["SET", "key", "a\r\nb"]);
        RespClient.Append(bytes, ["GET", "key"]);
        foreach (byte b in bytes.WrittenSpan.ToArray())
        {
            await client.WriteAsync(new[] { b });
        }

        Assert.Equal("+OK", (await client.ReadAsync()).Compact);
        Assert.Equal("$a\r\nb", (await client.ReadAsync()).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Inline_Commands_AreAnswered(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var client = await RespClient.ConnectAsync(endpoint);
        await client.WriteAsync(Encoding.ASCII.GetBytes("PING\r\nSET a \"x y\"\r\n\r\nGET a\nPING\r\n"));
        Assert.Equal("+PONG", (await client.ReadAsync()).Compact);
        Assert.Equal("+OK", (await client.ReadAsync()).Compact);
        Assert.Equal("$x y", (await client.ReadAsync()).Compact);
        Assert.Equal("+PONG", (await client.ReadAsync()).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Value_64Megabytes_GoesThereAndBackWhileOthersAreServed(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var big = await RespClient.ConnectAsync(endpoint);
        using var small = await RespClient.ConnectAsync(endpoint);
        string value = string.Create(64 << 20, 7, (span, seed) =>
        {
            var random = new Random(seed);
            for (int i = 0; i < span.Length; i++)
            {
                span[i] = (char)random.Next(256);
            }
        });
        var setting = Task.Run(() => big.CallAsync("SET", "big", value));
        for (int i = 0; i < 50; i++)
        {
            Assert.Equal("+PONG", (await small.CallAsync("PING")).Compact);
        }

        Assert.Equal("+OK", (await setting).Compact);
        var getting = Task.Run(() => big.CallAsync("GET", "big"));
        for (int i = 0; i < 50; i++)
        {
            Assert.Equal("+PONG", (await small.CallAsync("PING")).Compact);
        }

        Assert.True(string.Equals(value, (await getting).Text, StringComparison.Ordinal), "the same bytes come back");
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task SlowReader_ManyBigReplies_OthersAreServed(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var slow = await RespClient.ConnectAsync(endpoint);
        using var brisk = await RespClient.ConnectAsync(endpoint);
        await brisk.DoAsync("SET", "big", new string('b', 4 << 20));
        for (int i = 0; i < 20; i++)
        {
            await slow.SendAsync("GET", "big");
        }

        for (int i = 0; i < 300; i++)
        {
            Assert.Equal("+OK", (await brisk.CallAsync("SET", "k", $"{i}")).Compact);
            Assert.Equal($"${i}", (await brisk.CallAsync("GET", "k")).Compact);
        }

        for (int i = 0; i < 20; i++)
        {
            Assert.Equal(4 << 20, (await slow.ReadAsync()).Bytes.Length);
        }
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Client_VanishingInMidCommand_HarmsOnlyItself(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var other = await RespClient.ConnectAsync(endpoint);
        var bytes = new ArrayBufferWriter<byte>();
        RespClient.Append(bytes, ["INCR", "whole"]);
        RespClient.Append(bytes, ["SET", "half", "0123456789"]);
        int whole = bytes.WrittenCount - "*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$10\r\n0123456789\r\n".Length;
        for (int cut = whole; cut < bytes.WrittenCount; cut++)
        {
            using var vanishing = await RespClient.ConnectAsync(endpoint);
            await vanishing.WriteAsync(bytes.WrittenMemory[..cut]);
            await vanishing.ReadAsync();
            vanishing.Dispose();
            Assert.Equal("_", (await other.CallAsync("GET", "half")).Compact);
        }

        Assert.Equal($"${bytes.WrittenCount - whole}", (await other.CallAsync("GET", "whole")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Request_Malformed_EndsOnlyThatClient(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var other = await RespClient.ConnectAsync(endpoint);
        foreach (string bad in (string[])["*1\r\n$abc\r\n", "*x\r\n", "*2\r\n$3\r\nGET\r\n:1\r\n", "*1\r\n$-5\r\n",
            "*3\r\n$3\r\nSET\r\n$99999999999\r\n"])
        {
            using var client = await RespClient.ConnectAsync(endpoint);
            await client.DoAsync("SET", "before", "1");
            await client.WriteAsync(Encoding.ASCII.GetBytes(bad));
            Assert.StartsWith("-ERR Protocol error", (await client.ReadAsync()).Compact, StringComparison.Ordinal);
            Assert.True(await client.IsClosedWithinAsync(TimeSpan.FromSeconds(20)), bad);
            Assert.Equal("+PONG", (await other.CallAsync("PING")).Compact);
        }
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Quit_AfterPipelinedCommands_AnswersAllThenCloses(Target target)
    {
        var endpoint = await servers.EmptyAsync(target);
        using var client = await RespClient.ConnectAsync(endpoint);
        await client.SendAsync("SET", "a", "1");
        await client.SendAsync("INCR", "a");
        await client.SendAsync("QUIT");
        Assert.Equal("+OK", (await client.ReadAsync()).Compact);
        Assert.Equal(":2", (await client.ReadAsync()).Compact);
        Assert.Equal("+OK", (await client.ReadAsync()).Compact);
        Assert.True(await client.IsClosedWithinAsync(TimeSpan.FromSeconds(20)));
    }
}
