// What the past of a shard is read with: a redis-server beside the shard's own (the lens), the indexes that its keys are looked up in, and a
// connection to the live store, which knows what users may do. It is opened by the first question, and closed a minute after the last one.
using Slogger.Core.Versions;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;
using Slogger.Redis.Supervision;

namespace Slogger.Proxy.Past;

/// <summary>Opens and closes the lens of a shard. One caller at a time, if nothing else is said.</summary>
internal sealed class PastLens
{
    private const string Folder = "past", IndexFile = "checkpoint.idx";

    // 256 MB of keys, and as much for the index of the commands between two checkpoints.
    private const string Memory = "256mb";
    private const int CommandsMax = 32 << 20;

    private static readonly string[] s_settings = [$"maxmemory {Memory}", "maxmemory-policy noeviction"];
    private static readonly RollbackLimits s_limits = new() { CommandsMax = 1_000_000 };
    private static readonly TimeSpan IdleMax = TimeSpan.FromMinutes(1);

    private readonly VersionLog _log;
    private readonly CheckpointStore _checkpoints;
    private readonly PastInstants _instants;
    private readonly KeyIndexes? _keys;
    private readonly RedisSupervisorOptions? _server;
    private RedisSupervisor? _supervisor;
    private ReadRights? _rights;
    private Lens? _lens;
    private PastBase? _base;
    private volatile bool _isCleared;           // of what a process before has left behind
    private long _lastUsed;
    private bool _isEnded;

    /// <summary>Opens nothing yet.</summary>
    public PastLens(ServeOptions options, VersionLog log, CheckpointStore checkpoints, PastInstants instants, KeyIndexes? keys)
    {
        (_log, _checkpoints, _instants, _keys) = (log, checkpoints, instants, keys);
        _server = options.RedisServerPath is null ? null : ScratchServer.In(Folder, options, s_settings);
    }

    /// <summary>The live store; null: it has no users, and all may read it.</summary>
    public required Func<RedisEndpoint?> Live { get; init; }

    /// <summary>Whether there is a program for it. Any thread.</summary>
    public bool HasServer => _server is not null;

    /// <summary>Whether the next question finds it open.</summary>
    public bool IsReady => _lens is not null && _base is not null;

    /// <summary>Whether there is something to be closed, or to be cleared. Any thread.</summary>
    public bool IsDue => !_isCleared || (IsOpen && IsIdle);

    private bool IsOpen => _supervisor is not null || _rights is not null;

    private bool IsIdle => Environment.TickCount64 - Volatile.Read(ref _lastUsed) >= IdleMax.TotalMilliseconds;

    /// <summary>Sees to it that there is a program. Any thread.</summary>
    /// <exception cref="PastException">There is none; the text says what to do.</exception>
    public void RequireServer()
    {
        if (_server is null) { throw PastAnswer.NoServer(); }
    }

    /// <summary>Who may read what.</summary>
    /// <exception cref="RedisException">The live store cannot be reached.</exception>
    public async Task<ReadRights> RightsAsync(CancellationToken stop)
    {
        ObjectDisposedException.ThrowIf(_isEnded, this);
        Touch();
        return _rights ??= await ReadRights.OpenAsync(Live(), stop).ConfigureAwait(false);
    }

    /// <summary>The lens, and what it is to show for the end of a version.</summary>
    /// <exception cref="PastException">The version is not kept, or there is no lens.</exception>
    /// <exception cref="RedisException">The lens cannot be reached.</exception>
    public async Task<(Lens Lens, PastState State)> AtAsync(VersionNumber version, CancellationToken stop)
    {
        RequireServer();
        Touch();
        // Its directory is the server's, which closes it to other users.
        Lens lens = await OpenAsync(_server!, stop).ConfigureAwait(false);
        PastPoint point = _instants.HoldExactly(version);
        if (_base is not { } known || !known.IsOf(_log, point))
        {
            _base?.Dispose();
            _base = null;
            _base = PastBase.Make(_log, _checkpoints, _keys, point, Path.Combine(_server!.Directory, IndexFile), CommandsMax, stop);
        }
        return (lens, _base.At(point.Target, _instants.TimeUsOf(point.End.Version) / 1000));
    }

    /// <summary>Closes it if it has not been used for a while; at the first call, ends what a process before has left behind.</summary>
    /// <exception cref="RedisException">It cannot be closed.</exception>
    public async Task KeepAsync()
    {
        if (!_isCleared && _supervisor is null)
        {
            if (_server is not null) { await ScratchServer.EndLeftAsync(_server, CancellationToken.None).ConfigureAwait(false); }
        }
        else if (IsOpen && IsIdle) { await CloseAsync().ConfigureAwait(false); }
        _isCleared = true;
    }

    /// <summary>Closes it for good.</summary>
    public Task EndAsync()
    {
        _isEnded = true;
        return CloseAsync();
    }

    private void Touch() => Volatile.Write(ref _lastUsed, Environment.TickCount64);

    private async Task<Lens> OpenAsync(RedisSupervisorOptions how, CancellationToken stop)
    {
        ObjectDisposedException.ThrowIf(_isEnded, this);
        if (_lens is { IsUsable: true } lens && _supervisor is { HasEnded: false }) { return lens; }
        bool isStuck = _lens is { IsUsable: false };
        await CloseLensAsync().ConfigureAwait(false);
        // It may be busy with what was given up, for ever.
        if (isStuck) { await CloseServerAsync().ConfigureAwait(false); }
        _supervisor ??= new RedisSupervisor(how);
        if (await _supervisor.StartOrAdoptAsync(stop).ConfigureAwait(false) is SupervisedStart.Failed failed)
        {
            throw new PastException($"the redis-server that shows the past does not start: {failed.Message}");
        }
        return _lens = await Lens.OpenAsync(_supervisor.Endpoint, s_limits, stop).ConfigureAwait(false);
    }

    private async Task CloseAsync()
    {
        await CloseLensAsync().ConfigureAwait(false);
        if (_rights is { } rights) { await rights.DisposeAsync().ConfigureAwait(false); }
        _rights = null;
        _base?.Dispose();
        _base = null;
        await CloseServerAsync().ConfigureAwait(false);
    }

    private async Task CloseLensAsync()
    {
        if (_lens is { } lens) { await lens.DisposeAsync().ConfigureAwait(false); }
        _lens = null;
    }

    private async Task CloseServerAsync()
    {
        if (_supervisor is not { } supervisor) { return; }
        _supervisor = null;
        await using (supervisor) { await ScratchServer.EndAsync(supervisor, _server!).ConfigureAwait(false); }
    }
}
