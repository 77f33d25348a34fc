// A move of slots step by step (paper, section 5.3; design, section 7): what each side does and serves after each step, and
// what a crash of either side before and after the step leads to. "The old owner renounces ownership locally before updating
// the metadata store; the key is temporarily without an owner during transfer"; "we defer ownership transfer to checkpoint
// boundaries, such that ownership is static within versions".
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Ownership;

public class PartitionMoveTests
{
    private static readonly ShardId A = new(0), B = new(1);
    private static readonly HashSlot Slot = new(7);
    private static readonly ImmutableArray<SlotRange> Slots = [new(Slot, Slot)];
    private readonly List<MoveEffect> _effects = [];
    private OwnershipTable _table = new(MapRevision.First, new(1), SlotMap.Even(2), []);
    private ShardOwnership _a;
    private ShardOwnership _b;
    private long _attempt;
    private long _epochA = 1, _epochB = 1;

    public PartitionMoveTests()
    {
        _table = _table.Plan(Slots, B, out _)!;
        _a = Start(A, 1);
        _b = Start(B, 1);
    }

    // What is remembered is bounded, and before that nothing is said to be known.
    [Fact]
    public void Past_OfManyMoves_GoesBackToWhereAllAreRemembered()
    {
        OwnershipTable table = new(MapRevision.First, new(1), SlotMap.Even(2), []);
        for (int i = 1; i <= OwnershipTable.PastMax + 5; i++)
        {
            ShardId from = table.Map.Owner(Slot), to = from == A ? B : A;
            table = table.Plan(Slots, to, out _)!;
            foreach ((MoveState next, ShardId by, long version) in ((MoveState, ShardId, long)[])
                [(MoveState.Leaving, from, 10 * i), (MoveState.Landed, to, (10 * i) + 2), (MoveState.Finished, from, (10 * i) + 5)])
            {
                SlotMove row = table.Moves[0];
                (ChangeOutcome outcome, table) = table.Apply(new(row.Id, new(1), row.Changed, row.State, next, new(version), by, new(1)),
                    new(1));
                Assert.Equal(ChangeOutcome.Applied, outcome);
            }
        }

        Assert.Equal((OwnershipTable.PastMax, 52), (table.Past.Length, table.KnownFrom.Number));
        for (int i = 6; i <= OwnershipTable.PastMax + 5; i++)
        {
            ShardId before = i % 2 == 0 ? B : A;
            Assert.Equal(before, table.MapAt(new((10 * i) + 1)).Owner(Slot));
            Assert.Equal(before == A ? B : A, table.MapAt(new((10 * i) + 2)).Owner(Slot));
        }
    }

    // While the last changes are copied it may land in a version that is committed.
    [Fact]
    public void OwnersOfAVersion_AreCertain_UnlessAMoveIsLeavingBelowIt()
    {
        OwnershipTable table = _table;
        Assert.True(table.IsCertainAt(new(100)));
        table = Next(table, MoveState.Leaving, A, 10);
        Assert.Equal((true, false), (table.IsCertainAt(new(10)), table.IsCertainAt(new(11))));
        table = Next(table, MoveState.Landed, B, 12);
        Assert.True(table.IsCertainAt(new(100)));
        for (int i = 0; i < 2; i++)
        {
            Assert.Equal([A, B], table.OwnersIn(new(11), new(12)));
            Assert.Equal(12, table.NextLanding(B, new(11))?.Number);
            Assert.Null(table.NextLanding(B, new(12)));
            Assert.Null(table.NextLanding(new(2), default));
            // Up to the landing all was done at the old one.
            Assert.Null(table.BroughtBefore(Slot, new(12)));
            Assert.Equal(A, table.BroughtBefore(Slot, new(13))!.From);
            Assert.Null(table.BroughtBefore(new(8), new(13)));
            Assert.Null(table.HasSlotsFrom(new(2), default));
            table = Next(table, MoveState.Finished, A, 15);
        }

        // One that joins, and has slots for a time.
        ShardId joined = new(2);
        foreach ((ShardId to, long landing) in ((ShardId, long)[])[(joined, 22), (A, 32)])
        {
            ShardId from = table.Map.Owner(Slot);
            table = Next(table.Plan(Slots, to, out _)!, MoveState.Leaving, from, landing - 2);
            table = Next(Next(table, MoveState.Landed, to, landing), MoveState.Finished, from, landing + 2);
        }

        Assert.Equal([22, 25, null], new[] { 5, 25, 32 }.Select(v => table.HasSlotsFrom(joined, new(v))?.Number));
        Assert.Equal([A, B], table.OwnersIn(new(12), new(21)));
        Assert.Equal([A, B, joined], table.OwnersIn(new(21), new(40)));

        static OwnershipTable Next(OwnershipTable table, MoveState next, ShardId by, long version)
        {
            if (table.Moves is not [var row]) return table;
            MoveChange change = new(row.Id, new(1), row.Changed, row.State, next, new(version), by, new(1));
            (ChangeOutcome outcome, table) = table.Apply(change, new(1));
            Assert.Equal(ChangeOutcome.Applied, outcome);
            return table;
        }
    }

    [Fact]
    public void Move_NoFailure_GoesStepByStep()
    {
        Assert.Equal(("Serve", "Moved"), Verdicts);
        Assert.Equal("Withhold", Do(e => Assert.True(_a.Ready(Id, new(1), e))));
        Assert.Equal(("Wait", "Moved"), Verdicts);
        Assert.Equal("", Do(e => Assert.True(_a.Ready(Id, new(1), e))));
        Assert.Equal("Write Leaving 10", Do(e => _a.Withheld(Id, _attempt, new(new(1), new(10)), e)));
        Perform();
        Assert.Equal("", Do(e => _a.Withheld(Id, _attempt, new(new(1), new(11)), e)));
        Assert.Equal("", Read(_b));
        Assert.Equal("", Read(_a));
        Assert.Equal(("Wait", "Moved"), Verdicts);
        Assert.Equal("", Do(e => _b.BoundaryClosed(new(new(1), new(11)), e)));
        Assert.Equal("", Do(e => _b.Copied(Id, Row, new(new(1), new(15)), e)));
        Assert.Equal("", Do(e => _b.BoundaryClosed(new(new(1), new(14)), e)));
        Assert.Equal("Write Landed 15", Do(e => _b.BoundaryClosed(new(new(1), new(15)), e)));
        Assert.Equal(("Wait", "Moved"), Verdicts);
        Perform();
        Assert.Equal("", Read(_b));
        Assert.Equal(("Wait", "Serve"), Verdicts);
        Assert.Equal("", Read(_a));
        Assert.Equal(("Moved", "Serve"), Verdicts);
        Assert.Equal("", Do(e => _a.CutRecorded(new(new(1), new(14)), e)));
        Assert.Equal("Discard", Do(e => _a.CutRecorded(new(new(1), new(15)), e)));
        _a.Discarded(Id, new(new(1), new(20)));
        Assert.Equal("", Do(e => _a.CutRecorded(new(new(1), new(20)), e)));
        Assert.Equal("", Do(e => _a.BoundaryClosed(new(new(1), new(19)), e)));
        Assert.Equal("", Do(e => _a.BoundaryClosed(new(new(1), new(22)), e)));
        Assert.Equal("", Do(e => _a.CutRecorded(new(new(1), new(21)), e)));
        Assert.Equal("Write Finished 22", Do(e => _a.CutRecorded(new(new(1), new(22)), e)));
        Assert.Equal(0, _table.Settled.Number);
        Perform();
        Assert.Empty(_table.Moves);
        Assert.Equal(22, _table.Settled.Number);
        Assert.Equal("", Read(_a) + Read(_b));
        Assert.Equal(("Moved", "Serve"), Verdicts);
    }

    [Fact]
    public void Landing_NewOwnersClockIsBehind_WaitsForAVersionBehindTheBoundary()
    {
        Leave(boundary: 10);
        Do(e => _b.Copied(Id, Row, new(new(1), new(8)), e));
        Assert.Equal("", Do(e => _b.BoundaryClosed(new(new(1), new(10)), e)));
        Assert.Equal("Write Landed 11", Do(e => _b.BoundaryClosed(new(new(1), new(11)), e)));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void OldOwnerCrashes_BeforeItsRenunciationIsWritten_ServesAgainAndBeginsAnew(bool wasOnItsWay)
    {
        Do(e => _a.Ready(Id, new(1), e));
        Do(e => _a.Withheld(Id, _attempt, new(new(1), new(10)), e));
        MoveChange late = _effects[^1].Change;
        _a = Start(A, ++_epochA);
        Assert.Equal(("Serve", "Moved"), Verdicts);
        // What the dead process had on its way must not count: its successor serves.
        if (wasOnItsWay) Assert.Equal(ChangeOutcome.Deposed, _table.Apply(late, new(_epochA)).Outcome);
        Assert.Equal("Withhold", Do(e => _a.Ready(Id, new(1), e)));
        Assert.Equal("Write Leaving 12", Do(e => _a.Withheld(Id, _attempt, new(new(1), new(12)), e)));
        Perform();
        Assert.Equal(MoveState.Leaving, _table.Moves[0].State);
    }

    [Fact]
    public void OldOwnerCrashes_AfterItsRenunciationIsWritten_ServesOnlyWhenItIsTakenBack()
    {
        Leave(boundary: 10);
        Do(e => _b.Copied(Id, Row, new(new(1), new(11)), e));
        Do(e => _b.BoundaryClosed(new(new(1), new(11)), e));
        MoveChange landing = _effects[^1].Change;
        _a = Start(A, ++_epochA);
        Assert.Equal("Write Planned 0", Text());
        Assert.Equal(("Wait", "Moved"), Verdicts);
        Perform();
        Assert.Equal("", Read(_a));
        Assert.Equal(("Serve", "Moved"), Verdicts);
        // Of the two writes the metadata took one; and the copy of that time must not count when the slots are withheld again.
        Assert.Equal(ChangeOutcome.Refused, _table.Apply(landing, new(_epochB)).Outcome);
        Read(_b);
        Leave(boundary: 10);
        Assert.Equal(ChangeOutcome.Refused, _table.Apply(landing, new(_epochB)).Outcome);
        Assert.Equal("", Do(e => _b.BoundaryClosed(new(new(1), new(13)), e)));
        Land(14);
        Assert.Equal(("Moved", "Serve"), Verdicts);
    }

    [Fact]
    public void OldOwnerCrashes_NewOneLandsFirst_TheTakingBackIsRefused()
    {
        Leave(boundary: 10);
        _a = Start(A, ++_epochA);
        MoveChange back = _effects[^1].Change;
        Land(11);
        Assert.Equal(ChangeOutcome.Refused, _table.Apply(back, new(_epochA)).Outcome);
        Assert.Equal("", Do(_a.Unanswered));
        Assert.Equal(("Moved", "Serve"), Verdicts);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Copy_ComesToNothing_TheOldOwnerServesAgain(bool isWritten)
    {
        Do(e => _a.Ready(Id, new(1), e));
        Do(e => _a.Withheld(Id, _attempt, new(new(1), new(10)), e));
        MoveChange leaving = _effects[^1].Change;
        if (isWritten) Perform();
        // Not before it is known what became of the renunciation.
        Assert.Equal("", Do(e => _a.NotReady(Id, new(1), e)));
        Assert.Equal(("Wait", "Moved"), Verdicts);
        if (!isWritten)
        {
            Assert.Equal("Write Leaving 10", Do(_a.Unanswered));
            Perform();
        }

        Assert.Equal("Write Planned 0", Read(_a));
        Perform();
        Assert.Equal("", Read(_a));
        Assert.Equal(("Serve", "Moved"), Verdicts);
        Assert.Equal(ChangeOutcome.Refused, _table.Apply(leaving, new(_epochA)).Outcome);
    }

    [Fact]
    public void Withheld_ForAnAttemptBefore_DoesNotCount()
    {
        Do(e => _a.Ready(Id, new(1), e));
        long before = _attempt;
        Do(e => _a.NotReady(Id, new(1), e));
        Assert.Equal("Withhold", Do(e => _a.Ready(Id, new(1), e)));
        // Served in between: what was forwarded then may still be under way.
        Assert.Equal("", Do(e => _a.Withheld(Id, before, new(new(1), new(10)), e)));
        Assert.Equal("Write Leaving 12", Do(e => _a.Withheld(Id, _attempt, new(new(1), new(12)), e)));
    }

    [Fact]
    public void NotReady_BeforeTheRenunciation_TheOldOwnerServesAtOnce()
    {
        Do(e => _a.Ready(Id, new(1), e));
        Assert.Equal("", Do(e => _a.NotReady(Id, new(1), e)));
        Assert.Equal(("Serve", "Moved"), Verdicts);
        Assert.Equal("", Do(e => _a.Withheld(Id, _attempt, new(new(1), new(10)), e)));
    }

    [Fact]
    public void NewOwnerCrashes_WhileItCopies_CopiesAgain()
    {
        Leave(boundary: 10);
        Do(e => _b.Copied(Id, Row, new(new(1), new(12)), e));
        Do(e => _b.BoundaryClosed(new(new(1), new(12)), e));
        MoveChange late = _effects[^1].Change;
        Assert.Equal("Import", StartB());
        Assert.Equal("Write Planned 0", Do(e => _a.NotReady(Id, new(1), e)));
        Perform();
        // Its predecessor's copy is being deleted: that it was complete must not count any more.
        Assert.Equal(ChangeOutcome.Deposed, _table.Apply(late, new(_epochB)).Outcome);
        Assert.Equal("", Do(e => _b.BoundaryClosed(new(new(1), new(13)), e)));
        Read(_a);
        Leave(boundary: 13);
        Land(14);
        Assert.Equal(("Moved", "Serve"), Verdicts);
    }

    [Fact]
    public void NewOwnerCrashes_AfterTheLanding_Serves()
    {
        Leave(boundary: 10);
        Land(12);
        Assert.Equal("", StartB());
        Assert.Equal(("Moved", "Serve"), Verdicts);
    }

    [Fact]
    public void OldOwnerCrashes_WhileItDeletes_DeletesAgainOnceTheCutIsKnown()
    {
        Leave(boundary: 10);
        Land(12);
        Do(e => _a.CutRecorded(new(new(1), new(12)), e));
        _a = Start(A, ++_epochA);
        Assert.Equal("", Do(e => _a.CutRecorded(new(new(1), new(11)), e)));
        Assert.Equal("Discard", Do(e => _a.CutRecorded(new(new(1), new(13)), e)));
    }

    [Theory]
    [InlineData(11, false)]
    [InlineData(12, true)]
    public void Recovery_AfterTheLanding_FindsTheOwnerThatHasTheData(long cut, bool landed)
    {
        Leave(boundary: 10);
        Land(12);
        _table = _table.Recover(new(2), new(cut));
        Assert.Equal(landed ? B : A, _table.Map.Owner(Slot));
        Assert.Equal(landed ? MoveState.Landed : MoveState.Planned, _table.Moves[0].State);
        Read(_a);
        Read(_b);
        Assert.Equal(("Wait", "Wait"), Verdicts);
        Do(e => _a.EnterWorldLine(new(2), e));
        Do(e => _b.EnterWorldLine(new(2), e));
        Assert.Equal(landed ? ("Moved", "Serve") : ("Serve", "Moved"), Verdicts);
    }

    [Fact]
    public void Recovery_WhileLeaving_TheOldOwnerServesAndTheMoveBeginsAgain()
    {
        Leave(boundary: 10);
        MoveId id = Id;
        MapRevision before = Row;
        _table = _table.Recover(new(2), new(20));
        Read(_a);
        Read(_b);
        Do(e => _a.EnterWorldLine(new(2), e));
        Assert.Equal("Import", Do(e => _b.EnterWorldLine(new(2), e)));
        Assert.Equal(("Serve", "Moved"), Verdicts);
        Do(e => _a.Ready(id, new(2), e));
        Do(e => _a.Withheld(id, _attempt, new(new(2), new(30)), e));
        Perform();
        Assert.Equal("", Read(_b));
        // The copy of before the recovery was complete; this one is not.
        Do(e => _b.Copied(id, before, new(new(1), new(12)), e));
        Assert.Equal("", Do(e => _b.BoundaryClosed(new(new(2), new(31)), e)));
        Do(e => _b.Copied(id, Row, new(new(2), new(32)), e));
        Assert.Equal("Write Landed 32", Do(e => _b.BoundaryClosed(new(new(2), new(32)), e)));
    }

    [Fact]
    public void Cancel_WhileLeaving_TheOldOwnerServesAndTheNewOneDeletes()
    {
        Leave(boundary: 10);
        Do(e => _b.Copied(Id, Row, new(new(1), new(11)), e));
        Do(e => _b.BoundaryClosed(new(new(1), new(11)), e));
        MoveChange late = _effects[^1].Change;
        _table = _table.Cancel(Id)!;
        Assert.Equal(ChangeOutcome.Refused, _table.Apply(late, new(_epochB)).Outcome);
        Assert.Equal("", Read(_a));
        Assert.Equal("Discard", Read(_b));
        Assert.Equal(("Serve", "Moved"), Verdicts);
        _b.Discarded(Id, new(new(1), new(13)));
        Do(e => _b.BoundaryClosed(new(new(1), new(13)), e));
        Assert.Equal("Write Finished 13", Do(e => _b.CutRecorded(new(new(1), new(13)), e)));
        // One that is over later may have been over in an earlier version.
        _table = _table with { Settled = new(17) };
        Perform();
        Assert.Empty(_table.Moves);
        Assert.Equal(17, _table.Settled.Number);
    }

    [Fact]
    public void Write_AnswerLost_IsRepeatedAndNothingElseIsDone()
    {
        Do(e => _a.Ready(Id, new(1), e));
        Do(e => _a.Withheld(Id, _attempt, new(new(1), new(10)), e));
        Assert.Equal("Write Leaving 10", Do(_a.Unanswered));
        Perform();
        Assert.Equal("", Do(e => _a.Withheld(Id, _attempt, new(new(1), new(12)), e)));
        Assert.Equal("Write Leaving 10", Do(_a.Unanswered));
        Assert.Equal(ChangeOutcome.AlreadyApplied, _table.Apply(_effects[0].Change, new(_epochA)).Outcome);
        Read(_a);
        Assert.Equal("", Do(_a.Unanswered));
    }

    [Fact]
    public void Ask_NoTableOfTheWorldLine_Waits()
    {
        ShardOwnership fresh = new(A, new(9), new(1));
        Assert.Equal(SlotVerdict.Wait, fresh.Served.Ask(Slot).Verdict);
        Assert.Equal(SlotVerdict.Wait, fresh.Served.Ask(HashSlot.Last).Verdict);
        fresh.Read(_table, _effects);
        Assert.Equal(SlotVerdict.Serve, fresh.Served.Ask(Slot).Verdict);
        Assert.Equal(new(SlotVerdict.Moved, B), fresh.Served.Ask(HashSlot.Last));
        ServedSlots served = fresh.Served;
        fresh.Read(_table, _effects);
        Assert.Same(served, fresh.Served);
        fresh.EnterWorldLine(new(2), _effects);
        Assert.Equal(SlotVerdict.Wait, fresh.Served.Ask(Slot).Verdict);
    }

    [Fact]
    public void Read_OlderTable_IsIgnored()
    {
        OwnershipTable planned = _table;
        Leave(boundary: 10);
        Land(12);
        _b.Read(planned, _effects);
        Assert.Equal(("Moved", "Serve"), Verdicts);
    }

    [Fact]
    public void Plan_SlotsThatCannotMove_SaysWhy()
    {
        Assert.Null(_table.Plan(Slots, B, out string? error));
        Assert.Contains("part of move", error, StringComparison.Ordinal);
        Assert.Null(_table.Plan([new(new(8), new(9))], A, out error));
        Assert.Equal("Shard 0 owns slots 8-9 already.", error);
        Assert.Null(_table.Plan([new(new(8000), new(9000))], B, out error));
        Assert.Contains("one owner at a time", error, StringComparison.Ordinal);
        Assert.Null(_table.Plan([], B, out error));
        Assert.Null(_table.Plan([new(new(3), new(HashSlot.Count))], B, out error));
        Assert.NotNull(_table.Plan([new(new(8), new(9)), new(new(20), new(30))], B, out error));
        Leave(boundary: 10);
        Land(12);
        // Its old data is not deleted yet: coming back now it would be deleted with what comes.
        Assert.Null(_table.Plan(Slots, A, out error));
        Assert.Null(_table.Cancel(Id));
    }

    [Fact]
    public void Apply_StepOfSomebodyElse_IsRefused()
    {
        MoveChange change = new(Id, new(1), Row, MoveState.Planned, MoveState.Leaving, new(5), A, new(1));
        Assert.Throws<ArgumentException>(() => _table.Apply(change with { By = B }, new(1)));
        Assert.Throws<ArgumentException>(() => _table.Apply(change with { Next = MoveState.Landed }, new(1)));
        Assert.Equal(ChangeOutcome.Refused, _table.Apply(change with { WorldLine = new(2) }, new(1)).Outcome);
        Assert.Equal(ChangeOutcome.Refused, _table.Apply(change with { Move = new(99) }, new(1)).Outcome);
        _table = _table.Apply(change, new(1)).Table;
        MoveChange landed = new(Id, new(1), Row, MoveState.Leaving, MoveState.Landed, new(5), B, new(1));
        Assert.Throws<ArgumentException>(() => _table.Apply(landed, new(1)));
        Assert.Equal(ChangeOutcome.Refused, _table.Apply(change with { Version = new(6) }, new(1)).Outcome);
    }

    private MoveId Id => _table.Moves[0].Id;

    private MapRevision Row => _table.Moves[0].Changed;

    private (string A, string B) Verdicts => ($"{_a.Served.Ask(Slot).Verdict}", $"{_b.Served.Ask(Slot).Verdict}");

    private ShardOwnership Start(ShardId shard, long epoch)
    {
        ShardOwnership process = new(shard, new(epoch), new(1));
        Do(e => process.Read(_table, e));
        return process;
    }

    private string StartB()
    {
        _b = Start(B, ++_epochB);
        return Text();
    }

    private void Leave(long boundary)
    {
        Do(e => _a.Ready(Id, new(1), e));
        Do(e => _a.Withheld(Id, _attempt, new(new(1), new(boundary)), e));
        Perform();
        Read(_a);
        Read(_b);
    }

    private void Land(long version)
    {
        Do(e => _b.Copied(Id, Row, new(new(1), new(version)), e));
        Do(e => _b.BoundaryClosed(new(new(1), new(version)), e));
        Perform();
        Read(_a);
        Read(_b);
    }

    private void Perform()
    {
        MoveChange change = _effects.Single(e => e.Kind == MoveEffectKind.Write).Change;
        (ChangeOutcome outcome, _table) = _table.Apply(change, new(change.By == A ? _epochA : _epochB));
        Assert.Equal(ChangeOutcome.Applied, outcome);
    }

    private string Read(ShardOwnership process) => Do(e => process.Read(_table, e));

    private string Do(Action<List<MoveEffect>> input)
    {
        _effects.Clear();
        input(_effects);
        foreach (MoveEffect effect in _effects)
            if (effect.Kind == MoveEffectKind.Withhold) _attempt = effect.Attempt;
        return Text();
    }

    private string Text() =>
        string.Join(", ", _effects.Select(e => e.Kind == MoveEffectKind.Write ? $"Write {e.Change.Next} {e.Change.Version}" : $"{e.Kind}"));
}
