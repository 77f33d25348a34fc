// A proxy: the real ShardMachine, HybridClock and BatchGate, driven as the product drives them. Here are the machine, its
// effects, the way to the disk, and the recorder; ProxyProcess.FrontEnd has the clients, ProxyProcess.Recovery the rest.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess : Process
{
    private const long RemoteAheadMaxUs = 8 * Cluster.IntervalUs;

    // A case is short: what the recorder does in ten milliseconds it does here in one.
    private const long RecorderHaste = 10;

    private readonly ShardHost _host;
    private readonly SimSettings _settings;
    private readonly ShardOptions _options;
    private readonly HybridClock _clock;
    private readonly BatchGate _gate;
    private readonly ShardEffects _effects = new();
    private readonly List<WorldPoint> _durableNotes = [];
    private ShardMachine? _machine;
    private SqlView? _view;                 // what SQL said last
    private int _syncRequested;
    private DurableClaim? _wanted;
    private readonly ClaimRecorder _recorder;
    private readonly DependencyTrail? _trail;
    private (DurableClaim Claim, PrecedenceRow? Row) _recorded;
    private bool _recorderRuns;
    private int _streamed;
    private int _attachedTo;                // the history that the replication link follows; 0 for none

    public ProxyProcess(Cluster cluster, ShardHost host, string name)
        : base(cluster, name)
    {
        (_host, _settings) = (host, cluster.Settings);
        _options = new()
        {
            Shard = new(host.Number),
            HasPeers = true,
            EmptyRunIntervalUs = 3 * Cluster.IntervalUs,
            SyncIntervalUs = cluster.SyncIntervalUs,
            RecordIntervalUs = cluster.RecordIntervalUs,
            RecordBackoffMinUs = 200,
            RecordBackoffMaxUs = 2000,
        };
        _clock = new(new(cluster.NowUs, WallUs), new() { StepForwardUs = 20 * Cluster.IntervalUs, RemoteAheadMaxUs = RemoteAheadMaxUs });
        _gate = new(new() { ClockErrorUs = cluster.ClockErrorUs, RemoteAheadMaxUs = RemoteAheadMaxUs }, cluster.Settings.Gate);
        _front = new(new() { IsVersioned = true, IsPunctual = true, DrainUs = 3 * Cluster.IntervalUs,
            NoCarrierUs = Cluster.IntervalUs / 4 }, _settings.Boundary);
        RecorderOptions recorder = new()
        {
            Finder = _settings.Finder, HasPeers = true, Pace = new(1), SaidUs = 4 * Cluster.IntervalUs * RecorderHaste,
                IdleUs = cluster.AskPeriodUs * RecorderHaste,
        };
        _recorder = new(recorder, _settings.Recorder);
        _leaver = new(_settings.Lifecycle);
        _hold = new(_settings.Ship);
        if (_settings.Finder != FinderKind.Approximate) _trail = new(new(host.Number), cluster.Sql.Cut.ShardCount);
        Start(ControlTask());
        Start(RecorderTask());
    }

    public int Shard => _host.Number;

    public long Epoch { get; private set; }

    public ShardMachine? Machine => _machine;

    private long WallUs => Math.Max(0, Cluster.NowUs + _host.SkewUs);

    private ClockReading Reading => new(Cluster.NowUs, WallUs - _host.SpreadUs, Is(SimMutation.SpreadIgnored) ? 0 : _host.SpreadUs);

    private bool IsOwner => Cluster.Sql.Shards[Shard].Epoch == Epoch;

    private HybridTimestamp Now()
    {
        if (Is(SimMutation.WallClockTaken)) return HybridTimestamp.Of(WallUs, 0);
        HybridTimestamp now = _clock.Now(Reading);
        if (now > _host.Clock.Time) _host.Clock = (Cluster.NowUs, now);
        return now;
    }

    private bool Is(SimMutation mutation) => _settings.Mutation == mutation;

    public override void Die(string why)
    {
        if (IsDead) return;
        base.Die(why);
        _host.Proxies.Remove(this);
        CloseLinks();
        CloseMoves();
    }

    // ---- The machine ----

    private void Do(Action<ShardMachine, ShardEffects> input)
    {
        if (_machine is not { } machine || IsDead) return;
        VersionNumber before = machine.OpenVersion;
        _effects.Clear();
        input(machine, _effects);
        foreach (ShardEffect effect in _effects.Items.ToArray()) Perform(effect);
        if (machine.OpenVersion < before)
            throw new SimException($"I5: {Name}: the open version went back from {before} to {machine.OpenVersion}");
    }

    private void Perform(in ShardEffect effect)
    {
        if (Cluster.IsTraced && !IsDead) Cluster.Note($"{Name} {effect.Kind} {Text(effect)}");
        switch (effect.Kind)
        {
            case ShardEffectKind.SendMarker:
                (_marker, _marked) = (effect.Marker, true);
                break;
            case ShardEffectKind.AppendBoundary or ShardEffectKind.AppendEmptyRun:
                if (!_host.Log.Admits(Epoch)) Die("its log belongs to a later process");
                else if (effect.Kind == ShardEffectKind.AppendBoundary) _host.Log.AppendBoundary(effect.Boundary);
                else _host.Log.AppendRun(effect.Boundary with { Offset = _host.Log.Last.Offset });
                if (_work is not null) OnMovesBoundary(effect.Boundary.Point);
                break;
            case ShardEffectKind.RequestSync:
                _syncRequested = _host.Log.Appended;
                break;
            case ShardEffectKind.RecordDurable:
                if (IsOwner && effect.Point > _host.Log.Sync(0))
                    throw new SimException($"I2: {Name} records {effect.Point}, its log has {_host.Log.Sync(0)} durable");
                _wanted = effect.Claim;
                break;
            case ShardEffectKind.Committed:
                OnCommitted(effect.Point);
                if (_work is not null) OnMovesCut(effect.Point);
                break;
            case ShardEffectKind.Stopped:
                _isStopped = true;
                break;
            case ShardEffectKind.Violation:
                if (IsOwner) throw new SimException($"I5: {Name}: {effect.Text}");
                Cluster.Count("deposed owner halted");
                Die("deposed");
                break;
        }
    }

    private static string Text(in ShardEffect effect) => effect.Kind switch
    {
        ShardEffectKind.SendMarker => $"{effect.Marker.WorldLine}:{effect.Marker.Closed}, next {effect.Marker.Next}",
        ShardEffectKind.AppendBoundary or ShardEffectKind.AppendEmptyRun => $"{effect.Boundary.Point} at {effect.Boundary.Offset}",
        ShardEffectKind.RecordDurable => $"{effect.Claim}",
        ShardEffectKind.Violation => effect.Text!,
        _ => $"{effect.Point}",
    };

    // ---- The way to the disk ----

    /// <summary>The replication link is slow: nothing of it arrives for now.</summary>
    public bool IsStreamHeld { get; set; }

    /// <summary>The replication link brings the next command.</summary>
    public void StreamOne()
    {
        if (!IsRunning || _attachedTo == 0) return;
        Store store = _host.Store;
        if (!store.IsUp || store.HistoryId != _attachedTo || !store.Admits(Epoch))
        {
            Suspect();
            return;
        }

        if (_streamed >= store.History.Count || IsStreamHeld) return;
        if (!_host.Log.Admits(Epoch))
        {
            Die("its log belongs to a later process");
            return;
        }

        Command command = store.History[_streamed++];
        if (Is(SimMutation.CopyPastTheLog) && command.Write is { Value: not null }) command = default;
        _host.Log.AppendBytes(command);
        NoteChange(command);
        if (Cluster.IsTraced && command.Marker is { } read)
            Cluster.Note($"{Name} reads marker {read.WorldLine}:{read.Closed} at {_streamed}");
        long offset = _streamed;
        if (command.Marker is { } m) Do((machine, e) => machine.MarkerRead(m, offset, 0, e));
        else MarkChanged();
        _machine?.StreamRead(offset);
    }

    /// <summary>The disk is slow: nothing is synced for now.</summary>
    public bool IsSyncHeld { get; set; }

    public void SyncSome(Random random)
    {
        if (!IsRunning) return;
        if (_syncRequested > 0 && !IsSyncHeld && random.Next(2) == 0)
        {
            if (_host.Log.Admits(Epoch)) _durableNotes.Add(_host.Log.Sync(_syncRequested));
            _syncRequested = 0;
        }

        // Notes arrive late, doubled, in any order.
        if (_durableNotes.Count == 0) return;
        int i = random.Next(_durableNotes.Count);
        WorldPoint point = _durableNotes[i];
        if (random.Next(3) != 0) _durableNotes.RemoveAt(i);
        if (_durableNotes.Count > 8) _durableNotes.RemoveAt(0);
        Do((machine, e) => machine.LogDurable(point, e));
    }

    // ---- What SQL holds, and says: the real ClaimRecorder and DependencyTrail ----

    private IEnumerable<bool> RecorderTask()
    {
        while (true)
        {
            if (!_recorderRuns)
            {
                yield return true;
                continue;
            }

            if (_wanted is { } wanted) _recorder.Want(wanted);
            _wanted = null;
            // Its connection may be there yet when nobody listens any more, and may not be there although somebody does.
            bool isConnected = Cluster.HasCoordinators && (Cluster.IsCoordinated ? !Cluster.Dice(16) : Cluster.Dice(4));
            RecorderStep next = _recorder.Next(
                new(isConnected, _isStopping, _life.Joiner.IsJoining, IsCommitAwaited: false, default, _grid.View.Grid), RecorderUs);
            switch (next.Kind)
            {
                case RecorderStepKind.Rest:
                    long untilUs = Cluster.NowUs + Math.Min(next.WaitUs / RecorderHaste, Cluster.AskPeriodUs);
                    do yield return true;
                    while (_wanted is null && Cluster.NowUs < untilUs);
                    // A coordinator tells the cut that it has recorded.
                    if (isConnected)
                        foreach (bool step in LookAtCut()) yield return step;
                    break;
                case RecorderStepKind.Record:
                    foreach (bool step in Record(next)) yield return step;
                    break;
                case RecorderStepKind.Say:
                    Say(next);
                    yield return true;
                    break;
                case RecorderStepKind.TellSaid:
                    Do((machine, e) => machine.DurableRecorded(next.Claim.Point, machine.Committed, e));
                    break;
                case RecorderStepKind.TellFailed:
                    _machine?.RecordUnavailable(next.Claim.Point);
                    break;
                default:
                    foreach (bool step in LookAtCut()) yield return step;
                    _recorder.Looked(RecorderUs);
                    break;
            }
        }
    }

    private long RecorderUs => Cluster.NowUs * RecorderHaste;

    private IEnumerable<bool> LookAtCut()
    {
        SqlCall call = Ask("look", Cluster.Sql.AdvanceCut);
        while (!call.IsDone) yield return true;
        if (call.Result is SqlView view) OnView(view);
    }

    private IEnumerable<bool> Record(RecorderStep step)
    {
        DurableClaim claim = step.IsPart ? _trail!.StepOf(step.Claim) : step.Claim;
        PrecedenceRow? row = _trail?.RowFor(claim.Point, step.StartsOver);
        _recorded = (claim, row);
        for (long untilUs = Cluster.NowUs + (step.WaitUs / RecorderHaste); Cluster.NowUs < untilUs;) yield return true;
        long epoch = Epoch;
        SqlCall call = Ask("record", () => Cluster.Sql.RecordDurable(Shard, claim, epoch, row));
        while (!call.IsDone) yield return true;
        RecordResult? result = (RecordResult?)call.Result;
        _recorder.Recorded(claim.Point, result is null ? null : result.Outcome == RecordOutcome.Recorded, RecorderUs);
        OnRecorded(claim.Point, result);
        if (_life.Joiner.IsJoining && result is { Outcome: RecordOutcome.Recorded })
            foreach (bool asks in AskToJoin(claim.Point, CutOf(result.View))) yield return asks;
    }

    private void Say(RecorderStep step)
    {
        Cluster.Count("said, not recorded");
        (DurableClaim claim, PrecedenceRow? row) = step.HasRow ? _recorded
            : (step.Claim, _trail?.RowFor(step.Claim.Point, step.StartsOver));
        Cluster.SendReport(VersionReport.Of(new(Shard), claim, row?.After ?? claim.Point.Version, row?.Dependencies
            ?? DependencySet.Empty), Epoch);
        if (step.IsOwed) Do((machine, e) => machine.DurableRecorded(claim.Point, machine.Committed, e));
    }

    private void OnRecorded(WorldPoint point, RecordResult? result)
    {
        if (result is null)
        {
            _machine?.RecordUnavailable(point);
            return;
        }

        Cluster.Count($"record: {result.Outcome}");
        if (Cluster.IsTraced) Cluster.Note($"{Name} hears: {point} {result.Outcome}, cut {result.View.Cut}");
        switch (result.Outcome)
        {
            case RecordOutcome.Recorded:
                Learn(result.View);
                // Cuts say nothing about a shard that has yet to join.
                WorldPoint cut = _life.Joiner.IsJoining && _machine is { } joiner ? joiner.Committed : CutOf(result.View);
                Do((machine, e) => machine.DurableRecorded(point, cut, e));
                TellSessions();
                break;
            case RecordOutcome.StaleWorldLine:
                LeaveWorldLine(point);
                break;
            default:
                Do((machine, e) => machine.RecordRefused(point, $"the metadata answered {result.Outcome}", e));
                break;
        }
    }

    private void OnView(SqlView view)
    {
        if (_machine is not { } machine) return;
        if (view.Line > machine.WorldLine)
        {
            LeaveWorldLine(machine.Committed);
            return;
        }

        Learn(view);
        WorldPoint cut = CutOf(view);
        if (!_life.Joiner.IsJoining) Do((m, e) => m.CutAdvanced(cut, e));
        TellSessions();
    }

    // Another shard's recovery has begun a world-line. While this one recovers by itself, that finds out by itself.
    private void LeaveWorldLine(WorldPoint point)
    {
        if (_machine is not { } machine) return;
        bool isNews = _isAttached && machine.Mode != ShardMode.StoreLost;
        machine.WorldLineLeft(point);
        if (!isNews) return;
        Cluster.Count("world-line left");
        _isLeft = true;
        Suspect();
    }

    private void Learn(SqlView view)
    {
        if (_view is { } known && known.Line >= view.Line && known.Cut.ShardCount >= view.Cut.ShardCount
            && known.Cut.Versions[Shard] >= view.Cut.Versions[Shard]
            && (_settings.Finder == FinderKind.Approximate || known.Cut.IsAtLeast(view.Cut))) return;
        _view = view;
        _trail?.Committed(CutOf(view));
    }

    private WorldPoint CutOf(SqlView view) => new(view.Line, view.Cut.Versions[Shard]);

    // A recovery has ended, and nobody has been let in since: what is in the store above the cut was executed by others.
    private void BeginTrail(ShardMachine machine, bool isAtBranch) =>
        _trail?.Begin(machine.Committed, isAtBranch ? machine.Committed.Version : machine.OpenVersion);

    /// <summary>A coordinator knows nothing of what was said.</summary>
    public void AskedAgain() => _recorder.AskedAgain();
}
