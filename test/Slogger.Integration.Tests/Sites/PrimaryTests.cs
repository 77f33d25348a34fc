// A primary that ships, as a person runs it: the executable over a real Redis, killed with -9, and a receiver in the test's process. What
// the backup is told to hold is in its log; what it does not keep up with, what deposes a site, its lease, and operations that are held for
// a switch-over.
using System.Globalization;
using System.Net;
using Slogger.Core.Sites;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Integration.Tests.Sites;

public sealed class PrimaryTests : IAsyncDisposable
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);
    private readonly Workspace _workspace = new();
    private readonly int _control = Workspace.FreePort();
    private ProxyDeployment _primary = null!;
    private BackupReceiver _backup = null!;

    public async ValueTask DisposeAsync()
    {
        if (_primary is not null) { await _primary.DisposeAsync(); }
        if (_backup is not null) { await _backup.DisposeAsync(); }
        _workspace.Dispose();
    }

    [Fact]
    public async Task Writes_ThroughKillsOfTheProxyAndOfRedis_AreAtTheBackupWhenSaid()
    {
        await StartAsync();
        for (int round = 0; round < 4; round++)
        {
            using (RespClient client = await _primary.Proxy.ConnectAsync())
            {
                for (int i = 0; i < 200; i++) { await client.DoAsync("SET", $"k{round}-{i}", $"value-{round}-{i}!"); }
                RespValue waited = await client.DoAsync("DPR.WAIT", "*", "60000", "BACKUP");
                Assert.Equal(1, waited.Items[2].AsInteger());
            }
            for (int i = 0; i < 200; i += 50) { Assert.True(_backup.Holds($"value-{round}-{i}!"), $"round {round}: {i}"); }
            Assert.True(_backup.Holds($"value-{round}-199!"));
            if (round == 1)
            {
                _primary.Redis.KillHard();
                await _primary.Redis.RestartAsync();
                await ServesAsync();
                continue;
            }
            _primary.Proxy.KillHard();
            if (round == 2) { await _backup.StopAsync(); }
            await _primary.StartProxyAsync();
            if (round == 2) { await _backup.StartAsync(); }
        }
        using RespClient last = await _primary.Proxy.ConnectAsync();
        Assert.Equal("value-3-199!", (await last.DoAsync("GET", "k3-199")).Text);
        Dictionary<string, string> info = await InfoAsync();
        Assert.Equal(("shipping", "none", "0"), (info["backup_state"], info["backup_problem"], info["writes_held"]));
    }

    // The copy that it is seeded with is taken while clients write, from a Redis that holds something, and is sent on by the next process.
    [Fact]
    public async Task Seeding_OfAStoreInUse_GoesOnThroughAKill()
    {
        await StartAsync(isSeeded: false);
        using (RespClient client = await _primary.Proxy.ConnectAsync())
        {
            for (int i = 0; i < 200; i++) { await client.SendAsync("SET", $"before-{i}", new string('v', 20_000)); }
            for (int i = 0; i < 200; i++) { Assert.Equal("OK", (await client.ReadAsync()).Text); }
        }
        await _backup.StartAsync();
        string copies = Path.Combine(_primary.DataDirectory, "copies");
        await Eventually.AsyncTrue("there is a copy", Generous,
            () => Task.FromResult(_backup.Life == 1 || File.Exists(Path.Combine(copies, "copy.json"))));
        _primary.Proxy.KillHard();
        await _primary.StartProxyAsync();
        using RespClient next = await _primary.Proxy.ConnectAsync();
        await next.DoAsync("SET", "after", "seeding!");
        Assert.Equal(1, (await next.DoAsync("DPR.WAIT", "*", "60000", "BACKUP")).Items[2].AsInteger());
        Assert.True(_backup.Holds("seeding!"));
        await Eventually.AsyncTrue("the copy is gone", Generous, () => Task.FromResult(!Directory.Exists(copies)));
    }

    [Fact]
    public async Task Wait_ForABackupThatIsAway_EndsByItsTime()
    {
        await StartAsync();
        await _backup.StopAsync();
        using RespClient client = await _primary.Proxy.ConnectAsync();
        await client.DoAsync("SET", "a", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
        // It is committed, and its version not known any more; at the backup it is not.
        Assert.Equal(0, (await client.DoAsync("DPR.WAIT", "*", "300", "BACKUP")).Items[2].AsInteger());
        await _backup.StartAsync();
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000", "BACKUP")).Items[2].AsInteger());
    }

    [Fact]
    public async Task Backup_DoesNotKeepUp_WritesWaitAndReadsDoNot()
    {
        await StartAsync(options: ["--backup-budget", "1mb", "--backup-window", "256kb"]);
        await _backup.StopAsync();
        using RespClient writer = await _primary.Proxy.ConnectAsync(), late = await _primary.Proxy.ConnectAsync(), reader =
            await _primary.Proxy.ConnectAsync();
        await reader.DoAsync("SET", "seen", "yes");
        string value = new('v', 10_000);
        using var enough = new CancellationTokenSource();
        Task<int> writing = Task.Run(async () =>
        {
            int written = 0;
            for (; !enough.IsCancellationRequested; written++)
            {
                Assert.Equal("OK", (await writer.DoAsync("SET", $"k{written}", value)).Text);
            }
            return written;
        });
        await UntilAsync("writes are held", i => i["writes_held"] == "1");
        // Nothing overtakes a write of the same connection.
        await late.SendAsync("SET", "late", "1");
        await late.SendAsync("GET", "late");
        for (int i = 0; i < 20; i++)
        {
            Assert.Equal("yes", (await reader.DoAsync("GET", "seen")).Text);
            await reader.SendAsync("MULTI");
            await reader.SendAsync("GET", "seen");
            await reader.SendAsync("DISCARD");
            for (int reply = 0; reply < 3; reply++) { Assert.False((await reader.ReadAsync()).IsError); }
        }
        using (RespClient redis = await _primary.Redis.ConnectAsync()) { Assert.True((await redis.DoAsync("GET", "late")).IsNull); }
        Assert.Equal("1", (await InfoAsync())["writes_held"]);
        await _backup.StartAsync();
        Assert.Equal("OK", (await late.ReadAsync()).Text);
        Assert.Equal("1", (await late.ReadAsync()).Text);
        await enough.CancelAsync();
        int count = await writing;
        Assert.Equal(1, (await writer.DoAsync("DPR.WAIT", "*", "60000", "BACKUP")).Items[2].AsInteger());
        await UntilAsync("writes go on", i => i["writes_held"] == "0");
        Assert.Equal(count + 2, (await reader.DoAsync("DBSIZE")).AsInteger());
    }

    [Fact]
    public async Task Backup_DoesNotKeepUp_IsGivenUpWhereAsked()
    {
        await StartAsync(options: ["--backup-budget", "1mb", "--backup-window", "256kb", "--on-backup-lag", "detach"]);
        await _backup.StopAsync();
        using RespClient writer = await _primary.Proxy.ConnectAsync();
        string value = new('v', 10_000);
        for (int i = 0; i < 300; i++) { await writer.DoAsync("SET", $"k{i}", value); }
        await UntilAsync("the backup is given up", i => i["backup_state"] == "detached");
        Assert.Equal("OK", (await writer.DoAsync("SET", "later", "1")).Text);
        Assert.Equal(1, (await writer.DoAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
        // An operator may have it back.
        await _backup.StartAsync();
        using var channel = new GrpcChannel("127.0.0.1", _control, new());
        Assert.Equal([0], (await channel.CallAsync(SiteControlMethods.Attach, new V1.AttachRequest { Shards = { 0 } })).Shards);
        // What it lacks is more than was kept for it: it is seeded.
        await UntilAsync("it ships again", i => i["backup_state"] == "shipping");
        Assert.Equal(2, _backup.Life);
        Assert.Equal(1, (await writer.DoAsync("DPR.WAIT", "*", "60000", "BACKUP")).Items[2].AsInteger());
    }

    // What the checkpoints do not need any more is kept for the backup.
    [Fact]
    public async Task Backup_IsAway_TheLogIsNotTrimmedBelowWhatItHas()
    {
        await StartAsync(options: ["--checkpoint-every", "1mb", "--log-budget", "2mb", "--backup-budget", "64mb"]);
        await _backup.StopAsync();
        string checkpoints = Path.Combine(_primary.DataDirectory, "checkpoints");
        string first = Directory.EnumerateFiles(checkpoints, "*.json").Order(StringComparer.Ordinal).First();
        using (RespClient client = await _primary.Proxy.ConnectAsync())
        {
            await client.DoAsync("SET", "first", "the backup lacks this!");
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
        }
        // Whole files are deleted: the next one begins with a world-line.
        _primary.Redis.KillHard();
        await _primary.Redis.RestartAsync();
        await ServesAsync();
        using RespClient writer = await _primary.Proxy.ConnectAsync();
        string value = new('v', 10_000);
        await Eventually.AsyncTrue("the first checkpoint is not needed any more", Generous, async () =>
        {
            for (int i = 0; i < 20; i++) { await writer.DoAsync("SET", $"k{i}", value); }
            return !File.Exists(first);
        });
        await _backup.StartAsync();
        Assert.Equal(1, (await writer.DoAsync("DPR.WAIT", "*", "60000", "BACKUP")).Items[2].AsInteger());
        // It was not seeded anew.
        Assert.Equal(1, _backup.Life);
        Assert.True(_backup.Holds("the backup lacks this!"));
    }

    [Fact]
    public async Task Site_TakenOverByTheBackup_EndsAndStartsNoMore()
    {
        await StartAsync();
        using RespClient client = await _primary.Proxy.ConnectAsync();
        await client.DoAsync("SET", "a", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000", "BACKUP")).Items[2].AsInteger());
        await _backup.TakeOverAsync();
        Assert.Equal(1, await _primary.Proxy.ExitAsync(Generous));
        Assert.Contains("another site has taken over", _primary.Proxy.Tail(), StringComparison.Ordinal);
        Assert.Contains("slogger seed", _primary.Proxy.Tail(), StringComparison.Ordinal);
        // The next one has nobody to hear it from: it is in the metadata.
        await _backup.StopAsync();
        using ProxyProcess again = ProxyProcess.Launch(_primary.Port, _primary.ServeOptions);
        Assert.Equal(1, await again.ExitAsync(Generous));
        Assert.Contains("slogger seed", again.Tail(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Lease_BackupIsSilent_NobodyIsAnswered_NorToldOfACommit_UntilItIsBack()
    {
        await StartAsync(lease: TimeSpan.FromMilliseconds(500), options: ["--site-lease", "500ms"]);
        using RespClient client = await _primary.Proxy.ConnectAsync(), asking = await _primary.Proxy.ConnectAsync();
        await client.DoAsync("SET", "a", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
        await asking.DoAsync("GET", "a");
        await _backup.StopAsync();
        await UntilAsync("the lease is over", i => i["site_lease"] == "expired");
        await client.SendAsync("SET", "b", "1");
        using (RespClient redis = await _primary.Redis.ConnectAsync())
        {
            await Eventually.AsyncTrue("it is executed", Generous, async () => !(await redis.DoAsync("GET", "b")).IsNull);
        }
        RespValue waited = await asking.DoAsync("DPR.WAIT", "*", "1000");
        // Nothing is said of what is committed, not even of what was said before.
        Assert.Equal((0, 0), (waited.Items[1].AsInteger(), waited.Items[2].AsInteger()));
        Assert.Equal(0, (await asking.DoAsync("WAITAOF", "1", "0", "100")).Items[0].AsInteger());
        await Assert.ThrowsAsync<TimeoutException>(async () =>
            Assert.Fail($"it was answered {await client.ReadAsync(TimeSpan.FromMilliseconds(200))}"));
        Assert.Contains("clients get no replies: the site lease has run out", _primary.Proxy.Tail(), StringComparison.Ordinal);

        await _backup.StartAsync();
        Assert.Equal("OK", (await client.ReadAsync(Generous)).Text);
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
        await Eventually.AsyncTrue("it says so", Generous,
            () => Task.FromResult(_primary.Proxy.Tail().Contains("clients get replies again", StringComparison.Ordinal)));
    }

    [Fact]
    public async Task SwitchOver_OperationsAreHeld_AlsoByTheNextProcess_AndGoOnWhenCalledOff()
    {
        await StartAsync();
        await using IMetadataStore metadata = MetadataStoreFactory.Create($"sqlite:{Path.Combine(_primary.DataDirectory, "metadata.db")}");
        await metadata.InitializeAsync();
        using RespClient client = await _primary.Proxy.ConnectAsync(), blocked = await _primary.Proxy.ConnectAsync();
        await client.DoAsync("SET", "a", "1");
        await blocked.SendAsync("BLPOP", "list", "0");
        using (var channel = new GrpcChannel("127.0.0.1", _control, new()))
        {
            Assert.Null(Assert.Single((await channel.CallAsync(SiteControlMethods.Hold, new V1.HoldRequest { Number = 1 })).Shards).Held);
            SiteState site = (await metadata.ChangeSiteAsync("default", s => s.Hold(0))).Site;
            await HeldAsync(channel, site.HandOver.Number);
        }
        await client.SendAsync("GET", "a");
        Dictionary<string, string> info = await InfoAsync();
        Assert.Equal("serving", info["store_state"]);

        _primary.Proxy.KillHard();
        await _primary.StartProxyAsync();
        using RespClient next = await _primary.Proxy.ConnectAsync();
        await next.SendAsync("SET", "b", "2");
        using (var channel = new GrpcChannel("127.0.0.1", _control, new())) { await HeldAsync(channel, 1); }
        using (RespClient redis = await _primary.Redis.ConnectAsync()) { Assert.True((await redis.DoAsync("GET", "b")).IsNull); }

        await metadata.ChangeSiteAsync("default", s => s.Resume(1, isCalledOff: false));
        Assert.Equal("OK", (await next.ReadAsync()).Text);
        Assert.Equal("2", (await next.DoAsync("GET", "b")).Text);
    }

    // Until everything that was done is in the cut, and at the backup.
    private static async Task HeldAsync(GrpcChannel channel, long number)
    {
        V1.HeldShard? shard = null;
        await Eventually.AsyncTrue("all is held, and at the backup", Generous, async () =>
        {
            V1.HeldShard before = shard ?? new();
            shard = Assert.Single((await channel.CallAsync(SiteControlMethods.Hold, new V1.HoldRequest { Number = number })).Shards);
            if (before.Held is { } held && shard.Held is { } now) { Assert.Equal(held, now); }
            return shard.Held is { } at && shard.Cut.Version >= at.Version && shard.Watermark.Version >= at.Version
                && shard.Cut.WorldLine == at.WorldLine;
        });
    }

    private async Task StartAsync(bool isSeeded = true, TimeSpan lease = default, params string[] options)
    {
        _backup = await BackupReceiver.CreateAsync(_workspace);
        _backup.Lease = lease;
        _primary = new(_workspace,
            new ProxySetup(Attached: true) { Options = ["--backup", _backup.Address, "--site-listen",
                string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{_control}"), .. options] });
        await _primary.StartAsync();
        if (!isSeeded) { return; }
        await _backup.StartAsync();
        using RespClient client = await _primary.Proxy.ConnectAsync();
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "0", "60000", "BACKUP")).Items[2].AsInteger());
    }

    private Task ServesAsync() => Eventually.AsyncTrue("it serves", Generous, async () => (await InfoAsync())["store_state"] == "serving");

    private async Task UntilAsync(string what, Func<Dictionary<string, string>, bool> holds)
    {
        Dictionary<string, string> info = [];
        try
        {
            await Eventually.AsyncTrue(what, Generous, async () =>
            {
                Assert.False(_primary.Proxy.HasExited, _primary.Proxy.Tail());
                try
                {
                    return holds(info = await InfoAsync());
                }
                catch (ConnectionLostException)
                {
                    // A lease ran out between the question and the answer, which says what is committed.
                    return false;
                }
            });
        }
        catch (TimeoutException e)
        {
            Assert.Fail($"{e.Message}: {string.Join(", ", info.Where(f => f.Key.StartsWith("backup", StringComparison.Ordinal)))}\n"
                + $"{_primary.Proxy.Tail()}");
        }
    }

    private async Task<Dictionary<string, string>> InfoAsync()
    {
        using RespClient client = await _primary.Proxy.ConnectAsync();
        return (await client.DoAsync("DPR.INFO")).Text.Split("\r\n", StringSplitOptions.RemoveEmptyEntries).Select(l => l.Split(':', 2))
            .ToDictionary(p => p[0], p => p[1]);
    }
}
