// Drives a ShardMachine step by step in the rule tests: grid of 1 ms from version 1 at 1 s, one offset per step.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Shards;

internal sealed class ShardHarness
{
    public const long Start = 1_000_000;
    private readonly ShardEffects _effects = new();
    private long _us = Start;

    public ShardHarness(CommitMode mode = CommitMode.Log, bool attach = true, long lastVersion = 0, long recorded = 0,
        long syncIntervalUs = 0, long recordIntervalUs = 0, bool peers = false, bool replicated = false, long strideMin = 1,
        ShardMutation mutation = ShardMutation.None)
    {
        Machine = new(
            new() { Mode = mode, EmptyRunIntervalUs = 10_000, RecordBackoffMinUs = 1000, RecordBackoffMaxUs = 4000,
                SyncIntervalUs = syncIntervalUs, RecordIntervalUs = recordIntervalUs, HasPeers = peers, IsReplicated = replicated,
                StrideMin = strideMin },
            new(new VersionGrid(new(1), Start, 1000), new(new(1), new(lastVersion), 100, 0, default), new(new(1), new(recorded)),
                new(new(1), new(recorded)), HybridTimestamp.Of(_us, 0)), mutation);
        if (attach) Machine.Attached(100, 100);
    }

    public ShardMachine Machine { get; }

    /// <summary>The effects of the last input.</summary>
    public List<ShardEffect> Effects { get; private set; } = [];

    public string Kinds => string.Join(' ', Effects.Select(e => e.Kind));

    public Marker Marker => Effects.Single(e => e.Kind is ShardEffectKind.SendMarker or ShardEffectKind.StartSave).Marker;

    public Boundary Boundary => Effects.Single(e => e.Kind is ShardEffectKind.AppendBoundary or ShardEffectKind.AppendEmptyRun).Boundary;

    public WorldPoint Point => Effects.Single(e => e.Kind is ShardEffectKind.RecordDurable or ShardEffectKind.Committed).Point;

    public DurableClaim Claim => Effects.Single(e => e.Kind == ShardEffectKind.RecordDurable).Claim;

    public long StartOf(long version) => Start + ((version - 1) * 1000);

    public HybridTimestamp Now => HybridTimestamp.Of(_us, 0);

    public string Do(Action<ShardEffects> input)
    {
        _effects.Clear();
        input(_effects);
        Effects = [.. _effects.Items];
        return Kinds;
    }

    /// <summary>The clock stands in this version's slot.</summary>
    public string TickAt(long version, bool busy = true)
    {
        _us = Math.Max(_us, Start + ((version - 1) * 1000) + 1);
        HybridTimestamp now = Now;
        return Do(e => Machine.Tick(now, busy, e));
    }

    public string TickAfterUs(long us, bool busy = false)
    {
        _us += us;
        HybridTimestamp now = Now;
        return Do(e => Machine.Tick(now, busy, e));
    }

    public string Answer(Marker marker, bool ok = true) => Do(e => Machine.MarkerAnswered(marker, ok, e));

    public string Read(Marker marker, long offset) => Do(e => Machine.MarkerRead(marker, offset, 0, e));

    public string Lost(Marker marker) => Do(e => Machine.MarkerLost(marker, e));

    public string Durable(long version, long worldLine = 1) => Do(e => Machine.LogDurable(new(new(worldLine), new(version)), e));

    public string Recorded(WorldPoint point) => Do(e => Machine.DurableRecorded(point, point, e));

    /// <summary>Closes, syncs and records everything up to the slot before a version.</summary>
    public void CommitAt(long version, long offset)
    {
        TickAt(version);
        Marker marker = Marker;
        Answer(marker);
        Read(marker, offset);
        Durable(version - 1);
        Recorded(Point);
    }
}
