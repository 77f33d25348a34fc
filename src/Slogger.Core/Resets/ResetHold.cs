// One shard's part in a reset: the whole cluster goes back to what it was at an instant, by writes that undo what was done since. All
// shards do, or none does.
//
// Order: operations of clients are held, at all shards; what was let through is awaited, until it is in the recorded cut everywhere; no
// version is closed from then on; the writes are done; the version that holds them is closed. Whatever comes of it, a world-line begins
// then at the newest cut. If all shards have closed that version, the cut has all of the reset; if one has not, it has nothing of it. So
// a process may be killed at any step, and so may whoever manages the reset: the next recovery begins such a world-line, too.
//
// Why no cut has a part of it: from the freeze to the end of the writes a shard closes nothing, and then only a version that no shard can
// have closed before its own freeze. The versions in between are closed together with that one, so the shard cannot be restored to any
// of them (its floor, ShardMachine), and no cut lies there.
//
// Why a reset that is called off loses nothing: what was acknowledged before is in the cut when the freeze begins.
//
// A shard that is replicated may get another leader at any step: see ResetMark. One that is a cluster by itself needs no world-line, since
// its part is in one version: whoever leads has that, or has it not. So its reset ends when that version is committed, or another node
// leads.
//
// Contract with the caller: calls are serialised. While IsHeld no operation of a client is let through. No version is closed unless
// MayClose says so. While a marker is on its way, nothing is written: it may close a version behind a part of the writes.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Resets;

/// <summary>How far a shard's part is.</summary>
public enum ResetPhase
{
    /// <summary>There is no reset, or none that holds anything yet.</summary>
    None,

    /// <summary>Operations of clients are held; what was let through before may be under way.</summary>
    Holds,

    /// <summary>No version is closed; what was there before is being overwritten, or is about to be.</summary>
    Writes,

    /// <summary>All is written.</summary>
    Written,

    /// <summary>The version that holds it is being closed, or is closed.</summary>
    Closes,
}

/// <summary>A rule that is left out, to prove that the tests find it.</summary>
internal enum ResetMutation
{
    None,
    WritesBeforeCommitted,
    WritesBesideMarker,
    ClosesWhileWriting,
    ClosesTooEarly,

    /// <summary>Who ends it lets clients in, though what was written may be in no cut.</summary>
    LetsInBeforeCut,

    /// <summary>Who takes the lead goes on in the same world-line.</summary>
    MarkIgnored,
}

/// <summary>Holds one shard for a reset. Source: design of the past, section 3.7, without its table: the cut decides.</summary>
public sealed class ResetHold
{
    private readonly ResetMutation _mutation;
    private volatile ResetPhase _phase;
    private WorldPoint? _last;          // the version that was open when nothing was under way any more
    private VersionNumber _above;
    private VersionNumber? _result;

    /// <summary>Nothing is held.</summary>
    public ResetHold() : this(ResetMutation.None)
    {
    }

    internal ResetHold(ResetMutation mutation) => _mutation = mutation;

    /// <summary>How far it is. Any thread.</summary>
    public ResetPhase Phase => _phase;

    /// <summary>Whether operations of clients are held. Any thread.</summary>
    public bool IsHeld => _phase != ResetPhase.None;

    /// <summary>Whether no version may be closed at all. Any thread.</summary>
    public bool IsFrozen => _phase is ResetPhase.Writes or ResetPhase.Written && _mutation != ResetMutation.ClosesWhileWriting;

    /// <summary>The version that holds what was written, once it is closed.</summary>
    public VersionNumber? Result => _result;

    /// <summary>Holds operations from now on.</summary>
    /// <returns>False: they are held already.</returns>
    public bool Hold()
    {
        if (IsHeld) { return false; }
        (_last, _result, _above, _phase) = (null, null, default, ResetPhase.Holds);
        return true;
    }

    /// <summary>What was let through before has been answered.</summary>
    /// <param name="open">The version that is open: it holds the last of it.</param>
    public void Quiet(WorldPoint open)
    {
        if (_phase == ResetPhase.Holds) { _last ??= open; }
    }

    /// <summary>Whether everything that was ever acknowledged is in the recorded cut: then the reset may be called off at any time, and
    /// nothing is lost.</summary>
    /// <param name="cut">The recorded cut.</param>
    public bool IsCovered(WorldPoint cut) => _last is { } last && cut.WorldLine == last.WorldLine && cut >= last;

    /// <summary>Closes no version from now on, since writing is about to begin.</summary>
    /// <param name="cut">The recorded cut.</param>
    /// <returns>False: not yet, or it is no time for it.</returns>
    public bool TryFreeze(WorldPoint cut)
    {
        if (_phase != ResetPhase.Holds || (!IsCovered(cut) && _mutation != ResetMutation.WritesBeforeCommitted)) { return false; }
        _phase = ResetPhase.Writes;
        return true;
    }

    /// <summary>Whether writing may begin.</summary>
    /// <param name="isMarkerOnItsWay">Whether a version that was open before the freeze is being closed.</param>
    public bool MayWrite(bool isMarkerOnItsWay) =>
        _phase == ResetPhase.Writes && (!isMarkerOnItsWay || _mutation == ResetMutation.WritesBesideMarker);

    /// <summary>All is written.</summary>
    /// <returns>False: the hold has ended meanwhile.</returns>
    public bool Written()
    {
        if (_phase != ResetPhase.Writes) { return false; }
        _phase = ResetPhase.Written;
        return true;
    }

    /// <summary>All shards have written: the version may be closed.</summary>
    /// <param name="above">The newest version that a shard may have closed before its freeze.</param>
    /// <returns>False: it is no time for it.</returns>
    public bool TryClose(VersionNumber above)
    {
        if (_phase != ResetPhase.Written) { return false; }
        (_above, _phase) = (above, ResetPhase.Closes);
        return true;
    }

    /// <summary>Whether a version may be closed now.</summary>
    /// <param name="version">The last that would be.</param>
    public bool MayClose(VersionNumber version) => _phase switch
    {
        ResetPhase.Writes or ResetPhase.Written => !IsFrozen,
        ResetPhase.Closes => _result is not null || version > _above || _mutation == ResetMutation.ClosesTooEarly,
        _ => true,
    };

    /// <summary>A version was closed.</summary>
    /// <param name="version">The version.</param>
    public void OnBoundary(VersionNumber version)
    {
        if (_phase == ResetPhase.Closes && (version > _above || _mutation == ResetMutation.ClosesTooEarly)) { _result ??= version; }
    }

    /// <summary>Whether a world-line has to begin when it ends now, since something may have been written: who is let in then finds all of
    /// it, in the cut, or nothing.</summary>
    /// <param name="isForgotten">Nobody says whether another shard has written: what clients did here before that one ends would be lost.
    /// </param>
    public bool EndsWithWorldLine(bool isForgotten) => _mutation != ResetMutation.LetsInBeforeCut
        && (_phase > ResetPhase.Holds || (_phase == ResetPhase.Holds && isForgotten));

    /// <summary>Whether all of it is committed.</summary>
    /// <param name="cut">What is.</param>
    public bool IsCommitted(WorldPoint cut) => _phase == ResetPhase.Closes && _result is { } result && IsCovered(cut)
        && cut.Version >= result;

    /// <summary>Whether a world-line has to begin where a node begins to lead.</summary>
    /// <param name="mark">What the metadata has of the shard, read when no earlier leader can change it any more.</param>
    /// <param name="current">The cluster's world-line.</param>
    public bool BeginsWithWorldLine(ResetMark mark, WorldLine current) =>
        mark.IsOpen(current) && _mutation != ResetMutation.MarkIgnored;

    /// <summary>Holds nothing any more: a world-line begins, or nothing was written, or all of it is committed.</summary>
    public void End() => _phase = ResetPhase.None;
}
