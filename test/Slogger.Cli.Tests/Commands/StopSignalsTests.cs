using System.Diagnostics;
using System.Globalization;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Tests.Commands;

public class StopSignalsTests
{
    // Not INT: the test runner takes that one for itself.
    [Theory]
    [InlineData("TERM")]
    [InlineData("HUP")]
    public void FirstSignal_CancelsAndTheProcessLives(string signal)
    {
        using StopSignals signals = new(NullLogger.Instance, enabled: true);
        Assert.False(signals.Token.IsCancellationRequested);
        using Process kill = Process.Start("kill", ["-" + signal, Environment.ProcessId.ToString(CultureInfo.InvariantCulture)]);
        Assert.True(signals.Token.WaitHandle.WaitOne(TimeSpan.FromSeconds(30)));
    }

    [Fact]
    public async Task Hangup_WhereOptionsAreReadAgain_DoesThatAndStopsNothing()
    {
        int reloads = 0;
        using StopSignals signals = new(NullLogger.Instance, enabled: true, default, () =>
        {
            if (Interlocked.Increment(ref reloads) == 1) { throw new IOException("the first one fails"); }
        });
        for (int i = 1; i <= 3; i++)
        {
            using Process kill = Process.Start("kill", ["-HUP", Environment.ProcessId.ToString(CultureInfo.InvariantCulture)]);
            for (int wait = 0; Volatile.Read(ref reloads) < i && wait < 3000; wait++) { await Task.Delay(10); }
            Assert.Equal(i, Volatile.Read(ref reloads));
        }
        Assert.False(signals.Token.IsCancellationRequested);
    }
}
