// How old a follower's reads may be: at most, by its own clock.
using Slogger.Core.Cohorts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cohorts;

public sealed class ReadAgeTests
{
    [Fact]
    public void Age_CountsFromWhatTheLeaderHadHeard_OnceTheStoreShowsItsCommit()
    {
        var age = new ReadAge(At(4), nowUs: 100);
        Assert.Null(age.CurrentUs);
        age.Told(At(5), heardUs: 110, nowUs: 130);
        Assert.Null(age.CurrentUs);
        age.Told(At(7), heardUs: 120, nowUs: 140);
        age.Shown(At(5));
        Assert.Equal(110, age.CurrentUs);
        age.Shown(At(6));
        Assert.Equal(110, age.CurrentUs);
        age.Shown(At(7));
        Assert.Equal(120, age.CurrentUs);
        // Nothing new is committed, and that is said.
        age.Told(At(7), heardUs: 135, nowUs: 150);
        Assert.Equal(135, age.CurrentUs);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(99)]        // before this life
    [InlineData(151)]       // by another clock
    public void Age_OfATimeThatIsNotThisLifes_IsNotTaken(long heardUs)
    {
        var age = new ReadAge(At(5), nowUs: 100);
        age.Told(At(5), heardUs, nowUs: 150);
        Assert.Null(age.CurrentUs);
    }

    // Whatever the order, no read counts as newer than the newest message that the store shows.
    [Fact]
    public void Age_WithMoreMessagesThanItKeeps_IsNeverTooSmall()
    {
        for (int seed = 1; seed <= 200; seed++)
        {
            var random = new Random(seed);
            var age = new ReadAge(At(0), nowUs: 0);
            var told = new List<(long Commit, long HeardUs)>();
            long commit = 0, shown = 0, now = 1;
            for (int i = 0; i < 2000; i++)
            {
                now += random.Next(3);
                if (random.Next(4) > 0)
                {
                    commit += random.Next(3);
                    long heardUs = now - random.Next((int)Math.Min(now, 20));
                    told.Add((commit, heardUs));
                    age.Told(At(commit), heardUs, now);
                }
                else if (random.Next(40) == 0)
                {
                    shown = random.NextInt64(shown, commit + 1);
                    age.Shown(At(shown));
                }
                long? newest = told.Where(t => t.Commit <= shown).Select(t => (long?)t.HeardUs).Max();
                Assert.True(age.CurrentUs is null || age.CurrentUs <= newest, $"seed {seed}: {age.CurrentUs} after {newest}");
            }
            age.Shown(At(commit));
            Assert.Equal(told[^1].HeardUs, age.CurrentUs!.Value, 20.0);
        }
    }

    private static WorldPoint At(long version) => new(new WorldLine(1), new VersionNumber(version));
}
