// Which versions a store stands for that commits whole states (all but mode log): its kept states prove what a recovery may go back to, the
// newest of them also stands for versions after it in which nothing was done, and those that no recovery can need are deleted.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Proxy.Shards;

/// <summary>The states that a store has kept, each the state at the end of a version, or of several in a row. Thread-safe.</summary>
internal interface IKeptStates
{
    /// <summary>The last end of a version that any state stands for, by world-line and version; null without a state.</summary>
    Boundary? Newest { get; }

    /// <summary>The last end of a version, of the current history, that a state stands for.</summary>
    /// <param name="current">The current world-line.</param>
    /// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
    /// <param name="atMost">No later version.</param>
    Boundary? Latest(WorldLine current, Func<WorldLine, VersionNumber> lastValid, VersionNumber atMost);

    /// <summary>Has the newest state before it stand for the versions up to a boundary, too. Durable when it returns.</summary>
    /// <returns>False: the world-line has no such state.</returns>
    bool Extend(Boundary last);

    /// <summary>Deletes what no recovery can need when this cut is recorded, and nothing else.</summary>
    void Prune(WorldPoint cut, Func<WorldLine, VersionNumber> lastValid);
}

/// <summary>What follows from the kept states. Thread-safe.</summary>
/// <param name="states">The states.</param>
/// <param name="lastValid">The last version of an older world-line that is still part of the current one.</param>
/// <param name="durable">Told of what is durable.</param>
internal sealed class KeptVersions(IKeptStates states, Func<WorldLine, VersionNumber> lastValid, Action<WorldPoint> durable)
{
    private readonly Lock _lock = new();
    private Boundary? _emptyRun;
    private WorldPoint? _cut;

    // ---- What a recovery asks ----

    /// <summary>The last boundary that is proved; and if that is of an older world-line, the last that is not void: the same, since none
    /// that a state proves is ever void.</summary>
    public (Boundary? Last, Boundary? BelowBranch) Proved(WorldLine current)
    {
        // A world-line that the metadata does not know: it is not the pair of this directory.
        if (states.Newest is { } newest && newest.WorldLine > current) { return (newest, null); }
        if (states.Latest(current, lastValid, new VersionNumber(long.MaxValue)) is not { } last) { return (null, null); }
        return (last, last.WorldLine < current ? last : null);
    }

    /// <summary>Where a version ends; null if no state stands for it.</summary>
    public Boundary? BoundaryOf(VersionNumber version, WorldLine current) =>
        states.Latest(current, lastValid, version) is { } last && last.Version == version ? last : null;

    // ---- What the machine says: under its lock ----

    /// <summary>In the versions up to here nothing was done since the newest state.</summary>
    public void OnEmptyRun(Boundary last)
    {
        lock (_lock) { _emptyRun = last; }
    }

    /// <summary>A cut was recorded.</summary>
    public void OnCommitted(WorldPoint cut)
    {
        lock (_lock) { _cut = cut; }
    }

    // ---- What the saving task does ----

    /// <summary>Keeps that versions have passed empty. To be done before another state is kept, which does not stand for them. If the disk
    /// refuses it is still to be done.</summary>
    public void ExtendOverEmptyRun()
    {
        Boundary last;
        lock (_lock)
        {
            if (_emptyRun is not { } wanted) { return; }
            last = wanted;
        }
        bool isKept = states.Extend(last);
        lock (_lock)
        {
            if (_emptyRun == last) { _emptyRun = null; }
        }
        if (isKept) { durable(last.Point); }
    }

    /// <summary>Deletes what the cut has left behind.</summary>
    public void PruneBelowCut()
    {
        WorldPoint cut;
        lock (_lock)
        {
            if (_cut is not { } wanted) { return; }
            cut = wanted;
            _cut = null;
        }
        states.Prune(cut, lastValid);
    }
}
