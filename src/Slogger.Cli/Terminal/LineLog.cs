// The log on stderr: one line per event, "TIME LEVEL message" or an object of JSON. A reader of stderr that stops must not stop
// the proxy: lines go through a bounded queue and a thread of their own. What does not fit is counted and said later.
using System.Buffers;
using System.Collections.Concurrent;
using System.Globalization;
using System.Text;
using System.Text.Encodings.Web;
using System.Text.Json;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Terminal;

/// <summary>Writes log lines to a text writer, without blocking its callers.</summary>
public sealed class LineLog : LineLogger, ILoggerProvider
{
    /// <summary>Lines that may wait. Beyond it new lines are dropped.</summary>
    public const int QueueLines = 4096;

    private static readonly TimeSpan FlushMax = TimeSpan.FromSeconds(2);
    private static readonly JsonWriterOptions Json = new() { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    private readonly BlockingCollection<string> _queue = new(QueueLines);
    private readonly TextWriter _output;
    private readonly LogFormat _format;
    private readonly Thread _writer;
    private long _dropped;

    /// <summary>Logs lines of <paramref name="level"/> and above.</summary>
    public LineLog(TextWriter output, LogLevel level, LogFormat format = LogFormat.Text)
        : base(level)
    {
        (_output, _format) = (output, format);
        _writer = new Thread(WriteLines) { IsBackground = true, Name = "log" };
        _writer.Start();
        // A process that ends itself disposes nothing, and its last lines say why it does.
        AppDomain.CurrentDomain.ProcessExit += OnProcessExit;
    }

    /// <summary>This log, whatever the category: there is one source of lines only.</summary>
    public ILogger CreateLogger(string categoryName) => this;

    /// <summary>Writes what waits, for 2 s at most.</summary>
    public void Dispose()
    {
        AppDomain.CurrentDomain.ProcessExit -= OnProcessExit;
        Finish();
    }

    /// <inheritdoc />
    protected override void Write(LogLevel level, string message)
    {
        try
        {
            if (!_queue.TryAdd(Format(_format, DateTimeOffset.UtcNow, level, message)))
            {
                Interlocked.Increment(ref _dropped);
            }
        }
        catch (InvalidOperationException)
        {
            // Disposed while another thread still had something to say.
        }
    }

    /// <summary>One line. As text, a message of several lines is indented.</summary>
    internal static string Format(LogFormat format, DateTimeOffset time, LogLevel level, string message)
    {
        string name = level switch
        {
            LogLevel.Trace => "trace",
            LogLevel.Debug => "debug",
            LogLevel.Information => "info",
            LogLevel.Warning => "warn",
            _ => "error",
        };
        string at = time.ToString("yyyy-MM-dd'T'HH:mm:ss.fff'Z'", CultureInfo.InvariantCulture);
        return format == LogFormat.Json ? JsonLine(at, name, message)
            : $"{at} {name,-5} {message.Replace("\n", "\n    ", StringComparison.Ordinal)}";
    }

    private static string JsonLine(string time, string level, string message)
    {
        ArrayBufferWriter<byte> bytes = new();
        using (Utf8JsonWriter json = new(bytes, Json))
        {
            json.WriteStartObject();
            json.WriteString("time", time);
            json.WriteString("level", level);
            json.WriteString("message", message);
            json.WriteEndObject();
        }

        return Encoding.UTF8.GetString(bytes.WrittenSpan);
    }

    private void OnProcessExit(object? sender, EventArgs e) => Finish();

    private void Finish()
    {
        _queue.CompleteAdding();
        _writer.Join(FlushMax);
    }

    private void WriteLines()
    {
        try
        {
            foreach (string line in _queue.GetConsumingEnumerable())
            {
                SayWhatWasDropped();
                _output.WriteLine(line);
                if (_queue.Count == 0)
                {
                    _output.Flush();
                }
            }

            SayWhatWasDropped();
            _output.Flush();
        }
        catch (Exception e) when (e is IOException or ObjectDisposedException)
        {
            // Nobody can be told that stderr is gone; lines are dropped from here on.
        }
    }

    private void SayWhatWasDropped()
    {
        if (Interlocked.Exchange(ref _dropped, 0) is > 0 and long dropped)
        {
            string message = string.Create(CultureInfo.InvariantCulture,
                $"{dropped} log lines were dropped here: stderr is read too slowly");
            _output.WriteLine(Format(_format, DateTimeOffset.UtcNow, LogLevel.Warning, message));
        }
    }
}
