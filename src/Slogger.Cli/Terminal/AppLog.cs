// The log of a command that runs a proxy or works like one: lines on stderr, and records to a collector of OpenTelemetry if the
// environment names one. Both have a bounded queue and a thread of their own: neither ever stops the proxy.
using System.Collections;
using System.Runtime.CompilerServices;
using Microsoft.Extensions.DependencyInjection;
using OpenTelemetry;
using OpenTelemetry.Resources;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Terminal;

/// <summary>Writes to stderr, and to a collector.</summary>
internal sealed class AppLog : ILogger, IDisposable
{
    /// <summary>The standard variables that name the collector: of everything, and of logs, which goes before it.</summary>
    public const string EndpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT", LogsEndpointVariable = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT";

    // A collector that does not answer must not keep a process that wants to end; least of all one that has to end at once.
    private static readonly TimeSpan s_orderlyMax = TimeSpan.FromSeconds(5), s_suddenMax = TimeSpan.FromSeconds(1);

    private readonly LineLog _lines;
    private readonly IDisposable? _exporting;
    private readonly ILogger _log;

    /// <summary>Logs what is of <paramref name="level"/> and above.</summary>
    public AppLog(AppHost host, LogLevel level, LogFormat format)
    {
        _lines = new(host.Error, level, format);
        _log = _lines;
        if (Endpoint(host.Environment) is not { } named) { return; }
        (string variable, string endpoint) = named;
        if (!Uri.TryCreate(endpoint, UriKind.Absolute, out Uri? address)
            || (address.Scheme != Uri.UriSchemeHttp && address.Scheme != Uri.UriSchemeHttps))
        {
            _lines.Warn(
                $"{variable} \"{endpoint}\" is no address of a collector, so that no log records are sent: give it as http://HOST:4317");
            return;
        }

        (_exporting, _log) = Exporting(_lines);
        AppDomain.CurrentDomain.ProcessExit += OnProcessExit;
    }

    /// <summary>Least level that is written and sent. May change at any time.</summary>
    public LogLevel Level { get => _lines.Least; set => _lines.Least = value; }

    public bool IsEnabled(LogLevel logLevel) => _lines.IsEnabled(logLevel);

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception,
        Func<TState, Exception?, string> formatter)
    {
        if (IsEnabled(logLevel)) { _log.Log(logLevel, eventId, state, exception, formatter); }
    }

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
    private static (string Variable, string Endpoint)? Endpoint(IDictionary environment) =>
        environment[LogsEndpointVariable] is string { Length: > 0 } ofLogs ? (LogsEndpointVariable, ofLogs)
        : environment[EndpointVariable] is string { Length: > 0 } ofAll ? (EndpointVariable, ofAll) : null;

    // Apart, so that OpenTelemetry is loaded only where it is asked for.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static (IDisposable Exporting, ILogger Log) Exporting(LineLog lines)
    {
        var sdk = OpenTelemetrySdk.Create(builder =>
        {
            // What is below the level does not come here.
            builder.Services.AddLogging(logging => logging.SetMinimumLevel(LogLevel.Trace).AddProvider(lines));
            // The environment names the service where it says otherwise (OTEL_SERVICE_NAME), and all else of the exporter.
            ResourceBuilder resource = ResourceBuilder.CreateEmpty().AddTelemetrySdk()
                .AddService("slogger", serviceVersion: ProductVersion.Text).AddEnvironmentVariableDetector();
            builder.WithLogging(configureBuilder: null, options => options.SetResourceBuilder(resource).IncludeFormattedMessage = true)
                .UseOtlpExporter();
        });
        return (sdk, sdk.GetLoggerFactory().CreateLogger("slogger"));
    }

    private void OnProcessExit(object? sender, EventArgs e) => Send(s_suddenMax);

    private void Send(TimeSpan limit)
    {
        if (_exporting is { } exporting) { Task.Run(exporting.Dispose).Wait(limit); }
    }
}
