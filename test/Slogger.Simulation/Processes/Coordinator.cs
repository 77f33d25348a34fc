// The process that finds cuts of the exact and the hybrid finder: it gathers the shards' reports over the network and records cuts
// in SQL. It may die at any time, and another takes over from what SQL holds; a deposed one's late cut is refused.
using Slogger.Core.Cuts;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Simulation.Processes;

internal sealed class Coordinator : Process
{
    private readonly SimSettings _settings;
    private IDprFinder? _finder;
    private long _rereadAt;

    public Coordinator(Cluster cluster, string name)
        : base(cluster, name)
    {
        _settings = cluster.Settings;
        Start(Run());
    }

    public void Report(in VersionReport report)
    {
        if (IsRunning) _finder?.Report(report);
    }

    private IEnumerable<bool> Run()
    {
        SqlCall take;
        do
        {
            take = Ask("take", Cluster.Sql.TakeCoordinator);
            while (!take.IsDone) yield return true;
        }
        while (take.Result is null);
        long epoch = (long)take.Result;
        while (true)
        {
            if (_finder is null || Cluster.NowUs >= _rereadAt)
            {
                SqlCall look = Ask("look", () => (Cluster.Sql.Look(), Cluster.Sql.Rows()));
                while (!look.IsDone) yield return true;
                if (look.Result is ValueTuple<SqlView, PrecedenceRow[]> read) TakeIn(read.Item1, read.Item2);
                _rereadAt = Cluster.NowUs + (4 * Cluster.IntervalUs);
            }

            yield return true;
            if (_finder is null || !_finder.Advance()) continue;
            Cut found = _finder.Current;
            if (Cluster.IsTraced) Cluster.Note($"{Name} finds {found}");
            SqlCall record = Ask("cut", () => Cluster.Sql.RecordCut(found, epoch));
            while (!record.IsDone) yield return true;
            if (record.Result is RecordResult { Outcome: RecordOutcome.Deposed })
            {
                Cluster.Count("coordinator deposed");
                Die("deposed");
                yield break;
            }

            // Not recorded, or not known: what was found must not be built upon.
            if (record.Result is not RecordResult { Outcome: RecordOutcome.Recorded }) _finder = null;
        }
    }

    private void TakeIn(SqlView view, PrecedenceRow[] rows)
    {
        // Another one has recorded a cut: the rows below it are gone, and without them this graph would have a gap for ever.
        if (_finder is { } behind && view.Line == behind.Current.WorldLine && !behind.Current.IsAtLeast(view.Cut)) _finder = null;
        if (_finder is { } known && view.Line > known.Current.WorldLine && view.Lines[^1].Branch.IsAtLeast(known.Current) && view.Line == known.Current.WorldLine.Next)
        {
            known.BeginWorldLine(view.Lines[^1].Branch);
            Cluster.Count("coordinator goes on in a world-line");
        }
        else if (_finder is null || view.Line != _finder.Current.WorldLine)
        {
            Cluster.Count("coordinator starts from SQL");
            if (Cluster.IsTraced) Cluster.Note($"{Name} starts from {view.Cut} and {rows.Length} rows");
            if (_settings.Finder == FinderKind.Exact)
            {
                _finder = new ExactFinder(view.Cut, rows, _settings.FinderFault, PrecedenceGraph.RangesMax);
                return;
            }

            _finder = new HybridFinder(view.Cut, _settings.FinderFault, PrecedenceGraph.RangesMax);
        }

        if (_settings.Finder == FinderKind.Exact)
        {
            foreach (PrecedenceRow row in rows) _finder.Report(new(row.Shard, row.Through, 1, row.After, row.Dependencies));
            return;
        }

        // Versions that are durable are in SQL; where they can be restored to is only said by the claim's own point.
        for (int s = 0; s < view.Claims.Length; s++)
            _finder.Report(VersionReport.WithoutDependencies(new(s), view.Claims[s].Point, StrideOf(view.Claims[s], view.Cut.Versions[s])));
    }

    /// <summary>The smallest power of two of which the claim says that all multiples above the cut can be restored to.</summary>
    private static long StrideOf(in DurableClaim claim, Version cut)
    {
        for (long stride = 1; ; stride *= 2)
        {
            bool holds = true;
            for (long v = ((cut.Number / stride) + 1) * stride; holds && v <= claim.Point.Version.Number; v += stride) holds = claim.Restores(new(v));
            if (holds) return stride;
        }
    }
}
