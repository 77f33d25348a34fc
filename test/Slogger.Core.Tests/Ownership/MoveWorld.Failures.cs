// What goes wrong in the model, and how the processes perform what the machine hands out.
using Slogger.Core.Ownership;
using Slogger.Core.Tests.Model;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Ownership;

internal sealed partial class MoveWorld
{
    // In place of a key: a marker, and what only waits for its turn.
    private const int MarkerEntry = -1, NoEntry = -2;

    private void StartProcess(MoveShard shard)
    {
        shard.Epoch = new(shard.Epoch.Number + 1);
        MoveProcess process = new(shard.Id, shard.Epoch, shard.WorldLine, _settings.Mutation);
        shard.Process = process;
        _processes.Add(process);
        shard.Open = shard.Open.Next;
        Renew(shard);
        // Read after the epoch was taken.
        Do(process, e => process.Ownership.Read(_table, e));
    }

    private void Renew(MoveShard shard)
    {
        if (shard.Process is not { } process) return;
        process.LeaseUntilUs = shard.PreviousLeaseUntilUs = _nowUs + LeaseUs;
    }

    // The store goes on; what was on its way to it arrives in part. The process is dead, or sleeps and does not know.
    private void EndProcess(MoveShard shard)
    {
        if (shard.Process is not { } process) return;
        Count("process ended");
        MakeUncertain(shard.Id, shard.Open);
        process.IsCurrent = false;
        shard.Process = null;
        HangUp(process);
        if (_random.Next(2) == 0) _processes.Remove(process);
        int arrives = _random.Next(shard.Forwarded.Count + 1);
        Queue<MoveEntry> rest = new(shard.Forwarded.Take(arrives).Select(e => e.IsClients ? e : e with { Then = null }));
        foreach (MoveEntry entry in shard.Forwarded.Skip(arrives).Concat(rest))
            if (!entry.IsClients && entry.Slot == MarkerEntry) MakeUncertain(shard.Id, entry.Stamp);
        shard.Forwarded.Clear();
        foreach (MoveEntry entry in rest) shard.Forwarded.Enqueue(entry);
        while (shard.Forwarded.Count > 0) Execute(shard);
    }

    // Some shard lost its store: a new world-line, which the shards enter one by one.
    private void Recover()
    {
        if (_shards.Any(s => s.WorldLine != _table.WorldLine)) return;
        Count("recovery");
        VersionNumber most = _shards.Select(s => s.Durable).Aggregate(VersionNumber.Min);
        _branch = new(_random.NextInt64(_cut.Number, VersionNumber.Max(most, _cut).Number + 1));
        _cut = _branch;
        OwnershipTable before = _table;
        _table = _table.Recover(_table.WorldLine.Next, _branch);
        if (before.Map.Rows.SequenceEqual(_table.Map.Rows)) Count("recovery keeps the map");
        else Count("recovery gives slots back");
        if (_settings.Fault == MoveCallerFault.LandingOutlivesRecovery)
            _table = _table with { Map = before.Map, Moves = [.. _table.Moves.Select(m => before.Moves.First(b => b.Id == m.Id))] };
        foreach (int key in Keys) CheckRecovered(key, _shards[_table.Map.Owner(new(key)).Number].StateAt(_branch).GetValueOrDefault(key));
    }

    private void CheckRecovered(int key, int found)
    {
        List<Write> history = _history[key];
        int at = FindLast(key, found, _branch, "is recovered to");
        history.RemoveRange(at + 1, history.Count - at - 1);
    }

    // The last write of a state that is found at the end of a version: no later one, and none that has to be there is missing.
    private int FindLast(int key, int found, VersionNumber version, string what)
    {
        List<Write> history = _history[key];
        int at = found == 0 ? history.FindLastIndex(w => w.Value == 0 && w.Stamp <= version) : history.FindIndex(w => w.Value == found);
        if (found != 0 && at < 0) throw new ModelException($"I1: slot {key} {what} {version} as {found}, which nobody wrote");
        if (found != 0 && history[at].Stamp > version)
            throw new ModelException($"I1: slot {key} {what} {version} with a write of version {history[at].Stamp}");
        for (int i = at + 1; i < history.Count; i++)
        {
            Write write = history[i];
            if (write.Stamp <= version && !write.IsUncertain && !_uncertainValues.Contains(write.Value))
                throw new ModelException(
                    $"I2: slot {key} {what} {version} as {found}, without the write {write.Value} of version {write.Stamp}");
        }

        return at;
    }

    private void EnterWorldLine(MoveShard shard)
    {
        shard.Restore(_table.WorldLine, _branch);
        shard.Open = shard.Open.Next;
        if (shard.Process is not { } process) return;
        HangUp(process);
        process.WorldLine = _table.WorldLine;
        Do(process, e => process.Ownership.EnterWorldLine(_table.WorldLine, e));
    }

    private void Do(MoveProcess process, Action<List<MoveEffect>> input)
    {
        _effects.Clear();
        input(_effects);
        foreach (MoveEffect effect in _effects.ToArray())
        {
            Count(effect.Kind.ToString());
            switch (effect.Kind)
            {
                case MoveEffectKind.Write: _writes.Add((process, effect.Change)); break;
                case MoveEffectKind.Import: Import(process, effect.Move); break;
                case MoveEffectKind.Withhold:
                    Withhold(process, effect.Move, effect.Attempt);
                    _failsSoon |= _random.Next(40) == 0;
                    break;
                case MoveEffectKind.Discard: Discard(process, effect.Move); break;
            }
        }
    }

    // Deletes, copies what is there, has the slots withheld, and copies again what has changed since. The way to the old owner
    // may break at any time; then all begins again, unless the copy was reported as complete: it counts for the row that it was
    // made for, until that is another.
    private void Import(MoveProcess process, SlotMove move)
    {
        MoveShard shard = _shards[process.Shard.Number], from = _shards[move.From.Number];
        int key = move.Slots[0].First.Number, before = 0, changes = 0, copied = 0;
        WorldLine line = shard.WorldLine;
        MoveProcess? source = null;
        MapRevision complete = default;
        bool breaksNow = false;

        // Landed, it has come to its end, too.
        bool IsOver() => shard.Process != process || shard.WorldLine != line || process.Stopped.Contains(move.Id)
            || Row() is not { State: MoveState.Planned or MoveState.Leaving };
        SlotMove? Row() => _table.Moves.FirstOrDefault(m => m.Id == move.Id);
        void Later(Action then, int slot = NoEntry, int value = 0) => shard.Forwarded.Enqueue(new(slot, value, false, shard.Open, then));

        void Begin()
        {
            if (IsOver()) return;
            before = _random.Next(_random.Next(4) == 0 ? 100 : 4);
            changes = _random.Next(_random.Next(4) == 0 ? 200 : 2);
            bool delete = _settings.Fault != MoveCallerFault.ImportOverOldData;
            Later(() => { if (!IsOver()) Later(Copy, copied == 0 ? NoEntry : key, copied); }, delete ? key : NoEntry);
            copied = from.State.GetValueOrDefault(key);
        }

        void Copy()
        {
            if (IsOver()) return;
            source = from.Process is { } current && current.WorldLine == line ? current : null;
            bool ready = false;
            if (source is not null && before-- <= 0) Do(source, e => ready = source.Ownership.Ready(move.Id, line, e));
            if (ready) _ways.Add((process, source!, move.Id, line));
            Later(ready ? Await : before > 0 ? Copy : Begin);
        }

        void Await()
        {
            if (IsOver()) return;
            MoveProcess other = source!;
            // The old owner hangs up when it has lost patience.
            bool gaveUp = other.Ownership.Served.Ask(new(key)).Verdict != SlotVerdict.Wait && Row() is { State: MoveState.Planned };
            bool broken = !other.IsCurrent || other.WorldLine != line || gaveUp || breaksNow || (!_calm && _random.Next(_breaks) == 0);
            breaksNow = false;
            if (broken)
            {
                Count("way broken");
                HangUp(process, move.Id);
                bool waits = complete != default && _settings.Fault != MoveCallerFault.CopiesAgainUnasked;
                Later(waits ? AwaitRow : Begin);
                return;
            }

            if (Row() is not { State: MoveState.Leaving } row || complete != default)
            {
                Later(complete != default && Row() is { State: MoveState.Planned } ? AwaitRow : Await);
                return;
            }

            if (changes-- > 0)
            {
                Later(Await);
                return;
            }

            int value = from.State.GetValueOrDefault(key);
            MapRevision of = complete = row.Changed;
            breaksNow = !_calm && _random.Next(3) == 0;
            Later(
                () =>
                {
                    if (IsOver()) return;
                    WorldPoint open = new(line, shard.Open);
                    Report(process, e => process.Ownership.Copied(move.Id, of, open, e));
                    Later(Await);
                },
                value == copied ? NoEntry : key, value);
        }

        void AwaitRow()
        {
            if (IsOver()) return;
            bool changed = Row()!.Changed != complete;
            if (changed) complete = default;
            Later(changed ? Begin : AwaitRow);
        }

        Begin();
    }

    private readonly Dictionary<MoveProcess, Action<List<MoveEffect>>> _toldBefore = [];
    private readonly List<(MoveProcess To, Action<List<MoveEffect>> Input)> _again = [];

    private void TellAgain()
    {
        foreach ((MoveProcess to, Action<List<MoveEffect>> input) in _again.ToArray())
            if (to.IsCurrent) Do(to, input);
        _again.Clear();
    }

    // The old owners hear at once that a process from which they were asked has ended, or has given up.
    private void HangUp(MoveProcess asker, MoveId? move = null)
    {
        foreach (var way in _ways.Where(w => w.Asker == asker && (move is null || w.Move == move)).ToArray())
        {
            _ways.Remove(way);
            if (way.Asked.IsCurrent) Do(way.Asked, e => way.Asked.Ownership.NotReady(way.Move, way.Line, e));
        }
    }

    private readonly List<(MoveProcess Asker, MoveProcess Asked, MoveId Move, WorldLine Line)> _ways = [];

    // What was forwarded before has been executed when this comes back; or the caller has lost patience.
    private void Withhold(MoveProcess process, SlotMove move, long attempt)
    {
        MoveShard shard = _shards[process.Shard.Number];
        WorldLine line = shard.WorldLine;
        bool impatient = _random.Next(6) == 0;
        // What was told of an attempt before may be told again, at the worst moment.
        if (_toldBefore.TryGetValue(process, out Action<List<MoveEffect>>? again) && _random.Next(2) == 0) _again.Add((process, again));
        shard.Forwarded.Enqueue(new(NoEntry, 0, false, shard.Open, () =>
        {
            WorldPoint open = new(line, shard.Open);
            _toldBefore[process] = e => process.Ownership.Withheld(move.Id, attempt, open, e);
            Report(process, e =>
            {
                if (impatient) process.Ownership.NotReady(move.Id, line, e);
                else process.Ownership.Withheld(move.Id, attempt, open, e);
            });
        }));
    }

    private void Discard(MoveProcess process, SlotMove move)
    {
        MoveShard shard = _shards[process.Shard.Number];
        WorldLine line = shard.WorldLine;
        process.Stopped.Add(move.Id);
        shard.Forwarded.Enqueue(new(move.Slots[0].First.Number, 0, false, shard.Open, () =>
        {
            WorldPoint open = new(line, shard.Open);
            Report(process, _ => process.Ownership.Discarded(move.Id, open));
        }));
    }

    // What happened at the store or in the log is told sooner or later, also after a recovery.
    private void Report(MoveProcess process, Action<List<MoveEffect>> input)
    {
        if (_random.Next(_late) == 0) _reports.Add((process, input));
        else if (process.IsCurrent) Do(process, input);
    }

    private void DeliverReport()
    {
        if (_reports.Count == 0) return;
        int i = _random.Next(_reports.Count);
        (MoveProcess to, Action<List<MoveEffect>> input) = _reports[i];
        _reports.RemoveAt(i);
        if (to.IsCurrent) Do(to, input);
    }
}
