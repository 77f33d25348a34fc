// The models of test/spin, checked exhaustively by spin: every interleaving, where the simulator has samples. With a rule switched off an
// assertion has to notice.
using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace Slogger.Simulation.Tests;

public class SpinTests
{
    // Watermark gating and failover.
    private const string Failover = "failover -DVERSIONS=1";

    // Election and commit in a cohort. What goes wrong with some rules takes more reigns, and no crash.
    private const string Cohort = "cohort -DREIGNS=2 -DCRASHES=1", ThreeReigns = "cohort -DREIGNS=3 -DCRASHES=0",
        FourReigns = "cohort -DREIGNS=4 -DCRASHES=0 -DLENGTH=2";

    // The leader's lease.
    private const string Lease = "lease";

    [Theory]
    [InlineData(Failover)]
    [InlineData(Cohort)]
    [InlineData(ThreeReigns + " -DLENGTH=2")]
    [InlineData(Lease)]
    public async Task Model_AllInterleavings_EveryAssertionHolds(string model)
    {
        string output = await Check(model, null);
        TestContext.Current.TestOutputHelper?.WriteLine(output);
        Assert.Contains("errors: 0", output, StringComparison.Ordinal);
        Assert.DoesNotContain("max search depth too small", output, StringComparison.Ordinal);
        Assert.DoesNotContain("out of memory", output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(Failover, "OWN", "recorded[")]
    [InlineData(Failover, "NOLINE", "at[")]
    [InlineData(Failover, "NOTENOTDURABLE", "held[")]
    [InlineData(Failover, "RECEIPT", "held[")]
    [InlineData(Failover, "APPLIES", "told")]
    [InlineData(Failover, "BEFOREALL", "held[")]
    [InlineData(Failover, "FREEZEFORGOTTEN", "final>=told")]
    [InlineData(Failover, "STALEFINAL", "final>=told")]
    [InlineData(Failover, "FINALBEFOREALL", "final")]
    [InlineData(Cohort, "AnyLogWins", "history[")]
    [InlineData(ThreeReigns, "LongestLogWins", "executed[")]
    [InlineData(Cohort, "AckBeforeSync", "history[")]
    [InlineData(Cohort, "PromiseNotDurable", "history[")]
    [InlineData(Cohort, "OldLeaderObeyed", "executed[")]
    [InlineData(Cohort, "MinorityCounts", "history[")]
    [InlineData(FourReigns, "OldReignCounts", "history[")]
    [InlineData(Lease, "NoDrift", "isStale")]
    [InlineData(Lease, "LeaseFromArrival", "isStale")]
    [InlineData(Lease, "NoWaitAtStart", "isStale")]
    [InlineData(Lease, "GrantIgnored", "isStale")]
    [InlineData(Lease, "LookBeforeRead", "isStale")]
    public async Task Model_RuleIsOff_AnAssertionNotices(string model, string mutation, string assertion)
    {
        string output = await Check(model, mutation);
        string? violated = output.Split('\n').FirstOrDefault(l => l.Contains("assertion violated", StringComparison.Ordinal));
        Assert.True(violated?.Contains(assertion, StringComparison.Ordinal), $"{mutation}: {violated ?? output}");
    }

    private static async Task<string> Check(string nameAndSizes, string? mutation)
    {
        string[] words = nameAndSizes.Split(' ');
        string model = Path.Combine(Folder(), "..", "..", "spin", $"{words[0]}.pml");
        Assert.SkipUnless(File.Exists(model), "The sources are not beside the tests.");
        Assert.SkipUnless(IsThere("spin") && IsThere("gcc"), "spin or gcc is not installed (test.sh does that).");
        DirectoryInfo work = Directory.CreateTempSubdirectory("slogger-spin");
        try
        {
            string made = await Run(work, "spin",
                ["-a", .. words[1..], .. mutation is null ? Array.Empty<string>() : [$"-DM_{mutation}"], Path.GetFullPath(model)])
                + await Run(work, "gcc", ["-w", "-O1", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"]);
            string pan = Path.Combine(work.FullName, "pan");
            Assert.True(File.Exists(pan), made);
            return await Run(work, pan, ["-E", "-m1000000"]);
        }
        finally
        {
            work.Delete(recursive: true);
        }
    }

    private static async Task<string> Run(DirectoryInfo work, string program, string[] arguments)
    {
        using Process process = Process.Start(
            new ProcessStartInfo(program, arguments) { WorkingDirectory = work.FullName, RedirectStandardOutput = true,
                RedirectStandardError = true })!;
        Task<string> errors = process.StandardError.ReadToEndAsync();
        string output = await process.StandardOutput.ReadToEndAsync();
        await process.WaitForExitAsync();
        return output + await errors;
    }

    private static bool IsThere(string program) =>
        (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator)
            .Any(d => d.Length > 0 && File.Exists(Path.Combine(d, program)));

    private static string Folder([CallerFilePath] string path = "") => Path.GetDirectoryName(path)!;
}
