// The front end of a proxy: one loop that takes replies, closes versions and forwards what clients sent.
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Clients;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    private readonly List<SessionLink> _sessions = [];
    private readonly List<PlainLink> _plains = [];
    private readonly List<(long LeavesUs, Action Leave)> _held = [];
    private StoreConnection? _shared;
    private Marker _marker;
    private bool _awaitsMarker;
    private StoreConnection? _lostCarrier;      // the marker was on it, and may be executed yet
    private bool _holding;
    private long _deadlineUs;        // when the version that is open ends
    private bool _busy;
    private bool _isOpen;            // sessions are served
    private bool _isOpenToPlain;     // plain clients too
    private bool _awaited;

    public bool IsOpen => _isOpen && !IsDead;

    /// <summary>For a trace.</summary>
    public string Describe() =>
        $"{Name}, epoch {Epoch}{(IsDead ? ", dead" : "")}{(IsRunning ? "" : ", stopped")}{(_isSuspect ? ", suspects its store" : "")}, open {_isOpen} {_isOpenToPlain}, {_machine?.Mode} in {_machine?.WorldLine} at {_machine?.OpenVersion}, "
        + $"clock at {_machine?.Grid.VersionAt(_clock.Last.Microseconds)}, last boundary {_machine?.LastBoundary.Point}, marker in flight {_machine?.MarkerInFlight} {_awaitsMarker}, holds {_holding}";

    public bool IsOpenToPlain => _isOpenToPlain && !IsDead;

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
        GiveUp(own);
        _inFlight.RemoveAll(op => op.Via == link);
    }

    /// <summary>One turn.</summary>
    public void Loop(Random random)
    {
        // Behind the last version nothing is answered any more.
        if (!IsRunning || _machine is null || _isStopped) return;
        ReleaseHeld();
        if (_shared is not { } shared) return;
        if (shared.IsDead || _plains.Exists(p => p.Own is { IsDead: true }))
        {
            UpstreamLost();
            Suspect();
            return;
        }

        TakeReplies(shared, random.Next(6));
        foreach (PlainLink p in _plains)
            if (p.Own is { } own) TakeReplies(own, random.Next(4));
        Turn(random);
        if (_sessions.Count > 0 && IsOpen) Serve(_sessions[random.Next(_sessions.Count)]);
        if (_plains.Count > 0 && IsOpenToPlain) Serve(_plains[random.Next(_plains.Count)], random);
    }

    public void BeginToWait()
    {
        _awaited = true;
        Do((m, e) => m.CommitAwaited(true, e, m.OpenVersion));
    }

    private void Turn(Random random)
    {
        if (_awaitsMarker || IsDead) return;
        HybridTimestamp now = Now();
        if (_machine!.Mode == ShardMode.Running && !_holding && now.Microseconds < _deadlineUs) return;
        _holding |= _machine!.BoundaryDue(now);
        if (_holding && _plains.Exists(p => p.ExactInFlight > 0 && p.Own is not null)) return;
        bool busy = _busy, awaited = _awaited || _life.Joiner.IsJoining;
        _busy = false;
        Do((m, e) => m.CommitAwaited(awaited, e));
        Do((m, e) => m.Tick(now, busy, e));
        if (random.Next(8) == 0) _awaited = false;
        _holding = _awaitsMarker;
        if (!_awaitsMarker) Arm();
    }

    // What was not closed at its end stays open until the next (the product's VersionGate).
    private void Arm() => _deadlineUs = _machine is { Mode: ShardMode.Running } machine ? machine.NextBoundaryUs(Now()) : 0;

    private void TakeReplies(StoreConnection from, int count)
    {
        while (count-- > 0 && !IsDead && from.ToProxy.TryDequeue(out Reply reply))
        {
            if (reply.Marker is { } m)
            {
                bool isOwn = _awaitsMarker && m == _marker;
                if (isOwn) _awaitsMarker = _holding = false;
                Do((machine, e) => machine.MarkerAnswered(m, reply.Ok, e));
                if (isOwn) Arm();
            }
            else
            {
                if (Cluster.Keys.Move) _inFlight.Remove(reply.Op!);
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
        Hold(batch.Ops[^1].Label, () => link.ToClient.Add(new() { Batch = batch, Reply = reply }));
    }

    private void Answered(PlainLink link, Op op)
    {
        if (link.IsClosed || op.ToldGone) return;
        link.Progress.OnAnswered(1, _machine!.OpenVersion);
        op.Upper = _machine.OpenVersion;
        if (op.OpenEnded)
        {
            // Its upper bound is the open version, and its effect may not be in the stream yet: not an idle slot.
            _busy = true;
            if (op.Blocked) link.BlockedInFlight--;
        }
        else
        {
            link.ExactInFlight--;
        }

        Hold(_machine.OpenVersion, () => link.ToClient.Enqueue(op));
    }

    private void Hold(Version version, Action leave)
    {
        long leavesUs = Is(SimMutation.RepliesNotHeld) ? 0 : _gate.HoldReplyUntil(version, _grid.View.Grid).Microseconds;
        if (leavesUs <= Now().Microseconds) leave();
        else _held.Add((leavesUs, leave));
    }

    private void ReleaseHeld()
    {
        if (_held.Count == 0) return;
        long now = Now().Microseconds;
        for (int i = 0; i < _held.Count; i++)
        {
            if (_held[i].LeavesUs > now) continue;
            Action leave = _held[i].Leave;
            _held.RemoveAt(i--);
            leave();
        }
    }

    /// <summary>The open version has ended, and is still to be closed: what is forwarded now would be in a version of the past, although
    /// replies of later ones have left elsewhere. If a marker is on its way at its end it stays open until the end of a later one.</summary>
    private bool IsDue(HybridTimestamp now) =>
        !_awaitsMarker && (_holding || now.Microseconds >= _deadlineUs);

    // The clock goes along: the next process, which continues it, must not open earlier versions again.
    private void FastForward(Version version)
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
        Arm();
    }

    private bool MayForward => _machine!.MayForward && !_isSuspect && !IsDead;

    // ---- Sessions ----

    private void Serve(SessionLink link)
    {
        if (!MayForward || link.IsClosed || !link.ToProxy.TryPeek(out Batch? batch)) return;
        BatchHeader header = batch.Header;
        HybridTimestamp now = Now();
        bool isOld = header.WorldLine < _machine!.WorldLine;
        GateShard shard = new(_machine.WorldLine, _machine.OpenVersion, _grid.View.Grid, isOld ? _view!.BranchesOf(Shard) : []) { GridValidUntilUs = _grid.View.ValidUntilUs };
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

        if (IsDue(now) || MustWait(batch.Ops) || _writesHeld || _handsOver) return;
        link.ToProxy.Dequeue();
        link.InFlight++;
        batch.Link = link;
        if (!Is(SimMutation.DependenciesForgotten)) _trail?.Add(header.Dependencies.Span, _machine.OpenVersion);
        foreach (Op op in batch.Ops)
        {
            if (IsRedirected(op)) continue;
            (op.Line, op.Label, op.Via) = (header.WorldLine, _machine.OpenVersion, batch);
            _shared!.ToStore.Enqueue(new(op, null));
            NoteForwarded(op);
            _busy = true;
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
        if (IsDue(Now()) || _writesHeld || _handsOver) return;
        bool isDedicated = link.Own is not null;
        // Dedicated connections wait for the marker, and for its answer.
        if (isDedicated && (_holding || _awaitsMarker) && !Is(SimMutation.DedicatedNotHeld)) return;
        if (MustWait(link.ToProxy.Peek())) return;
        Op op = link.ToProxy.Dequeue();
        if (IsRedirected(op))
        {
            Hold(op.Label, () => link.ToClient.Enqueue(op));
            return;
        }

        op.Via = link;
        op.Line = _machine!.WorldLine;
        link.Ops.Add(op);
        op.Sequence = link.Ops.Count;
        op.Blocked = isDedicated && link.Client.Blocks && random.Next(2) == 0;
        op.OpenEnded = op.Blocked || link.BlockedInFlight > 0;
        if (op.OpenEnded)
        {
            op.Label = _machine.LowestVersion;
            link.Progress.OnForwardedOpenEnded(1, op.Label);
            if (op.Blocked) link.BlockedInFlight++;
        }
        else
        {
            op.Label = _machine.OpenVersion;
            link.Progress.OnForwarded(1, op.Label);
            link.ExactInFlight++;
        }

        (link.Own ?? _shared!).ToStore.Enqueue(new(op, null));
        NoteForwarded(op);
        _busy = true;
        Cluster.Checks.OnPlainForwarded(op);
    }

    private void OnCommitted(WorldPoint point)
    {
        point = ToTell(point);
        foreach (PlainLink link in _plains)
        {
            Sequence committed = link.Progress.OnCommitted(point);
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
            link.ExactInFlight = link.BlockedInFlight = 0;
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
            if (_awaitsMarker) _lostCarrier = shared;
            GiveUp(shared);
        }

        _shared = null;
        foreach (PlainLink link in _plains)
            if (link.Own is { } own) GiveUp(own);
    }

    // Executed by now, or never: what is forwarded from here on stands behind it.
    private void LoseMarker()
    {
        if (_lostCarrier is { } carrier && !Is(SimMutation.LostMarkerLivesOn)) _host.Store.Kill(carrier);
        _lostCarrier = null;
        _holding = false;
        if (!_awaitsMarker) return;
        _awaitsMarker = false;
        Marker lost = _marker;
        Do((m, e) => m.MarkerLost(lost, e));
        Cluster.Count("marker lost");
    }

    private void ConnectUpstream()
    {
        LoseMarker();
        _shared = _host.Store.Connect(Epoch);
        foreach (PlainLink link in _plains)
            if (link.Client.IsDedicated) link.Own = _host.Store.Connect(Epoch);
        _busy = !_life.Joiner.IsJoining;
        Arm();
    }

    /// <summary>The store went back to a branch: what each plain client is told has to be exactly true. Then its connection is closed.</summary>
    private void RollBack(Boundary branch)
    {
        foreach (PlainLink link in _plains)
        {
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
        _held.Clear();
    }
}
