// How a backup that is far behind catches up over a narrow link: with the log as it is, and with windows of it. Two pairs of sites get the
// same writes while their links are closed; then these are opened, and each is left alone until its backup has all.
using System.Diagnostics;
using System.Globalization;
using Slogger.Bench.Cases;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Bench.Sites;
using Slogger.Bench.Suites;
using Slogger.Integration.Tests.Processes;
using Slogger.Redis.Connections;

namespace Slogger.Bench.Reduction;

internal sealed class ShippedReduction(BenchOptions options, Results results, string suite)
{
    public const string Case = "ship";
    private const long LinkBytesPerSecond = 4 << 20;
    private const string Far = "8mb", Never = "1000gb";
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2), s_oneWay = TimeSpan.FromMilliseconds(5);

    private readonly int _rounds = options.Rounds ?? 3;

    private readonly record struct Run(long LogBytes, long LinkBytes, long SparedBytes, double Seconds);

    public async Task RunAsync()
    {
        string directory = SuiteDirectory.Create(options, $"{suite}-{Case}");
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using SitePair plain = Pair(fleet, directory, "plain", Never), windows = Pair(fleet, directory, "windows", Far);
        ReductionLoad load = ReductionLoad.All.Single(l => l.Name == "zipf");
        List<Run> raw = [], reduced = [];
        for (int round = 0; round < _rounds; round++)
        {
            foreach ((SitePair pair, List<Run> runs) in ((SitePair, List<Run>)[])[(plain, raw), (windows, reduced)])
            {
                runs.Add(await CatchUpAsync(pair, load).ConfigureAwait(false));
                Console.WriteLine($"  {runs[^1]}");
            }
        }
        if (raw.Any(r => r.SparedBytes > 0)) { throw new BenchException("windows were sent to a backup that was to get none"); }
        string what = string.Create(CultureInfo.InvariantCulture,
            $"a backup that is {Median(raw, r => r.LogBytes) / 1e6:0} MB behind, over {LinkBytesPerSecond >> 20} MB/s");
        double bytes = Statistics.Median(reduced.Zip(raw, (w, r) => (double)w.LinkBytes / r.LinkBytes));
        double seconds = Statistics.Median(reduced.Zip(raw, (w, r) => w.Seconds / r.Seconds));
        results.Add(Figure.AtMost(suite, $"{what}: bytes over the link with windows, of those of the log", bytes, "", 0.5));
        results.Add(Figure.AtMost(suite, $"{what}: time to catch up with windows, of that with the log", seconds, "", 0.6));
        results.AddTable($"{suite}: {what}; {load.Title}, medians of {_rounds} rounds",
        [
            "| sent | log, MB | over the link, MB | catches up in, s | lowest | highest |", "| --- | ---: | ---: | ---: | ---: | ---: |",
            Row("the log as it is", raw), Row("windows", reduced),
        ]);
    }

    private SitePair Pair(CaseFleet fleet, string directory, string name, string above)
    {
        string Metadata(string site) => $"sqlite:{Path.Combine(directory, $"{name}-{site}.db")}";
        return new(options, fleet, directory, (Metadata("primary"), Metadata("backup")), shards: 1, s_oneWay, "--version-interval 5ms",
            $"--reduce-ship-above {above}");
    }

    private static async Task<Run> CatchUpAsync(SitePair pair, ReductionLoad load)
    {
        WideLink link = pair.Links[0];
        link.Close();
        long log = Info(pair, "backup_log_bytes"), spared = Info(pair, "backup_spared_bytes"), before = link.Bytes;
        RedisPipeline pipeline = await RedisPipeline.ConnectAsync(RedisEndpoint.Tcp("127.0.0.1", pair.PrimaryPort(0)), s_limit, default)
            .ConfigureAwait(false);
        await using (pipeline.ConfigureAwait(false))
        {
            foreach (RedisBatch batch in load.Batches())
            {
                IReadOnlyList<RedisReply> replies = await pipeline.RunAsync(batch, default).ConfigureAwait(false);
                if (replies.FirstOrDefault(r => r.IsError) is { } error) { throw new BenchException(error.Text); }
            }
        }
        link.BytesPerSecond = LinkBytesPerSecond;
        long began = Stopwatch.GetTimestamp();
        link.Open();
        pair.Following();
        double seconds = Stopwatch.GetElapsedTime(began).TotalSeconds;
        Run run = new(Info(pair, "backup_log_bytes") - log, link.Bytes - before, Info(pair, "backup_spared_bytes") - spared, seconds);
        link.BytesPerSecond = 0;
        long[] keys = [.. ((int[])[pair.PrimaryPort(0), pair.BackupPort(0)]).Select(Keys)];
        return keys[0] == keys[1] ? run : throw new BenchException($"the primary has {keys[0]} keys, its backup {keys[1]}");
    }

    private static long Keys(int port)
    {
        using var client = new RespClient(port, s_limit);
        return client.Integer("DBSIZE");
    }

    private static long Info(SitePair pair, string field)
    {
        using var client = new RespClient(pair.PrimaryPort(0), s_limit);
        string line = client.Text("DPR.INFO").Split("\r\n").FirstOrDefault(l => l.StartsWith(field + ":", StringComparison.Ordinal))
            ?? throw new BenchException($"DPR.INFO has no {field}");
        return long.Parse(line[(field.Length + 1)..], CultureInfo.InvariantCulture);
    }

    private static string Row(string name, List<Run> runs) => string.Create(CultureInfo.InvariantCulture,
        $"| {name} | {Median(runs, r => r.LogBytes) / 1e6:0.0} | {Median(runs, r => r.LinkBytes) / 1e6:0.0} | "
            + $"{Median(runs, r => r.Seconds):0.0} | {runs.Min(r => r.Seconds):0.0} | {runs.Max(r => r.Seconds):0.0} |");

    private static double Median(List<Run> runs, Func<Run, double> of) => Statistics.Median(runs.Select(of));
}
