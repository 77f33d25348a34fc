// A shard with --commit log. A version ends at a marker: an SPUBLISH that is read again in the replication stream. It is durable
// when the version log has the stream up to there, and committed when the cut is recorded. LogShard.Stream follows the
// stream to the disk, LogShard.Recovery restores the store, Checkpointer keeps restores short, LogShard.Unlogged looks
// after changes that the stream does not carry, LogShard.Rollback takes back what lies above a branch.
//
// The log is appended to by the replication link's thread (bytes) and under the machine's lock (boundaries), synced by a
// thread of its own, changed by recoveries. _logLock serialises whoever appends, begins and trims; it may be taken while
// _machineLock is held, never the other way round.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard : RedisShard, IStreamSink
{
    private const long BusyPollMicroseconds = 250;
    // What a failing machine may cost while nobody waits for a commit.
    private const long SyncIntervalMicroseconds = 5_000;
    private readonly MarkerCodec _markers;
    private readonly byte[] _channelBytes;
    private readonly SessionMarks _marks;
    private CheckpointStore _checkpoints = null!;
    private Checkpointer _checkpointer = null!;

    private readonly IFileLayer _files = SystemFileLayer.Instance;

    public LogShard(ServeOptions options, ILogger report, IRedisStore store, Func<RedisEndpoint, IStoreConnector> connectors)
        : base(options, report, store, connectors)
    {
        _markers = new MarkerCodec(MarkerSecret.LoadOrCreate(options.DataDirectory));
        _marks = new SessionMarks(_markers);
        _channelBytes = System.Text.Encoding.ASCII.GetBytes(_markers.Channel);
    }

    public override string MarkerChannel => _markers.Channel;

    protected override string ModeName => "log";

    protected override string KeptName => "the version log";

    protected override TimeSpan StopLimit => TimeSpan.FromSeconds(10);

    protected override ShardOptions MachineOptions => new()
    {
        Shard = _options.Shard,
        RecordIntervalUs = RecorderOptions.IdleUsDefault,
        SyncIntervalUs = SyncIntervalMicroseconds,
        HasPeers = _seat.HasPeers,
    };

    protected override long? MicrosecondsHeld(ShardMachine machine) =>
        _unlogged != 0 ? IdleMicroseconds : machine.MarkerInFlight ? BusyPollMicroseconds : null;

    protected override bool MayClose => _unlogged == 0;

    protected override MarkerToSend ToSend(in Marker marker)
    {
        Span<byte> payload = stackalloc byte[Marker.PayloadBytesMax];
        int length = marker.Format(payload);
        string text = System.Text.Encoding.ASCII.GetString(payload[..length]);
        byte[] command = System.Text.Encoding.ASCII.GetBytes(
            $"*3\r\n$8\r\nSPUBLISH\r\n${_markers.Channel.Length}\r\n{_markers.Channel}\r\n${text.Length}\r\n{text}\r\n");
        return new MarkerToSend(command, marker.Next.Number);
    }

    public override void MarkerAnswered(bool counts)
    {
        lock (_machineLock)
        {
            base.MarkerAnswered(counts);
            if (_machine is { MarkerInFlight: true }) { _link?.Hurry(); }
        }
    }

    protected override HybridTimestamp? OpenKept()
    {
        _log = VersionLog.Open(new VersionLogOptions
        {
            Directory = Path.Combine(_options.DataDirectory, "log"),
            Shard = _options.Shard,
            Epoch = _seat.Epoch,
            SegmentBytes = _options.LogSegmentBytes,
            KeepsSpare = IsFollowing,
            TailBytes = Ships ? ShippedTailBytes : Intake is not null ? FollowedTailBytes : 0,
        });
        _syncer = new(_log, OnSynced, OnLogFailure);
        RequireOneVersion();
        OpenWays();
        _checkpoints = CheckpointStore.Open(Path.Combine(_options.DataDirectory, "checkpoints"));
        _checkpointer = new(_options, _report, _log, _logLock, _checkpoints, _checkpointing)
        {
            Redis = () => _fence.Endpoint,
            UndoFile = _attachUndoFile,
            RecordedCut = () => RecordedCut,
            Served = () => IsFollowing ? null : new WorldLine(WorldLine),
            NeededFrom = () => ShippedFrom,
        };
        _indexes = new RollbackIndexes(_log, _checkpoints, () => RecordedCut.Version, _report, _options.Shard.ToString());
        return _log.LastBoundary?.Time;
    }

    protected override void CloseKept() => _log.Dispose();

    protected override async Task MaintainAsync(CancellationToken stop)
    {
        NoteIdentity();
        await base.MaintainAsync(stop).ConfigureAwait(false);
        await KeepUnloggedAsync(stop).ConfigureAwait(false);
        await MaintainSeedAsync(stop).ConfigureAwait(false);
        if (IsOpen && _checkpointer.IsDue) { await _checkpointer.TakeAsync(stop).ConfigureAwait(false); }
    }

    protected override Task BeforeEndAsync() => _checkpointer.TakeAtEndAsync();

    protected override IEnumerable<(string Name, long Value)> KeptStatus()
    {
        Checkpoint? newest = _checkpointer.Newest;
        long stride;
        lock (_machineLock) { stride = _machine?.Stride ?? 1; }
        yield return ("stride", stride);
        yield return ("log_bytes", _log.SizeBytes);
        yield return ("log_offset", _log.EndOffset);
        yield return ("log_tail_bytes", _checkpointer.TailBytes);
        yield return ("checkpoint_last_unix", newest?.CreatedAt.ToUnixTimeSeconds() ?? 0);
        yield return ("checkpoint_last_bytes", newest?.Bytes ?? 0);
        foreach ((string, long) line in RollbackStatus()) { yield return line; }
    }

    public override void Dispose()
    {
        base.Dispose();
        _syncer?.Dispose();
    }
}
