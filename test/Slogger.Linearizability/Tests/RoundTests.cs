// Short rounds of one Redis: the whole way from the processes to the verdict. Longer ones, and of other systems, are commands.
using Slogger.Integration.Tests.Processes;
using Slogger.Linearizability.Rounds;

namespace Slogger.Linearizability.Tests;

public sealed class RoundTests
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(5);

    [Fact]
    public async Task Redis_ThatSyncsEachWrite_Killed_IsRight()
    {
        var (exitCode, output) = await RunAsync("redis");
        Assert.True(exitCode == 0, output);
        Assert.Contains("killed all of n1", output, StringComparison.Ordinal);
        Assert.Contains("seed 1: right; ", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Redis_ThatKeepsNothing_Killed_IsFoundOut()
    {
        var (exitCode, output) = await RunAsync("redis-forgetful");
        Assert.True(exitCode == 1, output);
        Assert.Contains("LostAppend: ", output, StringComparison.Ordinal);
        string kept = output.Split("kept in ")[1].Split(',')[0];
        var (checkedCode, found) = await ChildProcess.RunAsync(Environment.ProcessPath!, ["--check", kept], s_limit);
        File.Delete(kept);
        File.Delete(kept + ".log");
        Assert.True(checkedCode == 1, found);
        Assert.Contains("LostAppend: ", found, StringComparison.Ordinal);
    }

    private static Task<(int ExitCode, string Output)> RunAsync(string system)
    {
        Assert.SkipWhen(Isolation.Lacking is not null, Isolation.Lacking ?? "");
        return ChildProcess.RunAsync(Environment.ProcessPath!, ["--system", system, "--seed", "1", "--seconds", "2"], s_limit);
    }
}
