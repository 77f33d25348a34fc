// The hybrid finder (DPR, section 3.4): the precedence graph in memory only, durable versions alone in the metadata. While
// its process lives it finds what the exact finder would. After its death another one starts from the recorded cut and the
// durable versions; what they depend on is lost. The graph is then no help until the approximate cut has passed the lost
// part: a version whose dependencies lead into it cannot be advanced. The approximate cut goes on all the time.

using Slogger.Core.Versions;
namespace Slogger.Core.Cuts;

/// <summary>Finds the maximal closure of what it knows of the graph, and never less than the approximate cut. Its cuts are as safe as
/// those of the <see cref="ApproximateFinder"/>: by the rule that no version depends on a larger one.</summary>
/// <remarks>To take over after another's death: start from the recorded cut, then give
/// <see cref="VersionReport.WithoutDependencies"/> for each row of the metadata. No report may have to be known for this to be
/// right: where reports do not join, the part between counts as lost by itself.</remarks>
public sealed class HybridFinder : IDprFinder
{
    private readonly FinderMutation _mutation;
    private readonly ApproximateFinder _approximate;
    private readonly PrecedenceGraph _graph;

    /// <summary>Starts from a recorded cut.</summary>
    public HybridFinder(Cut current)
        : this(current, FinderMutation.None, PrecedenceGraph.RangesMax)
    {
    }

    internal HybridFinder(Cut current, FinderMutation mutation, int rangesMax)
    {
        _mutation = mutation;
        _approximate = new(current, mutation);
        _graph = new(current, mutation, rangesMax);
        Current = current;
    }

    /// <inheritdoc />
    public Cut Current { get; private set; }

    /// <inheritdoc cref="ApproximateFinder.Vmax" />
    public VersionNumber Vmax => _approximate.Vmax;

    /// <inheritdoc />
    public void Report(in VersionReport report)
    {
        _approximate.Report(report);
        if (report.Durable.WorldLine == Current.WorldLine || _mutation == FinderMutation.AnyWorldLine) _graph.Add(report.Row);
    }

    /// <inheritdoc />
    public bool Advance()
    {
        // Two closed cuts together are closed, so the graph goes on from whichever is larger, shard by shard.
        bool moved = _approximate.Advance() && _graph.RaiseFloor(_approximate.Current.Versions);
        moved |= _graph.Close();
        if (moved) Current = Current.MovedTo(_graph.Floor);
        return moved;
    }

    /// <inheritdoc />
    public void BeginWorldLine(Cut branch)
    {
        if (!Current.IsFollowedBy(branch)) return;
        Current = branch;
        _graph.Restart(branch.Versions);
        _approximate.BeginWorldLine(branch);
    }
}
