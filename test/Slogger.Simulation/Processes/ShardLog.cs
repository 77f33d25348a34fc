// An oracle of the version log: records in order, of which a prefix is durable. A process that crashes keeps all, a power
// cut keeps the durable prefix and any number of the records after it (a torn tail). Fenced by epochs.
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Simulation.Processes;

internal sealed class ShardLog
{
    private enum Kind { Bytes, Boundary, WorldLine, Gap, Begin }

    // From: the first version that ends at the boundary; that of the boundary itself, unless it is of a run of empty versions.
    private readonly record struct Record(Kind Kind, Command Command, Boundary Boundary, Version From, int Number);

    private readonly record struct Closing(Version From, Boundary Boundary);

    private readonly List<Record> _records = [];
    private readonly List<Closing> _closings = [];
    private readonly bool _forgetsAtGap;
    private int _durable;
    private long _fence;
    private long _kept;              // offsets below: only the checkpoint that follows is left of them
    private Boundary _durableLast;

    public ShardLog(bool forgetsAtGap)
    {
        _forgetsAtGap = forgetsAtGap;
        Fold();
    }

    /// <summary>The history, one command at each offset.</summary>
    public List<Command> Bytes { get; } = [];

    public long End => Bytes.Count;

    public int HistoryId { get; private set; }

    public Boundary Last => _closings[^1].Boundary;

    /// <summary>How many records there are.</summary>
    public int Appended => _records.Count;

    public bool Admits(long epoch) => epoch >= _fence;

    /// <summary>Opens it for a process: those of older epochs can write no more, and all that they wrote is durable.</summary>
    /// <returns>False if a later process has it.</returns>
    public bool Open(long epoch)
    {
        if (epoch < _fence) return false;
        _fence = epoch;
        Sync(_records.Count);
        return true;
    }

    public void AppendBytes(in Command command) => Add(new(Kind.Bytes, command, default, default, 0));

    public void AppendBoundary(in Boundary boundary)
    {
        if (boundary.Offset != End) throw new SimException($"I1: a boundary at {boundary.Offset}, the log ends at {End}");
        CheckAppend(boundary);
        Add(new(Kind.Boundary, default, boundary, boundary.Version, 0));
    }

    public void AppendRun(in Boundary boundary)
    {
        CheckAppend(boundary);
        // A run begins behind the boundary at the same place.
        Add(new(Kind.Boundary, default, boundary, Last.Offset == boundary.Offset ? Last.Version.Next : boundary.Version, 0));
    }

    public void BeginWorldLine(in Boundary branch, int historyId)
    {
        Add(new(Kind.WorldLine, default, branch, branch.Version, historyId));
        Sync(_records.Count);
    }

    /// <summary>It begins anew, with a store that holds nothing: what is in it is forgotten.</summary>
    public void Begin(in Boundary at, int historyId)
    {
        Add(new(Kind.Begin, default, at, at.Version, historyId));
        Sync(_records.Count);
    }

    /// <summary>The history goes on at an offset: what stands before it does nothing.</summary>
    public void AppendFiller(int to)
    {
        while (End < to) AppendBytes(default);
        Sync(_records.Count);
    }

    /// <summary>The history goes on from a checkpoint of the store, which holds this much.</summary>
    public void RestartAt(List<Command> history)
    {
        for (int i = (int)End; i < history.Count; i++) AppendBytes(history[i]);
        Add(new(Kind.Gap, default, default, default, history.Count));
        Sync(_records.Count);
    }

    /// <summary>Makes the first so many records durable.</summary>
    /// <returns>The last durable point.</returns>
    public WorldPoint Sync(int records)
    {
        for (; _durable < Math.Min(records, _records.Count); _durable++)
            if (_records[_durable].Kind is Kind.Boundary or Kind.WorldLine or Kind.Begin) _durableLast = _records[_durable].Boundary;
        return _durableLast.Point;
    }

    public void PowerCut(Random random)
    {
        int kept = random.Next(_durable, _records.Count + 1);
        _records.RemoveRange(kept, _records.Count - kept);
        Fold();
        Sync(_records.Count);
    }

    /// <summary>The newest boundary at or below a version; within a run of empty versions, that version itself.</summary>
    public Boundary? AtOrBelow(Version version)
    {
        for (int i = _closings.Count - 1; i >= 0; i--)
        {
            (Version from, Boundary b) = _closings[i];
            if (from > version) continue;
            if (b.Offset < _kept) return null;
            return version < b.Version ? b with { Version = version } : b;
        }

        return null;
    }

    /// <summary>Where exactly this version ends; null if it cannot be told.</summary>
    public Boundary? Exactly(Version version) => AtOrBelow(version) is { } found && found.Version == version ? found : null;

    /// <summary>What the first so many commands make of a key.</summary>
    public Op? ValueAt(int key, long offset)
    {
        for (int i = (int)offset - 1; i >= 0; i--)
            if (Bytes[i].Key == key) return Bytes[i].Value;
        return null;
    }

    private void CheckAppend(in Boundary boundary)
    {
        if (boundary.WorldLine != Last.WorldLine) throw new SimException($"I5: {boundary.Point} appended to a log in world-line {Last.WorldLine}");
        if (boundary.Version <= Last.Version) throw new SimException($"I1: {boundary.Point} appended after {Last.Point}");
    }

    private void Add(in Record record)
    {
        _records.Add(record);
        Apply(record);
    }

    private void Fold()
    {
        Bytes.Clear();
        _closings.Clear();
        _closings.Add(new(Version.Zero, new(WorldLine.First, Version.Zero, 0, 0, default)));
        _durableLast = _closings[0].Boundary;
        _durable = 0;
        _kept = 0;
        HistoryId = 1;
        foreach (Record r in _records) Apply(r);
    }

    private void Apply(in Record r)
    {
        switch (r.Kind)
        {
            case Kind.Bytes:
                Bytes.Add(r.Command);
                return;
            case Kind.Gap:
                if (!_forgetsAtGap) return;
                // The base of what follows is taken for the last version's end.
                _closings[^1] = new(Last.Version, Last with { Offset = r.Number });
                _kept = r.Number;
                return;
            case Kind.Begin:
                _closings.Clear();
                Bytes.Clear();
                for (int i = 0; i < r.Boundary.Offset; i++) Bytes.Add(default);
                (HistoryId, _kept) = (r.Number, 0);
                break;
            case Kind.WorldLine:
                Version branch = r.Boundary.Version;
                _closings.RemoveAll(c => c.From >= branch);
                Bytes.RemoveRange((int)r.Boundary.Offset, Bytes.Count - (int)r.Boundary.Offset);
                HistoryId = r.Number;
                break;
        }

        _closings.Add(new(r.From, r.Boundary));
    }
}
