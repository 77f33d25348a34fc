// Co-location (DPR, section 5): an application hosts a shard and works on it in its own process, while others work on it over the network.
// Invariants I1, I2 and I5 hold for it as for everybody.
using System.Globalization;
using System.Net;
using System.Text;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Slogger.Client;
using Slogger.Core.Sessions;
using Slogger.Hosting;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Embedded;

public sealed class HostingTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(120);

    // SLOGGER_TEST_ROUNDS=100 for a longer run.
    [Fact]
    public async Task Application_KilledUnderLoad_KeepsWhatWasCommittedAndAPrefixOfEachSession()
    {
        int rounds = int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_ROUNDS"), CultureInfo.InvariantCulture, out int given)
            ? given : 4;
        using var workspace = new Workspace();
        string data = workspace.File("data");
        var check = new HostingCheck(output);
        for (int round = 0; round < rounds; round++)
        {
            int port = Workspace.FreePort();
            using ChildProcess application = Start(port, data, round);
            await application.WaitForLineAsync(l => l == "serves", Generous);
            using RespClient client = await RespClient.ConnectAsync(new IPEndPoint(IPAddress.Loopback, port));
            await check.RunAsync(client, round);
            HostingSession[] sessions = check.NewSessions();
            await client.DoAsync("SET", HostingApplication.Go(HostingCheck.Text(round)), "1");
            Task[] running = [.. sessions.Select(s => s.RunAsync(port))];
            await Task.WhenAll(HostingApplication.Workers.Select(
                w => application.WaitForLineAsync(l => Number(l, "committed", w) >= 0, Generous)));
            await Task.WhenAll(sessions.Select(s => s.Committing)).WaitAsync(Generous);
            await Task.Delay(Random.Shared.Next(1000));
            application.KillHard();
            await Task.WhenAll(running);
            foreach (string worker in HostingApplication.Workers) { check.Committed(worker, Last(application, "committed", worker)); }
            check.Ended(sessions);
        }

        // By another program, too.
        using var shard = new EmbeddedShardAt(data);
        await shard.StartAsync();
        using RespClient last = await shard.ConnectAsync();
        await check.RunAsync(last, rounds);
        Assert.Equal(0, await shard.StopAsync());
        Assert.All([.. HostingApplication.Workers, .. HostingApplication.Others],
            w => Assert.True(check.CommittedOf(w) > 0, $"nothing of {w} was ever committed"));
    }

    [Fact]
    public async Task ApplicationAndNetwork_RaiseOneCounter_NoneIsLost_AndAnOrderedStopKeepsAll()
    {
        using var workspace = new Workspace();
        string data = workspace.File("data");
        int port = Workspace.FreePort();
        long expected;
        using (ChildProcess application = Start(port, data, round: 0))
        {
            await application.WaitForLineAsync(l => l == "serves", Generous);
            expected = await FromNetworkAsync(port, application);
            application.Terminate();
            Assert.True(await application.WaitForExitAsync(Generous), application.Tail());
            Assert.True(application.ExitCode == 0, application.Tail());
            expected += HostingApplication.Workers.Sum(w => Last(application, "stopped", w));
        }

        using var shard = new EmbeddedShardAt(data);
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        Assert.Equal("$" + expected.ToString(CultureInfo.InvariantCulture),
            (await client.CallAsync("GET", HostingWorkload.Shared)).Compact);
    }

    // "The system state is rolled back ... and clients are told": what the session did here is told by version, like what it did elsewhere.
    [Theory]
    [InlineData("approximate")]
    [InlineData("exact")]
    [InlineData("hybrid")]
    public async Task AnotherShardDies_SessionIsToldWhatSurvivedHere_AndGoesOn(string finder)
    {
        using var workspace = new Workspace();
        int herePort = Workspace.FreePort(), therePort = Workspace.FreePort();
        string[] common = ["--metadata", "sqlite:" + workspace.File("metadata.db"), "--shards", "2", "--finder", finder];
        using IHost host = Application(herePort, workspace.File("here"), common);
        await host.StartAsync();
        var there = new EmbeddedShardAt(workspace.File("there"), therePort, [.. common, "--shard", "1"]);
        try
        {
            await there.StartAsync();
            var shard = host.Services.GetRequiredService<ISloggerShard>();
            await shard.Ready.WaitAsync(Generous);
            await using LocalSession session = shard.OpenSession();
            byte[] here = KeyAt(session, local: true), elsewhere = KeyAt(session, local: false);
            Assert.Throws<KeyElsewhereException>(() => session.Set(elsewhere, here));
            long count = 0;
            int rollbacks = 0;
            for (int round = 0; round < 3; round++)
            {
                var done = new List<SequenceNumber>();
                Task? killed = null;
                RollbackException? rollback = null;
                long start = Environment.TickCount64;
                bool isCommitted = false;
                int kills = 0, killAt = 1500;
                while (rollback is null)
                {
                    Assert.True(Environment.TickCount64 - start < Generous.TotalMilliseconds,
                        $"no rollback was heard of: {done.Count} operations, {kills} kills\n{there.Tail()}");
                    try
                    {
                        await session.IncrementAsync(elsewhere);
                        for (int i = 0; i < 50; i++)
                        {
                            long sum = session.Increment(here, 1, out _);
                            done.Add(session.Last);
                            Assert.Equal(count + done.Count, sum);
                        }

                        if (!isCommitted && done.Count >= 500)
                        {
                            await session.WaitForCommitAsync();
                            isCommitted = true;
                        }

                        // With finders that go by dependencies a kill may take nothing that this session has done: then it is not
                        // disturbed, and there is another. (An operation that was refused leaves any number done.)
                        if (done.Count < killAt || killed is { IsCompleted: false }) { continue; }
                        killed = there.KillAndStartAsync();
                        kills++;
                        killAt = done.Count + 500;
                    }
                    catch (RollbackException e)
                    {
                        rollback = e;
                    }
                    catch (Exception e) when (e is UncertainException or ReplyLostException or ShardUnreachableException)
                    {
                        // Of the other shard.
                    }
                }

                await killed!;
                rollbacks++;
                output.WriteLine(rollback.Message);
                // Nothing is done before it has been taken in.
                Assert.Throws<RollbackException>(() => session.Exists(here, out _));
                session.Resume(rollback);
                long survived = done.Count(s => rollback.FateOf(s) == OperationFate.Survived);
                Assert.True(survived >= 500, $"I2: 500 were committed, {survived} have survived");
                Assert.DoesNotContain(done, s => rollback.FateOf(s) == OperationFate.Uncertain);
                Assert.Equal(done.Take((int)survived), done.Where(s => rollback.FateOf(s) == OperationFate.Survived));
                count += survived;
                byte[] value = new byte[20];
                Assert.True(session.TryGet(here, value, out int length, out _));
                Assert.Equal(count, long.Parse(Encoding.ASCII.GetString(value, 0, length), CultureInfo.InvariantCulture));
            }

            await session.WaitForCommitAsync().WaitAsync(Generous);
            Assert.Equal(3, rollbacks);
        }
        finally
        {
            await host.StopAsync();
            there.Dispose();
        }
    }

    // Section 5.4, relaxed DPR: what is on its way to another shard holds up nothing here, and is an exception of the committed prefix.
    [Fact]
    public async Task AnotherShardIsSilent_SessionGoesOnHere()
    {
        using var workspace = new Workspace();
        int herePort = Workspace.FreePort(), therePort = Workspace.FreePort();
        string[] common = ["--metadata", "sqlite:" + workspace.File("metadata.db"), "--shards", "2"];
        using IHost host = Application(herePort, workspace.File("here"), common);
        await host.StartAsync();
        var there = new EmbeddedShardAt(workspace.File("there"), therePort, [.. common, "--shard", "1"]);
        try
        {
            await there.StartAsync();
            var shard = host.Services.GetRequiredService<ISloggerShard>();
            await shard.Ready.WaitAsync(Generous);
            await using LocalSession session = shard.OpenSession();
            byte[] here = KeyAt(session, local: true), elsewhere = KeyAt(session, local: false);
            await session.IncrementAsync(elsewhere);
            there.Pause();
            ValueTask<Result<long>> pending = session.IncrementAsync(elsewhere);
            for (int i = 1; i <= 10_000; i++) { Assert.Equal(i, session.Increment(here, 1, out _)); }
            Assert.False(pending.IsCompleted);
            there.GoOn();
            Assert.Equal(2, (await pending).Value);
            await session.WaitForCommitAsync().WaitAsync(Generous);
            Assert.Equal(session.Last, session.CommittedUpTo);
            Assert.Empty(session.Exceptions);
        }
        finally
        {
            there.GoOn();
            await host.StopAsync();
            there.Dispose();
        }
    }

    // Who owns a key is asked ahead of an operation: so it must not change.
    [Fact]
    public async Task SlotMove_WhileASessionWorks_IsRefused_AndKeysStayWhereTheyAre()
    {
        using var workspace = new Workspace();
        int herePort = Workspace.FreePort(), therePort = Workspace.FreePort();
        string metadata = "sqlite:" + workspace.File("metadata.db");
        string[] common = ["--metadata", metadata, "--shards", "2"];
        using IHost host = Application(herePort, workspace.File("here"), common);
        await host.StartAsync();
        var there = new EmbeddedShardAt(workspace.File("there"), therePort, [.. common, "--shard", "1"]);
        try
        {
            await there.StartAsync();
            var shard = host.Services.GetRequiredService<ISloggerShard>();
            await shard.Ready.WaitAsync(Generous);
            await using LocalSession session = shard.OpenSession();
            byte[][] keys = [.. Enumerable.Range(0, 200).Select(i => Encoding.ASCII.GetBytes($"key{i}"))];
            bool[] isLocal = [.. keys.Select(k => session.IsLocal(k))];
            Assert.Contains(true, isLocal);
            Assert.Contains(false, isLocal);
            bool stop = false;
            long done = 0;
            Task working = Task.Run(() =>
            {
                while (!Volatile.Read(ref stop))
                {
                    for (int k = 0; k < keys.Length; k++)
                    {
                        if (isLocal[k]) { session.Increment(keys[k], 1, out _); }
                    }

                    done++;
                }
            });
            foreach ((string slots, string to) in ((string, string)[])[("0-8191", "1"), ("8192-16383", "0")])
            {
                (int exitCode, string text) = await ProxyProcess.CommandAsync(
                    ["move", "--metadata", metadata, "--slots", slots, "--to", to]);
                Assert.Equal(1, exitCode);
                Assert.Contains("its store is FASTER", text, StringComparison.Ordinal);
            }

            Volatile.Write(ref stop, true);
            await working;
            Assert.Equal(isLocal, keys.Select(k => session.IsLocal(k)));
            for (int k = 0; k < keys.Length; k++)
            {
                // Over the network, from whoever owns it.
                string? found = (await session.Remote.GetAsync(keys[k])).Value;
                Assert.Equal(isLocal[k] ? done.ToString(CultureInfo.InvariantCulture) : null, found);
            }
        }
        finally
        {
            await host.StopAsync();
            there.Dispose();
        }
    }

    // Another process takes the shard: nothing is promised here any more, and the store closes under sessions that work.
    [Fact]
    public async Task ShardIsTakenByAnother_SessionIsToldThatItHasEnded()
    {
        using var workspace = new Workspace();
        string[] common = ["--metadata", "sqlite:" + workspace.File("metadata.db")];
        using IHost host = Application(Workspace.FreePort(), workspace.File("here"), common);
        await host.StartAsync();
        using var thief = new EmbeddedShardAt(workspace.File("there"), options: common);
        try
        {
            var shard = host.Services.GetRequiredService<ISloggerShard>();
            await shard.Ready.WaitAsync(Generous);
            await using LocalSession session = shard.OpenSession();
            session.Set("key"u8, "1"u8);
            await session.WaitForCommitAsync().WaitAsync(Generous);
            Task working = Task.Run(() =>
            {
                while (true) { session.Increment("key"u8, 1, out _); }
            });
            // It has not the data, and ends; but the shard was its own before it knew.
            await Assert.ThrowsAnyAsync<Exception>(thief.StartAsync);
            await Assert.ThrowsAsync<ShardUnreachableException>(() => working.WaitAsync(Generous));
            Assert.Contains("has ended", Assert.Throws<InvalidOperationException>(() => shard.OpenSession()).Message,
                StringComparison.Ordinal);
            Assert.Throws<ShardUnreachableException>(() => session.TryGet("key"u8, default, out _, out _));
        }
        finally
        {
            await host.StopAsync();
        }
    }

    [Fact]
    public async Task Options_ThatMakeNoSenseHere_AreRefused()
    {
        using var workspace = new Workspace();
        foreach ((string name, string text, string why) in new[] { ("redis", "127.0.0.1:1", "embedded"),
            ("clock-error", "1ms", "one clock"), ("lisen", "x", "no option --lisen") })
        {
            using IHost host = Application(Workspace.FreePort(), workspace.File(name), ["--" + name, text]);
            await host.StartAsync();
            var refused = await Assert.ThrowsAnyAsync<SloggerException>(
                () => host.Services.GetRequiredService<ISloggerShard>().Ready.WaitAsync(Generous));
            Assert.Contains(why, refused.Message, StringComparison.Ordinal);
        }
    }

    internal static IHost Application(int port, string data, string[] options)
    {
        HostApplicationBuilder builder = Host.CreateApplicationBuilder();
        builder.Logging.ClearProviders();
        builder.Services.Configure<HostOptions>(o => o.BackgroundServiceExceptionBehavior = BackgroundServiceExceptionBehavior.Ignore);
        builder.Services.AddSloggerShard(o =>
        {
            o.Serve["listen"] = string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}");
            o.Serve["data"] = data;
            o.Serve["faster-memory"] = "256mb";
            for (int i = 0; i < options.Length; i += 2) { o.Serve[options[i][2..]] = options[i + 1]; }
        });
        return builder.Build();
    }

    private static ChildProcess Start(int port, string data, int round) => ChildProcess.Start("application", "dotnet",
        [typeof(HostingTests).Assembly.Location, "--hosting-application", HostingCheck.Text(port), data, HostingCheck.Text(round)]);

    private static byte[] KeyAt(LocalSession session, bool local) =>
        Enumerable.Range(0, 1000).Select(i => Encoding.ASCII.GetBytes($"key{i}")).First(k => session.IsLocal(k) == local);

    // Until the application has said that something of each thread is committed.
    private static async Task<long> FromNetworkAsync(int port, ChildProcess application)
    {
        using RespClient client = await RespClient.ConnectAsync(new IPEndPoint(IPAddress.Loopback, port));
        await client.DoAsync("SET", HostingApplication.Go("0"), "1");
        Task enough = Task.WhenAll(
            HostingApplication.Workers.Select(w => application.WaitForLineAsync(l => Number(l, "committed", w) >= 0, Generous)));
        long done = 0;
        for (; !enough.IsCompleted || done < 500; done++) { await client.DoAsync("INCR", HostingWorkload.Shared); }
        await enough;
        return done;
    }

    private static long Number(string line, string word, string worker) =>
        line.Split(' ') is [var first, var second, var third] && first == word && second == worker
            ? long.Parse(third, CultureInfo.InvariantCulture) : -1;

    private static long Last(ChildProcess application, string word, string worker) =>
        application.Tail().Split('\n').Max(l => Number(l, word, worker));
}

/// <summary>slogger serve on a directory that an application has, or had.</summary>
internal sealed class EmbeddedShardAt(string data, int? port = null, string[]? options = null) : IDisposable
{
    private readonly int _port = port ?? Workspace.FreePort();
    private ProxyProcess? _proxy;

    public async Task StartAsync()
    {
        _proxy?.Dispose();
        _proxy = await ProxyProcess.StartAsync(_port, ["--data", data, "--faster-memory", "256mb", .. options ?? []]);
    }

    public async Task KillAndStartAsync()
    {
        _proxy!.KillHard();
        await StartAsync();
    }

    // Returns when not one of its threads runs any more.
    public void Pause()
    {
        ChildProcess.Suspend(_proxy!.Id);
    }

    public void GoOn() => ChildProcess.Resume(_proxy!.Id);

    public string Tail() => _proxy?.Tail() ?? "";

    public Task<int> StopAsync() => _proxy!.TerminateAsync();

    public Task<RespClient> ConnectAsync() => RespClient.ConnectAsync(new IPEndPoint(IPAddress.Loopback, _port));

    public void Dispose() => _proxy?.Dispose();
}
