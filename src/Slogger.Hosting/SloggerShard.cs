// The shard in this process: the same proxy that slogger serve runs, as a hosted service, and a client beside it for what is at other
// shards.
using System.Diagnostics;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;
using Slogger.Client;
using Slogger.Core.Identities;
using Slogger.Core.Shards;
using Slogger.Proxy;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Embedded;
using Slogger.Resp;

namespace Slogger.Hosting;

/// <summary>Runs it.</summary>
internal sealed class SloggerShard : BackgroundService, ISloggerShard
{
    private static readonly TimeSpan s_tryAgainAfter = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan s_tellAfter = TimeSpan.FromSeconds(5);
    private readonly SloggerShardOptions _options;
    private readonly ILogger _log;
    private readonly TaskCompletionSource _ready = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private ILocalPort? _port;
    private SloggerClient? _client;
    private readonly Lock _gate = new();
    private readonly HashSet<LocalSession> _sessions = [];   // under _gate, as the next
    private bool _hasEnded;
    private Task _connecting = Task.CompletedTask;

    public SloggerShard(IOptions<SloggerShardOptions> options, ILogger<SloggerShard> logger)
    {
        _options = options.Value;
        _log = logger;
        // Whoever does not wait for it is told by the host.
        _ = _ready.Task.ContinueWith(static t => t.Exception, TaskScheduler.Default);
    }

    public Task Ready => _ready.Task;

    public ShardId Shard => Port.Shard;

    public SloggerClient Client => _ready.Task.IsCompletedSuccessfully ? _client! : throw NotReady();

    private ILocalPort Port => _ready.Task.IsCompletedSuccessfully ? _port! : throw NotReady();

    public LocalSession OpenSession(SloggerSessionOptions? options = null)
    {
        ILocalPort port = Port;
        lock (_gate)
        {
            if (_hasEnded)
            {
                throw new InvalidOperationException("The shard in this process has ended, or is about to: no sessions can be opened.");
            }
            var session = new LocalSession(port, Client, Client.OpenSession(options), _options.GiveUpAfter) { Closed = Forget };
            _sessions.Add(session);
            return session;
        }
    }

    private void Forget(LocalSession session)
    {
        lock (_gate) { _sessions.Remove(session); }
    }

    // Sessions end before what they work on.
    private LocalSession[] EndSessions()
    {
        lock (_gate)
        {
            _hasEnded = true;
            return [.. _sessions];
        }
    }

    public override async Task StopAsync(CancellationToken cancellationToken)
    {
        foreach (LocalSession session in EndSessions()) { await session.DisposeAsync().ConfigureAwait(false); }
        if (_client is { } client) { await client.DisposeAsync().ConfigureAwait(false); }
        await base.StopAsync(cancellationToken).ConfigureAwait(false);
        // One that has connected meanwhile.
        if (_client is { } late) { await late.DisposeAsync().ConfigureAwait(false); }
    }

    // The store closes, be it that the shard has failed: whoever uses a session is told by its next operation.
    private void OnEnding()
    {
        foreach (LocalSession session in EndSessions()) { session.Leave(); }
    }

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        try
        {
            await Task.Run(() => ServeAsync(stoppingToken), CancellationToken.None).ConfigureAwait(false);
            _ready.TrySetException(new SloggerException("The shard was stopped before it served."));
        }
        catch (Exception e)
        {
            _ready.TrySetException(e);
            throw;
        }
    }

    private InvalidOperationException NotReady() => _ready.Task.Exception is { } failed
        ? new($"The shard in this process could not be started. {failed.InnerException!.Message}", failed.InnerException)
        : new("The shard in this process does not serve yet: await ISloggerShard.Ready before anything else.");

    private async Task ServeAsync(CancellationToken stop)
    {
        ServeOptions serve = Read(_options);
        FileModes.WarnOfReadable(serve.Metadata, _log);
        void Listening(ILocalPort port, IReadOnlyList<ListenAddress> addresses)
        {
            port.Ending += OnEnding;
            _connecting = ConnectAsync(port, addresses, stop);
        }

        DataDirectoryResult opened = DataDirectory.OpenForServe(serve);
        if (opened.Opened is not { } data) { throw new SloggerException($"{opened.Problem}: {opened.Remedy}"); }
        using (data)
        {
            ProxyExit exit = await ProxyHost.RunAsync(serve, _log, Listening, stop).ConfigureAwait(false);
            await _connecting.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            if (exit.IsDone) { return; }
            data.ForgetFailedFirstStart();
            throw new SloggerException($"The shard has ended: {exit.Problem}{(exit.Remedy.Length > 0 ? $": {exit.Remedy}" : "")}");
        }
    }

    /// <summary>As the command line's.</summary>
    /// <exception cref="SloggerException">Something is wrong with them.</exception>
    internal static ServeOptions Read(SloggerShardOptions options)
    {
        var layer = new OptionLayer();
        foreach ((string name, string text) in options.Serve)
        {
            OptionDefinition option = OptionCatalog.All.FirstOrDefault(o => o.Name == name) ?? throw new SloggerException($"slogger serve "
                + $"has no option --{name}.");
            string[] texts = option.Shape == OptionShape.List
                ? text.Split(option.EnvironmentSeparator, StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries) : [text];
            layer.Values[name] = new OptionTexts(texts, nameof(SloggerShardOptions));
        }

        OptionsResult<ServeOptions> read = ServeOptionsReader.ReadServe(layer, new OptionLayer());
        if (read.Options is not { } serve)
        {
            throw new SloggerException(string.Join(" ", read.Errors.Select(e => $"{e.What}: {e.Remedy}.")));
        }
        if (serve.Commit != CommitMode.Faster)
        {
            throw new SloggerException("A shard in this process has an embedded store: leave out redis, redis-server and commit.");
        }
        if (serve.ClockError > TimeSpan.Zero)
            throw new SloggerException("clock-error has no meaning for operations in this process, whose results nobody holds back: run "
                + "slogger serve beside the application, or leave it out where all shards go by one clock.");
        return serve;
    }

    private async Task ConnectAsync(ILocalPort port, IReadOnlyList<ListenAddress> listening, CancellationToken stop)
    {
        try
        {
            SloggerClientOptions options = _options.Client ?? new() { Endpoints = [OwnEndpoint(listening)] };
            long began = Stopwatch.GetTimestamp();
            for (bool isTold = false; _client is null;)
            {
                try
                {
                    _client = await SloggerClient.ConnectAsync(options, stop).ConfigureAwait(false);
                }
                catch (SloggerException e)
                {
                    // Other shards may be awaited.
                    if (!isTold && Stopwatch.GetElapsedTime(began) > s_tellAfter)
                    {
                        isTold = true;
                        _log.Warn($"sessions in this process cannot be opened yet, and are waited for: {e.Message}");
                    }

                    await Task.Delay(s_tryAgainAfter, stop).ConfigureAwait(false);
                }
            }

            _port = port;
            _ready.TrySetResult();
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            // Whoever waits is told by ExecuteAsync.
        }
        catch (Exception e)
        {
            _ready.TrySetException(e);
        }
    }

    private static string OwnEndpoint(IReadOnlyList<ListenAddress> listening)
    {
        ListenAddress own = listening.FirstOrDefault(a => !a.IsUnix) ?? throw new SloggerException("The shard takes no clients over TCP in "
            + "clear text: say in SloggerShardOptions.Client how its own sessions reach it.");
        return (own.IsEveryInterface ? ListenAddress.Tcp("127.0.0.1", own.Port) : own).ToString();
    }
}
