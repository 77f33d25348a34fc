// Rounds of kill -9 in one long-lived deployment (invariants I1, I2, I3). SLOGGER_CHAOS_ROUNDS and SLOGGER_CHAOS_SEED
// choose length and course; a failure prints both, and every process's last output.
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Recovery;

public sealed class ChaosTests(ITestOutputHelper output)
{
    [Fact]
    public Task Supervised_KilledAtRandom_ComesBackToAnExactPrefix() => RunAsync(new ProxySetup());

    [Fact]
    public Task Attached_KilledAtRandomAndBackEmpty_ComesBackToAnExactPrefix() => RunAsync(new ProxySetup(Attached: true));

    [Fact]
    public Task Supervised_OneMillisecondVersionsAndRollbackErrors_ComesBackToAnExactPrefix() =>
        RunAsync(new ProxySetup(VersionInterval: "1ms") { Options = ["--on-rollback", "error"] }, divideRoundsBy: 2);

    [Fact]
    public Task Supervised_SlowVersions_LosesOnlyTheUncommitted() =>
        RunAsync(new ProxySetup(VersionInterval: "250ms"), divideRoundsBy: 2, mustLose: true);

    [Fact]
    public Task Postgres_KilledAtRandom_ComesBackToAnExactPrefix()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        return RunAsync(new ProxySetup(Postgres: true), divideRoundsBy: 2);
    }

    private async Task RunAsync(ProxySetup setup, int divideRoundsBy = 1, bool mustLose = false)
    {
        using var workspace = new Workspace();
        await using var deployment = mustLose
            ? new ProxyDeployment(workspace, setup) { Faults = [.. ProxyDeployment.AllFaults.Where(f => f.NewWorldLine)] }
            : new ProxyDeployment(workspace, setup);
        var options = ChaosOptions.FromEnvironment();
        options = options with { Rounds = Math.Max(1, options.Rounds / divideRoundsBy), ReplayEvery = 3, Report = output.WriteLine };
        var report = await new ChaosRun(deployment, options).RunAsync();
        Assert.True(report.Violations.Count == 0, report.Text);
        Assert.True(report.CommittedChecked > 0, "no writer ever heard of a commit\n" + report.Text);
        Assert.True(!mustLose || report.AcknowledgedLost > 0, "with versions this slow a kill must lose something\n" + report.Text);
    }
}
