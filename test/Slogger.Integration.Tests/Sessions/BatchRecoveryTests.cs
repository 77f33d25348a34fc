// A session over a Redis that is killed: what Core's ClientSession says survived, from nothing but the versions of the batches'
// replies and the branch in the refusal, is what is in the restored store.
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sessions;

public sealed class BatchRecoveryTests
{
    private const int Window = 2000;
    private static readonly ShardId Zero = new(0);
    private static readonly string[] s_list = ["RPUSH", "list"];

    [Theory]
    [InlineData("5ms", false)]
    [InlineData("1ms", false)]
    [InlineData("20ms", true)]
    public async Task Session_WhoseRedisIsKilled_KnowsExactlyWhatSurvived(string interval, bool attached)
    {
        const int seed = 20260802, rounds = 6;
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(attached, VersionInterval: interval));
        await deployment.StartAsync();
        SessionId id = SessionClient.NewId();
        ClientSession? session = null;
        HashSet<long> inStore = [];
        long lostInAll = 0;
        for (int round = 0; round < rounds; round++)
        {
            using var client = await SessionClient.ConnectAsync(deployment.Endpoint);
            session ??= new(id, new WorldLine((await client.HelloAsync(id))["worldline"].Number),
                new ClientSessionOptions { WindowMax = Window });
            long begun = session.Begun.Number;
            await LoadAsync(client, session, random, killAt: begun + random.Next(500, 5000), async () =>
            {
                // A header that comes while there is no Redis waits for one.
                await deployment.KillRedisAsync();
                if (attached) { await deployment.Redis.RestartAsync(); }
            });
            List<SequenceRange> uncertain = [];
            session.OnConnectionLost(Zero, uncertain);
            ClientRollback rollback = await RollBackAsync(deployment, session, random.Next(2) == 0);
            lostInAll += rollback.Lost.Sum(r => r.Count);

            using var plain = await deployment.ConnectAsync();
            long[] values = [.. (await plain.DoAsync("LRANGE", "list", "0", "-1")).Items.Select(i => i.AsInteger())];
            Assert.Equal(values.Order(), values);
            HashSet<long> now = [.. values];
            Assert.True(inStore.IsSubsetOf(now), "what had survived before is still there");
            inStore = now;
            for (long n = begun + 1; n <= session.Begun.Number; n++)
            {
                bool isUncertain = uncertain.Concat(rollback.Uncertain).Concat(rollback.Exceptions.Select(e => e.Range))
                    .Any(r => n >= r.First.Number && n <= r.Last.Number);
                bool isLost = rollback.Lost.Any(r => n >= r.First.Number && n <= r.Last.Number);
                if (isUncertain) { continue; }
                Assert.True(now.Contains(n) == !isLost,
                    $"round {round}, operation {n}: survived {rollback.Survived}, is it there: {now.Contains(n)}, world-line "
                        + $"{rollback.WorldLine} after version {session.AtLeast.Previous}\n{deployment.Tail()}");
            }
        }

        TestContext.Current.TestOutputHelper?.WriteLine($"{session!.Begun} operations, of which {lostInAll} were answered and lost");
    }

    [Fact]
    public async Task Connection_WithoutABatchOnItsWay_IsKeptAndItsNextBatchIsRefused()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using var client = await SessionClient.ConnectAsync(deployment.Endpoint);
        SessionId one = SessionClient.NewId(), two = SessionClient.NewId();
        var hello = await client.HelloAsync(one);
        long line = hello["worldline"].Number;
        await client.SendAsync(SessionClient.HeaderOf(one, line, 0, 1, 1), ["SET", "kept", "1"]);
        Assert.Null((await client.ReadAsync(1)).Refusal);
        Assert.Equal(1, (await client.Wire.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();

        // A session that begins now is in the new world-line; the connection's own operations get their notice all the same.
        await client.SendAsync(SessionClient.HeaderOf(two, line + 1, 0, 1, 1), ["GET", "kept"]);
        BatchOutcome outcome = await client.ReadAsync(1);
        Assert.Equal("$1", outcome.Replies[0].Compact);
        Assert.StartsWith("ROLLBACK worldline=", (await client.Wire.CallAsync("PING")).Text, StringComparison.Ordinal);
        Assert.StartsWith("ERR SLOGGER not done", (await client.Wire.CallAsync("PING")).Text, StringComparison.Ordinal);
        // The header of a batch says that it was read.
        await client.SendAsync(SessionClient.HeaderOf(two, line + 1, 0, 2, 1), ["GET", "kept"]);
        Assert.Equal("$1", (await client.ReadAsync(1)).Replies[0].Compact);
        Assert.Equal("+PONG", (await client.Wire.CallAsync("PING")).Compact);

        await client.SendAsync(SessionClient.HeaderOf(one, line, 0, 2, 2), ["SET", "within", "1"], ["PING"]);
        string refusal = (await client.ReadAsync(2)).Refusal!;
        Assert.Contains($"session={one} ", refusal, StringComparison.Ordinal);
        (WorldLine abandoned, WorldPoint branch) = SessionClient.RollbackOf(refusal);
        Assert.Equal((line, line + 1), (abandoned.Number, branch.WorldLine.Number));
        Assert.True(await client.Wire.IsClosedWithinAsync(TimeSpan.FromSeconds(20)));
        using var after = await deployment.ConnectAsync();
        Assert.Equal("_", (await after.DoAsync("GET", "within")).Compact);
    }

    [Fact]
    public async Task Session_ThatMissedTwoWorldLines_IsToldTheLowestBranch()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        SessionId id = SessionClient.NewId();
        List<long> branches = [];
        long line;
        using (var client = await SessionClient.ConnectAsync(deployment.Endpoint))
        {
            line = (await client.HelloAsync(id))["worldline"].Number;
        }
        for (int i = 0; i < 2; i++)
        {
            using (var writer = await deployment.ConnectAsync()) { await writer.DoAsync("INCR", "n"); }
            await deployment.KillRedisAsync();
            await deployment.RecoverAsync();
            branches.Add((await RefusalAsync(line + i)).Branch.Version.Number);
        }

        Assert.True(branches[1] > branches[0], $"{branches[1]} after {branches[0]}");
        WorldPoint told = (await RefusalAsync(line)).Branch;
        Assert.Equal((line + 2, branches[0]), (told.WorldLine.Number, told.Version.Number));
        // A proxy that starts anew has it from the metadata.
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        await deployment.RecoverAsync();
        Assert.Equal(told.Version, (await RefusalAsync(line)).Branch.Version);

        async Task<(WorldLine Abandoned, WorldPoint Branch)> RefusalAsync(long of)
        {
            using var client = await SessionClient.ConnectAsync(deployment.Endpoint);
            await client.SendAsync(SessionClient.HeaderOf(id, of, 0, 1, 1), ["PING"]);
            return SessionClient.RollbackOf((await client.ReadAsync(1)).Refusal!);
        }
    }

    // Batches as fast as they are answered, each operation with its number as its effect, until the connection ends.
    private static async Task LoadAsync(SessionClient client, ClientSession session, Random random, long killAt, Func<Task> kill)
    {
        var sent = new Queue<BatchHeader>();
        Task? killing = null;
        try
        {
            while (true)
            {
                int count = random.Next(1, 64);
                if (session.TryBegin(Zero, count, out BatchHeader header))
                {
                    // Now and then over a connection of its own.
                    bool dedicated = random.Next(10) == 0;
                    string[][] requests = [.. Enumerable.Range(0, count)
                        .Select(i => (header.First.Number + i).ToString(CultureInfo.InvariantCulture))
                        .Select(n => dedicated ? (string[])["EVAL", "return redis.call('RPUSH', 'list', ARGV[1])", "0", n]
                            : [.. s_list, n])];
                    sent.Enqueue(header);
                    await client.SendAsync(header, requests);
                    if (header.First.Number >= killAt) { killing ??= Task.Run(kill); }
                    if (sent.Count < 8) { continue; }
                }

                BatchHeader oldest = sent.Peek();
                BatchOutcome outcome = await client.ReadAsync(oldest.Count);
                if (outcome.Refusal is not null) { break; } // Begun after the recovery: to be told once more.
                Assert.Equal(ReplyOutcome.Completed, session.OnReply(Zero, oldest.First, outcome.Reply));
                sent.Dequeue();
            }
        }
        catch (ConnectionLostException)
        {
            // As was to be expected.
        }

        await killing!;
    }

    private static async Task<ClientRollback> RollBackAsync(ProxyDeployment deployment, ClientSession session, bool atOnce)
    {
        // A header that comes while the store is being restored waits for that.
        if (!atOnce) { await deployment.RecoverAsync(); }
        using var client = await SessionClient.ConnectAsync(deployment.Endpoint);
        Assert.True(session.TryBegin(Zero, 1, out BatchHeader header));
        await client.SendAsync(header, [[.. s_list, header.First.ToString()]]);
        string refusal = (await client.ReadAsync(1)).Refusal
            ?? throw new InvalidOperationException("a batch of the abandoned world-line was let through\n" + deployment.Tail());
        (WorldLine abandoned, WorldPoint branch) = SessionClient.RollbackOf(refusal);
        return session.OnRollback(abandoned, branch) ?? throw new InvalidOperationException($"no news: {refusal}");
    }
}
