// The log on stderr: one line per event, "TIME LEVEL message". A reader of stderr that stops must not stop the proxy: lines go
// through a bounded queue and a thread of their own; what does not fit is counted and said later.
using System.Collections.Concurrent;
using System.Globalization;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Writes log lines to a text writer, without blocking its callers.</summary>
public sealed class LineLog : ILogSink, IDisposable
{
    /// <summary>Lines that may wait. Beyond it new lines are dropped.</summary>
    public const int QueueLines = 4096;

    private static readonly TimeSpan FlushMax = TimeSpan.FromSeconds(2);

    private readonly BlockingCollection<string> _queue = new(QueueLines);
    private readonly TextWriter _output;
    private readonly LogLevel _level;
    private readonly Thread _writer;
    private long _dropped;

    /// <summary>Logs lines of <paramref name="level"/> and above.</summary>
    public LineLog(TextWriter output, LogLevel level)
    {
        (_output, _level) = (output, level);
        _writer = new Thread(WriteLines) { IsBackground = true, Name = "log" };
        _writer.Start();
    }

    /// <inheritdoc />
    public bool IsEnabled(LogLevel level) => level >= _level;

    /// <inheritdoc />
    public void Write(LogLevel level, string message)
    {
        if (!IsEnabled(level))
        {
            return;
        }

        string line = Format(DateTimeOffset.UtcNow, level, message);
        try
        {
            if (!_queue.TryAdd(line))
            {
                Interlocked.Increment(ref _dropped);
            }
        }
        catch (InvalidOperationException)
        {
            // Disposed while another thread still had something to say.
        }
    }

    /// <summary>Writes what waits, for 2 s at most.</summary>
    public void Dispose()
    {
        if (!_queue.IsAddingCompleted)
        {
            _queue.CompleteAdding();
            _writer.Join(FlushMax);
        }
    }

    /// <summary>One line; a message of several lines is indented.</summary>
    internal static string Format(DateTimeOffset time, LogLevel level, string message)
    {
        string name = level switch
        {
            LogLevel.Trace => "trace",
            LogLevel.Debug => "debug",
            LogLevel.Info => "info ",
            LogLevel.Warn => "warn ",
            _ => "error",
        };
        return time.ToString("yyyy-MM-dd'T'HH:mm:ss.fff'Z' ", CultureInfo.InvariantCulture) + name + " " + LogText.Bounded(message.TrimEnd()).Replace("\n", "\n    ", StringComparison.Ordinal);
    }

    private void WriteLines()
    {
        try
        {
            foreach (string line in _queue.GetConsumingEnumerable())
            {
                if (Interlocked.Exchange(ref _dropped, 0) is > 0 and long dropped)
                {
                    _output.WriteLine(Format(DateTimeOffset.UtcNow, LogLevel.Warn, string.Create(CultureInfo.InvariantCulture, $"{dropped} log lines were dropped here: stderr is read too slowly")));
                }

                _output.WriteLine(line);
                if (_queue.Count == 0)
                {
                    _output.Flush();
                }
            }
        }
        catch (Exception e) when (e is IOException or ObjectDisposedException)
        {
            // Nobody can be told that stderr is gone; lines are dropped from here on.
        }
    }
}
