// An oracle of a shard's version log, for the past: commands at offsets, ends of versions, world-lines, gaps. It can be trimmed. Of what
// was not synced a power cut leaves any prefix.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Past;

/// <summary>A command.</summary>
/// <param name="Key">The key; negative: it changes nothing.</param>
/// <param name="Value">Its value from then on; 0: it is deleted.</param>
/// <param name="ExpiresMs">When it expires, in milliseconds; 0: never.</param>
/// <param name="Reset">The number of the reset that it belongs to; 0: none.</param>
internal readonly record struct PastOp(int Key, int Value, long ExpiresMs = 0, int Reset = 0)
{
    public static readonly PastOp Nothing = new(-1, 0);
}

/// <summary>Versions that end at one place.</summary>
/// <param name="From">The first that does; that of the end itself, unless it is of a run of empty versions.</param>
/// <param name="End">The place.</param>
internal readonly record struct PastClosing(VersionNumber From, Boundary End);

internal sealed class PastLog
{
    private enum Kind { Op, Missed, Closing, Line, Gap }

    private readonly record struct Record(Kind Kind, PastOp Op, PastClosing Closing);

    private readonly List<Record> _records = [];
    private readonly List<PastOp> _ops = [];
    private readonly List<PastClosing> _closings = [];
    private readonly List<LogBranch> _branches = [];
    private readonly List<(long From, long To)> _gaps = [];
    private int _durable;

    public PastLog() => Fold();

    public long Start { get; private set; }

    public long End => _ops.Count;

    /// <summary>How many records there are.</summary>
    public int Appended => _records.Count;

    /// <summary>How many are durable.</summary>
    public int DurableRecords => _durable;

    public Boundary Last { get; private set; }

    /// <summary>The last end of a version that is durable.</summary>
    public WorldPoint Durable { get; private set; }

    /// <summary>How often something was made void.</summary>
    public long Rewinds { get; private set; }

    public IReadOnlyList<LogBranch> Branches => _branches;

    /// <summary>The ends of versions that it has, oldest first.</summary>
    public IEnumerable<PastClosing> Closings => _closings.SkipWhile(c => c.End.Offset < Start);

    public PastOp this[long offset]
    {
        get
        {
            if (offset < Start) { throw new SimException($"R3: the log is read at {offset}, and begins at {Start}"); }
            if (_gaps.Exists(g => offset >= g.From && offset < g.To)) { throw new SimException($"R3: {offset} is read, within a gap"); }
            return _ops[(int)offset];
        }
    }

    public bool HasGap(long from, long to) => _gaps.Exists(g => g.To > from && g.To <= to);

    public void Append(in PastOp op) => Add(new(Kind.Op, op, default));

    public void AppendBoundary(in Boundary end)
    {
        if (end.Offset != End) { throw new SimException($"I1: a boundary at {end.Offset}, the log ends at {End}"); }
        CheckAppend(end);
        Add(new(Kind.Closing, default, new(end.Version, end)));
    }

    public void AppendRun(in Boundary end)
    {
        CheckAppend(end);
        // A run begins behind the boundary at the same place.
        Add(new(Kind.Closing, default, new(Last.Offset == end.Offset ? Last.Version.Next : end.Version, end)));
    }

    public void BeginWorldLine(in Boundary branch)
    {
        Add(new(Kind.Line, default, new(branch.Version, branch)));
        Sync(_records.Count);
    }

    /// <summary>The store has gone on without it: that is in a checkpoint only.</summary>
    public void BeginGap(IReadOnlyList<PastOp> missed)
    {
        foreach (PastOp op in missed) { Add(new(Kind.Missed, op, default)); }
        Add(new(Kind.Gap, new(missed.Count, 0), default));
        Sync(_records.Count);
    }

    public void TrimBefore(long offset) => Start = Math.Max(Start, offset);

    /// <summary>Makes the first so many records durable.</summary>
    public void Sync(int records)
    {
        for (; _durable < Math.Min(records, _records.Count); _durable++)
        {
            if (_records[_durable].Kind is Kind.Closing or Kind.Line) { Durable = _records[_durable].Closing.End.Point; }
        }
    }

    /// <summary>Nothing lies behind the end of the last version any more.</summary>
    public void RewindToLast()
    {
        int kept = _records.FindLastIndex(r => r.Kind is Kind.Closing or Kind.Line) + 1;
        _records.RemoveRange(kept, _records.Count - kept);
        Fold();
        Sync(_records.Count);
    }

    public void PowerCut(Random random)
    {
        int kept = random.Next(_durable, _records.Count + 1);
        _records.RemoveRange(kept, _records.Count - kept);
        Fold();
        Sync(_records.Count);
    }

    /// <summary>The end of the last version at or below one that was closed by itself; null: the log has none.</summary>
    public Boundary? AtOrBelow(VersionNumber version)
    {
        int low = 0, high = _closings.Count - 1;
        while (low <= high)
        {
            int middle = (low + high) / 2;
            if (_closings[middle].From <= version) { low = middle + 1; } else { high = middle - 1; }
        }
        if (high < 0 || _closings[high].End.Offset < Start) { return null; }
        Boundary end = _closings[high].End;
        return version < end.Version ? end with { Version = version } : end;
    }

    /// <summary>Where exactly this version ends; null: it was not closed by itself. Before the first one the history begins.</summary>
    public Boundary? Exactly(VersionNumber version) =>
        version == VersionNumber.Zero && Start == 0 ? new(WorldLine.First, VersionNumber.Zero, 0, 0, default)
            : AtOrBelow(version) is { } end && end.Version == version ? end : null;

    private void CheckAppend(in Boundary end)
    {
        if (end.WorldLine != Last.WorldLine || end.Version <= Last.Version)
        {
            throw new SimException($"I1: {end.Point} appended after {Last.Point}");
        }
    }

    private void Add(in Record record)
    {
        _records.Add(record);
        Apply(record);
    }

    private void Fold()
    {
        _ops.Clear();
        _closings.Clear();
        _branches.Clear();
        _gaps.Clear();
        Last = new(WorldLine.First, VersionNumber.Zero, 0, 0, default);
        Durable = Last.Point;
        _durable = 0;
        Rewinds++;
        foreach (Record r in _records) { Apply(r); }
    }

    private void Apply(in Record r)
    {
        switch (r.Kind)
        {
            case Kind.Op or Kind.Missed:
                _ops.Add(r.Op);
                break;
            case Kind.Gap:
                _gaps.Add((End - r.Op.Key, End));
                break;
            case Kind.Closing:
                _closings.Add(r.Closing);
                Last = r.Closing.End;
                break;
            case Kind.Line:
                Boundary branch = r.Closing.End;
                _closings.RemoveAll(c => c.From > branch.Version);
                if (_closings is [.., var last] && last.End.Version > branch.Version)
                {
                    _closings[^1] = last with { End = last.End with { Version = branch.Version } };
                }
                _ops.RemoveRange((int)branch.Offset, _ops.Count - (int)branch.Offset);
                _gaps.RemoveAll(g => g.To > branch.Offset);
                _branches.Add(new(branch.WorldLine, branch.Version, branch.Offset));
                Last = branch;
                Rewinds++;
                break;
        }
    }
}
