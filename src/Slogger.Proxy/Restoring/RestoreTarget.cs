// The Redis that an offline restore fills: one that runs (its data is replaced, if it may be), or one that is started for it
// and left running, so that people can look at what was restored.
using System.Diagnostics;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Supervision;
using RestoreOptions = Slogger.Proxy.Configuration.RestoreOptions;

namespace Slogger.Proxy.Restoring;

internal sealed class RestoreTarget(RestoreOptions options, ILogger log) : IAsyncDisposable
{
    private RedisSupervisor? _supervisor;
    private RedisEndpoint _endpoint = null!;
    private string _undoFile = "";

    /// <summary>Whether it is the store that the data directory remembers.</summary>
    public bool IsOwn { get; private set; }

    /// <summary>As a start finds it in <see cref="RestoredNote"/>; null: no start takes it for the shard's store.</summary>
    public string? Address { get; private set; }

    /// <summary>Its run; empty: not known.</summary>
    public string RunId { get; private set; } = "";

    /// <summary>Finds the Redis, or starts it. A failure if its data may not be replaced.</summary>
    /// <param name="known">Identities of streams that are this shard's.</param>
    /// <param name="logEnd">Where the log ends.</param>
    /// <param name="stop">Gives up.</param>
    public async Task<ProxyExit?> OpenAsync(IReadOnlySet<string> known, long logEnd, CancellationToken stop)
    {
        if (options.RedisServerPath is { } program) { return await StartServerAsync(program, stop).ConfigureAwait(false); }
        _endpoint = StoreEndpoint.Of(options.Redis!, options.RedisUser, options.RedisPasswordFile, options.RedisTls);
        StoreRecord? store = StoreRecord.Read(options.DataDirectory);
        Address = options.Redis!.ToString();
        IsOwn = store is { Store: StoreKind.Redis } && StoreSpelling.IsSame(store.Address, Address);
        // A Redis's former settings must never be put back into another one.
        string address = Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes(options.Redis!.ToString())))[..16];
        _undoFile = Path.Combine(options.DataDirectory, IsOwn ? "restore-undo.json" : $"restore-undo-{address}.json");
        ProbeResult probe = await RedisProbe.InspectAsync(_endpoint, cancellation: stop).ConfigureAwait(false);
        if (probe.Facts is not { } facts) { return ProxyExit.Failed(probe.Message, probe.Problem.Remedy()); }
        RunId = facts.RunId;
        bool isKnown = known.Contains(facts.ReplicationId) || known.Contains(facts.SecondReplicationId);
        // A restore that was cut short leaves a replica without a master.
        bool isLeftBehind = probe.Problem == RedisProblem.NotMaster && (File.Exists(_undoFile) || isKnown);
        if (!probe.IsUsable && !isLeftBehind) { return ProxyExit.Failed(probe.Message, probe.Problem.Remedy()); }
        if (facts.KeyCount > 0 && !isKnown && !isLeftBehind && options.Seed != SeedSource.FromLog)
        {
            return ProxyExit.Failed(
                $"Redis at {_endpoint} holds {facts.KeyCount} keys of unknown origin; nothing was changed",
                "give an empty Redis with --redis, or --redis-server to start one; or --seed from-log to have the data of this "
                    + "Redis replaced");
        }
        if (facts.IsMaster && known.Contains(facts.ReplicationId) && facts.Offset > logEnd)
        {
            log.Warn($"Redis at {_endpoint} is {facts.Offset - logEnd} bytes ahead of the version log: its last "
                + "writes, which were not durable, are dropped");
        }
        return null;
    }

    /// <summary>Restores, and says what was done.</summary>
    public async Task<ProxyExit> RestoreAsync(RestorePoint point, CancellationToken stop)
    {
        var clock = Stopwatch.StartNew();
        await using RedisConnection control = await RedisConnection.ConnectAsync(_endpoint, cancellation: stop).ConfigureAwait(false);
        var plan = new FeedPlan
        {
            BaseFile = point.BaseFile,
            BaseOffset = point.BaseOffset,
            TargetOffset = point.TargetOffset,
            History = point.History,
            ReplicationId = point.ReplicationId ?? FeedPlan.NewReplicationId(),
        };
        var how = new Redis.Feeding.RestoreOptions
        {
            UndoFile = _undoFile,
            Feed = FeedAddress.For(_endpoint),
            Progress = new Progress(log, point),
        };
        RestoreResult result = await RedisRestore.RunAsync(control, plan, how, stop).ConfigureAwait(false);
        if (result is RestoreResult.Failed failed)
        {
            return ProxyExit.Failed($"Redis at {_endpoint} could not be restored: {failed.Message}", failed.Problem.Remedy());
        }
        ProbeResult probe = await RedisProbe.InspectAsync(control, stop).ConfigureAwait(false);
        log.Info(string.Create(CultureInfo.InvariantCulture,
            $"Redis at {_endpoint} holds version {point.Point.Version} of world-line {point.Point.WorldLine}: {probe.Facts?.KeyCount} "
                + $"keys, restored in {clock.ElapsedMilliseconds} ms"));
        if (_supervisor is { } server)
        {
            log.Info($"its redis-server, process {server.ProcessId}, is left running: redis-cli -s {server.SocketPath} (shutdown "
                + "nosave ends it)");
        }
        return ProxyExit.Done;
    }

    public async ValueTask DisposeAsync()
    {
        if (_supervisor is not null) { await _supervisor.DisposeAsync().ConfigureAwait(false); }
    }

    private async Task<ProxyExit?> StartServerAsync(string program, CancellationToken stop)
    {
        // The shard's own server where it has one, so that serve adopts it; else one beside it.
        IsOwn = StoreRecord.Read(options.DataDirectory) is { Store: StoreKind.RedisServer };
        Address = IsOwn ? "" : null;
        var lines = new List<string>();
        if (options.RedisConfigFile is { } file) { lines.Add($"include \"{file}\""); }
        lines.AddRange(options.RedisDirectives);
        _undoFile = Path.Combine(options.DataDirectory, IsOwn ? "restore-undo.json" : "restore-undo-restored.json");
        _supervisor = new RedisSupervisor(new RedisSupervisorOptions
        {
            Directory = Path.Combine(options.DataDirectory, IsOwn ? "redis" : "restored"),
            Executable = program,
            BacklogBytes = SupervisedStore.BacklogBytes,
            ExtraLines = lines,
        });
        _endpoint = _supervisor.Endpoint;
        switch (await _supervisor.StartOrAdoptAsync(stop).ConfigureAwait(false))
        {
            case SupervisedStart.Failed failed:
                return ProxyExit.Failed(failed.Message);
            case SupervisedStart.Adopted adopted:
                log.Info($"redis-server adopted, process {adopted.ProcessId}");
                if (adopted.SettingsDiffer) { log.Warn("the running redis-server was started with other settings"); }
                break;
            case SupervisedStart.Started started:
                log.Info($"redis-server started, process {started.ProcessId}");
                break;
        }
        return null;
    }

    // A line when something begins, and one a second.
    private sealed class Progress(ILogger log, RestorePoint point) : IProgress<FeedProgress>
    {
        private readonly Stopwatch _since = Stopwatch.StartNew();

        public void Report(FeedProgress value)
        {
            if (_since.ElapsedMilliseconds < 1000) { return; }
            _since.Restart();
            string text = value.Phase switch
            {
                FeedPhase.Waiting => "waiting for Redis",
                FeedPhase.SendingBase =>
                    string.Create(CultureInfo.InvariantCulture, $"base: {value.BaseBytesSent} of {value.BaseBytes} bytes"),
                FeedPhase.Loading => "Redis loads the base",
                _ => string.Create(CultureInfo.InvariantCulture,
                    $"log: {value.OffsetSent - point.BaseOffset} of {point.TargetOffset - point.BaseOffset} bytes sent, "
                        + $"{Math.Max(0, value.OffsetAcknowledged - point.BaseOffset)} done"),
            };
            log.Info(text);
        }
    }
}
