// Shards, clients, moves of slots and all that can go wrong, by seed: the real ShardOwnership and OwnershipTable between
// models of stores, of the metadata and of a cut. Checked: in one world-line at most one process serves a slot; every
// operation finds its key as the last operation on it has left it (nothing acknowledged is lost by a move, order is kept);
// a recovery finds at the owner all that was committed and nothing above the cut; in the end every move is done and no shard
// has keys of others.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Tests.Model;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Ownership;

/// <summary>Faults of the callers, which the properties have to notice as well.</summary>
internal enum MoveCallerFault
{
    None, EpochUnchecked, LandingOutlivesRecovery, ImportOverOldData, CopiesAgainUnasked, PastByPresentMap,

    /// <summary>Of the whole past all is shown that a shard had in its store.</summary>
    AllOfAStoreIsShown,

    /// <summary>The whole past is shown while the last changes of a move are copied.</summary>
    WholeIsShownWhileLeaving,

    /// <summary>Who did a command is told by the version that it is in.</summary>
    DoneByTheVersionItIsIn,
}

internal sealed record MoveWorldSettings(int Seed, MoveMutation Mutation = MoveMutation.None, MoveCallerFault Fault = MoveCallerFault.None,
    int Steps = 4000);

internal sealed partial class MoveWorld
{
    private const int ShardCount = 3;
    private const long IntervalUs = 100, LeaseUs = 1200;
    private static readonly int[] Keys = [0, 5460, 5461, 9000, 10922, 16383];

    private readonly MoveWorldSettings _settings;
    private readonly Random _random;
    private readonly MoveShard[] _shards = [.. Enumerable.Range(0, ShardCount).Select(i => new MoveShard(new(i)))];
    private readonly List<MoveProcess> _processes = [];
    private readonly List<(MoveProcess By, MoveChange Change)> _writes = [];
    private readonly List<(MoveProcess To, OwnershipTable Table)> _reads = [];
    private readonly Dictionary<int, List<Write>> _history = Keys.ToDictionary(k => k, _ => new List<Write>());
    private readonly List<(MoveProcess To, Action<List<MoveEffect>> Input)> _reports = [];
    private readonly List<MoveEffect> _effects = [];
    private OwnershipTable _table = new(MapRevision.First, WorldLine.First, SlotMap.Even(ShardCount), []);
    private VersionNumber _cut;
    private VersionNumber _branch;
    private long _nowUs = 20_000;
    private int _value;
    private bool _calm;
    private bool _failsSoon;
    private readonly int _slow;    // one in so many turns an answer gets through
    private readonly int _rare;    // one in so many failures that the dice show does happen
    private readonly int _breaks;  // one in so many turns the way between two owners breaks
    private readonly int _late;    // one in so many reports comes late
    private readonly int _lag;     // one in so many turns something becomes durable, or the cut is recorded
    private readonly int _skew;    // versions between the clocks of two neighbours

    private sealed class Write
    {
        public required int Value;
        public required VersionNumber Stamp;
        public bool IsUncertain;
    }

    public MoveWorld(MoveWorldSettings settings)
    {
        _settings = settings;
        _random = new(settings.Seed);
        _slow = 1 << _random.Next(5);
        _rare = 16 << _random.Next(4);
        _late = 2 + _random.Next(3);
        _lag = 1 << _random.Next(4);
        _breaks = 8 << _random.Next(5);
        _skew = 4 * _random.Next(5);
        foreach (MoveShard shard in _shards) StartProcess(shard);
    }

    public Dictionary<string, int> Happened { get; } = [];

    public void Run()
    {
        for (int i = 0; i < _settings.Steps; i++) Step();
        if (_settings.Mutation is MoveMutation.None or MoveMutation.FinishesBeforeCut or MoveMutation.FinishesBeforeBoundary
            or MoveMutation.DiscardsBeforeCut) Settle();
    }

    private void Step()
    {
        _nowUs += _random.Next(20);
        MoveShard shard = _shards[_random.Next(ShardCount)];
        if (shard.WorldLine != _table.WorldLine && _random.Next(20) == 0) EnterWorldLine(shard);
        TellAgain();
        if (_failsSoon && !_calm)
        {
            // Between two steps of a move, where it matters.
            _failsSoon = false;
            Recover();
        }

        switch (_random.Next(_calm ? 16 : 20))
        {
            case 0 or 1 or 2: Operate(); break;
            case 3 or 4 or 5:
                for (int n = _random.Next(8); n > 0; n--) Execute(shard);
                break;
            case 6 or 7: CloseVersion(shard); break;
            case 8 when _calm || _random.Next(_lag) == 0: shard.Durable = shard.Closed; break;
            case 9 when _calm || _random.Next(_lag) == 0: RecordCut(); break;
            case 10: Renew(shard); break;
            case 11 or 12 when _calm || _random.Next(_slow) == 0: DeliverWrite(); break;
            case 13:
                DeliverRead();
                if (_calm || _random.Next(_slow) == 0) DeliverReport();
                break;
            case 14: if (shard.Process is { } p) Do(p, e => p.Ownership.Unanswered(e)); break;
            case 15: if (shard.Process is { } q) Do(q, e => q.Ownership.CutRecorded(new(_table.WorldLine, _cut), e)); break;
            case 16 when _random.Next(2) == 0: Plan(); break;
            case 17 when _random.Next(60) == 0: Cancel(); break;
            case 18 when _random.Next(_rare) == 0: EndProcess(shard); break;
            case 19 when _random.Next(_rare) == 0: Recover(); break;
        }

        if (_random.Next(20) == 0) CheckPast();
        if (_random.Next(10) == 0) ReadWhole();
        if (_random.Next(200) == 0) CheckDone();
        if (shard.Process is null && _nowUs >= shard.PreviousLeaseUntilUs) StartProcess(shard);
    }

    /// <summary>Failures are over: everything comes to rest, and to where it belongs.</summary>
    private void Settle()
    {
        _calm = true;
        for (int i = 0; i < 200_000
            && (_table.Moves.Length > 0 || _shards.Any(s => s.WorldLine != _table.WorldLine || s.Process is null)); i++) Step();
        if (_table.Moves.Length > 0) throw new ModelException($"I8: {_table.Moves[0]} is not finished");
        foreach (MoveShard shard in _shards)
            while (shard.Forwarded.Count > 0) Execute(shard);
        foreach (MoveShard shard in _shards)
        {
            foreach (int slot in shard.State.Keys)
                if (_table.Map.Owner(new(slot)) != shard.Id) throw new ModelException($"shard {shard.Id} has kept slot {slot}");
        }

        foreach (int key in Keys) Check(_shards[_table.Map.Owner(new(key)).Number], key);
        CheckSettled();
    }

    // What was there since can be read by the present map.
    private void CheckSettled()
    {
        foreach (MoveShard shard in _shards)
        {
            long settled = _table.Settled.Number, more = Math.Max(0, shard.Boundaries[^1].Version.Number - settled);
            foreach (VersionNumber version in Enumerable.Range(0, 4).Select(i => new VersionNumber(settled + (more * i / 4))))
            {
                foreach (int slot in shard.StateAt(version).Keys.Where(s => _table.Map.Owner(new(s)) != shard.Id))
                {
                    throw new ModelException($"the ownership is settled since version {_table.Settled}, and in version {version} shard "
                        + $"{shard.Id} had slot {slot}");
                }
            }
        }
    }

    // What was there at any version is where the table says, also while slots move.
    private void CheckPast()
    {
        if (_shards.Any(s => s.WorldLine != _table.WorldLine)) return;
        int key = Keys[_random.Next(Keys.Length)];
        VersionNumber version = new(_random.NextInt64(_cut.Number + 1));
        SlotMap map = _settings.Fault == MoveCallerFault.PastByPresentMap ? _table.Map : _table.MapAt(version);
        ShardId owner = map.Owner(new(key));
        if (owner != _table.Map.Owner(new(key))) Count("read at a former owner");
        FindLast(key, _shards[owner.Number].StateAt(version).GetValueOrDefault(key), version, "is read as of");
    }

    // What all shards had at the end of a version, read at one after the other: no key is at two of them, and none is missing.
    private (VersionNumber Version, Dictionary<int, int> Found, int Next)? _whole;

    private void ReadWhole()
    {
        if (_shards.Any(s => s.WorldLine != _table.WorldLine)) return;
        _whole ??= (new(_random.NextInt64(Math.Max(0, _cut.Number - 10), _cut.Number + 1)), [], 0);
        (VersionNumber version, Dictionary<int, int> found, int next) = _whole.Value;
        if (!_table.IsCertainAt(version) && _settings.Fault != MoveCallerFault.WholeIsShownWhileLeaving) return;
        MoveShard shard = _shards[next];
        SlotMap map = _table.MapAt(version);
        foreach ((int key, int value) in shard.StateAt(version))
        {
            if (map.Owner(new(key)) != shard.Id && _settings.Fault != MoveCallerFault.AllOfAStoreIsShown)
            {
                Count("left out of the whole");
                continue;
            }

            if (!found.TryAdd(key, value)) throw new ModelException($"of the whole of version {version} key {key} is at two shards");
        }

        _whole = (version, found, next + 1);
        if (next + 1 < ShardCount) return;
        _whole = null;
        Count("read as a whole");
        foreach (int key in Keys) FindLast(key, found.GetValueOrDefault(key), version, "is, of the whole read as of");
    }

    // Of what a shard has executed, that of clients is what was done behind a version in which it had the slot. So it is told once.
    private void CheckDone()
    {
        if (_shards.Any(s => s.WorldLine != _table.WorldLine)) return;
        Dictionary<VersionNumber, SlotMap> maps = [];
        foreach (MoveShard shard in _shards)
        {
            // Of older ones it was checked before.
            foreach ((MoveEntry entry, VersionNumber behind, VersionNumber version) in shard.ExecutedUpTo(_cut)
                .SkipWhile(e => e.In.Number < _cut.Number - 60))
            {
                VersionNumber asked = _settings.Fault == MoveCallerFault.DoneByTheVersionItIsIn ? version : behind;
                if (!maps.TryGetValue(asked, out SlotMap? map)) maps[asked] = map = _table.MapAt(asked);
                bool isOwn = map.Owner(new(entry.Slot)) == shard.Id;
                if (!entry.IsClients) Count("not done by clients");
                if (entry.IsClients != isOwn)
                    throw new ModelException($"slot {entry.Slot} at shard {shard.Id}: behind version {behind} {entry} is "
                        + $"{(isOwn ? "told as a client's" : "not told")}");
            }
        }
    }

    // ---- Clients ----

    private void Operate()
    {
        int key = Keys[_random.Next(Keys.Length)];
        foreach (IGrouping<WorldLine, MoveProcess> line in _processes.Where(p => Serves(p, key)).GroupBy(p => p.WorldLine))
        {
            if (line.Count() > 1)
                throw new ModelException(
                    $"slot {key} is served by {string.Join(" and ", line.Select(p => $"shard {p.Shard} epoch {p.Epoch.Number}"))} in "
                        + $"world-line {line.Key}");
            MoveProcess process = line.Single();
            MoveShard shard = _shards[process.Shard.Number];
            // One that sleeps asks, and goes no further.
            if (shard.Process != process) continue;
            Count("operation");
            shard.Forwarded.Enqueue(new(key, _random.Next(4) == 0 ? 0 : ++_value, IsClients: true, shard.Open));
        }
    }

    private bool Serves(MoveProcess process, int key) => _nowUs < process.LeaseUntilUs && process.Ownership.Served.Serves(new(key));

    private void Execute(MoveShard shard)
    {
        if (!shard.Forwarded.TryDequeue(out MoveEntry? entry)) return;
        // In an abandoned world-line nothing counts any more.
        if (entry.IsClients && shard.WorldLine == _table.WorldLine)
        {
            Check(shard, entry.Slot);
            List<Write> history = _history[entry.Slot];
            if (history.Count > 0 && history[^1].Stamp > entry.Stamp)
                throw new ModelException($"slot {entry.Slot}: version {entry.Stamp} after {history[^1].Stamp}");
            history.Add(new() { Value = entry.Value, Stamp = entry.Stamp });
        }

        if (entry.Slot >= 0) shard.Execute(entry);
        entry.Then?.Invoke();
    }

    private void Check(MoveShard shard, int key)
    {
        int expected = _history[key].Count == 0 ? 0 : _history[key][^1].Value, found = shard.State.GetValueOrDefault(key);
        if (found != expected) throw new ModelException($"slot {key} at shard {shard.Id} is {found}, the last write was {expected}");
    }

    // ---- Versions ----

    private void CloseVersion(MoveShard shard)
    {
        if (shard.Process is not { } process) return;
        // The clocks of the shards are some versions apart.
        VersionNumber next = new((_nowUs / IntervalUs) - (_skew * shard.Id.Number)), closing = shard.Open;
        if (next <= shard.Open) return;
        shard.Open = next;
        if (_random.Next(5) == 0)
        {
            // The marker is refused: what was forwarded is part of whatever is closed next.
            Count("marker lost");
            MakeUncertain(shard.Id, closing);
            return;
        }

        WorldLine line = shard.WorldLine;
        shard.Forwarded.Enqueue(new(MarkerEntry, 0, false, closing, () =>
        {
            shard.CloseBoundary(closing, next.Previous);
            shard.Closed = next.Previous;
            Report(process, e => process.Ownership.BoundaryClosed(new(line, closing), e));
        }));
    }

    private readonly Dictionary<ShardId, VersionNumber> _uncertain = [];

    // What is stamped with a version that is never closed itself may be lost by a cut at that version. Whether an operation is
    // uncertain is looked at when a recovery comes.
    private void MakeUncertain(ShardId shard, VersionNumber stamp)
    {
        _uncertain[shard] = stamp;
        foreach (List<Write> history in _history.Values)
            foreach (Write write in history)
                if (write.Stamp == stamp) write.IsUncertain = true;
        foreach (MoveEntry entry in _shards[shard.Number].Forwarded)
            if (entry.IsClients && entry.Stamp == stamp) _uncertainValues.Add(entry.Value);
    }

    private readonly HashSet<int> _uncertainValues = [];

    private void RecordCut()
    {
        VersionNumber least = _shards.Select(s => s.WorldLine == _table.WorldLine ? s.Durable : _branch).Aggregate(VersionNumber.Min);
        _cut = VersionNumber.Max(_cut, least);
    }

    // ---- The metadata ----

    private void DeliverWrite()
    {
        if (_writes.Count == 0) return;
        int i = _random.Next(_writes.Count);
        (MoveProcess by, MoveChange change) = _writes[i];
        _writes.RemoveAt(i);
        if (_random.Next(6) == 0) return;
        OwnerEpoch newest = _settings.Fault == MoveCallerFault.EpochUnchecked ? change.Epoch : _shards[by.Shard.Number].Epoch;
        (ChangeOutcome outcome, _table) = _table.Apply(change, newest);
        Count($"{outcome} {change.Next}");
        _failsSoon |= outcome == ChangeOutcome.Applied && _random.Next(change.Next == MoveState.Landed ? 8 : 40) == 0;
        if (_random.Next(4) == 0) return;
        if (outcome == ChangeOutcome.Deposed) return;
        if (by.IsCurrent) Do(by, e => by.Ownership.Read(_table, e));
    }

    private void DeliverRead()
    {
        MoveShard shard = _shards[_random.Next(ShardCount)];
        if (shard.Process is { } process) _reads.Add((process, _table));
        if (_random.Next(2) == 0) return;
        int i = _random.Next(_reads.Count + 1) - 1;
        if (i < 0) return;
        (MoveProcess to, OwnershipTable table) = _reads[i];
        _reads.RemoveAt(i);
        if (to.IsCurrent) Do(to, e => to.Ownership.Read(table, e));
    }

    private void Plan()
    {
        int key = Keys[_random.Next(Keys.Length)];
        ImmutableArray<SlotRange> slots = [new(new(key), new(key))];
        if (_table.Plan(slots, new(_random.Next(ShardCount)), out _) is { } planned)
        {
            _table = planned;
            Count("planned");
        }
    }

    private void Cancel()
    {
        if (_table.Moves.Length == 0 || _table.Cancel(_table.Moves[_random.Next(_table.Moves.Length)].Id) is not { } table) return;
        _table = table;
        Count("cancelled");
    }

    private void Count(string what) => Happened[what] = Happened.GetValueOrDefault(what) + 1;
}
