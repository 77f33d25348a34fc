// What goes wrong in the model, and how the processes perform what the machine hands out.
using Slogger.Core.Ownership;
using Slogger.Core.Shards;
using Slogger.Core.Tests.Model;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Core.Tests.Ownership;

internal sealed partial class MoveWorld
{
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
        process.Ownership.LeaseRenewed(process.LeaseUntilUs);
    }

    // The store goes on; what was on its way to it arrives in part. The process is dead, or sleeps and does not know.
    private void EndProcess(MoveShard shard)
    {
        if (shard.Process is not { } process) return;
        Count("process ended");
        MakeUncertain(shard.Id, shard.Open);
        process.IsCurrent = false;
        shard.Process = null;
        if (_random.Next(2) == 0) _processes.Remove(process);
        int arrives = _random.Next(shard.Forwarded.Count + 1);
        Queue<MoveEntry> rest = new(shard.Forwarded.Take(arrives).Select(e => e.IsClients ? e : e with { Then = null }));
        foreach (MoveEntry entry in shard.Forwarded.Skip(arrives).Concat(rest))
            if (!entry.IsClients && entry.Slot < 0) MakeUncertain(shard.Id, entry.Stamp);
        shard.Forwarded.Clear();
        foreach (MoveEntry entry in rest) shard.Forwarded.Enqueue(entry);
        while (shard.Forwarded.Count > 0) Execute(shard);
    }

    // Some shard lost its store: a new world-line, which the shards enter one by one.
    private void Recover()
    {
        if (_shards.Any(s => s.WorldLine != _table.WorldLine)) return;
        Count("recovery");
        Version most = _shards.Select(s => s.Durable).Aggregate(Version.Min);
        _branch = new(_random.NextInt64(_cut.Number, Version.Max(most, _cut).Number + 1));
        _cut = _branch;
        OwnershipTable before = _table;
        _table = _table.Recover(_table.WorldLine.Next, _branch);
        if (before.Map.Rows.SequenceEqual(_table.Map.Rows)) Count("recovery keeps the map");
        else Count("recovery gives slots back");
        if (_settings.Fault == MoveCallerFault.LandingOutlivesRecovery) _table = _table with { Map = before.Map, Moves = [.. _table.Moves.Select(m => before.Moves.First(b => b.Id == m.Id))] };
        foreach (int key in Keys) CheckRecovered(key, _shards[_table.Map.Owner(new(key)).Number].StateAt(_branch).GetValueOrDefault(key));
    }

    private void CheckRecovered(int key, int found)
    {
        List<Write> history = _history[key];
        int at = found == 0 ? history.FindLastIndex(w => w.Value == 0 && w.Stamp <= _branch) : history.FindIndex(w => w.Value == found);
        if (found != 0 && at < 0) throw new ModelException($"I1: slot {key} is {found} after the recovery, which nobody wrote");
        if (found != 0 && history[at].Stamp > _branch) throw new ModelException($"I1: slot {key} has a write of version {history[at].Stamp} after a recovery to {_branch}");
        for (int i = at + 1; i < history.Count; i++)
        {
            Write write = history[i];
            if (write.Stamp <= _branch && !write.IsUncertain && !_uncertainValues.Contains(write.Value))
                throw new ModelException($"I2: slot {key}: the write {write.Value} of version {write.Stamp} is lost by a recovery to {_branch}, found {found}");
        }

        history.RemoveRange(at + 1, history.Count - at - 1);
    }

    private void EnterWorldLine(MoveShard shard)
    {
        shard.Restore(_table.WorldLine, _branch);
        shard.Open = shard.Open.Next;
        if (shard.Process is not { } process) return;
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
                case MoveEffectKind.Discard: Discard(process, effect.Move); break;
            }
        }
    }

    // A key is read when the deletion before has been executed, as a copy that takes time would.
    private void Import(MoveProcess process, SlotMove move)
    {
        MoveShard shard = _shards[process.Shard.Number], from = _shards[move.From.Number];
        int key = move.Slots[0].First.Number, before = _random.Next(_random.Next(4) == 0 ? 400 : 6);
        WorldLine line = shard.WorldLine;
        void Copy()
        {
            if (shard.Process != process || shard.WorldLine != line || process.Stopped.Contains(move.Id)) return;
            if (before-- > 0)
            {
                shard.Forwarded.Enqueue(new(-1, 0, false, shard.Open, Copy));
                return;
            }

            int value = from.State.GetValueOrDefault(key);
            shard.Forwarded.Enqueue(new(value == 0 ? -1 : key, value, false, shard.Open, () =>
            {
                WorldPoint open = new(line, shard.Open);
                Report(process, e => process.Ownership.Copied(move.Id, open, e));
            }));
        }

        bool delete = _settings.Fault != MoveCallerFault.ImportOverOldData;
        shard.Forwarded.Enqueue(new(delete ? key : -1, 0, false, shard.Open, Copy));
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
        if (_random.Next(3) == 0) _reports.Add((process, input));
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
