// How often shards speak of cuts: what all do together has a bound.
using Slogger.Core.Cuts;

namespace Slogger.Core.Tests.Cuts;

public sealed class CutPaceTests
{
    public static TheoryData<int> Shards => [1, 2, 4, 8, 9, 16, 64, 250, 512, 1024];

    [Theory]
    [MemberData(nameof(Shards))]
    public void LookUs_OfAllShards_ReadsABoundedNumberOfClaims(int shards)
    {
        CutPace pace = new(shards);
        double claimsPerSecond = 1e6 / pace.LookUs * shards * shards;
        // Where one would look less often than every two seconds: half of all pairs a second.
        Assert.InRange(claimsPerSecond, 0, Math.Max(33_334, shards * (double)shards / 2));
        Assert.InRange(pace.LookUs, 2000, 2_000_000);
    }

    [Theory]
    [MemberData(nameof(Shards))]
    public void UntilLookUs_AskedJustBeforeItsTime_IsTheRest(int shards)
    {
        CutPace pace = new(shards);
        Assert.Equal(pace.LookUs, pace.UntilLookUs(0));
        Assert.Equal(1, pace.UntilLookUs(pace.LookUs - 1));
        Assert.Equal(0, pace.UntilLookUs(pace.LookUs));
        Assert.Equal(0, pace.UntilLookUs(long.MaxValue));
        // While nobody waits it leaves more time, where SQL would allow less.
        Assert.Equal(Math.Max(pace.LookUs, 50_000) - 1000, pace.UntilLookUs(1000, 50_000));
    }

    [Theory]
    [MemberData(nameof(Shards))]
    public void ClaimUs_OfAllShards_IsABoundedNumberOfStatements(int shards)
    {
        CutPace pace = new(shards);
        Assert.Equal(shards > 8, pace.IsCrowded);
        if (!pace.IsCrowded) { Assert.Equal(0, pace.ClaimUs); }
        else { Assert.InRange(1e6 / pace.ClaimUs * shards, 3999, 4001); }
        Assert.InRange(1e6 / pace.RowUs, 0, 200);
        Assert.InRange(1e6 / pace.RowUs * shards, 0, 4001);
    }

    [Theory]
    [MemberData(nameof(Shards))]
    public void TurnUs_OfAnyInterval_TellsABoundedNumberOfShards(int shards)
    {
        foreach (long intervalUs in (long[])[1000, 5000, 100_000, 10_000_000])
        {
            long turn = new CutPace(shards).TurnUs(intervalUs);
            Assert.InRange(1e6 / turn * shards, 0, 22_223);
            Assert.InRange(turn, 1000, Math.Max(25_000, shards * 45));
        }
    }

    [Theory]
    [InlineData(1000)]
    [InlineData(5000)]
    [InlineData(500_000)]
    [InlineData(1_000_000)]
    [InlineData(60_000_000)]
    public void HurryUs_OneTimeAfterTheOther_GrowsFromAVersionToItsBound(long versionUs)
    {
        long before = 0;
        for (int i = 0; i < 20; i++)
        {
            long now = CutPace.HurryUs(before, versionUs);
            Assert.InRange(now, Math.Max(before, versionUs), Math.Max(CutPace.HurryUsMax, versionUs));
            before = now;
        }
        Assert.Equal(Math.Max(CutPace.HurryUsMax, versionUs), before);
    }
}
