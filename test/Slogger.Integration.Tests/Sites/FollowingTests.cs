// A backup of two shards, with real Redis servers or embedded stores, fed by logs of real commands: readers see ends of versions only,
// whatever is restarted; after a failover both are at one version and take writes.
using System.Globalization;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Grpc.Client;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Sites;
using Slogger.Sites.Failovers;

namespace Slogger.Integration.Tests.Sites;

/// <summary>Redis follows Redis.</summary>
public sealed class FollowingTests : FollowingTestsBase
{
    protected override bool IsEmbedded(int stream) => false;
}

/// <summary>At one shard an embedded store follows, at the other a Redis.</summary>
public sealed class MixedFollowingTests : FollowingTestsBase
{
    protected override bool IsEmbedded(int stream) => stream == 0;
}

public abstract class FollowingTestsBase : IAsyncLifetime
{
    private const int Streams = 2;
    protected static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);
    private readonly Workspace _workspace = new();
    private readonly RedisProcess?[] _redis = new RedisProcess?[Streams];
    private readonly Host?[] _hosts = new Host?[Streams];
    private protected readonly WrittenPrimary[] _primaries = new WrittenPrimary[Streams];
    private readonly int[] _sitePorts = [Workspace.FreePort(), Workspace.FreePort()], _ports = [Workspace.FreePort(), Workspace.FreePort()];
    private IMetadataStore _metadata = null!;

    /// <summary>Whether a stream's store is embedded; else it is a Redis.</summary>
    protected abstract bool IsEmbedded(int stream);

    public async ValueTask InitializeAsync()
    {
        _metadata = MetadataStoreFactory.Create(Spec);
        await _metadata.InitializeAsync();
        await _metadata.GetOrCreateClusterAsync("c", new() { ShardCount = Streams, Grid = [new(new(1), 1_700_000_000_000_000, 5000)] });
        for (int s = 0; s < Streams; s++)
        {
            if (!IsEmbedded(s))
            {
                _redis[s] = await RedisProcess.StartAsync(_workspace.Folder($"redis{s}"), "--repl-diskless-sync-delay", "0");
            }
            _hosts[s] = Start(s);
        }
        for (int s = 0; s < Streams; s++) { await AnswersAsync(s); }
        for (int s = 0; s < Streams; s++)
        {
            _primaries[s] = new(_workspace.Folder($"primary{s}"), s, "127.0.0.1", _sitePorts[s], IsEmbedded(s));
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (WrittenPrimary? primary in _primaries) { if (primary is not null) { await primary.DisposeAsync(); } }
        foreach (Host? host in _hosts) { if (host is not null) { await host.StopAsync(); } }
        await _metadata.DisposeAsync();
        foreach (RedisProcess? redis in _redis) { redis?.Dispose(); }
        _workspace.Dispose();
    }

    [Fact]
    public async Task Readers_WhileVersionsAreApplied_SeeEndsOfVersionsOnly()
    {
        using var stop = new CancellationTokenSource();
        int[] seen = new int[4];
        Task[] readers = [.. Enumerable.Range(0, 4)
            .Select(i => ReadAsync(i % Streams, i / Streams, () => Interlocked.Increment(ref seen[i]), stop.Token))];
        var random = new Random(1);
        await WriteAsync(random, 600);
        // On a busy machine many versions are applied in one step.
        await Eventually.AsyncTrue("each reader has seen several versions", Limit, async () =>
        {
            await WriteAsync(random, 20);
            return readers.Any(r => r.IsCompleted) || Enumerable.Range(0, 4).All(i => Volatile.Read(ref seen[i]) > 10);
        });
        await AppliedAsync();
        await stop.CancelAsync();
        await Task.WhenAll(readers);
        using RespClient client = await ConnectAsync(0);
        Assert.StartsWith("READONLY", (await client.CallAsync("SET", WrittenPrimary.KeyOf(0, "x"), "1")).Text);
        if (!IsEmbedded(0))
        {
            Assert.StartsWith("READONLY", (await client.CallAsync("BLPOP", "nothing", "0")).Text);
            Assert.Contains("BLOCK", (await client.CallAsync("XREAD", "BLOCK", "0", "STREAMS", "s", "$")).Text);
        }
        Assert.Contains("backup", (await client.CallAsync("DPR.WAIT", "*", "0")).Text);
        if (!IsEmbedded(0))
        {
            Assert.Contains("set by the proxy", (await client.CallAsync("CONFIG", "SET", "replica-read-only", "no")).Text);
        }
        Assert.Contains("role:backup", (await client.CallAsync("DPR.INFO")).Text);
    }

    [Fact]
    public async Task Failover_BothAreAtOneVersionAndTakeWrites()
    {
        await WriteAsync(new Random(2), 300);
        await AppliedAsync();
        SiteState site = await FailOverAsync();
        await AssertServesAsync(site);
        // Its Redis has another identity since it was promoted: the next process knows it, and loads nothing.
        string identity = await IdentityAsync(0);
        await RestartAsync(0);
        await AssertServesAsync(site);
        Assert.Equal(identity, await IdentityAsync(0));
    }

    [Fact]
    public async Task ProcessAndRedis_RestartedWhileVersionsCome_GoOn()
    {
        var random = new Random(3);
        await WriteAsync(random, 100);
        await AppliedAsync();
        // The process, over the same Redis; then Redis; then both.
        await RestartAsync(0);
        await WriteAsync(random, 100);
        await AppliedAsync();
        _redis[1]?.KillHard();
        await WriteAsync(random, 50);
        if (_redis[1] is { } one) { await one.RestartAsync(); }
        else { await RestartAsync(1); }
        await WriteAsync(random, 50);
        await AppliedAsync();
        await _hosts[0]!.StopAsync();
        _redis[0]?.KillHard();
        await WriteAsync(random, 50);
        if (_redis[0] is { } zero) { await zero.RestartAsync(); }
        _hosts[0] = Start(0);
        await AppliedAsync();
        SiteState site = await FailOverAsync();
        await AssertServesAsync(site);
        // A process that is started again serves as a primary's.
        await RestartAsync(0);
        await AssertServesAsync(site);
    }

    // Managers and processes end on the way: whoever comes next goes on.
    [Fact]
    public async Task Failover_CutShortWithItsProcesses_IsGoneOnWith()
    {
        var random = new Random(4);
        await WriteAsync(random, 200);
        await AppliedAsync();
        for (int i = 0; i < 5; i++)
        {
            using var cutShort = new CancellationTokenSource(TimeSpan.FromMilliseconds(random.Next(5, 80)));
            try
            {
                await FailOverAsync(cutShort.Token);
            }
            catch (OperationCanceledException)
            {
                // As meant.
            }
            int s = random.Next(Streams);
            await _hosts[s]!.StopAsync();
            _hosts[s] = Start(s);
        }
        await AssertServesAsync(await FailOverAsync());
    }

    // A process is not always its own: what a start had opened would keep the next one out.
    [Fact]
    public async Task Start_StoppedAtAnyMoment_LeavesNothingOpen()
    {
        var random = new Random(5);
        await WriteAsync(random, 20);
        for (int i = 0; i < 20; i++)
        {
            await _hosts[1]!.StopAsync();
            _hosts[1] = Start(1);
            await Task.Delay(random.Next(150));
        }
        await AnswersAsync(1);
        await WriteAsync(random, 20);
        await AppliedAsync();
    }

    // As one is in every process that is just being started: until its program begins it has a copy of each socket.
    [Fact]
    public async Task Start_WhileACopyOfItsListenersIsLeft_ListensAgain()
    {
        using var client = new CopiedSockets(_ports[1]);
        using var site = new CopiedSockets(_sitePorts[1]);
        Assert.True(client.Count > 0 && site.Count > 0);
        await RestartAsync(1);
        await WriteAsync(new Random(9), 20);
        await AppliedAsync();
    }

    private protected string Spec => $"sqlite:{_workspace.File("backup.db")}";

    private Host Start(int stream)
    {
        var layer = new OptionLayer();
        void Give(string name, string value) => layer.Values[name] = new OptionTexts([value], "the test");
        Give("listen", $"127.0.0.1:{_ports[stream]}");
        if (_redis[stream] is { } redis) { Give("redis", $"127.0.0.1:{redis.Port}"); }
        else
        {
            Give("faster-memory", "64mb");
            Give("faster-page", "4mb");
        }
        Give("data", _workspace.Folder($"backup{stream}"));
        Give("metadata", Spec);
        Give("cluster", "c");
        Give("shard", stream.ToString(CultureInfo.InvariantCulture));
        Give("site-listen", $"127.0.0.1:{_sitePorts[stream]}");
        OptionsResult<ServeOptions> options = ServeOptionsReader.ReadBackup(layer, new OptionLayer());
        Assert.Empty(options.Errors);
        return new Host(options.Options!, stream);
    }

    private protected async Task RestartAsync(int stream)
    {
        await _hosts[stream]!.StopAsync();
        _hosts[stream] = Start(stream);
        await AnswersAsync(stream);
    }

    private protected Task AnswersAsync(int stream) => Eventually.AsyncTrue("the process answers", Limit, async () =>
    {
        _hosts[stream]!.Check();
        try
        {
            using RespClient client = await ConnectAsync(stream);
            return (await client.CallAsync("DPR.INFO")).Text.Contains("shard:");
        }
        catch (IOException)
        {
            return false;
        }
    });

    private protected Task<RespClient> ConnectAsync(int stream) =>
        RespClient.ConnectAsync(new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, _ports[stream]));

    private async Task<string> IdentityAsync(int stream)
    {
        if (_redis[stream] is not { } redis) { return "the store is the process's own"; }
        using RespClient store = await redis.ConnectAsync();
        return (await store.CallAsync("INFO", "replication")).Text.Split("\r\n")
            .First(l => l.StartsWith("master_replid:", StringComparison.Ordinal));
    }

    private protected async Task WriteAsync(Random random, int versions)
    {
        for (int i = 0; i < versions; i++)
        {
            foreach (WrittenPrimary primary in _primaries) { primary.Write(random); }
            foreach (WrittenPrimary primary in _primaries) { primary.Record(new VersionNumber(_primaries.Min(p => p.Written))); }
            if (random.Next(4) == 0) { await Task.Delay(random.Next(8)); }
        }
    }

    private protected Task AppliedAsync() => Eventually.AsyncTrue("all is applied", Limit, async () =>
    {
        foreach (Host? host in _hosts) { host!.Check(); }
        try
        {
            for (int s = 0; s < Streams; s++)
            {
                using RespClient client = await ConnectAsync(s);
                if (!(await client.CallAsync("DPR.INFO")).Text.Contains($"applied:1:{_primaries[s].Written}\r\n")) { return false; }
                Assert.Equal(_primaries[s].Written.ToString(CultureInfo.InvariantCulture),
                    (await client.CallAsync("GET", WrittenPrimary.KeyOf(s, "b"))).Text);
            }
            return true;
        }
        catch (ConnectionLostException)
        {
            // It starts, or its store was just lost.
            return false;
        }
    });

    // Calls onVersion for each version that it had not seen before.
    private async Task ReadAsync(int stream, int way, Action onVersion, CancellationToken stop)
    {
        using RespClient client = await ConnectAsync(stream);
        string first = WrittenPrimary.KeyOf(stream, "a"), second = WrittenPrimary.KeyOf(stream, "b");
        long last = 0;
        while (!stop.IsCancellationRequested)
        {
            RespValue both = way == 0 ? await client.DoAsync("MGET", first, second)
                : IsEmbedded(stream) ? await InTransactionAsync(client, first, second)
                : await client.DoAsync("EVAL", "return redis.call('mget', KEYS[1], KEYS[2])", "2", first, second);
            Assert.Equal(both.Items[0].Text, both.Items[1].Text);
            long now = both.Items[0].IsNull ? 0 : long.Parse(both.Items[0].Text, CultureInfo.InvariantCulture);
            Assert.True(now >= last, $"{now} was read after {last}");
            if (now > last) { onVersion(); }
            last = now;
        }
    }

    private static async Task<RespValue> InTransactionAsync(RespClient client, string first, string second)
    {
        await client.DoAsync("MULTI");
        await client.DoAsync("GET", first);
        await client.DoAsync("GET", second);
        return await client.DoAsync("EXEC");
    }

    private protected async Task<SiteState> FailOverAsync(CancellationToken cutShort = default)
    {
        List<GrpcChannel> channels = [.. _sitePorts.Select(p => new GrpcChannel("127.0.0.1", p, new GrpcChannelOptions()))];
        try
        {
            using var limit = CancellationTokenSource.CreateLinkedTokenSource(cutShort);
            limit.CancelAfter(Limit);
            await Eventually.AsyncTrue("all streams count", Limit,
                async () => (await _metadata.SiteAsync("c")).Streams.All(s => s.Phase == Slogger.Core.Sites.StreamPhase.Counts));
            IReadOnlyList<SitePeer> peers = [.. channels.Select((c, shard) => new SitePeer([new(shard)], c))];
            FailoverOutcome outcome = await new FailoverManager(
                _metadata, "c", _ => Task.FromResult(peers), 0, new LineSink("failover")).RunAsync([], limit.Token);
            // One before may have come to its end.
            SiteState site = outcome.Error is null ? outcome.Site! : await _metadata.SiteAsync("c");
            Assert.True(site is { Role: SiteRole.Primary, Final: not null }, outcome.Error);
            return site;
        }
        finally
        {
            channels.ForEach(c => c.Dispose());
        }
    }

    private protected async Task AssertServesAsync(SiteState site)
    {
        string final = site.Final!.Value.Version.Number.ToString(CultureInfo.InvariantCulture);
        for (int s = 0; s < Streams; s++)
        {
            int stream = s;
            await Eventually.AsyncTrue("the shard takes writes, and commits them", Limit, async () =>
            {
                _hosts[stream]!.Check();
                try
                {
                    using RespClient client = await ConnectAsync(stream);
                    RespValue set = await client.CallAsync("SET", stream == 0 ? "k" : "key{b}x", "1");
                    if (set.IsError && set.Text.StartsWith("MOVED", StringComparison.Ordinal)) { return true; }
                    return !set.IsError && (await client.CallAsync("DPR.WAIT", "*", "5000")) is { IsError: false } wait
                        && wait.Items[2].Number == 1;
                }
                catch (IOException)
                {
                    return false;
                }
            });
            using RespClient store = _redis[s] is { } redis ? await redis.ConnectAsync() : await ConnectAsync(s);
            foreach (string key in (string[])[WrittenPrimary.KeyOf(s, "a"), WrittenPrimary.KeyOf(s, "b")])
            {
                RespValue value = await store.CallAsync("GET", key);
                // An embedded store is asked by its proxy, which serves its own slots only.
                if (_redis[s] is not null || !value.Text.StartsWith("MOVED", StringComparison.Ordinal)) { Assert.Equal(final, value.Text); }
            }
        }
    }

    /// <summary>A process of the backup, in this one.</summary>
    private sealed class Host
    {
        private readonly CancellationTokenSource _stop = new();
        private readonly Task<ProxyExit> _running;

        public Host(ServeOptions options, int stream) =>
            _running = Task.Run(() => BackupHost.RunAsync(options, new LineSink($"backup {stream}"), _stop.Token));

        public void Check() => Assert.False(_running.IsCompleted, _running.IsCompleted ? $"it ended: {_running.Result.Problem}" : "");

        public async Task StopAsync()
        {
            await _stop.CancelAsync();
            Assert.True((await _running).IsDone, _running.Result.Problem);
        }
    }
}
