// With committed replies nothing that a client was told is lost: the proxy and its Redis are killed under load, again and again, and all
// that was answered is there, and all that was read.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class CommittedRepliesTests
{
    private const int Rounds = 20, PipelineDepth = 16;
    private const string Script = "redis.call('SET', KEYS[1] .. ':copy', ARGV[1]) return redis.call('INCR', KEYS[1])";

    [Fact]
    public async Task Replies_Committed_ProxyAndRedisKilled_NothingThatWasToldIsLost()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(VersionInterval: "1ms")
        {
            Options = ["--replies", "committed"],
        });
        await deployment.StartAsync();
        var random = new Random(1);
        // For each counter the largest value that anybody was told.
        var told = new Dictionary<string, long>();
        for (int round = 0; round < Rounds; round++)
        {
            using var loads = new Loads(deployment, told);
            await Task.Delay(random.Next(100, 400));
            Assert.All(loads.Tasks, static task => Assert.False(task.IsCompleted, task.Exception?.ToString()));
            await deployment.InjectAsync(new Fault("both"), random);
            await loads.EndAsync();
            await deployment.RecoverAsync();
            using RespClient client = await deployment.ConnectAsync();
            foreach ((string counter, long value) in told)
            {
                RespValue found = await client.DoAsync("GET", counter);
                long there = found.IsNull ? 0 : found.AsInteger();
                Assert.True(there >= value, $"round {round}: {counter} is {there}, and somebody was told {value}\n{deployment.Tail()}");
            }
        }
        string[] kinds = ["set", "pipeline", "transaction", "script", "all", "list"];
        Assert.All(kinds, kind => Assert.Contains(told, pair => pair.Key.StartsWith(kind, StringComparison.Ordinal) && pair.Value > Rounds));
    }

    // Clients that count, each in a way of its own, until their connection ends.
    private sealed class Loads : IDisposable
    {
        private readonly ProxyDeployment _deployment;
        private readonly Dictionary<string, long> _told;
        private readonly CancellationTokenSource _end = new();

        public Loads(ProxyDeployment deployment, Dictionary<string, long> told)
        {
            (_deployment, _told) = (deployment, told);
            Tasks =
            [
                RunAsync(SetAsync), RunAsync(PipelineAsync), RunAsync(PipelineAsync), RunAsync(TransactAsync), RunAsync(ScriptAsync),
                RunAsync(CountAsync), RunAsync(CountAsync), RunAsync(HandOverAsync), RunAsync(ReadAsync), RunAsync(ReadAsync),
            ];
        }

        public Task[] Tasks { get; }

        public async Task EndAsync()
        {
            await _end.CancelAsync();
            await Task.WhenAll(Tasks);
        }

        public void Dispose() => _end.Dispose();

        private Task RunAsync(Func<RespClient, Task> work) => Task.Run(async () =>
        {
            try
            {
                using RespClient client = await _deployment.ConnectAsync();
                while (!_end.IsCancellationRequested) { await work(client); }
            }
            catch (ConnectionLostException)
            {
                // Killed: what was not answered may be there or not.
            }
        });

        private void Tell(string counter, RespValue value)
        {
            Assert.False(value.IsError, value.ToString());
            Tell(counter, value.AsInteger());
        }

        private void Tell(string counter, long value)
        {
            lock (_told) { _told[counter] = Math.Max(_told.GetValueOrDefault(counter), value); }
        }

        private long Last(string counter)
        {
            lock (_told) { return _told.GetValueOrDefault(counter); }
        }

        private async Task SetAsync(RespClient client)
        {
            long next = Last("set") + 1;
            Assert.Equal("OK", (await client.DoAsync("SET", "set", next.ToString(CultureInfo.InvariantCulture))).Text);
            Tell("set", next);
        }

        private async Task PipelineAsync(RespClient client)
        {
            for (int i = 0; i < PipelineDepth; i++) { await client.SendAsync("INCR", "pipeline"); }
            for (int i = 0; i < PipelineDepth; i++) { Tell("pipeline", await client.ReadAsync()); }
        }

        private async Task TransactAsync(RespClient client)
        {
            await client.SendAsync("MULTI");
            await client.SendAsync("INCR", "transaction");
            await client.SendAsync("INCR", "transaction:2");
            await client.SendAsync("EXEC");
            for (int i = 0; i < 3; i++) { await client.ReadAsync(); }
            RespValue replies = await client.ReadAsync();
            Tell("transaction", replies.Items[0]);
            Tell("transaction:2", replies.Items[1]);
        }

        private async Task ScriptAsync(RespClient client) => Tell("script", await client.DoAsync("EVAL", Script, "1", "script", "x"));

        private async Task CountAsync(RespClient client) => Tell("all", await client.DoAsync("INCR", "all"));

        // One end gives, the other waits for it.
        private async Task HandOverAsync(RespClient client)
        {
            using RespClient other = await _deployment.ConnectAsync();
            while (!_end.IsCancellationRequested)
            {
                await other.SendAsync("BLMOVE", "list", "moved", "LEFT", "RIGHT", "0");
                await client.DoAsync("RPUSH", "list", "x");
                await other.ReadAsync();
                Tell("list:count", await client.DoAsync("INCR", "list:count"));
            }
        }

        // What is read was told, too, whoever has written it.
        private async Task ReadAsync(RespClient client)
        {
            foreach (string counter in (string[])["set", "pipeline", "transaction", "script", "all", "list:count", "cold"])
            {
                RespValue value = await client.DoAsync("GET", counter);
                if (!value.IsNull) { Tell(counter, value); }
            }
        }
    }
}
