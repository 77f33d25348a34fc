// The exact finder (DPR, section 3.3): the maximal closure of the precedence graph. The graph's rows are durable in the metadata
// before they are reported, so a coordinator is stateless: another one starts from the recorded cut and the rows above it, and
// finds the same. It needs no rule about versions to be safe; the rule of section 3.2 is what lets it make progress.
// Its cuts respect the order of sessions only; what needs real time (snapshots, a backup) needs grid cuts.
namespace Slogger.Core.Cuts;

/// <summary>Finds the largest cut whose versions are durable together with all that they depend on.</summary>
/// <remarks>At most 128 ranges of a shard above the cut are kept apart. Beyond that the last ones are merged: safe, but versions
/// that do not depend on the slow shard that holds back the cut may then wait with those that do.</remarks>
public sealed class ExactFinder : IDprFinder
{
    private readonly FinderMutation _mutation;
    private readonly PrecedenceGraph _graph;

    /// <summary>Starts from a recorded cut and the rows above it, in any order. Rows of other world-lines are passed over.</summary>
    /// <exception cref="ArgumentException">A row names a shard that the cut does not have, or goes back.</exception>
    public ExactFinder(Cut current, IEnumerable<PrecedenceRow> rows)
        : this(current, rows, FinderMutation.None, PrecedenceGraph.RangesMax)
    {
    }

    internal ExactFinder(Cut current, IEnumerable<PrecedenceRow> rows, FinderMutation mutation, int rangesMax)
    {
        _mutation = mutation;
        _graph = new(current, mutation, rangesMax);
        Current = current;
        foreach (PrecedenceRow row in rows)
        {
            row.Validate(current);
            Add(row);
        }
    }

    /// <inheritdoc />
    public Cut Current { get; private set; }

    /// <summary>The rows above the cut: all that another coordinator needs beside <see cref="Current"/>. In the order of shards
    /// and versions.</summary>
    public IReadOnlyList<PrecedenceRow> Rows() => _graph.Rows(Current.WorldLine);

    /// <inheritdoc />
    public void Report(in VersionReport report)
    {
        report.Validate(Current);
        Add(report.Row);
    }

    /// <inheritdoc />
    public bool Advance()
    {
        if (!_graph.Close()) return false;
        Current = Current.MovedTo(_graph.Floor);
        return true;
    }

    /// <inheritdoc />
    public void BeginWorldLine(Cut branch)
    {
        if (!Current.IsFollowedBy(branch)) return;
        Current = branch;
        _graph.Restart(branch.Versions);
    }

    private void Add(in PrecedenceRow row)
    {
        if (row.Through.WorldLine == Current.WorldLine || _mutation == FinderMutation.AnyWorldLine) _graph.Add(row);
    }
}
