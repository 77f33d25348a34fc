// Design, section 7, leases: "a taker must see an unchanged lease for a whole term of its own monotonic clock with SQL up".
using Slogger.Core.Leases;

namespace Slogger.Core.Tests.Leases;

public class LeaseWatchTests
{
    private const long Term = 1000;
    private static readonly LeaseState Held = new(7, 3);
    private readonly LeaseWatch _watch = new(Term);

    [Fact]
    public void Look_UnchangedForATerm_HasRunOut()
    {
        Assert.False(_watch.Look(Held, 0, 10));
        for (long at = 200; at < Term; at += 200) Assert.False(_watch.Look(Held, at, at + 10));
        Assert.False(_watch.Look(Held, Term + 9, Term + 20));
        Assert.True(_watch.Look(Held, Term + 30, Term + 40));
        Assert.Equal(10, _watch.UnchangedSinceUs);
    }

    [Fact]
    public void Look_Renewed_BeginsANewTerm()
    {
        for (long at = 0; at <= 900; at += 300) Assert.False(_watch.Look(Held, at, at));
        Assert.False(_watch.Look(Held with { Renewals = 4 }, 1200, 1200));
        Assert.False(_watch.Look(Held with { Renewals = 4 }, 1500, 1500));
        Assert.False(_watch.Look(Held with { Renewals = 4 }, 2000, 2000));
        Assert.True(_watch.Look(Held with { Renewals = 4 }, 2200, 2200));
    }

    [Fact]
    public void Look_AnotherHolder_BeginsANewTerm()
    {
        for (long at = 0; at < 1000; at += 300) Assert.False(_watch.Look(Held, at, at));
        Assert.False(_watch.Look(new(8, 3), 1100, 1100));
    }

    [Fact]
    public void Look_TakerSlept_TheTimeDoesNotCount()
    {
        Assert.False(_watch.Look(Held, 0, 0));
        Assert.False(_watch.Look(Held, 5 * Term, 5 * Term));
        Assert.False(_watch.Look(Held, (5 * Term) + 400, (5 * Term) + 400));
    }

    [Fact]
    public void Missed_TheMetadataWasAway_TheTimeDoesNotCount()
    {
        for (long at = 0; at < 1000; at += 300) Assert.False(_watch.Look(Held, at, at));
        _watch.Missed();
        Assert.Null(_watch.Seen);
        Assert.False(_watch.Look(Held, 1100, 1100));
        Assert.False(_watch.Look(Held, 1500, 1500));
        Assert.False(_watch.Look(Held, 2000, 2000));
        Assert.True(_watch.Look(Held, 2100, 2100));
    }

    // Between the asking and the answer of the first look it may have been renewed: that time is the holder's.
    [Fact]
    public void Look_SlowAnswers_CountFromTheFirstAnswerToTheLastQuestion()
    {
        Assert.False(_watch.Look(Held, 0, 400));
        Assert.False(_watch.Look(Held, 800, 900));
        Assert.False(_watch.Look(Held, 1200, 1300));
        Assert.False(_watch.Look(Held, 1390, 1500));
        Assert.True(_watch.Look(Held, 1600, 1700));
    }

    // The metadata may have been away from one question to the next answer, although neither the pause nor a look was long.
    [Fact]
    public void Look_AnsweredMoreThanHalfATermAfterTheQuestionBefore_TheTimeDoesNotCount()
    {
        Assert.False(_watch.Look(Held, 0, 0));
        Assert.False(_watch.Look(Held, 400, 400));
        Assert.False(_watch.Look(Held, 750, 1150));
        Assert.False(_watch.Look(Held, 1250, 1250));
        Assert.False(_watch.Look(Held, 1700, 1700));
        Assert.True(_watch.Look(Held, 2150, 2150));
    }

    [Fact]
    public void Look_AnsweredAfterHalfATerm_CountsFromTheAnswer()
    {
        Assert.False(_watch.Look(Held, 0, 0));
        // The metadata was away meanwhile: the holder had no more luck.
        Assert.False(_watch.Look(Held, 400, 1800));
        Assert.False(_watch.Look(Held, 1900, 1900));
        Assert.False(_watch.Look(Held, 2350, 2350));
        Assert.True(_watch.Look(Held, 2800, 2800));
    }

    [Theory]
    [InlineData((int)LeaseMutation.HalfATerm)]
    [InlineData((int)LeaseMutation.GapIsNoReason)]
    [InlineData((int)LeaseMutation.OutageCounts)]
    public void Mutant_IsToldFromTheRule(int mutation)
    {
        // A holder that renews at its own times, or as soon after as the metadata is there again; a taker that sleeps, and is cut off.
        bool deposes = false;
        for (int seed = 1; seed <= 400 && !deposes; seed++)
        {
            deposes = IsDeposed(new LeaseWatch(Term, (LeaseMutation)mutation), seed);
            Assert.False(IsDeposed(new LeaseWatch(Term), seed), $"seed {seed}: a holder was deposed that renewed whenever it could");
        }

        Assert.True(deposes, $"{(LeaseMutation)mutation} survived");
    }

    private static bool IsDeposed(LeaseWatch watch, int seed)
    {
        Random random = new(seed);
        long now = 0, tryAt = 0, awayUntil = 0, sleepsUntil = 0;
        LeaseState state = Held;
        while (now < 60 * Term)
        {
            now += random.Next(20, 80);
            bool isAway = now < awayUntil;
            if (now >= tryAt)
            {
                if (!isAway) state = state with { Renewals = state.Renewals + 1 };
                tryAt = now + (Term * (isAway ? 2 : 6) / 10);
            }

            if (!isAway && random.Next(60) == 0) awayUntil = now + random.Next((int)(random.Next(2) == 0 ? Term / 2 : 4 * Term));
            if (random.Next(100) == 0) sleepsUntil = now + random.Next((int)(4 * Term));
            if (now < sleepsUntil) continue;
            if (isAway) watch.Missed();
            else if (watch.Look(state, now, now)) return true;
        }

        return false;
    }
}
