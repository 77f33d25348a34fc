// What must hold of cuts, in words that share nothing with the finders' code.
using Slogger.Core.Cuts;
using Slogger.Core.Versions;

namespace Slogger.Core.Tests.Cuts;

internal sealed partial class FinderWorld
{
    private readonly Dictionary<Type, Cut> _before = [];

    private void Advance()
    {
        foreach (IDprFinder finder in Finders())
        {
            Cut before = finder.Current;
            bool moved = finder.Advance();
            Require(moved == !finder.Current.Equals(before),
                $"{finder.GetType().Name} said moved: {moved}, from {before} to {finder.Current}");
            if (moved) Count(finder.GetType().Name + " moved");
        }

        CheckCuts();
    }

    private void CheckCuts()
    {
        foreach (IDprFinder finder in Finders()) CheckCut(finder);
        VersionNumber[] closure = Closure(shard => _delivered.Where(r => r.Shard.Number == shard).Select(r => r.Row));
        Cut best = new(_branch.WorldLine, closure);
        Require(Merges ? best.IsAtLeast(_exact.Current) : best.Equals(_exact.Current),
            $"exact: {_exact.Current}, the maximal closure is {best}");
        if (_exact.Current.Versions.ToArray().Distinct().Count() > 1) Count("exact is no grid cut");
        if (_approximate is null || _hybrid is null) return;

        CheckGrid();
        // Right after a death the durable versions in the metadata may lag behind what the others were told.
        Require(_hybridForgot || _hybrid.Current.IsAtLeast(_approximate.Current),
            $"hybrid {_hybrid.Current} below approximate {_approximate.Current}");
        Require(_hybridForgot || Merges || _hybrid.Current.IsAtLeast(_exact.Current),
            $"hybrid {_hybrid.Current} below exact {_exact.Current}");
        if (_settings.Coalesce || HasGap()) return;
        Require(best.IsAtLeast(_approximate.Current), $"approximate {_approximate.Current} above the maximal closure {best}");
        Require(best.IsAtLeast(_hybrid.Current), $"hybrid {_hybrid.Current} above the maximal closure {best}");
        if (!best.Equals(_approximate.Current)) Count("exact above approximate");
        if (_hybridForgot)
        {
            if (!best.Equals(_hybrid.Current)) Count("hybrid held back by the lost part");
        }
        else if (!Merges)
        {
            Require(best.Equals(_hybrid.Current), $"hybrid {_hybrid.Current}, the maximal closure is {best}");
        }
    }

    /// <summary>I1, I2, I3 and I5 of one finder's cut, operation by operation.</summary>
    private void CheckCut(IDprFinder finder)
    {
        string name = finder.GetType().Name;
        Cut cut = finder.Current;
        Require(cut.WorldLine == _branch.WorldLine, $"I5: {name} is at {cut} in world-line {_branch.WorldLine}");
        if (_before.TryGetValue(finder.GetType(), out Cut? before))
            Require(cut.IsAtLeast(before), $"I3: {name} went back from {before} to {cut}");
        _before[finder.GetType()] = cut;
        for (int i = 0; i < _shards.Length; i++)
            Require(cut.Versions[i].Number <= _shards[i].Durable, $"I2: {name} is at {cut}, shard {i} is durable to {_shards[i].Durable}");
        foreach (ModelOperation o in _operations)
        {
            if (o.Label > cut.Versions[o.Shard].Number) continue;
            Require(o.Closing <= cut.Versions[o.Shard].Number,
                $"I1: {name} is at {cut}; shard {o.Shard} closed an operation of version {o.Label} only with {o.Closing}, and cannot be "
                    + "restored to the cut");
            if (o.Before is not { } b) continue;
            Require(b.Label <= cut.Versions[b.Shard].Number,
                $"I1: {name} is at {cut}, which holds version {o.Label} of shard {o.Shard} without version {b.Label} of shard {b.Shard}");
        }
    }

    /// <summary>The approximate cut, by trying: the largest version that is durable everywhere and a multiple of each stride.</summary>
    private void CheckGrid()
    {
        (long Durable, long Stride)[] last = [.. _shards.Select((_, i) => _delivered.Where(r => r.Shard.Number == i)
            .OrderByDescending(r => r.Durable.Version).Select(r => (r.Durable.Version.Number, r.Stride))
                .FirstOrDefault((_branch.Versions[i].Number, 1)))];
        long grid = last.Min(l => l.Durable);
        while (last.Any(l => grid % l.Stride != 0)) grid--;
        for (int i = 0; i < _shards.Length; i++)
            Require(_approximate!.Current.Versions[i].Number >= grid,
                $"approximate is at {_approximate.Current}, {grid} is durable and restorable everywhere");
        Require(_approximate!.Vmax.Number == last.Max(l => l.Durable), $"Vmax is {_approximate.Vmax}");
    }

    /// <summary>After all reports were given again, in any order: everything is as if none had been late.</summary>
    private void CheckAllKnown()
    {
        ExactFinder inOrder = new(_branch, _sent.Select(r => r.Row));
        inOrder.Advance();
        if (Merges) return;
        Require(_exact.Current.Equals(inOrder.Current), $"exact: {_exact.Current}, in order it is {inOrder.Current}");
        if (_hybrid is null || _approximate is null) return;
        Require(_hybrid.Current.IsAtLeast(_exact.Current), $"hybrid {_hybrid.Current} below exact {_exact.Current}");
        // One who took over late may know only the larger stride that followed.
        bool stridesGrow = _settings.Strides.Length > 1;
        Require(stridesGrow || _hybrid.Current.IsAtLeast(_approximate.Current),
            $"hybrid {_hybrid.Current} below approximate {_approximate.Current}");
        if (!_settings.Coalesce)
            Require(_hybrid.Current.Equals(inOrder.Current), $"hybrid: {_hybrid.Current}, in order it is {inOrder.Current}");
    }

    /// <summary>I8: when the sessions rest and all shards get to one version, the cut does; the hybrid without being told again
    /// what it lost.</summary>
    private void Settle()
    {
        if (_settings.FindersDie) FinderDies();
        for (int i = 0; i < _shards.Length; i++) Close(i);
        // Strides are at most 8 and 100 to 400: all divide this.
        long all = ((_shards.Max(s => s.Open) / 8400) + 1) * 8400;
        for (int i = 0; i < _shards.Length; i++)
        {
            PassTime(i, all + 1);
            while (_shards[i].DurableCount < _shards[i].Closings.Count) Sync(i);
        }

        foreach (VersionReport report in _network) Deliver(report);
        Advance();
        Cut end = Cut.Uniform(_branch.WorldLine, _shards.Length, new(all));
        foreach (IDprFinder finder in Finders())
            Require(finder.Current.Equals(end), $"I8: {finder.GetType().Name} is at {finder.Current}, all is durable to {all}");
    }

    private bool HasGap()
    {
        for (int i = 0; i < _shards.Length; i++)
        {
            PrecedenceRow[] rows = [.. _delivered.Where(r => r.Shard.Number == i).Select(r => r.Row)];
            VersionNumber joined = Chain(rows, _branch.Versions[i]).Select(r => r.Through.Version).LastOrDefault(_branch.Versions[i]);
            if (rows.Any(r => r.Through.Version > joined)) return true;
        }

        return false;
    }

    /// <summary>The maximal closure of rows by trying over and over until nothing more has to go.</summary>
    private VersionNumber[] Closure(Func<int, IEnumerable<PrecedenceRow>> rowsOf)
    {
        List<PrecedenceRow>[] chains = [.. _shards.Select((_, i) => Chain(rowsOf(i), _branch.Versions[i]))];
        VersionNumber Reach(int shard) => chains[shard].Count > 0 ? chains[shard][^1].Through.Version : _branch.Versions[shard];
        bool again = true;
        while (again)
        {
            again = false;
            for (int i = 0; i < chains.Length; i++)
            {
                int bad = chains[i].FindIndex(r => r.Dependencies.Items.ToArray().Any(d => d.Version > Reach(d.Shard.Number)));
                if (bad < 0) continue;
                chains[i].RemoveRange(bad, chains[i].Count - bad);
                again = true;
            }
        }

        return [.. chains.Select((_, i) => Reach(i))];
    }

    /// <summary>The rows that follow each other from a version on, without a gap.</summary>
    private static List<PrecedenceRow> Chain(IEnumerable<PrecedenceRow> rows, VersionNumber start)
    {
        Dictionary<VersionNumber, PrecedenceRow> byAfter = [];
        foreach (PrecedenceRow row in rows) byAfter[row.After] = row;
        List<PrecedenceRow> chain = [];
        while (byAfter.TryGetValue(chain.Count > 0 ? chain[^1].Through.Version : start, out PrecedenceRow next)) chain.Add(next);
        return chain;
    }
}
