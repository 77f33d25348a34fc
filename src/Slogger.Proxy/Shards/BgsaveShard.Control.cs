// How a shard in mode bgsave starts, and what it does when its store is lost. RecoveryPlan decides as in mode log; what the
// log proves there, the kept snapshots prove here. A store is the same as before if it is the same run of the same server and
// was brought to the current world-line: then nothing was lost. Any other is restored from the newest snapshot.
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.FrontEnd;
using Slogger.Proxy.Restoring;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Rdb;
using Slogger.Redis.Replication;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal sealed partial class BgsaveShard
{
    private static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(50);
    private static readonly TimeSpan ControlPeriod = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(60);
    private readonly SemaphoreSlim _attention = new(0, 1);
    private readonly string _undoFile;
    private readonly string _attachUndoFile;
    private RedisFacts? _facts;
    private StoreNote? _note;
    private Task _control = Task.CompletedTask;
    private Task _recorder = Task.CompletedTask;
    private volatile bool _isAttached;
    private string _state = "starting";
    private bool _seedUsed;

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
            _snapshots = SnapshotStore.Open(Path.Combine(_options.DataDirectory, "bgsave"));
            _note = StoreNote.Read(_options.DataDirectory);
            if (_snapshots.All.Count > 0) { _clock.Resume(_snapshots.All.MaxBy(s => s.ClosedAt)!.Time); }
            Interlocked.Exchange(ref _worldLine, _seat.RecordedAtStart.WorldLine.Number);
            await RecoverAsync(atStart: true, stop).ConfigureAwait(false);
        }
        catch (LogException e)
        {
            return ProxyExit.Failed($"the snapshots cannot be used: {e.Message}", "");
        }
        catch (RecoveryRefusedException e)
        {
            return ProxyExit.Failed(e.Message, "");
        }
        _recorder = Task.Run(() => _cuts.RunAsync(_ending.Token), CancellationToken.None);
        _saving = Task.Run(() => SaveLoopAsync(_ending.Token), CancellationToken.None);
        return null;
    }

    public void Attach(FrontEndLoop loop)
    {
        _loop = loop;
        _control = Task.Run(() => ControlAsync(_ending.Token), CancellationToken.None);
        Reopen(rolledBack: null);
    }

    // ---- Losing the store ----

    /// <summary>A connection to the store broke. Nothing is forwarded before it is known that the store is the same.</summary>
    public void StoreUnreachable(string reason)
    {
        if (_ending.IsCancellationRequested || _state == "stopping") { return; }
        _door.Suspect(reason);
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
                await _attention.WaitAsync(_door.IsSuspected ? RetryDelay : ControlPeriod, stop).ConfigureAwait(false);
                if (_door.IsSuspected) { await ResolveSuspicionAsync(stop).ConfigureAwait(false); }
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                return;
            }
            catch (Exception e) when (e is RecoveryRefusedException or LogException)
            {
                _failure.TrySetResult(ProxyExit.Failed(e.Message, ""));
                return;
            }
            catch (Exception e) when (e is RedisException or MetadataException or IOException)
            {
                _report.Error($"shard {_options.Shard}: {e.Message}; trying again");
                if (!_door.IsOpen) { _door.Suspect(e.Message); }
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
            }
        }
    }

    private async Task ResolveSuspicionAsync(CancellationToken stop)
    {
        _taken = _door.Take();
        if (_isAttached && await IsSameStoreAsync(stop).ConfigureAwait(false))
        {
            // Only a connection of the front end broke.
            Reopen(rolledBack: null);
            return;
        }
        _state = "recovering";
        _report.Warn($"shard {_options.Shard}: {_store.Name} was lost ({_door.LastReason})");
        _isAttached = false;
        lock (_machineLock)
        {
            _machine?.StoreLost();
            _started = null;
            _ready = null;
            Perform();
        }
        await RecoverAsync(atStart: false, stop).ConfigureAwait(false);
    }

    private long _taken;

    private async Task<bool> IsSameStoreAsync(CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(TimeSpan.FromSeconds(2));
        try
        {
            ProbeResult now = await RedisProbe.InspectAsync(_store.Endpoint, cancellation: limit.Token).ConfigureAwait(false);
            return now.IsUsable && now.Facts!.RunId == _facts?.RunId;
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
        long taken = _taken;
        _state = "serving";
        loop.Post(() =>
        {
            loop.Store = connector;
            if (rolledBack is { } branch)
            {
                loop.OnRolledBack(branch.WorldLine, branch.Version);
                FailPoint.Pass(FailPoint.ClientsTold);
            }
            // The store may be lost again already: nothing is forwarded to what was not restored.
            if (_door.TryOpen(taken)) { loop.OpenStore(); }
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
            (ShardRecord record, _lines) = await _seat.LookAsync(stop).ConfigureAwait(false);
            WorldLine current = record.RecordedCut.WorldLine;
            (StoreSituation situation, string text) = await LookAsync(current, stop).ConfigureAwait(false);
            Boundary? newest = Newest(current);
            RecoveryFacts facts = new()
            {
                Shard = _options.Shard,
                Store = _store.Name,
                Log = newest is { } b ? new LogEvidence(b) : null,
                LastBelowBranch = newest is { } below && below.WorldLine < current ? below : null,
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
                    throw new RecoveryRefusedException($"{refuse.Text} (In mode bgsave the kept snapshots stand for the version log.)");
                case RecoveryDecision.Continue:
                    _report.Info($"shard {_options.Shard}: continues world-line {newest!.Value.WorldLine} after version {newest.Value.Version}; nothing was lost");
                    Run(newest.Value, record.RecordedCut);
                    Reopen(rolledBack: null);
                    return;
                case RecoveryDecision.TakeOverByCheckpoint takeOver:
                    await CloseFrontEndAsync().ConfigureAwait(false);
                    if (takeOver.NewWorldLine is { } line && !await _seat.BeginWorldLineAsync(line, takeOver.Branch, stop).ConfigureAwait(false)) { continue; }
                    _seedUsed = true;
                    await BeginAsync(takeOver.NewWorldLine ?? current, takeOver.Branch, "the data it held", stop).ConfigureAwait(false);
                    return;
                case RecoveryDecision.RestoreFromLog restore:
                    _seedUsed = true;
                    if (await RestoreAsync(restore, current, stop).ConfigureAwait(false)) { return; }
                    continue;
                default:
                    await BeginAsync(current, Version.Zero, "an empty Redis", stop).ConfigureAwait(false);
                    return;
            }
        }
    }

    // The last boundary that a snapshot proves.
    private Boundary? Newest(WorldLine current)
    {
        if (_snapshots.Latest(current, line => ClusterSeat.LastValid(line, _lines), new Version(long.MaxValue)) is not { } usable) { return null; }
        return new Boundary(new WorldLine(usable.Snapshot.WorldLine), usable.Last, 0, 0, usable.Snapshot.Time);
    }

    // How the store looks next to the snapshots.
    private async Task<(StoreSituation Situation, string Text)> LookAsync(WorldLine current, CancellationToken stop)
    {
        ProbeResult probe = await RedisProbe.InspectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false);
        if (probe.Facts is not { } facts || (!probe.IsUsable && probe.Problem != RedisProblem.NotMaster))
        {
            if (!probe.Problem.IsTransient()) { throw new RecoveryRefusedException($"{probe.Message} {probe.Problem.Remedy()}"); }
            return (StoreSituation.Unreachable, probe.Message);
        }
        _facts = facts;
        HashSet<string> known = [.. _note?.ReplicationIds ?? [], .. _snapshots.All.Select(s => s.ReplicationId ?? "")];
        bool isKnown = known.Contains(facts.ReplicationId) || known.Contains(facts.SecondReplicationId);
        if (!facts.IsMaster)
        {
            // A restore of ours that was cut short leaves Redis so; any other replica is somebody else's.
            if (isKnown || File.Exists(_undoFile) || _store.IsSupervised) { return (StoreSituation.BehindKnownOrigin, ""); }
            throw new RecoveryRefusedException($"{probe.Message} {probe.Problem.Remedy()}");
        }
        await CheckDirectoryAsync(stop).ConfigureAwait(false);
        if (_note is { } note && note.RunId == facts.RunId && note.WorldLine == current.Number) { return (StoreSituation.Continues, ""); }
        if (facts.KeyCount == 0) { return (StoreSituation.Empty, ""); }
        return (isKnown ? StoreSituation.BehindKnownOrigin : StoreSituation.Foreign, "");
    }

    // Mode bgsave needs the files that Redis writes.
    private async Task CheckDirectoryAsync(CancellationToken stop)
    {
        string directory;
        try
        {
            await using var watch = new SaveWatch(await RedisConnection.ConnectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false));
            directory = await watch.DirectoryAsync(stop).ConfigureAwait(false);
            await watch.LookAsync(stop).ConfigureAwait(false);
        }
        catch (RedisException e) when (e.Problem == RedisProblem.NoPermission)
        {
            throw new RecoveryRefusedException($"shard {_options.Shard}: --commit bgsave needs CONFIG GET and INFO at {_store.Name}: {e.Message} Allow them to the proxy's user.");
        }
        try
        {
            // Redis answers nothing when its working directory was removed.
            if (directory.Length == 0) { throw new DirectoryNotFoundException("it was removed"); }
            _ = Directory.EnumerateFiles(directory).FirstOrDefault();
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            throw new RecoveryRefusedException(
                $"shard {_options.Shard}: {_store.Name} saves in {(directory.Length > 0 ? directory : "its working directory")}, which cannot be read from here ({e.Message}). "
                + "--commit bgsave needs a Redis on this machine, with a directory that the proxy's user can read; --commit log works without.");
        }
    }

    // A first snapshot of what the store holds, before anything is forwarded.
    private async Task BeginAsync(WorldLine line, Version version, string what, CancellationToken stop)
    {
        await GiveHistoryAsync(stop).ConfigureAwait(false);
        var start = new Boundary(line, version, 0, 0, Now());
        await using (var control = await RedisConnection.ConnectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false))
        {
            await using var watch = new SaveWatch(await RedisConnection.ConnectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false));
            while (true)
            {
                if (await TrySaveAsync(control, watch, start, stop).ConfigureAwait(false) is not { } problem) { break; }
                _report.Warn($"shard {_options.Shard}: the first BGSAVE did not count: {problem}. It is tried again");
                await Task.Delay(FailurePauseMin, stop).ConfigureAwait(false);
            }
        }
        _report.Info($"shard {_options.Shard}: {_store.Name} is taken over with {what}: world-line {line}");
        Note(line);
        Run(start, start.Point);
        Reopen(rolledBack: null);
    }

    private async Task<string?> TrySaveAsync(RedisConnection control, SaveWatch watch, Boundary start, CancellationToken stop)
    {
        SaveBase? before;
        while ((before = await watch.BaseAsync(stop).ConfigureAwait(false)) is null) { await Task.Delay(NotReadyPeriod, stop).ConfigureAwait(false); }
        RedisReply reply = await control.CommandAsync(["BGSAVE"], stop).ConfigureAwait(false);
        if (reply.IsError)
        {
            if (RedisProblems.Classify(reply.Text) == RedisProblem.NoPermission)
            {
                throw new RecoveryRefusedException($"shard {_options.Shard}: --commit bgsave needs BGSAVE at {_store.Name}: {reply.Text}. Allow it to the proxy's user.");
            }
            return reply.Text;
        }
        SaveState state;
        while ((state = await watch.LookAsync(stop).ConfigureAwait(false)).InProgress) { await Task.Delay(PollMin, stop).ConfigureAwait(false); }
        string file = _snapshots.NewTemporaryPath();
        string? problem = await watch.KeepAsync(before, state, file, stop).ConfigureAwait(false);
        RdbInfo? info = null;
        problem ??= CheckFile(file, out info);
        if (problem is null) { _snapshots.Add(file, Describe(info!, start)); }
        return problem;
    }

    // Redis writes the identity of its stream into a dump only if it ever had a replica. By it a Redis that was restarted from
    // a dump is known again.
    private async Task GiveHistoryAsync(CancellationToken stop)
    {
        await using (RedisConnection control = await RedisConnection.ConnectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false))
        {
            using var link = new ReplicationLink(new ReplicationLinkOptions { Endpoint = _store.Endpoint });
            await QuickAttach.AttachAsync(control, link, new AttachRequest { OnFull = OnFullSync.WithoutData }, _attachUndoFile, stop).ConfigureAwait(false);
        }
        ProbeResult probe = await RedisProbe.InspectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false);
        _facts = probe.Facts ?? throw new RedisException(probe.Problem, probe.Message);
        _replicationId = _facts.ReplicationId;
    }

    private async Task<bool> RestoreAsync(RecoveryDecision.RestoreFromLog restore, WorldLine current, CancellationToken stop)
    {
        Boundary branch = restore.Branch;
        UsableSnapshot usable = _snapshots.Latest(current, line => ClusterSeat.LastValid(line, _lines), branch.Version)
            ?? throw new RecoveryRefusedException($"shard {_options.Shard}: no snapshot of version {branch.Version} is kept.");
        _snapshots.Verify(usable.Snapshot);
        long began = MonotonicMicroseconds();
        await CloseFrontEndAsync().ConfigureAwait(false);
        if (!await _seat.BeginWorldLineAsync(restore.NewWorldLine, branch.Version, stop).ConfigureAwait(false)) { return false; }
        FailPoint.Pass(FailPoint.WorldLineRecorded);
        string replid = FeedPlan.NewReplicationId();
        Boundary start = branch with { WorldLine = restore.NewWorldLine };
        await _seat.RecordOriginAsync(replid, usable.Snapshot.Offset, start.Point, stop).ConfigureAwait(false);
        FailPoint.Pass(FailPoint.OriginRecorded);
        // Should this be cut short, the next start knows what it finds. No run bears this name: it is not taken as restored.
        _note = new StoreNote { RunId = "", WorldLine = 0, ReplicationIds = [replid, .. (_note?.ReplicationIds ?? []).Take(8)] };
        _note.Write(_options.DataDirectory);
        FailPoint.Pass(FailPoint.NoteWritten);
        await using (RedisConnection control = await RedisConnection.ConnectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false))
        {
            var plan = new FeedPlan
            {
                BaseFile = _snapshots.PathOf(usable.Snapshot),
                BaseOffset = usable.Snapshot.Offset,
                TargetOffset = usable.Snapshot.Offset,
                History = NoHistory.Instance,
                ReplicationId = replid,
            };
            var how = new Slogger.Redis.Feeding.RestoreOptions { UndoFile = _undoFile, Feed = FeedAddress.For(_store.Endpoint) };
            RestoreResult result = await RedisRestore.RunAsync(control, plan, FailPoint.Watched(how), stop).ConfigureAwait(false);
            if (result is RestoreResult.Failed failed)
            {
                if (!failed.Problem.IsTransient()) { throw new RecoveryRefusedException($"{_store.Name} could not be restored: {failed.Message}"); }
                _report.Warn($"shard {_options.Shard}: the restore was interrupted: {failed.Message}");
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                return false;
            }
        }
        FailPoint.Pass(FailPoint.Restored);
        ProbeResult probe = await RedisProbe.InspectAsync(_store.Endpoint, cancellation: stop).ConfigureAwait(false);
        if (!probe.IsUsable || probe.Facts!.SecondReplicationId != replid) { return false; }
        _facts = probe.Facts;
        // The branch in its own world-line: from it that one is recovered until it has closed a version.
        string file = _snapshots.NewTemporaryPath();
        FileLink.LinkOrCopy(_snapshots.PathOf(usable.Snapshot), file);
        _snapshots.Add(file, usable.Snapshot with
        {
            WorldLine = start.WorldLine.Number,
            Version = branch.Version.Number,
            LastVersion = branch.Version.Number,
            ClosedAt = branch.Time.Bits,
            Offset = usable.Snapshot.Offset,
        });
        FailPoint.Pass(FailPoint.SnapshotKept);
        Note(start.WorldLine);
        FailPoint.Pass(FailPoint.IdentityWritten);
        _report.Info($"shard {_options.Shard}: restored to version {branch.Version} in {(MonotonicMicroseconds() - began) / 1000} ms; world-line {restore.NewWorldLine} begins");
        Run(start, start.Point);
        Reopen(rolledBack: start);
        return true;
    }

    // This run of the store holds the state of this world-line.
    private void Note(WorldLine line)
    {
        string[] ids = [_facts!.ReplicationId, .. _note?.ReplicationIds ?? []];
        _note = new StoreNote { RunId = _facts.RunId, WorldLine = line.Number, ReplicationIds = [.. ids.Distinct().Take(8)] };
        _note.Write(_options.DataDirectory);
    }

    // The store is attached: the machine goes on, or begins.
    private void Run(Boundary start, WorldPoint recorded)
    {
        _replicationId = _facts!.ReplicationId;
        lock (_machineLock)
        {
            if (_machine is null)
            {
                _machine = new ShardMachine(
                    new ShardOptions { Shard = _options.Shard, Mode = Core.Shards.CommitMode.Bgsave, RecordIntervalUs = CutRecorder.IntervalMicroseconds }, new ShardStart(_seat.Grid, start, recorded, Now()));
                Volatile.Write(ref _worldLine, start.WorldLine.Number);
                Volatile.Write(ref _committed, recorded.Version.Number);
            }
            else if (start.WorldLine > _machine.WorldLine)
            {
                _machine.WorldLineStarted(start.WorldLine, start, _effects);
                Perform();
            }
            _machine.Attached(0, 0);
            Perform();
        }
        _isAttached = true;
        Wake();
    }

    // ---- The end ----

    public async Task StopAsync()
    {
        _state = "stopping";
        // Nothing may be forwarded behind the last boundary: its reply would promise what the stop loses.
        _door.Shut();
        if (_loop is { } loop) { await loop.SeenAsync().ConfigureAwait(false); }
        lock (_machineLock) { _machine?.Stopping(); }
        Wake();
        if (_isAttached)
        {
            await Task.WhenAny(_stopped.Task, Task.Delay(StopLimit)).ConfigureAwait(false);
            if (!_stopped.Task.IsCompleted) { _report.Warn("the last version could not be committed in time"); }
        }
        await _ending.CancelAsync().ConfigureAwait(false);
        try
        {
            await Task.WhenAll(_control, _recorder, _saving).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // As asked.
        }
        await _store.StopAsync().ConfigureAwait(false);
        await _seat.DisposeAsync().ConfigureAwait(false);
    }
}
