// The paper's rules about the watermark service (section 5.4), each by the sentence that it checks.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Watermarks;
using Slogger.Core.WorldLines;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Watermarks;

public class WatermarkServiceTests
{
    // "The minimum of these timestamps, which we call the backup's watermark, indicates the time up to which all backup shards have
    // committed log records."
    [Fact]
    public void Watermark_IsTheLeastOfAll()
    {
        WatermarkService service = new([1, 1, 1]);
        Report(service, "1:5", "1:7", "1:6");
        Assert.Equal(Point("1:5"), service.Current);
        Report(service, "1:9");
        Assert.Equal(Point("1:6"), service.Current);
    }

    // "if the watermark service fails, it can be easily reinitialized from all the backup shard logs": and says nothing before it has heard
    // of all.
    [Fact]
    public void Watermark_BeforeAllHaveReported_IsNone()
    {
        WatermarkService service = new([1, 1, 0, 1]);
        Report(service, "1:5", "1:7");
        Assert.Null(service.Current);
        Report(service, null, null, null, "1:4");
        Assert.Equal(Point("1:4"), service.Current);
    }

    // "the watermark service maintains the invariant that its watermark is monotonically increasing".
    [Fact]
    public void Watermark_NeverGoesBack()
    {
        WatermarkService service = new([1, 1]);
        Report(service, "1:5", "1:7");
        Report(service, "1:3", "1:4");
        Assert.Equal(Point("1:5"), service.Current);
        service.Members([2, 1]);
        Assert.Equal(Point("1:5"), service.Current);
        Report(service, null, "1:9");
        Assert.Equal(Point("1:5"), service.Current);
        Assert.False(service.Report(new(new(0), 1, default, Point("1:9"))));
        Assert.True(service.Report(new(new(0), 2, default, Point("1:8"))));
        Assert.Equal(Point("1:8"), service.Current);
    }

    // A stream in 1:50 does not hold 2:30.
    [Fact]
    public void Watermark_GoesByTheWorldLineFirst()
    {
        WatermarkService service = new([1, 1]);
        Report(service, "1:50", "2:30");
        Assert.Equal(Point("1:50"), service.Current);
        Report(service, "2:30");
        Assert.Equal(Point("2:30"), service.Current);
    }

    // Streams that were seeded at different times: what the one behind holds the other cannot be brought to.
    [Fact]
    public void Watermark_BelowAStreamsSeed_IsNone()
    {
        WatermarkService service = new([1, 1]);
        service.Report(new(new(0), 1, Point("1:20"), Point("1:30")));
        Assert.False(service.Report(new(new(1), 1, default, Point("1:19"))));
        Assert.Null(service.Current);
        Assert.True(service.Report(new(new(1), 1, default, Point("1:21"))));
        Assert.Equal(Point("1:21"), service.Current);
    }

    // Whoever follows may have passed over what it was told, since its own log was not there yet: a report that comes again is answered.
    [Fact]
    public void Report_ComesAgain_IsToldAgain()
    {
        WatermarkService service = new([1, 1]), forgets = new([1, 1], ShipMutation.AgainNotTold);
        WatermarkReport zero = new(new(0), 1, default, Point("1:5")), one = new(new(1), 1, default, Point("1:7"));
        // Nobody is told before there is something to say.
        Assert.False(service.Report(zero));
        Assert.False(service.Report(zero));
        Assert.True(service.Report(one));
        Assert.True(service.Report(one));
        Assert.True(service.Report(zero));
        Assert.False(service.Report(one with { Held = Point("1:8") }));
        Assert.Equal(Point("1:5"), service.Current);
        // Also of a stream that was seeded anew, before that is read in SQL: its log hears what its receiver waits for.
        Assert.False(service.Report(one with { Generation = 2 }));
        Assert.True(service.Report(one with { Generation = 2 }));
        Assert.False(forgets.Report(zero));
        Assert.True(forgets.Report(one));
        Assert.False(forgets.Report(one));
    }

    // What a site that takes over has decided upon is told by SQL alone.
    [Fact]
    public void Watermark_OfASiteThatIsNoBackup_IsNotTold()
    {
        WatermarkService service = new([1, 1]), goesOn = new([1, 1], ShipMutation.ToldByNoBackup);
        foreach (WatermarkService s in (WatermarkService[])[service, goesOn])
        {
            Report(s, "1:5", "1:7");
            s.Members([1, 1], isBackup: false);
        }

        Assert.Equal(Point("1:5"), service.Current);
        Assert.Null(service.Tellable);
        Assert.False(service.Report(new(new(0), 1, default, Point("1:6"))));
        Assert.False(service.Report(new(new(0), 1, default, Point("1:6"))));
        Assert.True(goesOn.Report(new(new(0), 1, default, Point("1:6"))));
        service.Members([1, 1]);
        Assert.Equal(Point("1:6"), service.Tellable);
    }

    // Two at once say what is true, each: whoever hears both takes the larger.
    [Fact]
    public void Watermark_TwoServices_NeitherSaysMoreThanAllHold()
    {
        Random random = new(17);
        WatermarkService[] services = [new([1, 1, 1]), new([1, 1, 1])];
        long[] held = [1, 1, 1];
        for (int n = 0; n < 2000; n++)
        {
            int s = random.Next(3);
            held[s] += random.Next(3);
            WatermarkReport report = new(new(s), 1, default, new(WorldLine.First, new(held[s])));
            foreach (WatermarkService service in services)
                if (random.Next(3) > 0) service.Report(report);
            Assert.All(services, service => Assert.True(service.Current is null || service.Current.Value.Version.Number <= held.Min()));
        }

        Assert.NotNull(services[1].Current);
    }

    private static void Report(WatermarkService service, params string?[] held)
    {
        for (int s = 0; s < held.Length; s++)
            if (held[s] is { } cut) service.Report(new(new ShardId(s), 1, default, Point(cut)));
    }
}
