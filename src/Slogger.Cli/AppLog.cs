// The log of a command that runs a proxy or works like one: lines on stderr, and records to a collector of OpenTelemetry if the
// environment names one. Both have a bounded queue and a thread of their own: neither ever stops the proxy.
using System.Collections;
using System.Runtime.CompilerServices;
using OpenTelemetry.Logs;
using OpenTelemetry.Resources;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Writes to stderr, and to a collector.</summary>
internal sealed class AppLog : ILogger, IDisposable
{
    /// <summary>The standard variable that names the collector.</summary>
    public const string EndpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT";

    // A collector that does not answer must not keep a process that wants to end; least of all one that has to end at once.
    private static readonly TimeSpan s_orderlyMax = TimeSpan.FromSeconds(5), s_suddenMax = TimeSpan.FromSeconds(1);

    private readonly LineLog _lines;
    private readonly ILoggerFactory? _exporting;
    private readonly ILogger _log;

    /// <summary>Logs what is of <paramref name="level"/> and above.</summary>
    public AppLog(AppHost host, LogLevel level, LogFormat format)
    {
        _lines = new(host.Error, level, format);
        _log = _lines;
        if (Endpoint(host.Environment) is not { } endpoint) { return; }
        if (!Uri.TryCreate(endpoint, UriKind.Absolute, out Uri? address) || (address.Scheme != Uri.UriSchemeHttp && address.Scheme != Uri.UriSchemeHttps))
        {
            _lines.Warn($"{EndpointVariable} \"{endpoint}\" is no address of a collector, so that no log records are sent: give it as http://HOST:4317");
            return;
        }

        _exporting = Exporting(_lines, level);
        _log = _exporting.CreateLogger("slogger");
        AppDomain.CurrentDomain.ProcessExit += OnProcessExit;
    }

    public bool IsEnabled(LogLevel logLevel) => _log.IsEnabled(logLevel);

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
        _log.Log(logLevel, eventId, state, exception, formatter);

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => _log.BeginScope(state);

    /// <summary>Writes and sends what waits, for 7 s at most.</summary>
    public void Dispose()
    {
        AppDomain.CurrentDomain.ProcessExit -= OnProcessExit;
        _lines.Dispose();
        Send(s_orderlyMax);
    }

    // An empty variable is one that is not set.
    private static string? Endpoint(IDictionary environment) => environment[EndpointVariable] is string { Length: > 0 } endpoint ? endpoint : null;

    // Apart, so that OpenTelemetry is loaded only where it is asked for.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ILoggerFactory Exporting(LineLog lines, LogLevel level) => LoggerFactory.Create(logging => logging
        .SetMinimumLevel(level)
        .AddProvider(lines)
        .AddOpenTelemetry(options =>
        {
            // The environment names the service where it says otherwise (OTEL_SERVICE_NAME), and all else of the exporter.
            options.SetResourceBuilder(ResourceBuilder.CreateEmpty().AddTelemetrySdk().AddService("slogger", serviceVersion: ProductVersion.Text).AddEnvironmentVariableDetector());
            options.IncludeFormattedMessage = true;
            options.AddOtlpExporter();
        }));

    private void OnProcessExit(object? sender, EventArgs e) => Send(s_suddenMax);

    private void Send(TimeSpan limit)
    {
        if (_exporting is { } exporting) { Task.Run(exporting.Dispose).Wait(limit); }
    }
}
