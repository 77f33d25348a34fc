// What a command of two sites does, step by step, with the time since it began.
using System.Diagnostics;
using System.Globalization;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Sites;

/// <summary>Shows steps.</summary>
/// <param name="output">Where.</param>
internal sealed class StepLog(TextWriter output) : LineLogger(LogLevel.Information)
{
    private readonly Lock _lock = new();
    private long _began;

    /// <summary>Since <see cref="Begin"/>.</summary>
    public TimeSpan Elapsed => Stopwatch.GetElapsedTime(Interlocked.Read(ref _began));

    /// <summary>Counts from now on; before, no times are shown.</summary>
    public void Begin() => Interlocked.Exchange(ref _began, Stopwatch.GetTimestamp());

    protected override void Write(LogLevel level, string message) =>
        Step(Interlocked.Read(ref _began) == 0 ? null : Elapsed, level, message);

    /// <summary>Shows a step that was done elsewhere.</summary>
    /// <param name="elapsed">When, since it began there; null: it has not begun.</param>
    /// <param name="level">How serious it is.</param>
    /// <param name="message">What was done.</param>
    public void Step(TimeSpan? elapsed, LogLevel level, string message)
    {
        if (!IsEnabled(level)) { return; }
        lock (_lock)
        {
            string time = elapsed is { } at ? string.Create(CultureInfo.InvariantCulture, $"{at.TotalMilliseconds,9:0.0} ms  ") : "";
            output.WriteLine($"{time}{(level == LogLevel.Information ? "" : "warning: ")}{message}");
            output.Flush();
        }
    }
}
