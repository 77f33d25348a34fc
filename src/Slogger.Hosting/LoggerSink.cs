// What the proxy says, in the application's log.
using Microsoft.Extensions.Logging;
using Slogger.Proxy.Configuration;
using Level = Slogger.Proxy.Configuration.LogLevel;
using LogLevel = Microsoft.Extensions.Logging.LogLevel;

namespace Slogger.Hosting;

/// <summary>Passes lines on.</summary>
internal sealed partial class LoggerSink(ILogger logger) : ILogSink
{
    public bool IsEnabled(Level level) => logger.IsEnabled(Of(level));

    public void Write(Level level, string message) => Log(Of(level), LogText.Bounded(message));

    private static LogLevel Of(Level level) => level switch
    {
        Level.Trace => LogLevel.Trace,
        Level.Debug => LogLevel.Debug,
        Level.Info => LogLevel.Information,
        Level.Warn => LogLevel.Warning,
        _ => LogLevel.Error,
    };

    [LoggerMessage(EventId = 1, Message = "{Line}")]
    private partial void Log(LogLevel level, string line);
}
