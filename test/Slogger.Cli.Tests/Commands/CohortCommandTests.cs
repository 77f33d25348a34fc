// slogger cohort: what nodes' answers come to, and the plan. Nodes that run are asked in Slogger.Integration.Tests.
using System.Text.Json;
using Slogger.Cli.Cohorts;
using Slogger.Cli.Sites;
using Slogger.Core.Cohorts;
using Slogger.Proxy.Configuration;
using Slogger.Resp;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cli.Tests.Commands;

public sealed class CohortCommandTests : IDisposable
{
    private readonly TempDirectory _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Status_AllFollow_OneMoreMayBeLost()
    {
        CohortReport report = CohortReport.Of([Leads(), Follows("b"), Follows("c")]);
        Assert.Equal(("a", 7L, 1, null as string), (report.Leader, report.Reign, report.MayBeLost, report.Obstacle));
        Assert.Equal("one more node may be lost", report.Loss);
        Assert.Equal((300, 2), ((int)report.Nodes[1].BehindBytes!, (int)report.Nodes[1].BehindVersions!));
        Assert.All(report.Nodes, n => Assert.True(n.Counts));
    }

    [Fact]
    public void Status_OneLearns_NoneMayBeLost_AndItSaysWhy()
    {
        CohortReport report = CohortReport.Of([Leads(s => s.Followers[0].Learns = true), Follows("b", "learns"), Follows("c")]);
        Assert.Equal("no node may be lost: b learns", report.Loss);
        Assert.Null(report.Obstacle);
        Assert.False(report.Nodes[1].Counts);
    }

    [Theory]
    [InlineData(5_000_000, 0, "no node may be lost: b is not heard by a")]
    [InlineData(-1, 0, "no node may be lost: b is not heard by a")]
    [InlineData(10, 1L << 30, "no node may be lost: b lacks 1.0 GB")]
    public void Status_AFollowerIsSilentOrFar_DoesNotCount(long silentUs, long lagBytes, string loss)
    {
        CohortReport report = CohortReport.Of(
            [Leads(s => (s.Followers[0].SilentUs, s.Followers[0].LagBytes) = (silentUs, lagBytes)), Follows("b"), Follows("c")]);
        Assert.Equal(loss, report.Loss);
    }

    [Fact]
    public void Status_TwoAreGone_NothingIsCommitted()
    {
        CohortReport report = CohortReport.Of([Leads(), Mute("b"), Mute("c")]);
        Assert.Equal(-1, report.MayBeLost);
        Assert.Equal("nothing is committed: 1 more node must follow: b does not answer, c does not answer", report.Obstacle);
        Assert.Equal("nothing listens there", report.Nodes[1].Problem);
    }

    [Fact]
    public void Status_NobodyLeads_SaysWhatIsMissing()
    {
        Assert.Equal("2 votes are needed to elect a leader, and there is 1: a does not answer, c learns",
            CohortReport.Of([Mute("a"), Follows("b"), Follows("c", "learns")]).Obstacle);
        Assert.Equal("the nodes are electing a leader at this moment", CohortReport.Of([Mute("a"), Follows("b"), Follows("c")]).Obstacle);
        AskedNode fresh = Follows("b");
        (fresh.Answer.Reply!.Reign, fresh.Answer.Reply.Durable) = (0, new());
        Assert.Equal("the cohort has never had a leader, and all 3 nodes elect the first: a and c have not answered",
            CohortReport.Of([Mute("a"), fresh, Mute("c")]).Obstacle);
    }

    // One that was cut off does not know yet.
    [Fact]
    public void Status_TwoSayThatTheyLead_TheLaterReignCounts()
    {
        CohortReport report = CohortReport.Of([Leads(s => s.Reign = 6), Leads(s =>
        {
            (s.Node, s.Reign) = ("b", 7);
            s.Followers[0].Node = "a";
        }, "b"), Follows("c")]);
        Assert.Equal("b", report.Leader);
    }

    [Fact]
    public async Task Status_NobodyAnswers_FailsAndSaysWhatToDo()
    {
        AppRun run = await AppRun.Of(["cohort", "status", "--cohort", "a=127.0.0.1:1,b=127.0.0.1:2,c=127.0.0.1:3"]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("nobody leads", run.Output, StringComparison.Ordinal);
        Assert.Contains("what to do: a: start it", run.Error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("cohort", "no command is given", "slogger cohort --help")]
    [InlineData("cohort statsu", "\"statsu\" is not a command of slogger cohort", "did you mean slogger cohort status?")]
    [InlineData("cohort status", "no cohort is named", "give --cohort a=HOST:PORT")]
    [InlineData("cohort status --cohort a", "is no NAME=HOST:PORT", "")]
    [InlineData("cohort status --too b", "--too is not an option of slogger cohort status", "")]
    [InlineData("cohort lead --cohort a=127.0.0.1:1,b=127.0.0.1:2 --to z", "--to \"z\" is no node of --cohort", "give one of a, b")]
    [InlineData("cohort plan", "no machines are named", "give --nodes")]
    [InlineData("cohort plan --nodes a,b", "3 copies of a shard need as many machines", "fewer --replicas")]
    [InlineData("cohort plan --nodes a,b,a", "names a machine twice", "")]
    [InlineData("cohort plan --nodes a,b,c,d --replicas 4", "bears no more losses than 3", "")]
    public async Task Options_ThatAreWrong_AreRefusedWithARemedy(string line, string problem, string remedy)
    {
        AppRun run = await AppRun.Of(line.Split(' '));
        Assert.Equal(2, run.ExitCode);
        Assert.Contains(problem, run.Error, StringComparison.Ordinal);
        Assert.Contains(remedy, run.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Plan_OfFiveShards_IsAChain_AndEachLineIsOneThatTheProgramTakes()
    {
        string secret = _temp.Below("secret");
        await File.WriteAllTextAsync(secret, "a-secret-of-the-test\n");
        AppRun run = await AppRun.Of(["cohort", "plan", "--nodes", "m0,m1,m2,m3,m4", "--shards", "5", "--site-secret-file", secret,
            "--data", _temp.Below("data"), "--metadata", "postgres:Host=db1;Database=slogger", "--json"]);
        Assert.Equal((0, ""), (run.ExitCode, run.Error));
        JsonElement[] nodes = [.. JsonDocument.Parse(run.Output).RootElement.GetProperty("nodes").EnumerateArray()];
        for (int machine = 0; machine < 5; machine++)
        {
            JsonElement[] own = [.. nodes.Where(n => n.GetProperty("node").GetString() == $"m{machine}")];
            Assert.Equal(new[] { machine, (machine + 4) % 5, (machine + 3) % 5 }.Order(),
                own.Select(n => n.GetProperty("shard").GetInt32()));
            Assert.Equal(3, own.Select(n => n.GetProperty("clients").GetString()).Distinct().Count());
            Assert.Equal(3, own.Select(n => n.GetProperty("address").GetString()).Distinct().Count());
        }
        foreach (JsonElement node in nodes)
        {
            string[] words = [.. node.GetProperty("command").GetString()!.Split(' ').Skip(1).Select(w => w.Trim('"'))];
            AppRun started = await AppRun.Of(words);
            Assert.True(started.Served?.Cohort is not null, started.Error);
            Assert.Equal(node.GetProperty("address").GetString(), started.Served.Cohort.Self.Address.ToString());
        }
        AppRun text = await AppRun.Of(["cohort", "plan", "--nodes", "m0,m1,m2", "--shards", "3"]);
        Assert.Contains("On m2, shards 0, 1, 2:", text.Output, StringComparison.Ordinal);
        Assert.DoesNotContain("--metadata", text.Output, StringComparison.Ordinal);
    }

    private static AskedNode Leads(Action<V1.NodeStatusReply>? change = null, string name = "a")
    {
        V1.NodeStatusReply reply = new()
        {
            Node = "a", Role = "leads", Reign = 7, Leader = "a", Durable = new() { Closed = 100, Offset = 5000, Reign = 7 }, Commit = new(),
            Clients = "127.0.0.1:6380", SinceUs = 2_000_000,
        };
        foreach (string follower in (string[])["b", "c"])
        {
            reply.Followers.Add(new V1.FollowerStatus { Node = follower, Durable = new() { Closed = 98 }, LagBytes = 300, SilentUs = 900 });
        }
        change?.Invoke(reply);
        return Asked(name, reply);
    }

    private static AskedNode Follows(string name, string role = "follows") => Asked(name, new()
    {
        Node = name, Role = role, Reign = 7, Leader = "a", Durable = new() { Closed = 98 }, Commit = new(), Clients = "127.0.0.1:6381",
    });

    private static AskedNode Mute(string name) => Asked(name, null);

    private static AskedNode Asked(string name, V1.NodeStatusReply? reply)
    {
        ListenAddress address = ListenAddress.Tcp("127.0.0.1", 7400 + name[0] - 'a');
        return new(new(new NodeName(name), address), new(new SiteProcess(address.ToString(), [], null!), reply,
            reply is null ? "nothing listens there" : "", reply is null ? Silence.NotRunning : Silence.None));
    }
}
