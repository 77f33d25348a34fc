// Rounds of failures under applications that use StackExchange.Redis, with multiplexers of several settings that live through all of them.
// What is checked of replies: MultiplexerWorker; of messages: MultiplexerSubscriber.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Text;
using Slogger.Client;
using Slogger.Integration.Tests.Client;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Multiplexer;

internal sealed class MultiplexerRun(ClusterDeployment cluster, int rounds, int seed, Action<string> report) : IAsyncDisposable
{
    private static readonly string[] s_faults = ["redis", "redis", "proxy", "both", "connections", "pause", "sigterm", "none"];
    private static readonly string[] s_faultsOfSeveral =
        ["two-redis", "redis-and-proxy", "move", "move", "move-and-redis", "move-and-proxy"];
    private static readonly TimeSpan s_probeLimit = TimeSpan.FromSeconds(60);

    private readonly Random _random = new(seed);
    private readonly SortedDictionary<string, int> _faults = new(StringComparer.Ordinal);
    private readonly List<ConnectionMultiplexer> _multiplexers = [];
    private readonly List<MultiplexerSubscriber> _subscribers = [];
    private readonly List<TcpRelay> _relays = [];
    private readonly List<double> _mended = [];
    private MultiplexerWorker[] _workers = [];
    private SloggerClient? _client;
    private int _probe;
    private Task _moving = Task.CompletedTask;

    public MultiplexerTally Tally { get; } = new();

    /// <summary>The faults to choose from; default: all that the deployment can have.</summary>
    public IReadOnlyList<string> Faults { get; init; } =
        [.. s_faults, .. cluster.Shards > 1
            ? s_faultsOfSeveral.Where(f => cluster.Embedded == 0 || !f.StartsWith("move", StringComparison.Ordinal)) : ["cut"]];

    /// <summary>Runs all rounds.</summary>
    /// <exception cref="InvalidDataException">A promise was broken: the text says which, with the round and the seed.</exception>
    public async Task RunAsync()
    {
        await cluster.ServingAsync();
        await StartAsync();
        for (int round = 1; round <= rounds; round++)
        {
            string fault = Faults[_random.Next(Faults.Count)];
            try
            {
                await RoundAsync(fault);
            }
            catch (Exception e) when (e is InvalidDataException or TimeoutException or InvalidOperationException or RedisException)
            {
                throw new InvalidDataException(
                    $"{e.Message}\nround {round} of seed {seed}, fault {fault}\n{e.StackTrace}\n{cluster.Tail()}", e);
            }

            if (round % 10 == 0 || round == rounds) { report($"{round} rounds: {Summary()}"); }
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (ConnectionMultiplexer redis in _multiplexers) { await redis.DisposeAsync(); }
        foreach (TcpRelay relay in _relays) { relay.Dispose(); }
        if (_client is not null) { await _client.DisposeAsync(); }
    }

    private async Task StartAsync()
    {
        _client = await ClientCluster.ConnectAsync(cluster);
        (string Name, Action<ConfigurationOptions> With)[] settings =
        [
            ("resp2", o => o.Protocol = RedisProtocol.Resp2),
            ("resp3", o => o.Protocol = RedisProtocol.Resp3),
            // Messages come over the connection of the commands.
            ("resp3-shared", o => { o.Protocol = RedisProtocol.Resp3; o.SharedSubscriptionConnection = true; }),
            ("resp3-integrity", o => { o.Protocol = RedisProtocol.Resp3; o.HighIntegrity = true; o.HeartbeatConsistencyChecks =
                true; o.KeepAlive = 1; }),
            ("resp2-failfast", o => { o.Protocol = RedisProtocol.Resp2; o.BacklogPolicy = BacklogPolicy.FailFast; o.ReconnectRetryPolicy =
                new LinearRetry(300); o.HeartbeatInterval = TimeSpan.FromMilliseconds(300); }),
        ];
        foreach ((string name, Action<ConfigurationOptions> with) in settings) { _multiplexers.Add(await ConnectAsync(name, with)); }
        ConnectionMultiplexer blocking = await ConnectAsync("blocking", _ => { });
        _workers = [.. _multiplexers.Select((redis, i) =>
            new MultiplexerWorker(i, redis, blocking, cluster.Embedded == 0, cluster.Shards == 1, _client, seed + (1000 * i), Tally))];
        for (int i = 0; i < _multiplexers.Count; i++)
        {
            _subscribers.Add(await MultiplexerSubscriber.StartAsync(_multiplexers[i], i, Tally));
        }
        _multiplexers.Add(blocking);
        await ProbeAsync();
        _mended.Clear();
    }

    private Task<ConnectionMultiplexer> ConnectAsync(string name, Action<ConfigurationOptions> with)
    {
        var options = new ConfigurationOptions
        {
            ClientName = name, AllowAdmin = true, AbortOnConnectFail = false, ConnectTimeout = 2000,
                AsyncTimeout = MultiplexerWorker.TimeoutMs, SyncTimeout = MultiplexerWorker.TimeoutMs,
            ReconnectRetryPolicy = new ExponentialRetry(100, 1000),
        };
        with(options);
        for (int i = 0; i < cluster.Shards; i++)
        {
            EndPoint endpoint = cluster.Endpoint(i);
            if (cluster.Shards == 1)
            {
                var relay = new TcpRelay(endpoint);
                _relays.Add(relay);
                endpoint = new IPEndPoint(IPAddress.Loopback, relay.Port);
            }

            options.EndPoints.Add(endpoint);
        }

        return ConnectionMultiplexer.ConnectAsync(options);
    }

    private async Task RoundAsync(string fault)
    {
        _faults[fault] = _faults.GetValueOrDefault(fault) + 1;
        foreach (MultiplexerSubscriber subscriber in _subscribers) { subscriber.Forget(); }
        long doubled = Tally.Doubled;
        Tally.IsCalm = true;
        using var stop = new CancellationTokenSource();
        Task<string[]>[] publishing = [.. _subscribers.Select(s => Task.Run(() => PublishAsync(s, _random.Next(), stop.Token)))];
        Task[] running = [.. _workers.Select(w => Task.Run(() => w.RunAsync(stop.Token))), .. publishing];
        await Task.Delay(_random.Next(100, 600));
        if (fault != "none")
        {
            Tally.IsCalm = false;
            await InjectAsync(fault);
        }

        await Task.Delay(_random.Next(0, 800));
        await stop.CancelAsync();
        await Task.WhenAll(running).WaitAsync(TimeSpan.FromSeconds(120));
        if (fault == "none") { await CheckMessagesAsync([.. publishing.Select(p => p.Result)], doubled); }
        Tally.IsCalm = false;
        await cluster.ServingAsync();
        // A slot that moves breaks a WATCH, and that is no calm.
        await _moving;
        await ProbeAsync();
        await Task.WhenAll(_workers.Select(w => w.SettleAsync()));
    }

    private async Task<string[]> PublishAsync(MultiplexerSubscriber to, int seed, CancellationToken stop)
    {
        var random = new Random(seed);
        var sent = new List<string>();
        for (int i = 0; !stop.IsCancellationRequested; i++)
        {
            sent.AddRange(await to.PublishAsync(_multiplexers[random.Next(_workers.Length)],
                string.Create(CultureInfo.InvariantCulture, $"{to.Name}:{i}")));
            await Task.Delay(random.Next(4), CancellationToken.None);
        }

        return [.. sent];
    }

    // Nothing was harmed, so every message has come.
    private async Task CheckMessagesAsync(string[][] sent, long doubled)
    {
        long began = Stopwatch.GetTimestamp();
        for (int i = 0; i < _subscribers.Count; i++)
        {
            while (_subscribers[i].Missing(sent[i]) is [string first, ..] missing)
            {
                if (Stopwatch.GetElapsedTime(began) > s_probeLimit)
                {
                    throw new InvalidDataException(
                        $"{_subscribers[i].Name} has not got {missing.Length} of {sent[i].Length} messages, the first '{first}'");
                }
                await Task.Delay(20);
            }
        }

        // Of a cluster the library may listen at two nodes after a failure, at nodes of Redis Cluster too.
        if (cluster.Shards == 1 && Tally.Doubled != doubled)
        {
            throw new InvalidDataException($"{Tally.Doubled - doubled} messages came twice");
        }
    }

    // Every subscription works again, without help.
    private async Task ProbeAsync()
    {
        await Task.WhenAll(_subscribers.Select(async subscriber =>
        {
            long began = Stopwatch.GetTimestamp();
            HashSet<string> waiting = [MultiplexerSubscriber.News.ToString(), "news:" + subscriber.Name, subscriber.Sharded.ToString()];
            var sent = new List<string>();
            while (true)
            {
                sent.AddRange(await subscriber.PublishAsync(_multiplexers[Random.Shared.Next(_workers.Length)],
                    string.Create(CultureInfo.InvariantCulture, $"probe {Interlocked.Increment(ref _probe)}")));
                await Task.Delay(20);
                foreach (string come in sent.Except(subscriber.Missing(sent))) { waiting.Remove(come.Split('|')[0]); }
                if (waiting.Count == 0) { break; }
                if (Stopwatch.GetElapsedTime(began) > s_probeLimit)
                {
                    throw new InvalidDataException($"{subscriber.Name}: {s_probeLimit.TotalSeconds:0} s after all shards served, these "
                        + $"subscriptions get nothing: {string.Join(", ", waiting)}; {sent.Count} messages were published");
                }
            }

            lock (_mended) { _mended.Add(Stopwatch.GetElapsedTime(began).TotalMilliseconds); }
        }));
    }

    private async Task InjectAsync(string fault)
    {
        int a = _random.Next(cluster.Shards), b = (a + 1 + _random.Next(Math.Max(1, cluster.Shards - 1))) % cluster.Shards;
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
                await Task.Delay(_random.Next(500));
                await cluster.StartProxyAsync(a);
                break;
            case "sigterm":
                await cluster.TerminateProxyAsync(a);
                await cluster.StartProxyAsync(a);
                break;
            case "both":
                cluster.KillProxy(a);
                if (!cluster.IsEmbedded(a)) { await cluster.KillRedisAsync(a); }
                await cluster.StartProxyAsync(a);
                break;
            case "redis-and-proxy":
                await cluster.KillRedisAsync(a);
                await Task.Delay(_random.Next(1, 250));
                cluster.KillProxy(b);
                await cluster.StartProxyAsync(b);
                break;
            case "connections":
                await CloseConnectionsAsync(a);
                break;
            case "pause":
                cluster.SuspendProxy(a);
                await Task.Delay(_random.Next(50, 6000));
                cluster.ResumeProxy(a);
                await cluster.StartEndedAsync();
                break;
            case "cut":
                TcpRelay relay = _relays[_random.Next(_relays.Count)];
                relay.Cut();
                await Task.Delay(_random.Next(50, 6000));
                relay.Open();
                break;
            default:
                Move();
                await Task.Delay(_random.Next(300));
                if (fault == "move-and-redis") { await cluster.KillRedisAsync(a); }
                if (fault == "move-and-proxy")
                {
                    cluster.KillProxy(a);
                    await cluster.StartProxyAsync(a);
                }

                break;
        }
    }

    // Those of commands and those of messages, one kind or both.
    private async Task CloseConnectionsAsync(int shard)
    {
        using RespClient client = await cluster.ConnectAsync(shard);
        foreach (string type in (string[])["normal", "pubsub"])
        {
            if (_random.Next(3) > 0) { await client.CallAsync("CLIENT", "KILL", "TYPE", type); }
        }
    }

    // The slots of some keys and channels, whoever has them, go to one shard.
    private void Move()
    {
        string[] tags = [.. Enumerable.Range(0, _workers.Length).SelectMany(w => (string[])[$"{{{w}.{_random.Next(6)}.0}}", $"{{m{w}}}"])];
        int to = _random.Next(cluster.Shards);
        _moving = cluster.MoveAsync(
            "--slots", string.Join(',', tags.Where(_ => _random.Next(2) == 0).Append(tags[0]).Select(t => cluster.SlotOf(t).Number)
                .Distinct()), "--to", to.ToString(CultureInfo.InvariantCulture));
    }

    private string Summary()
    {
        _mended.Sort();
        var text = new StringBuilder(Tally.ToString());
        text.Append(CultureInfo.InvariantCulture,
            $"; subscriptions worked again after {(_mended.Count > 0 ? _mended[_mended.Count / 2] : 0):0} ms (median), "
                + $"{(_mended.Count > 0 ? _mended[_mended.Count * 9 / 10] : 0):0} (one in ten), {(_mended.Count > 0 ? _mended[^1] : 0):0} "
                + $"(all); 0 violations; faults:");
        foreach ((string name, int count) in _faults) { text.Append(CultureInfo.InvariantCulture, $" {name} {count}"); }
        return text.ToString();
    }
}
