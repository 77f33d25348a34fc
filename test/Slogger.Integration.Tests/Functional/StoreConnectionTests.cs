// Connections to Redis that break, or are refused, alone: every request gets an answer or a closed connection, clients
// that are kept can go on with every kind of command, and no part of an abandoned transaction is done.
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

public sealed class StoreConnectionTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(30);

    [Fact]
    public async Task DedicatedConnection_KilledAlone_ItsBlockedRequestIsAnsweredAndTheClientGoesOn()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        using var client = await deployment.ConnectAsync();
        using var direct = await deployment.Redis.ConnectAsync();
        await client.DoAsync("DPR.WORLDLINE");
        await client.SendAsync("BLPOP", "nothing", "0");
        string id = "";
        await Eventually.AsyncTrue("BLPOP is blocked", Generous, async () =>
        {
            string list = (await direct.DoAsync("CLIENT", "LIST")).Text;
            id = list.Split('\n').FirstOrDefault(l => l.Contains("cmd=blpop", StringComparison.Ordinal))?.Split(' ')[0]["id=".Length..]
                ?? "";
            return id.Length > 0;
        });
        await direct.DoAsync("CLIENT", "KILL", "ID", id);

        Assert.StartsWith("-ERR SLOGGER", (await client.ReadAsync(Generous)).Compact, StringComparison.Ordinal);
        await GoesOnAsync(client);
    }

    [Fact]
    public async Task SharedConnection_KilledAlone_RequestsOnItAreAnsweredAndTheClientGoesOn()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        using var client = await deployment.ConnectAsync();
        using var plain = await deployment.ConnectAsync();
        using var direct = await deployment.Redis.ConnectAsync();
        await client.DoAsync("DPR.WORLDLINE");
        await plain.DoAsync("PING");
        await direct.DoAsync("CLIENT", "PAUSE", "60000", "WRITE");
        await client.SendAsync("SET", "a", "1");
        await plain.SendAsync("SET", "b", "1");
        await Eventually.AsyncTrue("both requests are held by the pause", Generous, async () =>
            !(await direct.DoAsync("INFO", "clients")).Text.Contains("blocked_clients:0", StringComparison.Ordinal));
        await direct.DoAsync("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
        await direct.DoAsync("CLIENT", "UNPAUSE");

        Assert.StartsWith("-ERR SLOGGER", (await client.ReadAsync(Generous)).Compact, StringComparison.Ordinal);
        Assert.True(await plain.IsClosedWithinAsync(Generous));
        await GoesOnAsync(client);
    }

    [Fact]
    public async Task BlockingRequest_AtAVersionBoundary_IsNotHeldBack()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        using var client = await deployment.ConnectAsync();
        using var other = await deployment.ConnectAsync();
        using var direct = await deployment.Redis.ConnectAsync();
        await client.DoAsync("CLIENT", "SETNAME", "held");
        await other.DoAsync("XADD", "stream", "1-0", "field", "1");
        // A pause of writes holds the marker of the next boundary, behind a write, on the shared connection: the boundary
        // stays under way.
        await direct.DoAsync("CLIENT", "PAUSE", "60000", "WRITE");
        await other.SendAsync("SET", "a", "1");
        await Task.Delay(200);
        await client.SendAsync("XREAD", "BLOCK", "0", "STREAMS", "stream", "1-0");
        await client.SendAsync("XREAD", "STREAMS", "stream", "0-0");
        await Eventually.AsyncTrue("XREAD is blocked", Generous, async () =>
            (await direct.DoAsync("CLIENT", "LIST")).Text.Split('\n').Any(l =>
                l.Contains("cmd=xread", StringComparison.Ordinal) && l.Contains("flags=b", StringComparison.Ordinal)
                    && l.Contains("name=held", StringComparison.Ordinal)));
        await direct.DoAsync("CLIENT", "UNPAUSE");
        Assert.Equal("+OK", (await other.ReadAsync(Generous)).Compact);

        await other.DoAsync("XADD", "stream", "2-0", "field", "2");
        Assert.Equal("[[$stream,[[$2-0,[$field,$2]]]]]", (await client.ReadAsync(Generous)).Compact);
        Assert.Equal("[[$stream,[[$1-0,[$field,$1]],[$2-0,[$field,$2]]]]]", (await client.ReadAsync(Generous)).Compact);
        await GoesOnAsync(client);
    }

    [Fact]
    public async Task LargeRequest_MalformedInTheMiddle_HarmsOnlyItself()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        using var other = await deployment.ConnectAsync();
        await other.DoAsync("PING");
        using var client = await deployment.ConnectAsync();
        await client.WriteAsync(System.Text.Encoding.ASCII.GetBytes(
            $"*4\r\n$3\r\nSET\r\n$1\r\na\r\n$1000000\r\n{new string('x', 1_000_000)}\r\nno length follows but something long enough\r\n"));
        Assert.StartsWith("-ERR Protocol error", (await client.ReadAsync(Generous)).Compact, StringComparison.Ordinal);
        Assert.True(await client.IsClosedWithinAsync(Generous));
        await GoesOnAsync(other);
    }

    [Fact]
    public async Task Transaction_UnderWayAtARollback_NoPartOfItIsDone()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("DPR.WORLDLINE");
        await client.DoAsync("MULTI");
        await client.DoAsync("SET", "a", "1");
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        await client.SendAsync("SET", "b", "1");
        await client.SendAsync("SET", "c", "1");
        await client.SendAsync("EXEC");
        RespValue notice = await client.ReadAsync(Generous);
        Assert.StartsWith("-ROLLBACK", notice.Compact, StringComparison.Ordinal);
        for (int i = 0; i < 2; i++)
        {
            Assert.StartsWith("-ERR SLOGGER not done", (await client.ReadAsync(Generous)).Compact, StringComparison.Ordinal);
        }
        Assert.Equal("+OK", (await client.ResumeAsync(notice)).Compact);
        Assert.Equal(":0", (await client.CallAsync("EXISTS", "a", "b", "c")).Compact);
        await GoesOnAsync(client);
    }

    [Fact]
    public async Task Transaction_BegunByTheRequestThatGetsTheNotice_NoPartOfItIsDone()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("DPR.WORLDLINE");
        await client.DoAsync("SET", "before", "1");
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        await client.SendAsync("MULTI");
        await client.SendAsync("SET", "a", "1");
        await client.SendAsync("EXEC");
        RespValue notice = await client.ReadAsync(Generous);
        Assert.StartsWith("-ROLLBACK", notice.Compact, StringComparison.Ordinal);
        for (int i = 0; i < 2; i++)
        {
            Assert.StartsWith("-ERR SLOGGER not done", (await client.ReadAsync(Generous)).Compact, StringComparison.Ordinal);
        }
        Assert.Equal("+OK", (await client.ResumeAsync(notice)).Compact);
        Assert.Equal(":0", (await client.CallAsync("EXISTS", "a")).Compact);
        await GoesOnAsync(client);
    }

    // Redis's Unix socket has a queue; behind its end a connection is refused at once, unlike with TCP.
    [Theory]
    [InlineData("")]
    [InlineData("tcp-backlog 16")]
    public async Task ManyClients_NeedConnectionsOfTheirOwnAtOnce_EachIsServedOrTold(string directive)
    {
        const int Clients = 1000;
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace,
            new ProxySetup(Attached: false) { Options = directive.Length == 0 ? [] : ["--redis-directive", directive] });
        await deployment.StartAsync();
        using var other = await deployment.ConnectAsync();
        await other.DoAsync("PING");
        int redis = SupervisedRedis.Find(deployment.DataDirectory) ?? throw new InvalidOperationException("no Redis");
        var clients = new List<RespClient>();
        try
        {
            ChildProcess.Suspend(redis);
            for (int i = 0; i < Clients; i++)
            {
                clients.Add(await deployment.ConnectAsync());
                await clients[^1].SendAsync("BLPOP", "list", "0");
            }

            await Task.Delay(300);
            ChildProcess.Resume(redis);
            await other.DoAsync(["RPUSH", "list", .. Enumerable.Range(0, Clients).Select(i => $"{i}")]);
            int told = 0;
            foreach (RespClient client in clients)
            {
                string reply = (await client.ReadAsync(Generous)).Compact;
                if (reply.StartsWith("-ERR SLOGGER Redis has too many new connections to accept", StringComparison.Ordinal)) { told++; }
                else { Assert.StartsWith("[$list,", reply, StringComparison.Ordinal); }
            }

            Assert.True(directive.Length > 0 ? told > 0 : told == 0, $"{told} were told to try again");
            Assert.Equal($":{told}", (await other.CallAsync("LLEN", "list")).Compact);
            await GoesOnAsync(other);
        }
        finally
        {
            ChildProcess.Resume(redis);
            foreach (RespClient client in clients) { client.Dispose(); }
        }
    }

    private static async Task<ProxyDeployment> AttachedAsync(Workspace workspace)
    {
        var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        return deployment;
    }

    /// <summary>On the shared connection, on one of its own, and to a commit.</summary>
    private static async Task GoesOnAsync(RespClient client)
    {
        Assert.Equal("+OK", (await client.CallAsync("SET", "k", "1")).Compact);
        await client.DoAsync("MULTI");
        await client.DoAsync("INCR", "k");
        Assert.Equal("[:2]", (await client.CallAsync("EXEC")).Compact);
        Assert.Equal("$2", (await client.CallAsync("GET", "k")).Compact);
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
    }
}
