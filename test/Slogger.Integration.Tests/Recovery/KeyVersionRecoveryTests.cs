// Versions of keys outlive processes; those of writes that were undone are refused for ever.
using System.Runtime.CompilerServices;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class KeyVersionRecoveryTests
{
    private static async Task<(string Value, string Version)> GetAsync(RespClient client, string key)
    {
        RespValue pair = (await client.DoAsync("DPR.GETV", key)).Items[0];
        return (pair.Items[0].Text, pair.Items[1].Text);
    }

    private static async Task<bool> PutAsync(RespClient client, string key, string version, string value) =>
        (await client.DoAsync("DPR.CPUT", key, version, value)).Items[0].AsInteger() == 1;

    [Fact]
    public async Task Proxy_Killed_VersionsStayTrue()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        string before, after, field;
        using (RespClient client = await deployment.ConnectAsync())
        {
            await client.DoAsync("SELECT", "2");
            await client.DoAsync("MSET", "untouched", "1", "written", "1");
            await client.DoAsync("HSET", "hash", "f", "1");
            (_, before) = await GetAsync(client, "untouched");
            (_, after) = await GetAsync(client, "written");
            field = (await client.DoAsync("DPR.HGETV", "hash", "f")).Items[0].Items[1].Text;
            for (int i = 0; i < 1000; i++) { await client.DoAsync("SET", $"other{i}", "x"); }
            await client.DoAsync("DPR.WAIT", "*", "20000");
        }
        deployment.Proxy.KillHard();
        using (RespClient direct = await deployment.Redis.ConnectAsync())
        {
            await direct.DoAsync("SELECT", "2");
            // While there is no proxy.
            await direct.DoAsync("SET", "written", "2");
        }
        await deployment.StartProxyAsync();
        using (RespClient client = await deployment.ConnectAsync())
        {
            await client.DoAsync("SELECT", "2");
            Assert.Equal(("1", before), await GetAsync(client, "untouched"));
            Assert.False(await PutAsync(client, "written", after, "3"));
            Assert.Equal("$2", (await client.DoAsync("GET", "written")).Compact);
            Assert.True(await PutAsync(client, "untouched", before, "3"));
            Assert.Equal(1, (await client.DoAsync("DPR.HCPUT", "hash", "f", field, "2")).Items[0].AsInteger());
        }
    }

    // Versions of a second, so that what is written last is not committed when Redis dies, and is undone.
    [Fact]
    public async Task Redis_KilledWithARollback_VersionsAboveTheBranchAreRefusedForEver()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(VersionInterval: "1s"));
        await deployment.StartAsync();
        (string Old, string New) undone;
        string kept;
        using (RespClient client = await deployment.ConnectAsync())
        {
            await client.DoAsync("MSET", "undone", "committed", "kept", "committed");
            (_, string committed) = await GetAsync(client, "undone");
            (_, kept) = await GetAsync(client, "kept");
            await client.DoAsync("DPR.WAIT", "*", "20000");
            RespValue put = await client.DoAsync("DPR.CPUT", "undone", committed, "lost");
            Assert.Equal(1, put.Items[0].AsInteger());
            undone = (committed, put.Items[1].Text);
        }
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        using (RespClient client = await deployment.ConnectAsync())
        {
            Assert.True((await client.DoAsync("DPR.WORLDLINE")).AsInteger() > 1);
            (string value, string version) = await GetAsync(client, "undone");
            Assert.Equal("committed", value);
            // Also when the stream has come to that offset again, and far beyond it.
            for (int i = 0; i < 300; i++)
            {
                if (i % 50 == 0) { Assert.False(await PutAsync(client, "undone", undone.New, "wrong")); }
                await client.DoAsync("SET", "filler", new string('x', 100));
            }
            Assert.False(await PutAsync(client, "undone", undone.New, "wrong"));
            Assert.Equal(undone.Old, version);
            Assert.True(await PutAsync(client, "undone", undone.Old, "next"));
            Assert.False(await PutAsync(client, "undone", undone.Old, "wrong"));
            Assert.True(await PutAsync(client, "kept", kept, "next"));
        }
    }

    // Connections die under increments: of each that was answered with 1 the counter has one, of those that were not answered perhaps.
    [Fact]
    public async Task Redis_KilledAgainAndAgain_CommittedIncrementsAreThereOnce()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        long sure = 0, unsure = 0;
        for (int round = 0; round < 4; round++)
        {
            var done = new StrongBox<long>(sure);
            Task<(long Sure, long Unsure)>[] workers =
                [.. Enumerable.Range(0, 4).Select(_ => Task.Run(() => IncrementAsync(deployment, done)))];
            long enough = sure + 30;
            await Eventually.AsyncTrue($"{enough} increments are committed", TimeSpan.FromMinutes(2),
                () => Task.FromResult(Interlocked.Read(ref done.Value) >= enough));
            await deployment.KillRedisAsync();
            foreach ((long some, long perhaps) in await Task.WhenAll(workers)) { (sure, unsure) = (sure + some, unsure + perhaps); }
            await deployment.RecoverAsync();
        }
        using RespClient client = await deployment.ConnectAsync();
        long count = long.Parse((await client.DoAsync("GET", "counter")).Text, null);
        Assert.InRange(count, sure, sure + unsure);
    }

    // Until the connection ends. What is committed is sure: it is counted in what is done, by all workers, too.
    private static async Task<(long Sure, long Unsure)> IncrementAsync(ProxyDeployment deployment, StrongBox<long> done)
    {
        long sure = 0, unsure = 0;
        try
        {
            using RespClient client = await deployment.ConnectAsync();
            while (true)
            {
                RespValue read = await client.CallAsync("DPR.GETV", "counter");
                if (read.IsError) { return (sure, unsure); }
                RespValue pair = read.Items[0];
                long next = (pair.Items[0].IsNull ? 0 : long.Parse(pair.Items[0].Text, null)) + 1;
                unsure++;
                RespValue put = await client.CallAsync("DPR.CPUT", "counter", pair.Items[1].Text, $"{next}");
                if (put.IsError) { return (sure, unsure); }
                if (put.Items[0].AsInteger() == 0)
                {
                    unsure--;
                    continue;
                }
                RespValue wait = await client.CallAsync("DPR.WAIT", "*", "20000");
                if (wait.IsError || wait.Items[2].AsInteger() == 0) { return (sure, unsure); }
                (sure, unsure) = (sure + 1, unsure - 1);
                Interlocked.Increment(ref done.Value);
            }
        }
        catch (Exception e) when (e is IOException or System.Net.Sockets.SocketException or TimeoutException)
        {
            return (sure, unsure);
        }
    }
}
