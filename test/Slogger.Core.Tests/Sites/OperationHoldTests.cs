using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Sites;

public class OperationHoldTests
{
    private readonly OperationHold _hold = new();

    private static SiteState Held(long number) => SiteState.Alone with { Role = SiteRole.HandingOver, HandOver = new(number, null) };

    private static SiteState GoesOn(long number) => SiteState.Alone with { HandOver = new(number, null) };

    private static WorldPoint At(long version, long line = 1) => new(new WorldLine(line), new VersionNumber(version));

    [Fact]
    public void SiteIs_HandsOver_HoldsUntilItDoesNot()
    {
        Assert.False(_hold.SiteIs(SiteState.Alone));
        Assert.False(_hold.IsHeld);
        Assert.True(_hold.SiteIs(Held(1)));
        Assert.True(_hold.IsHeld);
        Assert.False(_hold.SiteIs(Held(1)));
        Assert.True(_hold.SiteIs(GoesOn(1)));
        Assert.False(_hold.IsHeld);
    }

    [Fact]
    public void Of_NothingIsHeldOrForAnother_Null()
    {
        Assert.Null(_hold.Of(1));
        _hold.SiteIs(Held(2));
        Assert.Null(_hold.Of(1));
        Assert.NotNull(_hold.Of(2));
    }

    [Fact]
    public void Look_BeforeItIsQuiet_SaysNothing()
    {
        _hold.SiteIs(Held(1));
        Assert.Null(_hold.Look(_hold.Of(1)!.Value, At(9)));
    }

    [Fact]
    public void Look_VersionThatWasOpenIsNotDurable_SaysNothing()
    {
        long hold = QuietIn(At(5));
        Assert.Null(_hold.Look(hold, At(4)));
        Assert.Null(_hold.HeldAt(1, new(1)));
        Assert.Equal(At(5), _hold.Look(hold, At(5)));
    }

    [Fact]
    public void Look_LaterVersionIsDurable_SaysThatOneFromThenOn()
    {
        long hold = QuietIn(At(5));
        Assert.Equal(At(7), _hold.Look(hold, At(7)));
        Assert.Equal(At(7), _hold.HeldAt(1, new(1)));
        Assert.Null(_hold.HeldAt(2, new(1)));
    }

    [Fact]
    public void Look_QuietAgainInALaterVersion_TheFirstCounts()
    {
        long hold = QuietIn(At(5));
        _hold.Quiet(hold, At(8));
        Assert.Equal(At(6), _hold.Look(hold, At(6)));
    }

    [Fact]
    public void Look_RecoveryInBetween_WaitsForTheNewWorldLine()
    {
        long hold = QuietIn(At(5));
        Assert.Null(_hold.Look(hold, At(9, line: 2)));
        _hold.Quiet(hold, At(6, line: 2));
        Assert.Null(_hold.Look(hold, At(5, line: 2)));
        Assert.Equal(At(6, line: 2), _hold.Look(hold, At(6, line: 2)));
        Assert.Null(_hold.HeldAt(1, new(1)));
    }

    [Fact]
    public void HeldAt_HeldInAnOlderWorldLine_IsAskedAnew()
    {
        _hold.Look(QuietIn(At(5)), At(5));
        Assert.Null(_hold.HeldAt(1, new(2)));
    }

    // Operations went on in between, and some of them may be under way.
    [Fact]
    public void Quiet_AwaitedForAHoldThatIsOver_SaysNothingInTheNext()
    {
        _hold.SiteIs(Held(1));
        long first = _hold.Of(1)!.Value;
        _hold.SiteIs(GoesOn(1));
        _hold.SiteIs(Held(2));
        _hold.Quiet(first, At(5));
        Assert.Null(_hold.Look(first, At(9)));
        Assert.Null(_hold.Look(_hold.Of(2)!.Value, At(9)));
        Assert.Null(_hold.HeldAt(2, new(1)));
    }

    [Fact]
    public void HeldAt_HeldInAHoldThatIsOver_IsAskedAnew()
    {
        _hold.Look(QuietIn(At(5)), At(5));
        _hold.SiteIs(GoesOn(1));
        Assert.Null(_hold.HeldAt(1, new(1)));
        _hold.SiteIs(Held(2));
        Assert.Null(_hold.HeldAt(2, new(1)));
        Assert.Null(_hold.Look(_hold.Of(2)!.Value, At(9)));
    }

    private long QuietIn(WorldPoint open)
    {
        _hold.SiteIs(Held(1));
        long hold = _hold.Of(1)!.Value;
        _hold.Quiet(hold, open);
        return hold;
    }
}
