// What the proxy says to the people who run it: one line per event. The sink belongs to whoever starts the proxy (the
// slogger executable writes to stderr). Implementations never block the caller for long and never throw.
namespace Slogger.Proxy.Configuration;

/// <summary>How much a line matters, least first.</summary>
public enum LogLevel
{
    /// <summary>Each step, for developers. Costs speed.</summary>
    Trace,

    /// <summary>Decisions, for finding faults.</summary>
    Debug,

    /// <summary>Starts, stops, recoveries, checkpoints.</summary>
    Info,

    /// <summary>Works, but somebody should look at it.</summary>
    Warn,

    /// <summary>Something failed.</summary>
    Error,
}

/// <summary>Takes log lines. Safe for use by several threads.</summary>
public interface ILogSink
{
    /// <summary>True if a line of this level would be written: test it before composing a costly message.</summary>
    bool IsEnabled(LogLevel level);

    /// <summary>Writes one line. Never pass passwords or connection strings.</summary>
    void Write(LogLevel level, string message);
}

/// <summary>Shorthands.</summary>
public static class LogSinkExtensions
{
    /// <summary>Writes at level trace.</summary>
    public static void Trace(this ILogSink log, string message) => log.Write(LogLevel.Trace, message);

    /// <summary>Writes at level debug.</summary>
    public static void Debug(this ILogSink log, string message) => log.Write(LogLevel.Debug, message);

    /// <summary>Writes at level info.</summary>
    public static void Info(this ILogSink log, string message) => log.Write(LogLevel.Info, message);

    /// <summary>Writes at level warn.</summary>
    public static void Warn(this ILogSink log, string message) => log.Write(LogLevel.Warn, message);

    /// <summary>Writes at level error.</summary>
    public static void Error(this ILogSink log, string message) => log.Write(LogLevel.Error, message);
}

/// <summary>A sink that drops everything.</summary>
public sealed class NullLogSink : ILogSink
{
    /// <summary>The only instance.</summary>
    public static readonly NullLogSink Instance = new();

    private NullLogSink()
    {
    }

    /// <inheritdoc />
    public bool IsEnabled(LogLevel level) => false;

    /// <inheritdoc />
    public void Write(LogLevel level, string message)
    {
    }
}
