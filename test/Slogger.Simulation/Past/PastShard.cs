// One shard of a case: its process, with the real ShardMachine and ResetHold, its store, and its log on a disk. What keeps and reads the
// past is in the other parts of this type.
using Slogger.Core.Cuts;
using Slogger.Core.Resets;
using Slogger.Core.Retention;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Past;

/// <summary>What is on its way to the store, in order.</summary>
/// <param name="Marker">A marker; null: a command.</param>
/// <param name="Op">The command.</param>
/// <param name="Label">The version in which it was handed on.</param>
/// <param name="Client">Who waits for its reply; null: nobody.</param>
internal sealed record PastSent(Marker? Marker, PastOp Op, VersionNumber Label, PastClient? Client)
{
    public long SentUs { get; init; } = -1;

    public long HandedOnUs { get; init; }

    public bool IsOfMove { get; init; }
}

internal sealed partial class PastShard
{
    private readonly PastWorld _world;
    private readonly long _skewUs;
    private readonly Dictionary<int, (int Value, long ExpiresMs)> _store = [];
    private readonly Queue<PastSent> _sent = new();
    private readonly List<PastOp> _missed = [];
    private readonly ShardEffects _effects = new();
    private ShardMachine? _machine;
    private HybridTimestamp _now;
    private DurableClaim? _recording;
    private Marker? _unanswered;
    private bool _isBusy, _isLinkLost;
    private long _endsUs;
    private int _syncTo;
    private long _resetEnd = -1;        // behind the last write of a reset, in the present history
    private bool _isTakenOver;          // by another node, which need not go back to the cut

    public PastShard(PastWorld world, int index, long skewUs)
    {
        (_world, Index, _skewUs) = (world, index, skewUs);
        Hold = new(world.Settings.Reset);
        _holds = new(world.HoldMs, world.Settings.Past);
        AddCheckpoint();
        Start();
    }

    public int Index { get; }

    public PastLog Log { get; } = new();

    public PastOracle Oracle { get; } = new();

    /// <summary>Its part in a reset.</summary>
    public ResetHold Hold { get; private set; }

    public bool IsUp { get; private set; }

    /// <summary>Of which process it is: another one remembers nothing.</summary>
    public int Life { get; private set; }

    /// <summary>The world-line that it is in.</summary>
    public WorldLine Line => Log.Last.WorldLine;

    /// <summary>The cut that it knows.</summary>
    public WorldPoint KnownCut => _machine?.Committed ?? default;

    public bool IsServing => IsUp && _machine is { MayForward: true };

    public bool IsMarkerOnItsWay => _machine is { MarkerInFlight: true };

    public VersionNumber Open => _machine?.OpenVersion ?? VersionNumber.Zero;

    /// <summary>Nothing is on its way to the store, and nobody waits for a reply.</summary>
    public bool IsQuiet => !_sent.Any(s => s.Marker is null);

    public DurableClaim? Claim => _machine is { } machine ? machine.ClaimOf(machine.Durable) : null;

    public IReadOnlyDictionary<int, (int Value, long ExpiresMs)> Store => _store;

    public bool Sends(int key) => _sent.Any(s => s.Marker is null && s.Op.Key == key);

    public override string ToString() => $"shard {Index}: {(IsUp ? _machine?.Mode.ToString() : "down")}, line {Line}, open {Open}, "
        + $"durable {Log.Durable}, cut {KnownCut}, log {Log.Start}..{Log.End}";

    // ---- Time ----

    /// <summary>By its clock, which differs from the others' by some error: a later time at each call.</summary>
    public HybridTimestamp Now()
    {
        var now = HybridTimestamp.Of(_world.NowUs + _skewUs, 0);
        return _now = now > _now ? now : HybridTimestamp.Of(_now.Microseconds, _now.Counter + 1);
    }

    /// <summary>A version ends, if its time is over: as the front end asks.</summary>
    public void Pulse()
    {
        if (!IsServing || Hold.IsFrozen) { return; }
        HybridTimestamp now = Now();
        if (now.Microseconds < _endsUs || !Hold.MayClose(_machine!.ClosableAt(now))) { return; }
        bool isBusy = _isBusy;
        _isBusy = false;
        if (isBusy) { _machine.Forwarded(); }
        Do(e => _machine.Tick(Now(), isBusy, e));
        AskEnd();
    }

    private void AskEnd() => _endsUs = _machine is { Mode: ShardMode.Running } ? _machine.NextBoundaryUs(Now()) : long.MaxValue;

    /// <summary>A later version opens, since a client has seen it elsewhere.</summary>
    public void FastForward(VersionNumber version)
    {
        var opens = HybridTimestamp.Of(_world.Grid.StartOf(version), 0);
        if (opens > _now) { _now = opens; }
        _machine!.FastForward(version);
        AskEnd();
        Pulse();
    }

    // ---- What clients, moves and resets do ----

    /// <summary>Hands a command on.</summary>
    public void Send(in PastOp op, PastClient? client, bool isOfMove = false)
    {
        Pulse();
        if (client is not null && _resetEnd > (Log.AtOrBelow(_world.Cut.Version)?.Offset ?? 0))
        {
            throw new SimException($"R5: a client is served at shard {Index} on what a reset has written, which is in no cut");
        }
        _isBusy = true;
        _sent.Enqueue(new(null, op, Open, client)
        {
            SentUs = client is null ? -1 : _world.NowUs, HandedOnUs = Now().Microseconds, IsOfMove = isOfMove,
        });
    }

    /// <summary>A write of a reset, over a connection of its own.</summary>
    public void WriteReset(in PastOp op)
    {
        _isBusy = true;
        // A copy of a move that was given up is nobody's.
        Execute(op, new(op, OwnLabel, _world.NextOrder())
        {
            HandedOnUs = Now().Microseconds, IsOfMove = _world.Owners[op.Key] != Index,
        });
        _resetEnd = Log.End + _missed.Count;
    }

    /// <summary>The store deletes keys that have expired.</summary>
    public void Expire()
    {
        long nowMs = (_world.NowUs + _skewUs) / 1000;
        int[] expired = [.. _store.Where(k => k.Value.ExpiresMs > 0 && k.Value.ExpiresMs < nowMs).Select(k => k.Key)];
        foreach (int key in expired)
        {
            Pulse();
            _isBusy = true;
            Execute(new(key, 0), new(new(key, 0), OwnLabel, _world.NextOrder()) { HandedOnUs = Now().Microseconds, IsExpiry = true });
            _world.Count("expired");
        }
    }

    // What the store does by itself is in front of the marker that it has not executed.
    private VersionNumber OwnLabel => _sent.FirstOrDefault(s => s.Marker is not null)?.Marker?.Closed ?? Open;

    // ---- The store ----

    /// <summary>The store executes what has come first.</summary>
    public void ExecuteNext()
    {
        if (_unanswered is { } before)
        {
            _unanswered = null;
            Do(e => _machine!.MarkerAnswered(before, ok: true, e));
            AskEnd();
            return;
        }
        if (!_sent.TryDequeue(out PastSent? next)) { return; }
        if (next.Marker is { } marker)
        {
            Stream(PastOp.Nothing);
            if (!_isLinkLost) { Do(e => _machine!.MarkerRead(marker, Log.End, 0, e)); }
            _unanswered = marker;
            if (_world.Dice(2)) { ExecuteNext(); }
            return;
        }
        var done = new PastDone(next.Op, next.Label, _world.NextOrder())
        {
            SentUs = next.SentUs, HandedOnUs = next.HandedOnUs, IsOfMove = next.IsOfMove,
        };
        Execute(next.Op, done);
        if (next.Client is { } client)
        {
            // Whoever hears of it finds no shard in an earlier version.
            done.AnsweredUs = Math.Max(_world.NowUs, _world.Grid.StartOf(done.Label) + _world.ClockErrorUs - _skewUs);
            client.OnAnswered(done, Line);
        }
    }

    private void Execute(in PastOp op, PastDone done)
    {
        PastOracle.Apply(_store, op);
        Oracle.Add(done);
        Stream(op);
    }

    private void Stream(in PastOp op)
    {
        if (_isLinkLost) { _missed.Add(op); } else { Log.Append(op); }
    }

    /// <summary>The log hears nothing of the store any more.</summary>
    public void LoseLink() => _isLinkLost |= IsServing;

    /// <summary>The log goes on from a checkpoint of the store, since what it has missed is gone.</summary>
    public void GoOnBehindGap()
    {
        if (!_isLinkLost || !IsUp) { return; }
        _isLinkLost = false;
        if (_missed.Count == 0) { return; }
        PastOp[] missed = [.. _missed];
        _missed.Clear();
        AddCheckpoint(Log.End + missed.Length);
        // The process may die between the two: then it goes back to what is committed.
        if (_world.Dice(4))
        {
            _world.Count("died before a gap");
            Die(isPowerCut: _world.Dice(2));
            return;
        }
        Log.BeginGap(missed);
        Oracle.OnGap(Log.End);
        _machine!.StreamRestarted(Log.End);
        _world.Count("gaps");
        AskEnd();
    }

    // ---- What becomes durable, and is recorded ----

    public void Sync()
    {
        if (!IsUp || _machine is null || _syncTo <= Log.DurableRecords) { return; }
        if (_world.Settings.Sim != PastSimMutation.SyncForgotten) { Log.Sync(_syncTo); }
        WorldPoint durable = _world.Settings.Sim == PastSimMutation.SyncForgotten ? Log.Last.Point : Log.Durable;
        if (durable.WorldLine == _machine.WorldLine) { Do(e => _machine.LogDurable(durable, e)); }
    }

    public void Record()
    {
        if (!IsUp || _recording is not { } claim) { return; }
        _recording = null;
        if (_world.Record(Index, claim)) { Do(e => _machine!.DurableRecorded(claim.Point, _world.Cut, e)); }
        else { _machine!.WorldLineLeft(claim.Point); }
    }

    public void HearCut()
    {
        if (IsUp && _world.Cut.WorldLine == Line) { Do(e => _machine!.CutAdvanced(_world.Cut, e)); }
    }

    private void Do(Action<ShardEffects> input)
    {
        _effects.Clear();
        input(_effects);
        foreach (ShardEffect effect in _effects.Items.ToArray()) { Perform(effect); }
    }

    private void Perform(in ShardEffect effect)
    {
        switch (effect.Kind)
        {
            case ShardEffectKind.SendMarker:
                _sent.Enqueue(new(effect.Marker, default, default, null));
                _world.Count("markers");
                break;
            case ShardEffectKind.AppendBoundary:
                Log.AppendBoundary(effect.Boundary);
                OnClosed(effect.Boundary, effect.Boundary.Version);
                if (_machine!.Stride > 1) { _world.Count("closed by a stride"); }
                break;
            case ShardEffectKind.AppendEmptyRun:
                VersionNumber from = Log.Last.Offset == effect.Boundary.Offset ? Log.Last.Version.Next : effect.Boundary.Version;
                Log.AppendRun(effect.Boundary);
                OnClosed(effect.Boundary, from);
                break;
            case ShardEffectKind.RequestSync:
                _syncTo = Log.Appended;
                break;
            case ShardEffectKind.RecordDurable:
                _recording = effect.Claim;
                break;
            case ShardEffectKind.Violation:
                throw new SimException($"I1: {effect.Text}");
        }
    }

    private void OnClosed(in Boundary end, VersionNumber from)
    {
        Oracle.OnClosed(from, end.Version, end.Offset);
        Hold.OnBoundary(end.Version);
    }

    // ---- Lives and world-lines ----

    /// <summary>The process ends, or the whole machine.</summary>
    public void Die(bool isPowerCut)
    {
        if (!IsUp) { return; }
        _world.Count(isPowerCut ? "power cuts" : "processes killed");
        IsUp = false;
        if (isPowerCut)
        {
            Log.PowerCut(_world.Random);
            if (_world.Claims[Index].Point is var said && said.WorldLine == Line && Log.Durable.Version < said.Version)
            {
                throw new SimException($"R7: shard {Index} has said that {said} is durable, and has {Log.Durable}");
            }
            LoseFiles();
        }
        _machine = null;
        ForgetConnections();
        Hold = new(_world.Settings.Reset);
        ForgetPast();
    }

    /// <summary>The leader of its cohort ends. Another node is to lead, with what a majority has of the log, and maybe more. If all that
    /// clients were told is in the cut it loses nothing of that, and goes on in the same world-line.</summary>
    public void LoseLeader()
    {
        if (!IsUp) { return; }
        _isTakenOver = Hold.IsHeld && Hold.IsCovered(KnownCut);
        _world.Count("leaders lost in a reset");
        Die(isPowerCut: true);
    }

    /// <summary>A process begins: what was not durable is lost, so the cluster goes back to the cut. One that takes over may go
    /// on.</summary>
    public void Start()
    {
        if (IsUp) { return; }
        (IsUp, Life) = (true, Life + 1);
        OpenPast();
        if (_world.Line == Line && Life > 1)
        {
            if (_isTakenOver && !Hold.BeginsWithWorldLine(_world.Marks[Index], Line)) { GoOn(); }
            else { _world.BeginWorldLine(Index, null); }
        }
        _isTakenOver = false;
        if (Life == 1) { Begin(Log.Last); }
    }

    // Where the log ends. What lies behind the last version's end is of a version that nobody had closed.
    private void GoOn()
    {
        Log.RewindToLast();
        // It would be of what is void.
        _checkpoints.RemoveAll(c => c.Line == Line && c.Offset > Log.End);
        Oracle.OnBranch(Log.Last.Version, Log.Last.Offset);
        if (_resetEnd > Log.End) { _resetEnd = -1; }
        Restore(Log.End);
        _machine = new(_world.ShardOptions, new(_world.Grid, Log.Last, _world.Claims[Index].Point, _world.Cut, Now()));
        _machine.Attached(Log.End, Log.End);
        AskEnd();
        _world.Count("takeovers in the same world-line");
    }

    /// <summary>Begins a world-line, since a reset may have written something. Nothing more is claimed, so that what it says is not less
    /// than what is.</summary>
    public void EndByWorldLine()
    {
        DurableClaim claim = Claim!.Value;
        _machine!.StoreLost();
        _world.BeginWorldLine(Index, claim);
    }

    /// <summary>Goes back to where the present world-line branched off.</summary>
    public void EnterLine()
    {
        if (!IsUp || Line == _world.Line) { return; }
        VersionNumber version = _world.Branch;
        if (Log.Exactly(version) is not { } end)
        {
            throw new SimException($"I1: shard {Index} cannot be restored to version {version} of the cut; it ends at {Log.Last.Point}");
        }
        Boundary branch = end with { WorldLine = _world.Line };
        Log.BeginWorldLine(branch);
        Oracle.OnBranch(version, branch.Offset);
        if (_resetEnd > branch.Offset) { _resetEnd = -1; }
        ForgetConnections();
        Hold.End();
        Restore(branch.Offset);
        Begin(branch);
        _world.Count("rollbacks");
    }

    private void Begin(in Boundary branch)
    {
        if (_machine is { } machine)
        {
            Boundary to = branch;
            Do(e => machine.WorldLineStarted(to.WorldLine, to, e));
        }
        else
        {
            _machine = new(_world.ShardOptions, new(_world.Grid, branch, branch.Point, branch.Point, Now()));
        }
        _machine!.Attached(Log.End, Log.End);
        AskEnd();
    }

    private void Restore(long offset)
    {
        PastCheckpoint from = Latest(offset) ?? throw new SimException($"R3: shard {Index} has no checkpoint to restore {offset} from");
        _store.Clear();
        foreach ((int key, (int, long) value) in from.Content) { _store[key] = value; }
        for (long at = from.Offset; at < offset; at++)
        {
            PastOp op = Log[at];
            if (op.Key >= 0) { PastOracle.Apply(_store, op); }
        }
    }

    private void ForgetConnections()
    {
        foreach (PastSent sent in _sent) { sent.Client?.OnCut(); }
        _sent.Clear();
        _missed.Clear();
        (_recording, _unanswered, _isBusy, _isLinkLost, _syncTo, _endsUs) = (null, null, false, false, 0, 0);
    }
}
