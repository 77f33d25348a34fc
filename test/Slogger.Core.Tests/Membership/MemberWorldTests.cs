// A whole cluster that grows and shrinks, by seed: shards that close versions, a coordinator whose messages are late, world-lines, joiners
// and leavers that die at any step. Checked after each step: no cut and no branch is beyond what a shard that counts can be restored to
// (I2), cuts never go back (I3), what was answered and is committed was durable (I2), and nobody who does not count holds the cut up (I8).
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Membership;

public sealed class MemberWorldTests
{
    private const int Seeds = 400;

    [Fact]
    public void Members_JoinAndLeaveInAnyOrder_CutsStayRestorableAndGoOn()
    {
        int joined = 0, left = 0, lines = 0;
        for (int seed = 1; seed <= Seeds; seed++)
        {
            MemberWorld world = new(seed, MemberMutation.None);
            world.Run();
            (joined, left, lines) = (joined + world.Joined, left + world.HaveLeft, lines + world.Lines);
        }

        // Else nothing was shown.
        Assert.True(joined > Seeds && left > Seeds / 2 && lines > Seeds, $"{joined} joined, {left} left, {lines} world-lines");
    }

    [Theory]
    [InlineData((int)MemberMutation.JoiningCounts)]
    [InlineData((int)MemberMutation.AnyClaimAdmits)]
    [InlineData((int)MemberMutation.AnyWorldLineAdmits)]
    [InlineData((int)MemberMutation.FloorIgnored)]
    [InlineData((int)MemberMutation.OwnersNotCompared)]
    [InlineData((int)MemberMutation.LeavesAtOnce)]
    [InlineData((int)MemberMutation.DeadLeavesQuietly)]
    public void Members_ARuleIsBroken_IsCaught(int mutation)
    {
        for (int seed = 1; seed <= Seeds; seed++)
        {
            try
            {
                new MemberWorld(seed, (MemberMutation)mutation).Run();
            }
            catch (MemberWorldException e)
            {
                TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}: {e.Message}");
                return;
            }
        }

        Assert.Fail($"{(MemberMutation)mutation} was not caught in {Seeds} seeds");
    }

    private sealed class MemberWorldException(string message) : Exception(message);

    /// <summary>A shard and its log.</summary>
    private sealed class Shard
    {
        public long Epoch;
        public bool IsAlive = true;
        public WorldLine Line = WorldLine.First;
        public long Base, Durable, Executed;        // its log begins at Base; up to Executed it has answered
        public long RowVersion, RowFloor;           // in SQL, of the current world-line

        public DurableClaim Claim => new(new(Line, new(Durable)), 1, new(Base));

        public bool Restores(long version) => version >= Base && version <= Durable;
    }

    private sealed class MemberWorld(int seed, MemberMutation mutation)
    {
        private readonly Random _random = new(seed);
        private readonly List<Shard> _shards = [new() { Epoch = 1 }, new() { Epoch = 2 }];
        private readonly List<(int Shard, long Epoch, DurableClaim Claim, bool Asks)> _late = [];
        private Members _members = Members.New(2);
        private WorldPoint _cut = new(WorldLine.First, VersionNumber.Zero);
        private long _epochs = 2, _seenOwners = -1, _now;
        private ApproximateFinder? _finder;
        private static readonly OwnershipTable s_owners = new(MapRevision.First, WorldLine.First, SlotMap.Even(2), []);

        public int Joined { get; private set; }

        public int HaveLeft { get; private set; }

        public int Lines { get; private set; }

        public void Run()
        {
            for (int i = 0; i < 600; i++)
            {
                Step();
            }

            // Everybody who counts comes back: the cut goes on, whatever became of the others.
            long before = _cut.Version.Number;
            for (int s = 0; s < _shards.Count; s++)
            {
                if (!Members.Counts(_members.States[s])) { continue; }
                _shards[s].IsAlive = true;
                Close(s, _now + 50);
                Record(s, _shards[s].Epoch, _shards[s].Claim);
            }

            AdvanceBySql();
            Expect(_cut.Version.Number > before, $"I8: the cut stands at {_cut}");
        }

        private void Step()
        {
            _now += _random.Next(3);
            int s = _random.Next(_shards.Count);
            Shard shard = _shards[s];
            switch (_random.Next(15))
            {
                case 0 or 1 or 2 or 3:
                    if (shard.IsAlive && shard.Line == _cut.WorldLine && shard.Epoch > 0) { Close(s, _now); }
                    break;
                case 4 or 5:
                    if (shard.IsAlive && shard.Epoch > 0)
                    {
                        _late.Add((s, shard.Epoch, shard.Claim, _members.States[s] == MemberState.Joining));
                    }
                    break;
                case 6 or 7 or 8:
                    Deliver();
                    break;
                case 9:
                    if (_random.Next(2) == 0) { AdvanceBySql(); } else { Coordinate(); }
                    break;
                case 10:
                    if (_shards.Count < 7 && _members.Add(new(_shards.Count), FinderKind.Approximate).After is { } grown)
                    {
                        (_members, _epochs) = (grown, _epochs + 1);
                        _shards.Add(new() { IsAlive = false, RowVersion = _cut.Version.Number, Line = _cut.WorldLine });
                    }

                    break;
                case 11:
                    StartOrKill(s);
                    break;
                case 12:
                    if (Members.Counts(_members.States[s]) && _random.Next(3) == 0) { BeginWorldLine(s); }
                    break;
                default:
                    if (_members.States[s] == MemberState.Leaving || _random.Next(6) == 0) { Leave(s); }
                    break;
            }
        }

        private void Close(int s, long upTo)
        {
            Shard shard = _shards[s];
            if (_members.States[s] is MemberState.Member) { shard.Executed = Math.Max(shard.Executed, upTo); }
            if (upTo > shard.Durable && _random.Next(3) > 0) { shard.Durable = upTo; }
            if (shard.Durable < upTo && upTo > _now) { shard.Durable = upTo; }
        }

        // A joiner begins anew each time; a member comes back with its log.
        private void StartOrKill(int s)
        {
            Shard shard = _shards[s];
            if (_members.States[s] != MemberState.Joining)
            {
                if (Members.Counts(_members.States[s])) { shard.IsAlive = !shard.IsAlive; }
                return;
            }

            shard.IsAlive = !shard.IsAlive || _random.Next(2) == 0;
            shard.Epoch = ++_epochs;
            shard.Line = _cut.WorldLine;
            shard.Base = shard.Durable = Math.Max(Math.Max(_cut.Version.Number, shard.RowVersion), _random.Next(2) == 0 ? _now : 0);
        }

        private void Deliver()
        {
            if (_late.Count == 0) { return; }
            int i = _random.Next(_late.Count);
            (int s, long epoch, DurableClaim claim, bool asks) = _late[i];
            _late.RemoveAt(i);
            if (asks) { Admit(s, epoch, claim); }
            if (_random.Next(2) == 0) { Record(s, epoch, claim); } else { Hear(s, epoch, claim); }
        }

        private void Admit(int s, long epoch, DurableClaim claim)
        {
            if (_members.States[s] != MemberState.Joining || _shards[s].Epoch != epoch || !Members.Admits(_cut, claim, mutation))
            {
                return;
            }
            _members = _members.With(new(s), MemberState.Member);
            _epochs++;
            (_shards[s].RowVersion, _shards[s].RowFloor) = (claim.Point.Version.Number, claim.Floor.Number);
            Joined++;
            CheckRestorable(_cut.Version.Number);
        }

        private void Record(int s, long epoch, DurableClaim claim)
        {
            Shard shard = _shards[s];
            if (shard.Epoch != epoch || claim.Point.WorldLine != _cut.WorldLine || shard.RowVersion > claim.Point.Version.Number)
            {
                return;
            }
            (shard.RowVersion, shard.RowFloor) = (claim.Point.Version.Number, claim.Floor.Number);
        }

        private IReadOnlyList<DurableClaim> Rows(Func<int, bool> counts) =>
            [.. _shards.Select((x, i) => (x, i)).Where(x => counts(x.i))
                .Select(x => new DurableClaim(new(_cut.WorldLine, new(x.x.RowVersion)), 1, new(x.x.RowFloor)))];

        private bool Counts(int s) => Members.Counts(_members.States[s], mutation);

        private void AdvanceBySql() => Move(GridCut.Advance(_cut, Rows(Counts)));

        // The coordinator looks now and then only, so it may know other members.
        private void Coordinate()
        {
            if (_finder is null || _random.Next(6) == 0 || _finder.Current.WorldLine != _cut.WorldLine
                || _cut.Version > _finder.Current.Of(new(0)))
            {
                _finder = new(Cut.Uniform(_cut.WorldLine, _shards.Count, _cut.Version),
                    [.. _members.States.Select(x => Members.Counts(x, mutation))]);
                _seenOwners = _epochs;
                for (int s = 0; s < _shards.Count; s++)
                {
                    _finder.Report(VersionReport.Of(
                        new(s), new(new(_cut.WorldLine, new(_shards[s].RowVersion)), 1,
                            new(Math.Min(_shards[s].RowFloor, _shards[s].RowVersion))), new(_shards[s].RowVersion), DependencySet.Empty));
                }
            }

            if (!_finder.Advance()) { return; }
            if (_seenOwners != _epochs && mutation != MemberMutation.OwnersNotCompared)
            {
                _finder = null;
                return;
            }

            Move(new(_finder.Current.WorldLine, _finder.Current.Versions[0]));
        }

        private void Hear(int s, long epoch, DurableClaim claim)
        {
            if (_finder is null || s >= _finder.Current.ShardCount || _shards[s].Epoch != epoch) { return; }
            _finder.Report(VersionReport.Of(new(s), claim, claim.Point.Version, DependencySet.Empty));
        }

        private void BeginWorldLine(int s)
        {
            Shard by = _shards[s];
            if (by.Line != _cut.WorldLine || by.Durable < _cut.Version.Number) { return; }
            by.RowVersion = Math.Max(by.RowVersion, by.Durable);
            WorldPoint branch = GridCut.Advance(_cut, Rows(Counts));
            CheckRestorable(branch.Version.Number);
            _cut = new(_cut.WorldLine.Next, branch.Version);
            Lines++;
            for (int i = 0; i < _shards.Count; i++)
            {
                Shard shard = _shards[i];
                shard.RowVersion = shard.RowFloor = branch.Version.Number;
                if (!Members.Counts(_members.States[i])) { continue; }
                shard.Line = _cut.WorldLine;
                shard.Durable = shard.Executed = branch.Version.Number;
            }
        }

        private void Leave(int s)
        {
            if (s < 2 || _members.Leave(new(s), s_owners).After is not { } after) { return; }
            Shard shard = _shards[s];
            MemberState before = _members.States[s], asked = after.States[s];
            if (asked != before) { (_members, _epochs) = (after, _epochs + 1); }
            if (before == MemberState.Joining)
            {
                shard.Epoch = 0;
                return;
            }

            if (asked != MemberState.Leaving || before == MemberState.Left) { return; }
            bool isClosed = shard.Durable >= shard.Executed;
            if (mutation != MemberMutation.LeavesAtOnce && !isClosed)
            {
                if (shard.IsAlive)
                {
                    // It closes its last version: in a later step it has.
                    shard.Durable = shard.Executed;
                    return;
                }

                if (mutation != MemberMutation.DeadLeavesQuietly) { BeginWorldLine(s); }
                if (mutation != MemberMutation.DeadLeavesQuietly && shard.Durable < shard.Executed) { return; }
            }

            _members = _members.With(new(s), MemberState.Left);
            _epochs++;
            shard.Epoch = 0;
            HaveLeft++;
            shard.IsAlive = false;
        }

        private void Move(WorldPoint next)
        {
            if (next == _cut) { return; }
            Expect(next >= _cut, $"I3: the cut goes back from {_cut} to {next}");
            CheckRestorable(next.Version.Number);
            _cut = next;
        }

        private void CheckRestorable(long version)
        {
            for (int s = 0; s < _shards.Count; s++)
            {
                Shard shard = _shards[s];
                if (Members.Counts(_members.States[s]))
                {
                    Expect(shard.Line == _cut.WorldLine && shard.Restores(version),
                        $"I2: shard {s}, whose log has {shard.Line}:{shard.Base} to {shard.Durable}, cannot be restored to "
                            + $"{_cut.WorldLine}:{version}");
                }
                else if (_members.States[s] == MemberState.Left && shard.Line == _cut.WorldLine)
                {
                    Expect(Math.Min(version, shard.Executed) <= shard.Durable,
                        $"I2: shard {s} has left, and had {shard.Durable} durable of the {shard.Executed} that it answered; {version} is "
                            + "committed");
                }
            }
        }

        private void Expect(bool holds, string what)
        {
            if (!holds) { throw new MemberWorldException($"seed {seed}: {what}"); }
        }
    }
}
