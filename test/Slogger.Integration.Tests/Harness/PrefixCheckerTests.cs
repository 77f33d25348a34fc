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
        history.NoticeAt = 3;
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

    [Theory]
    [InlineData("", false, false, 0, "")]
    [InlineData("5", false, false, 0, "")]
    [InlineData("5,6", false, false, 0, "")]
    [InlineData("6", false, false, 0, "NotAPrefix")]        // not in order
    [InlineData("-4", false, false, 0, "NotAPrefix")]       // answered, and lost although nothing was killed again
    [InlineData("-4", true, false, 0, "NotAPrefix")]        // it would have been told
    [InlineData("-4", true, true, 0, "")]
    [InlineData("-3,-4", true, true, 0, "")]
    [InlineData("-3,-4", true, true, 3, "NotAPrefix")]      // reported committed
    [InlineData("-3", true, true, 0, "NotAPrefix")]         // a later one survived an earlier one
    [InlineData("2", false, false, 0, "NotAPrefix")]        // refused with the notice
    public void BehindANotice_WhatWasAnsweredRanAndTheRestMayHave(string change, bool killedAgain, bool ended, int committedLater,
        string expected)
    {
        // 1 survived, 2 was answered with the notice; 3 and 4 were answered behind it, 5 and 6 were not.
        var history = new WriterHistory(0, Shared, new KeyspaceModel(), 0);
        for (int i = 1; i <= 6; i++)
        {
            Add(history, ["SET", $"w0:s{i}", "v"], 10 * i, (10 * i) + 5);
        }

        foreach (var (k, fate) in ((int, Fate)[])[(2, Fate.Refused), (3, Fate.AnsweredAfterRollback), (4, Fate.AnsweredAfterRollback),
            (5, Fate.Unanswered), (6, Fate.Unanswered)])
        {
            history.Commands[k - 1].Fate = fate;
        }

        (history.Acknowledged, history.Rollback, history.NoticeAt) = (1, new RollbackNotice(2, 1, []), 2);
        (history.Ended, history.CommittedLater) = (ended, committedLater);
        var ran = new HashSet<int> { 1, 3, 4 };
        foreach (int k in change.Split(',', StringSplitOptions.RemoveEmptyEntries).Select(int.Parse))
        {
            _ = k < 0 ? ran.Remove(-k) : ran.Add(k);
        }

        var state = new KeyspaceModel();
        foreach (int k in ran)
        {
            state.Apply(history.Commands[k - 1].Arguments);
        }

        var result = PrefixChecker.Check([history], new ObservedState(state.Entries, 0, 0),
            new CheckRules(1, MayBeKilledAgain: killedAgain));
        Assert.Equal(expected, string.Join(' ', result.Violations.Select(v => v.Kind)));
    }

    [Theory]
    [InlineData("", "")]                  // the connection ended before anything behind the notice ran
    [InlineData("3", "")]
    [InlineData("4", "")]                 // 3 was refused with the notice, 4 ran
    [InlineData("3,5", "NotAPrefix")]     // what ran is one piece
    public void BehindANotice_NothingAnswered_OnePieceMayHaveRun(string ran, string expected)
    {
        var history = new WriterHistory(0, Shared, new KeyspaceModel(), 0);
        for (int i = 1; i <= 5; i++)
        {
            Add(history, ["SET", $"w0:s{i}", "v"], 10 * i, (10 * i) + 5);
            history.Commands[i - 1].Fate = i == 1 ? Fate.Answered : i == 2 ? Fate.Refused : Fate.Unanswered;
        }

        (history.Acknowledged, history.Rollback, history.NoticeAt, history.Ended) = (1, new RollbackNotice(2, 1, []), 2, true);
        var state = new KeyspaceModel();
        foreach (int k in ran.Split(',', StringSplitOptions.RemoveEmptyEntries).Select(int.Parse).Prepend(1))
        {
            state.Apply(history.Commands[k - 1].Arguments);
        }

        var result = PrefixChecker.Check([history], new ObservedState(state.Entries, 0, 0), new CheckRules(1));
        Assert.Equal(expected, string.Join(' ', result.Violations.Select(v => v.Kind)));
    }

    [Fact]
    public void HandOff_PushedBehindANotice_OnlyWhatMayHaveRunIsThere()
    {
        var history = History(0);
        foreach (string element in (string[])["a", "lost", "c", "d"])
        {
            Add(history, ["RPUSH", "w1:q", element], 1, 2);
        }

        Issued[] later = [history.Commands[2]];
        var pushing = (history, new WriterOutcome(1, 1, new KeyspaceModel()) { Later = [later, [.. later, history.Commands[3]]] });
        var popping = (History(1), new WriterOutcome(0, 0, new KeyspaceModel()));
        Assert.Empty(HandOffCheck.Check([], pushing, popping, ["a", "c"]));
        Assert.Empty(HandOffCheck.Check([], pushing, popping, ["a", "c", "d"]));
        Assert.Single(HandOffCheck.Check([], pushing, popping, ["a"]));
        Assert.Single(HandOffCheck.Check([], pushing, popping, ["a", "d"]));
        Assert.Single(HandOffCheck.Check([], pushing, popping, ["a", "lost", "c"]));
    }

    [Fact]
    public void Survivor_AnsweredCommandsUncertainBesideAScript_OnlyThoseNearIt()
    {
        var history = History(0, (10, 20), (30, 40), (50, 60));
        history.Rollback = new RollbackNotice(2, 1, [(2, 3)]);
        history.NoticeAt = 3;
        Assert.Equal([ViolationKind.WrongSurvivor], Kinds([history], kept: [1]));
        history.Acknowledged = 1; // 2 and 3 were not answered
        Assert.Empty(Kinds([history], kept: [1]));
        Assert.Empty(Kinds([history], kept: [2]));
    }

    [Theory]
    [InlineData(0, "WrongSurvivor")]
    [InlineData(1, "")]
    [InlineData(3, "")]
    [InlineData(4, "")]                   // all of the pipeline ran, and none of its replies came
    [InlineData(5, "NotAPrefix")]         // sent behind the pipeline: it was not uncertain
    public void Survivor_NoticeIsTheFirstReplyOfAPipeline_AllThatIsUncertainMayBeThere(int kept, string expected)
    {
        var history = new WriterHistory(0, Shared, new KeyspaceModel(), 0);
        for (int i = 1; i <= 5; i++)
        {
            Add(history, ["SET", $"w0:s{i}", "v"], 10 * i, (10 * i) + 5);
            history.Commands[i - 1].Fate = i == 1 ? Fate.Answered : Fate.Refused;
        }

        history.Acknowledged = 1;
        history.OnNotice(new RollbackNotice(2, 1, [(2, 4)]), repliedTo: 2);
        Assert.Equal(expected, string.Join(' ', Kinds([history], kept: [kept])));
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
        history.Commands.Add(new Issued(command) { SentAt = sent, RepliedAt = replied, Fate = Fate.Answered,
            HasEffect = state.Fingerprint != history.Fingerprints[^1] });
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
