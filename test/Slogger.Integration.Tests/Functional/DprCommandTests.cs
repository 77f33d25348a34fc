// The DPR.* commands and the stock idioms mapped to them, with their reply shapes.
using System.Diagnostics;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

public sealed class DprCommandTests(Servers servers) : IClassFixture<Servers>
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(20);

    [Fact]
    public async Task Committed_FreshConnection_StartsAtZero()
    {
        using var client = await ClientAsync();
        var reply = await client.DoAsync("DPR.COMMITTED");
        Assert.Equal(4, reply.Items.Count);
        Assert.True(reply.Items[0].AsInteger() >= 1, "world-lines start at 1");
        Assert.Equal((0, 0), (reply.Items[1].AsInteger(), reply.Items[2].AsInteger()));
    }

    [Fact]
    public async Task Sequence_EveryCommandButDpr_CountsOne()
    {
        using var client = await ClientAsync();
        await client.DoAsync("SET", "a", "1");
        await client.DoAsync("GET", "a");
        await client.DoAsync("DPR.CUT");
        await client.DoAsync("DPR.WORLDLINE");
        await client.DoAsync("MULTI");
        await client.DoAsync("INCR", "a");
        await client.DoAsync("EXEC");
        await client.CallAsync("NOSUCHCOMMAND");
        await client.DoAsync("SELECT", "1");
        var reply = await client.DoAsync("DPR.COMMITTED");
        Assert.Equal(7, reply.Items[2].AsInteger());
        Assert.InRange(reply.Items[1].AsInteger(), 0, 7);
    }

    [Fact]
    public async Task Wait_Star_ReturnsWhenEverythingIsCommitted()
    {
        using var client = await ClientAsync();
        for (int i = 0; i < 10; i++)
        {
            await client.SendAsync("INCR", "n");
        }

        await client.SendAsync("DPR.WAIT", "*", "20000");
        await client.SendAsync("GET", "n");
        for (int i = 1; i <= 10; i++)
        {
            Assert.Equal(i, (await client.ReadAsync()).Number);
        }

        var waited = await client.ReadAsync();
        Assert.Equal("$10", (await client.ReadAsync()).Compact);
        Assert.Equal(3, waited.Items.Count);
        Assert.True(waited.Items[1].AsInteger() >= 10, waited.ToString());
        Assert.Equal(1, waited.Items[2].AsInteger());
        var committed = await client.DoAsync("DPR.COMMITTED");
        Assert.True(committed.Items[1].AsInteger() >= 10, committed.ToString());
    }

    [Fact]
    public async Task Wait_OneSequence_NeedNotWaitForLaterOnes()
    {
        using var client = await ClientAsync();
        await client.DoAsync("SET", "a", "1");
        await client.DoAsync("SET", "b", "1");
        var reply = await client.DoAsync("DPR.WAIT", "1", "20000");
        Assert.True(reply.Items[1].AsInteger() >= 1, reply.ToString());
        Assert.Equal(1, reply.Items[2].AsInteger());
    }

    [Fact]
    public async Task Wait_FromSharedAndDedicated_BothReachTheirCommit()
    {
        using var client = await ClientAsync();
        for (int i = 0; i < 5; i++)
        {
            await client.DoAsync("MULTI");
            await client.DoAsync("INCR", "n");
            await client.DoAsync("EXEC");
            var reply = await client.DoAsync("DPR.WAIT", "*", "20000");
            Assert.Equal(1, reply.Items[2].AsInteger());
            await client.DoAsync("INCR", "n");
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
        }
    }

    [Fact]
    public async Task Wait_WhileAnotherClientIsBlocked_IsNotHeldUp()
    {
        using var blocked = await ClientAsync();
        using var client = await RespClient.ConnectAsync((await servers.ProxyAsync()).Endpoint);
        await blocked.SendAsync("BLPOP", "nothing", "0");
        await client.DoAsync("SET", "a", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
        await client.DoAsync("RPUSH", "nothing", "x");
        Assert.Equal("[$nothing,$x]", (await blocked.ReadAsync()).Compact);
        Assert.Equal(1, (await blocked.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
    }

    [Theory]
    [InlineData("DPR.WAIT")]
    [InlineData("DPR.WAIT", "*")]
    [InlineData("DPR.WAIT", "x", "10")]
    [InlineData("DPR.WAIT", "*", "soon")]
    [InlineData("DPR.WAIT", "*", "-1")]
    [InlineData("DPR.NOSUCH")]
    [InlineData("DPR.CUT", "too", "many")]
    [InlineData("DPR.RESUME")]
    [InlineData("DPR.RESUME", "0")]
    [InlineData("DPR.RESUME", "x")]
    [InlineData("DPR.RESUME", "99")]
    public async Task Dpr_BadArguments_AreAnErrorAndNothingMore(params string[] command)
    {
        using var client = await ClientAsync();
        Assert.True((await client.CallAsync(command)).IsError);
        Assert.Equal("+PONG", (await client.CallAsync("PING")).Compact);
    }

    [Fact]
    public async Task Cut_WhileIdle_MovesOnAndNeverBack()
    {
        using var client = await ClientAsync();
        var first = await client.DoAsync("DPR.CUT");
        Assert.Equal(2, first.Items.Count);
        Assert.Equal(first.Items[0].AsInteger(), (await client.DoAsync("DPR.WORLDLINE")).Number);
        long last = first.Items[1].AsInteger();
        await Eventually.AsyncTrue("the cut has moved on by 20 versions", Generous, async () =>
        {
            long now = (await client.DoAsync("DPR.CUT")).Items[1].AsInteger();
            Assert.True(now >= last, $"{now} after {last}");
            last = now;
            return now >= first.Items[1].AsInteger() + 20;
        });
    }

    [Fact]
    public async Task WaitAof_OneLocal_MeansCommitted()
    {
        using var client = await ClientAsync();
        await client.DoAsync("SET", "a", "1");
        Assert.Equal("[:1,:0]", (await client.CallAsync("WAITAOF", "1", "0", "20000")).Compact);
        var reply = await client.DoAsync("DPR.COMMITTED");
        Assert.True(reply.Items[1].AsInteger() >= 1, reply.ToString());
        Assert.True((await client.CallAsync("WAITAOF", "1", "0")).IsError);
    }

    [Fact]
    public async Task Info_Dpr_ListsNamesAndValues()
    {
        using var client = await ClientAsync();
        string info = (await client.DoAsync("DPR.INFO")).Text;
        Assert.All(info.Split('\n', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries).Where(l => !l.StartsWith('#')),
            line => Assert.Matches("^[a-z_0-9]+:.*$", line));
        Assert.Contains("# Dpr", (await client.DoAsync("INFO")).Text, StringComparison.Ordinal);
        Assert.Contains("# Dpr", (await client.DoAsync("INFO", "dpr")).Text, StringComparison.Ordinal);
        Assert.DoesNotContain("spublish", (await client.DoAsync("INFO", "commandstats")).Text, StringComparison.OrdinalIgnoreCase);
    }

    [Fact]
    public async Task SlowLogAndStatistics_OfSeconds_HoldClientsCommandsOnly()
    {
        // The proxy has its guard answer each second and whenever a connection is made, and tells Redis what it has received of the stream.
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        using var client = await RespClient.ConnectAsync(deployment.Endpoint);
        using var direct = await RespClient.ConnectAsync(deployment.Redis.Endpoint);
        await direct.DoAsync("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "100000");
        await client.DoAsync("SLOWLOG", "RESET");
        await client.DoAsync("CONFIG", "RESETSTAT");
        int pings = 0;
        for (var time = Stopwatch.StartNew(); time.Elapsed < TimeSpan.FromSeconds(3); pings++)
        {
            await client.DoAsync("PING");
            // Its rights are asked for with a PING.
            await client.DoAsync("DPR.INFO");
            using var other = await RespClient.ConnectAsync(deployment.Endpoint);
            await other.DoAsync("eCHO", "x");
            await other.DoAsync("SUBSCRIBE", "c");
            await Task.Delay(20);
        }
        string statistics = (await client.DoAsync("INFO", "commandstats")).Text;
        RespValue[] all = [.. (await direct.DoAsync("SLOWLOG", "GET", "-1")).Items], shown =
            [.. (await client.DoAsync("SLOWLOG", "GET", "-1")).Items];
        await direct.DoAsync("CONFIG", "SET", "slowlog-log-slower-than", "10000", "slowlog-max-len", "128");
        Assert.True(Named(all, "pING") >= 3 + pings && Named(all, "rEPLCONF") >= 2, "the proxy did nothing of its own");
        Assert.Equal([pings, pings, pings], [Named(shown, "PING"), Named(shown, "ECHO"), Named(shown, "SUBSCRIBE")]);
        // And what this test has asked for itself.
        Assert.Equal(3 * pings + 4, shown.Length);
        Assert.Contains($"cmdstat_ping:calls={pings},", statistics, StringComparison.Ordinal);
        Assert.DoesNotContain("cmdstat_replconf", statistics, StringComparison.Ordinal);
    }

    private static int Named(RespValue[] entries, string name) => entries.Count(e => e.Items[3].Items[0].Text == name);

    [Theory]
    [InlineData("REPLICAOF", "127.0.0.1", "1")]
    [InlineData("SLAVEOF", "NO", "ONE")]
    [InlineData("PSYNC", "?", "-1")]
    [InlineData("SYNC")]
    [InlineData("REPLCONF", "listening-port", "1")]
    [InlineData("SHUTDOWN", "NOSAVE")]
    [InlineData("DEBUG", "CHANGE-REPL-ID")]
    [InlineData("CONFIG", "SET", "client-output-buffer-limit", "replica 1 1 1")]
    public async Task Subversion_OfTheProxy_IsRefusedWithAReason(params string[] command)
    {
        using var client = await ClientAsync();
        var reply = await client.CallAsync(command);
        Assert.True(reply.IsError, reply.ToString());
        Assert.True(reply.Text.Length > 20, "the error says why: " + reply);
        Assert.Equal("+PONG", (await client.CallAsync("PING")).Compact);
        Assert.Contains("role:master", (await client.DoAsync("INFO", "replication")).Text, StringComparison.Ordinal);
    }

    private async Task<RespClient> ClientAsync() => await RespClient.ConnectAsync(await servers.EmptyAsync(Target.Proxy));
}
