// What may be deleted of a shard's past: rule by rule, and in random lives, in which every version that is kept has to be readable.
using Slogger.Core.Retention;

namespace Slogger.Core.Tests.Retention;

public sealed class TilePlanTests
{
    private static readonly RawBounds s_free = new()
    {
        Cut = long.MaxValue, Detail = long.MaxValue, Held = long.MaxValue, Needed = long.MaxValue,
    };

    [Fact]
    public void Plan_ReducesTheOldestTileFirst_AndLeavesTwoCheckpointsRaw()
    {
        Assert.Equal(new(0, 0, 2), Plan([new(0, false), new(10, false), new(20, false), new(30, false)], s_free));
        Assert.Equal(new(10, 1, 2), Plan([new(0, true), new(10, false), new(20, false), new(30, false)], s_free));
        Assert.Equal(new(20, 2, 2), Plan([new(0, true), new(10, true), new(20, false), new(30, false)], s_free));
        Assert.Equal(new(0, 0, 0), Plan([new(0, false), new(10, false)], s_free));
        Assert.Equal(new(0, 0, 0), Plan([new(0, false)], s_free));
    }

    [Fact]
    public void Plan_RawLogIsNeeded_StaysFromTheSecondCheckpointBelow()
    {
        TileBase[] bases = [new(0, true), new(10, true), new(20, true), new(30, false), new(40, false)];
        foreach (RawBounds bounds in (RawBounds[])[
            s_free with { Cut = 39 }, s_free with { Detail = 39 }, s_free with { Held = 39 }, s_free with { Needed = 39 }])
        {
            Assert.Equal(new(20, 2, 2), Plan(bases, bounds));
        }
        Assert.Equal(new(0, 0, 0), Plan(bases, s_free with { Held = 5 }));
        // Another log lacks what lies within a tile.
        Assert.Equal(-5, Plan(bases, s_free with { Needed = -5 }).RawFrom);
    }

    [Fact]
    public void Plan_ATileInBetweenIsNotReduced_NothingBehindItIsDeleted()
    {
        Assert.Equal(new(10, 1, 3), Plan([new(0, true), new(10, false), new(20, true), new(30, false), new(40, false)], s_free));
    }

    [Fact]
    public void Next_ACheckpointWithoutVersions_IsLeftOut_ButTheFirst()
    {
        static void Check(int[] between, int[] idle, TilePlan plan, params int[] without)
        {
            (IReadOnlyList<int> Between, IReadOnlyList<int> Idle) next = plan.Next(without.Contains);
            Assert.Equal(between, next.Between);
            Assert.Equal(idle, next.Idle);
        }
        Check([1, 2, 4], [3], new(0, Reduced: 1, Stays: 4), 1, 3);
        Check([1, 2], [3], new(0, Reduced: 1, Stays: 3), 3);
        Check([], [], new(0, Reduced: 1, Stays: 1), 1, 2);
    }

    [Fact]
    public void Hole_IsNamed()
    {
        TileBase[] bases = [new(0, true), new(10, false), new(20, false)];
        Assert.Null(TilePlan.HoleIn(bases, 10));
        Assert.Equal(10, TilePlan.HoleIn(bases, 11));
        Assert.Equal(0, TilePlan.HoleIn([new(0, true)], 1));
    }

    [Fact]
    public void RandomLives_EveryVersionStaysReadable()
    {
        for (int seed = 0; seed < 2000; seed++)
        {
            string? wrong = new Past(seed, TileMutation.None).Run();
            Assert.True(wrong is null, $"seed {seed}: {wrong}");
        }
    }

    [Theory]
    [InlineData((int)TileMutation.DeletesUnreduced)]
    [InlineData((int)TileMutation.SkipsUnreduced)]
    [InlineData((int)TileMutation.IgnoresCut)]
    [InlineData((int)TileMutation.IgnoresHold)]
    [InlineData((int)TileMutation.IgnoresNeeded)]
    [InlineData((int)TileMutation.IgnoresDetail)]
    [InlineData((int)TileMutation.KeepsOneLess)]
    public void RandomLives_ARuleIsSwitchedOff_IsNoticed(int mutation) =>
        Assert.Contains(Enumerable.Range(0, 2000), seed => new Past(seed, (TileMutation)mutation).Run() is not null);

    private static TilePlan Plan(TileBase[] bases, RawBounds bounds) => TilePlan.Of(bases, bounds, kept: 2);

    // A shard's past in small numbers: a version ends at each offset. It knows nothing of the plan's rules.
    private sealed class Past(int seed, TileMutation mutation)
    {
        private readonly Random _random = new(seed);
        private readonly List<(long Offset, long? ReducedTo)> _checkpoints = [(0, null)];
        private long _end, _cut, _detail, _rawFrom, _needed, _held = long.MaxValue;

        public string? Run()
        {
            for (int step = 0; step < 60; step++)
            {
                Step();
                TilePlan plan = TilePlan.Of(Bases(), new() { Cut = _cut, Detail = _detail, Held = _held, Needed = _needed }, 2, mutation);
                if (plan.Reduced < plan.Stays && plan.Reduced is var next && _random.Next(3) > 0)
                {
                    if (_checkpoints[next + 1].Offset > Math.Min(Math.Min(_cut, _detail), Math.Min(_held, _needed)))
                    {
                        return "a tile is reduced that may not be";
                    }
                    _checkpoints[next] = _checkpoints[next] with { ReducedTo = _checkpoints[next + 1].Offset };
                }
                else if (_random.Next(2) == 0) { _rawFrom = Math.Max(_rawFrom, plan.RawFrom); }
                if (Wrong() is { } wrong) { return wrong; }
            }
            return null;
        }

        private IReadOnlyList<TileBase> Bases() => [.. _checkpoints.Select((c, i) =>
            new TileBase(c.Offset, i + 1 < _checkpoints.Count && c.ReducedTo == _checkpoints[i + 1].Offset))];

        private void Step()
        {
            switch (_random.Next(7))
            {
                case < 2:
                    _end += _random.Next(1, 10);
                    break;
                case 2 when _end > _checkpoints[^1].Offset:
                    _checkpoints.Add((_end, null));
                    break;
                case 3:
                    _cut = _random.NextInt64(_cut, _end + 1);
                    break;
                case 4:
                    _detail = _random.NextInt64(_detail, _end + 1);
                    break;
                case 5:
                    _needed = _random.NextInt64(Math.Max(_needed, _rawFrom), _end + 1);
                    break;
                case 6:
                    // Who reads begins at a checkpoint that the raw log has.
                    long[] raw = [.. _checkpoints.Where(c => c.Offset >= _rawFrom).Select(c => c.Offset)];
                    _held = _random.Next(2) == 0 || raw.Length == 0 ? long.MaxValue : raw[_random.Next(raw.Length)];
                    break;
            }
        }

        private string? Wrong()
        {
            if (_rawFrom > _needed) { return $"another log lacks {_needed}, raw begins at {_rawFrom}"; }
            if (_held < _rawFrom) { return $"somebody reads at {_held}, raw begins at {_rawFrom}"; }
            long[] raw = [.. _checkpoints.Where(c => c.Offset >= _rawFrom).Select(c => c.Offset)];
            if (_checkpoints.Count(c => c.Offset <= _cut) >= 2 && raw.Count(c => c <= _cut) < 2)
            {
                return $"the raw log has less than two checkpoints at or below the cut {_cut}";
            }
            if (_checkpoints.Any(c => c.Offset <= _detail) && !raw.Any(c => c <= _detail))
            {
                return $"the version at {_detail} is to be kept in detail";
            }
            // A version is read from the newest checkpoint at or below it, by one of the two ways.
            for (long version = _checkpoints[0].Offset; version <= _end; version++)
            {
                (long offset, long? reducedTo) = _checkpoints.Last(c => c.Offset <= version);
                bool isRaw = offset >= _rawFrom, isReduced = reducedTo > version;
                if (!isRaw && !isReduced) { return $"the version at {version} cannot be read, raw begins at {_rawFrom}"; }
            }
            return null;
        }
    }
}
