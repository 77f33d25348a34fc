// What a command of two sites does, step by step, with the time since it began.
using System.Diagnostics;
using System.Globalization;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Sites;

/// <summary>Shows steps.</summary>
/// <param name="host">Where.</param>
internal sealed class StepLog(AppHost host) : ILogSink
{
    private readonly Lock _lock = new();
    private long _began = Stopwatch.GetTimestamp();

    /// <summary>Since <see cref="Begin"/>.</summary>
    public TimeSpan Elapsed => Stopwatch.GetElapsedTime(Interlocked.Read(ref _began));

    /// <summary>Counts from now on.</summary>
    public void Begin() => Interlocked.Exchange(ref _began, Stopwatch.GetTimestamp());

    public bool IsEnabled(LogLevel level) => level >= LogLevel.Info;

    public void Write(LogLevel level, string message)
    {
        if (!IsEnabled(level)) { return; }
        lock (_lock)
        {
            host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"{Elapsed.TotalMilliseconds,9:0.0} ms  {(level == LogLevel.Info ? "" : "warning: ")}{message}"));
            host.Output.Flush();
        }
    }
}
