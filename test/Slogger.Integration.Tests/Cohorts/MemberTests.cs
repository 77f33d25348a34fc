// Members of a cohort come and go while it serves. What was acknowledged is there, whoever is a member.
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class MemberTests : IAsyncLifetime
{
    private readonly Workspace _workspace = new();
    private readonly CohortNodes _nodes;

    public MemberTests() => _nodes = new(_workspace) { Founders = 2 };

    public ValueTask InitializeAsync() => ValueTask.CompletedTask;

    public async ValueTask DisposeAsync()
    {
        await _nodes.DisposeAsync();
        _workspace.Dispose();
    }

    [Fact]
    public async Task Members_ComeAndGo_UntilOneIsLeft_AndComeAgain()
    {
        await _nodes.StartAsync(0);
        await _nodes.StartAsync(1);
        int leader = await _nodes.LeaderAsync();
        await _nodes.FillAsync(leader, "first", 500);

        // A third one: it has what was there before, and counts.
        await _nodes.StartAsync(2);
        Assert.Contains("c is a member: a, b, c vote", await _nodes.ChangeAsync("add", 2), StringComparison.Ordinal);
        await _nodes.FollowsOrLeadsAsync(2);
        Assert.Empty(await _nodes.MissingAsync(2, "first", 500));

        // A majority is two of three now: the first leader's machine is lost, and removed.
        await _nodes.KillAsync(leader);
        await _nodes.LeaderAsync(but: leader);
        Assert.Contains("is no member", await _nodes.ChangeAsync("remove", leader), StringComparison.Ordinal);
        int next = await _nodes.LeaderAsync(but: leader);
        await _nodes.FillAsync(next, "second", 500);
        // Of two none may be lost. It is said, and nothing is changed.
        int other = 3 - leader - next;
        (int code, string output) = await _nodes.CommandAsync("remove", "--member", CohortNodes.NameOf(other));
        Assert.Equal(1, code);
        Assert.Contains($"{CohortNodes.NameOf(next)} would be left alone", output, StringComparison.Ordinal);

        // The leader goes, and the other one is a majority by itself.
        await _nodes.ChangeAsync("remove", next);
        Assert.Equal(other, await _nodes.LeaderAsync(but: leader));
        await _nodes.FillAsync(other, "third", 500);
        await _nodes.KillAsync(next);

        // Started again with what --cohort has always said it is no member, and does not lead, whatever is in its directory.
        await _nodes.StartAsync(next);
        // It has heard of its removal, or it has not, and the leader refuses it.
        await _nodes.EventuallyAsync("the node says that it is no member", () => Task.FromResult(
            _nodes.HasSaid(next, $"the members are {CohortNodes.NameOf(other)}, as the cohort's leader has said")
            || _nodes.HasSaid(next, $"node {CohortNodes.NameOf(other)} refuses this one: it does not know this node as a member")));
        await _nodes.ChangeAsync("add", next);
        await _nodes.FollowsOrLeadsAsync(next);
        Assert.Empty(await _nodes.MissingAsync(next, "third", 500));
        foreach (string prefix in (string[])["first", "second", "third"])
        {
            Assert.Empty(await _nodes.MissingAsync(other, prefix, 500));
        }
    }

    // Each takeover is a line of the log, of which it remembers 64. What the store can begin from outlasts them.
    [Fact]
    public async Task Leaders_ManyMoreThanALogRemembers_TheStoreCanStillBegin()
    {
        await _nodes.StartAsync(0);
        await _nodes.StartAsync(1);
        await _nodes.LeaderAsync();
        await _nodes.SetAsync("k", "v");
        long reign = 0;
        while (reign < 70)
        {
            int leader = await _nodes.LeaderAsync();
            await _nodes.FollowsAsync(1 - leader);
            await _nodes.LeadAsync(1 - leader);
            reign = await _nodes.NumberAsync(1 - leader, "reign");
        }
        // A store that is lost begins from a checkpoint.
        int last = await _nodes.LeaderAsync();
        await _nodes.KillRedisAsync(1 - last);
        await _nodes.FollowsAsync(1 - last);
        await _nodes.EventuallyAsync("the store has begun anew", async () =>
            (await _nodes.AskAsync(1 - last, "GET", "k"))?.Compact == "$v");
        await _nodes.LeadAsync(1 - last);
        await _nodes.SetAsync("k", "w");
    }
}
