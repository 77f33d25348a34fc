// What the versions of one shard depend on at other shards, for the exact and the hybrid finder: noted from the headers of
// batches, given out as rows of the precedence graph when versions have become durable, forgotten when they are committed
// (DPR, sections 3.1 and 6). Pure; one caller at a time.
//
// What is not known, since another process executed it, is taken to depend on everything up to its own version, at every other
// shard: by the rule that no version depends on a larger one (DPR, section 3.2) that is enough, and others pass it without a word
// of this shard's, when they are durable that far.
//
// Rows of several versions have to end together. Where A's rows end at 3, 6, 9 and B's at 4, 8, each range of the one leads into the middle
// of one of the other, which ends later and depends on more: a cut would have to climb for ever. So a row that cannot go to
// every version goes to the multiple of the largest power of two (StepOf): no shard passes one of a larger power over, and since no
// version depends on a larger one, all shards at such a multiple are closed.
//
// Rows end where the shard reported a version that it can be restored to. While the cut stands still (another shard is down)
// they become many: the newest is then extended in place of a new one. So are notes. Both stay right: a wider row
// depends on more.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cuts;

/// <summary>The dependencies of a shard's versions above the cut.</summary>
/// <param name="shard">The shard.</param>
/// <param name="shardCount">How many shards the cluster has.</param>
public sealed class DependencyTrail(ShardId shard, int shardCount)
{
    /// <summary>How many rows are kept apart, and how many notes.</summary>
    public const int RowsMax = 64;

    private readonly List<Note> _notes = [];
    private readonly List<VersionNumber> _ends = [];      // of the rows given out, above the cut
    private VersionNumber _committed;
    private VersionNumber _knownAbove;                    // what is executed up to here is not known

    /// <summary>The world-line that it is of; none before it begins.</summary>
    public WorldLine WorldLine { get; private set; }

    /// <summary>Begins in a world-line: at the start of a process, or when the shard has entered it. In the one that it is of already the
    /// same store goes on, and so does what is known of it.</summary>
    /// <param name="committed">The recorded cut at this shard: of a new world-line, its branch.</param>
    /// <param name="executed">Versions up to this one were executed by others, and are above the cut.</param>
    public void Begin(WorldPoint committed, VersionNumber executed)
    {
        if (committed.WorldLine == WorldLine) return;
        WorldLine = committed.WorldLine;
        _notes.Clear();
        _ends.Clear();
        _committed = committed.Version;
        _knownAbove = VersionNumber.Max(committed.Version, executed);
    }

    /// <summary>A batch is let through.</summary>
    /// <param name="dependencies">What its session has seen at other shards; nothing above <paramref name="open"/>.</param>
    /// <param name="open">The lowest version in which it may be executed: none is open below.</param>
    public void Add(ReadOnlySpan<Dependency> dependencies, VersionNumber open)
    {
        if (dependencies.IsEmpty) return;
        if (_notes.Count == 0 || (_notes[^1].Last < open && _notes.Count < RowsMax)) _notes.Add(new(open));
        Note note = _notes[^1];
        note.Last = VersionNumber.Max(note.Last, open);
        foreach (Dependency d in dependencies)
            if (d.Shard != shard) note.Add(d);
    }

    /// <summary>The row for versions up to one that is durable. Calling again for the same, or a later one, is allowed: the row given
    /// out last counts.</summary>
    /// <param name="through">The version.</param>
    /// <param name="startsOver">Whether nobody may know the rows given out so far: this one begins at the cut.</param>
    /// <returns>Null: it is of another world-line.</returns>
    public PrecedenceRow? RowFor(WorldPoint through, bool startsOver = false)
    {
        if (through.WorldLine != WorldLine) return null;
        if (startsOver) _ends.Clear();
        while (_ends.Count > 0 && _ends[^1] >= through.Version) _ends.RemoveAt(_ends.Count - 1);
        if (_ends.Count == RowsMax) _ends.RemoveAt(RowsMax - 1);
        VersionNumber after = _ends.Count > 0 ? _ends[^1] : VersionNumber.Min(_committed, through.Version);
        if (through.Version > after) _ends.Add(through.Version);
        return new(shard, through, after, DependenciesOf(after, through.Version));
    }

    /// <summary>The row for versions up to where a world-line is to branch off. Of one in which this process has executed nothing, nobody
    /// knows more.</summary>
    /// <param name="at">The branch, in the world-line that ends.</param>
    /// <param name="committed">The recorded cut at this shard.</param>
    public PrecedenceRow RowForBranch(WorldPoint at, VersionNumber committed)
    {
        if (RowFor(at) is { } known) return known;
        DependencyTrail unknown = new(shard, shardCount);
        unknown.Begin(new(at.WorldLine, committed), at.Version);
        return unknown.RowFor(at)!.Value;
    }

    /// <summary>How far the next row should go, of what is durable: to the multiple of the largest power of two behind the last row, of
    /// those that the shard can be restored to; else to the end.</summary>
    public DurableClaim StepOf(in DurableClaim claim)
    {
        if (claim.Point.WorldLine != WorldLine) return claim;
        VersionNumber after = _ends.Count > 0 ? _ends[^1] : _committed;
        long from = Math.Max(after.Number, claim.Floor.Number - 1), to = claim.Point.Version.Number;
        if (to <= from) return claim;
        int bit = 63 - System.Numerics.BitOperations.LeadingZeroCount((ulong)(from ^ to));
        VersionNumber end = new(to >> bit << bit);
        return claim.Restores(end) ? claim with { Point = claim.Point with { Version = end }, Floor = VersionNumber.Min(claim.Floor, end) }
            : claim;
    }

    /// <summary>The recorded cut at this shard. One of another world-line says nothing here.</summary>
    public void Committed(WorldPoint cut)
    {
        VersionNumber version = cut.Version;
        if (cut.WorldLine != WorldLine || version <= _committed) return;
        _committed = version;
        _ends.RemoveAll(end => end <= version);
        _notes.RemoveAll(note => note.Last <= version);
    }

    private DependencySet DependenciesOf(VersionNumber after, VersionNumber through)
    {
        List<Dependency> found = [];
        foreach (Note note in _notes)
        {
            if (note.First > through || note.Last <= after) continue;
            foreach ((int on, VersionNumber version) in note.Seen) found.Add(new(new(on), version));
        }

        if (after < _knownAbove)
        {
            for (int s = 0; s < shardCount; s++)
                if (s != shard.Number) found.Add(new(new(s), VersionNumber.Min(_knownAbove, through)));
        }

        return DependencySet.Of([.. found]);
    }

    /// <summary>What batches of the versions from First to Last depend on.</summary>
    private sealed class Note(VersionNumber first)
    {
        public VersionNumber First { get; } = first;

        public VersionNumber Last { get; set; } = first;

        public Dictionary<int, VersionNumber> Seen { get; } = [];

        public void Add(in Dependency d)
        {
            if (!Seen.TryGetValue(d.Shard.Number, out VersionNumber known) || known < d.Version) Seen[d.Shard.Number] = d.Version;
        }
    }
}
