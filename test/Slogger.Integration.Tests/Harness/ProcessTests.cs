// The servers that the tests start for themselves can be killed and come back.
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Harness;

public sealed class ProcessTests
{
    [Fact]
    public async Task Postgres_KilledAndRestarted_AcceptsConnections()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        using var postgres = await PostgresProcess.StartAsync(workspace);
        string[] query = ["-h", "127.0.0.1", "-p", $"{postgres.Port}", "-U", "postgres", "-c", "select 41 + 1"];
        Assert.Contains("42", (await ChildProcess.RunAsync(Path.Combine(PostgresProcess.Programs!, "psql"), query)).Output,
            StringComparison.Ordinal);
        postgres.KillHard();
        Assert.NotEqual(0, (await ChildProcess.RunAsync(Path.Combine(PostgresProcess.Programs!, "psql"), query)).ExitCode);
        await postgres.RestartAsync();
        Assert.Contains("42", (await ChildProcess.RunAsync(Path.Combine(PostgresProcess.Programs!, "psql"), query)).Output,
            StringComparison.Ordinal);
    }
}
