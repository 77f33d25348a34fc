// A failover as its manager performs it (the paper, section 5.6), and what the site's SQL says of it, each rule by itself.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Sites;

public class FailoverTests
{
    private static readonly SiteState Following = SiteState.BackupOf(2, SiteEpoch.First) with
    {
        Streams = [new(1, StreamPhase.Counts, Sender(3), Owner: 5), new(1, StreamPhase.Counts, Sender(4), Owner: 6)],
    };

    private static readonly SiteState Taken = Following.Take([]).After!;

    // "Triggering recovery at the backup site leads to a number of steps": the whole way.
    [Fact]
    public void Failover_NothingFails_GoesThroughItsSteps()
    {
        SiteState state = Following;
        Failover failover = new(state, 0);
        Assert.IsType<FailoverStep.Take>(failover.Next(0));
        failover.Read(state = state.Take([]).After!);
        Assert.Equal((SiteRole.FailingOver, new SiteEpoch(1)), (state.Role, state.Epoch));
        // The other site hears of it when it is so, and once.
        Assert.Equal(new FailoverStep.TellDeposed(new(1)), failover.Next(0));
        Assert.Equal([new(0), new(1)], Assert.IsType<FailoverStep.AskFinals>(failover.Next(0)).Of);
        failover.Reported(new(new(1), new(0), 1, 5, Point("1:8")), 1);
        Assert.Equal([new(1)], Assert.IsType<FailoverStep.AskFinals>(failover.Next(1)).Of);
        failover.Reported(new(new(1), new(1), 1, 6, Point("1:7")), 2);
        // "The watermark service thus receives final messages from all backup shards, and broadcasts the final global watermark".
        Assert.Equal(new FailoverStep.Decide(new(1), Point("1:7")), failover.Next(2));
        failover.Read(state = state.Decide(new(1), Point("1:7")).After!);
        Assert.Equal([new(0), new(1)], Assert.IsType<FailoverStep.AskReady>(failover.Next(3)).Of);
        Assert.True(failover.Ready(new(1), Ready(0, 5)));
        Assert.Equal([Ready(0, 5)], Assert.IsType<FailoverStep.Open>(failover.Next(3)).Streams);
        failover.Read(state.Open(new(1), Ready(0, 5)).After!);
        Assert.Equal([new(1)], Assert.IsType<FailoverStep.AskReady>(failover.Next(3)).Of);
        state = state.Open(new(1), Ready(0, 5)).After!;
        Assert.Equal(SiteRole.FailingOver, state.Role);
        // "Once the watermark service receives recovery completion messages from all shards, the backup is designated to have recovered."
        failover.Read(state = state.Open(new(1), Ready(1, 6)).After!);
        Assert.Equal(SiteRole.Primary, state.Role);
        Assert.IsType<FailoverStep.Done>(failover.Next(4));
    }

    // Another failover's, of another life of the stream, no final one at all, or of a receiver that was deposed.
    [Theory]
    [InlineData(0, 1, 5)]
    [InlineData(2, 1, 5)]
    [InlineData(1, 2, 5)]
    [InlineData(1, 1, 4)]
    public void Report_ThatIsNotThisOnes_DoesNotCount(long number, long generation, long owner)
    {
        Failover failover = new(Taken, 0);
        failover.Reported(new(new(number), new(0), generation, owner, Point("1:3")), 1);
        Assert.Contains(new(0), Assert.IsType<FailoverStep.AskFinals>(Next(failover, 1)).Of);
    }

    [Theory]
    [InlineData((int)ShipMutation.StaleFinalCounts, 0, 5)]
    [InlineData((int)ShipMutation.DeposedFinalCounts, 1, 4)]
    public void Report_RuleIsOff_Counts(int mutation, long number, long owner)
    {
        Failover failover = new(Taken, 0, (ShipMutation)mutation);
        failover.Reported(new(new(number), new(0), 1, owner, Point("1:3")), 1);
        Assert.DoesNotContain(new(0), Assert.IsType<FailoverStep.AskFinals>(Next(failover, 1)).Of);
    }

    // Who takes a stream while the failover is under way is frozen from its start: it and the one before say the same.
    [Fact]
    public void Report_OfAReceiverThatStartedSince_Counts()
    {
        Failover failover = new(Taken.TakeStream(new(0), 9), 0);
        failover.Reported(new(new(1), new(0), 1, 9, Point("1:8")), 1);
        failover.Reported(new(new(1), new(1), 1, 6, Point("1:9")), 1);
        Assert.Equal(new FailoverStep.Decide(new(1), Point("1:8")), Next(failover, 1));
    }

    // The shard was opened for a process that is gone: the site is no primary before the next one is ready, or nobody would own the shard.
    [Fact]
    public void Open_ForAProcessThatIsGone_DoesNotCount()
    {
        SiteState state = Taken.Decide(new(1), Point("1:8")).After!.Open(new(1), Ready(0, 5)).After!.TakeStream(new(0), 9);
        Assert.False(state.Streams[0].IsOpen);
        state = state.Open(new(1), Ready(1, 6)).After!;
        Assert.Equal(SiteRole.FailingOver, state.Role);
        Assert.Null(state.Open(new(1), Ready(0, 5)).After);
        Assert.Equal(SiteRole.Primary, state.Open(new(1), Ready(0, 9)).After!.Role);
        Assert.NotNull(state.Open(new(1), Ready(0, 5), ShipMutation.OpensForAnyOwner).After);
    }

    [Fact]
    public void Lease_IsAwaitedFromTheLastFinalReport()
    {
        Failover failover = new(Taken, 100);
        failover.Reported(new(new(1), new(0), 1, 5, Point("1:8")), 10);
        failover.Reported(new(new(1), new(1), 1, 6, Point("1:9")), 30);
        Assert.Equal(new FailoverStep.AwaitLease(130), Next(failover, 40));
        Assert.IsType<FailoverStep.Decide>(failover.Next(130));
    }

    // Another failover's, no stream, a process that is gone, or one whose shard is open already.
    [Theory]
    [InlineData(2, 0, 9)]
    [InlineData(1, 2, 9)]
    [InlineData(1, 0, 5)]
    [InlineData(1, 1, 6)]
    public void Ready_ThatIsNotThisOnes_OpensNothing(long number, int stream, long owner)
    {
        SiteState state = Taken.Decide(new(1), Point("1:8")).After!.TakeStream(new(0), 9);
        Failover failover = new(state.Open(new(1), Ready(1, 6)).After!, 0);
        Assert.False(failover.Ready(new(number), Ready(stream, owner)));
        Assert.IsType<FailoverStep.AskReady>(Next(failover, 1));
    }

    // Of two processes that say so the later one has the stream, whatever SQL said when it was read.
    [Fact]
    public void Ready_OfAReceiverThatStartedSince_Counts()
    {
        Failover failover = new(Taken.Decide(new(1), Point("1:8")).After!, 0);
        Assert.True(failover.Ready(new(1), Ready(0, 9)));
        Assert.False(failover.Ready(new(1), Ready(0, 5)));
        Assert.True(failover.Ready(new(1), Ready(1, 6)));
        Assert.Equal([Ready(0, 9), Ready(1, 6)], Assert.IsType<FailoverStep.Open>(Next(failover, 1)).Streams);
    }

    // The backup may refuse, and then the primary has to go on.
    [Fact]
    public void Deposed_RuleIsOff_IsToldBeforeItIsSo() => Assert.Equal(new FailoverStep.TellDeposed(new(1)),
        new Failover(Following, 0, ShipMutation.DeposesBeforeTaken).Next(0));

    [Theory]
    [InlineData(SiteRole.Primary)]
    [InlineData(SiteRole.HandingOver)]
    [InlineData(SiteRole.Deposed)]
    public void Stream_OfASiteThatIsNoBackup_IsNotTaken(SiteRole role) =>
        Assert.Equal(6, (Following with { Role = role }).TakeStream(new(1), 9).Streams[1].Owner);

    [Fact]
    public void Failover_AllIsLost_IsRefused() =>
        Assert.IsType<FailoverStep.Refused>(Next(new Failover(Following.Take([0, 1]).After!, 0), 0));

    // The command dies at any step, and is given again.
    [Fact]
    public void Failover_GivenAgain_GoesOnWithTheSame()
    {
        Assert.Same(Taken, Taken.Take([0]).After);
        SiteState decided = Taken.Decide(new(1), Point("1:8")).After!;
        Assert.Equal(Point("1:8"), decided.Decide(new(1), Point("1:5")).After!.Final);
        Assert.IsType<FailoverStep.AskReady>(Next(new Failover(decided, 0), 0));
        Assert.Null(Taken.Decide(new(2), Point("1:8")).After);
        Assert.Null(Taken.Open(new(1), Ready(0, 5)).After);
    }

    [Theory]
    [InlineData(StreamPhase.Empty)]
    [InlineData(StreamPhase.Follows)]
    public void Take_AStreamIsBeingSeeded_IsRefusedUnlessItIsNamed(StreamPhase phase)
    {
        SiteState state = Following with { Streams = Following.Streams.SetItem(1, Following.Streams[1] with { Phase = phase }) };
        Assert.Contains("shard 1 is being seeded", state.Take([]).Error, StringComparison.Ordinal);
        SiteState taken = state.Take([1]).After!;
        Failover failover = new(taken, 0);
        failover.Reported(new(new(1), new(0), 1, 5, Point("1:8")), 1);
        Assert.Equal(new FailoverStep.Decide(new(1), Point("1:8")), Next(failover, 1));
        taken = taken.Decide(new(1), Point("1:8")).After!;
        Assert.Equal(SiteRole.Primary, taken.Open(new(1), Ready(0, 5)).After!.Role);
    }

    [Fact]
    public void Lose_ADiskIsGoneDuringTheFailover_ItGoesOnWithout()
    {
        Assert.Null(Following.Lose(new(1)).After);
        Failover failover = new(Taken.Lose(new(1)).After!, 0);
        failover.Reported(new(new(1), new(0), 1, 5, Point("1:8")), 1);
        Assert.IsType<FailoverStep.Decide>(Next(failover, 1));
        Assert.Null(Taken.Decide(new(1), Point("1:8")).After!.Lose(new(1)).After);
    }

    [Fact]
    public void Take_OfNoBackup_IsRefused()
    {
        Assert.NotNull(SiteState.Alone.Take([]).Error);
        Assert.IsType<FailoverStep.Refused>(new Failover(SiteState.Alone, 0).Next(0));
        SiteState deposed = SiteState.Alone.DeposedBy(new(1));
        Assert.Equal((SiteRole.Deposed, new SiteEpoch(1)), (deposed.Role, deposed.Epoch));
        Assert.NotNull(deposed.Take([]).Error);
        Assert.Same(deposed, deposed.DeposedBy(new(1)));
        // It becomes the other's backup; nothing of what it has is used.
        SiteState following = deposed.Follow(2, new(1)).After!;
        Assert.Equal((SiteRole.Backup, new SiteEpoch(1)), (following.Role, following.Epoch));
        Assert.All(following.Streams, s => Assert.Equal(StreamPhase.Empty, s.Phase));
        // What its disks hold from a time at which it was a backup before is of another life.
        Assert.Equal([4, 1], (deposed with { Streams = [new(3, StreamPhase.Counts, default)] }).Follow(2, new(1)).After!.Streams.Select(
            s => s.Generation));
        Assert.NotNull(deposed.Follow(2, new(0)).Error);
        Assert.NotNull(SiteState.Alone.Follow(2, new(1)).Error);
    }

    // A deposed sender is refused for good: what SQL has noted outlives every process.
    [Fact]
    public void Admit_OnlyTheNewestSender()
    {
        (SiteState state, Sender? newest) = Following.Admit(new(0), Sender(8));
        Assert.Equal(Sender(8), newest);
        Assert.Equal(Sender(8), state.Admit(new(0), Sender(7)).Newest);
        Assert.Equal(Sender(8), state.Admit(new(0), Sender(8)).Newest);
        Assert.Equal(new Sender(new(1), 0, 0), Taken.Admit(new(0), Sender(9)).Newest);
        // The other site has taken over from this one's primary before: its epoch comes with its senders.
        (state, newest) = Following.Admit(new(0), Sender(1, site: 2));
        Assert.Equal((Sender(1, site: 2), new SiteEpoch(2)), (newest!.Value, state.Epoch));
        Assert.Equal(new Sender(new(2), 0, 0), state.Admit(new(1), Sender(99)).Newest);
    }

    [Fact]
    public void Seeding_LateWords_ChangeNothing()
    {
        SiteState again = Following.Reseed(new(0), 1).After!;
        Assert.Equal((2, StreamPhase.Empty), (again.Streams[0].Generation, again.Streams[0].Phase));
        Assert.Same(again, again.Reseed(new(0), 1).After);
        Assert.Same(again, again.Reseed(new(0), 2).After);
        Assert.Same(again, again.Seeded(new(0), 1));
        Assert.Equal(StreamPhase.Follows, again.Seeded(new(0), 2).Streams[0].Phase);
        Assert.Same(again, again.Count(new(0), 1));
        Assert.Equal(StreamPhase.Counts, again.Seeded(new(0), 2).Count(new(0), 2).Streams[0].Phase);
        Assert.NotNull(Taken.Reseed(new(0), 1).Error);
    }

    private static ReadyStream Ready(int stream, long owner) => new(new(stream), owner, "");

    // What comes behind the word to the other site.
    private static FailoverStep Next(Failover failover, long nowUs) =>
        failover.Next(nowUs) is var step and not FailoverStep.TellDeposed ? step : failover.Next(nowUs);
}
