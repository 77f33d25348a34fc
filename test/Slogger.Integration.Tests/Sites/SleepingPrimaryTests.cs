// A primary with a site lease whose processes sleep (SIGSTOP) past it, and wake (SIGCONT) when the backup serves: by no way do they tell a
// commit then, and what their stores say they keep to themselves. Nor do they say what has survived when a Redis is lost.
using System.Globalization;
using Microsoft.Data.Sqlite;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class SleepingPrimaryTests(ITestOutputHelper output)
{
    private const string Session = "0123456789abcdef0123456789abcdef", Wait = "a wait that had begun";
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60), Lease = TimeSpan.FromSeconds(1), OneWay =
        TimeSpan.FromMilliseconds(2);

    // What a reply says of commits; null: that it was not asked of any. The questions come while the process sleeps.
    private static readonly (string[] Question, Func<RespValue, long> Tells)[] s_questions =
    [
        (["DPR.WAIT", "*", "300"], r => r.Items[1].Number + r.Items[2].Number),
        (["WAITAOF", "1", "0", "300"], r => r.Items[0].Number),
        (["DPR.COMMITTED"], r => r.Items[1].Number + r.Items[3].Number),
        (["DPR.CUT"], r => r.Items[1].Number),
        (["DPR.CUT", "SHARDS"], r => r.Items[1].Number + r.Items[2].Number),
        (["DPR.INFO"], InInfo),
        (["INFO", "dpr"], InInfo),
        (["DPR.HELLO", "1", Session], r => r.Items[r.Items.ToList().FindIndex(i => i.Text == "cut") + 1].Number),
    ];

    [Fact]
    public async Task Lease_HasRunOutWhileTheProcessesSlept_NoWayTellsACommit_OrAnythingOfTheStore()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, OneWay, "--site-lease", "1s");
        await sites.StartAsync();
        Site before = sites.Primary, after = sites.Backup;
        var asked = new List<(RespClient Client, string What, Func<RespValue, long> Tells)>();
        var sessions = new List<RespClient>();
        var silent = new List<RespClient>();
        try
        {
            long line = long.Parse((await before.InfoAsync(0, "worldline"))!, CultureInfo.InvariantCulture);
            for (int s = 0; s < 2; s++)
            {
                foreach ((string[] question, Func<RespValue, long> tells) in s_questions)
                {
                    RespClient client = await before.ConnectAsync(s);
                    asked.Add((client, string.Join(' ', question), tells));
                    await client.DoAsync("SET", before.Key(s, "x"), "1");
                    // Every one of them tells something while the lease holds.
                    await Eventually.AsyncTrue($"{question[0]} tells commits", Generous,
                        async () => tells(await client.DoAsync(question)) > 0);
                }
                RespClient session = await before.ConnectAsync(s), reader = await before.ConnectAsync(s), waiting =
                    await before.ConnectAsync(s);
                sessions.Add(session);
                silent.Add(reader);
                asked.Add((waiting, Wait, s_questions[0].Tells));
                await TrailerAsync(session, line, 1, before.Key(s, "x"));
                await reader.DoAsync("SET", before.Key(s, "large"), new string('l', 1 << 20));
            }

            // Replies that tell commits lie behind others that their client does not read; and some wait already.
            for (int s = 0; s < 2; s++)
            {
                for (int i = 0; i < 24; i++) { await silent[s].SendAsync("GET", before.Key(s, "large")); }
                for (int i = 0; i < 4; i++) { await silent[s].SendAsync("DPR.CUT"); }
            }
            await Task.Delay(Lease / 2);
            foreach ((RespClient client, string what, _) in asked.Where(a => a.What == Wait))
            {
                await client.SendAsync("SET", before.Key(asked.FindIndex(a => a.Client == client) > s_questions.Length ? 1 : 0, "x"), "2");
                await client.SendAsync("DPR.WAIT", "*", "300");
            }
            // What is asked before they sleep may be answered under the lease.
            for (int s = 0; s < 2; s++) { ChildProcess.Suspend(before.ProcessId(s)); }
            foreach ((RespClient client, string what, _) in asked)
            {
                if (s_questions.FirstOrDefault(q => string.Join(' ', q.Question) == what).Question is { } question)
                {
                    await client.SendAsync(question);
                }
            }
            for (int s = 0; s < 2; s++) { await SendBatchAsync(sessions[s], line, 2, before.Key(s, "x")); }
            // So that they do not hear what has happened.
            foreach (WideLink link in before.Links) { link.Cut(); }
            (int code, string said) = await after.CommandAsync("failover");
            Assert.True(code == 0, $"slogger failover ended with {code}\n{said}\n{sites.Tail()}");
            await after.ServingAsync(Generous);
            for (int s = 0; s < 2; s++) { ChildProcess.Resume(before.ProcessId(s)); }

            var told = new List<string>();
            foreach ((RespClient client, string what, Func<RespValue, long> tells) in asked.Where(a => !IsOfTheStore(a.What)))
            {
                RespValue reply = await client.ReadAsync(Generous);
                if (reply.IsError || tells(reply) != 0) { told.Add($"{what}: {reply}"); }
                // And whoever asks from now on.
                if ((await client.CallAsync("DPR.WAIT", "*", "100")).Items[2].Number != 0) { told.Add("a wait that comes later"); }
            }
            foreach (WideLink link in before.Links) { link.Open(); }
            // A connection on which a commit is about to be told ends; the others end with the process.
            foreach (RespClient reader in silent)
            {
                try
                {
                    for (int i = 0; i < 24; i++) { await reader.ReadAsync(Generous); }
                    for (int i = 0; i < 4; i++)
                    {
                        if ((await reader.ReadAsync(Generous)).Items[1].Number != 0) { told.Add("a reply that lay behind others"); }
                    }
                }
                catch (ConnectionLostException)
                {
                    output.WriteLine("a connection with replies that told commits has ended");
                }
            }
            // A wait had begun, and may have been answered, before the process slept.
            foreach (RespClient client in sessions.Concat(asked.Where(a => IsOfTheStore(a.What) && a.What != Wait).Select(a => a.Client)))
            {
                try
                {
                    told.Add($"a reply of the store: {await client.ReadAsync(Generous)}");
                }
                catch (ConnectionLostException)
                {
                    // The process has heard that it is deposed.
                }
            }
            Assert.Empty(told);
            for (int s = 0; s < 2; s++) { Assert.NotNull(await before.ExitAsync(s, Generous)); }
        }
        finally
        {
            for (int s = 0; s < 2; s++) { ChildProcess.Resume(before.ProcessId(s)); }
            foreach (RespClient client in asked.Select(a => a.Client).Concat(sessions).Concat(silent)) { client.Dispose(); }
        }
    }

    // It recovers by itself, and where its world-line began may not be what has survived at the other site.
    [Fact]
    public async Task Redis_IsLostWhenTheLeaseHasRunOut_NobodyIsToldWhatHasSurvived()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, OneWay, "--site-lease", "1s");
        await sites.StartAsync();
        Site before = sites.Primary;
        using RespClient kept = await before.ConnectAsync(0), session = await before.ConnectAsync(0);
        long line = long.Parse((await before.InfoAsync(0, "worldline"))!, CultureInfo.InvariantCulture);
        await kept.DoAsync("SET", before.Key(0, "x"), "1");
        Assert.Equal(1, (await kept.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
        foreach (WideLink link in before.Links) { link.Cut(); }
        await before.LeaseOverAsync(0, Generous);
        await before.KillRedisAsync(0);
        await RecoveredAsync(before, line);

        await Assert.ThrowsAsync<ConnectionLostException>(
            async () => Assert.Fail($"it was told {await kept.CallAsync("GET", before.Key(0, "x"))}"));
        using RespClient late = await before.ConnectAsync(0);
        await SendBatchAsync(late, line, 1, before.Key(0, "x"));
        RespValue refused = await late.ReadAsync(Generous);
        Assert.True(refused.IsError);
        Assert.Contains("site lease", refused.Text, StringComparison.Ordinal);

        foreach (WideLink link in before.Links) { link.Open(); }
        await Eventually.AsyncTrue("the lease holds again", Generous, async () => await before.InfoAsync(0, "site_lease") == "held");
        using RespClient again = await before.ConnectAsync(0);
        await SendBatchAsync(again, line, 1, before.Key(0, "x"));
        RespValue rollback = await again.ReadAsync(Generous);
        Assert.StartsWith("ROLLBACK", rollback.Text, StringComparison.Ordinal);
    }

    // Its client has asked with a world-line that is over, and does not read: the answer lies behind others when the lease runs out.
    [Fact]
    public async Task Rollback_IsYetToBeReadWhenTheLeaseRunsOut_IsNotTold()
    {
        const int Before = 1500;
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, OneWay, "--site-lease", "4s");
        await sites.StartAsync();
        Site primary = sites.Primary;
        using RespClient other = await primary.ConnectAsync(0);
        await other.DoAsync("SET", primary.Key(0, "large"), new string('l', 16 << 10));
        Assert.Equal(1, (await other.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
        long line = long.Parse((await primary.InfoAsync(0, "worldline"))!, CultureInfo.InvariantCulture);
        await primary.KillRedisAsync(0);
        await RecoveredAsync(primary, line);
        using RespClient asking = await primary.ConnectAsync(0);
        await SendBatchAsync(asking, line, 1, primary.Key(0, "x"));
        Assert.StartsWith("ROLLBACK", (await asking.ReadAsync(Generous)).Text, StringComparison.Ordinal);

        using RespClient silent = await primary.ConnectAsync(0);
        for (int i = 0; i < Before; i++) { await silent.SendAsync("GET", primary.Key(0, "large")); }
        await SendBatchAsync(silent, line, 1, primary.Key(0, "x"));
        using RespClient looking = await primary.ConnectAsync(0);
        string answered = $"cmdstat_get:calls={Before},";
        await Eventually.AsyncTrue("all before it is answered", Generous,
            async () => (await looking.DoAsync("INFO", "commandstats")).Text.Contains(answered, StringComparison.Ordinal));
        foreach (WideLink link in primary.Links) { link.Cut(); }
        await primary.LeaseOverAsync(0, Generous);
        await Assert.ThrowsAsync<ConnectionLostException>(async () =>
        {
            for (int i = 0; i < Before; i++) { Assert.False((await silent.ReadAsync(Generous)).IsError); }
            Assert.Fail($"it was told {await silent.ReadAsync(Generous)}");
        });
    }

    // The version of a reply may be known by an upper bound only: it waits for its commit, and that it comes tells of it.
    [Fact]
    public async Task Reply_HeldUntilItsCommit_WaitsForTheLeaseToo()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, OneWay, "--site-lease", "1s");
        await sites.StartAsync();
        Site primary = sites.Primary;
        using RespClient session = await primary.ConnectAsync(0), store =
            await SupervisedRedis.ConnectAsync(primary.Data(0));
        string line = (await primary.InfoAsync(0, "worldline"))!;
        foreach (WideLink link in primary.Links) { link.Cut(); }
        await primary.LeaseOverAsync(0, Generous);

        // Versions go on while it runs, on a connection of its own.
        foreach (string[] request in (string[][])[["DPR.BATCH", Session, line, "0", "1", "3"], ["MULTI"],
            ["EVAL", "for i = 1, 30000000 do end", "0"], ["EXEC"]])
        {
            await session.SendAsync(request);
        }
        await Eventually.AsyncTrue("it was executed", Generous,
            async () => (await store.DoAsync("INFO", "commandstats")).Text.Contains("cmdstat_exec:calls=1", StringComparison.Ordinal));
        long open = long.Parse((await primary.InfoAsync(0, "open_version"))!, CultureInfo.InvariantCulture);
        await Eventually.AsyncTrue("its version is in the recorded cut", Generous, () => Task.FromResult(RecordedCut(primary) >= open));
        // The proxy itself says OK to the batch.
        bool isBatchTaken = false;
        await Assert.ThrowsAsync<TimeoutException>(async () =>
        {
            isBatchTaken = (await session.ReadAsync(TimeSpan.FromMilliseconds(200))).Compact == "+OK";
            Assert.Fail($"it was told {await session.ReadAsync(TimeSpan.FromMilliseconds(200))}");
        });

        foreach (WideLink link in primary.Links) { link.Open(); }
        if (!isBatchTaken) { Assert.Equal("+OK", (await session.ReadAsync(Generous)).Compact); }
        foreach (string expected in (string[])["+OK", "+QUEUED", "[_]"]) { Assert.Equal(expected, (await session.ReadAsync(Generous)).Compact); }
        RespValue trailer = await session.ReadAsync(Generous);
        Assert.Equal(3, trailer.Items.Skip(2).Where((_, i) => i % 2 == 0).Sum(i => i.Number));
        await session.DoAsync("SET", primary.Key(0, "x"), "1");
        Assert.Equal(1, (await session.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
    }

    // Or lies behind a reply of the store. What the shard has done for a session it says of the store, too.
    private static bool IsOfTheStore(string question) =>
        question is "INFO dpr" or Wait || question.StartsWith("DPR.HELLO", StringComparison.Ordinal);

    private static Task RecoveredAsync(Site site, long line) => Eventually.AsyncTrue("a world-line has begun", Generous, async () =>
    {
        try
        {
            return long.Parse((await site.InfoAsync(0, "worldline"))!, CultureInfo.InvariantCulture) > line
                && await site.InfoAsync(0, "store_state") == "serving";
        }
        catch (ConnectionLostException)
        {
            // The recovery closes connections, that of this question too.
            return false;
        }
    });

    private static long RecordedCut(Site site)
    {
        using var database = new SqliteConnection($"Data Source={site.Metadata["sqlite:".Length..]};Pooling=False");
        database.Open();
        using SqliteCommand command = database.CreateCommand();
        command.CommandText = "SELECT cut_version FROM slogger_shards";
        return (long)command.ExecuteScalar()!;
    }

    private static long InInfo(RespValue reply) =>
        reply.Text.Split("\r\n").Where(l => l.StartsWith("committed_version:", StringComparison.Ordinal))
            .Sum(l => long.Parse(l["committed_version:".Length..], CultureInfo.InvariantCulture));

    private static async Task SendBatchAsync(RespClient client, long line, long first, string key)
    {
        await client.SendAsync("DPR.BATCH", Session, line.ToString(CultureInfo.InvariantCulture), "0",
            first.ToString(CultureInfo.InvariantCulture), "1");
        await client.SendAsync("SET", key, "3");
    }

    private static async Task TrailerAsync(RespClient client, long line, long first, string key)
    {
        await SendBatchAsync(client, line, first, key);
        Assert.True(await ReadTrailerAsync(client) > 0);
    }

    // The committed version that it says.
    private static async Task<long> ReadTrailerAsync(RespClient client)
    {
        Assert.Equal("OK", (await client.ReadAsync(Generous)).Text);
        Assert.Equal("OK", (await client.ReadAsync(Generous)).Text);
        return (await client.ReadAsync(Generous)).Items[1].Number;
    }
}
