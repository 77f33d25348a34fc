// Tests of the checksums that are reckoned while the log is written.
using Slogger.Faster.Disk;
using Slogger.Log.Format;

namespace Slogger.Faster.Tests;

public sealed class LogSumsTests
{
    private readonly byte[] _log = new byte[1000];
    private readonly LogSums _sums = new();

    public LogSumsTests()
    {
        new Random(1).NextBytes(_log);
        _sums.Restart(100);
    }

    [Fact]
    public void Sum_OfAStretchThatPassedInOrder_IsKnown()
    {
        _sums.Until(300);
        Pass(100, 250);
        Pass(250, 420);
        _sums.Until(500);
        Pass(420, 600);
        Assert.Equal(Sum(100, 300), Known(100, 300));
        Assert.Equal(Sum(300, 500), Known(300, 500));
        // The next end is asked for when all up to there has passed.
        Assert.Equal(Sum(500, 600), Known(500, 600));
    }

    [Fact]
    public void Sum_OfPartsOrOfSeveralStretches_IsNotKnown()
    {
        _sums.Until(300);
        Pass(100, 600);
        Assert.Null(Known(100, 600));
        Assert.Null(Known(100, 300));
        Assert.Null(Known(300, 500));
    }

    [Fact]
    public void Sum_OfAStretchThatPassedInDisorder_IsNotKnownAndTheNextIs()
    {
        _sums.Until(300);
        Pass(200, 350);
        Pass(100, 200);
        _sums.Until(500);
        _sums.Until(700);
        Pass(350, 800);
        Assert.Null(Known(100, 300));
        Assert.Null(Known(300, 500));
        Assert.Equal(Sum(500, 700), Known(500, 700));
    }

    [Fact]
    public void Sum_OfWhatIsWrittenOnceMore_IsNotKnown()
    {
        _sums.Until(300);
        _sums.Until(600);
        Pass(100, 500);
        _sums.Break();
        _log[150] ^= 1;
        Pass(100, 600);
        Assert.Null(Known(100, 300));
        Assert.Null(Known(300, 600));
        Pass(600, 800);
        Assert.Equal(Sum(600, 800), Known(600, 800));
    }

    private void Pass(int from, int to) => _sums.Add(from, _log.AsSpan(from..to));

    private uint Sum(int from, int to) => Crc32C.Compute(_log.AsSpan(from..to));

    private uint? Known(int from, int to) => _sums.TryTake(from, to, out uint checksum) ? checksum : null;
}
