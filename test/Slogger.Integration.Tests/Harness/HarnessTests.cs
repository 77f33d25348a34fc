// The harness must pass a store that keeps its promises and must catch each way of breaking them: a checker that never
// complains proves nothing.
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Harness;

public sealed class HarnessTests(ITestOutputHelper output)
{
    [Fact]
    public async Task Checker_StoreThatLosesNothing_FindsNothing()
    {
        var report = await RunAsync(appendOnly: true, rounds: 6);
        Assert.True(report.Violations.Count == 0, report.Text);
        Assert.Equal(6, report.Rounds);
        Assert.True(report.Commands > 1000, report.Text);
    }

    [Fact]
    public async Task Checker_ExactButOlderPrefix_IsNoViolationWithoutCommits()
    {
        // A snapshot is a prefix of everything: nothing was reported committed, so going back to it is allowed.
        var report = await RunAsync(appendOnly: false, rounds: 2);
        Assert.True(report.Violations.Count == 0, report.Text);
        Assert.True(report.AcknowledgedLost > 0, "the snapshot should be older than the last replies\n" + report.Text);
    }

    [Fact]
    public async Task Checker_AnsweredCommandsLostThoughPromised_Complains()
    {
        var report = await RunAsync(appendOnly: false, rounds: 1, faults: [RawDeployment.BackToSnapshot with { LosesNothing = true }]);
        Assert.Contains(report.Violations, v => v.Kind == ViolationKind.AcknowledgedLost);
    }

    [Fact]
    public async Task Checker_OneKeyMissing_IsNotAPrefix()
    {
        var report = await RunAsync(appendOnly: true, rounds: 1, faults: [RawDeployment.Kill], spoil: async client =>
        {
            await client.DoAsync("DEL", "w0:n0", "w0:n1", "w0:n2");
        });
        Assert.Contains(report.Violations, v => v.Kind == ViolationKind.NotAPrefix
            && v.Text.Contains("writer 0", StringComparison.Ordinal));
        Assert.DoesNotContain(report.Violations, v => v.Kind == ViolationKind.NotAPrefix
            && v.Text.Contains("writer 1", StringComparison.Ordinal));
    }

    [Fact]
    public async Task Checker_ExpiryLost_IsNotAPrefix()
    {
        var report = await RunAsync(appendOnly: true, rounds: 1, faults: [RawDeployment.Kill], spoil: async client =>
        {
            await client.DoAsync("SET", "w2:x0", "stale");
        });
        Assert.Contains(report.Violations, v => v.Kind == ViolationKind.NotAPrefix && v.Text.Contains("w2:x0", StringComparison.Ordinal));
    }

    [Fact]
    public async Task Checker_HandOffElementDoubled_Complains()
    {
        var report = await RunAsync(appendOnly: true, rounds: 1, faults: [RawDeployment.Kill], spoil: async client =>
        {
            await client.DoAsync("RPUSH", "w4:q", "twice");
        });
        Assert.Contains(report.Violations, v => v.Kind == ViolationKind.HandOffBroken);
    }

    [Fact]
    public async Task Checker_UnknownKey_IsStray()
    {
        var report = await RunAsync(appendOnly: true, rounds: 1, faults: [RawDeployment.Kill],
            spoil: client => client.DoAsync("SET", "who", "me"));
        Assert.Equal([ViolationKind.StrayKey], report.Violations.Select(v => v.Kind));
    }

    private async Task<ChaosReport> RunAsync(bool appendOnly, int rounds, IReadOnlyList<Fault>? faults = null,
        Func<RespClient, Task>? spoil = null)
    {
        using var workspace = new Workspace();
        await using var deployment = faults is null
            ? new RawDeployment(workspace, appendOnly) { Spoil = spoil }
            : new RawDeployment(workspace, appendOnly) { Spoil = spoil, Faults = faults };
        var options = new ChaosOptions(rounds, Seed: 11, RunMinMs: 200, RunMaxMs: 800) { Report = output.WriteLine };
        return await new ChaosRun(deployment, options).RunAsync();
    }
}
