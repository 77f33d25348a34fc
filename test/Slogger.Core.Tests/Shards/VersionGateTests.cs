// The rules of the gate between versions that few cases of the simulator show: each as it is, and switched off.
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Xunit;

namespace Slogger.Core.Tests.Shards;

public class VersionGateTests
{
    private const int None = (int)VersionGateMutation.None;
    private static readonly GateView Connected = new(CanSendMarker: true, IsPaused: false, NeedsMarker: false, IsInFlight: false);
    private static readonly GateView NoCarrier = Connected with { CanSendMarker = false };

    [Theory]
    [InlineData(None, true)]
    [InlineData((int)VersionGateMutation.HeldIsNotBusy, false)]
    public void Release_OfWhatWasHeld_MakesItsVersionBusy(int mutation, bool holds)
    {
        VersionGate gate = WithMarkerInFlight(mutation);
        Assert.True(gate.HoldsDedicated);
        gate.NoteHeld();
        gate.MarkerAnswered(true);
        Assert.Contains(GateStepKind.Release, Steps(gate));
        Assert.Equal(holds, gate.IsBusy);
    }

    [Theory]
    [InlineData(None, true)]
    [InlineData((int)VersionGateMutation.AnsweredAtSend, false)]
    public void LowerBound_MovesOn_WhenTheMarkerIsAnswered(int mutation, bool holds)
    {
        VersionGate gate = WithMarkerInFlight(mutation);
        Assert.Equal(holds ? new VersionNumber(1) : new VersionNumber(2), gate.Answered);
        gate.MarkerAnswered(true);
        Assert.Equal(new VersionNumber(2), gate.Answered);
    }

    [Theory]
    [InlineData(None, true)]
    [InlineData((int)VersionGateMutation.RefusedCounts, false)]
    public void LowerBound_StaysWhereItIs_WhenTheMarkerIsRefused(int mutation, bool holds)
    {
        VersionGate gate = WithMarkerInFlight(mutation);
        gate.MarkerAnswered(false);
        Assert.Equal(holds ? new VersionNumber(1) : new VersionNumber(2), gate.Answered);
    }

    // The marker may be executed yet, behind what were let go.
    [Theory]
    [InlineData(None, true)]
    [InlineData((int)VersionGateMutation.ReleasedAtLoss, false)]
    public void Held_StaysHeld_WhileALostMarkerMayBeExecuted(int mutation, bool holds)
    {
        VersionGate gate = WithMarkerInFlight(mutation);
        gate.CarrierClosed();
        Assert.Equal(holds, !Steps(gate).Contains(GateStepKind.Release));
        Assert.Equal(holds, gate.HoldsDedicated);
        gate.Restart(new(2));
        List<GateStepKind> steps = Steps(gate);
        Assert.Equal(GateStepKind.LoseMarker, steps[0]);
        Assert.False(gate.HoldsDedicated);
    }

    [Theory]
    [InlineData(None, true)]
    [InlineData((int)VersionGateMutation.ClosedLate, false)]
    public void Version_ThatCouldNotBeClosedAtItsEnd_StaysOpenUntilTheNext(int mutation, bool holds)
    {
        VersionGate gate = Open(mutation);
        Assert.True(gate.BeginTurn(100));
        List<GateStepKind> steps = Steps(gate, NoCarrier);
        Assert.Equal(holds, steps.SequenceEqual([GateStepKind.AskEnd]));
        if (holds) { gate.EndsAt(200); }
        // There is a connection again, in the midst of the next version.
        Assert.Equal(!holds, gate.BeginTurn(150));
        if (holds) { Assert.True(gate.BeginTurn(200)); }
        Assert.Equal(GateStepKind.Close, gate.Next(Connected).Kind);
    }

    // Versions that are shorter than the clocks' error: each would hold the replies of the one before it.
    [Fact]
    public void Version_WhoseRepliesWouldWaitForTheNext_DoesNotEndBeforeTheyAreRead()
    {
        VersionGate gate = Open(None);
        gate.HoldReplies(0, 150);
        gate.HoldReplies(50, 200);
        Assert.True(gate.BeginTurn(100));
        Assert.Equal([GateStepKind.AskEnd], Steps(gate));
        Assert.Equal(250, gate.RepliesHeldUntilUs);
        gate.EndsAt(300);
        Assert.True(gate.BeginTurn(300));
        Assert.Equal(GateStepKind.Close, gate.Next(Connected).Kind);
    }

    // Version 1 is open until 100 us.
    private static VersionGate Open(int mutation)
    {
        VersionGate gate = new(new() { IsVersioned = true, IsPunctual = true }, (VersionGateMutation)mutation);
        gate.Restart(new(1));
        Steps(gate);
        gate.EndsAt(100);
        return gate;
    }

    private static VersionGate WithMarkerInFlight(int mutation)
    {
        VersionGate gate = Open(mutation);
        Assert.True(gate.BeginTurn(100));
        Assert.Equal(GateStepKind.Close, gate.Next(Connected).Kind);
        gate.Closing(new(2));
        Assert.Equal(GateStepKind.SendMarker, gate.Next(Connected).Kind);
        Steps(gate);
        Assert.True(gate.IsMarkerInFlight);
        return gate;
    }

    private static List<GateStepKind> Steps(VersionGate gate, GateView? view = null)
    {
        List<GateStepKind> steps = [];
        while (gate.Next(view ?? Connected) is { Kind: not GateStepKind.Rest } step) { steps.Add(step.Kind); }
        return steps;
    }
}
