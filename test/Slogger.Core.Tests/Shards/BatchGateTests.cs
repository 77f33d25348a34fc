// Every outcome of the gate, at its borders. The grid: version 1 opens at second 1, then one each millisecond.
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Shards;

public class BatchGateTests
{
    private const long ClockErrorUs = 300;
    private const long AheadMaxUs = 5000;
    private static readonly VersionGrid Grid = new(new(1), 1_000_000, 1000);
    private static readonly BatchGate Gate = new(new() { ClockErrorUs = ClockErrorUs, RemoteAheadMaxUs = AheadMaxUs });

    private static BatchHeader Header(long atLeast, long line = 3) => new(new(1), new(line), new(atLeast), new(1), 4, default);

    private static GateShard Shard(long open, long line = 3) =>
        new(new(line), new(open), Grid, [new(new(2), new(7)), new(new(3), new(9))]);

    private static HybridTimestamp At(long us) => HybridTimestamp.Of(us, 0);

    /// <summary>Version 10 opens at 1 009 000.</summary>
    private static GateDecision Decide(long atLeast, long nowUs, long open = 5) => Gate.Decide(Header(atLeast), Shard(open), At(nowUs));

    // Section 3.2: "A StateObject checks Vs against its next token version v, and executes the request only if v >= Vs;
    // otherwise it calls Commit() until v >= Vs before executing."
    [Theory]
    [InlineData(0, GateVerdict.Execute)]
    [InlineData(4, GateVerdict.Execute)]
    [InlineData(5, GateVerdict.Execute)]
    [InlineData(6, GateVerdict.FastForward)]
    public void Decide_OpenVersionAgainstVs(long atLeast, GateVerdict expected)
    {
        GateDecision d = Decide(atLeast, 1_004_500);
        Assert.Equal(expected, d.Verdict);
        if (expected == GateVerdict.FastForward) Assert.Equal(new VersionNumber(atLeast), d.Version);
    }

    [Theory]
    [InlineData(1_009_000 + 1, GateVerdict.FastForward)]
    [InlineData(1_009_000, GateVerdict.FastForward)]
    [InlineData(1_009_000 - 1, GateVerdict.WaitUntil)]
    [InlineData(1_009_000 - ClockErrorUs, GateVerdict.WaitUntil)]
    [InlineData(1_009_000 - ClockErrorUs - 1, GateVerdict.FastForward)]
    [InlineData(1_009_000 - AheadMaxUs, GateVerdict.FastForward)]
    [InlineData(1_009_000 - AheadMaxUs - 1, GateVerdict.RefuseAhead)]
    [InlineData(0, GateVerdict.RefuseAhead)]
    public void Decide_HowFarAheadByTheClock(long nowUs, GateVerdict expected)
    {
        GateDecision d = Decide(10, nowUs);
        Assert.Equal(expected, d.Verdict);
        Assert.Equal(expected == GateVerdict.WaitUntil ? At(1_009_000) : default, d.Until);
        Assert.Equal(expected == GateVerdict.FastForward ? new(10) : default(VersionNumber), d.Version);
    }

    [Fact]
    public void Decide_FastForwardedAlready_ExecutesWhateverTheClockSays() =>
        Assert.Equal(GateVerdict.Execute, Decide(10, 0, open: 10).Verdict);

    [Fact]
    public void Decide_NonsensicalVersion_IsRefused() =>
        Assert.Equal(GateVerdict.RefuseAhead, Decide(long.MaxValue, 1_004_500).Verdict);

    [Fact]
    public void Decide_NoClockError_NeverWaits()
    {
        BatchGate gate = new(new() { RemoteAheadMaxUs = AheadMaxUs });
        Assert.Equal(GateVerdict.FastForward, gate.Decide(Header(10), Shard(5), At(1_008_999)).Verdict);
    }

    // Section 4.2: "StateObjects execute a request only if their world-lines match. Otherwise, the StateObject either returns
    // an error if its world-line number is larger, or delays execution until after recovery if smaller."
    [Theory]
    [InlineData(1, GateVerdict.Rollback, 7)]
    [InlineData(2, GateVerdict.Rollback, 9)]
    [InlineData(3, GateVerdict.Execute, 0)]
    [InlineData(4, GateVerdict.WaitForWorldLine, 0)]
    [InlineData(9, GateVerdict.WaitForWorldLine, 0)]
    public void Decide_WorldLines(long ofSession, GateVerdict expected, long branch)
    {
        GateDecision d = Gate.Decide(Header(5, ofSession), Shard(12), At(1_011_500));
        Assert.Equal(expected, d.Verdict);
        Assert.Equal(expected == GateVerdict.Rollback ? new(new(3), new(branch)) : default(WorldPoint), d.Branch);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(4)]
    public void Decide_WorldLinesDiffer_VersionsAreNotComparedAtAll(long ofSession) =>
        Assert.NotEqual(GateVerdict.RefuseAhead, Gate.Decide(Header(long.MaxValue, ofSession), Shard(5), At(1_004_500)).Verdict);

    [Fact]
    public void Options_BoundsThatContradict_AreACallersMistake()
    {
        Assert.Throws<ArgumentOutOfRangeException>(() => new BatchGate(new() { ClockErrorUs = -1 }));
        Assert.Throws<ArgumentOutOfRangeException>(() => new BatchGate(new() { ClockErrorUs = 2, RemoteAheadMaxUs = 1 }));
    }

    // Design, section 3: "With e > 0, replies of a version are held until now - e has passed its opening (only replies in the
    // first e after a grid point wait)."
    [Fact]
    public void HoldReplyUntil_IsTheOpeningAndTheClockError()
    {
        Assert.Equal(At(1_009_000 + ClockErrorUs), Gate.HoldReplyUntil(new(10), Grid));
        // With one clock for all: an ordered end may have opened it before its time.
        Assert.Equal(At(1_009_000), new BatchGate(new()).HoldReplyUntil(new(10), Grid));
    }

    // Section 6: "the server-side libDPR computes the response header, including per-operation version information".
    [Fact]
    public void ReplyFor_JoinsRunsOfTheSameVersion()
    {
        WorldPoint cut = new(new(3), new(8));
        VersionRun[] executed = [new(1, new(10)), new(1, new(10)), new(1, new(11)), new(1, new(11))];
        BatchReply reply = BatchGate.ReplyFor(Header(10), executed, cut);
        Assert.Equal((new WorldLine(3), cut), (reply.WorldLine, reply.Cut));
        Assert.Equal([new(2, new(10)), new(2, new(11))], reply.Versions.ToArray());
    }

    [Theory]
    [InlineData(9, 10)]
    [InlineData(11, 10)]
    public void ReplyFor_VersionsGoBack_BreaksAnInvariant(long first, long then)
    {
        BrokenInvariantException e = Assert.Throws<BrokenInvariantException>(
            () => BatchGate.ReplyFor(Header(10), new VersionRun[] { new(3, new(first)), new(1, new(then)) }, default));
        Assert.StartsWith("I1:", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void ReplyFor_OtherCount_IsACallersMistake()
    {
        Assert.Throws<ArgumentException>(() => BatchGate.ReplyFor(Header(10), new VersionRun[] { new(3, new(10)) }, default));
        Assert.Throws<ArgumentException>(() => BatchGate.ReplyFor(Header(10), default, default));
    }

    [Fact]
    public void Decide_AndReplyFor_AllocateNothing()
    {
        BatchHeader header = Header(10);
        GateShard shard = Shard(10);
        VersionRun[] executed = [new(2, new(10)), new(2, new(10))];
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 10_000; i++)
        {
            (executed[0], executed[1]) = (new(2, new(10)), new(2, new(10)));
            Gate.Decide(header, shard, At(1_009_000));
            BatchGate.ReplyFor(header, executed, default);
        }

        Assert.True(GC.GetAllocatedBytesForCurrentThread() - before < 1000);
    }
}
