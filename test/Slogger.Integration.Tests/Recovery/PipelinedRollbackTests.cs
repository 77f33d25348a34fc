// Requests that a client sent before it could read of a rollback: none of them is done, so whoever redoes all that is above
// `survived` does it once. (docs/reference/protocol.md, "After a recovery".)
using System.Buffers;
using System.Globalization;
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Sessions;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Recovery;

public sealed class PipelinedRollbackTests
{
    private const int Half = 10_000;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("log", false)]
    [InlineData("log", true)]
    [InlineData("bgsave", false)]
    public async Task Pipeline_RedisKilledInIt_WhatIsRedoneIsDoneOnce(string commit, bool attached)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: attached) { Commit = commit });
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        await CountThroughRollbackAsync(client, "n", deployment.KillRedisAsync, deployment.RecoverAsync);
    }

    [Fact]
    public async Task Pipeline_ToAnEmbeddedStoreThatGoesBack_WhatIsRedoneIsDoneOnce()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Embedded = 1 };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using RespClient client = await cluster.ConnectAsync(1);
        await CountThroughRollbackAsync(client, cluster.Key(1, "n"), () => cluster.KillRedisAsync(0), cluster.ServingAsync);
    }

    // The client sends on while the store goes back, and reads on only then: the last requests stand behind the notice for certain.
    private static async Task CountThroughRollbackAsync(RespClient client, string key, Func<Task> kill, Func<Task> recover)
    {
        const int Part = 1000;
        var part = new ArrayBufferWriter<byte>();
        for (int i = 0; i < Part; i++) { RespClient.Append(part, ["INCR", key]); }
        await client.DoAsync("DPR.WORLDLINE");
        for (int i = 0; i < 10; i++) { await client.WriteAsync(part.WrittenMemory); }
        for (int i = 0; i < Part; i++) { Assert.False((await client.ReadAsync()).IsError); }
        await kill();
        Task recovering = recover();
        int sent = 10 * Part;
        Task writing = Task.CompletedTask;
        while (!recovering.IsCompleted)
        {
            // A store that is away is sent no more than fits on the way.
            if (writing.IsCompleted)
            {
                await writing;
                writing = client.WriteAsync(part.WrittenMemory);
                sent += Part;
            }

            await Task.Delay(10);
        }

        await recovering;
        Task rest = writing.ContinueWith(_ => client.WriteAsync(part.WrittenMemory), TaskScheduler.Default).Unwrap();
        sent += Part;
        int answered = Part, errors = 0;
        RespValue? said = null;
        for (int i = answered; i < sent; i++)
        {
            RespValue reply = await client.ReadAsync(Generous);
            if (!reply.IsError)
            {
                Assert.True(said is null, $"request {i + 1} was done behind {said}: {reply}");
                answered++;
                continue;
            }

            if (said is null)
            {
                Assert.StartsWith("ROLLBACK ", reply.Text, StringComparison.Ordinal);
                said = reply;
                continue;
            }

            Assert.StartsWith("ERR SLOGGER ", reply.Text, StringComparison.Ordinal);
            errors++;
        }

        await rest;
        Assert.NotNull(said);
        Assert.True(errors >= Part - 1, $"only {errors} stood behind the notice");
        RollbackNotice notice = RollbackNotice.Parse(said.Text);
        Assert.InRange(notice.Survived, 0, answered);
        Assert.Equal("+OK", (await client.ResumeAsync(said)).Compact);
        long uncertain = notice.Uncertain.Sum(r => r.To - r.From + 1);
        RespValue found = await client.CallAsync("GET", key);
        long there = found.IsNull ? 0 : found.AsInteger();
        Assert.InRange(there, notice.Survived, notice.Survived + uncertain);
        Assert.Equal(sent, (await client.DoAsync("INCRBY", key, (sent - there).ToString(CultureInfo.InvariantCulture))).AsInteger());
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "50000")).Items[2].AsInteger());
    }

    [Fact]
    public async Task Notice_BeforeItIsConfirmed_NothingIsDoneWhateverIsSent()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        using var other = await deployment.ConnectAsync();
        await client.DoAsync("DPR.WORLDLINE");
        await client.DoAsync("SET", "k", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "50000")).Items[2].AsInteger());
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        string large = new('x', 1 << 20);

        // The first is too large to be waited for.
        RespValue notice = await client.CallAsync("SET", "large", large);
        Assert.StartsWith("ROLLBACK worldline=2 survived=1 uncertain=", notice.Text, StringComparison.Ordinal);
        string[][] refused =
        [
            ["SET", "k", "2"], ["SET", "large", large], ["EVAL", "return redis.call('set', 'k', '2')", "0", large], ["MULTI"],
                ["INCR", "k"], ["EXEC"], ["BLPOP", "none", "0"],
            ["SUBSCRIBE", "c"], ["MONITOR"], ["SELECT", "1"], ["HELLO", "3"], ["RESET"], ["CLIENT", "REPLY", "OFF"],
                ["CLIENT", "TRACKING", "ON"], ["WAITAOF", "1", "0", "0"],
            ["DPR.WAIT", "*", "0"], ["DPR.COMMITTED"], ["NOSUCH"], ["WATCH", "k"], ["CONFIG", "SET", "maxmemory", "0"],
                ["DEBUG", "SLEEP", "0"],
        ];
        var all = new ArrayBufferWriter<byte>();
        foreach (string[] request in refused) { RespClient.Append(all, request); }
        await client.WriteAsync(all.WrittenMemory);
        await client.WriteAsync("*0\r\n\r\nSET k 2\r\n"u8.ToArray());
        foreach (string request in (string[])[.. refused.Select(r => r[0]), "inline"])
        {
            RespValue reply = await client.ReadAsync();
            Assert.True(reply.IsError
                && reply.Text == "ERR SLOGGER not done: it came behind ROLLBACK worldline=2: send DPR.RESUME 2 when that has been read",
                $"{request}: {reply}");
        }

        // What is asked of the shard is answered, and says nothing for the connection.
        Assert.Equal(2, (await client.DoAsync("DPR.WORLDLINE")).AsInteger());
        Assert.Equal(2, (await client.DoAsync("DPR.CUT")).Items[0].AsInteger());
        Assert.Equal(22, (await client.DoAsync("DPR.HELLO", "1", SessionClient.NewId().ToString())).Items.Count);
        foreach (string line in (string[])["1", "3"])
        {
            Assert.StartsWith($"ERR SLOGGER this connection is in world-line 2, not in {line}",
                (await client.CallAsync("DPR.RESUME", line)).Text, StringComparison.Ordinal);
        }

        Assert.StartsWith("ERR SLOGGER not done", (await client.CallAsync("PING")).Text, StringComparison.Ordinal);
        Assert.Equal("$1", (await other.CallAsync("GET", "k")).Compact);
        Assert.Equal(":0", (await other.CallAsync("EXISTS", "large")).Compact);

        Assert.Equal("+OK", (await client.CallAsync("DPR.RESUME", "2")).Compact);
        Assert.Equal("+OK", (await client.CallAsync("DPR.RESUME", "2")).Compact);
        await client.DoAsync("MULTI");
        await client.DoAsync("INCR", "k");
        Assert.Equal("[:2]", (await client.CallAsync("EXEC")).Compact);
        // The notice and each refusal count as an operation; DPR.* does not.
        long operations = 1 + 1 + refused.Count(r => !r[0].StartsWith("DPR.", StringComparison.Ordinal)) + 1 + 1 + 3;
        Assert.Equal(operations, (await client.DoAsync("DPR.COMMITTED")).Items[2].AsInteger());
    }

    // A connection of its own at Redis is lost with the store: because a request waits there, keys are watched, or the client has logged
    // in. Who logged in as another user than the proxy's is not kept.
    [Theory]
    [InlineData("BLPOP none 0", true)]
    [InlineData("WATCH k", true)]
    [InlineData("AUTH correct-horse", true)]
    [InlineData("AUTH other pony", false)]
    public async Task Pipeline_OnAConnectionOfItsOwn_NothingIsDoneBehindTheNotice(string own, bool isKept)
    {
        const int Before = 1000;
        string? password = own.StartsWith("AUTH", StringComparison.Ordinal) ? "correct-horse" : null;
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { RedisPassword = password });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync(), setter = await ConnectAsync();
        if (password is not null)
        {
            await setter.DoAsync("ACL", "SETUSER", "other", "on", ">pony", "~*", "&*", "+@all");
            await client.DoAsync(own.Split(' '));
        }

        await client.DoAsync("DPR.WORLDLINE");
        await client.DoAsync("SET", "k", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "50000")).Items[2].AsInteger());
        int sent = 0;
        if (password is null)
        {
            await client.SendAsync(own.Split(' '));
            sent++;
        }

        if (own.StartsWith("BLPOP", StringComparison.Ordinal))
        {
            await Eventually.AsyncTrue("it waits at Redis", Generous,
                async () => (await setter.DoAsync("INFO", "clients")).Text.Contains("blocked_clients:1", StringComparison.Ordinal));
        }

        var part = new ArrayBufferWriter<byte>();
        for (int i = 0; i < Before; i++) { RespClient.Append(part, ["INCR", "k"]); }
        sent += Before;
        await client.WriteAsync(part.WrittenMemory);
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();

        // Nothing was read yet: all of this was sent by somebody who does not know.
        part.Clear();
        string[][] behind = [["SET", "behind", "1"], ["MULTI"], ["INCR", "behind"], ["EXEC"],
            ["EVAL", "return redis.call('set', 'behind', '2')", "0"], own.Split(' '), ["INCR", "behind"]];
        foreach (string[] request in behind) { RespClient.Append(part, request); }
        sent += behind.Length;
        int answered = 0;
        RespValue? said = null;
        try
        {
            await client.WriteAsync(part.WrittenMemory);
            for (int i = 0; i < sent; i++)
            {
                RespValue reply = await client.ReadAsync(Generous);
                if (!reply.IsError)
                {
                    Assert.True(said is null, $"request {i + 1} was done behind {said}: {reply}");
                    answered++;
                    continue;
                }

                Assert.StartsWith(said is null ? "ROLLBACK worldline=2 survived=" : "ERR SLOGGER ", reply.Text, StringComparison.Ordinal);
                said ??= reply;
            }

            Assert.True(isKept, "it logged in as another user, and was kept");
        }
        catch (ConnectionLostException) when (!isKept)
        {
            // Whatever it had sent and not read is uncertain.
        }

        using RespClient late = await ConnectAsync();
        Assert.Equal(":0", (await late.CallAsync("EXISTS", "behind")).Compact);
        long found = (await late.CallAsync("GET", "k")).AsInteger();
        if (!isKept) { return; }
        Assert.NotNull(said);
        if (own.StartsWith("BLPOP", StringComparison.Ordinal)) { Assert.Equal((0, 1), (answered, found)); }
        RollbackNotice notice = RollbackNotice.Parse(said.Text);
        Assert.InRange(found, 1, answered + 1 + notice.Uncertain.Sum(r => r.To - r.From + 1));
        Assert.Equal("+OK", (await client.ResumeAsync(said)).Compact);
        Assert.Equal(found + 1, (await client.DoAsync("INCR", "k")).AsInteger());

        async Task<RespClient> ConnectAsync()
        {
            RespClient connected = await deployment.ConnectAsync();
            if (password is not null) { await connected.DoAsync("AUTH", password); }
            return connected;
        }
    }

    // Requests need connections, more than are at hand, and none can be made: the name of Redis's socket is away. Redis lives, so nobody
    // but such a request finds out. (Killed, it might be missed by another thread first, and the requests would wait for that.)
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task RequestThatNeedsAConnection_NoneCanBeMade_WaitsUntilItIsKnownWhatIsLost(bool isLost)
    {
        const int Clients = 12;
        using var workspace = new Workspace();
        string socket = workspace.File("redis.sock");
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { RedisSocket = socket });
        await deployment.StartAsync();
        var clients = new List<RespClient>();
        try
        {
            for (int i = 0; i < Clients; i++)
            {
                clients.Add(await deployment.ConnectAsync());
                await clients[i].DoAsync("DPR.WORLDLINE");
                await clients[i].DoAsync("INCR", "k");
            }

            Assert.Equal(1, (await clients[^1].DoAsync("DPR.WAIT", "*", "50000")).Items[2].AsInteger());
            File.Move(socket, socket + ".away");
            foreach (RespClient client in clients) { await client.SendAsync("WATCH", "k"); }
            await Eventually.AsyncTrue("a request has no connection", Generous,
                () => Task.FromResult(deployment.Proxy.Tail().Contains("cannot connect to Redis", StringComparison.Ordinal)));
            if (isLost)
            {
                await deployment.KillRedisAsync();
                await deployment.RecoverAsync();
            }
            else
            {
                File.Move(socket + ".away", socket);
            }

            foreach (RespClient client in clients)
            {
                RespValue reply = await client.ReadAsync(Generous);
                // A connection was at hand for the first ones. What they watch is lost with it, and whether WATCH itself was committed is
                // open.
                bool hadConnection = isLost && reply.Text == "OK";
                if (hadConnection) { reply = await client.CallAsync("PING"); }
                Assert.StartsWith(isLost ? $"ROLLBACK worldline=2 survived={(hadConnection ? "" : "1 ")}" : "OK", reply.Text,
                    StringComparison.Ordinal);
            }
        }
        finally
        {
            foreach (RespClient client in clients) { client.Dispose(); }
        }
    }

    [Fact]
    public async Task Rollback_AgainBeforeTheFirstIsConfirmed_IsToldWithWhatSurvivedTheFirst()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("DPR.WORLDLINE");
        await client.DoAsync("SET", "k", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "50000")).Items[2].AsInteger());
        for (int line = 2; line <= 4; line++)
        {
            await deployment.KillRedisAsync();
            await deployment.RecoverAsync();
            // From the second time on it names a world-line that is over.
            RespValue told = await client.CallAsync("DPR.RESUME", (line - 1).ToString(CultureInfo.InvariantCulture));
            Assert.StartsWith($"ROLLBACK worldline={line} survived=1 uncertain=", told.Text, StringComparison.Ordinal);
            for (int i = 0; i < 5; i++) { Assert.True((await client.CallAsync("INCR", "k")).IsError); }
        }

        Assert.Equal("+OK", (await client.CallAsync("DPR.RESUME", "4")).Compact);
        Assert.Equal("$1", (await client.CallAsync("GET", "k")).Compact);
        Assert.Equal(16 + 1, (await client.DoAsync("DPR.COMMITTED")).Items[2].AsInteger());

        // Confirmed by the header of a batch, too; and QUIT needs no confirmation.
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        Assert.StartsWith("ROLLBACK worldline=5", (await client.CallAsync("PING")).Text, StringComparison.Ordinal);
        SessionId session = SessionClient.NewId();
        await client.WriteAsync(SessionClient.Bytes(SessionClient.HeaderOf(session, 5, 0, 1, 1), ["INCR", "k"]));
        Assert.Equal("+OK", (await client.ReadAsync()).Compact);
        Assert.Equal(":2", (await client.ReadAsync()).Compact);
        await client.ReadAsync();
        Assert.Equal(":3", (await client.CallAsync("INCR", "k")).Compact);
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        Assert.StartsWith("ROLLBACK worldline=6", (await client.CallAsync("PING")).Text, StringComparison.Ordinal);
        Assert.Equal("+OK", (await client.CallAsync("QUIT")).Compact);
        Assert.True(await client.IsClosedWithinAsync(Generous));
    }

    // Its session names the new world-line, having heard of it elsewhere; the connection has not been told. What is on its way is answered
    // first.
    [Theory]
    [InlineData(3)]
    [InlineData(1 << 20)]
    public async Task Notice_BehindABatchOnItsWay_ComesBehindItsReplies(int bytes)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("DPR.WORLDLINE");
        await client.DoAsync("SET", "k", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "50000")).Items[2].AsInteger());
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        byte[] batch = SessionClient.Bytes(SessionClient.HeaderOf(SessionClient.NewId(), 2, 0, 1, 3), ["INCR", "k"],
            ["EVAL", "for i = 1, 100000000 do end", "0"], ["GET", "k"]);
        var behind = new ArrayBufferWriter<byte>();
        RespClient.Append(behind, ["SET", "k", new('x', bytes)]);
        await client.WriteAsync((byte[])[.. batch, .. behind.WrittenSpan]);
        foreach (string expected in (string[])["+OK", ":2", "_", "$2"]) { Assert.Equal(expected, (await client.ReadAsync()).Compact); }
        Assert.Equal(2, (await client.ReadAsync()).Items[0].AsInteger());
        Assert.StartsWith("ROLLBACK worldline=2 survived=1 uncertain=", (await client.ReadAsync()).Text, StringComparison.Ordinal);
        Assert.StartsWith("ERR SLOGGER not done", (await client.CallAsync("INCR", "k")).Text, StringComparison.Ordinal);
        Assert.Equal("+OK", (await client.CallAsync("DPR.RESUME", "2")).Compact);
        Assert.Equal(":3", (await client.CallAsync("INCR", "k")).Compact);
    }

    // It knows of no DPR.RESUME, so its connection ends; what it has sent behind the notice is not done.
    [Fact]
    public async Task PlainPipeline_OnRollbackError_IsToldAndClosedAndNothingBehindIsDone()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Options = ["--on-rollback", "error"] });
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        using var idle = await deployment.ConnectAsync();
        using var muted = await deployment.ConnectAsync();
        await muted.DoAsync("DPR.WORLDLINE");
        await muted.DoAsync("SET", "muted", "0");
        await muted.SendAsync("CLIENT", "REPLY", "OFF");
        await idle.DoAsync("SET", "idle", "1");
        await deployment.WaitCommittedAsync();
        var half = new ArrayBufferWriter<byte>();
        for (int i = 0; i < Half; i++) { RespClient.Append(half, ["INCR", "n"]); }
        await client.WriteAsync(half.WrittenMemory);
        for (int i = 0; i < 1000; i++) { Assert.False((await client.ReadAsync()).IsError); }
        await deployment.KillRedisAsync();
        try { await client.WriteAsync(half.WrittenMemory); }
        catch (ConnectionLostException) { /* Closed already. */ }

        await deployment.RecoverAsync();
        RespValue? said = null;
        try
        {
            while (true)
            {
                RespValue reply = await client.ReadAsync(Generous);
                if (reply.IsError && reply.Text.StartsWith("ROLLBACK ", StringComparison.Ordinal)) { said = reply; }
                else { Assert.Equal(said is not null, reply.IsError); }
            }
        }
        catch (ConnectionLostException)
        {
            Assert.NotNull(said);
        }

        await idle.SendAsync("SET", "idle", "2");
        await idle.SendAsync("SET", "idle", "3");
        Assert.StartsWith("ROLLBACK worldline=2 survived=1", (await idle.ReadAsync()).Text, StringComparison.Ordinal);
        Assert.True(await idle.IsClosedWithinAsync(Generous));
        // Who has switched replies off cannot be told.
        Assert.True(await muted.IsClosedWithinAsync(Generous));
        using var other = await deployment.ConnectAsync();
        Assert.Equal("$1", (await other.CallAsync("GET", "idle")).Compact);
        RollbackNotice notice = RollbackNotice.Parse(said!.Text);
        RespValue found = await other.CallAsync("GET", "n");
        Assert.InRange(found.IsNull ? 0 : found.AsInteger(), notice.Survived,
            notice.Survived + notice.Uncertain.Sum(r => r.To - r.From + 1));
    }
}
