// The samples in C# as a person runs them: with shards of their own, of which they kill one. They judge themselves by their exit code.
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Client;

public sealed class DotnetSampleTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(180);

    [Theory]
    [InlineData("telemetry", "Slogger.Samples.Telemetry.dll")]
    [InlineData("workflow", "Slogger.Samples.Workflow.dll")]
    [InlineData("counters", "Slogger.Samples.Counters.dll")]
    public async Task Sample_WithAKillInTheMiddle_SeesNothingInconsistent(string folder, string program)
    {
        using var sample = ChildProcess.Start(folder, "dotnet",
            [Built(folder, program), "--slogger", ProxyProcess.Executable, "--redis-server", RedisProcess.Executable]);
        Assert.True(await sample.WaitForExitAsync(Generous), sample.Tail());
        Assert.True(sample.ExitCode == 0, sample.Tail());
        // Without a rollback it would have shown nothing.
        await sample.WaitForLineAsync(l => l.StartsWith("consistent: ", StringComparison.Ordinal)
            && !l.Contains(" 0 rollbacks", StringComparison.Ordinal), Generous);
    }

    private static string Built(string sample, string program)
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        string built = Path.Combine("bin", folder.Parent!.Name, folder.Name, program);
        for (; folder is not null; folder = folder.Parent)
        {
            string path = Path.Combine(folder.FullName, "samples", sample, built);
            if (File.Exists(path)) { return path; }
        }

        throw new InvalidOperationException($"samples/{sample}/{built} is not built");
    }
}
