// Reads the past of a shard with a version log. An instant is the end of a version that is committed; the checkpoint below it and the log
// up to it have all values, and a redis-server beside the shard's own (the lens) shows those of the keys that are asked for. The live store
// is asked for nothing but who may read what.
//
// Nothing is made ready before somebody asks. What the last question needed is kept for a minute: the lens with its keys, the index of the
// checkpoint, and that of the commands on top of it.
using System.Globalization;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;
using Slogger.Redis.Supervision;

namespace Slogger.Proxy.Past;

/// <summary>Reads the past. Any thread; one question after the other.</summary>
internal sealed class ShardPast : IPastReads
{
    private const string Folder = "past", IndexFile = "checkpoint.idx";

    // 256 MB of keys at a lens, and as much for the index of the commands between two checkpoints.
    private const string LensMemory = "256mb";
    private const int CommandsMax = 32 << 20;

    private static readonly string[] s_settings = [$"maxmemory {LensMemory}", "maxmemory-policy noeviction"];

    private static readonly RollbackLimits s_limits = new() { CommandsMax = 1_000_000 };
    private static readonly TimeSpan IdleMax = TimeSpan.FromMinutes(1), CommitMax = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan CommitPause = TimeSpan.FromMilliseconds(2);

    private readonly VersionLog _log;
    private readonly CheckpointStore _checkpoints;
    private readonly RedisSupervisorOptions? _server;
    private readonly PastScan _scan;
    private readonly SemaphoreSlim _turn = new(1, 1);
    private readonly CancellationTokenSource _ending = new();
    private RedisSupervisor? _supervisor;
    private ReadRights? _rights;
    private Lens? _lens;
    private PastBase? _base;
    private Task _keeping = Task.CompletedTask;
    private volatile bool _isCleared;           // of what a process before has left behind
    private long _lastUsed;
    private long _neededFrom = long.MaxValue;
    private bool _isEnded;

    public ShardPast(ServeOptions options, VersionLog log, CheckpointStore checkpoints)
    {
        (_log, _checkpoints, _scan) = (log, checkpoints, new PastScan(log));
        _server = options.RedisServerPath is null ? null : ScratchServer.In(Folder, options, s_settings);
    }

    /// <summary>The recorded cut.</summary>
    public required Func<WorldPoint> Committed { get; init; }

    /// <summary>The cluster's clock grid.</summary>
    public required Func<VersionGrid> Grid { get; init; }

    /// <summary>The shard's clock, in microseconds since the Unix epoch.</summary>
    public required Func<long> NowUs { get; init; }

    /// <summary>Whether keys may have been another shard's before: then its log has them, and not this one's.</summary>
    public required Func<bool> HaveSlotsMoved { get; init; }

    /// <summary>The live store, which knows who may read what.</summary>
    public required Func<RedisEndpoint> Live { get; init; }

    /// <summary>The offset from which the log is needed here; <see cref="long.MaxValue"/>: nobody looks.</summary>
    public long NeededFrom => Math.Min(Volatile.Read(ref _neededFrom), _scan.NeededFrom);

    /// <inheritdoc />
    public Task<byte[]> FindAsync(Instant at) => AnswerAsync(async () =>
    {
        (Boundary end, _) = Find(await CommittedAsync(at).ConfigureAwait(false));
        return RespText.Integers(end.WorldLine.Number, end.Version.Number, TimeUsOf(end));
    });

    /// <inheritdoc />
    public Task<byte[]> ReadAsync(PastRead read) => AnswerAsync(async () =>
    {
        if (_server is null)
        {
            throw new PastException("the past is shown by a redis-server beside the shard's own, and this process knows no program for it, "
                + "since its Redis is run by others (--redis): use slogger restore with a copy of the data directory");
        }
        VersionNumber version = await CommittedAsync(read.At).ConfigureAwait(false);
        await _turn.WaitAsync(_ending.Token).ConfigureAwait(false);
        try
        {
            // As the live store would answer the same command.
            ReadRights rights = await RightsAsync().ConfigureAwait(false);
            if (await rights.RefusalAsync(read.User, read.Words, _ending.Token).ConfigureAwait(false) is { } why)
            {
                return PastReplies.Error(why);
            }
            // Its directory is the server's, which closes it to other users.
            Lens lens = await LensAsync(_server).ConfigureAwait(false);
            PastState state = StateAt(version, _server.Directory);
            return await lens.ReadAsync(state, read.Database, read.Protocol, read.Words, read.Keys, _ending.Token).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    });

    /// <inheritdoc />
    public Task<byte[]> HistoryAsync(PastHistory asked) => ScanAsync(asked.From, asked.To, (rights, from, to) =>
        _scan.HistoryAsync(asked, rights, from, to, end => TimeUsOf(end), _ending.Token));

    /// <inheritdoc />
    public Task<byte[]> ChangedAsync(PastChanges asked) => ScanAsync(asked.From, asked.To, (rights, from, to) =>
        _scan.ChangedAsync(asked, rights, from, to, _ending.Token));

    /// <summary>Ends what has not been used for a while; at the first call, what a process before has left behind. That is not waited for.
    /// The control task.</summary>
    public void Keep()
    {
        bool isDue = !_isCleared || (IsOpen && IsIdle);
        if (isDue && _keeping.IsCompleted) { _keeping = Task.Run(KeepAsync); }
    }

    private bool IsOpen => _supervisor is not null || _rights is not null;

    private bool IsIdle => Environment.TickCount64 - Volatile.Read(ref _lastUsed) >= IdleMax.TotalMilliseconds;

    private async Task KeepAsync()
    {
        await _turn.WaitAsync().ConfigureAwait(false);
        try
        {
            if (!_isCleared && _supervisor is null)
            {
                if (_server is not null) { await ScratchServer.EndLeftAsync(_server, CancellationToken.None).ConfigureAwait(false); }
            }
            else if (IsOpen && IsIdle) { await CloseAsync().ConfigureAwait(false); }
            _isCleared = true;
        }
        catch (Exception e) when (e is RedisException or IOException or UnauthorizedAccessException)
        {
            // Whoever asks next finds it, and begins anew.
        }
        finally
        {
            _turn.Release();
        }
    }

    /// <summary>Ends all of it.</summary>
    public async Task EndAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        await _turn.WaitAsync().ConfigureAwait(false);
        _isEnded = true;
        await CloseAsync().ConfigureAwait(false);
        _turn.Release();
    }

    // ---- Which instant ----

    private async Task<VersionNumber> CommittedAsync(Instant at)
    {
        if (HaveSlotsMoved())
        {
            throw new PastException("slots have moved in this cluster, and which shard had a key then is not recorded: the past cannot be "
                + "read by keys");
        }
        long nowUs = NowUs();
        VersionNumber wanted = at.By switch
        {
            InstantBy.Version => new(at.Number),
            InstantBy.Time => ClosedAt(UsOf(at.Number), nowUs),
            // What is acknowledged now is in the version that is open.
            _ when at.Number == 0 => Grid().VersionAt(nowUs),
            _ => ClosedAt(nowUs - UsOf(at.Number), nowUs),
        };
        bool isNow = at is { By: InstantBy.Ago, Number: 0 };
        long waitsUntil = Environment.TickCount64 + (long)CommitMax.TotalMilliseconds;
        while (Committed().Version < wanted || (isNow && !IsClosed(ref wanted)))
        {
            if (Environment.TickCount64 > waitsUntil)
            {
                throw new PastException(string.Create(CultureInfo.InvariantCulture,
                    $"version {wanted} is not committed: the newest that is, is {Committed().Version}, of {TimeOf(Committed().Version)}"));
            }
            await Task.Delay(CommitPause, _ending.Token).ConfigureAwait(false);
        }
        return wanted;
    }

    // Whether a version was closed by itself. If it was closed with later ones, what was done in it is in the last of these: that one is
    // wanted instead.
    private bool IsClosed(ref VersionNumber version)
    {
        if (_log.BoundaryAtOrBelow(version)?.Version == version) { return true; }
        foreach (Boundary next in _log.BoundariesFrom(version))
        {
            version = next.Version;
            return Committed().Version >= version;
        }
        return false;
    }

    // Where the version ends, or the last before it that was closed by itself; and the checkpoint that it can be made from.
    private (Boundary End, Checkpoint Base) Find(VersionNumber version) =>
        _log.BoundaryAtOrBelow(version) is { } end && _checkpoints.Latest(_log, end.Offset) is { } checkpoint ? (end, checkpoint)
            : throw new PastException($"version {version} is not kept: {WhatIsKept()}");

    private VersionNumber ClosedAt(long timeUs, long nowUs)
    {
        VersionGrid grid = Grid();
        if (timeUs > nowUs)
        {
            throw new PastException($"{TextOf(timeUs)} is in the future: by the cluster's clock it is {TextOf(nowUs)}");
        }
        VersionNumber closed = grid.VersionAt(timeUs).Previous;
        return closed >= grid.Stretches[0].FirstVersion ? closed
            : throw new PastException($"{TextOf(timeUs)} is before the cluster began: that was {TextOf(grid.Stretches[0].StartUs)}");
    }

    private string WhatIsKept() => Oldest() is { } oldest
        ? string.Create(CultureInfo.InvariantCulture, $"the log of this shard goes back to version {oldest.Version}, of "
            + $"{TimeOf(oldest.Version)} (--log-budget decides how far)")
        : _checkpoints.All.Count == 0 || _log.IsEmpty ? "there is no checkpoint yet that it could be made from" : "nothing is kept yet";

    // The first instant that can be shown, at or above an offset.
    private Boundary? Oldest(long offset = 0)
    {
        if (_checkpoints.All is not [var oldest, ..] || _log.IsEmpty) { return null; }
        foreach (Boundary boundary in _log.Boundaries)
        {
            if (boundary.Offset >= Math.Max(offset, oldest.Offset)) { return boundary; }
        }
        return null;
    }

    // From where on all commands are kept, without a gap: the end of a version, or the beginning of the history.
    private Boundary Beginning()
    {
        Boundary first = Oldest(_log.ContiguousFrom(0)) ?? throw new PastException(WhatIsKept());
        StreamOrigin origin = _log.Origin;
        return origin.Offset < _checkpoints.All[0].Offset || _log.HasGap(origin.Offset, first.Offset) ? first
            : new Boundary(first.WorldLine, first.Version.Previous, origin.Offset, origin.Database, default);
    }

    // All shards end a version at the same time of the grid.
    private long TimeUsOf(in Boundary end) => Grid().StartOf(end.Version.Next);

    private string TimeOf(VersionNumber version) => TextOf(Grid().StartOf(version.Next));

    private static string TextOf(long timeUs) =>
        DateTimeOffset.FromUnixTimeMilliseconds(timeUs / 1000).UtcDateTime.ToString(
            "yyyy-MM-ddTHH:mm:ss.fffZ", CultureInfo.InvariantCulture);

    private static long UsOf(long milliseconds) => milliseconds <= long.MaxValue / 2000 ? milliseconds * 1000
        : throw new PastException("a time is in milliseconds since 1970");

    // ---- What is read ----

    // Behind one version's end, up to another's.
    private Task<byte[]> ScanAsync(long? from, long? to, Func<ReadRights, Boundary, Boundary, Task<byte[]>> scan) => AnswerAsync(async () =>
    {
        Instant until = to is { } version ? new(InstantBy.Version, version) : new(InstantBy.Ago, 0);
        VersionNumber last = await CommittedAsync(until).ConfigureAwait(false);
        await _turn.WaitAsync(_ending.Token).ConfigureAwait(false);
        try
        {
            ReadRights rights = await RightsAsync().ConfigureAwait(false);
            Boundary first = Beginning(), end = Find(last).End;
            if (from is { } behind && behind != first.Version.Number) { first = Find(new(behind)).End; }
            if (first.Version > end.Version) { throw new PastException($"version {first.Version} is behind version {end.Version}"); }
            if (_log.HasGap(first.Offset, end.Offset))
            {
                throw new PastException($"between versions {first.Version} and {end.Version} the log of this shard has a gap");
            }
            return await scan(rights, first, end).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    });

    private async Task<ReadRights> RightsAsync()
    {
        ObjectDisposedException.ThrowIf(_isEnded, this);
        Volatile.Write(ref _lastUsed, Environment.TickCount64);
        return _rights ??= await ReadRights.OpenAsync(Live(), _ending.Token).ConfigureAwait(false);
    }

    private PastState StateAt(VersionNumber version, string directory)
    {
        Volatile.Write(ref _lastUsed, Environment.TickCount64);
        (Boundary end, Checkpoint checkpoint) = Find(version);
        Volatile.Write(ref _neededFrom, checkpoint.Offset);
        if (_base is not { } known || !known.IsOf(_log, checkpoint))
        {
            _base?.Dispose();
            _base = null;
            _base = PastBase.Make(_log, _checkpoints, checkpoint, Path.Combine(directory, IndexFile), CommandsMax, _ending.Token);
        }
        return _base.At(end.Offset, TimeUsOf(end) / 1000);
    }

    private async Task<Lens> LensAsync(RedisSupervisorOptions how)
    {
        ObjectDisposedException.ThrowIf(_isEnded, this);
        if (_lens is { IsUsable: true } lens && _supervisor is { HasEnded: false }) { return lens; }
        await CloseLensAsync().ConfigureAwait(false);
        _supervisor ??= new RedisSupervisor(how);
        if (await _supervisor.StartOrAdoptAsync(_ending.Token).ConfigureAwait(false) is SupervisedStart.Failed failed)
        {
            throw new PastException($"the redis-server that shows the past does not start: {failed.Message}");
        }
        return _lens = await Lens.OpenAsync(_supervisor.Endpoint, s_limits, _ending.Token).ConfigureAwait(false);
    }

    private async Task CloseLensAsync()
    {
        if (_lens is { } lens) { await lens.DisposeAsync().ConfigureAwait(false); }
        _lens = null;
    }

    private async Task CloseAsync()
    {
        await CloseLensAsync().ConfigureAwait(false);
        if (_rights is { } rights) { await rights.DisposeAsync().ConfigureAwait(false); }
        _rights = null;
        _base?.Dispose();
        _base = null;
        Volatile.Write(ref _neededFrom, long.MaxValue);
        if (_supervisor is not { } supervisor) { return; }
        _supervisor = null;
        await using (supervisor) { await ScratchServer.EndAsync(supervisor, _server!).ConfigureAwait(false); }
    }

    // ---- Answers ----

    private static async Task<byte[]> AnswerAsync(Func<Task<byte[]>> answer)
    {
        try
        {
            return await answer().ConfigureAwait(false);
        }
        catch (LogHistoryChangedException)
        {
            return PastReplies.Error("ERR SLOGGER the history has just changed, by a recovery or since it was trimmed: try again");
        }
        catch (Exception e) when (e is OperationCanceledException or ObjectDisposedException)
        {
            return PastReplies.Error("ERR SLOGGER the shard is about to end");
        }
        catch (Exception e) when (e is PastException or RedisException or LogException or IOException or UnauthorizedAccessException
            or ArgumentOutOfRangeException)
        {
            return PastReplies.Error($"ERR SLOGGER {e.Message}");
        }
    }
}
