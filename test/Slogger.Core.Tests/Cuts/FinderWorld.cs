// A seeded toy cluster for the finders: sessions operate on shards, shards close versions and make them durable, and reports
// go to the finders over a network that delays, doubles, overtakes and loses. Processes of finders die, world-lines begin. After
// each advance the cuts are checked operation by operation, and against plain slow computations (FinderWorld.Checks).
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Tests.Model;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cuts;

internal sealed record FinderWorldSettings
{
    public int Seed { get; init; }

    /// <summary>Whether shards execute only if v >= Vs. Without it there is only the exact finder.</summary>
    public bool Monotone { get; init; } = true;

    /// <summary>Whether each closed version is reported by itself, or some several together.</summary>
    public bool Coalesce { get; init; }

    /// <summary>Strides that shards have. A shard keeps its own, unless all are powers of two.</summary>
    public long[] Strides { get; init; } = [1];

    public bool FindersDie { get; init; } = true;

    public bool Branches { get; init; } = true;

    public int RangesMax { get; init; } = PrecedenceGraph.RangesMax;

    public FinderMutation Mutation { get; init; }
}

internal sealed partial class FinderWorld
{
    private const int Steps = 250;

    private readonly FinderWorldSettings _settings;
    private readonly Random _random;
    private readonly ModelShard[] _shards;
    private readonly ModelOperation?[] _sessions;
    private readonly List<ModelOperation> _operations = [];
    private readonly List<VersionReport> _network = [];
    private readonly List<VersionReport> _lost = [];
    private readonly List<VersionReport> _sent = [];       // of the current world-line
    private readonly List<VersionReport> _delivered = [];  // of the current world-line
    private Cut _branch;
    private ExactFinder _exact;
    private ApproximateFinder? _approximate;
    private HybridFinder? _hybrid;
    private bool _hybridForgot;

    public FinderWorld(FinderWorldSettings settings)
    {
        _settings = settings;
        _random = new(settings.Seed);
        _shards = new ModelShard[_random.Next(2, 6)];
        for (int i = 0; i < _shards.Length; i++) _shards[i] = new() { Stride = Pick(settings.Strides) };
        _sessions = new ModelOperation?[_random.Next(1, 5)];
        _branch = Cut.Uniform(WorldLine.First, _shards.Length, VersionNumber.Zero);
        _exact = new(_branch, [], settings.Mutation, settings.RangesMax);
        if (!settings.Monotone) return;
        _approximate = new(_branch, settings.Mutation);
        _hybrid = new(_branch, settings.Mutation, settings.RangesMax);
    }

    public Dictionary<string, int> Happened { get; } = [];

    public void Run()
    {
        for (int step = 0; step < Steps; step++) Step();
        SendAllAgain();
        Advance();
        CheckAllKnown();
        Settle();
    }

    private void Step()
    {
        int shard = _random.Next(_shards.Length);
        switch (_random.Next(100))
        {
            case < 35: Operate(_random.Next(_sessions.Length), shard); break;
            case < 50: Close(shard); break;
            case < 55: PassTime(shard, _shards[shard].Open + _random.Next(1, 6)); break;
            case < 70: Sync(shard); break;
            case < 85: Deliver(); break;
            case < 95: Advance(); break;
            case < 96: ResendLost(); break;
            case < 98: if (_settings.FindersDie) FinderDies(); break;
            case < 99: if (_settings.Branches) BeginWorldLine(); break;
            default: AdoptStride(shard); break;
        }
    }

    private void Operate(int session, int shard)
    {
        ModelShard s = _shards[shard];
        ModelOperation? before = _sessions[session];
        // DPR, section 3.2: the shard "executes the request only if v >= Vs; otherwise it calls Commit() until v >= Vs".
        if (_settings.Monotone && before is not null && before.Vs > s.Open)
        {
            Close(shard);
            if (before.Vs > s.Open) PassTime(shard, before.Vs);
        }

        ModelOperation operation = new(before, shard, s.Open, Math.Max(before?.Vs ?? 0, s.Open));
        if (before is not null && before.Shard != shard) s.Dependencies.Add(new(new(before.Shard), new(before.Label)));
        s.Pending.Add(operation);
        _operations.Add(operation);
        _sessions[session] = operation;
    }

    /// <summary>Closes what is open, at the next version that the shard can be restored to.</summary>
    private void Close(int shard)
    {
        ModelShard s = _shards[shard];
        if (s.Pending.Count == 0) return;
        long through = (s.Open + s.Stride - 1) / s.Stride * s.Stride;
        foreach (ModelOperation operation in s.Pending) operation.Closing = through;
        s.Closings.Add(new(s.LastClosed, through, s.Stride, DependencySet.Of([.. s.Dependencies])));
        s.Pending.Clear();
        s.Dependencies.Clear();
        PassTime(shard, through + 1 + (_random.Next(3) == 0 ? _random.Next(4) : 0));
    }

    /// <summary>An idle shard's open version moves on; what is passed is closed empty.</summary>
    private void PassTime(int shard, long open)
    {
        ModelShard s = _shards[shard];
        if (s.Pending.Count > 0) return;
        s.Open = Math.Max(s.Open, open);
        long through = (s.Open - 1) / s.Stride * s.Stride;
        if (through > s.LastClosed) s.Closings.Add(new(s.LastClosed, through, s.Stride, DependencySet.Empty));
    }

    private void Sync(int shard)
    {
        ModelShard s = _shards[shard];
        int count = Math.Min(s.Closings.Count - s.DurableCount, _settings.Coalesce ? _random.Next(1, 4) : 1);
        if (count == 0) return;
        List<ModelClosing> range = s.Closings.GetRange(s.DurableCount, count);
        s.DurableCount += count;
        DependencySet dependencies = DependencySet.Empty;
        foreach (ModelClosing c in range) dependencies = dependencies.Union(c.Dependencies);
        long known = Finders().Min(f => f.Current.Versions[shard].Number);
        long stride = s.Closings.Take(s.DurableCount).Where(c => c.Through > known).Select(c => c.Stride).DefaultIfEmpty(1).Max();
        VersionReport report = new(new(shard), new(_branch.WorldLine, new(range[^1].Through)), stride, new(range[0].After), dependencies);
        _sent.Add(report);
        _network.Add(report);
        if (_random.Next(8) == 0) _network.Add(report);
    }

    private void Deliver()
    {
        for (int n = _random.Next(1, 5); n > 0 && _network.Count > 0; n--)
        {
            int i = _random.Next(3) == 0 ? _random.Next(_network.Count) : 0;
            VersionReport report = _network[i];
            _network.RemoveAt(i);
            if (_random.Next(12) == 0) _lost.Add(report);
            else Deliver(report);
        }
    }

    private void Deliver(VersionReport report)
    {
        if (report.Durable.WorldLine == _branch.WorldLine) _delivered.Add(report);
        else Count("report of an old world-line");
        foreach (IDprFinder finder in Finders()) finder.Report(report);
    }

    private void ResendLost()
    {
        _network.AddRange(_lost);
        _lost.Clear();
    }

    private void FinderDies()
    {
        IEnumerable<PrecedenceRow> rows = Merges ? _exact.Rows() : [.. _exact.Rows().OrderBy(_ => _random.Next())];
        ExactFinder next = new(_exact.Current, rows, _settings.Mutation, _settings.RangesMax);
        _exact.Advance();
        next.Advance();
        Require(next.Current.Equals(_exact.Current), $"another exact finder found {next.Current} from the rows, not {_exact.Current}");
        _exact = next;
        if (_hybrid is null) return;
        _hybrid = new(_hybrid.Current, _settings.Mutation, _settings.RangesMax);
        _hybridForgot = true;
        Count("hybrid died");
        // The rows of the metadata may lag behind what was sent over the wire.
        foreach (IGrouping<ShardId, VersionReport> ofShard in _delivered.GroupBy(r => r.Shard))
        {
            VersionReport row = ofShard.ElementAt(_random.Next(ofShard.Count()));
            _hybrid.Report(VersionReport.WithoutDependencies(row.Shard, row.Durable, row.Stride));
        }
    }

    private void BeginWorldLine()
    {
        VersionNumber[] versions = Closure(shard => _shards[shard].Closings.Take(_shards[shard].DurableCount)
            .Select(c => c.Row(shard, _branch.WorldLine)));
        _branch = new(_branch.WorldLine.Next, versions);
        _sent.Clear();
        _delivered.Clear();
        for (int i = 0; i < _shards.Length; i++)
        {
            _shards[i].Restore(versions[i].Number);
            PassTime(i, _shards[i].Open + _random.Next(3));
        }

        _operations.RemoveAll(o => o.Label > versions[o.Shard].Number);
        for (int i = 0; i < _sessions.Length; i++)
            while (_sessions[i] is { } last && last.Label > versions[last.Shard].Number) _sessions[i] = last.Before;
        foreach (IDprFinder finder in Finders()) finder.BeginWorldLine(_branch);
        Count("world-line");
        _hybridForgot = false;
        CheckCuts();
    }

    private void AdoptStride(int shard)
    {
        ModelShard s = _shards[shard];
        if (!_settings.Strides.All(long.IsPow2) || s.Pending.Count > 0) return;
        s.Stride = Pick(_settings.Strides);
        PassTime(shard, s.Open);
    }

    private void SendAllAgain()
    {
        _lost.Clear();
        _network.Clear();
        // Where ranges are merged, or forgotten above gaps, only the order of versions brings all back.
        foreach (VersionReport report in _sent.OrderBy(r => Merges ? r.Durable.Version.Number : _random.Next()).ToArray()) Deliver(report);
    }

    private long Pick(long[] from) => from[_random.Next(from.Length)];

    private bool Merges => _settings.RangesMax < PrecedenceGraph.RangesMax;

    private IEnumerable<IDprFinder> Finders()
    {
        yield return _exact;
        if (_approximate is not null) yield return _approximate;
        if (_hybrid is not null) yield return _hybrid;
    }

    private void Count(string what) => Happened[what] = Happened.GetValueOrDefault(what) + 1;

    private static void Require(bool holds, string what)
    {
        if (!holds) throw new ModelException(what);
    }
}

/// <summary>An operation: which one of its session it follows, where, and in which version. Closing: the version with which its
/// shard closed it; not closed yet: the largest number.</summary>
internal sealed record ModelOperation(ModelOperation? Before, int Shard, long Label, long Vs)
{
    public long Closing { get; set; } = long.MaxValue;
}

internal sealed record ModelClosing(long After, long Through, long Stride, DependencySet Dependencies)
{
    public PrecedenceRow Row(int shard, WorldLine worldLine) => new(new(shard), new(worldLine, new(Through)), new(After), Dependencies);
}

internal sealed class ModelShard
{
    private long _base;

    public long Open { get; set; } = 1;

    public long Stride { get; set; }

    public List<ModelOperation> Pending { get; } = [];

    public List<Dependency> Dependencies { get; } = [];

    public List<ModelClosing> Closings { get; } = [];

    public int DurableCount { get; set; }

    public long LastClosed => Closings.Count > 0 ? Closings[^1].Through : _base;

    public long Durable => DurableCount > 0 ? Closings[DurableCount - 1].Through : _base;

    public void Restore(long version)
    {
        _base = version;
        Open = Math.Max(Open, version + 1);
        Pending.Clear();
        Dependencies.Clear();
        Closings.Clear();
        DurableCount = 0;
    }
}
