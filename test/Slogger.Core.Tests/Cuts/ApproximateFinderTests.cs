// Grid cuts (design, section 3): "a grid cut is min(durable) rounded down to the largest stride in the cluster, so that it is
// restorable everywhere."
using Slogger.Core.Cuts;
using static Slogger.Core.Tests.Cuts.FinderTestKit;

namespace Slogger.Core.Tests.Cuts;

public class ApproximateFinderTests
{
    [Theory]
    // Strides that nest: the largest counts.
    [InlineData("100 300", 1300, 1200)]
    [InlineData("200 400", 1300, 1200)]
    [InlineData("100 300", 1000, 900)]
    [InlineData("200 400", 1000, 800)]
    [InlineData("1 2 8", 23, 16)]
    // 300 and 400 do not nest: 800 is no multiple of 300, and a shard of that stride could not go back to it. 1200 is.
    [InlineData("100 300 200 400", 1000, 0)]
    [InlineData("100 300 200 400", 1300, 1200)]
    [InlineData("100 300 200 400", 2399, 1200)]
    [InlineData("100 300 200 400", 2400, 2400)]
    [InlineData("4611686018427387903 4611686018427387901", long.MaxValue - 1, 0)]
    public void Advance_Strides_CutIsAMultipleOfEach(string strides, long durable, long cut)
    {
        long[] all = [.. strides.Split(' ').Select(s => long.Parse(s, System.Globalization.CultureInfo.InvariantCulture))];
        ApproximateFinder finder = new(Start(all.Length));
        for (int i = 0; i < all.Length; i++) finder.Report(VersionReport.WithoutDependencies(new(i), new(new(1), new(durable)), all[i]));
        Assert.Equal(cut > 0, finder.Advance());
        Assert.Equal(Cut.Uniform(new(1), all.Length, new(cut)), finder.Current);
    }

    // One shard closes 100, 300, 500..., the other 200, 400, 600...: both every 200 versions, but no version is one of both. No
    // stride says that truly (a stride's multiples can all be restored), and there is no grid cut. The exact finder has cuts.
    [Fact]
    public void VersionsClosedAt100And300_Against200And400_OnlyTheExactFinderHasCuts()
    {
        ExactFinder exact = new(Start(2), []);
        Assert.Equal("100 0", exact.After("A(0,100]", "B(0,200] A150"));
        Assert.Equal("300 200", exact.After("A(100,300] B120"));
        Assert.Equal("300 400", exact.After("B(200,400] A300", "A(300,500] B450"));
        Assert.Equal("500 600", exact.After("B(400,600] A480"));
    }

    [Fact]
    public void Report_StrideShrinks_CountsWithTheVersionThatItCameWith()
    {
        ApproximateFinder finder = new(Start(1));
        finder.Report(Report("A(0,8]", stride: 8));
        finder.Report(Report("A(8,13]", stride: 8)); // still: 9 to 12 can be restored, 1 to 7 cannot, and the cut is not past 8
        Assert.Equal("8", finder.After());
        finder.Report(Report("A(8,13]", stride: 1));
        Assert.Equal("13", finder.After());
    }

    [Fact]
    public void Report_LateDoubledOrBelow_ChangesNothing()
    {
        ApproximateFinder finder = new(Start(2));
        Assert.Equal("6 6", finder.After("A(0,8]", "B(0,6]"));
        Assert.Equal("6 6", finder.After("A(0,8]", "A(0,4]", "B(0,6]", "B(0,2]"));
        Assert.False(finder.Advance());
        Assert.Equal("8 8", finder.After("B(6,9]"));
    }

    [Fact]
    public void Report_OtherWorldLine_ChangesNothing()
    {
        ApproximateFinder finder = new(Start(2));
        finder.After("A(0,5]", "B(0,5]");
        finder.BeginWorldLine(Cut.Uniform(new(2), 2, new(6)));
        foreach (long line in (long[])[1, 3])
            foreach (string report in (string[])["A(0,9]", "B(0,9]"]) finder.Report(Report(report, worldLine: line));
        Assert.Equal("6 6", finder.After());
        Assert.Equal(6, finder.Vmax.Number);
        finder.Report(Report("A(6,9]", worldLine: 2));
        Assert.Equal("6 6", finder.After());
        finder.Report(Report("B(6,8]", worldLine: 2));
        Assert.Equal("8 8", finder.After());
    }

    [Fact]
    public void BeginWorldLine_BranchOffTheGrid_ShardsStayUntilTheGridPasses()
    {
        ApproximateFinder finder = new(Start(2));
        Cut branch = new(new(2), [new(5), new(9)]);
        finder.BeginWorldLine(branch);
        Assert.Equal(branch, finder.Current);
        finder.Report(Report("A(5,7]", worldLine: 2));
        Assert.Equal("7 9", finder.After());
        finder.Report(Report("A(7,12]", worldLine: 2));
        finder.Report(Report("B(9,11]", worldLine: 2));
        Assert.Equal("11 11", finder.After());
    }

    // A late marker has closed 5 to 7 at one place, and another shard stands at 6: a cut there could not be restored to.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Report_Floor_NoCutAtWhatTheShardHasSkipped(bool isMutant)
    {
        ApproximateFinder finder = new(Start(2), isMutant ? FinderMutation.FloorIgnored : FinderMutation.None);
        finder.Report(Report("A(4,7]") with { Floor = new(7) });
        Assert.Equal(isMutant ? "6 6" : "0 0", finder.After("B(4,6]"));
        Assert.Equal("7 7", finder.After("B(6,7]"));
        finder.Report(Report("A(7,9]") with { Floor = new(7) });
        Assert.Equal("8 8", finder.After("B(7,8]"));
    }

    // The shard that has skipped it is above it already: it need not go there.
    [Fact]
    public void Report_FloorOfAShardThatIsAboveTheGrid_HoldsNobodyBack()
    {
        ApproximateFinder finder = new(new(new(1), [new(9), new(3)]));
        finder.Report(Report("A(9,12]") with { Floor = new(12) });
        Assert.Equal("9 7", finder.After("B(3,7]"));
    }

    [Fact]
    public void Report_FloorAboveTheVersion_IsRefused() =>
        Assert.Throws<ArgumentException>(() => new ApproximateFinder(Start(2)).Report(Report("A(0,5]") with { Floor = new(6) }));

    // The three finders share the checks of what a caller may not do.
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(2)]
    public void CallerMistakes_AreRefused_AndChangeNothing(int kind)
    {
        IDprFinder finder = kind switch { 0 => new ApproximateFinder(Start(2)), 1 => new ExactFinder(Start(2), []), _ =>
            new HybridFinder(Start(2)) };
        finder.After("A(0,5]", "B(0,5]");
        Cut before = finder.Current;
        Assert.ThrowsAny<ArgumentException>(() => finder.Report(Report("C(0,9]")));
        Assert.ThrowsAny<ArgumentException>(() => finder.Report(Report("A(5,9] C1")));
        Assert.ThrowsAny<ArgumentException>(() => finder.Report(Report("A(9,5]")));
        Assert.ThrowsAny<ArgumentException>(() => finder.Report(Report("A(5,9]", stride: 0)));
        Assert.ThrowsAny<ArgumentException>(() => finder.BeginWorldLine(Cut.Uniform(new(2), 2, new(4))));
        Assert.ThrowsAny<ArgumentException>(() => finder.BeginWorldLine(Cut.Uniform(new(2), 3, new(9))));
        finder.BeginWorldLine(Cut.Uniform(new(1), 2, new(9))); // not new
        Assert.False(finder.Advance());
        Assert.Same(before, finder.Current);
    }
}
