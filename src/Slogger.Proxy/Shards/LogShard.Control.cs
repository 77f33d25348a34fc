// How the shard starts, and what it does when its store is lost: find out how the store looks next to the log, let
// RecoveryPlan decide, perform the decision. Runs as one task; everything slow happens here, nothing of it blocks the loop.
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.FrontEnd;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(50);
    // Bytes gather meanwhile: fewer wake-ups, here and of Redis. A marker ends it.
    private static readonly TimeSpan ReadPause = TimeSpan.FromMilliseconds(1);
    // What a failing machine may cost while nobody waits for a commit.
    private const long SyncIntervalMicroseconds = 5_000;
    private const long StopCheckpointBytes = 64L << 20;
    private static readonly TimeSpan StopCheckpointLimit = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan ControlPeriod = TimeSpan.FromSeconds(1);
    private readonly SemaphoreSlim _attention = new(0, 1);
    private readonly Func<RedisEndpoint, IStoreConnector> _connectors;
    private readonly string _restoreUndoFile;
    private readonly string _attachUndoFile;
    private readonly List<Thread> _threads = [];
    private CheckpointStore _checkpoints = null!;
    private RedisFacts? _facts;
    private Task _control = Task.CompletedTask;
    private Task _recorder = Task.CompletedTask;
    private volatile bool _suspected;
    private string _state = "starting";
    private bool _seedUsed;

    public LogShard(ServeOptions options, ILogSink report, IStore store, Func<RedisEndpoint, IStoreConnector> connectors)
    {
        _connectors = connectors;
        _options = options;
        _report = report;
        _store = store;
        _markers = new MarkerCodec(MarkerSecret.LoadOrCreate(options.DataDirectory));
        _channelBytes = System.Text.Encoding.ASCII.GetBytes(_markers.Channel);
        _attachUndoFile = Path.Combine(options.DataDirectory, "attach-undo.json");
        _restoreUndoFile = Path.Combine(options.DataDirectory, "restore-undo.json");
    }

    /// <summary>Opens metadata and log, finds or starts the store, recovers it if need be, and attaches.</summary>
    public async Task<ProxyExit?> StartAsync(CancellationToken stop)
    {
        try
        {
            _seat = await ClusterSeat.TakeAsync(_options, _report, stop).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return ProxyExit.Failed($"the metadata cannot be used: {e.Message}", "check --metadata");
        }
        _cuts = new CutRecorder(_seat, _report, OnRecordAnswered, exit => _failure.TrySetResult(exit));
        try
        {
            _log = VersionLog.Open(new VersionLogOptions
            {
                Directory = Path.Combine(_options.DataDirectory, "log"),
                Shard = _options.Shard,
                Epoch = _seat.Epoch,
            });
            _checkpoints = CheckpointStore.Open(Path.Combine(_options.DataDirectory, "checkpoints"));
        }
        catch (Exception e) when (e is LogCorruptException or LogIOException)
        {
            return ProxyExit.Failed($"the version log cannot be used: {e.Message}", "");
        }
        if (_log.LastBoundary is { } last) { _clock.Resume(last.Time); }
        Interlocked.Exchange(ref _worldLine, _seat.RecordedAtStart.WorldLine.Number);
        try
        {
            await RecoverAsync(atStart: true, stop).ConfigureAwait(false);
        }
        catch (RecoveryRefusedException e)
        {
            return ProxyExit.Failed(e.Message, "");
        }
        StartThread("log sync", SyncLoop);
        _recorder = Task.Run(() => _cuts.RunAsync(_ending.Token), CancellationToken.None);
        return null;
    }

    /// <summary>The front end is there: from now on its loop is told what happens.</summary>
    public void Attach(FrontEndLoop loop)
    {
        _loop = loop;
        _control = Task.Run(() => ControlAsync(_ending.Token), CancellationToken.None);
        Reopen(rolledBack: null);
    }

    private void StartThread(string name, ThreadStart body)
    {
        var thread = new Thread(body) { Name = name, IsBackground = true };
        thread.Start();
        _threads.Add(thread);
    }

    // ---- Losing the store ----

    /// <summary>A connection to the store broke. Nothing is forwarded before it is known that the store is the same.</summary>
    public void StoreUnreachable(string reason) => Suspect(reason);

    private void Suspect(string reason)
    {
        if (_ending.IsCancellationRequested) { return; }
        lock (_openLock)
        {
            _isOpen = false;
            _suspected = true;
            _suspicions++;
            _lastSuspicion = reason;
        }
        Wake();
    }

    // Whatever is suspected after this is looked into after what is done now, and keeps the front end shut until then.
    private void TakeSuspicion()
    {
        lock (_openLock)
        {
            _suspected = false;
            _suspicionsTaken = _suspicions;
        }
    }

    private readonly object _openLock = new();
    private bool _isStopping;
    private long _suspicions;
    private long _suspicionsTaken;

    private volatile string _lastSuspicion = "";

    private void Wake()
    {
        try
        {
            _attention.Release();
        }
        catch (SemaphoreFullException)
        {
            // Already awake.
        }
    }

    private async Task ControlAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            try
            {
                await _attention.WaitAsync(ControlPeriod, stop).ConfigureAwait(false);
                if (_suspected)
                {
                    TakeSuspicion();
                    await ResolveSuspicionAsync(stop).ConfigureAwait(false);
                }
                await MaintainAsync(stop).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                return;
            }
            catch (RecoveryRefusedException e)
            {
                _failure.TrySetResult(ProxyExit.Failed(e.Message, ""));
                return;
            }
            catch (LogIOException e)
            {
                OnLogFailure(e);
                return;
            }
            catch (Exception e) when (e is RedisException or MetadataException or IOException)
            {
                _report.Error($"shard {_options.Shard}: {e.Message}; trying again");
                _suspected |= !_isOpen;
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                if (_suspected) { Wake(); }
            }
        }
    }

    private async Task ResolveSuspicionAsync(CancellationToken stop)
    {
        if (!_linkEnded && await IsSameStoreAsync(stop).ConfigureAwait(false))
        {
            // Only a connection of the front end broke.
            Reopen(rolledBack: null);
            return;
        }
        _state = "recovering";
        _report.Warn($"shard {_options.Shard}: {_store.Name} was lost ({_lastSuspicion})");
        lock (_machineLock)
        {
            _machine?.StoreLost();
            Perform();
        }
        _link?.Dispose();
        if (_link is not null) { await _link.Completion.WaitAsync(stop).ConfigureAwait(false); }
        await RecoverAsync(atStart: false, stop).ConfigureAwait(false);
    }

    private async Task<bool> IsSameStoreAsync(CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(TimeSpan.FromSeconds(2));
        try
        {
            ProbeResult now = await RedisProbe.InspectAsync(_store.Endpoint, cancellation: limit.Token).ConfigureAwait(false);
            return now.Facts is { } facts && facts.RunId == _facts?.RunId;
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            return false;
        }
    }

    // Nothing of the old world-line may still be on its way when the store is overwritten.
    private async Task CloseFrontEndAsync()
    {
        if (_loop is not { } loop) { return; }
        var closed = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        loop.Post(() =>
        {
            loop.CloseStore("the store was lost");
            closed.SetResult();
        });
        await closed.Task.ConfigureAwait(false);
    }

    // Opens the front end. After a rollback every client learns of it first.
    private void Reopen(Boundary? rolledBack)
    {
        if (_loop is not { } loop) { return; }
        IStoreConnector connector = _connectors(_store.Endpoint);
        long taken = _suspicionsTaken;
        _state = "serving";
        loop.Post(() =>
        {
            loop.Store = connector;
            if (rolledBack is { } branch)
            {
                loop.OnRolledBack(branch.WorldLine, branch.Version);
                FailPoint.Pass(FailPoint.ClientsTold);
            }
            lock (_openLock)
            {
                // The store may be lost again already: nothing is forwarded to what was not restored.
                if (_suspicions != taken || _isStopping) { return; }
                _isOpen = true;
            }
            loop.OpenStore();
        });
    }

    // ---- Recovery ----

    private async Task RecoverAsync(bool atStart, CancellationToken stop)
    {
        bool told = false;
        while (true)
        {
            stop.ThrowIfCancellationRequested();
            await _store.EnsureRunningAsync(stop).ConfigureAwait(false);
            if (!_log.IsEmpty || !atStart) { lock (_logLock) { _log.Sync(); } }
            (StoreSituation situation, string text) = await LookAsync(atStart, stop).ConfigureAwait(false);
            (ShardRecord record, IReadOnlyList<WorldLineRecord> lines) = await _seat.LookAsync(stop).ConfigureAwait(false);
            Boundary? last = LastProved();
            RecoveryFacts facts = new()
            {
                Shard = _options.Shard,
                Store = _store.Name,
                Log = last is { } b ? new LogEvidence(b) : null,
                LastBelowBranch = BelowBranch(last, record.RecordedCut.WorldLine, lines),
                Recorded = record.RecordedCut,
                Situation = situation,
                Supervised = _store.IsSupervised,
                Seed = !atStart || _seedUsed ? SeedChoice.None : _options.Seed switch
                {
                    SeedSource.FromRedis => SeedChoice.FromRedis,
                    SeedSource.FromLog => SeedChoice.FromLog,
                    _ => SeedChoice.None,
                },
            };
            switch (RecoveryPlan.Decide(facts))
            {
                case RecoveryDecision.WaitForStore wait:
                    if (atStart && !_store.IsSupervised) { throw new RecoveryRefusedException(text.Length > 0 ? text : wait.Text); }
                    if (!told) { _report.Warn($"{wait.Text} {text} Waiting."); }
                    told = true;
                    await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                    continue;
                case RecoveryDecision.Refuse refuse:
                    throw new RecoveryRefusedException(refuse.Text);
                case RecoveryDecision.Continue:
                    if (await ContinueAsync(last!.Value, record.RecordedCut, stop).ConfigureAwait(false)) { return; }
                    continue;
                case RecoveryDecision.FirstStartEmpty:
                    if (await BeginAsync(new WorldPoint(record.RecordedCut.WorldLine, Slogger.Core.Versions.Version.Zero), record.RecordedCut, "an empty Redis", stop).ConfigureAwait(false)) { return; }
                    continue;
                case RecoveryDecision.GapCheckpoint:
                    if (await BeginAsync(new WorldPoint(record.RecordedCut.WorldLine, last!.Value.Version), record.RecordedCut, "the same history, by a fresh checkpoint", stop).ConfigureAwait(false)) { return; }
                    continue;
                case RecoveryDecision.TakeOverByCheckpoint takeOver:
                    await CloseFrontEndAsync().ConfigureAwait(false);
                    if (takeOver.NewWorldLine is { } line && !await _seat.BeginWorldLineAsync(line, takeOver.Branch, stop).ConfigureAwait(false)) { continue; }
                    _seedUsed = true;
                    var taken = new WorldPoint(takeOver.NewWorldLine ?? record.RecordedCut.WorldLine, takeOver.Branch);
                    if (await BeginAsync(taken, taken, "the data it held", stop).ConfigureAwait(false)) { return; }
                    continue;
                case RecoveryDecision.RestoreFromLog restore:
                    _seedUsed = true;
                    if (await RestoreAsync(restore, stop).ConfigureAwait(false)) { return; }
                    continue;
            }
        }
    }

    // How the store looks next to the log.
    private async Task<(StoreSituation Situation, string Text)> LookAsync(bool atStart, CancellationToken stop)
    {
        ProbeResult probe = await RedisProbe.InspectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false);
        if (probe.Facts is not { } facts || (!probe.IsUsable && probe.Problem != RedisProblem.NotMaster))
        {
            if (atStart && !probe.Problem.IsTransient()) { throw new RecoveryRefusedException($"{probe.Message} {probe.Problem.Remedy()}"); }
            return (StoreSituation.Unreachable, probe.Message);
        }
        _facts = facts;
        string? own = _log.IsEmpty ? null : _log.ReplicationId;
        if (!facts.IsMaster)
        {
            // A restore of ours that was cut short leaves Redis so; any other replica is somebody else's.
            bool ours = own is not null && (facts.ReplicationId == own || File.Exists(_restoreUndoFile));
            if (ours || _store.IsSupervised) { return (StoreSituation.BehindKnownOrigin, ""); }
            throw new RecoveryRefusedException($"{probe.Message} {probe.Problem.Remedy()}");
        }
        bool empty = facts.KeyCount == 0;
        if (own is null) { return (empty ? StoreSituation.Empty : StoreSituation.Foreign, ""); }
        long end = _log.EndOffset;
        if (facts.ReplicationId == own)
        {
            return (facts.Offset < end ? StoreSituation.BehindKnownOrigin : _cannotContinue ? StoreSituation.AheadWithGap : StoreSituation.Continues, "");
        }
        if (facts.SecondReplicationId == own)
        {
            // It branched off our history at its second offset: what lies beyond is unknown to us, and what we have beyond is lost there.
            bool continues = facts.SecondReplicationOffset >= end + 1 && !_cannotContinue;
            return (continues ? StoreSituation.Continues : StoreSituation.BehindKnownOrigin, "");
        }
        return (empty ? StoreSituation.Empty : StoreSituation.Foreign, "");
    }

    private bool _cannotContinue;

    // Where the log ends: maybe inside a command, or a transaction, of which the database and the rest are to be continued.
    private StreamScanner ScanTail(Boundary last)
    {
        var scanner = new StreamScanner(last.Offset, last.Database);
        using LogReader reader = _log.OpenReader(last.Offset);
        var buffer = new byte[1 << 20];
        while (scanner.Offset < _log.EndOffset)
        {
            int count = reader.Read(buffer);
            if (count == 0) { break; }
            int position = 0;
            while (position < count) { scanner.Next(buffer.AsSpan(0, count), ref position); }
        }
        return scanner;
    }

    // What the log proves; before its first boundary, the base that it began with.
    private Boundary? LastProved()
    {
        if (_log.IsEmpty) { return null; }
        return _log.DurableBoundary ?? new Boundary(_log.WorldLine, _log.FirstVersion.Previous, _log.Origin.Offset, _log.Origin.Database, default);
    }

    private Boundary? BelowBranch(Boundary? last, WorldLine current, IReadOnlyList<WorldLineRecord> lines)
    {
        if (last is not { } b || b.WorldLine >= current) { return null; }
        Slogger.Core.Versions.Version valid = ClusterSeat.LastValid(b.WorldLine, lines);
        return _log.BoundaryAtOrBelow(valid);
    }

    // Attaches where the log ends. False when Redis cannot continue after all: look again.
    private async Task<bool> ContinueAsync(Boundary last, WorldPoint recorded, CancellationToken stop)
    {
        (AttachResult result, ReplicationLink link) = await AttachAsync(
            new AttachRequest
            {
                ReplicationId = _log.ReplicationId,
                Position = ScanTail(last),
                OnFull = OnFullSync.Refuse,
            }, stop).ConfigureAwait(false);
        if (result is not AttachResult.Continued continued)
        {
            link.Dispose();
            var failed = (AttachResult.Failed)result;
            _cannotContinue = failed.Problem == RedisProblem.HistoryGone;
            if (!_cannotContinue && !failed.Problem.IsTransient()) { throw new RecoveryRefusedException(failed.Message); }
            await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
            return false;
        }
        if (continued.ReplicationId != _log.ReplicationId) { lock (_logLock) { _log.SetReplicationId(continued.ReplicationId); } }
        _report.Info($"shard {_options.Shard}: continues world-line {last.WorldLine} at version {last.Version}; nothing was lost");
        Run(link, last, recorded, continued.Offset, Math.Max(_facts!.Offset, continued.Offset));
        await CaughtUpAsync(stop).ConfigureAwait(false);
        ResumeUnlogged(storeGoesOn: true);
        Reopen(rolledBack: null);
        return true;
    }

    // A new stretch of log on top of a fresh checkpoint of what the store holds. What is recorded may lie below it: the rest is
    // committed when it is recorded, not before.
    private async Task<bool> BeginAsync(WorldPoint at, WorldPoint recorded, string what, CancellationToken stop)
    {
        (WorldLine line, Slogger.Core.Versions.Version version) = (at.WorldLine, at.Version);
        string file = _checkpoints.NewTemporaryPath();
        ReplicationLink link = NewLink();
        AttachResult result;
        await using (RedisConnection control = await RedisConnection.ConnectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false))
        {
            result = await QuickAttach.AttachAsync(
                control, link, new AttachRequest { OnFull = OnFullSync.WithData, RdbFile = file }, _attachUndoFile, stop).ConfigureAwait(false);
        }
        if (result is not AttachResult.Full full)
        {
            link.Dispose();
            var failed = (AttachResult.Failed)result;
            if (!failed.Problem.IsTransient()) { throw new RecoveryRefusedException(failed.Message); }
            await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
            return false;
        }
        const int Database = 0;
        lock (_logLock)
        {
            AddCheckpoint(file, new StreamOrigin(full.ReplicationId, full.Offset, Database), full.ReplicationId, full.Offset, line);
            FailPoint.Pass(FailPoint.CheckpointKept);
            _log.Begin(new StreamOrigin(full.ReplicationId, full.Offset, Database), line, version.Next);
        }
        FailPoint.Pass(FailPoint.HistoryBegun);
        _cannotContinue = false;
        _report.Info($"shard {_options.Shard}: {_store.Name} is taken over with {what}: world-line {line}, {full.RdbBytes} bytes");
        var start = new Boundary(line, version, full.Offset, Database, Now());
        Run(link, start, recorded, full.Offset, full.Offset);
        Reopen(rolledBack: null);
        return true;
    }

    private async Task<bool> RestoreAsync(RecoveryDecision.RestoreFromLog restore, CancellationToken stop)
    {
        Boundary branch = restore.Branch;
        if (_checkpoints.Latest(_log, branch.Offset) is not { } checkpoint)
        {
            throw new RecoveryRefusedException($"shard {_options.Shard}: there is no checkpoint at or below offset {branch.Offset} in {Path.Combine(_options.DataDirectory, "checkpoints")}: it was removed. Bring it back, or start anew with --seed from-redis.");
        }
        long began = MonotonicMicroseconds();
        await CloseFrontEndAsync().ConfigureAwait(false);
        if (!await _seat.BeginWorldLineAsync(restore.NewWorldLine, branch.Version, stop).ConfigureAwait(false)) { return false; }
        FailPoint.Pass(FailPoint.WorldLineRecorded);
        string replid = FeedPlan.NewReplicationId();
        lock (_logLock) { _log.BeginWorldLine(restore.NewWorldLine, branch, replid); }
        FailPoint.Pass(FailPoint.BranchWritten);
        _checkpoints.CarryForward(_log);
        Boundary start = branch with { WorldLine = restore.NewWorldLine };
        await _seat.RecordOriginAsync(replid, branch.Offset, start.Point, stop).ConfigureAwait(false);
        FailPoint.Pass(FailPoint.OriginRecorded);
        await using (RedisConnection control = await RedisConnection.ConnectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false))
        {
            var plan = new FeedPlan
            {
                BaseFile = _checkpoints.PathOf(checkpoint),
                BaseOffset = checkpoint.Offset,
                TargetOffset = branch.Offset,
                History = new LogHistory(_log),
                ReplicationId = replid,
            };
            RestoreResult result = await RedisRestore.RunAsync(control, plan, FailPoint.Watched(new Slogger.Redis.Feeding.RestoreOptions { UndoFile = _restoreUndoFile }), stop).ConfigureAwait(false);
            if (result is RestoreResult.Failed failed)
            {
                if (!failed.Problem.IsTransient()) { throw new RecoveryRefusedException($"{_store.Name} could not be restored: {failed.Message}"); }
                _report.Warn($"shard {_options.Shard}: the restore was interrupted: {failed.Message}");
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                return false;
            }
        }
        FailPoint.Pass(FailPoint.Restored);
        await LookAsync(atStart: false, stop).ConfigureAwait(false);
        (AttachResult attached, ReplicationLink link) = await AttachAsync(
            new AttachRequest
            {
                ReplicationId = replid,
                Position = new StreamScanner(branch.Offset, branch.Database),
                OnFull = OnFullSync.Refuse,
            }, stop).ConfigureAwait(false);
        if (attached is not AttachResult.Continued continued)
        {
            link.Dispose();
            return false;
        }
        FailPoint.Pass(FailPoint.Attached);
        lock (_logLock) { _log.SetReplicationId(continued.ReplicationId); }
        FailPoint.Pass(FailPoint.IdentityWritten);
        _report.Info($"shard {_options.Shard}: restored to version {branch.Version} in {(MonotonicMicroseconds() - began) / 1000} ms; world-line {restore.NewWorldLine} begins");
        ResumeUnlogged(storeGoesOn: false);
        Run(link, start, start.Point, continued.Offset, continued.Offset);
        Reopen(rolledBack: start);
        return true;
    }

    // The store is attached: the machine goes on, or begins.
    private void Run(ReplicationLink link, Boundary start, WorldPoint recorded, long streamOffset, long storeOffset)
    {
        _link = link;
        _linkEnded = false;
        _cannotContinue = false;
        lock (_machineLock)
        {
            if (_machine is null)
            {
                _machine = new ShardMachine(new ShardOptions { Shard = _options.Shard, RecordIntervalUs = CutRecorder.IntervalMicroseconds, SyncIntervalUs = SyncIntervalMicroseconds }, new ShardStart(_seat.Grid, start, recorded, Now()));
                Volatile.Write(ref _worldLine, start.WorldLine.Number);
                Volatile.Write(ref _committed, recorded.Version.Number);
            }
            else if (start.WorldLine > _machine.WorldLine)
            {
                _machine.WorldLineStarted(start.WorldLine, start, _effects);
                Perform();
            }
            else if (streamOffset > _machine.LastBoundary.Offset && storeOffset == streamOffset && _log.StartOffset == streamOffset)
            {
                _machine.StreamRestarted(streamOffset);
            }
            _machine.Attached(streamOffset, storeOffset);
            Perform();
        }
        link.Start(this);
    }

    // Until the stream has been read up to where the store stood at attaching, markers of before may still come.
    private async Task CaughtUpAsync(CancellationToken stop)
    {
        while (true)
        {
            lock (_machineLock)
            {
                _machine!.StreamRead(_link!.Offset);
                if (_machine.Mode != ShardMode.CatchingUp) { return; }
            }
            if (_link.Completion.IsCompleted) { return; }
            await Task.Delay(1, stop).ConfigureAwait(false);
        }
    }

    private async Task<(AttachResult Result, ReplicationLink Link)> AttachAsync(AttachRequest request, CancellationToken stop)
    {
        ReplicationLink link = NewLink();
        return (await link.AttachAsync(request, stop).ConfigureAwait(false), link);
    }

    private ReplicationLink NewLink() =>
        new(new ReplicationLinkOptions { Endpoint = _store.Endpoint, Markers = _markers, ReadPause = ReadPause });

    // ---- Upkeep ----

    private async Task MaintainAsync(CancellationToken stop)
    {
        await KeepUnloggedAsync(stop).ConfigureAwait(false);
        if (_isOpen && TailBytes >= _options.CheckpointEveryBytes) { await TakeCheckpointAsync(stop).ConfigureAwait(false); }
    }

    // What a restore would have to replay on top of the newest checkpoint.
    private long TailBytes => _log.EndOffset - (_checkpoints.All.Count > 0 ? _checkpoints.All[^1].Offset : _log.StartOffset);

    private async Task<bool> TakeCheckpointAsync(CancellationToken stop)
    {
        string file = _checkpoints.NewTemporaryPath();
        await using RedisConnection control = await RedisConnection.ConnectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false);
        switch (await QuickAttach.FetchAsync(control, file, _attachUndoFile, cancellation: stop).ConfigureAwait(false))
        {
            case CheckpointResult.Fetched fetched when fetched.ReplicationId == _log.ReplicationId:
                AddCheckpoint(file, _log.Origin, fetched.ReplicationId, fetched.Offset, new WorldLine(WorldLine));
                _report.Info($"shard {_options.Shard}: checkpoint of {fetched.Bytes} bytes at offset {fetched.Offset}");
                Trim();
                return true;
            case CheckpointResult.Failed failed:
                _report.Warn($"shard {_options.Shard}: no checkpoint could be taken: {failed.Message}");
                return false;
            default:
                // Of another history: the store was lost meanwhile.
                return false;
        }
    }

    private void AddCheckpoint(string file, StreamOrigin origin, string replicationId, long offset, WorldLine line) =>
        _checkpoints.Add(file, new Checkpoint
        {
            Origin = origin,
            ReplicationId = replicationId,
            Offset = offset,
            Database = 0,
            WorldLine = line.Number,
            CreatedAt = DateTimeOffset.UtcNow,
        });

    // Behind the recorded cut two checkpoints are kept, and of the log what the budget allows.
    private void Trim()
    {
        if (_log.BoundaryAtOrBelow(new(CommittedVersion)) is not { } cut) { return; }
        long spare = _options.LogBudgetBytes - _options.CheckpointEveryBytes;
        if (_checkpoints.Prune(_log, 2, Math.Min(cut.Offset, Math.Max(0, _log.EndOffset - spare))) is { } oldest)
        {
            lock (_logLock) { _log.TrimBefore(oldest); }
        }
    }

    // ---- The end ----

    /// <summary>Commits what was done, and stops.</summary>
    public async Task StopAsync()
    {
        // Nothing may be forwarded behind the last boundary: its reply would promise what the stop loses.
        lock (_openLock)
        {
            _isStopping = true;
            _isOpen = false;
        }
        if (_loop is { } loop) { await loop.SeenAsync().ConfigureAwait(false); }
        lock (_machineLock) { _machine?.Stopping(); }
        if (_link is { } link && !link.Completion.IsCompleted && _machine is not null && !_failure.Task.IsCompleted)
        {
            await Task.WhenAny(_stopped.Task, Task.Delay(TimeSpan.FromSeconds(10))).ConfigureAwait(false);
            if (!_stopped.Task.IsCompleted) { _report.Warn("the last version could not be committed in time"); }
        }
        if (_stopped.Task.IsCompleted && TailBytes >= StopCheckpointBytes)
        {
            // The next start is worth some seconds now.
            using var limit = new CancellationTokenSource(StopCheckpointLimit);
            await TakeCheckpointAsync(limit.Token).ConfigureAwait(false);
        }
        await _ending.CancelAsync().ConfigureAwait(false);
        _link?.Dispose();
        _syncWanted.Set();
        foreach (Thread thread in _threads) { thread.Join(TimeSpan.FromSeconds(5)); }
        try
        {
            await Task.WhenAll(_control, _recorder).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // As asked.
        }
        await _store.StopAsync().ConfigureAwait(false);
        _log.Dispose();
        await _seat.DisposeAsync().ConfigureAwait(false);
    }

    public void Dispose()
    {
        _ending.Dispose();
        _syncWanted.Dispose();
        _attention.Dispose();
    }
}

/// <summary>A person must decide; the text says what.</summary>
internal sealed class RecoveryRefusedException(string message) : Exception(message);

/// <summary>The version log as the bytes of history that a feed sends.</summary>
internal sealed class LogHistory(VersionLog log) : IHistorySource
{
    private LogReader? _reader;
    private long _next = -1;

    public int Read(long offset, Span<byte> destination)
    {
        if (offset != _next)
        {
            _reader?.Dispose();
            _reader = log.OpenReader(offset);
        }
        int count = _reader!.Read(destination);
        _next = offset + count;
        return count;
    }
}
