// How a proxy starts, notices that its store may be lost, and brings it back: it performs the steps of the real ShardLifecycle, each of
// which may be the last of the process.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Lifecycle;
using Slogger.Core.Membership;
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    private ShardLifecycle _life = null!;
    private bool _isAttached;               // the machine follows the store
    private bool _isSuspect;
    private bool _isLeft;
    private bool _isSame = true;            // what was suspected last was only a connection
    private bool _isEntered;
    private SqlView? _looked;

    /// <summary>The replication link breaks.</summary>
    public void LoseReplicationLink()
    {
        _attachedTo = 0;
        LoseChanges();
        Suspect();
    }

    private void Suspect()
    {
        _isSuspect = true;
        ShutFrontEnd();
    }

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
        LifecycleOptions life = new() { Shard = new(Shard), HasPeers = true, IsSupervised = true, PeersUs = Cluster.PeersUs,
            PeersPeriodUs = 0 };
        _life = new(life, Cluster.Sql.Line, _settings.Lifecycle);
        yield return true;
        _life.BeginStart();
        foreach (bool step in Live()) yield return step;
        // Also while the others are waited for: a process that was deposed hears of it in no other way.
        _recorderRuns = true;
        _life.BeginOpening();
        foreach (bool step in Live()) yield return step;
        while (!IsDead)
        {
            while (!_isSuspect) yield return true;
            _life.BeginResolving();
            foreach (bool step in Live()) yield return step;
            // A process that ends brings no store back.
            if (_isStopping) yield break;
        }
    }

    // ---- The real ShardLifecycle ----

    private IEnumerable<bool> Live()
    {
        while (!IsDead && _life.Next(LifeNow(), out LifecycleStep next))
        {
            if (Cluster.IsTraced) Cluster.Note($"{Name}: {next.Kind}");
            Cluster.Count($"life: {next.Kind}");
            foreach (bool step in Perform(next)) yield return step;
            // (A start that fails ends its process.)
            if (next.Kind is LifecycleStepKind.EndLost or LifecycleStepKind.AwaitEntered && _recorderRuns && Cluster.Settings.Faults
                && Cluster.Dice(32))
            {
                // The store, or SQL, did not answer: the sequence is given up, and begun again.
                Cluster.Count("life: a step failed");
                Suspect();
                yield break;
            }

            // Each that others can see may be the last of the process.
            if (!IsQuiet(next.Kind)) yield return true;
        }
    }

    private static bool IsQuiet(LifecycleStepKind kind) =>
        kind is LifecycleStepKind.TakeSuspicion or LifecycleStepKind.CompareStore or LifecycleStepKind.StartStore
        or LifecycleStepKind.LookAtStore or LifecycleStepKind.RequireBase or LifecycleStepKind.Locate or LifecycleStepKind.BeginEntering
            or LifecycleStepKind.AwaitEntered
        or LifecycleStepKind.BeginTrail or LifecycleStepKind.LearnWorldLines or LifecycleStepKind.StartWorkers or LifecycleStepKind.EndLost
            or LifecycleStepKind.OpenMoves
        or LifecycleStepKind.SuspendAdmission or LifecycleStepKind.AllowAdmission or LifecycleStepKind.LookAgain
            or LifecycleStepKind.LookAtMetadata;

    private LifecycleView LifeNow() => new()
    {
        IsAttached = _isAttached,
        IsLeft = _isLeft,
        IsSuspected = _isSuspect,
        IsStopping = _isStopping,
        UntilVersionUs = _machine is { } machine ? machine.Grid.StartOf(machine.LastBoundary.Version.Next) - Now().Microseconds : 0,
        NowUs = Cluster.NowUs,
    };

    private IEnumerable<bool> Perform(LifecycleStep next)
    {
        Store store = _host.Store;
        switch (next.Kind)
        {
            case LifecycleStepKind.TakeSuspicion:
                (_isSuspect, _isSame) = (false, true);
                break;
            case LifecycleStepKind.CompareStore:
                _life.Compared(_attachedTo != 0 && store.IsUp && store.HistoryId == _attachedTo && MayTouchStore());
                break;
            case LifecycleStepKind.AbandonStore:
                LoseStore();
                break;
            case LifecycleStepKind.LoseStore:
                LoseStore();
                Cluster.Count("recovery");
                break;
            case LifecycleStepKind.StartStore:
                if (!store.Admits(Epoch) || !_host.Log.Admits(Epoch)) Die("the store belongs to a later process");
                else _life.StoreStarting(!store.IsUp);
                break;
            case LifecycleStepKind.AwaitStore:
                if (!store.IsUp && store.Admits(Epoch)) store.StartEmpty();
                break;
            case LifecycleStepKind.SuspendAdmission:
                while (_asksToJoin) yield return true;
                _life.Joiner.Suspend();
                break;
            case LifecycleStepKind.AllowAdmission:
                _life.Joiner.Begun(next.At.Version);
                Cluster.OnMember("begins to join", Shard);
                break;
            case LifecycleStepKind.LookAtMetadata:
                foreach (bool step in LookAtMetadata()) yield return step;
                break;
            case LifecycleStepKind.CloseFrontEnd:
                CloseFrontEnd();
                break;
            case LifecycleStepKind.BeginEntering:
                _isEntered = false;
                Start(NoteEntered(next.WorldLine));
                break;
            case LifecycleStepKind.AwaitEntered:
                while (!_isEntered) yield return true;
                break;
            case LifecycleStepKind.LookAtStore:
                _life.Found(MayTouchStore() ? Situation() : StoreSituation.Unreachable, "", KeyCount());
                break;
            case LifecycleStepKind.ReadLog:
                ReadLog(next.WorldLine);
                break;
            case LifecycleStepKind.WarnOfPeers:
                Cluster.Count("others taken for dead");
                break;
            case LifecycleStepKind.RequireBase or LifecycleStepKind.WaitForStore or LifecycleStepKind.WarnNotJoined
                or LifecycleStepKind.LookAgain
                or LifecycleStepKind.LearnWorldLines or LifecycleStepKind.Rest or LifecycleStepKind.AwaitVersion:
                break;
            case LifecycleStepKind.Locate:
                _life.Located(_host.Log.Exactly(next.At.Version));
                break;
            case LifecycleStepKind.BeginWorldLine:
                foreach (bool step in BeginWorldLine(next.At)) yield return step;
                break;
            case LifecycleStepKind.Continue:
                _life.Performed(MayTouchStore());
                if (!MayTouchStore()) break;
                Attach(next.At, next.Recorded);
                while (_machine!.Mode == ShardMode.CatchingUp && !_isSuspect) yield return true;
                break;
            case LifecycleStepKind.BeginLog:
                _life.Performed(MayTouchStore() && BeginLog(next));
                break;
            case LifecycleStepKind.Restore:
                foreach (bool step in Restore(next)) yield return step;
                break;
            case LifecycleStepKind.ForgetVersions:
                // The machine of an attempt before has closed nothing that anybody knows of.
                UpstreamLost();
                _machine = null;
                _durableNotes.Clear();
                _syncRequested = 0;
                break;
            case LifecycleStepKind.BeginTrail:
                BeginTrail(_machine!, next.IsAtBranch);
                break;
            case LifecycleStepKind.LookAtPeers:
                SqlCall look;
                do
                {
                    look = Ask("look", Cluster.Sql.Look);
                    while (!look.IsDone) yield return true;
                }
                while (look.Result is null);
                SqlView peers = (SqlView)look.Result;
                _life.PeersSeen(peers.Line, peers.AllEntered ? [] : [new(Shard)]);
                break;
            case LifecycleStepKind.StartWorkers:
                _recorderRuns = true;
                break;
            case LifecycleStepKind.LeaveWorldLine:
                _isLeft = true;
                Suspect();
                break;
            case LifecycleStepKind.OpenMoves:
                foreach (bool step in OpenMoves()) yield return step;
                break;
            case LifecycleStepKind.EndLost:
                if (!_isSame || !_isAttached || _looked is null) break;
                UpstreamLost();
                ConnectUpstream();
                Cluster.Count("upstream again");
                break;
            case LifecycleStepKind.Open:
                PostOpening(next.RolledBack);
                break;
            case LifecycleStepKind.GiveWay:
                Die("deposed");
                break;
            case LifecycleStepKind.Refuse when _life.Joiner.MayBeAdmitted:
                Cluster.Count("member: does not know whether it has joined");
                Die("does not know whether it has joined");
                break;
            default:
                throw new SimException($"I2: {Name}: recovery is impossible: {next.Kind} {next.Text}");
        }
    }

    private void LoseStore()
    {
        ShutFrontEnd();
        _isLeft = _isAttached = _isSame = false;
        _attachedTo = 0;
        _machine?.StoreLost();
        CloseMoves();
    }

    private IEnumerable<bool> LookAtMetadata()
    {
        SqlCall look;
        do
        {
            look = Ask("look", Cluster.Sql.AdvanceCut);
            while (!look.IsDone) yield return true;
        }
        while (look.Result is null);
        _looked = (SqlView)look.Result;
        if (_looked.Site.Role == Core.Sites.SiteRole.Deposed)
        {
            Cluster.Count("site deposed before it looked");
            Die("another site is the primary");
            yield break;
        }
        _site = _looked.Site.Epoch;
        // Read since the shard was taken: a switch-over that begins later hears from this process before it goes on.
        if (_looked.Site.Role == Core.Sites.SiteRole.HandingOver) _hold.SiteIs(_looked.Site);
        MemberState state = _looked.Members.States[Shard];
        _life.Looked(new()
        {
            // A member's deposed owner hears of it by what it writes, as late as that may be.
            IsDeposed = _looked.Epochs[Shard] != Epoch && state is MemberState.Joining or MemberState.Left,
            State = state,
            Cut = CutOf(_looked),
            Claim = _looked.Claims[Shard].Point,
        });
    }

    private void ReadLog(WorldLine current)
    {
        ShardLog log = _host.Log;
        if (!log.Admits(Epoch))
        {
            Die("its log belongs to a later process");
            return;
        }

        log.Sync(log.Appended);
        bool isOld = log.Last.WorldLine < current;
        Boundary? below = isOld ? log.AtOrBelow(WorldLineBranches.LastValid(log.Last.WorldLine, _looked!.BranchesOf(Shard))) : null;
        if (Cluster.IsTraced) Cluster.Note(
            $"{Name} looks: log {log.Last.Point} of {log.End}, store {Situation()} at {_host.Store.History.Count}, claim "
                + $"{_looked!.Claims[Shard].Point}, cut {_looked.Cut}");
        _life.Proved(log.Last, below, restored: null);
    }

    private long KeyCount() => Enumerable.Range(0, Cluster.Keys.Count).Count(k => _host.Store.ValueOf(k) is not null);

    private IEnumerable<bool> BeginWorldLine(Boundary last)
    {
        DurableClaim claim = _machine?.ClaimOf(last.Point) ?? new DurableClaim(last.Point, 1, last.Version);
        SqlView view = _looked!;
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
        if (result.Outcome is not (BeginOutcome.Started or BeginOutcome.StaleWorldLine))
        {
            if (IsOwner) throw new SimException($"I2: {Name}: the metadata refused a world-line after {claim.Point}: {result.Outcome}");
            Die("deposed while it recovered");
            yield break;
        }

        bool isStarted = result.Outcome == BeginOutcome.Started;
        if (isStarted) _looked = result.View;
        _life.WorldLineBegun(isStarted ? result.View.Lines[^1].BranchOf(Shard) : null);
    }

    private bool BeginLog(LifecycleStep next)
    {
        Store store = _host.Store;
        Cluster.Count($"life: {next.Content}");
        switch (next.Content)
        {
            case LogContent.NothingYet:
                store.BeginEmpty(next.At.WorldLine);
                _host.Log.Begin(new(next.At.WorldLine, next.At.Version, store.History.Count, 0, Now()), store.HistoryId);
                Attach(_host.Log.Last, next.Recorded);
                return true;
            case LogContent.SameHistory:
                if (Situation() != StoreSituation.AheadWithGap) return false;
                UpstreamLost();
                _host.Log.RestartAt(store.History);
                store.HasGap = false;
                Attach(_host.Log.Last with { Offset = store.History.Count }, next.Recorded, isRestarted: true);
                return true;
            default:
                throw new SimException($"I2: {Name}: recovery is impossible: a log that begins with {next.Content}");
        }
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
        ShutFrontEnd();
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

    private IEnumerable<bool> Restore(LifecycleStep next)
    {
        ShardLog log = _host.Log;
        Boundary start = next.At with { WorldLine = next.WorldLine };
        _life.Performed(false);
        if (!log.Admits(Epoch) || !_host.Store.Admits(Epoch)) yield break;
        bool? isDone = null;
        if (MayRollBackInPlace(start))
            foreach (bool step in RollBackInPlace(start, b => isDone = b)) yield return step;
        if (!log.Admits(Epoch) || !_host.Store.Admits(Epoch)) yield break;
        if (isDone is { } did)
        {
            _life.Performed(did);
            yield break;
        }

        int historyId = Cluster.NewHistoryId();
        log.BeginWorldLine(start, historyId);
        if (Cluster.IsTraced) Cluster.Note($"{Name} enters {start.WorldLine} in its log, at {start.Point}, offset {start.Offset}");
        yield return true;
        // A restore takes its time.
        for (int n = Cluster.Random.Next(8); n > 0; n--) yield return true;
        if (!_host.Store.IsUp || !log.Admits(Epoch) || !_host.Store.Admits(Epoch)) yield break;
        Cluster.Checks.OnRestored(_host, start);
        _host.Store.Restore(log.Bytes, (int)start.Offset, historyId, start.WorldLine);
        Cluster.Count("restored");
        yield return true;
        if (!_host.Store.IsUp || _host.Store.HistoryId != historyId || !_host.Store.Admits(Epoch)) yield break;
        Attach(start, start.Point);
        _life.Performed(true);
    }

    /// <summary>The machine goes on, or begins.</summary>
    /// <param name="standsAt">Up to where the stream may bring what is of before; null: to where the store stands.</param>
    private void Attach(Boundary start, WorldPoint recorded, bool isRestarted = false, long? standsAt = null)
    {
        Store store = _host.Store;
        UpstreamLost();
        if (_machine is not null) Learn(_looked!);
        _view = _looked;
        if (_machine is null)
        {
            WorldPoint cut = new(start.WorldLine, _life.Cut.Version);
            _machine = new(_options,
                new(_grid.View.Grid, start, recorded, cut, Now()) { IsClean = _life.Joiner.IsJoining,
                    GridValidUntilUs = _grid.View.ValidUntilUs }, _settings.Shard);
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
        _isAttached = true;
        ConnectUpstream();
        _machine.Attached(_host.Log.End, standsAt ?? store.History.Count);
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
            if (enter.Result is null) continue;
            _isEntered = true;
            yield break;
        }
    }
}
