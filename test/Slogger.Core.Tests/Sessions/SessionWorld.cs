// Several sessions over several shards in a seeded world: the real ClientSession and BatchGate between toy shards, a toy
// finder and recovery manager, with everything that can be late, lost, doubled or out of order being so at random. What is
// checked is in SessionWorld.Checks.cs.
using Slogger.Core.Recovery;
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Tests.Model;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Sessions;

internal enum CutKind
{
    /// <summary>One version for all shards; clocks far apart.</summary>
    Grid,

    /// <summary>One version for all shards; clocks within the error bound, replies held: order in real time is kept.</summary>
    RealTime,

    /// <summary>One version for each shard, from the dependencies in the headers.</summary>
    Exact,
}

internal sealed record SessionWorldSettings
{
    public required int Seed { get; init; }
    public int Steps { get; init; } = 400;
    public CutKind Cuts { get; init; }
    public bool Strict { get; init; }
    public int RunsMax { get; init; } = 1000;
    public ClientMutation Mutation { get; init; }
    public GateMutation GateMutation { get; init; }

    /// <summary>A fault of the caller: replies leave at once.</summary>
    public bool RepliesAreNotHeld { get; init; }
}

internal sealed partial class SessionWorld
{
    private const int Shards = 3;
    private const int Sessions = 3;
    private const long IntervalUs = 1000;
    private const long ClockErrorUs = 400;

    private readonly SessionWorldSettings _settings;
    private readonly Random _random;
    private readonly VersionGrid _grid = new(new(1), 1_000_000, IntervalUs);
    private readonly BatchGate _gate;
    private readonly WorldMetadata _metadata = new(Shards);
    private readonly WorldShard[] _shards = [.. Enumerable.Range(0, Shards).Select(s => new WorldShard(s))];
    private readonly WorldSession[] _sessions;
    private readonly int _calm;
    private long _nowUs = 1_000_500;
    private long _tick;

    public SessionWorld(SessionWorldSettings settings)
    {
        _settings = settings;
        _random = new(settings.Seed);
        _calm = 1 << (settings.Seed % 4);
        _gate = new(new() { ClockErrorUs = ClockErrorUs, RemoteAheadMaxUs = 20 * IntervalUs }, settings.GateMutation);
        foreach (WorldShard shard in _shards)
            shard.SkewUs = settings.Cuts == CutKind.RealTime ? _random.Next(2) * ClockErrorUs
                : _random.NextInt64((1 + (settings.Seed % 3)) * IntervalUs);
        ClientSessionOptions options = new()
        {
            WindowMax = 20,
            RunsMax = settings.RunsMax,
            Strict = settings.Strict,
            TrackDependencies = settings.Cuts == CutKind.Exact,
        };
        _sessions = [.. Enumerable.Range(0, Sessions)
            .Select(i => new WorldSession(i, new(new((UInt128)i), WorldLine.First, options, settings.Mutation), Shards))];
    }

    /// <summary>How often each kind of thing happened: a test of the test looks at it.</summary>
    public Dictionary<string, int> Happened { get; } = [];

    public void Run()
    {
        for (int i = 0; i < _settings.Steps; i++) Step();
        Settle();
    }

    private void Count(string what) => Happened[what] = Happened.GetValueOrDefault(what) + 1;

    private void Step()
    {
        _tick++;
        WorldShard shard = _shards[_random.Next(Shards)];
        WorldSession session = _sessions[_random.Next(Sessions)];
        switch (_random.Next(100))
        {
            // a round trip fits into the clocks' error
            case < 12: _nowUs += _random.Next(_settings.Cuts == CutKind.RealTime ? 200 : 600); break;
            case < 20: CloseByClock(shard); break;
            case < 40: Begin(session, _random.Next(Shards)); break;
            case < 60: Serve(shard); break;
            case < 76: Deliver(session, _random.Next(Shards)); break;
            case < 84: Sync(shard); break;
            case < 90: RecordCut(); break;
            case < 94: TellCut(session); break;
            case < 96: Recover(shard); break;
            case < 98: if (Misfortune()) LoseConnection(session, shard.Number); break;
            case 98: if (Misfortune()) Crash(shard); break;
            default: if (Misfortune()) NotifyOfNewest(session); break;
        }
    }

    private bool Misfortune() => _random.Next(_calm) == 0;

    private long ClockUs(WorldShard shard) => _nowUs + shard.SkewUs;

    private void CloseByClock(WorldShard shard)
    {
        if (!shard.IsDown) shard.Open = VersionNumber.Max(shard.Open, _grid.VersionAt(ClockUs(shard)));
    }

    private void Begin(WorldSession s, int shard)
    {
        int count = _random.Next(1, 5);
        if (!s.Client.TryBegin(new(shard), count, out BatchHeader header))
        {
            Count("full");
            return;
        }

        // The header's memory is the session's: it is sent by copying it.
        header = header with { Dependencies = header.Dependencies.ToArray() };
        WorldOp[] ops = new WorldOp[count];
        for (int i = 0; i < count; i++)
        {
            ops[i] = new() { Session = s.Number, Sequence = header.First.Number + i, Shard = shard, Begun = _tick,
                Line = header.WorldLine };
            s.Ops.Add(ops[i]);
        }

        s.Connections[shard].ToShard.Enqueue(new(header, ops));
    }

    /// <summary>The shard looks at the next batch of some connection.</summary>
    private void Serve(WorldShard shard)
    {
        if (shard.IsDown) return;
        if (_settings.Cuts == CutKind.RealTime) CloseByClock(shard); // the clock is read after the receive
        int n = _random.Next(Sessions + shard.Zombies.Count);
        WorldSession? session = n < Sessions ? _sessions[n] : null;
        WorldConnection connection = session?.Connections[shard.Number] ?? shard.Zombies[n - Sessions];
        if (!connection.ToShard.TryPeek(out WorldBatch? batch)) return;
        WorldLineBranch[] branches = [.. _metadata.Branches.Where(b => b.Line <= shard.Line)
            .Select(b => new WorldLineBranch(b.Line, b.Branch[0]))];
        GateDecision d = _gate.Decide(batch.Header, new(shard.Line, shard.Open, _grid, branches), HybridTimestamp.Of(ClockUs(shard), 0));
        Count(d.Verdict.ToString());
        switch (d.Verdict)
        {
            case GateVerdict.WaitUntil or GateVerdict.WaitForWorldLine:
                return;
            case GateVerdict.RefuseAhead:
                throw new ModelException($"shard {shard.Number} refused version {batch.Header.AtLeast} as too far ahead of {shard.Open}");
            case GateVerdict.Rollback:
                connection.ToShard.Dequeue();
                if (session is null) return;
                if (batch.Header.WorldLine < session.Client.WorldLine) Count("late refusal");
                if (_settings.Cuts == CutKind.Exact)
                    Notify(session, batch.Header.WorldLine, shard.Line, _metadata.Kept(batch.Header.WorldLine, shard.Line));
                else Notify(session, batch.Header.WorldLine, d.Branch.WorldLine, [d.Branch.Version]);
                return;
            case GateVerdict.FastForward:
                shard.Open = VersionNumber.Max(shard.Open, d.Version);
                break;
        }

        connection.ToShard.Dequeue();
        Execute(shard, batch, connection);
    }

    private void Execute(WorldShard shard, WorldBatch batch, WorldConnection connection)
    {
        VersionRun[] runs = new VersionRun[batch.Ops.Length];
        for (int i = 0; i < runs.Length; i++)
        {
            if (i > 0 && _random.Next(8) == 0) CloseByClock(shard);
            WorldOp op = batch.Ops[i];
            (op.Version, op.ExecutedIn) = (shard.Open, shard.Line);
            runs[i] = new(1, shard.Open);
            if (op.Told == Fate.Lost && _metadata.Holds(op))
                throw new ModelException($"I5: reported as lost, but executed afterwards: {op}");
        }

        foreach (Dependency on in batch.Header.Dependencies.Span) shard.Rows.Add((runs[0].Version, on));
        (WorldLine line, VersionNumber[] cut) = AnyCut();
        BatchReply reply = BatchGate.ReplyFor(batch.Header, runs, new(line, cut.Min()));
        long leavesUs = _settings.RepliesAreNotHeld ? 0 : _gate.HoldReplyUntil(shard.Open, _grid).Microseconds - shard.SkewUs;
        connection.ToSession.Add(new(batch.Header.First, batch.Ops, reply, leavesUs));
    }

    /// <summary>Replies arrive in any order, or twice, or never.</summary>
    private void Deliver(WorldSession s, int shard)
    {
        List<WorldReply> replies = s.Connections[shard].ToSession;
        if (replies.Count == 0) return;
        int n = _random.Next(replies.Count);
        WorldReply reply = replies[n];
        if (_settings.Cuts == CutKind.RealTime && reply.LeavesUs > _nowUs) return;
        int dice = _random.Next(30);
        if (dice != 0) replies.RemoveAt(n);
        if (dice == 1) return;
        Receive(s, shard, reply);
    }

    private void Sync(WorldShard shard)
    {
        if (!shard.IsDown && shard.Line == _metadata.Line)
            shard.Durable = new(_random.NextInt64(shard.Durable.Number, shard.Open.Number));
    }

    private void RecordCut()
    {
        VersionNumber[] cut = Provable();
        CheckClosed(cut);
        Count("cut");
        _metadata.Record(cut);
    }

    /// <summary>The largest cut that the durable versions allow. A shard that is not in the current world-line yet counts as
    /// its branch.</summary>
    private VersionNumber[] Provable()
    {
        VersionNumber[] cut = [.. _shards.Select(s => s.Line == _metadata.Line ? s.Durable : _metadata.Cut[s.Number])];
        if (_settings.Cuts != CutKind.Exact)
        {
            Array.Fill(cut, cut.Min());
            return cut;
        }

        for (bool changed = true; changed;)
        {
            changed = false;
            foreach (WorldShard shard in _shards)
                foreach ((VersionNumber version, Dependency on) in shard.Rows)
                    if (version <= cut[shard.Number] && on.Version > cut[on.Shard.Number])
                    {
                        cut[shard.Number] = version.Previous;
                        changed = true;
                    }
        }

        return cut;
    }

    private (WorldLine Line, VersionNumber[] Cut) AnyCut() =>
        _metadata.Recorded[_random.Next(Math.Max(0, _metadata.Recorded.Count - 4), _metadata.Recorded.Count)];

    private void TellCut(WorldSession s)
    {
        (WorldLine line, VersionNumber[] cut) = AnyCut();
        if (_settings.Cuts == CutKind.Exact) s.Client.OnCommitted(line, cut);
        else s.Client.OnCommitted(new WorldPoint(line, cut[0]));
        s.Learn(line, cut);
        Check(s);
    }

    private void LoseConnection(WorldSession s, int shard)
    {
        Count("connection lost");
        if (s.Connections[shard].ToShard.Count > 0) _shards[shard].Zombies.Add(s.Connections[shard]);
        s.Connections[shard] = new();
        List<SequenceRange> uncertain = [];
        s.Client.OnConnectionLost(new(shard), uncertain);
        CheckUncertain(s, shard, uncertain);
        Check(s);
    }

    /// <summary>A shard dies: it and its connections forget all that is not durable, and a new world-line starts.</summary>
    private void Crash(WorldShard shard)
    {
        Count("crash");
        if (_metadata.Branches.Count > 0 && _shards.Any(s => s.Line < _metadata.Line)) Count("crash during recovery");
        shard.IsDown = true;
        shard.Zombies.Clear();
        foreach (WorldSession s in _sessions)
        {
            s.Connections[shard.Number].ToShard.Clear();
            LoseConnection(s, shard.Number);
        }

        VersionNumber[] branch = _random.Next(2) == 0 ? _metadata.Cut : Provable();
        _metadata.BeginWorldLine(branch);
        CheckClosed(branch);
        CheckCommittedHeld();
    }

    /// <summary>A shard follows into the newest world-line: its store goes back to the branch.</summary>
    private void Recover(WorldShard shard)
    {
        if (shard.Line == _metadata.Line) return;
        VersionNumber kept = _metadata.Kept(shard.Line, _metadata.Line)[shard.Number], branch = _metadata.Branches[^1].Branch[shard.Number];
        shard.Rows.RemoveAll(r => r.Version > kept);
        shard.Line = _metadata.Line;
        shard.Durable = branch;
        // Only a process that lived through it knows how far it had gone ahead of its clock.
        VersionNumber open = shard.IsDown ? VersionNumber.Zero : shard.Open;
        shard.Open = VersionNumber.Max(VersionNumber.Max(open, branch.Next), _grid.VersionAt(ClockUs(shard)));
        shard.IsDown = false;
    }

    /// <summary>A session hears of a world-line, with the branch (of all shards, or of each) since an older one.</summary>
    private void Notify(WorldSession s, WorldLine since, WorldLine line, VersionNumber[] branch)
    {
        bool fresh = since == s.Client.WorldLine && line > since;
        ClientRollback? rollback = branch.Length == 1
            ? s.Client.OnRollback(since, new WorldPoint(line, branch[0]))
            : s.Client.OnRollback(since, line, branch);
        if (rollback is not null) CheckRollback(s, rollback, branch);
        else if (fresh) throw new ModelException($"I5: session {s.Number} ignores world-line {line}");
    }

    private void NotifyOfNewest(WorldSession s)
    {
        VersionNumber[] kept = _metadata.Kept(s.Client.WorldLine, _metadata.Line);
        Notify(s, s.Client.WorldLine, _metadata.Line, _settings.Cuts == CutKind.Exact ? kept : kept[..1]);
    }

    /// <summary>I8: with failures over, every operation is committed, or was reported as lost or uncertain.</summary>
    private void Settle()
    {
        foreach (WorldShard shard in _shards) Recover(shard);
        for (int round = 0; round < 60; round++)
        {
            _nowUs += IntervalUs;
            foreach (WorldShard shard in _shards)
            {
                CloseByClock(shard);
                for (int n = 0; n < 10; n++) Serve(shard);
                shard.Durable = shard.Open.Previous;
            }

            foreach (WorldSession s in _sessions)
            {
                NotifyOfNewest(s);
                for (int shard = 0; shard < Shards; shard++)
                {
                    if (round == 40) LoseConnection(s, shard); // the client's patience ends: replies were lost
                    for (int n = 0; n < 10; n++) Deliver(s, shard);
                }
            }

            RecordCut();
            foreach (WorldSession s in _sessions) TellNewestCut(s);
        }

        foreach (WorldSession s in _sessions) CheckAllTold(s);
    }

    private void TellNewestCut(WorldSession s)
    {
        (WorldLine line, VersionNumber[] cut) = _metadata.Recorded[^1];
        s.Client.OnCommitted(line, cut);
        s.Learn(line, cut);
        Check(s);
    }
}
