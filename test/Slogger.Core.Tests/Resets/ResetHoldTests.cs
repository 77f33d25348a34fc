using Slogger.Core.Cuts;
using Slogger.Core.Resets;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Resets;

/// <summary>Shards that close versions as ShardMachine does, whose clocks differ, with a reset in their midst that may be given up at any
/// step. Whatever cut is found, it has all of the reset, or nothing of it; and nothing that was acknowledged is lost.</summary>
public class ResetHoldTests
{
    private const int Seeds = 4000, Steps = 160;

    [Fact]
    public void Reset_AnyCut_HasAllOfItOrNothing()
    {
        int done = 0;
        for (int seed = 0; seed < Seeds; seed++)
        {
            (string? flaw, bool isDone) = new Run(seed, ResetMutation.None).Go();
            Assert.True(flaw is null, $"seed {seed}: {flaw}");
            done += isDone ? 1 : 0;
        }
        Assert.InRange(done, Seeds / 10, Seeds);
    }

    [Theory]
    [InlineData((int)ResetMutation.WritesBeforeCommitted, "lost")]
    [InlineData((int)ResetMutation.WritesBesideMarker, "part")]
    [InlineData((int)ResetMutation.ClosesWhileWriting, "part")]
    [InlineData((int)ResetMutation.ClosesTooEarly, "part")]
    public void Reset_RuleIsLeftOut_IsFound(int mutation, string flaw) =>
        Assert.Contains(flaw, Enumerable.Range(0, Seeds).Select(s => new Run(s, (ResetMutation)mutation).Go().Flaw).First(f => f is not null));

    // So a shard that is a cluster by itself, and replicated, may let clients in without a world-line.
    [Fact]
    public void Reset_IsCommitted_WhenTheCutHasTheVersionThatHoldsIt()
    {
        var hold = new ResetHold();
        hold.Hold();
        hold.Quiet(Point(5));
        Assert.True(hold.TryFreeze(Point(5)));
        Assert.False(hold.IsCommitted(Point(9)));
        Assert.True(hold.Written() && hold.TryClose(new(6)));
        hold.OnBoundary(new(6));
        Assert.False(hold.IsCommitted(Point(9)));
        hold.OnBoundary(new(8));
        Assert.False(hold.IsCommitted(Point(7)));
        Assert.True(hold.IsCommitted(Point(8)));
        Assert.False(hold.IsCommitted(new(new(2), new(8))));
    }

    [Theory]
    [InlineData(0, 1, false)]
    [InlineData(1, 1, true)]
    [InlineData(1, 2, false)]
    public void Mark_IsOpen_UntilAWorldLineBegins(long line, long current, bool isOpen) =>
        Assert.Equal(isOpen, new ResetHold().BeginsWithWorldLine(new(new(line)), new(current)));

    private sealed class Shard(Random random, ResetMutation mutation)
    {
        private readonly long _skew = random.Next(0, 4);
        private readonly List<(long Version, int Written)> _closed = [(0, 0)];  // what was written by its end, in halves
        private long _open = 1;
        private bool _isDirty;
        private (long Closed, int WrittenAtLeast)? _marker;

        public ResetHold Hold { get; } = new(mutation);

        public int Written { get; private set; }

        public long Before { get; private set; }

        public long LastOperation { get; private set; }

        public bool IsMarkerOnItsWay => _marker is not null;

        public DurableClaim Claim { get; private set; } = new(Point(0), 1, VersionNumber.Zero);

        private long _floor;

        public WorldPoint Open => Point(_open);

        public int WrittenAt(long cut) => _closed.FindLast(c => c.Version <= cut).Written;

        public void Operate()
        {
            if (Hold.IsHeld) { return; }
            (_isDirty, LastOperation) = (true, _open);
        }

        // Something of the store's own: a key expires.
        public void Expire() => _isDirty = true;

        public bool TryFreeze(WorldPoint cut)
        {
            if (!Hold.TryFreeze(cut)) { return false; }
            Before = _open - 1;
            return true;
        }

        public void WriteHalf()
        {
            if (Written >= 2 || !Hold.MayWrite(IsMarkerOnItsWay)) { return; }
            _isDirty = true;
            if (++Written == 2) { Hold.Written(); }
        }

        // A version ends, if its time is over: at once if nothing was done, else by a marker.
        public void Tick(long now)
        {
            long slot = Math.Max(now + _skew, _open);
            if (IsMarkerOnItsWay || slot == _open || !Hold.MayClose(new(slot - 1))) { return; }
            _open = slot;
            if (_isDirty) { (_marker, _isDirty) = ((slot - 1, Written), false); }
            else { Close(slot - 1, Written, isRun: true); }
        }

        // The store executes the marker: behind all that was written by then.
        public void Execute()
        {
            if (_marker is not { } marker) { return; }
            _marker = null;
            if (marker.Closed - 1 > _closed[^1].Version) { _floor = marker.Closed; }
            Close(marker.Closed, Written, isRun: false);
        }

        private void Close(long version, int written, bool isRun)
        {
            if (version <= _closed[^1].Version) { return; }
            _closed.Add((version, isRun ? _closed[^1].Written : written));
            Hold.OnBoundary(new(version));
        }

        public void Sync() => Claim = new(Point(_closed[^1].Version), 1, new(_floor));
    }

    private sealed class Run
    {
        private readonly Random _random;
        private readonly Shard[] _shards;
        private WorldPoint _cut = Point(0);
        private long _now = 1;

        public Run(int seed, ResetMutation mutation)
        {
            _random = new Random(seed);
            _shards = [.. Enumerable.Range(0, _random.Next(1, 4)).Select(_ => new Shard(_random, mutation))];
        }

        public (string? Flaw, bool IsDone) Go()
        {
            int begins = _random.Next(20);
            bool isFrozen = false;
            for (int step = 0; step < Steps; step++)
            {
                Shard shard = _shards[_random.Next(_shards.Length)];
                switch (_random.Next(10))
                {
                    case 0:
                        _now++;
                        break;
                    case 1:
                        shard.Operate();
                        break;
                    case 2 or 3:
                        shard.Tick(_now);
                        break;
                    case 4:
                        shard.Execute();
                        break;
                    case 5:
                        shard.Sync();
                        _cut = GridCut.Advance(_cut, [.. _shards.Select(s => s.Claim)]);
                        break;
                    case 6:
                        shard.Expire();
                        break;
                    default:
                        if (step >= begins) { isFrozen |= Manage(shard, isFrozen); }
                        break;
                }
                int[] written = [.. _shards.Select(s => s.WrittenAt(_cut.Version.Number))];
                if (written.Any(w => w != written[0]) || written[0] == 1)
                {
                    return ($"cut {_cut} has a part of the reset: {string.Join(',', written)}", false);
                }
                // From the freeze on it may be called off: then the cluster goes back to the cut.
                if (isFrozen && _shards.Any(s => s.LastOperation > _cut.Version.Number)) { return ($"{_cut}: something is lost", false); }
            }
            return (null, _shards[0].WrittenAt(_cut.Version.Number) == 2);
        }

        // The next step at one shard, if it is time for it.
        private bool Manage(Shard shard, bool isFrozen)
        {
            bool AreAll(Func<Shard, bool> are) => _shards.All(are);
            switch (shard.Hold.Phase)
            {
                case ResetPhase.None:
                    shard.Hold.Hold();
                    break;
                case ResetPhase.Holds:
                    // What was let through has been answered.
                    shard.Hold.Quiet(shard.Open);
                    // All are covered, or one has been frozen since all were. The shard itself is asked by its own rule.
                    bool mayFreeze = isFrozen || AreAll(s => s == shard || s.Hold.IsCovered(_cut));
                    return mayFreeze && shard.TryFreeze(_cut);
                case ResetPhase.Writes:
                    shard.WriteHalf();
                    break;
                case ResetPhase.Written when AreAll(s => s.Written == 2):
                    shard.Hold.TryClose(new(_shards.Max(s => s.Before)));
                    break;
            }
            return false;
        }
    }

    private static WorldPoint Point(long version) => new(new WorldLine(1), new VersionNumber(version));
}
