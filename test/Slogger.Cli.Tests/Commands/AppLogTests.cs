// The log of serve and its like: its form by option, environment and file, and what a collector of OpenTelemetry receives.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Text;
using System.Text.Json;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.Logging;
using Slogger.Cli.Terminal;
using Slogger.TestSupport;

namespace Slogger.Cli.Tests.Commands;

public sealed class AppLogTests : IDisposable
{
    private static readonly TimeSpan s_generous = TimeSpan.FromSeconds(120);

    private readonly TempDirectory _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(true, "--log-format", "json")]
    [InlineData(true, "SLOGGER_LOG_FORMAT", "json")]
    [InlineData(true, "file", "json")]
    [InlineData(false, "--log-format", "text")]
    [InlineData(false, "", "")]
    public async Task Format_ByOptionEnvironmentOrFile_IsThatOfEachLine(bool isJson, string where, string value)
    {
        string config = _temp.File("c.json", where == "file" ? $$"""{ "log-format": "{{value}}" }""" : "{}");
        AppRun run = await AppRun.Of(
            ["serve", "--redis", "h:1", "--data", _temp.Below("data"), "--config", config,
                .. where.StartsWith("--", StringComparison.Ordinal) ? new[] { where, value } : []],
            where.StartsWith("SLOGGER", StringComparison.Ordinal) ? new() { [where] = value } : null);
        Assert.Equal(0, run.ExitCode);
        string[] lines = run.Error.TrimEnd().Split(Environment.NewLine);
        Assert.Equal(2, lines.Length);
        if (isJson)
        {
            Assert.Equal(["info", "info"], lines.Select(line => JsonDocument.Parse(line).RootElement.GetProperty("level").GetString()));
        }
        else { Assert.All(lines, line => Assert.Matches(@"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info  [a-z]", line)); }
    }

    [Theory]
    [InlineData(AppLog.EndpointVariable, "collector:4317")]
    [InlineData(AppLog.EndpointVariable, "collector")]
    [InlineData(AppLog.LogsEndpointVariable, "collector:4317")]
    public async Task Collector_NoAddress_IsWarnedOfAndTheCommandRuns(string variable, string endpoint)
    {
        AppRun run = await AppRun.Of(["serve", "--redis", "h:1", "--data", _temp.Below("data")], new() { [variable] = endpoint });
        Assert.Equal(0, run.ExitCode);
        Assert.Contains($"warn  {variable} \"{endpoint}\" is no address of a collector", run.Error);
        Assert.Contains("give it as http://HOST:4317", run.Error);
    }

    // The exporter speaks gRPC unless it is told otherwise.
    [Theory]
    [InlineData(AppLog.EndpointVariable, false)]
    [InlineData(AppLog.EndpointVariable, true)]
    [InlineData(AppLog.LogsEndpointVariable, false)]
    [InlineData(AppLog.LogsEndpointVariable, true)]
    public async Task Collector_OfTheEnvironment_ReceivesWhatIsLoggedUntilTheEnd(string variable, bool isGrpc)
    {
        await using Collector collector = await Collector.StartAsync(isGrpc);
        // That of the logs is the whole address.
        string path = variable == AppLog.LogsEndpointVariable && !isGrpc ? Collector.HttpPath : "";
        using Process serve = Serve(variable, collector.Endpoint + path, isGrpc);
        Task<string> error = serve.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        try
        {
            await collector.ReceiveAsync("slogger " + ProductVersion.Text + ": serves cluster default shard 0");
            await collector.ReceiveAsync("service.name\u0012\t\n\aslogger");
            using Process kill = Process.Start("kill", ["-TERM", serve.Id.ToString(CultureInfo.InvariantCulture)]);
            // The last record: the end of the process sends it.
            await collector.ReceiveAsync("\astopped");
            await serve.WaitForExitAsync(TestContext.Current.CancellationToken)
                .WaitAsync(s_generous, TestContext.Current.CancellationToken);
            Assert.Equal(0, serve.ExitCode);
        }
        finally
        {
            if (!serve.HasExited) { serve.Kill(); }
            TestContext.Current.TestOutputHelper?.WriteLine(await error);
        }

        string text = await error;
        Assert.Contains(" info  slogger " + ProductVersion.Text + ": serves cluster default shard 0", text);
        Assert.EndsWith(" info  stopped", text.TrimEnd());
    }

    [Fact]
    public async Task Collector_ThatIsNotThere_DoesNotStopTheProxy()
    {
        using Process serve = Serve(AppLog.EndpointVariable, $"http://127.0.0.1:{TestPorts.Next()}");
        try
        {
            await ReadyAsync(serve);
            using Process kill = Process.Start("kill", ["-TERM", serve.Id.ToString(CultureInfo.InvariantCulture)]);
            string text = await serve.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken)
                .WaitAsync(s_generous, TestContext.Current.CancellationToken);
            await serve.WaitForExitAsync(TestContext.Current.CancellationToken)
                .WaitAsync(s_generous, TestContext.Current.CancellationToken);
            Assert.Equal(0, serve.ExitCode);
            Assert.EndsWith(" info  stopped", text.TrimEnd());
        }
        finally
        {
            if (!serve.HasExited) { serve.Kill(); }
        }
    }

    [Fact]
    public async Task Collector_NotNamed_NothingOfOpenTelemetryIsLoaded()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "what a process has loaded is read from /proc");
        foreach ((string endpoint, bool isLoaded) in new[] { ("", false), ($"http://127.0.0.1:{TestPorts.Next()}", true) })
        {
            using Process serve = Serve(AppLog.EndpointVariable, endpoint);
            try
            {
                await ReadyAsync(serve);
                string loaded = await File.ReadAllTextAsync($"/proc/{serve.Id}/maps", TestContext.Current.CancellationToken);
                Assert.Contains("Slogger.Proxy.dll", loaded);
                Assert.Equal(isLoaded, loaded.Contains("OpenTelemetry", StringComparison.Ordinal));
            }
            finally
            {
                serve.Kill();
                await serve.WaitForExitAsync(TestContext.Current.CancellationToken);
            }
        }
    }

    private static async Task ReadyAsync(Process serve)
    {
        StringBuilder said = new();
        for (string? line = ""; !line.Contains("ready:", StringComparison.Ordinal); said.AppendLine(line))
        {
            line = await serve.StandardError.ReadLineAsync(TestContext.Current.CancellationToken).AsTask()
                .WaitAsync(s_generous, TestContext.Current.CancellationToken);
            if (line is null) { Assert.Fail("it ended: " + said); }
        }
    }

    // The real executable with the embedded store.
    private Process Serve(string variable, string endpoint, bool isGrpc = false)
    {
        ProcessStartInfo start = new(
            Path.Combine(AppContext.BaseDirectory, "slogger"),
            ["serve", "--data", _temp.Below("data"), "--listen", "127.0.0.1:0", "--faster-memory", "128mb", "--faster-index",
                "1mb"]) { RedirectStandardError = true };
        start.Environment[variable] = endpoint;
        if (!isGrpc) { start.Environment["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http/protobuf"; }
        return Process.Start(start)!;
    }

    // Takes records over HTTP or gRPC. Protobuf has its strings as they are, each after its length.
    private sealed class Collector : IAsyncDisposable
    {
        public const string HttpPath = "/v1/logs";
        private const string GrpcPath = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

        private readonly WebApplication _server;
        private readonly ConcurrentQueue<string> _bodies = new();
        private readonly SemaphoreSlim _received = new(0);

        private Collector(bool isGrpc)
        {
            WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
            builder.Logging.ClearProviders();
            HttpProtocols protocols = isGrpc ? HttpProtocols.Http2 : HttpProtocols.Http1;
            builder.WebHost.ConfigureKestrel(kestrel => kestrel.Listen(IPAddress.Loopback, 0, listen => listen.Protocols = protocols));
            _server = builder.Build();
            if (isGrpc) { _server.MapPost(GrpcPath, TakeGrpcAsync); }
            else { _server.MapPost(HttpPath, TakeAsync); }
        }

        public string Endpoint => _server.Urls.Single();

        public static async Task<Collector> StartAsync(bool isGrpc)
        {
            Collector collector = new(isGrpc);
            await collector._server.StartAsync(TestContext.Current.CancellationToken);
            return collector;
        }

        public async Task ReceiveAsync(string text)
        {
            using CancellationTokenSource limit = new(s_generous);
            while (!_bodies.Any(body => body.Contains(text, StringComparison.Ordinal)))
            {
                try
                {
                    await _received.WaitAsync(limit.Token);
                }
                catch (OperationCanceledException)
                {
                    Assert.Fail($"\"{text}\" was not received, but: {string.Join(" | ", _bodies)}");
                }
            }
        }

        public async ValueTask DisposeAsync()
        {
            await _server.DisposeAsync();
            _received.Dispose();
        }

        private async Task TakeAsync(HttpContext context)
        {
            using MemoryStream body = new();
            await context.Request.Body.CopyToAsync(body);
            if (context.Request.ContentType is not ("application/x-protobuf" or "application/grpc"))
            {
                context.Response.StatusCode = 415;
                return;
            }

            _bodies.Enqueue(Encoding.Latin1.GetString(body.ToArray()));
            _received.Release();
        }

        // The reply is a message without fields, in its frame: not compressed, of 0 bytes.
        private async Task TakeGrpcAsync(HttpContext context)
        {
            await TakeAsync(context);
            context.Response.ContentType = "application/grpc";
            await context.Response.Body.WriteAsync(new byte[5]);
            context.Response.AppendTrailer("grpc-status", "0");
        }
    }
}
