// A reset of the whole cluster to an instant, step by step, as ResetCommand manages it and ShardReset performs it, with the real ResetHold.
// Its manager, and any shard, may end at each step. Checked: R5.
using Slogger.Core.Resets;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Past;

internal sealed class PastReset
{
    private enum Phase { Prepares, Holds, Writes, Closes, Awaits, Over }

    private sealed class Part(PastShard shard)
    {
        public PastShard Shard => shard;

        public int Life { get; } = shard.Life;

        public Boundary End { get; set; }

        public Boundary UpTo { get; set; }

        public bool IsReady { get; set; }

        public bool HasHeld { get; set; }

        public Dictionary<int, (int Value, long ExpiresMs)> Plan { get; } = [];

        public PastOp[]? Writes { get; set; }       // from the freeze on

        public int Written { get; set; }

        public VersionNumber Before { get; set; }

        public Dictionary<int, (int Value, long ExpiresMs)> Target { get; set; } = [];

        public bool IsGone => !shard.IsUp || shard.Life != Life;
    }

    private readonly PastWorld _world;
    private readonly int _number;
    private readonly VersionNumber _to;
    private readonly WorldLine _line;
    private readonly Part[] _parts;
    private Phase _phase;
    private bool _isForgotten;

    public PastReset(PastWorld world, int number, VersionNumber to)
    {
        (_world, _number, _to, _line) = (world, number, to, world.Line);
        _parts = [.. world.Shards.Select(s => new Part(s))];
    }

    /// <summary>Nothing is done for it any more.</summary>
    public bool IsOver => _phase == Phase.Over && (!_isForgotten || !_parts.Any(Holds));

    private bool Holds(Part part) => !part.IsGone && part.Shard.Hold.IsHeld && part.Shard.Line == _line && _world.Line == _line;

    public void Step()
    {
        if (_phase == Phase.Over)
        {
            // Nobody asks for the next step any more: each shard ends it.
            foreach (Part part in _parts.Where(Holds))
            {
                if (_world.Dice(6)) { End(part, isForgotten: true); }
            }
            return;
        }
        if (_world.Dice(80))
        {
            _world.Count("managers of a reset killed");
            (_phase, _isForgotten) = (Phase.Over, true);
            return;
        }
        if (_world.IsTrouble && _world.Dice(60)) { _parts[_world.Random.Next(_parts.Length)].Shard.LoseLeader(); }
        // Another recovery has come, or a process has ended that took part.
        if (_world.Line != _line || _parts.Any(p => p.IsGone))
        {
            CallOff();
            return;
        }
        Part next = _parts[_world.Random.Next(_parts.Length)];
        // One that was not asked for too long takes the manager for dead.
        if (Holds(next) && _world.Dice(300))
        {
            _world.Count("managers of a reset forgotten");
            End(next, isForgotten: true);
            return;
        }
        if (!(next.Shard.IsServing ? Go(next) : _phase == Phase.Prepares)) { CallOff(); }
    }

    private bool Go(Part part)
    {
        // It has ended its part by itself.
        if (part.HasHeld && !part.Shard.Hold.IsHeld) { return false; }
        switch (_phase)
        {
            case Phase.Prepares:
                if (!part.IsReady && !Prepare(part)) { return false; }
                if (Array.TrueForAll(_parts, p => p.IsReady)) { _phase = Phase.Holds; }
                return true;
            case Phase.Holds:
                part.HasHeld = true;
                part.Shard.Hold.Hold();
                if (part.Shard.IsQuiet) { part.Shard.Hold.Quiet(new(part.Shard.Line, part.Shard.Open)); }
                bool isEarly = _world.Settings.Reset == ResetMutation.WritesBeforeCommitted;
                bool MayWrite(PastShard s) => s.Hold.IsHeld && (isEarly ? s.IsQuiet : s.Hold.IsCovered(s.KnownCut));
                if (Array.TrueForAll(_parts, p => MayWrite(p.Shard))) { _phase = Phase.Writes; }
                return true;
            case Phase.Writes:
                if (!Write(part)) { return false; }
                if (Array.TrueForAll(_parts, p => p.Shard.Hold.Phase == ResetPhase.Written)) { _phase = Phase.Closes; }
                return true;
            case Phase.Closes:
                if (part.Shard.Hold.Phase == ResetPhase.Written
                    && !part.Shard.Hold.TryClose(new(_parts.Max(p => p.Before.Number)))) { return false; }
                if (Array.TrueForAll(_parts, p => p.Shard.Hold.Result is not null)) { _phase = Phase.Awaits; }
                return true;
            default:
                if (_parts.Max(p => p.Shard.KnownCut) >= new WorldPoint(_line, new(_parts.Max(p => p.Shard.Hold.Result!.Value.Number))))
                {
                    Finish(part);
                }
                return true;
        }
    }

    private bool Prepare(Part part)
    {
        PastReply reply = part.Shard.Ask(_to, isNow: false);
        if (reply.Place is not { Reduced: null } place || place.End != _to) { return reply.IsEarly; }
        part.End = part.UpTo = part.Shard.Log.Exactly(_to)!.Value;
        part.Target = Target(part.Shard);
        if (!Add(part)) { return false; }
        part.IsReady = true;
        return true;
    }

    // Adds what has been done up to the newest version that is committed: all, once operations are held.
    private bool Add(Part part)
    {
        if (part.Shard.HoldPast(_to) is not { Reduced: null } place || place.End != _to) { return false; }
        if (part.Shard.Log.AtOrBelow(part.Shard.KnownCut.Version) is not { } last) { return false; }
        if (part.Shard.Touched(part.UpTo, last) is not { } touched) { return false; }
        Dictionary<int, (int Value, long ExpiresMs)> was = part.Shard.Dump(place);
        foreach (int key in touched) { part.Plan.TryAdd(key, was.GetValueOrDefault(key)); }
        part.UpTo = last;
        return true;
    }

    private bool Write(Part part)
    {
        ResetHold hold = part.Shard.Hold;
        if (hold.Phase == ResetPhase.Holds)
        {
            if (_world.IsMoving || !Add(part) || !hold.TryFreeze(part.Shard.KnownCut)) { return false; }
            part.Before = part.Shard.Open.Previous;
            _world.MarkReset(part.Shard.Index, _line);
            part.Writes = [.. part.Plan.Select(p => new PastOp(p.Key, p.Value.Value, p.Value.ExpiresMs, _number))];
            return true;
        }
        for (int n = _world.Random.Next(1, 4); n > 0 && hold.Phase == ResetPhase.Writes; n--)
        {
            if (!hold.MayWrite(part.Shard.IsMarkerOnItsWay)) { return true; }
            if (part.Written < part.Writes!.Length) { part.Shard.WriteReset(part.Writes[part.Written++]); }
            if (part.Written == part.Writes.Length) { return hold.Written(); }
        }
        return true;
    }

    private void Finish(Part by)
    {
        VersionNumber result = new(_parts.Max(p => p.Shard.Hold.Result!.Value.Number));
        End(by, isForgotten: false);
        _phase = Phase.Over;
        if (_world.Line == _line) { return; }
        if (_world.Branch < result) { throw new SimException($"R5: a world-line begins at {_world.Branch}, below the reset in {result}"); }
        long timeMs = _world.TimeMsOf(_world.Branch);
        foreach (Part part in _parts)
        {
            Dictionary<int, int> state = part.Shard.Oracle.StateAt(_world.Branch, timeMs);
            // A store may be early to delete what has expired.
            bool IsGone(int key, long expiresMs) => expiresMs > 0 && (expiresMs <= timeMs
                || (!state.ContainsKey(key) && part.Shard.Oracle.Done.Any(d => d.Op.Key == key && d.IsExpiry && d.Label > _to)));
            Dictionary<int, int> target = part.Target.Where(k => !IsGone(k.Key, k.Value.ExpiresMs))
                .ToDictionary(k => k.Key, k => k.Value.Value);
            if (!_world.IsSame(state, target))
            {
                throw new SimException($"R5: shard {part.Shard.Index} has {PastWorld.Text(state)} behind a reset to version {_to}, where "
                    + $"{PastWorld.Text(target)} was");
            }
        }
        _world.Count("resets");
    }

    private void CallOff()
    {
        _world.Count("resets called off");
        _phase = Phase.Over;
        // Where something may have been written first: that ends it for all.
        foreach (Part part in _parts.Where(Holds).OrderByDescending(p => p.Writes is not null))
        {
            // One that is not reached ends it by itself.
            if (Holds(part) && !_world.Dice(5)) { End(part, isForgotten: false); }
        }
        _isForgotten = true;
    }

    private void End(Part part, bool isForgotten)
    {
        if (part.Shard.Hold.EndsWithWorldLine(isForgotten && _parts.Length > 1)) { part.Shard.EndByWorldLine(); }
        else { part.Shard.Hold.End(); }
    }

    // As it was then, with expiries.
    private Dictionary<int, (int Value, long ExpiresMs)> Target(PastShard shard)
    {
        long timeMs = _world.TimeMsOf(_to);
        var target = new Dictionary<int, (int Value, long ExpiresMs)>();
        foreach (PastDone done in shard.Oracle.Done.TakeWhile(d => d.Label <= _to).Where(d => d.Op.Key >= 0))
        {
            if (done.Op.Value == 0 || (done.Op.ExpiresMs > 0 && done.Op.ExpiresMs <= timeMs)) { target.Remove(done.Op.Key); }
            else { target[done.Op.Key] = (done.Op.Value, done.Op.ExpiresMs); }
        }
        return target;
    }

    /// <summary>A cut has all of it, or nothing (R5).</summary>
    public void Check(WorldPoint cut)
    {
        if (cut.WorldLine != _line) { return; }
        int[] has = [.. _parts.Select(p => p.Shard.Oracle.OfReset(_number, cut.Version))];
        if (has.All(n => n == 0)) { return; }
        for (int i = 0; i < has.Length; i++)
        {
            if (_parts[i].Writes is { } writes && writes.Length == has[i]) { continue; }
            throw new SimException($"R5: the cut {cut} has a part of a reset: of shard {i} {has[i]} of "
                + $"{_parts[i].Writes?.Length.ToString(System.Globalization.CultureInfo.InvariantCulture) ?? "?"} writes");
        }
    }
}
