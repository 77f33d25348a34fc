// Readers of a backup of two shards while clients write at the primary: a session that reads one shard after the other sees no effect
// without its cause, and plain clients can read both as of one version.
using System.Collections.Concurrent;
using System.Globalization;
using Microsoft.Extensions.Logging;
using Slogger.Client;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Resp;
using RespValue = Slogger.Integration.Tests.Wire.RespValue;

namespace Slogger.Integration.Tests.Sites;

public sealed class BackupReaderTests(ITestOutputHelper output)
{
    private const int Readers = 10, Pairs = 250;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task Session_ReadsOneShardAfterTheOther_SeesNoEffectWithoutItsCause_AlsoInADrill()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        // Shard 0 tells the other one, over this, to which version it may go: so that one is always behind.
        using var late = new WideLink(sites.Backup.SiteEndpoint(0), TimeSpan.FromMilliseconds(50));
        sites.Backup.OptionsOfOne = shard => shard == 1
            ? ["--watermark", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{late.Port}")] : [];
        await sites.StartAsync();
        string x = sites.Primary.Key(1, "x"), y = sites.Primary.Key(0, "y");
        using var stop = new CancellationTokenSource();
        Task<Core.Versions.VersionNumber> writing = WriteAsync(sites.Primary, x, y, stop.Token);
        Task<int> drilling = DrillAsync(sites.Backup, stop.Token);
        try
        {
            using var warnings = new Warnings();
            await using SloggerClient client = await SloggerClient.ConnectAsync(
                OptionsFor(sites.Backup) with { ReadsBackup = true, LoggerFactory = warnings });
            await using SloggerSession session = client.OpenSession();
            int[] moved = await Task.WhenAll(Enumerable.Range(0, Readers).Select(_ => ReadPairsAsync(client, x, y)));
            // An answer that is too old would be refused, with its connection, and asked for again: no shard gives one.
            Assert.Empty(warnings.Told);
            int without = (await Task.WhenAll(Enumerable.Range(0, Readers).Select(_ => AnomaliesAsync(sites.Backup, x, y)))).Sum();
            output.WriteLine($"of {Readers * Pairs} pairs {moved.Sum()} were newer than the one before; of as many that "
                + $"plain clients read {without} had an effect without its cause");
            Assert.True(without > 0, "nobody would have seen it");
            Assert.All(moved, m => Assert.True(m > 0, "always the same was read"));
            await session.GetAsync(y).AsTask().WaitAsync(Generous);
            await session.WaitForCommitAsync().WaitAsync(Generous);

            RedisErrorException refused = await Assert.ThrowsAsync<RedisErrorException>(() => session.SetAsync(x, "1").AsTask());
            Assert.StartsWith("READONLY", refused.Message, StringComparison.Ordinal);
            Assert.Throws<ArgumentException>(() => { _ = session.ExecuteAsync("QUIT"); });
            Assert.Throws<ArgumentException>(() => { _ = session.TransactionAsync([["GET", x], ["SUBSCRIBE", "a"]]); });
            Assert.Equal(2, (await session.TransactionAsync([["GET", x], ["EXISTS", x]])).Value.Items.Length);
        }
        finally
        {
            await stop.CancelAsync();
            await writing.WaitAsync(Generous);
            output.WriteLine($"{await drilling.WaitAsync(Generous)} drills");
        }

        // One is never taken for the other.
        SloggerException noBackup = await Assert.ThrowsAsync<SloggerException>(
            () => SloggerClient.ConnectAsync(OptionsFor(sites.Primary) with { ReadsBackup = true }));
        Assert.Contains("no process of a backup", noBackup.Message, StringComparison.Ordinal);
        SloggerException noPrimary = await Assert.ThrowsAsync<SloggerException>(() => SloggerClient.ConnectAsync(OptionsFor(sites.Backup)));
        Assert.Contains("this site is a backup", noPrimary.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Session_ItsSiteTakesOver_IsToldThatThisIsNoBackupAnyMore()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        await using SloggerClient client = await SloggerClient.ConnectAsync(
            OptionsFor(sites.Backup) with { ReadsBackup = true, GiveUpAfter = TimeSpan.FromSeconds(1) });
        await using SloggerSession session = client.OpenSession();
        string key = sites.Primary.Key(1, "following");
        Assert.NotNull((await session.GetAsync(key).AsTask().WaitAsync(Generous)).Value);
        using RespClient plain = await sites.Backup.ConnectAsync(1);
        Assert.Equal("+OK", (await plain.CallAsync("DPR.RESUME", "1")).Compact);
        Assert.Contains("is a backup, in world-line 1, not in 2", (await plain.CallAsync("DPR.RESUME", "2")).Text,
            StringComparison.Ordinal);
        await sites.Primary.KillAsync();
        await sites.FailOverAsync();

        // It is kept, and told: what stands behind the notice is not done before it has been read.
        await plain.SendAsync("SET", key, "x");
        await plain.SendAsync("SET", key, "y");
        string notice = (await plain.ReadAsync()).Text;
        Assert.StartsWith("ROLLBACK worldline=", notice, StringComparison.Ordinal);
        string line = notice.Split('=', ' ')[2];
        Assert.Contains($"DPR.RESUME {line}", (await plain.ReadAsync()).Text, StringComparison.Ordinal);
        Assert.StartsWith("ERR", (await plain.CallAsync("DPR.RESUME", "1")).Text, StringComparison.Ordinal);
        Assert.Equal("+OK", (await plain.CallAsync("DPR.RESUME", line)).Compact);
        Assert.Equal("+OK", (await plain.CallAsync("SET", key, "z")).Compact);

        ShardUnreachableException ended = await Assert.ThrowsAsync<ShardUnreachableException>(
            () => session.GetAsync(key).AsTask().WaitAsync(Generous));
        Assert.Contains("no backup", ended.Message, StringComparison.Ordinal);
        await using SloggerClient anew = await SloggerClient.ConnectAsync(OptionsFor(sites.Primary));
        await using SloggerSession writing = anew.OpenSession();
        Assert.True((await writing.SetAsync(key, "1").AsTask().WaitAsync(Generous)).Value);
    }

    [Fact]
    public async Task PlainClient_AsksForAKeyOfAnotherShard_IsSentOnAsInACluster()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        using RespClient first = await sites.Backup.ConnectAsync(0);
        string other = sites.Primary.Key(1, "following");
        RespValue moved = await first.CallAsync("GET", other);
        Assert.StartsWith("MOVED ", moved.Text, StringComparison.Ordinal);
        Assert.EndsWith(string.Create(CultureInfo.InvariantCulture, $":{sites.Backup.Port(1)}"), moved.Text, StringComparison.Ordinal);
        RespValue slots = await first.DoAsync("CLUSTER", "SLOTS");
        Assert.Equal([sites.Backup.Port(0), sites.Backup.Port(1)], slots.Items.Select(row => (int)row.Items[2].Items[1].Number).Order());
        Assert.StartsWith("READONLY", (await first.CallAsync("SET", sites.Primary.Key(0, "following"), "1")).Text,
            StringComparison.Ordinal);
        using RespClient second = await sites.Backup.ConnectAsync(1);
        Assert.False((await second.CallAsync("GET", other)).IsNull);
    }

    [Fact]
    public async Task PlainClients_ReadBothShardsAsOfOneVersion()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        string[] keys = [sites.Primary.Key(0, "x"), sites.Primary.Key(1, "y")];
        using var stop = new CancellationTokenSource();
        Task<Core.Versions.VersionNumber> writing = WriteAsync(sites.Primary, keys[0], keys[1], stop.Token);
        RespClient[] clients = [await sites.Backup.ConnectAsync(0), await sites.Backup.ConnectAsync(1)];
        try
        {
            await Eventually.AsyncTrue("the backup has what is written", Generous,
                async () => !(await clients[1].CallAsync("GET", keys[1])).IsNull);
            long atLeast = 0;
            var values = new HashSet<long>();
            int together = 0, tries = 0;
            var limit = DateTime.UtcNow + Generous;
            for (; values.Count < 10 && DateTime.UtcNow < limit; tries++)
            {
                for (int s = 0; s < 2; s++)
                {
                    await clients[s].SendAsync("DPR.REACH", atLeast.ToString(CultureInfo.InvariantCulture), "20000");
                    await clients[s].SendAsync("GET", keys[s]);
                    await clients[s].SendAsync("DPR.CUT");
                }
                var read = new List<(long Earliest, long Value, long Latest)>();
                for (int s = 0; s < 2; s++)
                {
                    RespValue stands = await clients[s].ReadAsync(), value = await clients[s].ReadAsync(), cut =
                        await clients[s].ReadAsync();
                    Assert.Equal(1, stands.Items[2].Number);
                    Assert.True(stands.Items[1].Number >= atLeast && cut.Items[1].Number >= stands.Items[1].Number);
                    read.Add((stands.Items[1].Number, value.IsNull ? 0 : value.AsInteger(), cut.Items[1].Number));
                }
                atLeast = read.Max(r => r.Latest);
                if (read.Any(r => r.Earliest != atLeast || r.Latest != atLeast)) { continue; }
                together++;
                values.Add(read[0].Value);
                Assert.InRange(read[0].Value - read[1].Value, 0, 1);
            }
            output.WriteLine($"{together} of {tries} tries were of one version");
            Assert.True(values.Count > 1, $"{together} of {tries} tries were of one version, with {values.Count} values");
            // One that it does not come to within the time.
            RespValue late = await clients[0].DoAsync("DPR.REACH", long.MaxValue.ToString(CultureInfo.InvariantCulture), "50");
            Assert.Equal(0, late.Items[2].Number);
            Assert.Contains("0 or more", (await clients[0].CallAsync("DPR.REACH", "-1", "0")).Text, StringComparison.Ordinal);
            Assert.Contains("timeout", (await clients[0].CallAsync("DPR.REACH", "1", "x")).Text, StringComparison.Ordinal);
        }
        finally
        {
            await stop.CancelAsync();
            await writing.WaitAsync(Generous);
            foreach (RespClient client in clients) { client.Dispose(); }
        }
    }

    private static long NumberOf(Result<string?> read) => long.Parse(read.Value ?? "0", CultureInfo.InvariantCulture);

    private static async Task<int> DrillAsync(Site backup, CancellationToken stop)
    {
        int drills = 0;
        for (; !stop.IsCancellationRequested; drills++)
        {
            (int code, string text) = await backup.CommandAsync("drill");
            Assert.True(code == 0, text);
        }
        return drills;
    }

    // How often there was something new.
    private static async Task<int> ReadPairsAsync(SloggerClient client, string x, string y)
    {
        await using SloggerSession session = client.OpenSession();
        int moved = 0;
        Result<string?> last = default;
        for (int i = 0; i < Pairs; i++)
        {
            Result<string?> effect = await session.GetAsync(y).AsTask().WaitAsync(Generous), cause = await session.GetAsync(x).AsTask()
                .WaitAsync(Generous);
            Assert.True(NumberOf(cause) >= NumberOf(effect), $"after {i} pairs y is {effect} and x is {cause}");
            Assert.True(effect.Version >= last.Version && cause.Version >= effect.Version && NumberOf(effect) >= NumberOf(last),
                $"{last}, then {effect}, then {cause}");
            moved += NumberOf(effect) > NumberOf(last) ? 1 : 0;
            last = effect;
        }
        return moved;
    }

    // How often it is seen by who does not say what has been seen before.
    private static async Task<int> AnomaliesAsync(Site backup, string x, string y)
    {
        using RespClient effects = await backup.ConnectAsync(0), causes = await backup.ConnectAsync(1);
        int seen = 0;
        for (int i = 0; i < Pairs; i++)
        {
            long effect = (await effects.DoAsync("GET", y)).AsInteger();
            if ((await causes.DoAsync("GET", x)).AsInteger() < effect) { seen++; }
        }
        return seen;
    }

    private static SloggerClientOptions OptionsFor(Site site) =>
        new() { Endpoints = [.. Enumerable.Range(0, 2)
            .Select(s => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{site.Port(s)}"))], GiveUpAfter = Generous };

    // x before y, of which the session knows: the version of y is no lower than that of x. Returns the version of the last y.
    private static async Task<Core.Versions.VersionNumber> WriteAsync(Site primary, string x, string y, CancellationToken stop)
    {
        await using SloggerClient client = await SloggerClient.ConnectAsync(OptionsFor(primary), CancellationToken.None);
        await using SloggerSession session = client.OpenSession();
        Core.Versions.VersionNumber last = default;
        while (!stop.IsCancellationRequested)
        {
            await session.IncrementAsync(x);
            last = (await session.IncrementAsync(y)).Version;
        }
        return last;
    }

    private sealed class Warnings : ILoggerFactory, ILogger
    {
        public ConcurrentQueue<string> Told { get; } = new();

        public ILogger CreateLogger(string categoryName) => this;

        public void AddProvider(ILoggerProvider provider)
        {
        }

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Warning;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception,
            Func<TState, Exception?, string> formatter)
        {
            if (IsEnabled(logLevel)) { Told.Enqueue(formatter(state, exception)); }
        }

        public void Dispose()
        {
        }
    }
}
