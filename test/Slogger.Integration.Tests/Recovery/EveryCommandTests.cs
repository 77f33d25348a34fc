// Whatever clients do, the log holds it: after a loss of everything in memory the store is what it was, as a whole.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Recovery;

public sealed class EveryCommandTests(ITestOutputHelper output)
{
    private const int Clients = 4;

    [Theory]
    [InlineData(false, false)]
    [InlineData(true, false)]
    [InlineData(true, true)]
    public async Task Commands_OfEveryFamily_AreAllThereAfterRedisAndProxyDied(bool attached, bool evicting)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: attached));
        await deployment.StartAsync();
        int seed = Random.Shared.Next();
        output.WriteLine($"seed {seed}");
        long evicted = 0;
        for (int round = 0; round < 3; round++)
        {
            evicted += await LoadAsync(deployment, seed + (round * Clients), evicting);
            string before = await StateAsync(deployment);
            if (round != 1) { deployment.Proxy.KillHard(); }
            await deployment.KillRedisAsync();
            await deployment.RecoverAsync();
            Assert.Equal(before, await StateAsync(deployment));
        }
        Assert.Equal(evicting, evicted > 0);
    }

    /// <summary>Runs clients with random commands; returns how many keys were evicted.</summary>
    private static async Task<long> LoadAsync(ProxyDeployment deployment, int seed, bool evicting)
    {
        using var first = await deployment.ConnectAsync();
        await first.DoAsync("FUNCTION", "LOAD", "REPLACE", RandomCommands.Library);
        string memory = (await first.DoAsync("INFO", "memory")).Text;
        long used = Number(memory, "used_memory") - Number(memory, "mem_not_counted_for_evict");
        await first.DoAsync("CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", evicting ? $"{used + 100_000}" : "0");
        await Task.WhenAll(Enumerable.Range(seed, Clients).Select(async s =>
        {
            using var client = await deployment.ConnectAsync();
            if (s % 2 == 0) { await client.DoAsync("HELLO", "3"); }
            await RunAsync(client, s, 4000);
        }));
        await first.DoAsync("CONFIG", "SET", "maxmemory", "0");
        return Number((await first.DoAsync("INFO", "stats")).Text, "evicted_keys");
    }

    // Sends some commands and reads their replies, whatever they are.
    private static async Task RunAsync(RespClient client, int seed, int count)
    {
        var commands = new RandomCommands(seed);
        var random = new Random(seed);
        for (int i = 0; i < count;)
        {
            var batch = Enumerable.Range(0, random.Next(1, 20)).SelectMany(_ => commands.Next()).ToList();
            foreach (string[] command in batch) { await client.SendAsync(command); }
            for (int k = 0; k < batch.Count; k++) { await client.ReadAsync(); }
            i += batch.Count;
        }
    }

    private static long Number(string info, string field) =>
        long.Parse(info.Split("\r\n").Single(l => l.StartsWith(field + ":", StringComparison.Ordinal))[(field.Length + 1)..],
            CultureInfo.InvariantCulture);

    /// <summary>What the store holds, once short lives are over and everything is committed.</summary>
    private static async Task<string> StateAsync(ProxyDeployment deployment)
    {
        using var client = await deployment.ConnectAsync();
        for (int quiet = 0; quiet < 3;)
        {
            // Expired keys are there until they are looked for; a scan looks at each.
            for (int database = 0; database < 4; database++)
            {
                await client.DoAsync("SELECT", $"{database}");
                foreach (var key in (await client.DoAsync("KEYS", "*")).Items) { await client.DoAsync("EXISTS", key.Text); }
            }
            bool expiring = (await client.DoAsync("EVAL",
                "for d = 0, 3 do redis.call('SELECT', d) for _, k in ipairs(redis.call('KEYS', '*')) do local t = redis.call('PTTL', k) "
                    + "if t >= 0 and t < 100000 then return 1 end end end return 0",
                "0")).AsInteger() == 1;
            quiet = expiring ? 0 : quiet + 1;
            await Task.Delay(30);
        }
        await client.DoAsync("DEL", "no such key"); // Its version is not below that of anything before it.
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "30000")).Items[2].AsInteger());
        string functions = (await client.DoAsync("FUNCTION", "LIST", "WITHCODE")).Compact;
        return (await client.DoAsync("DEBUG", "DIGEST")).Text + functions;
    }
}
