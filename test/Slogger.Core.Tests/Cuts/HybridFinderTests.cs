// The hybrid finder beyond the paper's sentences (see DprPaperFinderTests): how the two cuts join, and what a lost part allows.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using static Slogger.Core.Tests.Cuts.FinderTestKit;

namespace Slogger.Core.Tests.Cuts;

public class HybridFinderTests
{
    [Fact]
    public void Advance_GraphKnown_IsExact()
    {
        HybridFinder hybrid = new(Start(3));
        Assert.Equal("3 5 0", hybrid.After("A(0,3]", "B(0,5] A3", "A(3,4] C1"));
        Assert.Equal("4 5 1", hybrid.After("C(0,1]"));
        Assert.Equal(5, hybrid.Vmax.Number);
    }

    [Fact]
    public void Advance_WhatTheGraphHoldsBackAsAWhole_TheGridCutsInTwo()
    {
        // A reported (5, 9] at once. It depends on B-8 somewhere; by the rule v >= Vs not in its versions up to 7.
        HybridFinder hybrid = new(Start(2));
        Assert.Equal("7 7", hybrid.After("A(0,5]", "B(0,7]", "A(5,9] B8"));
        Assert.Equal("9 8", hybrid.After("B(7,8]"));
    }

    [Fact]
    public void Report_WithoutDependencies_OnlyTheApproximateCutMoves()
    {
        HybridFinder hybrid = new(Start(2));
        hybrid.Report(VersionReport.WithoutDependencies(new(0), new(new(1), new(9)), 1));
        Assert.Equal("0 0", hybrid.After());
        Assert.Equal("4 4", hybrid.After("B(0,4]"));
        // Told after all: what was lost is known again.
        Assert.Equal("9 4", hybrid.After("A(0,9] B4"));
    }

    [Fact]
    public void TakeOver_SomeReportsNeverCome_GoesOnByItself()
    {
        HybridFinder hybrid = new(Cut.Uniform(new(1), 2, new(10)));
        hybrid.Report(VersionReport.WithoutDependencies(new ShardId(0), new(new(1), new(12)), 1));
        hybrid.Report(VersionReport.WithoutDependencies(new ShardId(1), new(new(1), new(11)), 1));
        // Between the metadata's 12 and this report, (12, 15] went to the process that died.
        Assert.Equal("11 11", hybrid.After("A(15,16]"));
        Assert.Equal("14 14", hybrid.After("B(11,14]"));
        Assert.Equal("16 15", hybrid.After("B(14,15]"));
    }

    [Fact]
    public void BeginWorldLine_WhatWasKnown_IsForgotten()
    {
        HybridFinder hybrid = new(Start(2));
        hybrid.After("A(0,5] B4", "B(0,3]");
        hybrid.BeginWorldLine(Cut.Uniform(new(2), 2, new(3)));
        hybrid.Report(Report("B(3,4]", worldLine: 1));
        hybrid.Report(Report("B(3,4]", worldLine: 2));
        Assert.Equal("3 4", hybrid.After());
        Assert.Equal(4, hybrid.Vmax.Number);
    }
}
