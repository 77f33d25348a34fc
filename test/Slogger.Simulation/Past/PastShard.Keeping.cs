// What a shard keeps of its past: checkpoints, the raw log, reduced files, by the same decisions as the product (Checkpointer,
// CheckpointStore, StretchReduction, PastReducer), one operation of the disk after the other.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Retention;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Past;

/// <summary>A dump of a store.</summary>
internal sealed record PastCheckpoint(int Id, long Offset, WorldLine Line, IReadOnlyDictionary<int, (int Value, long ExpiresMs)> Content)
{
    public const int Bytes = 3;
}

/// <summary>A window of a reduced file.</summary>
internal sealed record PastReducedWindow(Boundary End, VersionNumber Through, PastOp[] Ops);

/// <summary>A reduced file.</summary>
internal sealed class PastReduced(int next, ReducedVersions versions, IReadOnlyList<PastReducedWindow> windows)
{
    public int Next => next;

    public ReducedVersions Versions => versions;

    public IReadOnlyList<PastReducedWindow> Windows => windows;

    public int Bytes { get; } = windows.Sum(w => w.Ops.Length);

    public bool IsDurable { get; set; }
}

internal sealed partial class PastShard
{
    private const int KeptAtCut = 2;

    private readonly record struct Tile(PastCheckpoint Base, PastReduced? Reduced);

    // On the disk, by rising offset; and the reduced files there, by the checkpoint that they follow.
    private readonly List<PastCheckpoint> _checkpoints = [];
    private readonly Dictionary<int, PastReduced> _files = [];

    // Of the process.
    private readonly Dictionary<int, PastReduced> _noted = [];
    private readonly Queue<(PastCheckpoint From, PastCheckpoint To)> _toReduce = new();
    private PastHolds _holds;
    private (PastCheckpoint From, PastReduced File, int Step)? _reducing;

    // ---- Checkpoints ----

    /// <summary>Takes a checkpoint if one is due, and deletes what is needed no more.</summary>
    public void TakeCheckpoint()
    {
        long tail = Log.End - _checkpoints[^1].Offset;
        // Now and then it comes early.
        if (!IsServing || _isLinkLost || tail < (_world.Dice(6) ? 2 : _world.EveryBytes)) { return; }
        AddCheckpoint();
        if (_world.Dice(10)) { Die(isPowerCut: _world.Dice(2)); } else { Prune(); }
    }

    private void AddCheckpoint(long? offset = null)
    {
        var taken = new PastCheckpoint(_world.NextCheckpoint(), offset ?? Log.End, Line, new Dictionary<int, (int, long)>(_store));
        int at = _checkpoints.FindIndex(c => c.Offset > taken.Offset);
        _checkpoints.Insert(at < 0 ? _checkpoints.Count : at, taken);
    }

    private void Prune()
    {
        if (CutOffset is not { } cut) { return; }
        long byBudget = PrunePlan.BudgetFrom(Log.Start, Log.End, _world.BudgetBytes - _world.EveryBytes,
            [.. Tiles().Select(t => new TileSize(t.Base.Offset, (t.Reduced?.Bytes ?? 0) + PastCheckpoint.Bytes))]);
        long byAge = Promised is { } promised ? OffsetOf(promised) : 0;
        long below = PrunePlan.Below(cut, HeldFrom(), byBudget, byAge, _world.Settings.Past);
        List<PastCheckpoint> usable = Reachable();
        PruneBase[] bases = [.. usable.Select(c => new PruneBase(c.Offset,
            _noted.ContainsKey(c.Id) || _noted.Values.Any(r => r.Next == c.Id)))];
        PastCheckpoint[] kept = [.. PrunePlan.Kept(bases, KeptAtCut, below, _world.EveryBytes, Log.HasGap, _world.Settings.Past)
            .Select(i => usable[i])];
        foreach (PastCheckpoint gone in _checkpoints.Except(kept).ToList())
        {
            // The reduced file first: one that is found at the next start is of its checkpoint.
            if (_noted.Remove(gone.Id)) { _files.Remove(gone.Id); }
            if (_world.Dice(40))
            {
                Die(isPowerCut: false);
                return;
            }
            _checkpoints.Remove(gone);
            _world.Count("pruned");
        }
        if (_checkpoints.Count > 0) { Trim(_checkpoints[0].Offset); }
        CheckKept();
    }

    // ---- The raw log, and reduced files ----

    /// <summary>Deletes raw log that was reduced, and decides what is reduced next.</summary>
    public void KeepDetail()
    {
        if (!IsServing || CutOffset is not { } cut || PromisedDetail is not { } promised) { return; }
        IReadOnlyList<Tile> tiles = Tiles();
        if (tiles.Count == 0) { return; }
        var bounds = new RawBounds
        {
            Cut = cut, Held = HeldFrom(), Needed = long.MaxValue,
            Detail = PrunePlan.DetailFrom(Log.End, _world.BudgetBytes, _world.EveryBytes, OffsetOf(promised)),
        };
        TilePlan plan = TilePlan.Of([.. tiles.Select(t => new TileBase(t.Base.Offset, t.Reduced is not null))], bounds, KeptAtCut,
            _world.Settings.Tiles);
        if (Trim(plan.RawFrom)) { CheckKept(); }
        if (_reducing is not null || _toReduce.Count > 0) { return; }
        (IReadOnlyList<int> between, IReadOnlyList<int> idle) = plan.Next(i => i + 1 < tiles.Count && !Log.Closings.Any(
            c => c.End.Offset >= tiles[i].Base.Offset && c.End.Offset < tiles[i + 1].Base.Offset), _world.Settings.Tiles);
        foreach (int at in idle)
        {
            _checkpoints.Remove(tiles[at].Base);
            _world.Count("checkpoints that nothing is read from");
            CheckKept();
        }
        for (int i = 1; i < between.Count; i++) { _toReduce.Enqueue((tiles[between[i - 1]].Base, tiles[between[i]].Base)); }
    }

    // Whole segments are deleted.
    private bool Trim(long before)
    {
        long to = before - _world.Random.Next(_world.SegmentBytes);
        if (to <= Log.Start) { return false; }
        Log.TrimBefore(to);
        _world.Count("trimmed");
        return true;
    }

    /// <summary>The next step of the background work: writing a file aside, making it durable, taking note of it.</summary>
    public void ReduceOn()
    {
        if (!IsUp) { return; }
        if (_reducing is not { } step)
        {
            if (!_toReduce.TryDequeue(out (PastCheckpoint From, PastCheckpoint To) next)) { return; }
            if (Reduce(next.From, next.To) is { } written) { _reducing = (next.From, written, 0); } else { _toReduce.Clear(); }
            return;
        }
        bool isEarly = _world.Settings.Sim == PastSimMutation.ReducedNotDurable;
        switch (step.Step)
        {
            case 0:
                _files[step.From.Id] = step.File;
                step.File.IsDurable = !isEarly;
                _reducing = step with { Step = 1 };
                break;
            case 1:
                TakeNote(step.From, step.File);
                _reducing = isEarly ? step with { Step = 2 } : null;
                break;
            default:
                step.File.IsDurable = true;
                _reducing = null;
                break;
        }
    }

    private PastReduced? Reduce(PastCheckpoint from, PastCheckpoint to)
    {
        // It was pruned, or trimmed, meanwhile: the next decision is another one.
        if (!_checkpoints.Contains(from) || from.Offset < Log.Start) { return null; }
        var windows = new List<PastReducedWindow>();
        var cut = new StretchWindows(from.Offset, _world.Group, bytesMax: 1000);
        long at = from.Offset;

        void EndWindow()
        {
            // The last of a key is all that is left.
            var left = new Dictionary<int, PastOp>();
            for (; at < cut.End.Offset; at++)
            {
                PastOp op = Log[at];
                if (op.Key >= 0) { left[op.Key] = op; }
            }
            windows.Add(new(cut.End, cut.Through, [.. left.Values]));
        }

        foreach (Boundary next in Log.Closings.Select(c => c.End).SkipWhile(b => b.Offset < from.Offset)
            .TakeWhile(b => b.Offset < to.Offset))
        {
            if (Log.HasGap(from.Offset, next.Offset)) { break; }
            cut.Next(next, EndWindow);
        }
        // Only of the first one.
        if (cut.Through == VersionNumber.Zero)
        {
            return Tiles()[0].Base == from ? null : throw new SimException($"R3: shard {Index} can never reduce what follows {from.Offset}");
        }
        EndWindow();
        return new(to.Id, new(windows[0].End.Version, cut.Through, Log.HasGap(from.Offset, to.Offset)), windows);
    }

    private void TakeNote(PastCheckpoint from, PastReduced file)
    {
        List<PastCheckpoint> all = Reachable();
        int at = all.FindIndex(c => c.Id == from.Id);
        if (at >= 0 && at + 1 < all.Count && all[at + 1].Id == file.Next)
        {
            _noted[from.Id] = file;
            _world.Count("reduced");
        }
        else
        {
            _noted.Remove(from.Id);
            _files.Remove(from.Id);
            _world.Count("reduced in vain");
        }
        CheckKept();
    }

    // ---- What is known of it ----

    private List<PastCheckpoint> Reachable() => PrunePlan.Reachable(Enumerable.Reverse(_checkpoints).Where(IsInHistory), Log.Start,
        c => c.Offset, (c, next) => ReducedUpTo(c, next) is not null);

    private PastReduced? ReducedUpTo(PastCheckpoint c, PastCheckpoint next) =>
        _noted.TryGetValue(c.Id, out PastReduced? reduced) && reduced.Next == next.Id ? reduced : null;

    private IReadOnlyList<Tile> Tiles()
    {
        List<PastCheckpoint> all = Reachable();
        return [.. all.Select((c, i) => new Tile(c, i + 1 < all.Count ? ReducedUpTo(c, all[i + 1]) : null))];
    }

    private bool IsInHistory(PastCheckpoint c) => _world.Settings.Sim == PastSimMutation.OtherLineUsed
        || LogBranch.Keep(Log.Branches, new(Reign.None, c.Line), c.Offset);

    private bool IsUsable(PastCheckpoint c) => IsInHistory(c) && c.Offset >= Log.Start;

    private PastCheckpoint? Latest(long offset) =>
        _checkpoints.FindLast(c => c.Offset <= offset && IsUsable(c) && !Log.HasGap(c.Offset, offset));

    private long? CutOffset => Log.AtOrBelow(KnownCut.Version)?.Offset;

    private VersionNumber? Promised => ClosedBefore(_world.RetentionUs);

    private VersionNumber? PromisedDetail => ClosedBefore(_world.DetailUs);

    private VersionNumber? ClosedBefore(long agoUs) =>
        agoUs == 0 ? null : PastInstant.ClosedAt(_world.Grid, Now().Microseconds - agoUs, _world.Settings.Past);

    private long HeldFrom()
    {
        // Who reads without an end does not fill the disk.
        if (IsHoldBroken) { _held.Clear(); }
        return PrunePlan.HeldFrom(_holds.Lowest(_world.NowMs), Log.End - Log.Start, _world.BudgetBytes);
    }

    private long OffsetOf(VersionNumber version) =>
        Log.AtOrBelow(version)?.Offset ?? Tiles().LastOrDefault(t => t.Reduced?.Versions.First <= version).Base?.Offset ?? 0;

    // ---- Crashes ----

    private void LoseFiles()
    {
        foreach ((int id, PastReduced file) in _files.ToArray())
        {
            if (!file.IsDurable) { _files.Remove(id); }
        }
    }

    private void ForgetPast()
    {
        _noted.Clear();
        _toReduce.Clear();
        _reducing = null;
        _holds = new(_world.HoldMs, _world.Settings.Past);
        _held.Clear();
        _leases.Clear();
    }

    private void OpenPast()
    {
        foreach ((int id, PastReduced file) in _files.ToArray())
        {
            if (_checkpoints.Exists(c => c.Id == id)) { _noted[id] = file; } else { _files.Remove(id); }
        }
    }
}
