// slogger cohort status and lead, of nodes that run.
using System.Text.Json;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class CohortCommandTests
{
    [Fact]
    public async Task Lead_OfARunningCohort_HasTheNamedNodeLead_AndStatusShowsIt()
    {
        const int Keys = 50;
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int first = await nodes.LeaderAsync(), to = (first + 1) % CohortNodes.Count, third = 3 - first - to;
        await nodes.FillAsync(first, "k", Keys);
        foreach (int follower in (int[])[to, third]) { await nodes.FollowsAsync(follower); }

        JsonElement before = await StatusAsync(nodes, mayBeLost: 1);
        Assert.Equal(CohortNodes.NameOf(first), before.GetProperty("leader").GetString());
        Assert.All(before.GetProperty("nodes").EnumerateArray(), n => Assert.True(n.GetProperty("counts").GetBoolean(), $"{n}"));

        string said = await nodes.LeadAsync(to, "--json");
        JsonElement done = JsonDocument.Parse(said[said.IndexOf('{', StringComparison.Ordinal)..]).RootElement;
        Assert.NotEqual(CohortNodes.NameOf(to), done.GetProperty("from").GetString());
        Assert.Equal(CohortNodes.NameOf(to), done.GetProperty("to").GetString());
        Assert.True(done.GetProperty("took_ms").GetDouble() > 0);
        Assert.Empty(await nodes.MissingAsync(await nodes.LeaderAsync(), "k", Keys));
        await nodes.EventuallyAsync("it leads already", async () =>
            (await nodes.LeadAsync(to)).Contains($"{CohortNodes.NameOf(to)} leads already", StringComparison.Ordinal));

        await nodes.KillAsync(third);
        JsonElement after = await StatusAsync(nodes, mayBeLost: 0);
        Assert.Contains(after.GetProperty("leader").GetString(), (string[])[CohortNodes.NameOf(first), CohortNodes.NameOf(to)]);
        Assert.Contains($"no node may be lost: {CohortNodes.NameOf(third)} does not answer", after.GetProperty("loss").GetString(),
            StringComparison.Ordinal);
        Assert.True(after.GetProperty("reign").GetInt64() > before.GetProperty("reign").GetInt64());
        Assert.Equal(1, (await nodes.CommandAsync("lead", "--to", CohortNodes.NameOf(third))).ExitCode);
    }

    // With early replies: what is asked for now would be answered, and then lost. Again when another node was elected, as a busy machine may
    // have it.
    [Fact]
    public async Task Lead_TheStoreAnswersNothing_IsCalledOff_AndTheLeaderGoesOn()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace) { OptionsOf = _ => ["--replies", "early"] };
        await nodes.StartAsync();
        await nodes.EventuallyAsync("a hand-over is called off", async () =>
        {
            int leader = await nodes.LeaderAsync(), to = (leader + 1) % CohortNodes.Count;
            for (int i = 0; i < CohortNodes.Count; i++) { await nodes.FollowsOrLeadsAsync(i); }
            string? reign = await nodes.InfoAsync(leader, "reign");
            using RespClient client = await nodes.ConnectAsync(leader);
            (int code, string said) = await LeadWithoutStoreAsync(nodes, leader, to, client);
            if (await nodes.InfoAsync(leader, "reign") != reign || await nodes.InfoAsync(leader, "node_role") != "leads"
                || said.Contains("nobody leads", StringComparison.Ordinal)) { return false; }

            Assert.Equal("+OK", (await client.ReadAsync(CohortNodes.Generous)).Compact);
            Assert.Equal("$1", (await client.CallAsync("GET", "k")).Compact);
            Assert.Equal(1, code);
            Assert.Contains($"{CohortNodes.NameOf(leader)} goes on to lead: what clients were told was not committed in time", said,
                StringComparison.Ordinal);
            Assert.Equal(1, (await client.CallAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
            return true;
        });
    }

    // Writes meanwhile.
    private static async Task<(int ExitCode, string Output)> LeadWithoutStoreAsync(CohortNodes nodes, int leader, int to, RespClient client)
    {
        int store = SupervisedRedis.Find(nodes.Data(leader))!.Value;
        ChildProcess.Suspend(store);
        try
        {
            await client.SendAsync("SET", "k", "1");
            return await nodes.CommandAsync("lead", "--to", CohortNodes.NameOf(to));
        }
        finally
        {
            ChildProcess.Resume(store);
        }
    }

    // Waits until so many nodes may be lost.
    private static async Task<JsonElement> StatusAsync(CohortNodes nodes, int mayBeLost)
    {
        JsonElement root = default;
        await nodes.EventuallyAsync($"{mayBeLost} nodes may be lost", async () =>
        {
            (int code, string said) = await nodes.CommandAsync("status", "--json");
            root = JsonDocument.Parse(said[said.IndexOf('{', StringComparison.Ordinal)..(said.LastIndexOf('}') + 1)]).RootElement;
            return code == 0 && root.GetProperty("may_be_lost").GetInt32() == mayBeLost;
        });
        return root;
    }
}
