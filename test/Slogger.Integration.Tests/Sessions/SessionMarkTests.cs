// A session that lost its proxy asks the next one how far it got: what it is told was executed is there, after a kill of the
// proxy all of it, after a rollback no more than what survived.
using System.Globalization;
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sessions;

public sealed class SessionMarkTests
{
    private const int BatchCount = 10;

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Session_WhoseProxyIsKilled_IsToldHowFarItGot(bool dedicated)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        SessionId id = SessionClient.NewId();
        long version;
        using (var client = await SessionClient.ConnectAsync(deployment.Endpoint))
        {
            var hello = await client.HelloAsync(id);
            Assert.DoesNotContain("last", hello.Keys);
            long line = hello["worldline"].Number;
            await client.SendAsync(SessionClient.HeaderOf(id, line, 0, 1, BatchCount), Pushes(1, dedicated));
            version = (await client.ReadAsync(BatchCount)).Reply.Versions.Span[^1].Version.Number;
            // The replies of this one are never read.
            await client.SendAsync(SessionClient.HeaderOf(id, line, version, 1 + BatchCount, BatchCount),
                Pushes(1 + BatchCount, dedicated));
            await AfterMarksAsync(deployment, client, dedicated);
            deployment.Proxy.KillHard();
        }

        await deployment.RecoverAsync();
        using var again = await SessionClient.ConnectAsync(deployment.Endpoint);
        var told = await again.HelloAsync(id);
        Assert.Equal(2 * BatchCount, told["last"].Number);
        Assert.InRange(told["last_version"].Number, version, told["open"].Number);
        Assert.Equal(2 * BatchCount, (await again.Wire.DoAsync("LLEN", "list")).Number);
        Assert.DoesNotContain("last", (await again.HelloAsync(SessionClient.NewId())).Keys);

        // It goes on where it was.
        await again.SendAsync(SessionClient.HeaderOf(id, told["worldline"].Number, told["last_version"].Number, 1 + (2 * BatchCount), 1),
            Pushes(1 + (2 * BatchCount), dedicated)[..1]);
        Assert.Equal(":21", (await again.ReadAsync(1)).Replies[0].Compact);
    }

    [Fact]
    public async Task Session_WhoseStoreIsRolledBack_IsToldNoMoreThanSurvived()
    {
        const int seed = 20261121;
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        SessionId id = SessionClient.NewId();
        long next = 1;
        for (int round = 0; round < 6; round++)
        {
            long committed;
            using (var client = await SessionClient.ConnectAsync(deployment.Endpoint))
            {
                long line = (await client.HelloAsync(id))["worldline"].Number;
                next = await RunAsync(client, id, line, next, random.Next(5, 40));
                committed = next - 1;
                Assert.Equal(1, (await client.Wire.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
                next = await RunAsync(client, id, line, next, random.Next(1, 60));
                await deployment.InjectAsync(new Fault(random.Next(2) == 0 ? "redis" : "both"), random);
            }

            await deployment.RecoverAsync();
            using var again = await SessionClient.ConnectAsync(deployment.Endpoint);
            long last = (await again.HelloAsync(id))["last"].Number;
            long[] values = [.. (await again.Wire.DoAsync("LRANGE", "list", "0", "-1")).Items.Select(i => i.AsInteger())];
            Assert.InRange(last, committed, values[^1]);
            Assert.Equal(0, last % BatchCount);
            next = ((values[^1] + BatchCount - 1) / BatchCount * BatchCount) + 1;
        }
    }

    private static async Task<long> RunAsync(SessionClient client, SessionId id, long line, long first, int batches)
    {
        for (int i = 0; i < batches; i++)
        {
            await client.SendAsync(SessionClient.HeaderOf(id, line, 0, first, BatchCount), Pushes(first, dedicated: false));
            Assert.Null((await client.ReadAsync(BatchCount)).Refusal);
            first += BatchCount;
        }

        return first;
    }

    private static string[][] Pushes(long first, bool dedicated) =>
    [
        .. Enumerable.Range(0, BatchCount).Select(i => (first + i).ToString(CultureInfo.InvariantCulture))
            .Select(n => dedicated ? (string[])["EVAL", "return redis.call('RPUSH', KEYS[1], ARGV[1])", "1", "list", n]
                : ["RPUSH", "list", n]),
    ];

    // The mark stands behind the batch on its connection, so what is answered on that connection later comes behind the mark.
    private static async Task AfterMarksAsync(ProxyDeployment deployment, SessionClient client, bool dedicated)
    {
        if (!dedicated)
        {
            using var other = await deployment.ConnectAsync();
            await Eventually.AsyncTrue("the batch was executed", TimeSpan.FromSeconds(20),
                async () => (await other.DoAsync("LLEN", "list")).Number == 2 * BatchCount);
            await other.DoAsync("SET", "behind", "1");
            return;
        }

        // The proxy hands a batch's replies out when all have come; one more request on that connection.
        await client.Wire.WriteAsync(Encode("EVAL", "return redis.call('SET', KEYS[1], '1')", "1", "behind"));
        using var direct = await deployment.ConnectAsync();
        await Eventually.AsyncTrue("the batch was executed", TimeSpan.FromSeconds(20),
            async () => (await direct.DoAsync("EXISTS", "behind")).Number == 1);
    }

    private static byte[] Encode(params string[] request)
    {
        var bytes = new System.Buffers.ArrayBufferWriter<byte>();
        RespClient.Append(bytes, request);
        return bytes.WrittenSpan.ToArray();
    }
}
