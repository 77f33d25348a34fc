// Tests of StrideControl: when a shard closes fewer versions, and when it tries again to close more.
using Slogger.Core.Shards;
using Slogger.Core.Versions;

namespace Slogger.Core.Tests.Shards;

public class StrideControlTests
{
    private StrideControl _strides = new();
    private long _version = 64;

    [Fact]
    public void Late_OneInFour_GrowsToItsBoundAndNoFurther()
    {
        for (int i = 0; i < 4000; i++) Close(skipped: i % 4 == 0);
        Assert.Equal(64, _strides.Stride);
    }

    [Fact]
    public void Late_OneInSix_StaysAtEveryVersion()
    {
        for (int i = 0; i < 4000; i++) Close(skipped: i % 6 == 0);
        Assert.Equal(1, _strides.Stride);
    }

    [Fact]
    public void InTime_ForAHundredVersions_IsHalvedEachTime()
    {
        GrowTo(8);
        long at = _version;
        while (_strides.Stride > 1) Close(skipped: false);
        // Three times a hundred, rounded up to where versions are closed, however large the stride is.
        Assert.InRange(_version - at, 300, 300 + 8 + 4 + 2);
    }

    [Fact]
    public void Closed_InOneRunOfManyVersions_CountsAsThatMany()
    {
        GrowTo(2);
        _version += 100;
        Assert.True(_strides.Closed(new VersionNumber(_version), skipped: false));
        Assert.Equal(1, _strides.Stride);
    }

    [Fact]
    public void Trials_ThatFail_ComeAfterTwiceAsManyVersionsUpToABound()
    {
        GrowTo(4);
        var waits = new List<long>();
        for (int trial = 0; trial < 7; trial++)
        {
            long at = _version;
            while (_strides.Stride == 4) Close(skipped: false);
            waits.Add(_version - at);
            GrowTo(4);
        }

        Assert.Equal([100, 200, 400, 800, 1600, 1600, 1600], waits);
    }

    [Fact]
    public void Trial_ThatHasStoodItsTime_MakesTheNextOnesComeSoonAgain()
    {
        GrowTo(4);
        for (int trial = 0; trial < 3; trial++)
        {
            while (_strides.Stride == 4) Close(skipped: false);
            GrowTo(4);
        }

        while (_strides.Stride > 1) Close(skipped: false);   // the trial of 2 stood, that of 1 followed
        GrowTo(2);
        long at = _version;
        while (_strides.Stride == 2) Close(skipped: false);
        Assert.Equal(200, _version - at);
    }

    private void GrowTo(long stride)
    {
        while (_strides.Stride < stride) Close(skipped: true);
    }

    private void Close(bool skipped)
    {
        _version += _strides.Stride;
        long before = _strides.Stride;
        Assert.Equal(_strides.Closed(new VersionNumber(_version), skipped), _strides.Stride < before);
    }
}
