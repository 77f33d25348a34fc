// The proxy inside the test's process, from its options to its sockets, with --commit none in front of a given Redis.
using System.Collections.Concurrent;
using System.Globalization;
using System.Net;
using Microsoft.Extensions.Logging;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.Harness;

internal sealed class TestProxy : IDisposable
{
    private readonly CancellationTokenSource _stop = new();
    private readonly Lines _log = new();
    private readonly Task<ProxyExit> _run;
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-pr-").FullName;

    /// <summary>Starts a proxy and waits until it listens, or has ended.</summary>
    public TestProxy(RedisServer redis, TransportKind transport, Func<ServeOptions, ServeOptions>? change = null)
    {
        ServeOptions options = new()
        {
            Redis = ListenAddress.Tcp("127.0.0.1", redis.Port),
            Listen = [ListenAddress.Tcp("127.0.0.1", 0)],
            DataDirectory = _directory,
            Metadata = MetadataSpec.SqliteFile(Path.Combine(_directory, "m")),
            Commit = CommitMode.None,
            Transport = transport,
        };
        options = change?.Invoke(options) ?? options;
        Options = options;
        Live = new(_log);
        _run = Task.Run(() => ProxyHost.RunAsync(options, _log, null, _stop.Token, live: Live));
        Task.WaitAny(_run, _log.Ready.Task);
        Port = PortOf(ProxyRecord.Read(_directory)?.Listen);
        TlsPort = PortOf(ProxyRecord.Read(_directory)?.TlsListen);
    }

    /// <summary>What it was started with.</summary>
    public ServeOptions Options { get; }

    /// <summary>By which it is given other options.</summary>
    public LiveOptions Live { get; }

    public int Port { get; }

    public int TlsPort { get; }

    /// <summary>How it ended, if it has.</summary>
    public ProxyExit? Exit => _run.IsCompleted ? _run.Result : null;

    public string Log => string.Join('\n', _log.All);

    public RespConnection Connect() => Port > 0 ? RespConnection.To(Port)
        : throw new InvalidOperationException($"the proxy does not listen ({Exit}): {Log}");

    public void Dispose()
    {
        _stop.Cancel();
        _run.Wait(TimeSpan.FromSeconds(60));
        _stop.Dispose();
        Directory.Delete(_directory, recursive: true);
    }

    private static int PortOf(IEnumerable<string>? addresses) =>
        addresses?.FirstOrDefault(a => !a.StartsWith("unix:", StringComparison.Ordinal)) is { } address
            ? int.Parse(address.AsSpan(address.LastIndexOf(':') + 1), CultureInfo.InvariantCulture) : 0;

    private sealed class Lines() : LineLogger(LogLevel.Information)
    {
        public ConcurrentQueue<string> All { get; } = new();

        public TaskCompletionSource Ready { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        protected override void Write(LogLevel level, string message)
        {
            All.Enqueue($"{level}: {message}");
            if (message.StartsWith("ready:", StringComparison.Ordinal)) { Ready.TrySetResult(); }
        }
    }
}
