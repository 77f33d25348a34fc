// The past at a backup whose stores are embedded: the same as at the primary, from the stream that they follow. When they are a primary's
// it goes on, whatever dies meanwhile. SLOGGER_TEST_SEED repeats a run.
using Slogger.Core.Sites;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Sites;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class EmbeddedBackupPastTests : IAsyncLifetime
{
    private const int Shards = 2, Keys = 150;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2), s_near = TimeSpan.FromMilliseconds(1);

    private readonly Workspace _workspace = new(), _other = new();
    private readonly TwoSites _sites;
    private readonly Site _primary, _backup;
    private readonly Random _random;
    private readonly Dictionary<string, string> _now = [];
    private readonly List<(string Version, Dictionary<string, string> Keys)> _moments = [];

    public EmbeddedBackupPastTests(ITestOutputHelper output)
    {
        _random = new Random(TestSeed.Choose(output));
        _sites = new TwoSites(_workspace, Shards, Shards, usesPostgres: false, embedded: true, s_near,
            "--retention", "1h", "--checkpoint-every", "1mb");
        (_primary, _backup) = (_sites.Primary, _sites.Backup);
        _backup.OptionsOfOne = _ => ["--redis-server", RedisProcess.Executable];
    }

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    public async ValueTask DisposeAsync()
    {
        await _sites.DisposeAsync();
        _workspace.Dispose();
        _other.Dispose();
    }

    [Fact]
    public async Task EachCommand_SaysWhatThePrimarySays_WhateverDies_AndAfterTheBackupHasTakenOver()
    {
        await _sites.StartAsync();
        await WriteAsync(_primary, 8);
        await CompareAsync();
        string middle = _moments[3].Version, last = _moments[^1].Version;
        string[][] commands =
        [
            ["get", "--version", middle, "key:1", "key:2"],
            ["diff", "--from", middle, "--to", last],
            ["find", "--from", middle, "--to", last, "--first", "--when", "redis.call('EXISTS', 'key:1') == 1"],
        ];
        var expected = new List<string>();
        foreach (string[] command in commands) { expected.Add(await BackupPastTests.SaidAsync(_primary, command)); }
        async Task SaysSoAsync()
        {
            for (int i = 0; i < commands.Length; i++) { Assert.Equal(expected[i], await BackupPastTests.SaidAsync(_backup, commands[i])); }
        }
        await SaysSoAsync();
        string digest = await DigestAsync(_workspace, middle);
        for (int shard = 0; shard < Shards; shard++)
        {
            string checkpoints = Path.Combine(_backup.Data(shard), "checkpoints");
            await Eventually.AsyncTrue("a checkpoint was written of the store's commits", s_limit,
                () => Task.FromResult(Directory.GetFiles(checkpoints, "*.rdb").Length > 1));
            _backup.KillProxy(shard);
            await _backup.StartAsync(shard);
        }
        await _sites.FollowingAsync();
        await CompareAsync();

        await WriteAsync(_primary, 2);
        await _primary.KillAsync();
        await CompareAsync();
        await _sites.FailOverAsync();
        await ReadAgainAsync();
        await WriteAsync(_backup, 2);
        await CompareAsync();
        await SaysSoAsync();
        // In order, and not.
        for (int shard = 0; shard < Shards; shard++)
        {
            Assert.False(Directory.Exists(Path.Combine(_backup.Data(shard), "log")));
            if (shard == 0) { await _backup.TerminateAsync(shard); }
            else { _backup.KillProxy(shard); }
            await _backup.StartAsync(shard);
        }
        await _backup.ServingAsync(s_limit);
        await ReadAgainAsync();
        await WriteAsync(_backup, 2);
        await CompareAsync();
        await SaysSoAsync();
        Assert.Equal(digest, await DigestAsync(_other, middle));
    }

    // The processes of the backup die while they take over, at a step of what becomes of the stream.
    [Theory]
    [InlineData("stream-ended")]
    [InlineData("stream-moving")]
    [InlineData("stream-moved")]
    [InlineData("past-appended")]
    public async Task DiesWhileItTakesOver_ThePastGoesOn(string point)
    {
        _backup.Environment = new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = point };
        await _sites.StartAsync();
        await WriteAsync(_primary, 3);
        await _primary.KillAsync();
        await _backup.CommandAsync("failover", "--i-attest-the-primary-is-down");
        await using (IMetadataStore metadata = MetadataStoreFactory.Create(_backup.Metadata))
        {
            await Eventually.AsyncTrue("the site is the primary", s_limit,
                async () => (await metadata.SiteAsync("default")).Role == SiteRole.Primary);
        }
        _backup.Environment = new Dictionary<string, string>();
        for (int shard = 0; shard < Shards; shard++)
        {
            await Eventually.AsyncTrue("its process has died", s_limit, () => Task.FromResult(_backup.IsDown(shard)));
            await _backup.StartAsync(shard);
        }
        await _backup.ServingAsync(s_limit);
        await ReadAgainAsync();
        await CompareAsync();
        await WriteAsync(_backup, 2);
        await CompareAsync();
        for (int shard = 0; shard < Shards; shard++) { Assert.False(Directory.Exists(Path.Combine(_backup.Data(shard), "log"))); }
    }

    // Where the history is to be, something else is.
    [Fact]
    public async Task HistoryCannotBeBegun_TheStreamStaysUntilItCan()
    {
        await _sites.StartAsync();
        await WriteAsync(_primary, 3);
        await _primary.KillAsync();
        string history = Path.Combine(_backup.Data(0), "history"), log = Path.Combine(_backup.Data(0), "log");
        await File.WriteAllTextAsync(history, "in the way");
        await _sites.FailOverAsync();
        using RespClient client = await _backup.ConnectAsync(0);
        await Eventually.AsyncTrue("the past is not read", s_limit, async () =>
            (await client.CallAsync("DPR.ASOF", "AGO", "0")).Text.Contains("the past is opened again", StringComparison.Ordinal));
        Assert.NotEmpty(Directory.GetFiles(log));
        File.Delete(history);
        await ReadAgainAsync();
        Assert.False(Directory.Exists(log));
        await CompareAsync();
        await WriteAsync(_backup, 2);
        await CompareAsync();
    }

    private async Task WriteAsync(Site site, int rounds)
    {
        RespClient[] clients = await ConnectAsync(site);
        for (int round = 0; round < rounds; round++)
        {
            for (int i = 0; i < 100; i++)
            {
                string key = $"key:{_random.Next(Keys)}";
                RespClient client = clients[site.ShardOf(key)];
                if (_random.Next(5) == 0)
                {
                    await client.DoAsync("DEL", key);
                    _now.Remove(key);
                    continue;
                }
                await client.DoAsync("SET", key, _now[key] = $"{_moments.Count}:{i}:{new string('v', _random.Next(10_000))}");
            }
            _moments.Add((await CommonAsync(clients), new(_now)));
            if (_primary == site) { await ReachedAsync(_moments[^1].Version); }
        }
        foreach (RespClient client in clients) { client.Dispose(); }
    }

    private async Task CompareAsync()
    {
        RespClient[] clients = await ConnectAsync(_backup);
        foreach ((string version, Dictionary<string, string> keys) in _moments)
        {
            foreach (int key in Enumerable.Range(0, Keys).Where(_ => _random.Next(15) == 0))
            {
                string name = $"key:{key}";
                RespValue seen = await clients[_backup.ShardOf(name)].DoAsync("DPR.ASOF", "VERSION", version, "GET", name);
                Assert.True(keys.GetValueOrDefault(name) == (seen.IsNull ? null : seen.Text),
                    $"{name} of version {version} of {_moments[^1].Version}: {seen.Compact}");
            }
        }
        foreach (RespClient client in clients) { client.Dispose(); }
    }

    private static Task<RespClient[]> ConnectAsync(Site site) =>
        Task.WhenAll(Enumerable.Range(0, Shards).Select(shard => site.ConnectAsync(shard)));

    // The newest version that all have closed, with all that was acknowledged.
    private static async Task<string> CommonAsync(RespClient[] clients)
    {
        string version = await VersionNowAsync(clients[0]);
        await Eventually.AsyncTrue("all have closed one version", s_limit, async () =>
        {
            bool isSame = true;
            foreach (RespClient client in clients)
            {
                string there = Text((await client.DoAsync("DPR.ASOF", "VERSION", version)).Items[1].AsInteger());
                isSame &= there == version;
            }
            if (!isSame) { version = await VersionNowAsync(clients[0]); }
            return isSame;
        });
        return version;
    }

    private Task ReachedAsync(string version) => AnsweredAsync("the backup is there", "DPR.ASOF", "VERSION", version);

    private Task ReadAgainAsync() => AnsweredAsync("the past is read again", "DPR.ASOF", "AGO", "0");

    private async Task AnsweredAsync(string what, params string[] question)
    {
        for (int shard = 0; shard < Shards; shard++)
        {
            using RespClient client = await _backup.ConnectAsync(shard);
            await Eventually.AsyncTrue(what, s_limit, async () => !(await client.CallAsync(question)).IsError);
        }
    }

    private async Task<string> DigestAsync(Workspace to, string version) => await BackupPastTests.DigestAsync(_workspace,
        await SnapshotTests.TakeAsync(to, _backup.Port(0), "--version", version), Shards);
}
