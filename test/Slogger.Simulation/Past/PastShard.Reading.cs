// How a shard reads its past, by the same decisions as the product (PastInstants, ShardPast), and what is checked of it: R1, R3, R4 and R6,
// against what really happened.
using Slogger.Core.Retention;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Past;

/// <summary>A version of the past, and from what it is made.</summary>
/// <param name="End">The version that is read.</param>
/// <param name="Base">The checkpoint below it.</param>
/// <param name="Target">How many commands follow that up to it.</param>
/// <param name="Reduced">The file that has them; null: the log has.</param>
internal sealed record PastPlace(VersionNumber End, PastCheckpoint Base, long Target, PastReduced? Reduced);

/// <summary>What a shard says to a question about an instant.</summary>
/// <param name="Place">It is kept.</param>
/// <param name="IsEarly">It is not committed yet, or the shard does not answer: to be asked again.</param>
internal readonly record struct PastReply(PastPlace? Place, bool IsEarly);

internal sealed partial class PastShard
{
    private readonly record struct Reader(VersionNumber Version, VersionNumber End, long UntilMs);

    private readonly List<Reader> _held = [];
    private readonly Dictionary<long, long> _leases = [];       // of each offset, until when

    private bool IsHoldBroken => Log.End - Log.Start > 2 * _world.BudgetBytes;

    // ---- As the product ----

    /// <summary>Which version an instant is, and whether it is kept.</summary>
    /// <param name="version">What is asked for.</param>
    /// <param name="isNow">All that was acknowledged in it is wanted.</param>
    public PastReply Ask(VersionNumber version, bool isNow)
    {
        if (!IsServing || Line != _world.Line) { return new(null, IsEarly: true); }
        if (_world.IsMoving) { return default; }
        VersionNumber? committed = PastInstant.Committed(version, isNow, KnownCut.Version,
            cut => Log.AtOrBelow(cut)?.Version ?? VersionNumber.Zero);
        return committed is { } wanted ? new(HoldPast(wanted), IsEarly: false) : new(null, IsEarly: true);
    }

    /// <summary>Finds a version, and holds what it is made from.</summary>
    public PastPlace? HoldPast(VersionNumber version)
    {
        if (Find(version) is not { } place) { return null; }
        _holds.Take(place.Base.Offset, _world.NowMs);
        _held.RemoveAll(h => h.Version == version || h.UntilMs <= _world.NowMs);
        _held.Add(new(version, place.End, _world.NowMs + _world.HoldMs));
        _leases[place.Base.Offset] = _world.NowMs + _world.HoldMs;
        return place;
    }

    private PastPlace? Find(VersionNumber version)
    {
        PastMutation mutation = _world.Settings.Past;
        if (!PastInstant.IsSettled(version, _world.Settled, mutation)) { return null; }
        if (Log.AtOrBelow(version) is { } end && Latest(end.Offset) is { } checkpoint)
        {
            return !PastInstant.IsSettled(end.Version, _world.Settled, mutation) ? null
                : new(end.Version, checkpoint, end.Offset - checkpoint.Offset, null);
        }
        IReadOnlyList<Tile> tiles = Tiles();
        if (Reach(tiles) is not { } reach
            || PastTiles.ReducedAt(reach, [.. tiles.Select(SpanOf)], version, mutation) is not { } at)
        {
            return null;
        }
        PastReduced file = tiles[at].Reduced!;
        (int window, VersionNumber served) = PastTiles.WindowAt(file.Windows.Count,
            i => new(file.Windows[i].End.Version, file.Windows[i].Through), version, mutation);
        return !PastInstant.IsSettled(served, _world.Settled, mutation) ? null
            : new(served, tiles[at].Base, file.Windows.Take(window + 1).Sum(w => w.Ops.Length), file);
    }

    private PastReach? Reach(IReadOnlyList<Tile> tiles)
    {
        if (_checkpoints.Find(IsUsable) is not { } oldest) { return null; }
        foreach (PastClosing closing in Log.Closings)
        {
            if (closing.End.Offset < oldest.Offset) { continue; }
            return PastTiles.Reach(closing.From, [.. tiles.Select(SpanOf)], Log.Start, origin: 0);
        }
        return null;
    }

    private static PastTile SpanOf(Tile tile) => new(tile.Base.Offset, tile.Reduced?.Versions);

    // What follows the checkpoint, up to the version's end.
    private static IEnumerable<PastOp> Commands(PastLog log, PastPlace place)
    {
        for (int i = 0; i < place.Target && place.Reduced is null; i++) { yield return log[place.Base.Offset + i]; }
        foreach (PastOp op in (place.Reduced?.Windows.SelectMany(w => w.Ops) ?? []).Take((int)place.Target)) { yield return op; }
    }

    private Dictionary<int, int> StateAt(PastPlace place) => Dump(place).ToDictionary(k => k.Key, k => k.Value.Value);

    /// <summary>The keys of a version, with their expiries.</summary>
    public Dictionary<int, (int Value, long ExpiresMs)> Dump(PastPlace place)
    {
        var all = new Dictionary<int, (int Value, long ExpiresMs)>(place.Base.Content);
        foreach (PastOp op in Commands(Log, place).Where(op => op.Key >= 0)) { PastOracle.Apply(all, op); }
        long timeMs = _world.TimeMsOf(place.End);
        foreach ((int key, (int Value, long ExpiresMs) value) in all)
        {
            if (value.ExpiresMs > 0 && PastInstant.HasExpired(value.ExpiresMs, timeMs, _world.Settings.Past)) { all.Remove(key); }
        }
        return all;
    }

    /// <summary>Which keys the log has commands of, behind one end of a version up to another; null: that cannot be told.</summary>
    public HashSet<int>? Touched(Boundary from, Boundary to)
    {
        if (from.Offset < Log.Start || Log.HasGap(from.Offset, to.Offset)) { return null; }
        var keys = new HashSet<int>();
        for (long at = from.Offset; at < to.Offset; at++)
        {
            if (Log[at].Key >= 0) { keys.Add(Log[at].Key); }
        }
        return keys;
    }

    // ---- What is checked ----

    /// <summary>Reads a version, and compares it with what really was (R1, R4).</summary>
    public Dictionary<int, int> ReadChecked(PastPlace place, VersionNumber asked)
    {
        Dictionary<int, int> state = StateAt(place), was = Oracle.StateAt(place.End, _world.TimeMsOf(place.End));
        string from = place.Reduced is null ? "R1" : "R4";
        if (place.End > asked) { throw new SimException($"{from}: shard {Index} answers version {place.End} to a question for {asked}"); }
        if (!_world.IsSame(state, was))
        {
            throw new SimException($"{from}: shard {Index} has {PastWorld.Text(state)} at version {place.End} (asked for {asked}), "
                + $"where {PastWorld.Text(was)} was; from the checkpoint at {place.Base.Offset}, log {Log.Start}..{Log.End}");
        }
        CheckGap(place.End, asked);
        if (place.End < _world.Settled)
        {
            throw new SimException($"R1: shard {Index} answers version {place.End}, when keys were at other shards: up to {_world.Settled}");
        }
        _world.Count(place.Reduced is null ? "read in detail" : "read from reduced files");
        return state;
    }

    /// <summary>As of a time nothing is there that was done later, and nothing is missing that has ended long before (R1).</summary>
    public void ReadAtTime(long timeUs)
    {
        VersionNumber version = PastInstant.ClosedAt(_world.Grid, timeUs, _world.Settings.Past);
        if (Ask(version, isNow: false).Place is not { } place) { return; }
        ReadChecked(place, version);
        if (Oracle.Done.FirstOrDefault(d => d.SentUs >= 0 && d.Label <= place.End && d.HandedOnUs > timeUs) is { } later)
        {
            throw new SimException($"R1: shard {Index} shows at {timeUs} what was done at {later.HandedOnUs}, in version {later.Label}");
        }
        _world.Count("read as of a time");
    }

    /// <summary>Reads any version that is committed.</summary>
    public void ReadAny()
    {
        if (Oracle.Closed.Count == 0) { return; }
        (VersionNumber from, VersionNumber to, _) = Oracle.Closed[_world.Random.Next(Oracle.Closed.Count)];
        VersionNumber version = _world.Dice(3) ? new(from.Number + _world.Random.Next(4)) : to;
        if (Ask(version, isNow: false).Place is { } place) { ReadChecked(place, version); }
    }

    /// <summary>Nothing that is promised has become unreachable (R3), and nothing that somebody reads has (R6).</summary>
    public void CheckKept()
    {
        if (!IsServing || Line != _world.Line) { return; }
        CheckHolds();
        IReadOnlyList<Tile> tiles = Tiles();
        PastReach? reach = Reach(tiles);
        if (_world.IsBudgetTight && reach is null) { return; }
        long nowUs = Math.Max(_world.NowUs + _skewUs, _now.Microseconds);
        VersionNumber promised = _world.IsBudgetTight ? reach!.Value.From : LastEnded(nowUs, _world.RetentionUs);
        VersionNumber detail = _world.IsBudgetTight ? reach!.Value.Detail : LastEnded(nowUs, _world.DetailUs);
        foreach ((VersionNumber from, VersionNumber to, long offset) in Oracle.Closed)
        {
            if (to > KnownCut.Version) { break; }
            if (to < _world.Settled || to < promised) { continue; }
            CheckKept(to, offset, isInDetail: to >= detail);
            if (from < to && from >= _world.Settled && from >= promised) { CheckKept(from, offset, isInDetail: from >= detail); }
        }
    }

    // The last version that had ended so long ago; zero: all are meant.
    private VersionNumber LastEnded(long nowUs, long agoUs)
    {
        if (agoUs == 0) { return VersionNumber.Zero; }
        VersionNumber version = _world.Grid.VersionAt(nowUs - agoUs);
        while (version > VersionNumber.Zero && _world.Grid.StartOf(version.Next) > nowUs - agoUs) { version = version.Previous; }
        return version;
    }

    private void CheckKept(VersionNumber version, long offset, bool isInDetail)
    {
        PastPlace? place = Find(version);
        if (isInDetail)
        {
            if (place?.End == version) { return; }
            throw Lost($"version {version}, at {offset}", place);
        }
        if (place is { End: var served }) { CheckGap(served, version); }
        // Of some versions one is kept: that of the ones before, at least.
        long group = (version.Number - 1) / _world.Group;
        if (place?.End == version || Oracle.LastClosed(new(group * _world.Group)) is not { } before) { return; }
        bool isCutOff = Oracle.HasGap(before.Offset, offset) || before.Version < _world.Settled;
        bool isKept = place is null ? isCutOff : place.End >= before.Version || !Oracle.IsAnyDone(place.End, before.Version);
        if (isKept) { return; }
        throw Lost($"version {before.Version} or a later one for {version}, at {offset}", place);
    }

    private SimException Lost(string what, PastPlace? place) => new($"R3: shard {Index} has to have {what}, and has "
        + $"{place?.End.ToString() ?? "nothing"}; log {Log.Start}..{Log.End}, tiles "
        + string.Join(' ', Tiles().Select(t => $"{t.Base.Offset}{(t.Reduced is null ? "" : "r")}")));

    // An earlier version is no answer if writes that no log has lie between.
    private void CheckGap(VersionNumber served, VersionNumber asked)
    {
        if (Oracle.LastClosed(asked) is { } closed && closed.Version > served
            && Oracle.HasGap(Oracle.LastClosed(served)?.Offset ?? 0, closed.Offset))
        {
            throw new SimException($"R1: shard {Index} answers version {served} to a question for {asked}, which is behind a gap");
        }
    }

    private void CheckHolds()
    {
        long lowest = _leases.Where(l => l.Value > _world.NowMs).Select(l => l.Key).DefaultIfEmpty(long.MaxValue).Min();
        if (_holds.Lowest(_world.NowMs) != lowest)
        {
            throw new SimException($"R6: shard {Index} holds {_holds.Lowest(_world.NowMs)}, where somebody has a lease on {lowest}");
        }
        foreach (Reader held in _held.Where(h => h.UntilMs > _world.NowMs && h.Version >= _world.Settled && h.End >= _world.Settled))
        {
            if (Find(held.Version)?.End == held.End) { continue; }
            throw new SimException($"R6: shard {Index}: somebody reads version {held.Version}, as {held.End}, and that is not kept any "
                + $"more; log {Log.Start}..{Log.End}");
        }
    }

    /// <summary>Whether somebody who has found a version may rely on it: it is held as itself, and not as an earlier one.</summary>
    public bool IsHeld(VersionNumber version) => _held.Exists(
        h => h.End == version && h.UntilMs > _world.NowMs && h.End >= _world.Settled);
}
