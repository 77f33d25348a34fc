// The life of a shard between the moment its process has taken it and the process's end: how it recovers, when it lets clients in, and what
// it does when its store may be lost. Driven by the shard's control task in the product, and by the simulator.
//
// Each method Begin... begins a sequence of steps. The driver calls Next, does the step, reports what the step asks for, and calls Next
// again. It decides nothing. A step may fail, and the process may end at any of them. A driver whose step fails begins a sequence again:
// what has to outlive a failure is a field here, everything else is a variable of the sequence.
//
// The order of the steps is what keeps the invariants:
// - SQL holds a new world-line before the store goes back to its branch (I5): what lies above the branch is void for everybody from then
//   on.
// - A shard notes that it has left a world-line after its clients' connections are closed (I5): who waits for that note may let clients in.
// - Clients are let in when all shards have entered the world-line (I5), and when the version that is open has begun by the clock (I1).
// - Clients hear of each branch before they are let in, also of one that an attempt came to that was cut short.
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Lifecycle;

/// <summary>The life of one shard. One caller at a time.</summary>
public sealed class ShardLifecycle
{
    private readonly LifecycleOptions _options;
    private readonly LifecycleMutation _mutation;
    private IEnumerator<LifecycleStep> _steps = Enumerable.Empty<LifecycleStep>().GetEnumerator();
    private LifecycleView _now;
    private WorldLine _entered;         // what SQL holds already when a site takes over
    private bool _isRecovering = true;  // a recovery has begun, and is not at its end
    private bool _isKeptOut = true;     // clients: since the recovery, or since the process has started
    private bool _areMovesOpen;
    private bool _isSeedUsed;
    private bool _isTakingOver, _isWithSite;
    private Boundary? _owedBranch;      // clients have yet to be told of it

    // What was reported of the last step.
    private MetadataView? _view;
    private bool _isSameStore, _hasEnded, _isDone;
    private (StoreSituation Situation, string Text, long KeyCount) _found;
    private (Boundary? Last, Boundary? BelowBranch, RestoredState? Restored) _proved;
    private Boundary? _located;
    private VersionNumber? _begun;
    private (WorldLine Current, IReadOnlyList<ShardId> Outside) _peers;

    /// <summary>A shard that its process has just taken.</summary>
    /// <param name="options">What it is.</param>
    /// <param name="line">The world-line that SQL says it is in.</param>
    public ShardLifecycle(LifecycleOptions options, WorldLine line) : this(options, line, LifecycleMutation.None)
    {
    }

    internal ShardLifecycle(LifecycleOptions options, WorldLine line, LifecycleMutation mutation) =>
        (_options, WorldLine, _mutation, Joiner) = (options, line, mutation, new Joiner(mutation));

    /// <summary>The world-line that the shard is in.</summary>
    public WorldLine WorldLine { get; private set; }

    /// <summary>The recorded cut of this shard, as of the last look, or as this recovery has changed it.</summary>
    public WorldPoint Cut { get; private set; }

    /// <summary>What this shard does to join its cluster.</summary>
    public Joiner Joiner { get; }

    /// <summary>Whether the shard has just become a primary's, and has yet to let clients in.</summary>
    public bool IsTakingOver => _isTakingOver;

    // ---- Sequences ----

    /// <summary>A process has started: recovers what it finds. Nobody can be let in yet.</summary>
    public void BeginStart() => _steps = Recover(atStart: true);

    /// <summary>The front end has come: lets clients in.</summary>
    public void BeginOpening() => _steps = Open(owed: null);

    /// <summary>Something was suspected: looks into it, and recovers if need be.</summary>
    public void BeginResolving() => _steps = Resolve();

    /// <summary>The shard's site has become the primary: recovers with the store as it stands, and lets clients in.</summary>
    public void BeginTakeOver() => _steps = TakeOver();

    /// <summary>The shard is a primary's from now on.</summary>
    /// <param name="final">Where its stream ended. SQL holds that the shard has entered that world-line.</param>
    /// <param name="view">What SQL says, read after the site became the primary.</param>
    /// <param name="isWithSite">Whether its site has taken over with all of its shards, and not a node of its cohort alone.</param>
    public void TakenOver(Boundary final, MetadataView view, bool isWithSite)
    {
        (WorldLine, _entered, _isWithSite) = (final.WorldLine, final.WorldLine, isWithSite);
        // Whoever has read here learns that another world-line has begun.
        _owedBranch = final;
        (_isTakingOver, _view) = (true, view);
    }

    /// <summary>The shard is a primary's from now on, and has never been anybody's: its cohort begins with it.</summary>
    public void Founded() => _isTakingOver = true;

    /// <summary>The next step.</summary>
    /// <param name="now">How the shard is.</param>
    /// <param name="step">What to do.</param>
    /// <returns>False: the sequence is over.</returns>
    public bool Next(in LifecycleView now, out LifecycleStep step)
    {
        _now = now;
        bool isMore = _steps.MoveNext();
        step = isMore ? _steps.Current : default;
        return isMore;
    }

    // ---- Reports ----

    /// <summary>CompareStore: whether the store has lost nothing.</summary>
    public void Compared(bool isSame) => _isSameStore = isSame;

    /// <summary>StartStore: whether the store's process had ended.</summary>
    public void StoreStarting(bool hadEnded) => _hasEnded = hadEnded;

    /// <summary>LookAtMetadata: what SQL says.</summary>
    public void Looked(MetadataView view) => _view = view;

    /// <summary>LookAtStore: how the store looks; why, if it does not answer; and how many keys it holds.</summary>
    public void Found(StoreSituation situation, string text, long keyCount) => _found = (situation, text, keyCount);

    /// <summary>ReadLog: the last boundary that is durable; if that is of an older world-line, the last that is not void; and what an
    /// offline restore has left.</summary>
    public void Proved(Boundary? last, Boundary? belowBranch, RestoredState? restored) => _proved = (last, belowBranch, restored);

    /// <summary>Locate: where the version ends; null: the log does not hold it.</summary>
    public void Located(Boundary? at) => _located = at;

    /// <summary>BeginWorldLine: where it branches; null: another recovery was faster.</summary>
    public void WorldLineBegun(VersionNumber? branch) => _begun = branch;

    /// <summary>Continue, BeginLog, BeginWith, Restore: whether it was done. If not, everything is looked at again.</summary>
    public void Performed(bool isDone) => _isDone = isDone;

    /// <summary>LookAtPeers: the current world-line, and who has yet to enter the one that was asked about.</summary>
    public void PeersSeen(WorldLine current, IReadOnlyList<ShardId> outside) => _peers = (current, outside);

    // ---- A store that may be lost ----

    private IEnumerator<LifecycleStep> Resolve()
    {
        yield return new(LifecycleStepKind.TakeSuspicion);
        _isSameStore = false;
        bool isLeft = _now.IsLeft && !Is(LifecycleMutation.LeftWorldLineGoesOn);
        if (_now.IsAttached && !isLeft && !_isRecovering)
        {
            if (Is(LifecycleMutation.SameStoreAssumed)) { _isSameStore = true; }
            else { yield return new(LifecycleStepKind.CompareStore); }
        }
        if (_now.IsStopping)
        {
            // Left to the next start.
            yield return new(LifecycleStepKind.AbandonStore);
            yield break;
        }
        if (_isSameStore)
        {
            // Only a connection of the front end broke.
            yield return new(LifecycleStepKind.EndLost);
            if (_isKeptOut && !Is(LifecycleMutation.CutShortOpens))
            {
                // The suspicion has ended the waiting before clients are let in too early.
                foreach (LifecycleStep step in Open(Is(LifecycleMutation.BranchForgotten) ? null : _owedBranch)) { yield return step; }
                yield break;
            }
            yield return new(LifecycleStepKind.Open);
            yield break;
        }
        (_isRecovering, _isKeptOut, _areMovesOpen) = (true, true, false);
        yield return new(LifecycleStepKind.LoseStore);
        foreach (LifecycleStep step in Recover(atStart: false)) { yield return step; }
    }

    private IEnumerator<LifecycleStep> TakeOver()
    {
        yield return new(LifecycleStepKind.TakeSuspicion);
        foreach (LifecycleStep step in Recover(atStart: false)) { yield return step; }
        yield return new(LifecycleStepKind.StartWorkers);
        _isTakingOver = false;
    }

    // ---- The recovery ----

    private IEnumerator<LifecycleStep> Recover(bool atStart)
    {
        bool isTold = false;
        while (true)
        {
            // What a site has just taken over runs, unless it has ended since.
            bool isKnown = _view is not null && (_isTakingOver || Is(LifecycleMutation.ViewKept));
            yield return new(LifecycleStepKind.StartStore) { OnlyIfEnded = isKnown };
            // A store that has ended is lost, whatever the next one takes to start: the other shards need not wait for it.
            bool isGone = !atStart && _hasEnded;
            if (!isGone) { yield return new(LifecycleStepKind.AwaitStore); }
            if (Joiner.IsJoining) { yield return new(LifecycleStepKind.SuspendAdmission); }
            if (!isKnown) { yield return new(LifecycleStepKind.LookAtMetadata); }
            MetadataView view = _view!;
            if (!Is(LifecycleMutation.ViewKept)) { _view = null; }
            if (view.IsDeposed)
            {
                yield return new(LifecycleStepKind.GiveWay);
                yield break;
            }
            Joiner.Seen(view.State);
            Cut = view.Cut;
            // The cut has moved on without a shard that joins: where it begins lies behind.
            WorldPoint recorded = Joiner.IsJoining && Cut > view.Claim ? Cut : view.Claim;
            WorldLine current = recorded.WorldLine, entered = _entered;
            if (!atStart && current > WorldLine)
            {
                // The others wait until this shard has left the older world-lines. They need not wait until it has looked at its store.
                foreach (LifecycleStep step in Leave(current)) { yield return step; }
                yield return new(LifecycleStepKind.AwaitEntered);
                entered = current;
            }
            _found = (StoreSituation.Empty, "", 0);
            if (!isGone) { yield return new(LifecycleStepKind.LookAtStore) { WorldLine = current }; }
            yield return new(LifecycleStepKind.ReadLog) { WorldLine = current };
            RecoveryDecision decision = RecoveryPlan.Decide(Facts(atStart, recorded));
            if (isGone && decision is not RecoveryDecision.RestoreFromLog) { yield return new(LifecycleStepKind.AwaitStore); }
            _isDone = false;
            WorldLine line = current;
            Boundary? rolledBack = null;
            switch (decision)
            {
                case RecoveryDecision.WaitForStore wait:
                    if (atStart && !_options.IsSupervised)
                    {
                        yield return Refusal(_found.Text.Length > 0 ? _found.Text : wait.Text);
                        yield break;
                    }
                    yield return new(LifecycleStepKind.WaitForStore) { Text = isTold ? null : $"{wait.Text} {_found.Text}" };
                    isTold = true;
                    continue;
                case RecoveryDecision.Refuse refuse:
                    yield return Refusal(refuse.Text);
                    yield break;
                case RecoveryDecision.Continue:
                    yield return new(LifecycleStepKind.Continue) { At = _proved.Last!.Value, Recorded = recorded };
                    break;
                case RecoveryDecision.FirstStartEmpty:
                    yield return BeginLog(new(current, VersionNumber.Zero), recorded, LogContent.Nothing);
                    break;
                case RecoveryDecision.BeginToJoin join:
                    // Admitted with what is thrown away here, it could not go back where the others can. Who takes the shard anew has
                    // another epoch.
                    if (Joiner.MayBeAdmitted && !Is(LifecycleMutation.AdmissionForgotten))
                    {
                        yield return Refusal(
                            $"shard {_options.Shard}: its store was lost while it joined its cluster, and the metadata did not answer "
                                + "whether it has joined: start this proxy again");
                        yield break;
                    }
                    yield return new(LifecycleStepKind.ForgetVersions);
                    yield return BeginLog(join.At, recorded, LogContent.NothingYet);
                    if (_isDone) { yield return new(LifecycleStepKind.AllowAdmission) { At = At(join.At) }; }
                    break;
                case RecoveryDecision.GapCheckpoint:
                    yield return BeginLog(new(current, _proved.Last!.Value.Version), recorded, LogContent.SameHistory);
                    break;
                case RecoveryDecision.TakeOverByCheckpoint adopt:
                    yield return new(LifecycleStepKind.CloseFrontEnd);
                    WorldPoint adopted = new(current, adopt.Branch);
                    if (adopt.NewWorldLine is { } next)
                    {
                        yield return new(LifecycleStepKind.BeginWorldLine) { At = At(adopted), IsAdoption = true };
                        if (_begun is not { } branch) { continue; }
                        (line, Cut, adopted) = (next, new(next, branch), new(next, branch));
                    }
                    _isSeedUsed = true;
                    yield return BeginLog(adopted, adopted, LogContent.WhatItHolds);
                    break;
                case RecoveryDecision.GoOnFrom older:
                    line = older.WorldLine;
                    foreach (LifecycleStep step in GoOnFrom(older, current)) { yield return step; }
                    break;
                case RecoveryDecision.RestoreFromLog restore:
                    _isSeedUsed = true;
                    line = restore.WorldLine;
                    Boundary start = restore.Last;
                    yield return new(LifecycleStepKind.RequireBase) { At = start, WorldLine = current };
                    yield return new(LifecycleStepKind.CloseFrontEnd);
                    if (Is(LifecycleMutation.RestoresBeforeBegun))
                    {
                        yield return new(LifecycleStepKind.Restore) { At = start, WorldLine = line, Recorded = recorded };
                    }
                    if (restore.Begins)
                    {
                        yield return new(LifecycleStepKind.BeginWorldLine) { At = start };
                        if (_begun is not { } branch)
                        {
                            yield return new(LifecycleStepKind.AwaitStore);
                            continue;
                        }
                        if (branch != start.Version && !Is(LifecycleMutation.OwnBranchTaken))
                        {
                            yield return new(LifecycleStepKind.RequireBase) { At = At(new(current, branch)), WorldLine = current };
                            yield return new(LifecycleStepKind.Locate) { At = At(new(current, branch)), WorldLine = current };
                            if (_located is not { } below)
                            {
                                yield return Refusal($"shard {_options.Shard}: world-line {line} branches at version {branch}, which "
                                    + $"{_options.Log} cannot be restored to.");
                                yield break;
                            }
                            start = below;
                        }
                    }
                    Cut = new(line, start.Version);
                    bool isEntering = entered != line;
                    if (isEntering) { yield return new(LifecycleStepKind.BeginEntering) { WorldLine = line }; }
                    entered = line;
                    yield return new(LifecycleStepKind.AwaitStore);
                    if (isGone) { yield return new(LifecycleStepKind.LookAgain); }
                    // Before it is done: an attempt that fails behind it finds a store that goes on. Of an earlier branch that nobody was
                    // told of, the lower one counts.
                    rolledBack = start with { WorldLine = line };
                    _owedBranch = start with { WorldLine = line, Version =
                        VersionNumber.Min(start.Version, _owedBranch?.Version ?? start.Version) };
                    if (!Is(LifecycleMutation.RestoresBeforeBegun))
                    {
                        yield return new(LifecycleStepKind.Restore) { At = start, WorldLine = line, Recorded = recorded };
                    }
                    if (isEntering) { yield return new(LifecycleStepKind.AwaitEntered); }
                    break;
            }
            if (!_isDone) { continue; }
            WorldLine = line;
            if (!Is(LifecycleMutation.TrailNotBegun))
            {
                yield return new(LifecycleStepKind.BeginTrail) { IsAtBranch = rolledBack is not null };
            }
            if (line != current) { yield return new(LifecycleStepKind.LearnWorldLines) { WorldLine = line }; }
            if (entered != line)
            {
                yield return new(LifecycleStepKind.BeginEntering) { WorldLine = line };
                yield return new(LifecycleStepKind.AwaitEntered);
            }
            _isRecovering = false;
            if (atStart)
            {
                // Nobody was there to be told of a branch, and the front end has yet to come.
                _owedBranch = null;
                foreach (LifecycleStep step in AwaitVersion()) { yield return step; }
                yield break;
            }
            Boundary? owed = Is(LifecycleMutation.BranchForgotten) ? rolledBack : _owedBranch;
            foreach (LifecycleStep step in Open(owed)) { yield return step; }
            yield break;
        }
    }

    private RecoveryFacts Facts(bool atStart, WorldPoint recorded) => new()
    {
        Shard = _options.Shard,
        Store = _options.Store,
        Log = _proved.Last is { } last ? new LogEvidence(last) : null,
        LastBelowBranch = _proved.BelowBranch,
        Recorded = recorded,
        Situation = _found.Situation,
        Supervised = _options.IsSupervised,
        IsJoining = Joiner.IsJoining,
        KeyCount = _found.KeyCount,
        Restored = atStart ? _proved.Restored : null,
        MaySeed = _options.MaySeed,
        Seed = atStart && !_isSeedUsed ? _options.Seed : SeedChoice.None,
    };

    // The content of an older version becomes the next one. The note stands until that is durable: a start that finds it does all of this
    // again.
    private IEnumerator<LifecycleStep> GoOnFrom(RecoveryDecision.GoOnFrom older, WorldLine current)
    {
        yield return new(LifecycleStepKind.Locate) { At = At(new(current, older.Version)), WorldLine = current };
        if (_located is not { } content)
        {
            yield return Refusal($"shard {_options.Shard}: it is to go on from version {older.Version}, which {_options.Log} does not "
                + "hold any more. Choose another one (slogger restore --list shows them), or return to the newest by slogger "
                + "restore --latest.");
            yield break;
        }
        yield return new(LifecycleStepKind.RequireBase) { At = content, WorldLine = current };
        yield return new(LifecycleStepKind.NoteGoingOn) { WorldLine = older.WorldLine };
        VersionNumber branch = older.Branch;
        if (older.Begins)
        {
            yield return new(LifecycleStepKind.BeginWorldLine) { At = At(new(current, branch)) };
            if (_begun is not { } begun) { yield break; }
            branch = begun;
        }
        Cut = new(older.WorldLine, branch);
        yield return new(LifecycleStepKind.BeginWith) { At = content, Branch = Cut, WorldLine = current };
        if (_isDone) { yield return new(LifecycleStepKind.ForgetGoingOn) { At = content, Branch = Cut }; }
    }

    // Nobody can do anything here any more when that is noted, so that nothing of the older world-lines is read.
    private IEnumerator<LifecycleStep> Leave(WorldLine next)
    {
        LifecycleStep close = new(LifecycleStepKind.CloseFrontEnd), enter = new(LifecycleStepKind.BeginEntering) { WorldLine = next };
        bool isEarly = Is(LifecycleMutation.EntersBeforeClosed);
        yield return isEarly ? enter : close;
        if (isEarly) { yield return new(LifecycleStepKind.AwaitEntered); }
        yield return isEarly ? close : enter;
    }

    // ---- Letting clients in ----

    private IEnumerator<LifecycleStep> Open(Boundary? owed)
    {
        // A failover has opened all shards of its site in one world-line, and none has begun since.
        bool areTogether = _isTakingOver && _isWithSite && _now.AreStreamsOpen && WorldLine == _entered && Cut.WorldLine == _entered;
        if (!areTogether)
        {
            foreach (LifecycleStep step in AwaitPeers()) { yield return step; }
        }
        foreach (LifecycleStep step in AwaitVersion()) { yield return step; }
        if (!_areMovesOpen) { yield return new(LifecycleStepKind.OpenMoves) { WorldLine = WorldLine }; }
        _areMovesOpen = true;
        yield return new(LifecycleStepKind.EndLost);
        // What was suspected meanwhile has ended the waiting above too early: then nobody is let in, and all is waited for again.
        _isKeptOut = _now.IsSuspected;
        yield return new(LifecycleStepKind.Open) { RolledBack = owed };
        _owedBranch = null;
    }

    // Clients may do nothing here while others can still read elsewhere what is void now. Where the shard is suspected meanwhile nobody is
    // let in, and nothing is waited for.
    private IEnumerator<LifecycleStep> AwaitPeers()
    {
        long beganUs = _now.NowUs;
        bool isTold = false;
        while (_options.HasPeers && !_now.IsSuspected && !Is(LifecycleMutation.PeersNotAwaited))
        {
            yield return new(LifecycleStepKind.LookAtPeers) { WorldLine = WorldLine };
            if (_peers.Current > WorldLine)
            {
                // Shards that have not come to this world-line may never: nobody is let in before this shard has followed.
                if (!Is(LifecycleMutation.LaterWorldLineLetsIn))
                {
                    yield return new(LifecycleStepKind.LeaveWorldLine) { WorldLine = _peers.Current };
                }
                yield break;
            }
            if (_now.IsStopping) { yield break; }
            bool isLate = _now.NowUs - beganUs > _options.PeersUs;
            if (Joiner.IsJoining && !Is(LifecycleMutation.AdmissionNotAwaited))
            {
                if (isLate && !isTold) { yield return new(LifecycleStepKind.WarnNotJoined); }
                isTold |= isLate;
            }
            else if (_peers.Outside.Count == 0)
            {
                yield break;
            }
            else if (isLate)
            {
                yield return new(LifecycleStepKind.WarnOfPeers) { Shards = _peers.Outside, WorldLine = WorldLine };
                yield break;
            }
            // The others have to see that this shard lives.
            yield return new(LifecycleStepKind.StartWorkers);
            yield return new(LifecycleStepKind.Rest) { WaitUs = _options.PeersPeriodUs };
        }
    }

    // At an ordered end the last version is closed before its time. What is done next would be counted later than what others do at the
    // same time.
    private IEnumerator<LifecycleStep> AwaitVersion()
    {
        while (_options.HasPeers && _now.UntilVersionUs > 0 && !_now.IsSuspected && !Is(LifecycleMutation.VersionNotAwaited))
        {
            yield return new(LifecycleStepKind.AwaitVersion) { WaitUs = _now.UntilVersionUs };
        }
    }

    // ---- Steps ----

    private bool Is(LifecycleMutation mutation) => _mutation == mutation;

    private static LifecycleStep Refusal(string text) => new(LifecycleStepKind.Refuse) { Text = text };

    private static LifecycleStep BeginLog(WorldPoint at, WorldPoint recorded, LogContent content) =>
        new(LifecycleStepKind.BeginLog) { At = At(at), Recorded = recorded, Content = content };

    // Only its world-line and version count.
    private static Boundary At(WorldPoint point) => new(point.WorldLine, point.Version, 0, 0, default);
}

/// <summary>A sequence within a sequence. (An iterator that can begin twice would name the thread it began on.)</summary>
file static class Nested
{
    public static IEnumerator<LifecycleStep> GetEnumerator(this IEnumerator<LifecycleStep> steps) => steps;
}
