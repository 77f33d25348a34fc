// An oracle of the version log: records in order, of which a prefix is durable. A process crash keeps all, a power cut
// keeps the durable prefix and any number of the records after it.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Model;

internal sealed class ModelLog
{
    private enum Kind { Bytes, Boundary, WorldLine }

    private readonly record struct Record(Kind Kind, long End, Boundary Boundary);

    private readonly List<Record> _records = [];
    private int _durable;
    private Boundary _base;

    public ModelLog(Boundary @base)
    {
        _base = @base;
        Fold();
    }

    /// <summary>The boundaries of the current history, oldest first, the base included.</summary>
    public List<Boundary> Boundaries { get; } = [];

    public long End { get; private set; }

    public Boundary Last => Boundaries[^1];

    public int Appended => _records.Count;

    public void AppendBytes(long upTo) => Add(new(Kind.Bytes, upTo, default));

    public void AppendBoundary(Boundary b)
    {
        if (b.Offset != End) throw new ModelException($"log: a boundary at {b.Offset}, the log ends at {End}");
        AppendRun(b);
    }

    public void AppendRun(Boundary b)
    {
        if (b.WorldLine != Last.WorldLine) throw new ModelException($"I5: {b.Point} appended in world-line {Last.WorldLine}");
        if (b.Version <= Last.Version) throw new ModelException($"log: {b.Point} after {Last.Point}");
        Add(new(Kind.Boundary, End, b));
    }

    public void BeginWorldLine(Boundary branch)
    {
        Add(new(Kind.WorldLine, branch.Offset, branch));
        _durable = _records.Count;
    }

    /// <summary>Makes the first so many records durable.</summary>
    /// <returns>The last durable point.</returns>
    public WorldPoint Sync(int records)
    {
        _durable = Math.Max(_durable, Math.Min(records, _records.Count));
        return DurablePoint;
    }

    public WorldPoint DurablePoint
    {
        get
        {
            for (int i = _durable - 1; i >= 0; i--)
                if (_records[i].Kind != Kind.Bytes) return _records[i].Boundary.Point;
            return _base.Point;
        }
    }

    public void PowerCut(Random random)
    {
        int kept = random.Next(_durable, _records.Count + 1);
        _records.RemoveRange(kept, _records.Count - kept);
        Fold();
        _durable = _records.Count;
    }

    public Boundary? AtOrBelow(VersionNumber version)
    {
        for (int i = Boundaries.Count - 1; i >= 0; i--)
            if (Boundaries[i].Version <= version) return Boundaries[i];
        return null;
    }

    private void Add(Record record)
    {
        _records.Add(record);
        Apply(record);
    }

    private void Fold()
    {
        Boundaries.Clear();
        Boundaries.Add(_base);
        End = _base.Offset;
        foreach (Record r in _records) Apply(r);
    }

    private void Apply(Record r)
    {
        End = r.End;
        if (r.Kind == Kind.Bytes) return;
        if (r.Kind == Kind.WorldLine) Boundaries.RemoveAll(b => b.Version >= r.Boundary.Version);
        Boundaries.Add(r.Boundary);
    }
}
