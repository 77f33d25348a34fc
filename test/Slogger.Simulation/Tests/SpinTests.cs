// The model of watermark gating and failover (test/spin/failover.pml), checked exhaustively by spin: every interleaving, where the
// simulator has samples. With a rule switched off an assertion has to notice.
using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace Slogger.Simulation.Tests;

public class SpinTests
{
    [Fact]
    public async Task Model_AllInterleavings_EveryAssertionHolds()
    {
        string output = await Check(null);
        TestContext.Current.TestOutputHelper?.WriteLine(output);
        Assert.Contains("errors: 0", output, StringComparison.Ordinal);
        Assert.DoesNotContain("max search depth too small", output, StringComparison.Ordinal);
        Assert.DoesNotContain("out of memory", output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("OWN", "recorded[")]
    [InlineData("NOLINE", "at[")]
    [InlineData("NOTENOTDURABLE", "held[")]
    [InlineData("RECEIPT", "held[")]
    [InlineData("APPLIES", "told")]
    [InlineData("BEFOREALL", "held[")]
    [InlineData("FREEZEFORGOTTEN", "final>=told")]
    [InlineData("STALEFINAL", "final>=told")]
    [InlineData("FINALBEFOREALL", "final")]
    public async Task Model_RuleIsOff_AnAssertionNotices(string mutation, string assertion)
    {
        string output = await Check(mutation);
        string? violated = output.Split('\n').FirstOrDefault(l => l.Contains("assertion violated", StringComparison.Ordinal));
        Assert.True(violated?.Contains(assertion, StringComparison.Ordinal), $"{mutation}: {violated ?? output}");
    }

    private static async Task<string> Check(string? mutation)
    {
        string model = Path.Combine(Folder(), "..", "..", "spin", "failover.pml");
        Assert.SkipUnless(File.Exists(model), "The sources are not beside the tests.");
        Assert.SkipUnless(IsThere("spin") && IsThere("gcc"), "spin or gcc is not installed (test.sh does that).");
        DirectoryInfo work = Directory.CreateTempSubdirectory("slogger-spin");
        try
        {
            string made = await Run(work, "spin",
                ["-a", "-DVERSIONS=1", .. mutation is null ? Array.Empty<string>() : [$"-DM_{mutation}"], Path.GetFullPath(model)])
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
