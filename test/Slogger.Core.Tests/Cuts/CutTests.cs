// Cuts and sets of dependencies as values (DPR, definitions of section 3; invariant I3).
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cuts;

public class CutTests
{
    private static readonly Cut Some = Make(1, 5, 7);

    [Fact]
    public void Of_HasAVersionForEachShard_AndNoOthers()
    {
        Assert.Equal(new VersionNumber(5), Some.Of(new(0)));
        Assert.Equal(new VersionNumber(7), Some.Of(new(1)));
        Assert.Throws<ArgumentOutOfRangeException>(() => Some.Of(new(2)));
        Assert.Throws<ArgumentOutOfRangeException>(() => Some.Of(new(-1)));
    }

    [Fact]
    public void Equality_IsByWorldLineAndVersions()
    {
        Assert.Equal(Make(1, 5, 7), Some);
        Assert.Equal(Make(1, 5, 7).GetHashCode(), Some.GetHashCode());
        Assert.NotEqual(Make(2, 5, 7), Some);
        Assert.NotEqual(Make(1, 5, 8), Some);
        Assert.NotEqual(Make(1, 5), Some);
        Assert.False(Some.Equals(null));
        Assert.Equal("1:[5 7]", Some.ToString());
    }

    [Fact]
    public void IsAtLeast_NoShardBelow_InTheSameOrALaterWorldLine()
    {
        Assert.True(Some.IsAtLeast(Some));
        Assert.True(Make(1, 6, 7).IsAtLeast(Some));
        Assert.True(Make(2, 5, 7).IsAtLeast(Some));
        Assert.False(Make(1, 6, 6).IsAtLeast(Some));
        Assert.False(Make(2, 9, 6).IsAtLeast(Some));
        Assert.False(Some.IsAtLeast(Make(2, 5, 7)));
        Assert.False(Make(1, 9).IsAtLeast(Some));
    }

    [Fact]
    public void Uniform_HasTheVersionEverywhere()
    {
        Assert.Equal(Make(3, 9, 9, 9), Cut.Uniform(new(3), 3, new(9)));
        Assert.Equal(Cut.ShardsMax, Cut.Uniform(new(1), Cut.ShardsMax, VersionNumber.Zero).ShardCount);
    }

    [Fact]
    public void Constructor_OutOfBounds_IsRefused()
    {
        Assert.Throws<ArgumentException>(() => Make(1));
        Assert.Throws<ArgumentException>(() => Make(1, -1));
        Assert.Throws<ArgumentException>(() => Cut.Uniform(new(1), Cut.ShardsMax + 1, VersionNumber.Zero));
        Assert.Throws<ArgumentException>(() => Cut.Uniform(new(1), 0, VersionNumber.Zero));
        Assert.Throws<ArgumentException>(() => Make(1, new long[Cut.ShardsMax + 1]));
    }

    [Fact]
    public void MovedTo_Below_IsABrokenInvariant() =>
        Assert.Contains("I3", Assert.Throws<InvalidOperationException>(() => Some.MovedTo([new(9), new(6)])).Message,
            StringComparison.Ordinal);

    [Fact]
    public void DependencySet_SeveralOfOneShard_KeepsTheLargest()
    {
        DependencySet set = DependencySet.Of(new(new(4), new(2)), new(new(1), new(3)), new(new(4), new(9)), new(new(4), new(5)));
        Assert.Equal([new(new(1), new(3)), new(new(4), new(9))], set.Items.ToArray());
        Assert.True(DependencySet.Of().Items.IsEmpty);
    }

    [Fact]
    public void DependencySet_Union_KeepsTheLargestOfBoth()
    {
        DependencySet a = DependencySet.Of(new(new(1), new(3)), new(new(2), new(8))), b =
            DependencySet.Of(new(new(0), new(1)), new(new(2), new(5)));
        Dependency[] both = [new(new(0), new(1)), new(new(1), new(3)), new(new(2), new(8))];
        Assert.Equal(both, a.Union(b).Items.ToArray());
        Assert.Equal(both, b.Union(a).Items.ToArray());
        Assert.Same(a, a.Union(DependencySet.Empty));
        Assert.Same(a, DependencySet.Empty.Union(a));
    }

    private static Cut Make(long worldLine, params long[] versions) =>
        new(new WorldLine(worldLine), versions.Select(v => new VersionNumber(v)).ToArray());
}
