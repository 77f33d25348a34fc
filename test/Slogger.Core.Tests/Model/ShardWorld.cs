// One shard in a seeded world: the real ShardMachine and SessionProgress between an oracle of Redis, of the log and of the
// metadata, with everything that can be late, lost or doubled being so at random. Checks I1 (exact mapping), I2, I3 and I5.
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Model;

internal sealed record ShardWorldSettings
{
    public required int Seed { get; init; }
    public int Steps { get; init; } = 500;
    public CommitMode Mode { get; init; } = CommitMode.Log;
    public ShardMutation Mutation { get; init; }
    public SessionMutation SessionMutation { get; init; }

    /// <summary>A fault of the caller: the answer of a blocked operation is not counted as busy.</summary>
    public bool UnblockedIsIdle { get; init; }

    /// <summary>How long syncs and records are put off while nobody waits for a commit.</summary>
    public Pace Pace { get; init; }

    /// <summary>How many entries a session has: few, to test that merged entries are never wrongly safe.</summary>
    public int Entries { get; init; } = 1024;
}

internal enum Pace { AtOnce, Slow, Never }

internal sealed partial class ShardWorld
{
    private const int SharedSessions = 3;
    private const int DedicatedSessions = 2;
    private const long IntervalUs = 1000;
    private const long Forever = 1L << 50;

    private readonly ShardWorldSettings _settings;
    private readonly Random _random;
    private readonly ModelStore _store = new();
    private readonly ModelLog _log;
    private readonly ModelMetadata _metadata = new();
    private readonly ShardEffects _effects = new();
    private readonly ShardOptions _options = new() { StrideMax = 8, EmptyRunIntervalUs = 5 * IntervalUs, RecordBackoffMinUs = 200,
        RecordBackoffMaxUs = 2000 };
    private readonly VersionGrid _grid = new(new(1), 1_000_000, IntervalUs);
    private readonly List<ModelOp> _everCommitted = [];
    private readonly List<(Marker Marker, long Offset)> _readBefore = [];
    private readonly List<WorldPoint> _durableNotes = [];

    private ShardMachine _machine;
    private ModelConnection _shared = new();
    private List<ModelSession> _sessions = [];
    private long _nowUs = 1_000_500;
    private int _tickCounter;
    private bool _awaitingAnswer;
    private Marker _marker;
    private bool _holding;
    private bool _busy;
    private long _streamed;
    private int _syncRequested;
    private WorldPoint? _recordPending;
    private (WorldPoint Point, RecordOutcome Outcome)? _recordAnswer;
    private VersionNumber _openBefore;
    private readonly int _calm;            // one in so many failures that the dice show does happen
    private bool _idle;
    private bool _awaited;                 // clients wait for a commit
    private bool _stopped;

    public ShardWorld(ShardWorldSettings settings)
    {
        _settings = settings;
        (long sync, long record) = settings.Pace switch
        {
            Pace.AtOnce => (0, 0),
            Pace.Slow => (3 * IntervalUs, 20 * IntervalUs),
            _ => (Forever, Forever),
        };
        _options = _options with { Mode = settings.Mode, SyncIntervalUs = sync, RecordIntervalUs = record };
        _random = new(settings.Seed);
        _calm = 1 << (settings.Seed % 4);
        _log = new(new(WorldLine.First, VersionNumber.Zero, 0, 0, default));
        _machine = NewMachine();
        Connect();
    }

    /// <summary>How often each kind of thing happened: a test of the test looks at it.</summary>
    public Dictionary<string, int> Happened { get; } = [];

    private HybridTimestamp Now => HybridTimestamp.Of(_nowUs, _tickCounter++ & HybridTimestamp.CounterMax);

    public void Run()
    {
        for (int i = 0; i < _settings.Steps; i++) Step();
        // Mutants have to be caught by what they make wrong, not by getting stuck, unless that is what they do.
        if (_settings.Mutation is ShardMutation.None or ShardMutation.AwaitedSyncIsPutOff or ShardMutation.AwaitedRecordIsPutOff) Settle();
        PowerCut();
    }

    /// <summary>I8: with failures over, all that was forwarded gets committed (or was reported), and the cut goes on: by itself,
    /// or if it would be put off for ever, because it is awaited.</summary>
    private void Settle()
    {
        _store.Busy = _metadata.Down = false;
        _idle = true;
        if (_settings.Pace == Pace.Never) BeginToWait();
        WorldPoint before = _metadata.Recorded;
        for (int i = 0; i < 4000; i++)
        {
            Loop();
            foreach (ModelSession s in _sessions)
                if (s.Own is { } own) _store.Execute(own, unblock: true);
            ExecuteSome();
            StreamSome();
            SyncSome();
            MetadataSome();
            if (_sessions.TrueForAll(s => s.Progress.Committed == s.Progress.Forwarded) && _metadata.Recorded > before) return;
        }

        throw new ModelException($"I8: not all is committed long after the last failure: {_machine.StatusAt(Now)}");
    }

    private void Step()
    {
        int dice = _random.Next(1000);
        if (dice is >= 950 and < 992 && _random.Next(_calm) != 0) return;
        switch (dice)
        {
            case < 250: Loop(); break;
            case < 500: ExecuteSome(); break;
            case < 680: StreamSome(); break;
            case < 780: SyncSome(); break;
            case < 880: MetadataSome(); break;
            case < 900: Double(); break;
            case < 915: if (!_idle) _store.WriteOfSomebodyElse(); break;
            case < 918: if (_awaited) _awaited = false; else BeginToWait(); break;
            case < 925: _store.Busy = !_store.Busy && _random.Next(2) == 0; break;
            case < 935: _metadata.Down = !_metadata.Down && _random.Next(2) == 0; break;
            case < 950: _idle = !_idle; break;
            case < 962: SharedConnectionDies(); break;
            case < 970: StreamGap(); break;
            case < 978: StoreDies(); break;
            case < 984: ProxyDies(); break;
            case < 986: PowerCut(); break;
            case < 988: OrderedEnd(); break;
            case < 992: StoreUnreachableForAWhile(); break;
            default: _nowUs += _random.Next(1, 8) * IntervalUs; break;
        }
    }

    /// <summary>One turn of the front-end loop: replies, then the tick, then what clients sent.</summary>
    private void Loop()
    {
        _nowUs += _random.Next(0, 600);
        TakeReplies(_shared);
        foreach (ModelSession s in _sessions)
            if (s.Own is { } own) TakeReplies(own);
        HybridTimestamp now = Now;
        _holding |= _machine.BoundaryDue(now);
        bool drained = _sessions.TrueForAll(s => s.ExactInFlight == 0);
        if (!_holding || drained)
        {
            // While a marker is on its way the loop often has nothing to say, and keeps it for later.
            bool silent = _machine.MarkerInFlight && _random.Next(4) == 0;
            bool busy = _busy && !silent;
            _busy &= silent;
            Do(e => _machine.CommitAwaited(_awaited, e));
            Do(e => _machine.Tick(now, busy, e));
            _holding = _machine.BoundaryDue(now);
        }

        if (_random.Next(4) != 0) ForwardSome();
    }

    // As the loop does: the shard is told at once; that nobody waits any more, at the next tick.
    private void BeginToWait()
    {
        Count("awaited");
        _awaited = true;
        Do(e => _machine.CommitAwaited(true, e, _random.Next(2) == 0 ? _machine.OpenVersion : default));
    }

    private void ForwardSome()
    {
        if (!_machine.MayForward || _idle) return;
        ModelSession s = _sessions[_random.Next(_sessions.Count)];
        int count = _random.Next(1, 4);
        if (s.Own is null)
        {
            s.Forward(count, _machine.OpenVersion, _shared);
        }
        else if (s.Blocked || _random.Next(3) == 0)
        {
            s.ForwardBlocked(count, _machine.LowestVersion);
        }
        else
        {
            // Exact operations of dedicated connections wait for the marker, and for its answer.
            if (_holding || _awaitingAnswer) return;
            s.Forward(count, _machine.OpenVersion, s.Own);
        }

        _busy = true;
    }

    private void TakeReplies(ModelConnection connection)
    {
        int take = _random.Next(0, 6);
        while (take-- > 0 && connection.ToProxy.TryDequeue(out Reply reply))
        {
            if (reply.Marker is { } m)
            {
                if (_awaitingAnswer && m == _marker) _awaitingAnswer = false;
                Do(e => _machine.MarkerAnswered(m, reply.Ok, e));
            }
            else
            {
                _sessions.Find(s => s.Id == reply.Op!.Session)?.Answered(reply.Op!, _machine.OpenVersion);
                // Its upper bound is the open version, and its effect may not be in the stream yet: not an idle slot.
                _busy |= reply.Op!.OpenEnded && !_settings.UnblockedIsIdle;
            }
        }
    }

    private void ExecuteSome()
    {
        for (int n = _random.Next(1, 6); n > 0; n--)
        {
            int which = _random.Next(2 + _sessions.Count);
            bool unblock = _random.Next(3) == 0;
            if (which < 2) _store.Execute(_shared, unblock);
            else if (_sessions[which - 2].Own is { } own) _store.Execute(own, unblock);
            if (_store.Zombies.Count > 0 && _random.Next(4) == 0)
                _store.Execute(_store.Zombies[_random.Next(_store.Zombies.Count)], unblock);
        }
    }

    private void StreamSome()
    {
        if (Bgsave)
        {
            CompleteSave();
            return;
        }

        for (int n = _random.Next(1, 8); n > 0 && _streamed < _store.History.Count; n--) StreamOne();
    }

    private void StreamOne()
    {
        Command command = _store.History[(int)_streamed++];
        _log.AppendBytes(_streamed);
        long offset = _streamed;
        if (command.Marker is { } m)
        {
            _readBefore.Add((m, offset));
            int boundaries = _log.Boundaries.Count;
            Do(e => _machine.MarkerRead(m, offset, 0, e));
            if (m.WorldLine != _machine.WorldLine && _log.Boundaries.Count > boundaries)
                throw new ModelException(
                    $"I5: a marker of world-line {m.WorldLine} closed version {m.Closed} of world-line {_machine.WorldLine}");
        }
        else
        {
            _busy = true;
        }

        _machine.StreamRead(offset);
    }

    private bool Bgsave => _settings.Mode == CommitMode.Bgsave;

    /// <summary>The save on its way ends: well, or not (no memory to fork, a full disk).</summary>
    private void CompleteSave()
    {
        if (!_machine.MarkerInFlight || _awaitingAnswer || _random.Next(3) != 0) return;
        Marker save = _marker;
        bool ok = _random.Next(6) != 0;
        Do(e => _machine.SaveCompleted(save, ok, e));
    }

    private void SyncSome()
    {
        if (_syncRequested > 0 && _random.Next(2) == 0)
        {
            _durableNotes.Add(_log.Sync(_syncRequested));
            _syncRequested = 0;
        }

        // Notes arrive late, doubled, in any order.
        if (_durableNotes.Count == 0) return;
        int i = _random.Next(_durableNotes.Count);
        WorldPoint point = _durableNotes[i];
        if (_random.Next(3) != 0) _durableNotes.RemoveAt(i);
        if (_durableNotes.Count > 8) _durableNotes.RemoveAt(0);
        Do(e => _machine.LogDurable(point, e));
    }

    private void MetadataSome()
    {
        if (_recordAnswer is { } answer)
        {
            _recordAnswer = null;
            DeliverRecord(answer.Point, answer.Outcome);
        }
        else if (_recordPending is { } point)
        {
            _recordPending = null;
            RecordOutcome outcome = _metadata.Record(point);
            // Applied, and the answer lost on the way.
            if (outcome == RecordOutcome.Recorded && _random.Next(8) == 0) outcome = RecordOutcome.Unavailable;
            _recordAnswer = (point, outcome);
        }
    }

    private void DeliverRecord(WorldPoint point, RecordOutcome outcome)
    {
        switch (outcome)
        {
            case RecordOutcome.Recorded: Do(e => _machine.DurableRecorded(point, point, e)); break;
            case RecordOutcome.Refused: Do(e => _machine.RecordRefused(point, "stale world-line", e)); break;
            default: _machine.RecordUnavailable(point); break;
        }
    }

    /// <summary>Inputs that were given before, once more.</summary>
    private void Double()
    {
        if (_readBefore.Count > 0)
        {
            (Marker m, long offset) = _readBefore[_random.Next(_readBefore.Count)];
            switch (_random.Next(3))
            {
                case 0 when _machine.Mode != ShardMode.CatchingUp && m != _marker: Do(e => _machine.MarkerRead(m, offset, 0, e)); break;
                case 1 when !_awaitingAnswer: Do(e => _machine.MarkerAnswered(m, true, e)); break;
                default: if (m != _marker || !_awaitingAnswer) Do(e => _machine.MarkerLost(m, e)); break;
            }
        }

        Do(e => _machine.CutAdvanced(_metadata.Recorded with { Version = _metadata.Recorded.Version.Previous }, e));
    }

    private void Do(Action<ShardEffects> input)
    {
        _effects.Clear();
        input(_effects);
        foreach (ShardEffect effect in _effects.Items.ToArray()) Perform(effect);
        if (_machine.OpenVersion < _openBefore)
            throw new ModelException($"I5: the open version went back from {_openBefore} to {_machine.OpenVersion}");
        _openBefore = _machine.OpenVersion;
    }

    private void Perform(in ShardEffect effect)
    {
        Count(effect.Kind.ToString());
        switch (effect.Kind)
        {
            case ShardEffectKind.SendMarker:
            case ShardEffectKind.StartSave:
                _marker = effect.Marker;
                if (_awaitingAnswer) throw new ModelException("a second marker was sent while one is on its way");
                _awaitingAnswer = true;
                _shared.ToStore.Enqueue(new(null, effect.Marker));
                break;
            case ShardEffectKind.AppendBoundary when Bgsave: _log.AppendRun(effect.Boundary with { Offset = _store.Saves[_marker] }); break;
            case ShardEffectKind.AppendBoundary: _log.AppendBoundary(effect.Boundary); break;
            case ShardEffectKind.AppendEmptyRun: _log.AppendRun(effect.Boundary with { Offset = _log.Last.Offset }); break;
            case ShardEffectKind.RequestSync: _syncRequested = _log.Appended; break;
            case ShardEffectKind.RecordDurable:
                if (_recordPending is not null || _recordAnswer is not null)
                    throw new ModelException("a second record while one is on its way");
                if (effect.Point.Version > _log.DurablePoint.Version)
                    throw new ModelException($"I2: {effect.Point} is to be recorded, durable is {_log.DurablePoint}");
                _recordPending = effect.Point;
                break;
            case ShardEffectKind.Committed: OnCommitted(effect.Point); break;
            case ShardEffectKind.Stopped: _stopped = true; break;
            case ShardEffectKind.Violation: throw new ModelException(effect.Text!);
            default: throw new ModelException($"unexpected {effect.Kind}");
        }
    }

    private void OnCommitted(WorldPoint point)
    {
        if (point.WorldLine != _metadata.Recorded.WorldLine)
            throw new ModelException($"I5: {point} reported committed in world-line {_metadata.Recorded.WorldLine}");
        if (point > _metadata.Recorded) throw new ModelException($"I2: {point} reported committed, recorded is {_metadata.Recorded}");
        foreach (ModelSession s in _sessions) s.OnCommitted(point, _everCommitted);
    }

    private void Count(string what) => Happened[what] = Happened.GetValueOrDefault(what) + 1;

    private ShardMachine NewMachine() =>
        new(_options, new(_grid, _log.Last, _metadata.Recorded, _metadata.Recorded, Now), _settings.Mutation);

    private void Connect()
    {
        _shared = new();
        _awaitingAnswer = _holding = false;
        _sessions = [];
        for (int i = 0; i < SharedSessions + DedicatedSessions; i++)
            _sessions.Add(new(_nextSession++, new(_machine.WorldLine, _settings.Entries, _settings.SessionMutation),
                i < SharedSessions ? null : new()));
        _openBefore = _machine.OpenVersion;
        _machine.Attached(_log.End, _store.History.Count);
    }

    private int _nextSession = 1;
}
