// Co-location (DPR, section 5): an application that hosts a shard, here the bench, by local sessions beside the bare store: of a shard
// alone, and of one among others, whose keys have owners and whose versions end on time. Then sessions and another process's shard
// (CoLocationSweeps).
using System.Diagnostics;
using System.Globalization;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Hosting;

namespace Slogger.Bench.Faster;

internal sealed class CoLocationSuite(BenchOptions options, Results results)
{
    private const string Suite = "co-location";
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(120);

    // As slogger serve commits by default: eight versions of 5 ms.
    private static readonly TimeSpan s_commitInterval = TimeSpan.FromMilliseconds(40);
    private readonly string _directory = SuiteDirectory.Create(options, Suite);
    private readonly double _seconds = options.RunSeconds ?? 3;
    private readonly int _keys = options.RestoreKeys;

    public void Run() => RunAsync().GetAwaiter().GetResult();

    private async Task RunAsync()
    {
        Console.WriteLine($"\n== {Suite}: {_keys} keys, runs of {_seconds} s");
        using (IHost alone = Application("alone", options.PortBase, null))
        {
            await alone.StartAsync().ConfigureAwait(false);
            try
            {
                Throughput(await ServingAsync(alone).ConfigureAwait(false), "alone");
            }
            finally
            {
                await alone.StopAsync().ConfigureAwait(false);
            }
        }

        string metadata = "sqlite:" + Path.Combine(_directory, "metadata.db");
        using IHost host = Application("shard0", options.PortBase + 1, metadata);
        await host.StartAsync().ConfigureAwait(false);
        using Process other = StartOther(metadata);
        try
        {
            ISloggerShard shard = await ServingAsync(host).ConfigureAwait(false);
            Throughput(shard, "of two");
            var sweeps = new CoLocationSweeps(options, results, Suite, shard);
            await sweeps.BatchSizesAsync().ConfigureAwait(false);
            await sweeps.RemoteSharesAsync().ConfigureAwait(false);
        }
        finally
        {
            await host.StopAsync().ConfigureAwait(false);
            other.Kill();
            await other.WaitForExitAsync().ConfigureAwait(false);
        }
    }

    private static async Task<ISloggerShard> ServingAsync(IHost host)
    {
        var shard = host.Services.GetRequiredService<ISloggerShard>();
        await shard.Ready.WaitAsync(s_limit).ConfigureAwait(false);
        return shard;
    }

    private IHost Application(string name, int port, string? metadata)
    {
        HostApplicationBuilder builder = Microsoft.Extensions.Hosting.Host.CreateApplicationBuilder();
        builder.Logging.SetMinimumLevel(LogLevel.Warning);
        builder.Services.AddSloggerShard(o =>
        {
            o.Serve["listen"] = string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}");
            o.Serve["data"] = Path.Combine(_directory, name);
            o.Serve["faster-memory"] = "2gb";
            if (metadata is null) return;
            o.Serve["metadata"] = metadata;
            o.Serve["shards"] = "2";
        });
        return builder.Build();
    }

    private Process StartOther(string metadata)
    {
        bool isDll = options.ProxyPath.EndsWith(".dll", StringComparison.Ordinal);
        return Process.Start(new ProcessStartInfo(isDll ? "dotnet" : options.ProxyPath,
        [
            .. isDll ? [options.ProxyPath] : Array.Empty<string>(),
            "serve", "--listen", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{options.PortBase + 2}"), "--data",
                Path.Combine(_directory, "shard1"), "--metadata", metadata,
            "--shard", "1", "--shards", "2", "--log-level", "error",
        ])) ?? throw new BenchException("the other shard could not be started");
    }

    private void Throughput(ISloggerShard shard, string what)
    {
        byte[] tags = TagsOf(shard);
        using FasterStore store =
            FasterStore.OpenAt(new() { Directory = Path.Combine(_directory, "store " + what), MemoryBytes = 2L << 30,
                IndexBytes = 64 << 20 });
        store.CommitAsync(WorldLine.First, store.Open.Next).GetAwaiter().GetResult();
        LocalWorker Bare() => new OwnKeys(new StoreWorker(store), tags);
        LocalWorker Session() => new OwnKeys(new SessionWorker(shard), tags);
        using (LocalWorker worker = Bare()) YcsbLoad.Fill(worker, _keys, 8);
        using (LocalWorker worker = Session()) YcsbLoad.Fill(worker, _keys, 8);
        var lines = new List<string> { "| threads | law | store, M ops/s | local session, M ops/s | session of store | ns more for each |",
            "| ---: | --- | ---: | ---: | ---: | ---: |" };
        foreach (int threads in (int[])[1, 2])
        {
            foreach (bool zipf in (bool[])[true, false])
            {
                var pairs = new List<(double Store, double Session)>();
                // The first is to warm up.
                for (int round = 0; round <= (options.Rounds ?? 5); round++)
                {
                    double bare;
                    using (new Committer(store, s_commitInterval)) bare = Rate(threads, zipf, Bare);
                    double session = Rate(threads, zipf, Session);
                    if (round > 0) pairs.Add((bare, session));
                }

                string law = zipf ? "Zipf 0.99" : "uniform";
                double ratio = Statistics.Median(pairs.Select(p => p.Session / p.Store)), more =
                    Statistics.Median(pairs.Select(p => threads * 1e9 * ((1 / p.Session) - (1 / p.Store))));
                lines.Add(string.Create(CultureInfo.InvariantCulture,
                    $"| {threads} | {law} | {Statistics.Median(pairs.Select(p => p.Store)) / 1e6:0.00} | "
                        + $"{Statistics.Median(pairs.Select(p => p.Session)) / 1e6:0.00} | {ratio:0.00} | {more:0} |"));
                Console.WriteLine("  " + lines[^1]);
                results.Add(Figure.Information(Suite, $"shard {what}: local session of the store, {threads} threads, {law}", ratio, ""));
            }
        }

        results.AddTable($"{Suite}: shard {what}, YCSB-A, 8 B, {_keys} keys, commits each {s_commitInterval.TotalMilliseconds:0} ms",
            lines);
    }

    private double Rate(int threads, bool zipf, Func<LocalWorker> newWorker)
    {
        using var load = new YcsbLoad(threads, _keys, zipf, 8, 0, newWorker);
        long before = load.Operations;
        var clock = Stopwatch.StartNew();
        Thread.Sleep(TimeSpan.FromSeconds(_seconds));
        return (load.Operations - before) / clock.Elapsed.TotalSeconds;
    }

    // The last byte of each key that makes it this shard's.
    private byte[] TagsOf(ISloggerShard shard)
    {
        byte[] tags = new byte[_keys];
        LocalSession session = shard.OpenSession();
        Span<byte> key = stackalloc byte[8];
        for (int k = 0; k < _keys; k++)
        {
            System.Buffers.Binary.BinaryPrimitives.WriteInt64LittleEndian(key, k);
            while (!session.IsLocal(key)) key[7]++;
            tags[k] = key[7];
        }

        session.DisposeAsync().AsTask().GetAwaiter().GetResult();
        return tags;
    }

    /// <summary>Keys of this shard's, for either contestant.</summary>
    private sealed class OwnKeys(LocalWorker worker, byte[] tags) : LocalWorker
    {
        private readonly byte[] _key = new byte[8];

        public override void Read(ReadOnlySpan<byte> key) => worker.Read(Own(key));

        public override void Write(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value) => worker.Write(Own(key), value);

        public override void Dispose() => worker.Dispose();

        private ReadOnlySpan<byte> Own(ReadOnlySpan<byte> key)
        {
            key.CopyTo(_key);
            _key[7] = tags[System.Buffers.Binary.BinaryPrimitives.ReadInt32LittleEndian(key)];
            return _key;
        }
    }

    /// <summary>A session of the application.</summary>
    private sealed class SessionWorker(ISloggerShard shard) : LocalWorker
    {
        private readonly LocalSession _session = shard.OpenSession();
        private readonly byte[] _value = new byte[4096];

        public override void Read(ReadOnlySpan<byte> key) => _session.TryGet(key, _value, out _, out _);

        public override void Write(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value) => _session.Set(key, value);

        public override void Dispose() => _session.DisposeAsync().AsTask().GetAwaiter().GetResult();
    }
}
