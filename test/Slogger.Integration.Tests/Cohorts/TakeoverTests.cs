// Three real nodes, and what happens to them: each test does one thing to a process, and waits for what has to come of it.
using System.Diagnostics;
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class TakeoverTests(ITestOutputHelper output)
{
    private const int Keys = 200;
    private const string Loaded = "was loaded from a checkpoint";

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Leader_IsKilledWithItsRedis_AnotherServesAllThatWasAnswered_AndItFollows(bool usesPostgres)
    {
        Assert.SkipWhen(usesPostgres && PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        using PostgresProcess? postgres = usesPostgres ? await PostgresProcess.StartAsync(workspace) : null;
        await using var nodes = new CohortNodes(workspace, postgres) { ArePrepared = true };
        await nodes.StartAsync();
        int first = await nodes.LeaderAsync();
        await nodes.FillAsync(first, "before", Keys);
        long reign = await nodes.NumberAsync(first, "reign"), line = await nodes.NumberAsync(first, "worldline");

        await nodes.KillAsync(first);
        int next = await nodes.LeaderAsync(but: first);

        Assert.Empty(await nodes.MissingAsync(next, "before", Keys));
        Assert.True(await nodes.NumberAsync(next, "reign") > reign);
        Assert.Equal(line, await nodes.NumberAsync(next, "worldline"));
        Assert.Equal(1, await nodes.NumberAsync(next, "takeovers"));
        await nodes.SetAsync("after", "1");
        await nodes.StartAsync(first);
        await nodes.FollowsAsync(first);
        Assert.Equal("follower", await nodes.InfoAsync(first, "role"));
        await nodes.EventuallyAsync("what was written without it is there", async () => await HasAsync(nodes, first, "after", "1"));
        Assert.Empty(await nodes.MissingAsync(first, "before", Keys));
    }

    [Fact]
    public async Task Followers_AreKilled_WritesGoOnWithoutOneAndWaitWithoutTwo()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int leader = await nodes.LeaderAsync(), one = (leader + 1) % CohortNodes.Count, two = (leader + 2) % CohortNodes.Count;
        await nodes.FillAsync(leader, "three", Keys);
        await nodes.KillAsync(one);
        await nodes.SetAsync("two", "2");
        leader = await nodes.LeaderAsync();
        await nodes.KillAsync(3 - one - leader);
        two = 3 - one - leader;

        using RespClient client = await nodes.ConnectAsync(leader);
        await client.SendAsync("SET", "one", "1");
        await Assert.ThrowsAsync<ConnectionLostException>(async () =>
            Assert.Fail($"without a majority it was told {(await client.ReadAsync(CohortNodes.Generous)).Compact}"));
        await nodes.EventuallyAsync("nobody leads", async () => await nodes.InfoAsync(leader, "node_role") is { } role && role != "leads");
        (int code, string said) = (0, "");
        // Between two lives the node answers nothing for a moment.
        await nodes.EventuallyAsync("the node says why", async () =>
        {
            (code, said) = await nodes.CommandAsync("status");
            return !said.Contains("never had a leader", StringComparison.Ordinal);
        });
        Assert.Equal(1, code);
        // A line may be broken anywhere: it is as long as the times in it.
        string words = string.Join(' ', said.Split((char[]?)null, StringSplitOptions.RemoveEmptyEntries));
        Assert.Contains("nobody leads", words, StringComparison.Ordinal);
        Assert.True(words.Contains($"{CohortNodes.NameOf(one)} does not answer", StringComparison.Ordinal), said);

        await nodes.StartAsync(two);
        await nodes.SetAsync("two", "3");
        int next = await nodes.LeaderAsync();
        Assert.Empty(await nodes.MissingAsync(next, "three", Keys));
        Assert.True(await HasAsync(nodes, next, "two", "3"));
    }

    [Fact]
    public async Task LeadersRedis_IsKilledAlone_AnotherNodeServesWithTheStoreThatItHas()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int first = await nodes.LeaderAsync();
        await nodes.FillAsync(first, "k", Keys);
        int?[] stores = [.. Enumerable.Range(0, CohortNodes.Count).Select(i => SupervisedRedis.Find(nodes.Data(i)))];
        foreach (int follower in Enumerable.Range(0, CohortNodes.Count).Where(i => i != first)) { await nodes.FollowsAsync(follower); }
        // Each follower's was, when it began.
        int[] loads = [.. Enumerable.Range(0, CohortNodes.Count).Select(i => nodes.CountOf(i, Loaded))];
        long line = await nodes.NumberAsync(first, "worldline");

        await nodes.KillRedisAsync(first);
        int next = await nodes.LeaderAsync(but: first);

        Assert.Equal(stores[next], SupervisedRedis.Find(nodes.Data(next)));
        Assert.Equal(loads[next], nodes.CountOf(next, Loaded));
        Assert.Equal(line, await nodes.NumberAsync(next, "worldline"));
        Assert.Empty(await nodes.MissingAsync(next, "k", Keys));
        await nodes.FollowsAsync(first);
    }

    [Fact]
    public async Task Leader_SleepsWhileAnotherLeads_AnswersNothingOldAndFollows()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int first = await nodes.LeaderAsync();
        using RespClient reader = await nodes.ConnectAsync(first), writer = await nodes.ConnectAsync(first);
        await reader.DoAsync("SET", "x", "old");

        ChildProcess.Suspend(nodes.ProcessId(first));
        await reader.SendAsync("GET", "x");
        await writer.SendAsync("SET", "y", "of-the-sleeper");
        int next = await nodes.LeaderAsync(but: first);
        await nodes.SetAsync("x", "new");
        ChildProcess.Resume(nodes.ProcessId(first));

        foreach (RespClient client in (RespClient[])[reader, writer])
        {
            await Assert.ThrowsAsync<ConnectionLostException>(async () =>
                Assert.Fail($"the sleeper told {(await client.ReadAsync(CohortNodes.Generous)).Compact}"));
        }
        await nodes.FollowsAsync(first);
        await nodes.EventuallyAsync("it has what the others did", async () => await HasAsync(nodes, first, "x", "new"));
        Assert.True(await HasAsync(nodes, await nodes.LeaderAsync(), "x", "new"));
    }

    // Its log has more than a majority has: a world-line that began at its end would begin where the next leader's log has nothing.
    [Fact]
    public async Task Leader_LosesItsStoreWhileNobodyFollows_BeginsNoWorldLine()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace) { Lease = "2s" };
        await nodes.StartAsync();
        int first = await nodes.LeaderAsync();
        int[] others = [.. Enumerable.Range(0, CohortNodes.Count).Where(n => n != first)];
        foreach (int other in others) { await nodes.FollowsAsync(other); }
        await nodes.FillAsync(first, "k", Keys);
        long line = await nodes.NumberAsync(first, "worldline");

        foreach (int other in others) { ChildProcess.Suspend(nodes.ProcessId(other)); }
        using (RespClient writer = await nodes.ConnectAsync(first))
        {
            for (int i = 0; i < 100; i++) { await writer.SendAsync("SET", "unanswered", $"{i}"); }
            // For it they are out of reach by now, and it has not stepped down yet.
            await Task.Delay(2500);
            Assert.True(await nodes.KillRedisAsync(first));
            await Task.Delay(2000);
        }
        await nodes.KillAsync(first);
        foreach (int other in others) { ChildProcess.Resume(nodes.ProcessId(other)); }

        int next = await nodes.LeaderAsync(but: first);
        await nodes.SetAsync("x", "of-the-next");
        Assert.Equal(line, await nodes.NumberAsync(next, "worldline"));
        Assert.Empty(await nodes.MissingAsync(next, "k", Keys));
        await nodes.StartAsync(first);
        await nodes.FollowsAsync(first);
        await nodes.EventuallyAsync("it has what the others did", async () => await HasAsync(nodes, first, "x", "of-the-next"));
    }

    [Fact]
    public async Task Node_ComesBackWithoutItsData_LearnsAndCountsAgain()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int leader = await nodes.LeaderAsync(), lost = (leader + 1) % CohortNodes.Count;
        await nodes.FillAsync(leader, "k", Keys);
        await nodes.KillAsync(lost);
        Directory.Delete(nodes.Data(lost), recursive: true);
        await nodes.SetAsync("meanwhile", "1");

        await nodes.StartAsync(lost);
        await nodes.EventuallyAsync("it votes", () => Task.FromResult(nodes.HasSaid(lost, "has all that was committed, and votes")));
        await nodes.FollowsAsync(lost);
        leader = await nodes.LeaderAsync();
        // Without it there is no majority any more.
        await nodes.KillAsync(Enumerable.Range(0, CohortNodes.Count).First(i => i != leader && i != lost));
        await nodes.SetAsync("with-it", "1");
        Assert.Empty(await nodes.MissingAsync(await nodes.LeaderAsync(), "k", Keys));
        await nodes.EventuallyAsync("it has the rest", async () => await HasAsync(nodes, lost, "with-it", "1"));
        Assert.Empty(await nodes.MissingAsync(lost, "k", Keys));
    }

    // As after a founding that was cut short: the leader has begun the log, and nobody else has anything of it. It can commit nothing
    // before a majority has its log, and they get that as copies of its checkpoint.
    [Fact]
    public async Task OnlyOneNodeHasALog_ItLeads_AndTheOthersAreGivenIt()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        await nodes.FillAsync(await nodes.LeaderAsync(), "k", Keys);
        int first = await nodes.LeaderAsync();
        // The leader is the last to be killed: the other two would elect one of them, and commit versions that it does not have.
        int[] others = [.. Enumerable.Range(0, CohortNodes.Count).Where(i => i != first)];
        foreach (int i in others) { await nodes.KillAsync(i); }
        await nodes.KillAsync(first);
        foreach (int i in others)
        {
            foreach (string kept in (string[])["log", "checkpoints", "stream"])
            {
                string directory = Path.Combine(nodes.Data(i), kept);
                if (Directory.Exists(directory)) { Directory.Delete(directory, recursive: true); }
            }
        }

        await nodes.StartAsync();
        Assert.Equal(first, await nodes.LeaderAsync());
        await nodes.SetAsync("again", "1");
        for (int i = 0; i < CohortNodes.Count; i++)
        {
            if (i != first) { await nodes.FollowsAsync(i); }
            Assert.Empty(await nodes.MissingAsync(i, "k", Keys));
        }
    }

    [Fact]
    public async Task Metadata_IsAwayDuringATakeover_TheNextLeaderServes()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        using PostgresProcess postgres = await PostgresProcess.StartAsync(workspace);
        await using var nodes = new CohortNodes(workspace, postgres);
        await nodes.StartAsync();
        int first = await nodes.LeaderAsync();
        await nodes.FillAsync(first, "k", Keys);

        postgres.KillHard();
        await nodes.KillAsync(first);
        int next = await nodes.LeaderAsync(but: first);
        await nodes.SetAsync("without-sql", "1");
        Assert.Empty(await nodes.MissingAsync(next, "k", Keys));

        await postgres.RestartAsync();
        next = await nodes.LeaderAsync(but: first);
        await nodes.EventuallyAsync("a cut is recorded again", async () =>
        {
            try
            {
                using RespClient client = await nodes.ConnectAsync(next);
                await client.CallAsync("SET", "with-sql", "1");
                return (await client.CallAsync("DPR.WAIT", "*", "5000")) is { IsError: false } reply && reply.Items[2].Number == 1;
            }
            catch (ConnectionLostException)
            {
                return false;
            }
        });
    }

    // As if a later leader had taken the shard there, of whom the nodes know nothing: whoever leads steps down, until one leads in a reign
    // that is later still.
    [Fact]
    public async Task Metadata_KnowsOfALaterReign_TheNextLeaderIsAboveIt()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int first = await nodes.LeaderAsync();
        await nodes.FillAsync(first, "k", Keys);
        const long Later = 1000;
        await using (IMetadataStore metadata = MetadataStoreFactory.Create(nodes.Metadata))
        {
            await metadata.InitializeAsync();
            Assert.True((await metadata.LeadShardAsync("replicated", new(0), "127.0.0.1:1", "redis", "nobody", new(Later))).Epoch > 0);
        }

        int next = -1;
        await nodes.EventuallyAsync("a node leads above it", async () =>
        {
            next = await nodes.LeaderAsync();
            return await nodes.InfoAsync(next, "reign") is { } reign && long.Parse(reign, CultureInfo.InvariantCulture) > Later;
        });
        await nodes.SetAsync("above", "1");
        Assert.Empty(await nodes.MissingAsync(await nodes.LeaderAsync(), "k", Keys));
        for (int i = 0; i < CohortNodes.Count; i++) { Assert.False(nodes.HasExited(i)); }
    }

    [Fact]
    public async Task Leader_IsStoppedInOrder_HandsOverFirst_AndClientsSeeNoErrors()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        await nodes.FillAsync(await nodes.LeaderAsync(), "k", Keys);
        for (int i = 0; i < CohortNodes.Count; i++) { await nodes.FollowsOrLeadsAsync(i); }
        // Another one by now, if the machine is busy.
        int first = await nodes.LeaderAsync();
        int answered = 0;
        RespValue? error = null;
        using RespClient client = await nodes.ConnectAsync(first);
        Task writing = Task.Run(async () =>
        {
            try
            {
                while (error is null)
                {
                    RespValue reply = await client.CallAsync("SET", $"n:{answered}", $"{answered}");
                    if (reply.IsError) { error = reply; }
                    else { answered++; }
                }
            }
            catch (ConnectionLostException)
            {
                // As by plan.
            }
        });
        await nodes.EventuallyAsync("it writes", () => Task.FromResult(Volatile.Read(ref answered) > 20));

        long began = Stopwatch.GetTimestamp();
        Task<int> ending = nodes.TerminateAsync(first);
        int next = await nodes.LeaderAsync(but: first);
        output.WriteLine($"another node serves {Stopwatch.GetElapsedTime(began).TotalMilliseconds:0} ms after SIGTERM");

        Assert.Equal(0, await ending);
        await writing;
        Assert.Null(error);
        Assert.True(nodes.HasSaid(next, "is elected"));
        // It was asked: a lease that has to run out is no plan.
        Assert.True(nodes.HasSaid(first, $"node {CohortNodes.NameOf(next)} leads, in reign"), nodes.Tail());
        Assert.Empty(await nodes.MissingAsync(next, "k", Keys));
        Assert.Empty(await nodes.MissingAsync(next, "n", answered));
        Assert.Null(SupervisedRedis.Find(nodes.Data(first)));
        await nodes.StartAsync(first);
        await nodes.FollowsAsync(first);
    }

    private static async Task<bool> HasAsync(CohortNodes nodes, int node, string key, string value) =>
        (await nodes.AskAsync(node, "GET", key))?.Compact == "$" + value;
}
