// The log of serve and its like: its form by option, environment and file, and what a collector of OpenTelemetry receives.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Text;
using System.Text.Json;
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
            ["serve", "--redis", "h:1", "--data", _temp.Below("data"), "--config", config, .. where.StartsWith("--", StringComparison.Ordinal) ? new[] { where, value } : []],
            where.StartsWith("SLOGGER", StringComparison.Ordinal) ? new() { [where] = value } : null);
        Assert.Equal(0, run.ExitCode);
        string[] lines = run.Error.TrimEnd().Split(Environment.NewLine);
        Assert.Equal(2, lines.Length);
        if (isJson) { Assert.Equal(["info", "info"], lines.Select(line => JsonDocument.Parse(line).RootElement.GetProperty("level").GetString())); }
        else { Assert.All(lines, line => Assert.Matches(@"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info  [a-z]", line)); }
    }

    [Theory]
    [InlineData("collector:4317")]
    [InlineData("collector")]
    public async Task Collector_NoAddress_IsWarnedOfAndTheCommandRuns(string endpoint)
    {
        AppRun run = await AppRun.Of(["serve", "--redis", "h:1", "--data", _temp.Below("data")], new() { [AppLog.EndpointVariable] = endpoint });
        Assert.Equal(0, run.ExitCode);
        Assert.Contains($"warn  {AppLog.EndpointVariable} \"{endpoint}\" is no address of a collector", run.Error);
        Assert.Contains("give it as http://HOST:4317", run.Error);
    }

    [Fact]
    public async Task Collector_OfTheEnvironment_ReceivesWhatIsLoggedUntilTheEnd()
    {
        using Collector collector = new();
        using Process serve = Serve(collector.Endpoint);
        Task<string> error = serve.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken);
        try
        {
            await collector.ReceiveAsync("slogger " + ProductVersion.Text + ": serves cluster default shard 0");
            await collector.ReceiveAsync("service.name\u0012\t\n\aslogger");
            using Process kill = Process.Start("kill", ["-TERM", serve.Id.ToString(CultureInfo.InvariantCulture)]);
            // The last record: the end of the process sends it.
            await collector.ReceiveAsync("\astopped");
            await serve.WaitForExitAsync(TestContext.Current.CancellationToken).WaitAsync(s_generous, TestContext.Current.CancellationToken);
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
        using Process serve = Serve($"http://127.0.0.1:{TestPorts.Next()}");
        try
        {
            await ReadyAsync(serve);
            using Process kill = Process.Start("kill", ["-TERM", serve.Id.ToString(CultureInfo.InvariantCulture)]);
            string text = await serve.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken).WaitAsync(s_generous, TestContext.Current.CancellationToken);
            await serve.WaitForExitAsync(TestContext.Current.CancellationToken).WaitAsync(s_generous, TestContext.Current.CancellationToken);
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
            using Process serve = Serve(endpoint);
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
            line = await serve.StandardError.ReadLineAsync(TestContext.Current.CancellationToken).AsTask().WaitAsync(s_generous, TestContext.Current.CancellationToken);
            if (line is null) { Assert.Fail("it ended: " + said); }
        }
    }

    // The real executable with the embedded store.
    private Process Serve(string endpoint)
    {
        ProcessStartInfo start = new(
            Path.Combine(AppContext.BaseDirectory, "slogger"),
            ["serve", "--data", _temp.Below("data"), "--listen", "127.0.0.1:0", "--faster-memory", "128mb", "--faster-index", "1mb"]) { RedirectStandardError = true };
        start.Environment[AppLog.EndpointVariable] = endpoint;
        start.Environment["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http/protobuf";
        return Process.Start(start)!;
    }

    // Takes records over HTTP. Protobuf has its strings as they are, each after its length.
    private sealed class Collector : IDisposable
    {
        private readonly HttpListener _listener = new();
        private readonly ConcurrentQueue<string> _bodies = new();
        private readonly SemaphoreSlim _received = new(0);

        public Collector()
        {
            Endpoint = $"http://127.0.0.1:{TestPorts.Next()}";
            _listener.Prefixes.Add(Endpoint + "/");
            _listener.Start();
            _ = TakeAsync();
        }

        public string Endpoint { get; }

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

        public void Dispose()
        {
            _listener.Close();
            _received.Dispose();
        }

        private async Task TakeAsync()
        {
            while (_listener.IsListening)
            {
                HttpListenerContext context;
                try
                {
                    context = await _listener.GetContextAsync();
                }
                catch (Exception e) when (e is HttpListenerException or ObjectDisposedException)
                {
                    return;
                }

                using MemoryStream body = new();
                await context.Request.InputStream.CopyToAsync(body);
                bool isLogs = context.Request is { HttpMethod: "POST", Url.AbsolutePath: "/v1/logs", ContentType: "application/x-protobuf" };
                context.Response.StatusCode = isLogs ? 200 : 404;
                context.Response.Close();
                if (!isLogs) { continue; }
                _bodies.Enqueue(Encoding.Latin1.GetString(body.ToArray()));
                _received.Release();
            }
        }
    }
}
