// The limit of every test (TestLimit), tried on tests that hang. They run in a process of their own: the limit ends it.
using System.Diagnostics;
using Slogger.TestSupport;

namespace Slogger.Resp.Tests;

public sealed class TestLimitTests
{
    [Theory]
    [InlineData(nameof(HangingTest))]
    [InlineData(nameof(HangingSetUp))]
    [InlineData(nameof(HangingDisposal))]
    public async Task Process_SomethingHangsInIt_IsEnded(string test)
    {
        var start = new ProcessStartInfo(Environment.ProcessPath!) { RedirectStandardOutput = true, UseShellExecute = false };
        foreach (string argument in (string[])["-explicit", "only", "-class", $"{typeof(TestLimitTests).FullName}+{test}", "-noColor",
            "-noLogo"])
        {
            start.ArgumentList.Add(argument);
        }

        start.Environment[TestLimitAttribute.Variable] = "2";
        using Process process = Process.Start(start)!;
        string said = await process.StandardOutput.ReadToEndAsync(TestContext.Current.CancellationToken);
        await process.WaitForExitAsync(TestContext.Current.CancellationToken);
        // On a busy machine the limit may end it before it has come to what hangs: so what it names is left open.
        Assert.Contains("[FAIL]: ", said, StringComparison.Ordinal);
        Assert.Contains("The process ends.", said, StringComparison.Ordinal);
        Assert.NotEqual(0, process.ExitCode);
    }

    public sealed class HangingTest
    {
        [Fact(Explicit = true)]
        public Task Hangs() => Task.Delay(Timeout.Infinite, CancellationToken.None);
    }

    public sealed class HangingSetUp : IAsyncLifetime
    {
        public async ValueTask InitializeAsync() => await Task.Delay(Timeout.Infinite, CancellationToken.None);

        public ValueTask DisposeAsync() => ValueTask.CompletedTask;

        [Fact(Explicit = true)]
        public void Passes()
        {
            // It is not reached.
        }
    }

    public sealed class HangingDisposal : IAsyncDisposable
    {
        public async ValueTask DisposeAsync() => await Task.Delay(Timeout.Infinite, CancellationToken.None);

        [Fact(Explicit = true)]
        public void Passes()
        {
            // What hangs comes behind it.
        }
    }
}
