// How a proxy starts, notices that its store may be lost, and brings it back: the steps of the product's VersionedShard, each of
// which may be the last of the process.
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    private bool _isSuspect;
    private bool _isLeft;
    private Boundary? _rolledBack;

    /// <summary>The replication link breaks.</summary>
    public void LoseReplicationLink()
    {
        _attachedTo = 0;
        LoseChanges();
        Suspect();
    }

    private void Suspect() => _isSuspect = true;

    private IEnumerable<bool> ControlTask()
    {
        SqlCall take;
        do
        {
            take = Ask("take", () => Cluster.Sql.TakeEpoch(Shard));
            while (!take.IsDone) yield return true;
        }
        while (take.Result is null);
        Epoch = (long)take.Result;
        if (Epoch == 0)
        {
            Die("its shard has left");
            yield break;
        }

        // Taken, and shut out of the store, before anything of it is looked at.
        if (!Is(SimMutation.StoreNotFenced)) _host.Store.Fence(Epoch);
        yield return true;
        if (!_host.Log.Open(Epoch))
        {
            Die("its log belongs to a later process");
            yield break;
        }

        _clock.Resume(_host.Log.Last.Time, Reading);
        (long atUs, HybridTimestamp noted) = _host.Clock;
        if (noted != default && !Is(SimMutation.ClockForgotten))
        {
            _clock.Resume(HybridTimestamp.Of(noted.Microseconds + Cluster.NowUs - atUs, 0), Reading);
        }

        foreach (bool step in LearnGridAtStart()) yield return step;
        if (IsDead) yield break;
        Start(PulseTask());
        yield return true;
        while (true)
        {
            foreach (bool step in Recover()) yield return step;
            if (IsDead) yield break;
            while (!_isSuspect || ResolveSameStore()) yield return true;
            LeaveStore();
            Cluster.Count("recovery");
            // A process that ends brings no store back.
            if (_isStopping) yield break;
            yield return true;
        }
    }

    private void LeaveStore()
    {
        _isOpen = _isOpenToPlain = _isLeft = _isSuspect = false;
        _attachedTo = 0;
        _machine!.StoreLost();
        CloseMoves();
    }

    /// <summary>Whether only a connection of the front end broke: then it goes on.</summary>
    private bool ResolveSameStore()
    {
        Store store = _host.Store;
        if (_attachedTo == 0 || _isLeft || !store.IsUp || store.HistoryId != _attachedTo || !store.Admits(Epoch)) return false;
        UpstreamLost();
        ConnectUpstream();
        _isSuspect = false;
        Cluster.Count("upstream again");
        return true;
    }

    private IEnumerable<bool> Recover()
    {
        while (true)
        {
            Store store = _host.Store;
            if (!store.Admits(Epoch) || !_host.Log.Admits(Epoch))
            {
                Die("the store belongs to a later process");
                yield break;
            }

            if (!store.IsUp) store.StartEmpty();
            yield return true;
            foreach (bool step in SuspendAdmission()) yield return step;
            SqlCall look = Ask("look", Cluster.Sql.AdvanceCut);
            while (!look.IsDone) yield return true;
            if (look.Result is not SqlView view) continue;
            // A member's deposed owner hears of it by what it writes, as late as that may be.
            if (view.Epochs[Shard] != Epoch && view.Members.States[Shard] is MemberState.Joining or MemberState.Left)
            {
                Die("deposed");
                yield break;
            }

            // Read since the shard was taken: a switch-over that begins later hears from this process before it goes on.
            _handsOver |= view.Site == Core.Sites.SiteRole.HandingOver;
            // Others wait until this shard has left the world-lines before, and need not wait until it has looked at its store.
            WorldLine entered = default;
            if (Cluster.EntersEarly && _machine is not null && view.Line > _machine.WorldLine)
            {
                entered = view.Line;
                foreach (bool step in LeaveFor(entered)) yield return step;
            }

            if (!store.IsUp || !_host.Log.Admits(Epoch)) continue;
            _isJoining = view.Members.States[Shard] == MemberState.Joining;
            _host.Log.Sync(_host.Log.Appended);
            RecoveryDecision decision = RecoveryPlan.Decide(Facts(view));
            Cluster.Count($"plan: {decision.GetType().Name}");
            if (Cluster.IsTraced) Cluster.Note($"{Name} looks: log {_host.Log.Last.Point} of {_host.Log.End}, store {Situation()} at {store.History.Count}, claim {view.Claims[Shard].Point}, cut {view.Cut}: {decision.GetType().Name}");
            yield return true;
            if (!store.IsUp || !store.Admits(Epoch) || !_host.Log.Admits(Epoch)) continue;
            switch (decision)
            {
                case RecoveryDecision.Continue:
                    Attach(_host.Log.Last, view);
                    break;
                case RecoveryDecision.GapCheckpoint:
                    UpstreamLost();
                    _host.Log.RestartAt(store.History);
                    store.HasGap = false;
                    Attach(_host.Log.Last with { Offset = store.History.Count }, view, isRestarted: true);
                    break;
                case RecoveryDecision.RestoreFromLog restore:
                    if (!Is(SimMutation.EntersBeforeClosed)) CloseFrontEnd();
                    foreach (bool step in Restore(restore, view, entered)) yield return step;
                    if (_attachedTo == 0) continue;
                    if (Cluster.EntersEarly) entered = restore.WorldLine;
                    break;
                case RecoveryDecision.BeginToJoin join:
                    BeginToJoin(join.At, view);
                    if (IsDead) yield break;
                    break;
                default:
                    throw new SimException($"I2: {Name}: recovery is impossible: {decision}");
            }

            while (_machine!.Mode == ShardMode.CatchingUp && !_isSuspect) yield return true;
            if (_isSuspect)
            {
                LeaveStore();
                continue;
            }

            BeginTrail(_machine, isAtBranch: _rolledBack?.WorldLine == _machine.WorldLine);
            if (_isJoining)
            {
                _recorderRuns = true;
                foreach (bool step in AwaitAdmission()) yield return step;
            }

            foreach (bool step in AwaitVersionBegun()) yield return step;
            if (_isSuspect)
            {
                LeaveStore();
                continue;
            }

            foreach (bool step in OpenMoves()) yield return step;
            if (IsDead) yield break;
            _isOpen = !_isLeaving;
            // Also while the others are waited for: a process that was deposed hears of it in no other way.
            _recorderRuns = true;
            WorldLine line = _machine.WorldLine;
            if (entered != line)
                foreach (bool step in NoteEntered(line)) yield return step;
            foreach (bool step in AwaitOthers(line)) yield return step;
            // Each world-line's branch counts for what was done before it: told even if the store is lost again.
            if (_rolledBack is { } branch) RollBack(branch);
            _rolledBack = null;
            if (_isSuspect)
            {
                LeaveStore();
                continue;
            }

            _isOpenToPlain = !_isLeaving;
            yield break;
        }
    }

    private RecoveryFacts Facts(SqlView view)
    {
        ShardLog log = _host.Log;
        bool isOld = log.Last.WorldLine < view.Line;
        return new()
        {
            Shard = new(Shard),
            Log = new LogEvidence(log.Last),
            LastBelowBranch = isOld ? log.AtOrBelow(WorldLineBranches.LastValid(log.Last.WorldLine, view.BranchesOf(Shard))) : null,
            Recorded = view.Claims[Shard].Point,
            Situation = Situation(),
            Supervised = true,
            IsJoining = _isJoining,
            KeyCount = _isJoining ? Enumerable.Range(0, Cluster.Keys.Count).Count(k => _host.Store.ValueOf(k) is not null) : 0,
        };
    }

    private StoreSituation Situation()
    {
        Store store = _host.Store;
        if (_host.NotedHistory == store.HistoryId) return StoreSituation.BehindKnownOrigin;
        if (store.HistoryId != _host.Log.HistoryId) return store.History.Count == 0 ? StoreSituation.Empty : StoreSituation.Foreign;
        return store.History.Count < _host.Log.End ? StoreSituation.BehindKnownOrigin
            : store.HasGap ? StoreSituation.AheadWithGap : StoreSituation.Continues;
    }

    private void CloseFrontEnd()
    {
        _isOpen = _isOpenToPlain = false;
        // A connection that broke by itself was noticed before; one that is closed here carries on in the store until that is restored.
        GiveUpUpstream();
        foreach (var link in _plains)
        {
            // Nobody answers it any more, and no boundary may wait for it.
            link.Own = null;
            link.Held.Clear();
            ForgetExact(link);
        }

        foreach (var link in _sessions.ToArray())
            if (link.InFlight > 0) Close(link);
    }

    // When nobody can do anything here any more, nothing of the older world-lines is read: that is noted before the store is at the branch.
    private IEnumerable<bool> LeaveFor(WorldLine line)
    {
        if (!Is(SimMutation.EntersBeforeClosed)) CloseFrontEnd();
        foreach (bool step in NoteEntered(line)) yield return step;
        CloseFrontEnd();
    }

    private IEnumerable<bool> Restore(RecoveryDecision.RestoreFromLog restore, SqlView view, WorldLine entered)
    {
        ShardLog log = _host.Log;
        Boundary start = restore.Last;
        if (restore.Begins)
        {
            DurableClaim claim = _machine?.ClaimOf(start.Point) ?? new DurableClaim(start.Point, 1, start.Version);
            PrecedenceRow? row = _settings.Finder == FinderKind.Exact ? _trail!.RowForBranch(claim.Point, view.Cut.Versions[Shard]) : null;
            long epoch = Epoch;
            SqlCall begin;
            do
            {
                begin = Ask("begin", () => Cluster.Sql.BeginWorldLine(Shard, claim, epoch, row, view.Cut));
                while (!begin.IsDone) yield return true;
            }
            while (begin.Result is null);
            BeginResult result = (BeginResult)begin.Result;
            Cluster.Count($"begin: {result.Outcome}");
            if (result.Outcome == BeginOutcome.StaleWorldLine) yield break;
            if (result.Outcome != BeginOutcome.Started)
            {
                if (IsOwner) throw new SimException($"I2: {Name}: the metadata refused {restore.WorldLine}: {result.Outcome}");
                Die("deposed while it recovered");
                yield break;
            }

            view = result.View;
            Version branch = view.Lines[^1].BranchOf(Shard);
            if (branch != start.Version)
            {
                start = log.Exactly(branch) ?? throw new SimException($"I2: {Name}: world-line {restore.WorldLine} branches at {branch}, which its log cannot be restored to");
            }

            yield return true;
        }

        if (Cluster.EntersEarly && entered != restore.WorldLine)
            foreach (bool step in LeaveFor(restore.WorldLine)) yield return step;
        if (!log.Admits(Epoch) || !_host.Store.Admits(Epoch)) yield break;
        start = start with { WorldLine = restore.WorldLine };
        bool isDone = false;
        if (MayRollBackInPlace())
            foreach (bool step in RollBackInPlace(start, () => isDone = true)) yield return step;
        if (!log.Admits(Epoch) || !_host.Store.Admits(Epoch)) yield break;
        if (isDone)
        {
            _rolledBack = start;
            Attach(start, view);
            yield break;
        }

        int historyId = Cluster.NewHistoryId();
        log.BeginWorldLine(start, historyId);
        if (Cluster.IsTraced) Cluster.Note($"{Name} enters {restore.WorldLine} in its log, at {start.Point}, offset {start.Offset}");
        yield return true;
        // A restore takes its time.
        for (int n = Cluster.Random.Next(8); n > 0; n--) yield return true;
        if (!_host.Store.IsUp || !log.Admits(Epoch) || !_host.Store.Admits(Epoch)) yield break;
        Cluster.Checks.OnRestored(_host, start);
        _host.Store.Restore(log.Bytes, (int)start.Offset, historyId, restore.WorldLine);
        Cluster.Count("restored");
        yield return true;
        if (!_host.Store.IsUp || _host.Store.HistoryId != historyId || !_host.Store.Admits(Epoch)) yield break;
        _rolledBack = start;
        Attach(start, view);
    }

    /// <summary>The machine goes on, or begins.</summary>
    private void Attach(Boundary start, SqlView view, bool isRestarted = false)
    {
        Store store = _host.Store;
        WorldPoint cut = new(start.WorldLine, view.Line == start.WorldLine ? view.Cut.Versions[Shard] : start.Version);
        UpstreamLost();
        if (_machine is not null) Learn(view);
        _view = view;
        if (_machine is null)
        {
            WorldPoint recorded = view.Line == start.WorldLine ? view.Claims[Shard].Point : start.Point;
            _machine = new(_options, new(_grid.View.Grid, start, recorded, cut, Now()) { IsClean = _isJoining, GridValidUntilUs = _grid.View.ValidUntilUs }, _settings.Shard);
        }
        else if (start.WorldLine > _machine.WorldLine)
        {
            Do((m, e) => m.WorldLineStarted(start.WorldLine, start, e));
        }
        else if (isRestarted)
        {
            _machine.StreamRestarted(store.History.Count);
        }

        if (IsDead) return;
        _streamed = (int)_host.Log.End;
        _attachedTo = store.HistoryId;
        _host.Store.HasGap = false;
        _isSuspect = false;
        ConnectUpstream();
        _machine.Attached(_host.Log.End, store.History.Count);
        AskForEnd();
    }

    /// <summary>Notes in SQL that this shard has left all older world-lines.</summary>
    private IEnumerable<bool> NoteEntered(WorldLine line)
    {
        long epoch = Epoch;
        while (true)
        {
            SqlCall enter = Ask("enter", () => Cluster.Sql.Enter(Shard, line, epoch));
            while (!enter.IsDone) yield return true;
            if (enter.Result is not null) yield break;
        }
    }

    /// <summary>Waits until all shards have: a plain client may do nothing here while it can still read elsewhere what is void now.</summary>
    private IEnumerable<bool> AwaitOthers(WorldLine line)
    {
        while (!Is(SimMutation.PlainLetInEarly))
        {
            SqlCall look = Ask("look", Cluster.Sql.Look);
            while (!look.IsDone) yield return true;
            if (look.Result is SqlView view && view.Line > line && !Is(SimMutation.LaterWorldLineLetsIn))
            {
                // Shards that have not come to this one may never: nobody is let in before this one has followed.
                _isLeft = true;
                Suspect();
            }

            if (_isSuspect || (look.Result is SqlView now && (now.Line != line || now.AllEntered))) yield break;
            yield return true;
        }
    }
}
