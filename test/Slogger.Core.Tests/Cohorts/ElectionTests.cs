// The rules of an election, each at one node.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cohorts;

public class ElectionTests
{
    private static readonly NodeName A = new("a"), B = new("b"), C = new("c"), D = new("d");
    private static readonly Cohort Three = new([A, B, C]), Begun = Three.Begun(new(new(1), A));
    private static readonly ElectionOptions Options = new();
    private static readonly Reign First = new(1), Second = new(2), Third = new(3);

    private static LogIndex Log(long reign, long offset) => new(new WorldLine(1), offset, new VersionNumber(offset)) { Reign = new(reign) };

    private static Election Node(NodeName self, Ballot ballot = default, long nowUs = 0, Cohort? cohort = null) =>
        new(self, cohort ?? Three, ballot, nowUs, Options, _ => 0);

    private static NodeView With(LogIndex log) => new(log, StoreFollows: true);

    private static Vote VoteOf(Election node)
    {
        IReadOnlyList<ElectionEffect> effects = node.TakeEffects();
        return Assert.IsType<ElectionEffect.SendVote>(effects[^1]).Vote;
    }

    // A node that leads reign 1, elected by all, since no log has a reign.
    private static Election Leader()
    {
        Election a = Node(A);
        a.Tick(0, With(Log(0, 10)));
        foreach (NodeName other in (NodeName[])[B, C]) { a.Voted(1, new(other, First, IsPre: true, IsYes: true, Reign.None), With(Log(0, 10))); }
        foreach (NodeName other in (NodeName[])[B, C]) { a.Voted(2, new(other, First, IsPre: false, IsYes: true, First), With(Log(0, 10))); }
        Assert.Equal(ElectionState.Leads, a.State);
        a.TakeEffects();
        return a;
    }

    [Fact]
    public void Node_OfANewCohort_AsksAtOnceThenStandsThenLeads()
    {
        Election a = Node(A);
        LogIndex log = Log(0, 10);
        a.Tick(0, With(log));
        Assert.Equal([new ElectionEffect.SendAsk(new(A, First, IsPre: true, log, Reign.None))], a.TakeEffects());
        a.Voted(1, new(B, First, IsPre: true, IsYes: true, Reign.None), With(log));
        // The log is one of before there was a cohort: a majority is not enough.
        Assert.Empty(a.TakeEffects());
        a.Voted(1, new(C, First, IsPre: true, IsYes: true, Reign.None), With(log));
        Assert.Equal([new ElectionEffect.Promise(new(First, A)), new ElectionEffect.SendAsk(new(A, First, IsPre: false, log, Reign.None))],
            a.TakeEffects());
        a.Voted(2, new(B, First, IsPre: false, IsYes: true, First), With(log));
        a.Voted(2, new(C, First, IsPre: false, IsYes: true, First), With(log));
        Assert.Equal([new ElectionEffect.Promise(new(First, A) { Members = Begun }), new ElectionEffect.Begin(First)], a.TakeEffects());
        Assert.Equal((ElectionState.Leads, First, (NodeName?)A), (a.State, a.Reign, a.Leader));
    }

    // The shard had a process of its own before, whose directory is one node's now; the others are new.
    [Fact]
    public void Node_ThatLearns_VotesForALogOfBeforeTheCohort_AndForNoneThatHasAReign()
    {
        Election b = Node(B, new() { Learns = true });
        b.Asked(0, new(A, First, IsPre: true, Log(0, 10), Reign.None), default);
        Assert.True(VoteOf(b).IsYes);
        b.Asked(0, new(A, First, IsPre: true, Log(1, 10), Reign.None), default);
        Assert.False(VoteOf(b).IsYes);
    }

    // It may have lost what it had, and the others refuse the candidate.
    [Fact]
    public void Node_ThatLearns_HasVotedForWhoFounds_LearnsUntilItHearsThatOneLead()
    {
        Election b = Node(B, new() { Learns = true });
        b.Asked(0, new(A, First, IsPre: false, default, Reign.None), default);
        Assert.True(VoteOf(b).IsYes);
        Assert.True(b.Ballot is { Learns: true, Founds: true });
        // One that has no reign either, and one whose log has what this node may have lost.
        b.Asked(1, new(C, Second, IsPre: false, default, Reign.None), default);
        Assert.False(VoteOf(b).IsYes);
        long later = Options.GrantUs + 1;
        b.Asked(later, new(C, Second, IsPre: false, Log(1, 10), Reign.None), default);
        Assert.False(VoteOf(b).IsYes);

        Assert.True(b.Heard(later, First, A, Begun));
        Assert.True(b.Ballot is { Learns: false, Founds: false });
    }

    // It was cut off before the founder was heard, and the founder has lost its disk. The third one alone has what was committed.
    [Fact]
    public void Node_ThatLearns_HasVotedForWhoFounded_VotesForAnotherThatSaysSo()
    {
        Election c = Node(C, new(First, A) { Learns = true, Founds = true });
        long later = Options.GrantUs + 1;
        foreach (Founding? other in (Founding?[])[null, new(First, B), new(Second, A)])
        {
            c.Asked(later, new(B, Second, IsPre: false, Log(1, 10), Reign.None, other), default);
            Assert.False(VoteOf(c).IsYes);
        }
        c.Asked(later, new(B, Second, IsPre: false, Log(1, 10), Reign.None, Begun.Founded), default);
        Assert.True(VoteOf(c).IsYes);
        Assert.Equal(new Ballot(Second, B), c.Ballot);
    }

    // The founder was elected once more while this node was cut off.
    [Fact]
    public void Node_ThatLearns_HasVotedForWhoFounded_HearsALaterReign_VotesAgain()
    {
        Election c = Node(C, new(First, A) { Learns = true, Founds = true });
        Assert.True(c.Heard(1, Second, A, Begun));
        Assert.True(c.Ballot is { Learns: false, Founds: false });
    }

    // It has lost what it had learned since that vote: the same question, which comes once more, is no founding any more.
    [Fact]
    public void Node_BeginsToLearnAfterItHeardItsFounder_IsAskedOnceMore_FoundsNothing()
    {
        Election c = Node(C, new() { Learns = true });
        Ask ask = new(A, First, IsPre: false, default, Reign.None);
        c.Asked(0, ask, default);
        Assert.True(c.Heard(1, First, A, Begun));
        c.BeginLearning();
        c.Asked(2 * Options.GrantUs, ask, default);
        Assert.False(VoteOf(c).IsYes);
        Assert.True(c.Ballot is { Learns: true, Founds: false });
    }

    // Who stands or leads without a log may be the founder. Those that voted for it would forget that when they vote for another one.
    [Fact]
    public void Founder_IsAskedWhetherItWouldVoteForAnother_SaysNo()
    {
        Election a = Node(A);
        a.Tick(0, With(default));
        foreach (NodeName other in (NodeName[])[B, C]) { a.Voted(1, new(other, First, IsPre: true, IsYes: true, Reign.None), With(default)); }
        Assert.Equal(ElectionState.Stands, a.State);
        a.Asked(2, new(B, Second, IsPre: true, default, Reign.None), default);
        Assert.False(VoteOf(a).IsYes);
        foreach (NodeName other in (NodeName[])[B, C]) { a.Voted(3, new(other, First, IsPre: false, IsYes: true, First), With(default)); }
        Assert.Equal(ElectionState.Leads, a.State);
        a.Asked(4, new(B, Second, IsPre: true, default, Reign.None), default);
        Assert.False(VoteOf(a).IsYes);
    }

    [Fact]
    public void Node_HasVotedForWhoFounds_StandsNotBeforeItsGrantIsOver()
    {
        Election b = Node(B, new() { Learns = true });
        b.Asked(0, new(A, First, IsPre: false, default, Reign.None), default);
        Assert.True(b.Tick(1, With(default)) >= Options.GrantUs - Options.AheadUs);
        Assert.Equal(ElectionState.Follows, b.State);
    }

    [Fact]
    public void Founding_GoesWithTheMembers_AndWithTheQuestions()
    {
        Election b = Node(B);
        Assert.True(b.Heard(0, First, A, Begun.With(D, "")));
        b.Tick(Options.GrantUs + 1_000_000, With(Log(1, 10)));
        Assert.Equal(Begun.Founded, Assert.IsType<ElectionEffect.SendAsk>(b.TakeEffects()[^1]).Ask.Founded);
    }

    [Fact]
    public void Node_ThatLearns_HasVotedForWhoFounds_HearsAnother_LearnsOn()
    {
        Election b = Node(B, new() { Learns = true });
        b.Asked(0, new(A, First, IsPre: false, default, Reign.None), default);
        Assert.True(b.Heard(1, Second, C, Three));
        Assert.True(b.Ballot is { Learns: true, Founds: false });
    }

    // It has ended before it was heard. Of two members neither could lead without the other.
    [Fact]
    public void Node_ThatLearns_HasVotedForWhoHasFounded_VotesForItAgain()
    {
        Election b = Node(B, new(First, A) { Learns = true, Founds = true });
        b.Asked(Options.GrantUs + 1, new(A, Second, IsPre: false, Log(1, 10), Reign.None, Begun.Founded), default);
        Assert.True(VoteOf(b).IsYes);
        Assert.True(b.Ballot is { Learns: false, Founds: false });
    }

    [Fact]
    public void Node_ThatLearns_StandsToFound_LearnsUntilItIsElected()
    {
        Election a = Node(A, new() { Learns = true });
        a.Tick(0, With(default));
        foreach (NodeName other in (NodeName[])[B, C]) { a.Voted(1, new(other, First, IsPre: true, IsYes: true, Reign.None), With(default)); }
        Assert.True(a.Ballot is { Learns: true, Founds: true });
        foreach (NodeName other in (NodeName[])[B, C]) { a.Voted(2, new(other, First, IsPre: false, IsYes: true, First), With(default)); }
        Assert.Equal(ElectionState.Leads, a.State);
        Assert.True(a.Ballot is { Learns: false, Founds: false });
    }

    // Its copy has become a log meanwhile. Those that learn have voted for one that has none.
    [Fact]
    public void Node_StandsToFound_HasALogWhenItIsVotedFor_NeedsAllVotesAllTheSame()
    {
        Election a = Node(A);
        a.Tick(0, With(default));
        foreach (NodeName other in (NodeName[])[B, C]) { a.Voted(1, new(other, First, IsPre: true, IsYes: true, Reign.None), With(default)); }
        a.Voted(2, new(B, First, IsPre: false, IsYes: true, First), With(Log(1, 10)));
        Assert.Equal(ElectionState.Stands, a.State);
    }

    [Fact]
    public void Node_MayNotStand_OnlyVotes()
    {
        Election b = Node(B);
        b.Heard(0, First, A, Three);
        b.MayStand = false;
        b.TakeEffects();
        long later = 10 * Options.GrantUs;
        Assert.Equal(long.MaxValue, b.Tick(later, With(Log(1, 10))));
        b.LeadTold(later, new(A, First, null, IsSettled: false, Votes: Second), Log(1, 10));
        Assert.Empty(b.TakeEffects());
        b.Asked(later, new(C, Second, IsPre: false, Log(1, 10), Reign.None), Log(1, 10));
        Assert.True(VoteOf(b).IsYes);
    }

    [Fact]
    public void Node_WithALogOfBeforeTheCohort_VotesForNoneThatHasLess()
    {
        Election a = Node(A);
        a.Asked(0, new(B, First, IsPre: true, default, Reign.None), Log(0, 10));
        Assert.False(VoteOf(a).IsYes);
    }

    [Fact]
    public void Node_AloneInItsCohort_LeadsAtOnce()
    {
        Election a = Node(A, cohort: new([A]));
        a.Tick(0, With(Log(0, 10)));
        Assert.Equal(ElectionState.Leads, a.State);
    }

    [Fact]
    public void Node_ThatHasPromisedBefore_WaitsAfterAStartBeforeItVotesOrStands()
    {
        Election a = Node(A, new(First, B), nowUs: 1000);
        Assert.Equal(1000 + Options.GrantUs - Options.AheadUs, a.Tick(1000, With(Log(1, 10))));
        a.Asked(1000 + Options.GrantUs - 1, new(C, Second, IsPre: false, Log(1, 10), Reign.None), Log(1, 10));
        Assert.False(VoteOf(a).IsYes);
        a.Asked(1000 + Options.GrantUs, new(C, Second, IsPre: false, Log(1, 10), Reign.None), Log(1, 10));
        Assert.True(VoteOf(a).IsYes);
    }

    [Fact]
    public void Follower_WhileItsGrantRuns_NeitherVotesNorStands()
    {
        Election b = Node(B);
        Assert.True(b.Heard(1000, First, A));
        Assert.Equal([new ElectionEffect.Promise(new(First, A))], b.TakeEffects());
        b.Tick(1000 + Options.GrantUs - 1, With(Log(1, 10)));
        b.TakeEffects();
        b.Voted(1000 + Options.GrantUs - 1, new(C, Second, IsPre: true, IsYes: true, First), With(Log(1, 10)));
        Assert.Empty(b.TakeEffects());
        b.Asked(1000 + Options.GrantUs - 1, new(C, Second, IsPre: false, Log(1, 10), Reign.None), Log(1, 10));
        Assert.False(VoteOf(b).IsYes);
        Assert.Equal(First, b.Ballot.Promised);
        b.Asked(1000 + Options.GrantUs, new(C, Second, IsPre: false, Log(1, 10), Reign.None), Log(1, 10));
        Assert.True(VoteOf(b).IsYes);
    }

    // Who has heard its leader just now does not. What it promises is nothing.
    [Fact]
    public void Voter_SaysALittleBeforeItsGrantIsOver_WhenItWouldVote()
    {
        Election b = Node(B);
        b.Heard(1000, First, A);
        b.TakeEffects();
        long overUs = 1000 + Options.GrantUs;
        b.Asked(overUs - Options.AheadUs - 1, new(C, Second, IsPre: true, Log(1, 10), Reign.None), Log(1, 10));
        Assert.False(VoteOf(b).IsYes);
        foreach ((long atUs, long grantedUs) in ((long, long)[])[(overUs - Options.AheadUs, Options.AheadUs), (overUs - 7, 7), (overUs, 0)])
        {
            b.Asked(atUs, new(C, Second, IsPre: true, Log(1, 10), Reign.None), Log(1, 10));
            Assert.Equal(new Vote(B, Second, IsPre: true, IsYes: true, First, grantedUs), VoteOf(b));
        }
        Assert.Equal(First, b.Ballot.Promised);
    }

    [Fact]
    public void Candidate_AsksAhead_AndStandsWhenItsGrantAndThoseOfItsVotersAreOver()
    {
        Election b = Node(B);
        b.Heard(1000, First, C, Three);
        NodeView view = With(Log(1, 10));
        long overUs = 1000 + Options.GrantUs + Options.TurnUs;
        b.Tick(1000 + Options.GrantUs - 1, view);
        Assert.Equal(overUs, b.Tick(overUs - Options.AheadUs, view));
        Assert.True(Assert.IsType<ElectionEffect.SendAsk>(b.TakeEffects()[^1]).Ask.IsPre);
        // It grants for 5 us longer. A voter that names a year is not waited for.
        b.Voted(overUs - 10, new(A, Second, IsPre: true, IsYes: true, First, GrantedUs: 15), view);
        Assert.Equal(overUs + 5, b.Tick(overUs, view));
        Assert.Empty(b.TakeEffects());
        b.Tick(overUs + 5, view);
        Assert.False(Assert.IsType<ElectionEffect.SendAsk>(b.TakeEffects()[^1]).Ask.IsPre);
        b = Node(B);
        b.Heard(1000, First, C, Three);
        b.Tick(overUs - Options.AheadUs, view);
        b.Voted(overUs - 10, new(A, Second, IsPre: true, IsYes: true, First, GrantedUs: long.MaxValue), view);
        Assert.Equal(overUs - 10 + Options.AheadUs, b.Tick(overUs, view));
    }

    [Fact]
    public void Voter_VotesOnceInAReign_AlsoAfterAStart()
    {
        Election b = Node(B);
        b.Asked(0, new(A, First, IsPre: false, Log(0, 10), Reign.None), Log(0, 10));
        Assert.True(VoteOf(b).IsYes);
        b.Asked(1, new(C, First, IsPre: false, Log(0, 10), Reign.None), Log(0, 10));
        Assert.False(VoteOf(b).IsYes);
        Election again = Node(B, b.Ballot);
        again.Asked(Options.GrantUs, new(C, First, IsPre: false, Log(0, 10), Reign.None), Log(0, 10));
        Assert.False(VoteOf(again).IsYes);
        again.Asked(Options.GrantUs, new(A, First, IsPre: false, Log(0, 10), Reign.None), Log(0, 10));
        Assert.True(VoteOf(again).IsYes);
    }

    [Theory]
    [InlineData(1, 9, false)]       // shorter, in the same line
    [InlineData(1, 10, true)]
    [InlineData(0, 99, false)]      // longer, of an older line
    [InlineData(2, 1, true)]        // shorter, of a newer line
    public void Voter_ComparesLinesBeforeLengths(long line, long offset, bool isYes)
    {
        Election b = Node(B);
        b.Asked(0, new(A, Third, IsPre: false, Log(line, offset), Reign.None), Log(1, 10));
        Assert.Equal(isYes, VoteOf(b).IsYes);
    }

    [Fact]
    public void Leader_OfAnOlderReign_IsNotObeyed()
    {
        Election b = Node(B, new(Second, C));
        Assert.False(b.Heard(0, First, A));
        Assert.Empty(b.TakeEffects());
        Assert.True(b.Heard(0, Second, C));
    }

    [Fact]
    public void Leader_ThatHearsOfANewerReign_StepsDown()
    {
        Election a = Leader();
        Assert.True(a.Heard(10, Second, B));
        Assert.Equal([new ElectionEffect.Promise(new(Second, B) { Members = Begun }), new ElectionEffect.StepDown(First)], a.TakeEffects());
        Election other = Leader();
        other.Refused(10, Second);
        Assert.Equal([new ElectionEffect.StepDown(First)], other.TakeEffects());
    }

    [Fact]
    public void Leader_OfTheSameReign_IsABrokenInvariant()
    {
        Election a = Leader();
        Assert.Contains("R1", Assert.Throws<BrokenInvariantException>(() => a.Heard(10, First, B)).Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Leader_WithALease_VotesForNobody()
    {
        Election a = Leader();
        var lease = new LeaderLease(A, Three, Options.LeaseUs, nowUs: 0);
        lease.Echoed(B, 100, 200);
        a.Leased(200, lease);
        a.Asked(100 + Options.LeaseUs - 1, new(C, Second, IsPre: false, Log(1, 99), Reign.None), Log(1, 10));
        Assert.False(VoteOf(a).IsYes);
        Assert.Equal(ElectionState.Leads, a.State);
        a.Asked(100 + Options.LeaseUs, new(C, Second, IsPre: false, Log(1, 99), Reign.None), Log(1, 10));
        Assert.Equal([new ElectionEffect.StepDown(First), new ElectionEffect.Promise(new(Second, C) { Members = Begun }),
            new ElectionEffect.SendVote(C, new(A, Second, IsPre: false, IsYes: true, Second))], a.TakeEffects());
    }

    [Fact]
    public void Leader_WithoutALeaseForTooLong_IsSilent()
    {
        Election a = Leader();
        var lease = new LeaderLease(A, Three, Options.LeaseUs, nowUs: 0);
        lease.Echoed(B, 100, 200);
        long until = 100 + Options.LeaseUs;
        a.Leased(until + Options.SilentAfterUs - 1, lease);
        Assert.Empty(a.TakeEffects());
        a.Leased(until + Options.SilentAfterUs, lease);
        Assert.Equal([new ElectionEffect.StepDown(First)], a.TakeEffects());
    }

    [Fact]
    public void HandOver_TheFollowerStandsAtOnce_AndVotersLetTheirGrantsGo()
    {
        Election a = Leader(), b = Node(B), c = Node(C);
        b.Heard(10, First, A);
        c.Heard(10, First, A);
        b.TakeEffects();
        c.TakeEffects();
        a.HandOver(20, B, commit: null);
        Assert.Equal([new ElectionEffect.StepDown(First), new ElectionEffect.SendLead(B, new(A, First))], a.TakeEffects());
        b.LeadTold(21, new(A, First), Log(1, 10));
        ElectionEffect.SendAsk asked = Assert.IsType<ElectionEffect.SendAsk>(b.TakeEffects()[^1]);
        Assert.Equal(new Ask(B, Second, IsPre: false, Log(1, 10), Ends: First), asked.Ask);
        c.Asked(22, asked.Ask, Log(1, 10));
        b.Voted(23, VoteOf(c), With(Log(1, 10)));
        Assert.Equal(ElectionState.Leads, b.State);
    }

    // With early replies: else a world-line has to begin.
    [Theory]
    [InlineData(true, 1, true)]
    [InlineData(false, 1, false)]
    [InlineData(true, 0, false)]      // the record of the reign that ends did not come to its log
    public void HandOver_AllThatWasToldIsCommitted_TheNextKnows(bool isSettled, long reign, bool losesNothing)
    {
        Election a = Leader(), b = Node(B);
        b.Heard(10, First, A, Three);
        a.HandOver(20, B, Log(1, 10), isSettled: isSettled);
        Lead lead = Assert.IsType<ElectionEffect.SendLead>(a.TakeEffects()[^1]).Lead;
        Assert.Equal(isSettled, lead.IsSettled);
        b.LeadTold(21, lead, Log(reign, 10));
        b.TakeEffects();
        b.Voted(22, new(A, Second, IsPre: false, IsYes: true, Second), With(Log(reign, 10)));
        b.Voted(22, new(C, Second, IsPre: false, IsYes: true, Second), With(Log(reign, 10)));
        Assert.Equal(new ElectionEffect.Begin(Second, losesNothing), b.TakeEffects()[^1]);
    }

    [Fact]
    public void HandOver_WithOtherMembers_TheNextIsElectedByThoseBefore_AndLeadsThoseAfter()
    {
        var two = new Cohort([B, C]);
        Election a = Leader(), b = Node(B);
        b.Heard(10, First, A, Three);
        b.TakeEffects();
        a.HandOver(20, B, Log(1, 10), two);
        var lead = new Lead(A, First, two);
        Assert.Equal(new ElectionEffect.SendLead(B, lead), a.TakeEffects()[^1]);
        b.LeadTold(21, lead, Log(1, 10));
        b.TakeEffects();
        Assert.Equal((ElectionState.Stands, Three), (b.State, b.Cohort));
        // By the vote of one that is none any more.
        b.Voted(22, new(A, Second, IsPre: false, IsYes: true, Second), With(Log(1, 10)));
        Assert.Equal([new ElectionEffect.Promise(new(Second, B) { Members = two }), new ElectionEffect.Begin(Second)], b.TakeEffects());
        Assert.Equal(two, b.Cohort);
    }

    [Fact]
    public void HandOver_ToWhoHasAll_IsTheVoteThatItLacked()
    {
        Election a = Leader(), b = Node(B), c = Node(C);
        b.Heard(10, First, A, Three);
        b.TakeEffects();
        a.HandOver(20, B, Log(1, 10), hasAll: true);
        var lead = new Lead(A, First, Votes: Second);
        // The promise first: it may be asked by another one.
        Assert.Equal([new ElectionEffect.StepDown(First), new ElectionEffect.Promise(new(Second, B) { Members = Begun }),
            new ElectionEffect.SendLead(B, lead)],
            a.TakeEffects());
        a.Asked(21, new(C, Second, IsPre: false, Log(2, 99), Reign.None), Log(1, 10));
        Assert.False(VoteOf(a).IsYes);
        b.LeadTold(21, lead, Log(1, 10));
        Assert.Equal(new ElectionEffect.Begin(Second), b.TakeEffects()[^1]);
        // Doubled, or late.
        b.LeadTold(22, lead, Log(1, 10));
        Assert.Empty(b.TakeEffects());
    }

    [Fact]
    public void HandOver_ToOneThatHasPromisedMore_IsNoVote()
    {
        Election b = Node(B, new(Third, C));
        b.Heard(10, Third, C, Three);
        b.LeadTold(21, new(C, Third, Votes: Second), Log(1, 10));
        Assert.Equal((ElectionState.Stands, Third.Next), (b.State, b.Ballot.Promised));
    }

    [Fact]
    public void HandOver_TheLeaderThatWas_VotesForWhoHasWhatItHasCommitted()
    {
        foreach ((long has, bool isElected) in (ReadOnlySpan<(long, bool)>)[(10, true), (9, false)])
        {
            Election a = Leader();
            a.HandOver(20, B, Log(1, 10));
            a.TakeEffects();
            a.Asked(21, new(B, Second, IsPre: false, Log(1, has), Ends: First), Log(1, 15));
            Assert.Equal(isElected, VoteOf(a).IsYes);
            // Nobody who was not asked to lead.
            a = Leader();
            a.HandOver(20, B, Log(1, 10));
            a.TakeEffects();
            a.Asked(21, new(C, Second, IsPre: false, Log(1, has), Ends: Reign.None), Log(1, 15));
            Assert.False(VoteOf(a).IsYes);
        }
    }

    [Fact]
    public void HandOver_ToTheOneThatIsAdded_ItIsElectedByThoseBefore()
    {
        NodeName d = new("d");
        Cohort two = new([A, B]), three = two.With(d, "");
        Election node = Node(d, cohort: two);
        node.Heard(10, First, A, two);
        node.LeadTold(21, new(A, First, three), Log(1, 10));
        node.TakeEffects();
        node.Voted(22, new(A, Second, IsPre: false, IsYes: true, Second), With(Log(1, 10)));
        // Its own vote counts for nothing yet.
        Assert.Equal(ElectionState.Stands, node.State);
        node.Voted(23, new(B, Second, IsPre: false, IsYes: true, Second), With(Log(1, 10)));
        Assert.Equal((ElectionState.Leads, three), (node.State, node.Cohort));
    }

    [Fact]
    public void HandOver_ThatCameToNothing_ChangesNoMembersInALaterReign()
    {
        Election b = Node(B);
        b.Heard(10, First, A, Three);
        b.LeadTold(21, new(A, First, new Cohort([B, C])), Log(1, 10));
        b.Heard(30, Third, C, Three);
        b.TakeEffects();
        NodeView view = With(Log(3, 10));
        b.Tick(Options.GrantUs + 1_000, view);
        b.Tick(Options.GrantUs + 1_000 + Options.TurnUs, view);
        Reign next = b.TakeEffects().OfType<ElectionEffect.SendAsk>().Last().Ask.Reign;
        b.Voted(200_000, new(C, next, IsPre: true, IsYes: true, Third), view);
        b.Voted(200_000, new(C, next, IsPre: false, IsYes: true, next), view);
        Assert.Equal((ElectionState.Leads, Three), (b.State, b.Cohort));
    }

    [Fact]
    public void Members_ThatALeaderNames_AreKept_AndCountFromThenOn()
    {
        var four = new Cohort([A, B, C, new("d")]);
        Election b = Node(B);
        Assert.True(b.Heard(10, First, A, four));
        Ballot kept = Assert.IsType<ElectionEffect.Promise>(Assert.Single(b.TakeEffects())).Ballot;
        Assert.Equal((First, four), (kept.Promised, kept.Members));
        // What says nothing of members changes none.
        Assert.True(b.Heard(20, First, A));
        Assert.Empty(b.TakeEffects());
        Assert.Equal(four, Node(B, kept).Cohort);
    }

    [Fact]
    public void Voter_ThatIsNoMemberYet_VotesAllTheSame()
    {
        Election d = Node(new("d"));
        d.Asked(0, new(A, Second, IsPre: false, Log(1, 10), Ends: Reign.None), Log(1, 10));
        Assert.True(VoteOf(d).IsYes);
        // It does not stand, and obeys.
        d.Tick(10_000_000, With(Log(1, 10)));
        Assert.Empty(d.TakeEffects());
        Assert.True(d.Heard(10_000_000, Third, A));
    }

    [Fact]
    public void HandOver_ThatAnotherLeaderHasSaid_EndsNoGrant()
    {
        Election c = Node(C);
        c.Heard(10, Second, B);
        c.TakeEffects();
        c.Asked(20, new(A, Third, IsPre: false, Log(2, 99), Ends: First), Log(2, 10));
        Assert.False(VoteOf(c).IsYes);
        // Nor does it have a node stand that follows another one.
        c.LeadTold(21, new(A, First), Log(2, 10));
        Assert.Empty(c.TakeEffects());
    }

    [Fact]
    public void Candidate_ThatIsRefusedForANewerPromise_AsksAboveIt()
    {
        Election a = Node(A);
        NodeView view = With(Log(0, 10));
        a.Tick(0, view);
        a.TakeEffects();
        a.Voted(1, new(B, First, IsPre: true, IsYes: false, new(7)), view);
        Assert.Equal(ElectionState.Follows, a.State);
        a.Tick(1, view);
        Assert.Equal(new(8), Assert.IsType<ElectionEffect.SendAsk>(a.TakeEffects()[^1]).Ask.Reign);
    }

    [Fact]
    public void Candidate_WhoseStoreDoesNotFollow_WaitsLonger()
    {
        Election a = Node(A);
        Assert.Equal(Options.StorelessUs - Options.AheadUs, a.Tick(0, new(Log(0, 10), StoreFollows: false)));
    }

    [Fact]
    public void Candidates_StandOneAfterTheOther_ButForTheirLeader()
    {
        foreach ((NodeName leader, NodeName node, int before) in ((NodeName, NodeName, int)[])[(C, A, 0), (C, B, 1), (A, B, 0), (A, C, 1)])
        {
            Election election = Node(node);
            election.Heard(0, First, leader, Three);
            election.TakeEffects();
            NodeView view = With(Log(1, 10));
            long turnUs = Options.GrantUs + (before * Options.TurnUs);
            long askUs = election.Tick(1, view);
            Assert.Equal(turnUs - Options.AheadUs, askUs);
            election.Tick(askUs, view);
            election.Voted(askUs + 1, new(Three.Voters.First(n => n != node), Second, IsPre: true, IsYes: true, First), view);
            election.Tick(turnUs - 1, view);
            Assert.Equal(ElectionState.Asks, election.State);
            election.Tick(turnUs, view);
            Assert.Equal(ElectionState.Stands, election.State);
        }
    }
}
