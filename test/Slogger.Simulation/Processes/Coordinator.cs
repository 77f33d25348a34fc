// The process that finds cuts: it gathers the shards' reports over the network and records cuts in SQL. It takes the role when the lease of
// who had it has run out, by the machine that the product drives (LeaseWatch). It may die at any time, and another takes over
// from what SQL holds; a deposed one's late cut is refused.
using Slogger.Core.Cuts;
using Slogger.Core.Leases;
using Slogger.Core.Membership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed class Coordinator : Process
{
    public const long TermUs = 8 * Cluster.IntervalUs;

    private readonly SimSettings _settings;
    private readonly List<(VersionReport Report, long Epoch)> _heard = [];
    private readonly long[] _saidBy = new long[Cluster.ShardsMax];
    private IDprFinder? _finder;
    private SqlView? _known;
    private long _rereadAt;

    public Coordinator(Cluster cluster, string name)
        : base(cluster, name)
    {
        _settings = cluster.Settings;
        Start(Run());
    }

    /// <summary>It has the role, and finds cuts.</summary>
    public bool IsListening => IsRunning && _finder is not null;

    /// <summary>A shard says what is durable.</summary>
    public void Hear(in VersionReport report, long epoch)
    {
        if (IsListening) _heard.Add((report, epoch));
    }

    private IEnumerable<bool> AwaitRole(Action<long> taken)
    {
        LeaseWatch watch = new(TermUs, _settings.Lease);
        while (true)
        {
            long asked = Cluster.NowUs;
            SqlCall look = Ask("watch", Cluster.Sql.Look);
            while (!look.IsDone) yield return true;
            if (look.Result is not SqlView view)
            {
                watch.Missed();
                continue;
            }

            if (!watch.Look(view.Role, asked, Cluster.NowUs) && view.Role.Epoch > 0)
            {
                yield return true;
                continue;
            }

            SqlCall take = Ask("take", () => Cluster.Sql.TakeCoordinator(view.Role));
            while (!take.IsDone) yield return true;
            if (take.Result is > 0L and long epoch)
            {
                taken(epoch);
                yield break;
            }
        }
    }

    private IEnumerable<bool> Run()
    {
        long epoch = 0;
        foreach (bool step in AwaitRole(e => epoch = e)) yield return step;
        while (true)
        {
            if (_finder is null || Cluster.NowUs >= _rereadAt)
            {
                SqlCall renew = Ask("renew", () => Cluster.Sql.RenewCoordinator(epoch));
                while (!renew.IsDone) yield return true;
                if (renew.Result is false) break;
                SqlCall look = Ask("look", () => (Cluster.Sql.Look(), Cluster.Sql.Rows()));
                while (!look.IsDone) yield return true;
                if (look.Result is ValueTuple<SqlView, PrecedenceRow[]> read) TakeIn(read.Item1, read.Item2);
                _rereadAt = Cluster.NowUs + (4 * Cluster.IntervalUs);
            }

            yield return true;
            if (_finder is null) continue;
            TakeHeard();
            if (!_finder.Advance()) continue;
            Cut found = _finder.Current;
            long owners = _known!.Owners;
            if (Cluster.IsTraced) Cluster.Note($"{Name} finds {found}");
            long[] saidBy = _saidBy[..found.ShardCount];
            SqlCall record = Ask("cut", () => Cluster.Sql.RecordCut(found, epoch, owners, saidBy));
            while (!record.IsDone) yield return true;
            if (record.Result is RecordResult { Outcome: RecordOutcome.Deposed }) break;

            // Not recorded, or not known: what was found must not be built upon.
            if (record.Result is not RecordResult { Outcome: RecordOutcome.Recorded }) _finder = null;
        }

        Cluster.Count("coordinator deposed");
        Die("deposed");
    }

    // Of a shard that has changed hands only the owner counts, as far as it is known here.
    private void TakeHeard()
    {
        foreach ((VersionReport report, long epoch) in _heard)
        {
            int shard = report.Shard.Number;
            if (shard >= _known!.Epochs.Length) continue;
            if (epoch != _known.Epochs[shard] && _settings.Mutation != SimMutation.OwnersNotCompared) continue;
            _saidBy[shard] = epoch;
            _finder!.Report(report);
        }

        _heard.Clear();
    }

    private void TakeIn(SqlView view, PrecedenceRow[] rows)
    {
        // What a deposed owner has said is in the finder.
        if (_known is { } before && before.Owners != view.Owners && _settings.Mutation != SimMutation.OwnersNotCompared) _finder = null;
        _known = view;
        // Another one has recorded a cut: the rows below it are gone, and without them this graph would have a gap for ever.
        if (_finder is { } behind && view.Line == behind.Current.WorldLine && !behind.Current.IsAtLeast(view.Cut)) _finder = null;
        if (_finder is { } known && view.Line > known.Current.WorldLine && view.Lines[^1].Branch.IsAtLeast(known.Current)
            && view.Line == known.Current.WorldLine.Next)
        {
            known.BeginWorldLine(view.Lines[^1].Branch);
            Cluster.Count("coordinator goes on in a world-line");
        }
        else if (_finder is null || view.Line != _finder.Current.WorldLine)
        {
            Cluster.Count("coordinator starts from SQL");
            if (Cluster.IsTraced) Cluster.Note($"{Name} starts from {view.Cut} and {rows.Length} rows");
            _heard.Clear();
            _finder = _settings.Finder switch
            {
                FinderKind.Exact => new ExactFinder(view.Cut, rows, _settings.FinderFault, PrecedenceGraph.RangesMax),
                FinderKind.Hybrid => new HybridFinder(view.Cut, _settings.FinderFault, PrecedenceGraph.RangesMax),
                _ => new ApproximateFinder(view.Cut, _settings.FinderFault,
                    [.. view.Members.States.Select(s => Members.Counts(s, _settings.Member))]),
            };
            Cluster.AskAgain();
        }

        if (_settings.Finder == FinderKind.Exact)
        {
            foreach (PrecedenceRow row in rows) _finder.Report(new(row.Shard, row.Through, 1, row.After, row.Dependencies));
            return;
        }

        for (int s = 0; s < view.Claims.Length; s++)
            _finder.Report(VersionReport.Of(new(s), view.Claims[s], view.Claims[s].Point.Version, DependencySet.Empty));
    }
}
