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
}
