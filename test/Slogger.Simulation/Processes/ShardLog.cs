// An oracle of the version log: records in order, of which a prefix is durable. A process that crashes keeps all, a power
// cut keeps the durable prefix and any number of the records after it (a torn tail). Fenced by epochs. A backup's log is one, too: it has
// notes of cuts besides.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed class ShardLog
{
    private enum Kind { Bytes, Boundary, WorldLine, Gap, Begin, Seeded, Cut, Window }

    // From: the first version that ends at the boundary; that of the boundary itself, unless it is of a run of empty versions.
    private readonly record struct Record(Kind Kind, Command Command, Boundary Boundary, VersionNumber From, int Number);

    // At: where the log ended when it was appended. A run of empty versions closes them where the last boundary is, and may come behind
    // later bytes.
    private readonly record struct Closing(VersionNumber From, Boundary Boundary, long At);

    private readonly List<Record> _records = [];
    private readonly List<Closing> _closings = [];
    private readonly bool _forgetsAtGap;
    private int _durable;
    private long _fence;
    private int _window;             // the record with which the last window begins
    private long _kept;              // offsets below: only the checkpoint that follows is left of them
    private long _gapEnd;            // behind the last gap
    private Boundary _durableLast;
    private readonly List<LogBranch> _branches = [];
    private IReadOnlyList<Command> _base = [];
    private int _baseDurable;

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

    // ---- As shipping sees it ----

    public LogIndex EndIndex => new(Last.WorldLine, End, Last.Version);

    public LogIndex DurableIndex { get; private set; }

    public IReadOnlyList<LogBranch> Branches => _branches;

    /// <summary>Another one when it begins anew, and when its stream goes on with a gap: what is missing is in a checkpoint only.</summary>
    public StreamHistory History { get; private set; }

    /// <summary>The cut that was noted last, and that of these that is durable.</summary>
    public WorldPoint NotedCut { get; private set; }

    public WorldPoint DurableCut { get; private set; }

    /// <summary>What it knows of windows.</summary>
    public LogWindows Windows { get; private set; }

    /// <summary>Where a seeded log begins.</summary>
    public long BaseOffset => _base.Count;

    /// <summary>A seeded log can be brought to no version before.</summary>
    public WorldPoint Floor { get; private set; }

    /// <summary>What is shipped of it: an index that it has passed through (IShippedLog).</summary>
    public LogIndex EndOfPiece(LogIndex from, LogIndex limit, int commandsMax)
    {
        long offset = Math.Min(limit.Offset, from.Offset + commandsMax);
        VersionNumber closed = from.Closed;
        bool isBranch = limit.WorldLine < Last.WorldLine;
        for (int i = 0; i < _closings.Count; i++)
        {
            Closing c = _closings[i];
            if (c.From <= limit.Closed && (c.At <= offset || (isBranch && c.Boundary.Offset <= offset)))
                closed = VersionNumber.Max(closed, VersionNumber.Min(LastOf(i), limit.Closed));
        }

        return new(from.WorldLine, offset, closed);
    }

    /// <summary>The ends of versions in a piece of it, in order.</summary>
    public List<Boundary> Entries(LogIndex from, LogIndex to)
    {
        List<Boundary> entries = [];
        VersionNumber last = from.Closed;
        for (int i = 0; i < _closings.Count; i++)
        {
            Closing c = _closings[i];
            VersionNumber version = VersionNumber.Min(LastOf(i), to.Closed);
            if (c.From > to.Closed || version <= last) continue;
            entries.Add(c.Boundary with { WorldLine = to.WorldLine, Version = last = version });
        }

        return entries;
    }

    /// <summary>The first version that ends at or behind an offset, and the one closed before; null while there is none that is
    /// durable.</summary>
    public (VersionNumber Before, VersionNumber Floor)? FloorAt(long offset)
    {
        for (int i = 1; i < _closings.Count; i++)
            if (_closings[i].Boundary.Offset >= offset) return (LastOf(i - 1), _closings[i].From);
        return null;
    }

    /// <summary>This cut is recorded, and the log reaches it.</summary>
    public void NoteCut(WorldPoint cut) => Add(new(Kind.Cut, default, new(cut.WorldLine, cut.Version, 0, 0, default), default, 0));

    /// <summary>It begins on a seed: the store as it was at an offset, within a version.</summary>
    public void BeginSeeded(Seed seed, IReadOnlyList<Command> content, int durable)
    {
        (_base, _baseDurable) = (content, durable);
        _records.Clear();
        (History, Floor) = (seed.History, seed.Floor);
        Fold();
        Add(new(Kind.Seeded, default, new(seed.Base.WorldLine, seed.Base.Closed, 0, 0, default), seed.Base.Closed, content.Count));
        Sync(_records.Count);
    }

    // ---- As its shard does ----

    public bool Admits(long epoch) => epoch >= _fence;

    public long FencedBy => _fence;

    /// <summary>Opens it for a process: those of older epochs can write no more, and all that they wrote is durable.</summary>
    /// <returns>False if a later process has it.</returns>
    public bool Open(long epoch)
    {
        if (epoch < _fence) return false;
        _fence = epoch;
        // What there is of a window is no part of anything.
        if (Windows.IsOpen) _records.RemoveRange(_window, _records.Count - _window);
        if (Windows.IsOpen) Fold();
        Sync(_records.Count);
        return true;
    }

    public void AppendBytes(in Command command) => Add(new(Kind.Bytes, command, default, default, 0));

    /// <summary>What follows, up to the next boundary, is a window.</summary>
    public void BeginWindow() => Add(new(Kind.Window, default, default, default, 0));

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
        {
            Record r = _records[_durable];
            if (r.Kind is Kind.Boundary or Kind.WorldLine or Kind.Begin or Kind.Seeded) _durableLast = r.Boundary;
            DurableIndex = r.Kind switch
            {
                Kind.Bytes => DurableIndex with { Offset = DurableIndex.Offset + 1 },
                Kind.Boundary => DurableIndex with { Closed = r.Boundary.Version },
                Kind.WorldLine or Kind.Begin => new(r.Boundary.WorldLine, r.Boundary.Offset, r.Boundary.Version),
                Kind.Seeded => new(r.Boundary.WorldLine, r.Number, r.Boundary.Version),
                _ => DurableIndex,
            };
            if (r.Kind == Kind.Cut) DurableCut = r.Boundary.Point;
        }

        return _durableLast.Point;
    }

    public void PowerCut(Random random)
    {
        int kept = random.Next(_durable, _records.Count + 1);
        _records.RemoveRange(kept, _records.Count - kept);
        // Of a copy that was not synced something else may be there.
        if (_baseDurable < _base.Count) _base = [.. _base.Take(_baseDurable), .. _base.Skip(_baseDurable).Select(_ => default(Command))];
        Fold();
        Sync(_records.Count);
    }

    /// <summary>The newest boundary at or below a version; within a run of empty versions, that version itself.</summary>
    public Boundary? AtOrBelow(VersionNumber version)
    {
        for (int i = _closings.Count - 1; i >= 0; i--)
        {
            (VersionNumber from, Boundary b, _) = _closings[i];
            if (from > version) continue;
            if (b.Offset < _kept) return null;
            return version < b.Version ? b with { Version = version } : b;
        }

        return null;
    }

    /// <summary>Where exactly this version ends; null if it cannot be told.</summary>
    public Boundary? Exactly(VersionNumber version) => AtOrBelow(version) is { } found && found.Version == version ? found : null;

    /// <summary>Whether a part of the stream behind an offset was not read, but taken from the store.</summary>
    public bool HasGap(long from) => _gapEnd > from;

    /// <summary>What the first so many commands make of a key.</summary>
    public Op? ValueAt(int key, long offset)
    {
        for (int i = (int)offset - 1; i >= 0; i--)
            if (Bytes[i].Key == key) return Bytes[i].Value;
        return null;
    }

    // Of a run that a world-line's beginning has cut short only that is left.
    private VersionNumber LastOf(int closing) =>
        closing + 1 < _closings.Count ? VersionNumber.Min(_closings[closing].Boundary.Version, _closings[closing + 1].From.Previous)
            : _closings[closing].Boundary.Version;

    private void CheckAppend(in Boundary boundary)
    {
        if (boundary.WorldLine != Last.WorldLine)
            throw new SimException($"I5: {boundary.Point} appended to a log in world-line {Last.WorldLine}");
        if (boundary.Version <= Last.Version) throw new SimException($"I1: {boundary.Point} appended after {Last.Point}");
    }

    private void Add(in Record record)
    {
        if (record.Kind == Kind.Window) _window = _records.Count;
        _records.Add(record);
        Apply(record);
    }

    private void Fold()
    {
        Bytes.Clear();
        _closings.Clear();
        _branches.Clear();
        _closings.Add(new(VersionNumber.Zero, new(WorldLine.First, VersionNumber.Zero, 0, 0, default), 0));
        _durableLast = _closings[0].Boundary;
        DurableIndex = EndIndex;
        NotedCut = DurableCut = default;
        Windows = default;
        if (_base.Count == 0 && Floor == default) History = new("begun", 0);
        _durable = 0;
        _kept = _gapEnd = 0;
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
                History = History with { Offset = r.Number };
                _gapEnd = r.Number;
                if (!_forgetsAtGap) return;
                // The base of what follows is taken for the last version's end.
                _closings[^1] = new(Last.Version, Last with { Offset = r.Number }, r.Number);
                _kept = r.Number;
                return;
            case Kind.Cut:
                NotedCut = r.Boundary.Point;
                Windows = Windows.Noted(NotedCut);
                return;
            case Kind.Window:
                Windows = Windows.Began(NotedCut);
                return;
            case Kind.Boundary when Windows.IsOpen:
                Windows = Windows.Ended(r.Boundary.Point, r.Boundary.Offset);
                break;
            case Kind.Seeded:
                _closings.Clear();
                Bytes.Clear();
                Bytes.AddRange(_base);
                _kept = r.Number;
                Windows = default;
                break;
            case Kind.Begin:
                History = new($"begun {r.Number}", r.Boundary.Offset);
                _branches.Clear();
                _closings.Clear();
                Bytes.Clear();
                for (int i = 0; i < r.Boundary.Offset; i++) Bytes.Add(default);
                (HistoryId, _kept, _gapEnd) = (r.Number, 0, 0);
                Windows = default;
                break;
            case Kind.WorldLine:
                VersionNumber branch = r.Boundary.Version;
                Windows = Windows.BackTo(r.Boundary.Point, r.Boundary.Offset);
                bool isAgain = Last.WorldLine == r.Boundary.WorldLine;
                // A rollback in place came to nothing when the log had been filled already: what was durable in this world-line is void,
                // and no index tells.
                if (isAgain && (End > r.Boundary.Offset || Last.Version > branch)) History = new($"again {r.Number}", r.Boundary.Offset);
                _closings.RemoveAll(c => c.From >= branch);
                Bytes.RemoveRange((int)r.Boundary.Offset, Bytes.Count - (int)r.Boundary.Offset);
                HistoryId = r.Number;
                _gapEnd = Math.Min(_gapEnd, r.Boundary.Offset);
                if (!isAgain) _branches.Add(new(r.Boundary.WorldLine, branch, r.Boundary.Offset));
                break;
        }

        _closings.Add(new(r.From, r.Boundary, End));
    }
}
