// The harness against a stand-in that speaks DPR: truth passes, each lie is caught.
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Harness;

public sealed class DprHarnessTests(ITestOutputHelper output)
{
    [Fact]
    public async Task Checker_TruthfulDpr_FindsNothingAndSeesCommits()
    {
        var report = await RunAsync(appendOnly: true, rounds: 8, survivorLie: 0);
        Assert.True(report.Violations.Count == 0, report.Text);
        Assert.True(report.CommittedChecked > 100, report.Text);
    }

    [Fact]
    public async Task Checker_SurvivorTooHigh_Complains()
    {
        var report = await RunAsync(appendOnly: true, rounds: 8, survivorLie: 40);
        Assert.Contains(report.Violations, v => v.Kind is ViolationKind.WrongSurvivor or ViolationKind.NotAPrefix);
    }

    [Fact]
    public async Task Checker_SurvivorTooLow_Complains()
    {
        var report = await RunAsync(appendOnly: true, rounds: 8, survivorLie: -40);
        Assert.Contains(report.Violations, v => v.Kind is ViolationKind.WrongSurvivor or ViolationKind.CommittedLost
            or ViolationKind.NotAPrefix);
    }

    [Fact]
    public async Task Checker_CommittedCommandsLost_Complains()
    {
        var report = await RunAsync(appendOnly: false, rounds: 3, survivorLie: 0);
        Assert.Contains(report.Violations, v => v.Kind == ViolationKind.CommittedLost);
    }

    private async Task<ChaosReport> RunAsync(bool appendOnly, int rounds, int survivorLie)
    {
        using var workspace = new Workspace();
        await using var deployment = new FakeDprDeployment(workspace, appendOnly) { SurvivorLie = survivorLie };
        var options = new ChaosOptions(rounds, Seed: 23, RunMinMs: 150, RunMaxMs: 600) { Report = output.WriteLine };
        return await new ChaosRun(deployment, options).RunAsync();
    }
}
