// Rounds of failures under applications that use Slogger.Client; see ClientWriter for what is checked. Two of the writers share
// a client, so that their sessions share connections.
using System.Globalization;
using System.Text;
using Slogger.Client;
using Slogger.Integration.Tests.Cluster;

namespace Slogger.Integration.Tests.Client;

internal sealed class ClientChaosRun(ClusterDeployment cluster, int rounds, int seed, Action<string> report)
{
    private const int Writers = 5;
    private static readonly string[] s_faults = ["redis", "redis", "two-redis", "proxy", "redis-and-proxy", "both", "pause", "none"];
    private readonly Random _random = new(seed);
    private readonly SortedDictionary<string, int> _faults = new(StringComparer.Ordinal);

    public long Rollbacks { get; private set; }

    public long Committed { get; private set; }

    /// <summary>Runs all rounds.</summary>
    /// <exception cref="InvalidDataException">A violation: the text names the invariant, the round and the seed.</exception>
    public async Task RunAsync()
    {
        await cluster.ServingAsync();
        List<SloggerClient> clients = [];
        try
        {
            for (int i = 0; i < Writers - 1; i++)
            {
                clients.Add(await ClientCluster.ConnectAsync(cluster, o => o with { GiveUpAfter = TimeSpan.FromSeconds(30) }));
            }
            ClientWriter[] writers = [.. Enumerable.Range(0, Writers).Select(i =>
                new ClientWriter(i, clients[Math.Max(0, i - 1)].OpenSession(new() { BatchMax = _random.Next(1, 30), Window = 256 }),
                    cluster, seed + (1000 * i)))];
            for (int round = 1; round <= rounds; round++)
            {
                string fault = s_faults[_random.Next(s_faults.Length)];
                try
                {
                    await RoundAsync(writers, fault);
                }
                catch (Exception e) when (e is InvalidDataException or TimeoutException or InvalidOperationException or SloggerException)
                {
                    throw new InvalidDataException(
                        $"{e.Message}\nround {round} of seed {seed}, fault {fault}\n{e.StackTrace}\n{cluster.Tail()}", e);
                }

                if (round % 10 == 0 || round == rounds) { report($"{round} rounds: {Summary(writers)}"); }
            }

            Rollbacks = writers.Sum(w => w.Rollbacks);
            Committed = writers.Sum(w => w.CommittedFound);
        }
        finally
        {
            foreach (SloggerClient client in clients) { await client.DisposeAsync(); }
        }
    }

    private async Task RoundAsync(ClientWriter[] writers, string fault)
    {
        _faults[fault] = _faults.GetValueOrDefault(fault) + 1;
        using var stop = new CancellationTokenSource();
        Task[] running = [.. writers.Select(w => Task.Run(() => w.RunAsync(writers, stop.Token)))];
        await Task.Delay(_random.Next(100, 500));
        await InjectAsync(fault);
        await Task.Delay(_random.Next(0, 300));
        await stop.CancelAsync();
        await Task.WhenAll(running).WaitAsync(TimeSpan.FromSeconds(120));
        await cluster.ServingAsync();
        await Task.WhenAll(writers.Select(w => w.SettleAsync()));
        var stored = new Dictionary<ClientWriter, HashSet<long>>();
        foreach (ClientWriter writer in writers) { stored[writer] = await writer.StoredAsync(); }
        foreach (ClientWriter writer in writers) { writer.Check(stored); }
        foreach (ClientWriter writer in writers) { writer.Forget(stored[writer]); }
    }

    private async Task InjectAsync(string fault)
    {
        int a = _random.Next(cluster.Shards), b = (a + 1 + _random.Next(cluster.Shards - 1)) % cluster.Shards;
        switch (fault)
        {
            case "redis":
                await cluster.KillRedisAsync(a);
                break;
            case "two-redis":
                await Task.WhenAll(cluster.KillRedisAsync(a), cluster.KillRedisAsync(b));
                break;
            case "proxy":
                cluster.KillProxy(a);
                await cluster.StartProxyAsync(a);
                break;
            case "redis-and-proxy":
                await cluster.KillRedisAsync(a);
                await Task.Delay(_random.Next(1, 250));
                cluster.KillProxy(b);
                await cluster.StartProxyAsync(b);
                break;
            case "both":
                cluster.KillProxy(a);
                await cluster.KillRedisAsync(a);
                await cluster.StartProxyAsync(a);
                break;
            case "pause":
                cluster.SuspendProxy(a);
                // It may hold SQLite's lock.
                cluster.IsMetadataAway = true;
                await cluster.KillRedisAsync(b);
                await Task.Delay(_random.Next(50, 1000));
                cluster.ResumeProxy(a);
                cluster.IsMetadataAway = false;
                await cluster.StartEndedAsync();
                break;
        }
    }

    private string Summary(ClientWriter[] writers)
    {
        var text = new StringBuilder();
        text.Append(CultureInfo.InvariantCulture,
            $"{writers.Sum(w => w.Begun)} operations, looked up: {writers.Sum(w => w.CommittedFound)} committed and found, "
                + $"{writers.Sum(w => w.LostMissing)} lost and not found, {writers.Sum(w => w.UncertainSeen)} uncertain; "
                + $"{writers.Sum(w => w.RepliesLost)} executed without an answer; {writers.Sum(w => w.Rollbacks)} rollbacks of sessions, "
                + $"0 violations; faults:");
        foreach ((string name, int count) in _faults) { text.Append(CultureInfo.InvariantCulture, $" {name} {count}"); }
        return text.ToString();
    }
}
