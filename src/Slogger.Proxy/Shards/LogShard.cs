// A shard with --commit log. A version ends at a marker: an SPUBLISH that is read again in the replication stream. It is durable
// when the version log has the stream up to there, and committed when the cut is recorded. Here is the way of a version to the disk:
// stream, log, sync. LogShard.Recovery restores the store, LogShard.Rollback takes back what lies above a branch, LogShard.Site is what
// another site takes. What has a state of its own is a part, beside it: LogSyncer; Checkpointer keeps restores short; UnloggedChanges
// looks after changes that the stream does not carry; BackupShipping ships the log; RollbackIndexes; SessionMarks;
// ShardKeys; ShardPast.
//
// The log is appended to by the replication link's thread (bytes) and under the machine's lock (boundaries), synced by a
// thread of its own, changed by recoveries. _logLock serialises whoever appends, begins and trims; it may be taken while
// Versions.Lock is held, never the other way round.
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Past;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard : RedisShard, IStreamSink
{
    private const long BusyPollMicroseconds = 250;
    // What a failing machine may cost while nobody waits for a commit.
    private const long SyncIntervalMicroseconds = 5_000;
    private readonly Lock _logLock = new();
    private readonly MarkerCodec _markers;
    private readonly byte[] _channelBytes;
    private readonly SessionMarks _marks;
    private readonly FollowedGrid _followedGrid;
    private readonly ShardKeys _keys;
    private VersionLog _log = null!;
    private LogSyncer _syncer = null!;
    private ReplicationLink? _link;
    private CheckpointStore _checkpoints = null!;
    private Checkpointer _checkpointer = null!;
    private RedisDumps _dumps = null!;
    private UnloggedChanges _unlogged = null!;
    private PastInstants? _instants;
    private PastReducer? _reducer;
    private KeyIndexes? _keyIndexes;
    private ShardPast? _past;
    private ShardReset? _reset;
    private readonly IFileLayer _files = SystemFileLayer.Instance;

    public LogShard(ServeOptions options, ILogger report, IRedisStore store, Func<RedisEndpoint, IStoreConnector> connectors)
        : base(options, report, store, connectors)
    {
        _markers = new MarkerCodec(MarkerSecret.LoadOrCreate(options.DataDirectory));
        _marks = new SessionMarks(_markers);
        _followedGrid = new(options.DataDirectory);
        _keys = new ShardKeys(Access.Post, () => _link?.Hurry());
        _channelBytes = System.Text.Encoding.ASCII.GetBytes(_markers.Channel);
    }

    public override string MarkerChannel => _markers.Channel;

    public override IKeyVersions Keys => _keys;

    public override IPastReads? Past => _past;

    internal override string ModeName => "log";

    internal override string KeptName => "the version log";

    internal override TimeSpan StopLimit => TimeSpan.FromSeconds(10);

    internal override ShardOptions MachineOptions => new()
    {
        Shard = _options.Shard,
        RecordIntervalUs = RecorderOptions.IdleUsDefault,
        SyncIntervalUs = SyncIntervalMicroseconds,
        HasPeers = Seat.HasPeers,
        IsReplicated = Cohort is not null,
    };

    internal override long? MicrosecondsHeld(ShardMachine machine) =>
        _unlogged.ArePending ? ShardVersions.IdleMicroseconds : machine.MarkerInFlight ? BusyPollMicroseconds : null;

    internal override bool MayClose => !_unlogged.ArePending;

    internal override MarkerToSend ToSend(in Marker marker)
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
        lock (Versions.Lock)
        {
            base.MarkerAnswered(counts);
            if (Versions.Machine is { MarkerInFlight: true }) { _link?.Hurry(); }
        }
    }

    internal override HybridTimestamp? OpenKept()
    {
        _log = VersionLog.Open(new VersionLogOptions
        {
            Directory = Path.Combine(_options.DataDirectory, "log"),
            MoreDirectories = _options.LogDirectories,
            Shard = _options.Shard,
            // A node's log is fenced by its ballot.
            Epoch = Cohort is null ? Seat.Epoch : null,
            SegmentBytes = _options.LogSegmentBytes,
            KeepsSpare = IsFollowing,
            TailBytes = Cohort is not null ? CohortLead.TailBytes : Ships ? BackupShipping.TailBytes(_options.Site)
                : Intake is not null ? FollowedTailBytes : 0,
        });
        _syncer = new(_log, OnSynced, OnLogFailure);
        RequireOneVersion();
        _checkpoints = CheckpointStore.Open(Path.Combine(_options.DataDirectory, "checkpoints"));
        foreach (string damage in _checkpoints.Damaged)
        {
            _report.Warn($"shard {_options.Shard}: a part of the past, and what lies before it, cannot be read: {damage}");
        }
        _dumps = new RedisDumps(_checkpoints, _checkpointing, () => _fence.Endpoint, _attachUndoFile);
        OpenShipping(_dumps);
        Lock keeping = new();
        _checkpointer = new(_options, _report, _log, _logLock, _checkpoints, _dumps)
        {
            Keeping = keeping,
            RecordedCut = () => RecordedCut,
            Served = () => IsFollowing ? null : new WorldLine(WorldLine),
            NeededFrom = () => Math.Min(IsFollowing || _shipping is not { } shipping ? long.MaxValue : shipping.NeededFrom,
                _lead?.NeededFrom ?? long.MaxValue),
            Promised = () => _instants?.Promised,
            PromisedDetail = () => _instants?.PromisedDetail,
            HeldFrom = () => Math.Min(_instants?.HeldFrom ?? long.MaxValue, _past?.HeldFrom ?? long.MaxValue),
        };
        _instants = new(_log, _checkpoints, _options)
        {
            Committed = () => RecordedCut,
            Grid = () => PastGrid,
            Follows = () => IsFollowing,
            NowUs = () => Now().Microseconds,
            Await = AwaitCommitOf,
            Owners = new(_options.Shard, () => Moves.Watch, () => Seat.Partitions),
            Keeping = keeping,
        };
        _reset = new(this, this, _report);
        ResetJob.Clear(this);
        if (_options.Retention > TimeSpan.Zero)
        {
            _keyIndexes = new(_log, _report, $"shard {_options.Shard}")
            {
                Known = (in SealedSegment segment, out KeyIndexMaker? taken) => _indexes.TryGive(segment, out taken),
            };
        }
        _past = new(_options, _log, _checkpoints, _instants, _keyIndexes)
        {
            Live = () => _fence.Endpoint,
            Reset = _reset,
            LineOf = Recovery.LineOf,
            TouchedElsewhere = (other, since, at, stop) => new PastPeers(Seat, Moves.Watch!).TouchedAsync(other, since, at, stop),
        };
        if (_options.RetentionDetail > TimeSpan.Zero)
        {
            _reducer = new(_log, _checkpoints, () => _instants.VersionsOfStep, _report, $"shard {_options.Shard}");
        }
        _unlogged = new(Path.Combine(_options.DataDirectory, "unlogged-change"), _files, Versions.Lock, _checkpointer, _dumps);
        _indexes = new RollbackIndexes(_log, _checkpoints, () => RecordedCut.Version, _report, _options.Shard.ToString(),
            keepsOlder: _options.Retention > TimeSpan.Zero);
        return _log.LastBoundary?.Time;
    }

    internal override void CloseKept() => _log.Dispose();

    internal override async Task MaintainAsync(CancellationToken stop)
    {
        // Clients of a new leader wait for what is written to its log. If the process ends before, another node leads.
        if (_lead is null || _log.IsNextPrepared) { NoteIdentity(); }
        _checkpointer.CarryForward();
        await base.MaintainAsync(stop).ConfigureAwait(false);
        KeepPast();
        _reset?.Keep();
        // What follows another site is that one's to reduce.
        if (!IsFollowing) { _reducer?.Keep(_checkpointer.KeepDetail); }
        if (IsOpen) { await _unlogged.KeepAsync(Access.Post, stop).ConfigureAwait(false); }
        if (_isShippingDue) { BeginShipping(); }
        if (_shipping is { } shipping)
        {
            shipping.ReportSilence();
            await shipping.KeepSeedingAsync(stop).ConfigureAwait(false);
        }
        // One is taken of the stream that the log names; of what a reset has written in part it would be of no use, and clients wait.
        if (IsOpen && _owedIdentity is null && !Reset.IsHeld && _checkpointer.IsDue)
        {
            await _checkpointer.TakeAsync(stop).ConfigureAwait(false);
        }
    }

    private void KeepPast()
    {
        _instants?.Keep();
        _past?.Keep();
        _keyIndexes?.Keep();
    }

    internal override Task BeforeEndAsync() => _checkpointer.TakeAtEndAsync();

    internal override IEnumerable<(string Name, long Value)> KeptStatus()
    {
        Checkpoint? newest = _checkpointer.Newest;
        long stride;
        lock (Versions.Lock) { stride = Versions.Machine?.Stride ?? 1; }
        yield return ("stride", stride);
        yield return ("log_bytes", _log.SizeBytes);
        yield return ("log_offset", _log.EndOffset);
        yield return ("log_tail_bytes", _checkpointer.TailBytes);
        yield return ("checkpoint_last_unix", newest?.CreatedAt.ToUnixTimeSeconds() ?? 0);
        yield return ("checkpoint_last_bytes", newest?.Bytes ?? 0);
        foreach ((string, long) line in (_instants?.Status() ?? []).Concat(RollbackStatus())) { yield return line; }
    }

    // ---- The replication link's thread ----

    void IStreamSink.OnBytes(ReadOnlySpan<byte> bytes, long startOffset)
    {
        // After a failure nothing more: a later success would leave a hole.
        if (HasFailed) { return; }
        try
        {
            lock (_logLock) { _log.Append(bytes); }
        }
        catch (LogIOException e)
        {
            OnLogFailure(e);
            return;
        }
        _shipping?.Appended(startOffset + bytes.Length);
        _keys.OnBytes(bytes, startOffset, _link!.CommandEnd, _link.Database);
        Moves.OnBytes(bytes, endsCommand: startOffset + bytes.Length <= _link.CommandEnd);
        // Keep-alives and markers are in here too; claiming too much costs a marker, at most ten a second on an idle shard.
        if (!IsOwnTraffic(bytes)) { Versions.MarkChanged(); }
    }

    internal override Task EndResetAsync() => _reset?.OnStoreLostAsync() ?? Task.CompletedTask;

    private bool IsOwnTraffic(ReadOnlySpan<byte> bytes)
    {
        // A chunk that is one marker or one PING only.
        return bytes.Length <= 200 && (bytes.IndexOf(_channelBytes) >= 0
            || bytes.StartsWith("*1\r\n$4\r\nPING\r\n"u8) || bytes.StartsWith("*1\r\n$4\r\nping\r\n"u8));
    }

    void IStreamSink.OnMarker(in StreamMarker marker)
    {
        MarkerPayload p = marker.Payload;
        _marks.OnBoundary(p.Closed.Number);
        lock (Versions.Lock)
        {
            Versions.Machine?.MarkerRead(new Marker(p.WorldLine, p.Closed, p.NextOpen, p.Time), marker.OffsetAfter, marker.Database,
                Versions.Effects);
            Versions.Machine?.StreamRead(marker.OffsetAfter);
            Versions.Perform();
        }
    }

    void IStreamSink.OnSessionMark(ReadOnlySpan<byte> payload) => _marks.OnMark(payload);

    internal override (SequenceNumber Last, long Version)? LastDone(SessionId session) => _marks.Find(session);

    void IStreamSink.OnPublish(ReadOnlySpan<byte> command) => Moves.OnPublished(command);

    void IStreamSink.OnKeepalive(long offset)
    {
        lock (Versions.Lock) { Versions.Machine?.StreamRead(offset); }
    }

    void IStreamSink.OnClosed(LinkClosed reason)
    {
        Versions.Detached();
        _keys.OnEnded();
        Moves.OnStreamEnded();
        // What the shard itself has ended says nothing of the store.
        if (reason.Problem != RedisProblem.Cancelled) { Lifetime.Suspect($"the replication link ended: {reason.Message}"); }
    }

    internal override async Task StreamReadAsync(CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(
            _fence.Endpoint, cancellation: stop).ConfigureAwait(false);
        long until = (await control.RoleAsync(stop).ConfigureAwait(false)).Offset;
        while (_link is { } link && link.Offset < until)
        {
            if (link.Completion.IsCompleted) { throw new RedisException(RedisProblem.Closed, "The replication stream was interrupted."); }
            link.Hurry();
            await Task.Delay(1, stop).ConfigureAwait(false);
        }
    }

    // ---- Under the machine's lock ----

    internal override void Append(in ShardEffect effect)
    {
        if (HasFailed) { return; }
        try
        {
            lock (_logLock)
            {
                if (effect.Kind == ShardEffectKind.AppendBoundary) { _log.AppendBoundary(effect.Boundary); }
                else { _log.AppendEmptyRun(effect.Boundary.Version, effect.Boundary.Time); }
            }
            // Empty versions have time.
            if (effect.Kind == ShardEffectKind.AppendBoundary) { _lead?.Wake(); }
        }
        catch (LogIOException e)
        {
            // The version is never durable, so never committed.
            OnLogFailure(e);
        }
    }

    internal override void RequestSync() => _syncer.Request();

    // ---- Changes past the log: the front end's loop ----

    /// <inheritdoc />
    public override void BeforeUnloggedChange() => _unlogged.Begin();

    /// <inheritdoc />
    public override void AfterUnloggedChange(Action settled)
    {
        _unlogged.End(settled);
        Lifetime.Wake();
    }

    // ---- The start and the end ----

    internal override void StartWorkers()
    {
        _syncer.Start(Lifetime.End);
        // A shard alone never has to go back with a store that is alive.
        if (Seat.HasPeers && _options.Rollback == RollbackMethod.InPlace) { _indexes.Start(); }
    }

    // The syncing thread.
    private void OnSynced(Boundary? durable)
    {
        // In a cohort a majority counts, not this node alone.
        if (_lead is { } lead) { lead.Synced(); }
        else if (durable is { } last) { Versions.OnDurable(last.Point); }
        _shipping?.Synced();
    }

    internal override async Task GiveUpStartAsync()
    {
        await Lifetime.Ending.CancelAsync().ConfigureAwait(false);
        if (_indexes is not null)
        {
            await DetachAsync(CancellationToken.None).ConfigureAwait(false);
            await EndWorkersAsync().ConfigureAwait(false);
        }
        _log?.Dispose();
    }

    internal override async Task EndWorkersAsync()
    {
        if (Intake is { } intake) { await intake.EndAsync().ConfigureAwait(false); }
        await EndFollowingAsync().ConfigureAwait(false);
        if (_reset is { } reset) { await reset.StopAsync().ConfigureAwait(false); }
        if (_past is { } past) { await past.EndAsync().ConfigureAwait(false); }
        _reducer?.Dispose();
        _keyIndexes?.Dispose();
        _link?.Dispose();
        await EndShippingAsync().ConfigureAwait(false);
        if (_lead is { } lead) { await lead.EndAsync().ConfigureAwait(false); }
        _syncer.Join();
        _indexes.Dispose();
        await Site.EndAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    public override void Dispose()
    {
        base.Dispose();
        _syncer?.Dispose();
    }

    // ---- Failures ----

    // The disk is full or broken: nothing more can be committed. What is in Redis and in the log stays as it is.
    internal override void OnLogFailure(LogException e)
    {
        if (e is not LogIOException)
        {
            base.OnLogFailure(e);
            return;
        }
        var exit = ProxyExit.Failed($"the version log cannot be written: {e.Message}",
            _options.LogDirectories.IsEmpty ? "free space on the disk of --data, or repair it, and start again"
                : "free space on the disks of --data and --log-dirs, or repair the one that failed, and start again");
        if (!Fail(exit)) { return; }
        _report.Error($"shard {_options.Shard}: the version log cannot be written: {e.Message} The proxy stops; give it room or another "
            + "disk, and start it again: nothing that was committed is lost.");
    }
}
