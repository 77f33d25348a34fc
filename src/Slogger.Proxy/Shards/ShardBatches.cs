// What a shard decides about the batches of sessions, and tells them: Core's BatchGate, with what it has to know of the shard; how far the
// cluster is committed, and where its world-lines branched off.
using System.Globalization;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Recovery;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;

namespace Slogger.Proxy.Shards;

/// <summary>The batches of a shard. Any thread.</summary>
internal sealed class ShardBatches(VersionedShard shard, TimeSpan clockError) : IBatchPort
{
    private readonly BatchGate _gate = new(new BatchGateOptions { ClockErrorUs = (long)clockError.TotalMicroseconds });

    // As of the last opening of the front end: replaced by the control task, read by the loop.
    private volatile IReadOnlyCollection<WorldLineBranch> _branches = [];
    private volatile IReadOnlyList<WorldLineRecord> _lines = [];
    private volatile Cut? _cut;                 // exact and hybrid: as far as it was told here

    public string Cluster => shard.Seat.Cluster;

    public ShardId Shard => shard.Seat.Shard;

    // Of the version that is open now.
    public long VersionIntervalUs => shard.Seat.Grid.IntervalUsAt(shard.Now().Microseconds);

    public FinderKind Finder => shard.HasGridCuts ? FinderKind.Approximate : shard.Seat.Finder;

    public int ShardCount => shard.Seat.ShardCount;

    public Partitioning Partitions => shard.Seat.Partitions;

    public (SequenceNumber Last, long Version)? LastDone(SessionId session) => shard.LastDone(session);

    public GateDecision Decide(in BatchHeader header, VersionNumber open)
    {
        // The clock is only looked at for a session that is ahead.
        HybridTimestamp now = header.AtLeast > open ? shard.Now() : default;
        GridView grid = shard.Seat.GridView;
        return _gate.Decide(header,
            new GateShard(new(shard.WorldLine), open, grid.Grid, _branches) { GridValidUntilUs = grid.ValidUntilUs }, now);
    }

    public void FastForward(VersionNumber atLeast) => shard.Versions.FastForward(atLeast);

    public void OnLetThrough(in BatchHeader header, VersionNumber open)
    {
        if (shard.Cuts?.Dependencies is not { } notes || header.Dependencies.IsEmpty) { return; }
        notes.Add(header.Dependencies.Span, open);
    }

    public WorldPoint CommittedEverywhere
    {
        get
        {
            WorldLine line = new(shard.WorldLine);
            if (_cut is { } cut && cut.WorldLine == line) { return new(line, Lowest(cut)); }
            // Of this world-line nothing was told yet but where it began.
            return new(line, _lines.FirstOrDefault(l => l.WorldLine == line)?.BranchCut ?? VersionNumber.Zero);
        }
    }

    public string CommittedByShard
    {
        get
        {
            Cut? cut = _cut;
            return cut is null ? "" : string.Join(' ', [cut.WorldLine.Number, .. cut.Versions.ToArray().Select(v => v.Number)]);
        }
    }

    public string BranchesSince(WorldLine abandoned)
    {
        IReadOnlyList<WorldLineRecord> lines = _lines;
        // Without it a session would be told that all has survived.
        if (lines.All(l => l.WorldLine.Number != shard.WorldLine))
        {
            throw new BrokenInvariantException($"I1: shard {Shard} is in world-line {shard.WorldLine} and does not know where it began");
        }
        return string.Join(',', Enumerable.Range(0, ShardCount)
            .Select(s => ClusterSeat.LastValid(new ShardId(s), abandoned, lines).Number.ToString(CultureInfo.InvariantCulture)));
    }

    /// <summary>Before when replies of this version are held back.</summary>
    public HybridTimestamp HoldReplyUntil(VersionNumber open) => _gate.HoldReplyUntil(open, shard.Seat.Grid);

    /// <summary>The front end opens: these are the world-lines.</summary>
    public void Publish(IReadOnlyList<WorldLineRecord> lines)
    {
        _lines = lines;
        _branches = [.. lines.Select(l => new WorldLineBranch(l.WorldLine, l.BranchOf(Shard)))];
    }

    /// <summary>The recorded cut, from wherever it came.</summary>
    public void NoteCut(ClusterCut cut)
    {
        if (shard.HasGridCuts) { return; }
        Cut whole = cut.Whole(ShardCount);
        // They come by two ways, and late.
        if (_cut is not { } known || (known.WorldLine == whole.WorldLine ? whole.IsAtLeast(known) : whole.WorldLine > known.WorldLine))
        {
            _cut = whole;
        }
    }

    private static VersionNumber Lowest(Cut cut)
    {
        VersionNumber lowest = cut.Versions[0];
        foreach (VersionNumber version in cut.Versions) { lowest = VersionNumber.Min(lowest, version); }
        return lowest;
    }
}
