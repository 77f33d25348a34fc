// A proxy: the real ShardMachine, HybridClock and BatchGate, driven as the product drives them. Here are the machine, its
// effects, the way to the disk, and the recorder; ProxyProcess.FrontEnd has the clients, ProxyProcess.Recovery the rest.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess : Process
{
    private const long RemoteAheadMaxUs = 8 * Cluster.IntervalUs;

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
    private Version _reported;              // up to where SQL has this shard's rows
    private long _askAt;
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
        Version before = machine.OpenVersion;
        _effects.Clear();
        input(machine, _effects);
        foreach (ShardEffect effect in _effects.Items.ToArray()) Perform(effect);
        if (machine.OpenVersion < before) throw new SimException($"I5: {Name}: the open version went back from {before} to {machine.OpenVersion}");
    }

    private void Perform(in ShardEffect effect)
    {
        if (Cluster.IsTraced && !IsDead) Cluster.Note($"{Name} {effect.Kind} {Text(effect)}");
        switch (effect.Kind)
        {
            case ShardEffectKind.SendMarker:
                _marker = effect.Marker;
                _awaitsMarker = true;
                _shared!.ToStore.Enqueue(new(null, effect.Marker));
                Cluster.Count("marker");
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
                if (IsOwner && effect.Point > _host.Log.Sync(0)) throw new SimException($"I2: {Name} records {effect.Point}, its log has {_host.Log.Sync(0)} durable");
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
        if (Cluster.IsTraced && command.Marker is { } read) Cluster.Note($"{Name} reads marker {read.WorldLine}:{read.Closed} at {_streamed}");
        long offset = _streamed;
        if (command.Marker is { } m) Do((machine, e) => machine.MarkerRead(m, offset, 0, e));
        else _busy = true;
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

    // ---- What SQL holds, and says ----

    private IEnumerable<bool> RecorderTask()
    {
        while (true)
        {
            if (_recorderRuns && _wanted is { } claim)
            {
                _wanted = null;
                // The shard has asked to be admitted with a newer claim. The metadata may hold that one, and then refuses an older one.
                if (claim.Point < _askedWith && !Is(SimMutation.OlderThanAdmitted))
                {
                    Cluster.Count("member: a claim is older than the one it asked with");
                    Do((machine, e) => machine.DurableRecorded(claim.Point, machine.Committed, e));
                    continue;
                }

                PrecedenceRow? row = RowOf(claim);
                if (MaySay(claim))
                {
                    Say(claim, row);
                    yield return true;
                    continue;
                }

                long epoch = Epoch;
                SqlCall call = Ask("record", () => Cluster.Sql.RecordDurable(Shard, claim, epoch, row));
                while (!call.IsDone) yield return true;
                OnRecorded(claim, row, (RecordResult?)call.Result);
                if (_isJoining && call.Result is RecordResult { Outcome: RecordOutcome.Recorded } recorded)
                    foreach (bool step in AskToJoin(claim.Point, CutOf(recorded.View))) yield return step;
            }
            else if (_recorderRuns && Cluster.NowUs >= _askAt)
            {
                _askAt = Cluster.NowUs + Cluster.AskPeriodUs;
                SqlCall call = Ask("look", Cluster.Sql.AdvanceCut);
                while (!call.IsDone) yield return true;
                if (call.Result is SqlView view) OnView(view);
            }

            yield return true;
        }
    }

    private void OnRecorded(DurableClaim claim, PrecedenceRow? row, RecordResult? result)
    {
        WorldPoint point = claim.Point;
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
                if (_machine?.WorldLine == point.WorldLine) _reported = Version.Max(_reported, point.Version);
                if (!_isJoining) Report(claim, row);
                Learn(result.View);
                // Cuts say nothing about a shard that has yet to join.
                WorldPoint cut = _isJoining && _machine is { } joiner ? joiner.Committed : CutOf(result.View);
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
        if (!_isJoining) Do((m, e) => m.CutAdvanced(cut, e));
        TellSessions();
    }

    // Another shard's recovery has begun a world-line. While this one recovers by itself, that finds out by itself.
    private void LeaveWorldLine(WorldPoint point)
    {
        bool isNews = _attachedTo != 0 && _machine!.Mode != ShardMode.StoreLost;
        _machine!.WorldLineLeft(point);
        if (!isNews) return;
        Cluster.Count("world-line left");
        _isLeft = true;
        Suspect();
    }

    private void Learn(SqlView view)
    {
        if (_view is { } known && known.Line >= view.Line && known.Cut.ShardCount >= view.Cut.ShardCount && known.Cut.Versions[Shard] >= view.Cut.Versions[Shard]
            && (_settings.Finder == FinderKind.Approximate || known.Cut.IsAtLeast(view.Cut))) return;
        _view = view;
    }

    private WorldPoint CutOf(SqlView view) => new(view.Line, view.Cut.Versions[Shard]);

    /// <summary>The shard's row of the precedence graph; null where the finder wants none. What the versions depend on is in
    /// the log: a batch's header is logged with its operations.</summary>
    private PrecedenceRow? RowOf(in DurableClaim claim)
    {
        if (_settings.Finder == FinderKind.Approximate) return null;
        ShardLog log = _host.Log;
        if (log.Last.WorldLine != claim.Point.WorldLine || log.AtOrBelow(claim.Point.Version) is not { } to) return null;
        Version after = Version.Min(_reported, claim.Point.Version);
        long from = log.AtOrBelow(after)?.Offset ?? 0;
        List<Dependency> on = [];
        for (long i = from; i < to.Offset; i++)
            if (log.Bytes[(int)i].Op?.Dependencies is { } dependencies) on.AddRange(dependencies);
        if (Is(SimMutation.DependenciesForgotten)) on.Clear();
        return new(new(Shard), claim.Point, after, DependencySet.Of([.. on]));
    }

    // With the exact finder rows are in SQL before anybody is told; with the others it is mostly enough to tell the coordinator,
    // while there is one: rows are written now and then.
    private bool MaySay(in DurableClaim claim) =>
        Cluster.HasCoordinators && !_isJoining && !_isStopping && _settings.Finder != FinderKind.Exact && claim.Point.WorldLine == _machine?.WorldLine
        && !Cluster.Dice(_settings.Finder == FinderKind.Approximate ? 16 : 4) && (Cluster.IsCoordinated || Cluster.Dice(4));

    private void Say(in DurableClaim claim, PrecedenceRow? row)
    {
        Cluster.Count("said, not recorded");
        Report(claim, row);
        _reported = Version.Max(_reported, claim.Point.Version);
        WorldPoint point = claim.Point;
        Do((machine, e) => machine.DurableRecorded(point, machine.Committed, e));
    }

    private void Report(in DurableClaim claim, PrecedenceRow? row)
    {
        _said = claim;
        Cluster.SendReport(VersionReport.Of(new(Shard), claim, row?.After ?? claim.Point.Version, row?.Dependencies ?? DependencySet.Empty), Epoch);
    }

    private DurableClaim? _said;

    /// <summary>A coordinator knows nothing of what was said: all since the cut is said again.</summary>
    public void AskedAgain()
    {
        if (!IsRunning || _machine is null || _isJoining || _said is not { } claim || claim.Point.WorldLine != _machine.WorldLine || _settings.Finder == FinderKind.Exact) return;
        _reported = _machine.Committed.Version;
        Report(claim, RowOf(claim));
        _reported = Version.Max(_reported, claim.Point.Version);
    }
}
