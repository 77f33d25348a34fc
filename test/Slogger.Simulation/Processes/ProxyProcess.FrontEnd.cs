// The front end of a proxy: one loop that takes replies, closes versions and forwards what clients sent.
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Clients;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    private readonly List<SessionLink> _sessions = [];
    private readonly List<PlainLink> _plains = [];
    private readonly VersionGate _front;     // the real one
    private StoreConnection? _shared;
    private int _sharedInFlight;
    private Marker _marker;
    private StoreConnection? _lostCarrier;      // the marker was on it, and may be executed yet
    private bool _marked;            // the machine has given a marker
    private HybridTimestamp? _changedAt;       // the store was written to past the front end, and the machine is not told of that
    private bool _rests, _onlyPasses;
    private bool _isOpen;            // clients are served
    private bool _awaited;
    private readonly Queue<Action> _posted = [];     // for the loop, in order
    private long _openings;

    public bool IsOpen => _isOpen && !IsDead;

    /// <summary>For a trace.</summary>
    public string Describe() =>
        $"{Name}, epoch {Epoch}{(IsDead ? ", dead" : "")}{(IsRunning ? "" : ", stopped")}{(_isSuspect ? ", suspects its store" : "")}, "
        + $"open {_isOpen}, {_machine?.Mode} in {_machine?.WorldLine} at {_machine?.OpenVersion}, "
        + $"clock at {_machine?.Grid.VersionAt(_clock.Last.Microseconds)}, last boundary {_machine?.LastBoundary.Point}, marker in flight "
        + $"{_machine?.MarkerInFlight} {_front.IsMarkerInFlight}, holds {_front.HoldsDedicated}"
        + string.Concat(_plains.Where(p => p.Own is not null)
        .Select(p => $", plain client {p.Client.Number}: {p.Own!.ToStore.Count} sent, {p.Own.ToProxy.Count} answered, {p.Held.Count} "
            + $"held, dead {p.Own.IsDead}"));

    public SessionLink Accept(SessionClient client)
    {
        SessionLink link = new(client, this);
        _sessions.Add(link);
        return link;
    }

    public PlainLink Accept(PlainClient client)
    {
        PlainLink link = new(Cluster.NewLinkId(), client, this, new(_machine!.WorldLine, 1024, _settings.Session));
        if (client.IsDedicated) link.Own = _host.Store.Connect(Epoch);
        _plains.Add(link);
        return link;
    }

    /// <summary>A client has closed its connection; what of it is in the store's queue is executed all the same.</summary>
    public void Forget(SessionLink link) => _sessions.Remove(link);

    public void Forget(PlainLink link)
    {
        _plains.Remove(link);
        if (link.Own is not { } own) return;
        // Nobody waits for its answers any more.
        ForgetExact(link);
        GiveUp(own);
        _inFlight.RemoveAll(op => op.Via == link);
    }

    /// <summary>One turn.</summary>
    public void Loop(Random random)
    {
        // Behind the last version nothing is answered any more.
        if (!IsRunning || _machine is null || _isStopped) return;
        ReadAndServe(random);
        while (!IsDead && _posted.TryDequeue(out Action? action)) action();
    }

    private void Post(Action action) => _posted.Enqueue(action);

    // Lets clients in, unless something is suspected, or was before the loop came to it.
    private void PostOpening(Boundary? rolledBack)
    {
        long? opening = _isSuspect ? null : ++_openings;
        Post(() =>
        {
            if (rolledBack is { } branch) RollBack(branch);
            if (opening == _openings) _isOpen = !_isLeaving && !_isStopping;
        });
    }

    private void ShutFrontEnd()
    {
        _openings++;
        _isOpen = false;
    }

    private void ReadAndServe(Random random)
    {
        if (_shared is not { } shared) return;
        if (_rests && MayRest && _posted.Count == 0 && !Cluster.Dice(6)) return;
        // What disturbs it is noticed a moment later.
        if (_rests && Cluster.Dice(2)) return;
        if (_rests) Wake();
        if (shared.IsDead || _plains.Exists(p => p.Own is { IsDead: true }))
        {
            UpstreamLost();
            Suspect();
            return;
        }

        if (Cluster.NowUs >= _front.RepliesHeldUntilUs)
        {
            TakeReplies(shared, random.Next(6));
            foreach (PlainLink p in _plains)
                if (p.Own is { } own) TakeReplies(own, random.Next(4));
        }

        Turn();
        if (_sessions.Count > 0 && IsOpen) Serve(_sessions[random.Next(_sessions.Count)]);
        if (_plains.Count > 0 && IsOpen) Serve(_plains[random.Next(_plains.Count)], random);
        _rests = MayRest && Cluster.Dice(2);
    }

    // Whether versions may pass unseen: see IVersionSource.MayRest.
    private bool MayRest => _machine is { MayRest: true } && !_front.IsBusy && _sharedInFlight == 0 && _changedAt is null && !_awaited
        && _isOpen && !_life.Joiner.IsJoining && !_hold.IsHeld && _plains.TrueForAll(p => p is { ExactInFlight: 0, BlockedInFlight: 0 });

    private void Wake()
    {
        (_rests, _onlyPasses) = (false, true);
        Cluster.Count("rest");
        Turn();
        _onlyPasses = false;
    }

    private void MarkChanged() => _changedAt ??= Now();

    // What was done until now is in this version, or in an earlier one.
    private VersionNumber OpenForAll => Is(SimMutation.RestTaken) ? _machine!.OpenVersion : _machine!.OpenBy(Now());

    private WorldPoint CloseChanged(WorldLine line)
    {
        MarkChanged();
        WorldPoint open = new(line, OpenForAll);
        BeginToWait();
        return open;
    }

    public void BeginToWait()
    {
        _awaited = true;
        Do((m, e) => m.CommitAwaited(true, e, m.OpenVersion));
    }

    // ---- Versions: the steps of the gate, as the product's VersionBoundary performs them ----

    private void Turn()
    {
        if (IsDead || _machine is not { } machine) return;
        if (_front.BeginTurn(Cluster.NowUs))
            PerformGate(new(_shared is { IsDead: false }, IsPaused: false, machine.NeedsMarker, _sharedInFlight > 0));
    }

    // Asked after something was received, before it is forwarded on the shared upstream.
    private bool MayForwardNow()
    {
        if (Cluster.NowUs < _front.EndsUs) return true;
        Turn();
        return _front.EndsUs != long.MinValue;
    }

    private void PerformGate(in GateView view = default)
    {
        while (!IsDead)
        {
            GateStep step = _front.Next(view);
            switch (step.Kind)
            {
                case GateStepKind.Rest:
                    return;
                case GateStepKind.Close:
                    CloseVersion(step);
                    break;
                case GateStepKind.GiveUpExactness:
                    GiveUpExactness();
                    break;
                case GateStepKind.SendMarker:
                    _shared!.ToStore.Enqueue(new(null, _marker));
                    Cluster.Count("marker");
                    break;
                case GateStepKind.LoseMarker:
                    Marker lost = _marker;
                    Do((m, e) => m.MarkerLost(lost, e));
                    Cluster.Count("marker lost");
                    break;
                case GateStepKind.AskReplies:
                    long waitUs = _gate.HoldReplyUntil(_machine!.OpenVersion, _grid.View.Grid).Microseconds - Now().Microseconds;
                    _front.HoldReplies(Cluster.NowUs, waitUs);
                    break;
                case GateStepKind.Release:
                    foreach (PlainLink link in _plains) Release(link);
                    break;
                case GateStepKind.AskEnd:
                    AskEnd();
                    break;
            }
        }
    }

    private void CloseVersion(in GateStep step)
    {
        bool awaited = _awaited || _life.Joiner.IsJoining || _hold.IsHeld;
        Do((m, e) => m.CommitAwaited(awaited, e, _hold.IsHeld ? m.OpenVersion : default));
        _marked = false;
        HybridTimestamp now = Now();
        if (_onlyPasses && !step.IsBusy) Do((m, e) => m.Wake(now, _changedAt, e));
        else
        {
            bool hasChanged = _changedAt is not null || step.IsBusy;
            _changedAt = null;
            if (step.IsBusy) _machine!.Forwarded();
            Do((m, e) => m.Tick(now, hasChanged, e));
        }

        if (IsDead) return;
        if (Cluster.Dice(8)) _awaited = false;
        if (_marked) _front.Closing(_marker.Next);
        else _front.Passed(_machine!.OpenVersion);
    }

    private void AskEnd()
    {
        HybridTimestamp now = Now();
        long waitUs = _machine?.Mode switch
        {
            ShardMode.Running => _machine.NextBoundaryUs(now) - now.Microseconds,
            ShardMode.Stopping => 0,
            _ => Cluster.IntervalUs / 4,
        };
        _front.EndsAt(Cluster.NowUs + waitUs);
    }

    private void AskForEnd()
    {
        _front.AskForEnd();
        PerformGate();
    }

    private void GiveUpExactness()
    {
        foreach (PlainLink link in _plains)
        {
            if (link.ExactInFlight == 0) continue;
            Cluster.Count("exactness given up");
            link.Progress.OnExactnessLost();
            foreach (Op op in link.Ops)
                if (op.Sequence > link.Progress.Answered.Number && !op.ToldGone) op.OpenEnded = true;
            ForgetExact(link);
        }
    }

    private void ForgetExact(PlainLink link)
    {
        _front.ExactInFlight -= link.ExactInFlight;
        link.ExactInFlight = link.HeldExact = 0;
    }

    private void Release(PlainLink link)
    {
        _front.ExactInFlight += link.HeldExact;
        link.ExactInFlight += link.HeldExact;
        link.HeldExact = 0;
        foreach (Command command in link.Held) link.Own?.ToStore.Enqueue(command);
        link.Held.Clear();
    }

    private void TakeReplies(StoreConnection from, int count)
    {
        while (count-- > 0 && !IsDead && from.ToProxy.TryDequeue(out Reply reply))
        {
            if (reply.Marker is { } m)
            {
                Do((machine, e) => machine.MarkerAnswered(m, reply.Ok, e));
                _front.MarkerAnswered(reply.Ok);
                PerformGate();
            }
            else
            {
                if (Cluster.Keys.Move) _inFlight.Remove(reply.Op!);
                if (from == _shared) _sharedInFlight--;
                if (reply.Op!.Via is Batch batch) Answered(batch);
                else Answered((PlainLink)reply.Op.Via!, reply.Op);
            }
        }
    }

    private void Answered(Batch batch)
    {
        if (++batch.Answered < batch.Ops.Length) return;
        SessionLink link = batch.Link!;
        link.InFlight--;
        VersionRun[] runs = [.. batch.Ops.Select(op => new VersionRun(1, op.Label))];
        WorldPoint cut = ToTell(new(_view!.Line, _view.Cut.Versions.ToArray().Min()));
        BatchReply reply = BatchGate.ReplyFor(batch.Header, runs, cut);
        link.ToClient.Add(new() { Batch = batch, Reply = reply });
    }

    private void Answered(PlainLink link, Op op)
    {
        if (link.IsClosed || op.ToldGone) return;
        link.Progress.OnAnswered(1, _front.Open);
        op.Upper = _front.Open;
        if (op.OpenEnded)
        {
            // Its upper bound is the open version, and its effect may not be in the stream yet: not an idle slot.
            _front.MarkBusy();
            if (op.Blocked) link.BlockedInFlight--;
        }
        else if (link.Own is not null)
        {
            link.ExactInFlight--;
            _front.ExactInFlight--;
        }

        link.ToClient.Enqueue(op);
    }

    // The clock goes along: the next process, which continues it, must not open earlier versions again.
    private void FastForward(VersionNumber version)
    {
        if (!Is(SimMutation.ClockStaysBehind) && !Is(SimMutation.ClockForgotten))
        {
            if (!_clock.TryObserve(HybridTimestamp.Of(_grid.View.Grid.StartOf(version), 0), Reading))
            {
                // It waits until the clock has come nearer.
                Cluster.Count("clock: too far behind to move on");
                return;
            }

            Now();
        }

        _machine!.FastForward(version);
        AskForEnd();
    }

    private bool MayForward => _machine!.MayForward && !_isSuspect && !IsDead;

    // ---- Sessions ----

    private void Serve(SessionLink link)
    {
        if (!MayForward || link.IsClosed || !link.ToProxy.TryPeek(out Batch? batch)) return;
        BatchHeader header = batch.Header;
        if (!MayForwardNow()) return;
        HybridTimestamp now = Now();
        bool isOld = header.WorldLine < _machine!.WorldLine;
        GateShard shard = new(_machine.WorldLine, _front.Open, _grid.View.Grid,
            isOld ? _view!.BranchesOf(Shard) : []) { GridValidUntilUs = _grid.View.ValidUntilUs };
        GateDecision d = _gate.Decide(header, shard, now);
        Cluster.Count($"gate: {d.Verdict}");
        switch (d.Verdict)
        {
            case GateVerdict.WaitUntil or GateVerdict.WaitForWorldLine or GateVerdict.WaitForGrid:
                return;
            case GateVerdict.FastForward:
                FastForward(d.Version);
                return;
            case GateVerdict.Rollback:
                link.ToClient.Add(RollbackOf(header.WorldLine, d.Branch));
                Close(link);
                return;
            case GateVerdict.RefuseAhead:
                Close(link);
                return;
        }

        if (batch.Ops.Length == 0)
        {
            link.ToProxy.Dequeue();
            link.ToClient.Add(CutMessage());
            BeginToWait();
            return;
        }

        if (MustWait(batch.Ops) || _writesHeld || _hold.IsHeld) return;
        link.ToProxy.Dequeue();
        link.InFlight++;
        batch.Link = link;
        if (!Is(SimMutation.DependenciesForgotten)) _trail?.Add(header.Dependencies.Span, _front.Open);
        foreach (Op op in batch.Ops)
        {
            if (IsRedirected(op)) continue;
            (op.Line, op.Label, op.Via) = (header.WorldLine, _front.Open, batch);
            _shared!.ToStore.Enqueue(new(op, null));
            _sharedInFlight++;
            NoteForwarded(op);
            _front.MarkBusy();
        }

        // What is sent on is answered at once; its batch, when all of it has been.
        foreach (Op op in batch.Ops)
            if (op.IsRedirected) Answered(batch);
    }

    // Where cuts have one version for each shard, the branches of all are needed; the gate knows this one's.
    private SessionMessage RollbackOf(WorldLine abandoned, WorldPoint branch) => _settings.Finder == FinderKind.Approximate
        ? new() { Line = branch.WorldLine, ByShard = [branch.Version], Abandoned = abandoned, IsUniform = true }
        : new() { Line = _view!.Line, ByShard = _view.KeptSince(abandoned), Abandoned = abandoned };

    private SessionMessage CutMessage() => new()
    {
        Line = _view!.Line,
        ByShard = HasLease ? [ToTell(CutOf(_view)).Version] : _view.Cut.Versions.ToArray(),
        IsUniform = _settings.Finder == FinderKind.Approximate,
    };

    private void TellSessions()
    {
        if (!IsOpen) return;
        foreach (SessionLink link in _sessions)
            if (Cluster.Dice(4) && !link.IsClosed) link.ToClient.Add(CutMessage());
    }

    private void Close(SessionLink link)
    {
        link.IsClosed = true;
        _sessions.Remove(link);
    }

    // ---- Plain clients ----

    private void Serve(PlainLink link, Random random)
    {
        if (!MayForward || link.IsClosed || link.ToProxy.Count == 0) return;
        if (_writesHeld || _hold.IsHeld) return;
        // What is given to a dedicated connection is held while the marker is on its way.
        if (!MayForwardNow() && link.Own is null) return;
        if (MustWait(link.ToProxy.Peek())) return;
        Op op = link.ToProxy.Dequeue();
        if (IsRedirected(op))
        {
            link.ToClient.Enqueue(op);
            return;
        }

        op.Via = link;
        op.Line = _machine!.WorldLine;
        link.Ops.Add(op);
        op.Sequence = link.Ops.Count;
        op.Blocked = link.Own is not null && link.Client.Blocks && random.Next(2) == 0;
        op.OpenEnded = op.Blocked || link.BlockedInFlight > 0;
        op.Label = op.OpenEnded ? _front.Answered : link.Own is null ? _front.Open : _front.OpenForDedicated;
        if (op.OpenEnded) link.Progress.OnForwardedOpenEnded(1, op.Label);
        else link.Progress.OnForwarded(1, op.Label);
        if (op.Blocked)
        {
            link.BlockedInFlight++;
            _front.NoteBlocking();
        }

        Forward(link, op);
        NoteForwarded(op);
        _front.MarkBusy();
        Cluster.Checks.OnPlainForwarded(op);
    }

    // As the product's Upstream.
    private void Forward(PlainLink link, Op op)
    {
        if (link.Own is not { } own)
        {
            _sharedInFlight++;
            _shared!.ToStore.Enqueue(new(op, null));
            return;
        }

        if (_front.HoldsDedicated && (link.Held.Count > 0 || _front.HoldsInexact || !op.OpenEnded))
        {
            _front.NoteHeld();
            link.Held.Add(new(op, null));
            if (!op.OpenEnded) link.HeldExact++;
            return;
        }

        own.ToStore.Enqueue(new(op, null));
        if (op.OpenEnded) return;
        link.ExactInFlight++;
        _front.ExactInFlight++;
    }

    private void OnCommitted(WorldPoint point)
    {
        point = ToTell(point);
        foreach (PlainLink link in _plains)
        {
            SequenceNumber committed = link.Progress.OnCommitted(point);
            for (; link.CheckedCommitted < committed.Number; link.CheckedCommitted++)
                Cluster.Checks.OnToldCommitted(link.Ops[link.CheckedCommitted], point);
        }
    }

    /// <summary>The connections to the store broke, or are given up: what they carried may be executed, or not.</summary>
    private void UpstreamLost()
    {
        if (_shared is null) return;
        GiveUpUpstream();
        foreach (PlainLink link in _plains)
        {
            SequenceRange range = link.Progress.OnUpstreamLost();
            for (long n = range.First.Number; n <= range.Last.Number; n++) link.Ops[(int)n - 1].ToldGone = true;
            ForgetExact(link);
            link.BlockedInFlight = 0;
            link.Held.Clear();
            link.Own = null;
        }

        foreach (SessionLink link in _sessions.ToArray())
            if (link.InFlight > 0) Close(link);
    }

    // Nobody waits for what these connections still hold; it may be executed all the same.
    private void GiveUpUpstream()
    {
        _inFlight.Clear();
        if (_shared is { } shared)
        {
            if (_front.IsMarkerInFlight) _lostCarrier = shared;
            GiveUp(shared);
        }

        _shared = null;
        _sharedInFlight = 0;
        _front.CarrierClosed();
        PerformGate();
        foreach (PlainLink link in _plains)
            if (link.Own is { } own) GiveUp(own);
    }

    private void ConnectUpstream()
    {
        // Executed by now, or never: what is forwarded from here on stands behind it.
        if (_lostCarrier is { } carrier && !Is(SimMutation.LostMarkerLivesOn)) _host.Store.Kill(carrier);
        _lostCarrier = null;
        _shared = _host.Store.Connect(Epoch);
        foreach (PlainLink link in _plains)
            if (link.Client.IsDedicated) link.Own = _host.Store.Connect(Epoch);
        if (!_life.Joiner.IsJoining) MarkChanged();
        _front.Restart(_machine!.OpenVersion);
        PerformGate();
    }

    /// <summary>The store went back to a branch: what each plain client is told has to be exactly true. Then its connection is
    /// closed.</summary>
    private void RollBack(Boundary branch)
    {
        foreach (PlainLink link in _plains)
        {
            ForgetExact(link);
            if (link.Progress.WorldLine < branch.WorldLine) Cluster.Checks.OnPlainRollback(link, branch);
            link.IsClosed = true;
        }

        _plains.Clear();
    }

    private void CloseLinks()
    {
        foreach (PlainLink link in _plains) link.IsClosed = true;
        foreach (SessionLink link in _sessions) link.IsClosed = true;
        _plains.Clear();
        _sessions.Clear();
    }
}
