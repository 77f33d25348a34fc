// The checker's rules one by one, on histories written by hand.
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Model;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Harness;

public sealed class PrefixCheckerTests
{
    private static readonly WriterProfile Shared = new("shared", 1, UsesDpr: true);

    [Fact]
    public void RealTime_LaterCommandSurvivesEarlierAnsweredLost_IsBroken()
    {
        var first = History(0, (Sent: 10, Replied: 20));
        var second = History(1, (Sent: 30, Replied: 40));
        Assert.Equal([ViolationKind.OrderBroken], Kinds([first, second], kept: [0, 1]));
        Assert.Empty(Kinds([first, second], kept: [1, 0]));
        Assert.Empty(Kinds([first, second], kept: [0, 0]));
        Assert.Empty(Kinds([first, second], kept: [1, 1]));
    }

    [Fact]
    public void RealTime_OverlappingCommands_MaySurviveInAnyOrder()
    {
        var first = History(0, (Sent: 10, Replied: 35));
        var second = History(1, (Sent: 30, Replied: 40));
        Assert.Empty(Kinds([first, second], kept: [0, 1]));
        Assert.Empty(Kinds([first, second], kept: [1, 0]));
    }

    [Fact]
    public void Committed_BelowSurvivingPrefix_IsFineAboveItIsLost()
    {
        var history = History(0, (10, 20), (30, 40), (50, 60));
        history.Committed = 2;
        Assert.Empty(Kinds([history], kept: [2]));
        Assert.Equal([ViolationKind.CommittedLost], Kinds([history], kept: [1]));
    }

    [Fact]
    public void Survivor_AsTold_MustBeTheStatesLessUncertainOnes()
    {
        var history = History(0, (10, 20), (30, 40), (50, 60));
        history.Rollback = new RollbackNotice(2, 1, []);
        Assert.Empty(Kinds([history], kept: [1]));
        Assert.Equal([ViolationKind.WrongSurvivor], Kinds([history], kept: [2]));
        Assert.Equal([ViolationKind.WrongSurvivor], Kinds([history], kept: [0]));
        history.Rollback = new RollbackNotice(2, 1, [(2, 2)]);
        Assert.Empty(Kinds([history], kept: [2], sharedIsExact: false));
        Assert.Equal([ViolationKind.WrongSurvivor], Kinds([history], kept: [3], sharedIsExact: false));
        Assert.Equal([ViolationKind.WrongSurvivor], Kinds([history], kept: [2], sharedIsExact: true));
    }

    [Fact]
    public void Reference_ToALostCommand_IsBroken()
    {
        var first = History(0, (10, 60));
        var second = History(1, (30, 40));
        second.Commands.Clear();
        second.Fingerprints.RemoveAt(1);
        Add(second, ["SET", "w1:r", "1:0:1"], 30, 40);
        Assert.Equal([ViolationKind.ReferenceBroken], Kinds([first, second], kept: [0, 1]));
        Assert.Empty(Kinds([first, second], kept: [1, 1]));
    }

    [Fact]
    public void HandOff_ListAfterRecovery_MustBePushedLessPopped()
    {
        var pushing = (History(0), new WriterOutcome(2, 3, new KeyspaceModel()));
        foreach (string element in (string[])["a", "b", "c", "d"])
        {
            Add(pushing.Item1, ["RPUSH", "w1:q", element], 1, 2);
        }

        var popping = (History(1), new WriterOutcome(1, 1, new KeyspaceModel()));
        Add(popping.Item1, ["BLPOP", "w1:q", "1"], 1, 2);
        popping.Item1.Commands[0].Popped = "z";
        Assert.Empty(HandOffCheck.Check(["z"], pushing, popping, ["a", "b"]));
        Assert.Empty(HandOffCheck.Check(["z"], pushing, popping, ["a", "b", "c"]));
        Assert.Single(HandOffCheck.Check(["z"], pushing, popping, ["z", "a", "b"]));
        Assert.Single(HandOffCheck.Check(["z"], pushing, popping, ["a", "b", "c", "d"]));
        Assert.Single(HandOffCheck.Check(["z"], pushing, popping, ["b", "a"]));
        Assert.Single(HandOffCheck.Check(["y"], pushing, popping, ["a", "b"]));
    }

    private static WriterHistory History(int writer, params (long Sent, long Replied)[] sets)
    {
        var history = new WriterHistory(writer, Shared, new KeyspaceModel(), 0);
        for (int i = 0; i < sets.Length; i++)
        {
            Add(history, ["SET", $"w{writer}:s0", $"{i + 1}"], sets[i].Sent, sets[i].Replied);
        }

        return history;
    }

    private static void Add(WriterHistory history, string[] command, long sent, long replied)
    {
        var state = StateAfter(history, history.Commands.Count);
        state.Apply(command);
        history.Commands.Add(new Issued(command) { SentAt = sent, RepliedAt = replied, Fate = Fate.Answered, HasEffect = state.Fingerprint != history.Fingerprints[^1] });
        history.Fingerprints.Add(state.Fingerprint);
        history.Acknowledged++;
    }

    private static KeyspaceModel StateAfter(WriterHistory history, int k)
    {
        var state = history.Start.Clone();
        foreach (var command in history.Commands.Take(k))
        {
            state.Apply(command.Arguments);
        }

        return state;
    }

    private static ViolationKind[] Kinds(WriterHistory[] histories, int[] kept, bool sharedIsExact = true)
    {
        var entries = histories.SelectMany((h, i) => StateAfter(h, kept[i]).Entries).ToDictionary();
        var result = PrefixChecker.Check(histories, new ObservedState(entries, 0, 0), new CheckRules(1, SharedIsExact: sharedIsExact));
        return [.. result.Violations.Select(v => v.Kind)];
    }
}
