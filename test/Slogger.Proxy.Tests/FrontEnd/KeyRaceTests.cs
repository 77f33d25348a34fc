// Compare-and-set is exact, whoever else writes the same keys: no increment is lost, and none is done twice.
using System.Globalization;
using Slogger.Proxy.Tests.Harness;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class KeyRaceTests(LoggedProxy servers, ITestOutputHelper output) : IClassFixture<LoggedProxy>
{
    private const int Clients = 8, Keys = 4;
    private static readonly TimeSpan Duration = TimeSpan.FromSeconds(5);

    // Values are lists of who has added to them: each conditional put adds one name to what it has read. Others replace values by plain
    // writes with names of their own. So from any value one can tell whether something between was overwritten unseen.
    [Fact]
    public void Counters_OfConditionalPuts_LoseNothing_WhileOthersWriteTheSameKeys()
    {
        using RespConnection admin = servers.Proxy.Connect();
        admin.Call("FLUSHALL");
        long[] done = new long[Clients];
        using var stop = new CancellationTokenSource(Duration);
        Thread[] threads = [.. Enumerable.Range(0, Clients).Select(i => new Thread(() => done[i] = Increment(i, stop.Token)))];
        // Keys that only conditional puts, and plain increments, change: their sums are known exactly.
        long plain = 0;
        Thread others = new(() =>
        {
            using RespConnection client = servers.Proxy.Connect();
            using RespConnection direct = servers.Redis.Connect();
            var random = new Random(1);
            while (!stop.IsCancellationRequested)
            {
                RespConnection by = random.Next(2) == 0 ? client : direct;
                string key = $"c{random.Next(Keys)}";
                switch (random.Next(5))
                {
                    case 0:
                        by.Call("EVAL", "redis.call('incr',KEYS[1])", "1", key);
                        plain++;
                        break;
                    case 1:
                        by.Call("MULTI");
                        by.Call("INCR", key);
                        by.Call("SET", "elsewhere", "1");
                        by.Call("EXEC");
                        plain++;
                        break;
                    case 2:
                        by.Call("EXPIRE", key, "100");
                        break;
                    case 3:
                        by.Call("INCR", key);
                        plain++;
                        break;
                    default:
                        by.Call("SET", "elsewhere", "2");
                        by.Call("DEL", "elsewhere");
                        break;
                }
                Thread.Sleep(random.Next(2));
            }
        });
        others.Start();
        foreach (Thread thread in threads) { thread.Start(); }
        foreach (Thread thread in threads) { thread.Join(); }
        others.Join();
        long sum = Enumerable.Range(0, Keys).Sum(k => Number(admin.Call("GET", $"c{k}")));
        output.WriteLine($"{done.Sum()} conditional puts, {plain} plain increments");
        Assert.True(done.Sum() > 100 && plain > 20, $"{done.Sum()} and {plain} show little");
        Assert.Equal(done.Sum() + plain, sum);
    }

    // Puts that were accepted, while others set, delete and expire: in the order of versions each has replaced what its client had read.
    [Fact]
    public void Registers_OfConditionalPuts_ReplaceWhatWasRead_WhileOthersSetDeleteAndExpire()
    {
        using RespConnection admin = servers.Proxy.Connect();
        admin.Call("FLUSHALL");
        using var stop = new CancellationTokenSource(Duration);
        var history = new System.Collections.Concurrent.ConcurrentQueue<(string Key, long Expected, long Own)>();
        Thread[] threads = [.. Enumerable.Range(0, Clients).Select(i => new Thread(() => Replace(i, history, stop.Token)))];
        foreach (Thread thread in threads) { thread.Start(); }
        foreach (Thread thread in threads) { thread.Join(); }
        Assert.True(history.Count > 100, $"{history.Count} puts show little");
        foreach (IGrouping<string, (string Key, long Expected, long Own)> puts in history.GroupBy(p => p.Key))
        {
            // R11: of two successful puts the later one's expected version is at or above the earlier one's own.
            (string Key, long Expected, long Own)[] sorted = [.. puts.OrderBy(p => p.Own)];
            for (int i = 1; i < sorted.Length; i++)
            {
                Assert.True(sorted[i].Expected >= sorted[i - 1].Own, $"{sorted[i - 1]} {sorted[i]}");
            }
        }
    }

    private long Increment(int seed, CancellationToken stop)
    {
        using RespConnection client = servers.Proxy.Connect();
        var random = new Random(seed);
        long done = 0;
        while (!stop.IsCancellationRequested)
        {
            string key = $"c{random.Next(Keys)}";
            (string? value, string version) = Get(client, key);
            string reply = client.Call("DPR.CPUT", key, version, (long.Parse(value ?? "0", CultureInfo.InvariantCulture) + 1).ToString(
                CultureInfo.InvariantCulture));
            if (reply.StartsWith("*2\r\n:1\r\n", StringComparison.Ordinal)) { done++; }
            else { Assert.StartsWith("*2\r\n:0\r\n", reply); }
        }
        return done;
    }

    private void Replace(int seed, System.Collections.Concurrent.ConcurrentQueue<(string, long, long)> history, CancellationToken stop)
    {
        using RespConnection client = servers.Proxy.Connect();
        var random = new Random(seed);
        while (!stop.IsCancellationRequested)
        {
            string key = $"r{random.Next(Keys)}";
            switch (random.Next(8))
            {
                case 0: client.Call("SET", key, $"plain{seed}"); break;
                case 1: client.Call("DEL", key); break;
                case 2: client.Call("PEXPIRE", key, "1"); break;
                default:
                    (_, string version) = Get(client, key);
                    string reply = client.Call("DPR.CPUT", key, version, $"by{seed}");
                    if (!reply.StartsWith("*2\r\n:1\r\n", StringComparison.Ordinal)) { break; }
                    string own = reply.Split("\r\n")[3];
                    history.Enqueue((key, Offset(version), Offset(own)));
                    break;
            }
        }
    }

    private static long Offset(string version) => long.Parse(version.AsSpan(version.IndexOf('.') + 1), CultureInfo.InvariantCulture);

    private static (string? Value, string Version) Get(RespConnection client, string key)
    {
        string[] lines = client.Call("DPR.GETV", key).Split("\r\n");
        return lines[2] == "$-1" ? (null, lines[4]) : (lines[3], lines[5]);
    }

    private static long Number(string bulk) =>
        bulk.StartsWith("$-1", StringComparison.Ordinal) ? 0 : long.Parse(bulk.Split("\r\n")[1], CultureInfo.InvariantCulture);
}
