// What the proxy says to the people who run it: one message per event, to the ILogger of whoever starts the proxy. The slogger
// executable writes to stderr, an application to its own log. Loggers must not block the caller for long, and must not throw.
namespace Slogger.Reports;

/// <summary>How the executable writes its log to stderr.</summary>
public enum LogFormat
{
    /// <summary>A line for people: time, level, message.</summary>
    Text,

    /// <summary>An object of JSON in each line.</summary>
    Json,
}

/// <summary>Shorthands. A message is written as it is, and is no template. Never pass passwords or connection strings.</summary>
public static class LogLines
{
    /// <summary>Writes at level trace.</summary>
    public static void Trace(this ILogger log, string message) => log.Write(LogLevel.Trace, message);

    /// <summary>Writes at level debug.</summary>
    public static void Debug(this ILogger log, string message) => log.Write(LogLevel.Debug, message);

    /// <summary>Writes at level info.</summary>
    public static void Info(this ILogger log, string message) => log.Write(LogLevel.Information, message);

    /// <summary>Writes at level warn.</summary>
    public static void Warn(this ILogger log, string message) => log.Write(LogLevel.Warning, message);

    /// <summary>Writes at level error.</summary>
    public static void Error(this ILogger log, string message) => log.Write(LogLevel.Error, message);

    /// <summary>Writes at a level. Every message of the proxy passes here, so this is where its length is bounded; a logger of lines bounds
    /// all that it is given.</summary>
    public static void Write(this ILogger log, LogLevel level, string message)
    {
        ArgumentNullException.ThrowIfNull(log);
        ArgumentNullException.ThrowIfNull(message);
        if (log.IsEnabled(level))
        {
            log.Log(level, default, log is LineLogger ? message.TrimEnd() : LogText.Bounded(message.TrimEnd()), null,
                static (text, _) => text);
        }
    }
}

/// <summary>A logger of plain lines, from <paramref name="least"/> on: no categories, no scopes.</summary>
/// <param name="least">Least level that is written.</param>
public abstract class LineLogger(LogLevel least) : ILogger
{
    /// <summary>Least level that is written. May change at any time.</summary>
    public LogLevel Least { get; set; } = least;

    /// <inheritdoc />
    public virtual bool IsEnabled(LogLevel logLevel) => logLevel >= Least && logLevel != LogLevel.None;

    /// <inheritdoc />
    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception,
        Func<TState, Exception?, string> formatter)
    {
        ArgumentNullException.ThrowIfNull(formatter);
        if (!IsEnabled(logLevel)) { return; }
        string message = formatter(state, exception);
        Write(logLevel, LogText.Bounded(exception is null ? message : $"{message}\n{exception}"));
    }

    /// <inheritdoc />
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    /// <summary>Writes a message of a level that is enabled.</summary>
    protected abstract void Write(LogLevel level, string message);
}
