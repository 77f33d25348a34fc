// Several connections at once, each on a thread of its own: what is atomic in Redis is so here.
using System.Globalization;

namespace Slogger.Faster.Tests.Commands;

public sealed class ConcurrencyTests : IDisposable
{
    private const int Accounts = 8, Each = 1000;
    private readonly TestEngine _test = new();

    public void Dispose() => _test.Dispose();

    [Fact]
    public async Task Transfers_ByTransactions_LeaveTheSumAsItWasAtEveryMoment()
    {
        for (int i = 0; i < Accounts; i++) _test.Client.Send("SET", $"account:{i}", $"{Each}");
        string[] all = ["MGET", .. Enumerable.Range(0, Accounts).Select(i => $"account:{i}")];
        bool stop = false;
        Task[] transfers = [.. Enumerable.Range(0, 2).Select(t => OnAThread(client =>
        {
            var random = new Random(t);
            while (!Volatile.Read(ref stop))
            {
                (int from, int to, int amount) = (random.Next(Accounts), random.Next(Accounts), random.Next(1, 9));
                client.Raw(TestClient.Request("MULTI") + TestClient.Request("DECRBY", $"account:{from}", $"{amount}")
                    + TestClient.Request("INCRBY", $"account:{to}", $"{amount}") + TestClient.Request("EXEC"));
            }
        }))];
        Task commits = Task.Run(async () =>
        {
            while (!Volatile.Read(ref stop)) await _test.Store.CommitAsync(new(1), _test.Store.Open.Next);
        });
        try
        {
            // On a busy machine the thread of commits may begin late: there is one to go back to only when it has made some.
            for (int i = 0; i < 3000 || (_test.Store.Commits.Count < 3 && !commits.IsCompleted); i++)
                Assert.Equal(Accounts * Each, Sum(_test.Client.Send(all)));
        }
        finally
        {
            Volatile.Write(ref stop, true);
            await Task.WhenAll([.. transfers, commits]);
        }

        // At a commit too.
        await _test.Store.CommitAsync(new(1), _test.Store.Open.Next);
        _test.Reopen(_test.Store.Commits[^2].Point);
        Assert.Equal(Accounts * Each, Sum(_test.Client.Send(all)));
    }

    [Fact]
    public async Task Increments_ByWatchAndTransaction_AreNeitherLostNorDoubled()
    {
        const int Threads = 3, Increments = 400;
        _test.Client.Send("SET n 0");
        int retries = 0;
        await Task.WhenAll(Enumerable.Range(0, Threads).Select(_ => OnAThread(client =>
        {
            for (int done = 0; done < Increments;)
            {
                client.Send("WATCH n");
                long value = long.Parse(client.Send("GET n").Split('|')[1], CultureInfo.InvariantCulture);
                client.Send("MULTI");
                client.Send("SET", "n", $"{value + 1}");
                if (client.Send("EXEC") == "*1|+OK|") done++;
                else Interlocked.Increment(ref retries);
            }
        })));
        Assert.Equal($"$4|{Threads * Increments}|", _test.Client.Send("GET n"));
    }

    [Fact]
    public async Task Keys_MadeAndRemovedByManyThreads_AreCountedExactly()
    {
        await Task.WhenAll(Enumerable.Range(0, 3).Select(t => OnAThread(client =>
        {
            var random = new Random(t);
            for (int i = 0; i < 20_000; i++)
            {
                string key = $"{random.Next(500)}";
                _ = random.Next(5) switch
                {
                    0 => client.Send("DEL", key),
                    1 => client.Send("RENAME", key, $"{random.Next(500)}"),
                    2 => client.Send("SET", key, "1", "PX", "100000"),
                    3 => client.Send("MSET", key, "1", $"{random.Next(500)}", new string('v', random.Next(40))),
                    _ => client.Send("GETDEL", key),
                };
            }
        })));
        int there = Enumerable.Range(0, 500).Count(i => _test.Client.Send("EXISTS", $"{i}") == ":1|");
        int expiring = Enumerable.Range(0, 500).Count(i => _test.Client.Send("TTL", $"{i}") is not (":-1|" or ":-2|"));
        Assert.Equal($":{there}|", _test.Client.Send("DBSIZE"));
        Assert.Equal(there, _test.Client.Send("KEYS *").Split('|').Count(l => l.Length > 0 && l[0] == '$'));
        Assert.Contains($"keys={there},expires={expiring}", _test.Client.Send("INFO keyspace"), StringComparison.Ordinal);
        Assert.Equal(there, _test.Store.Statistics().Keys);
    }

    private Task OnAThread(Action<TestClient> work)
    {
        TestClient client = _test.Connect();
        return Task.Factory.StartNew(
            () =>
            {
                using (client) work(client);
            },
            TaskCreationOptions.LongRunning);
    }

    private static long Sum(string reply) => reply.Split('|').Skip(1).Where((l, i) => i % 2 == 1).Where(l => l.Length > 0)
        .Sum(l => long.Parse(l, CultureInfo.InvariantCulture));
}
