// The version that all shards have closed: random shards that close some versions and not others.
using Slogger.Core.Versions;

namespace Slogger.Core.Tests.Versions;

public class CommonVersionTests
{
    [Fact]
    public void AnyShards_TheNewestVersionThatAllHaveClosed()
    {
        for (int seed = 0; seed < 2000; seed++)
        {
            var random = new Random(seed);
            // Version 0 is every shard's.
            SortedSet<long>[] shards = [.. Enumerable.Range(0, random.Next(1, 6)).Select(_ =>
                new SortedSet<long>(Enumerable.Range(1, 40).Where(v => random.Next(3) > 0).Select(v => (long)v).Append(0)))];
            long instant = random.Next(1, 41);
            var common = new CommonVersion(shards.Length, isNow: false);
            long found = Find(common, (shard, version) => AtOrBelow(shards[shard], version ?? instant));
            Assert.True(found == Newest(shards, instant), $"seed {seed}: {found}");
        }
    }

    // What is acknowledged at a shard is in the version that it names first. Meanwhile all go on.
    [Fact]
    public void Now_HasWhatWasAcknowledgedAtWhicheverShard()
    {
        for (int seed = 0; seed < 2000; seed++)
        {
            var random = new Random(seed);
            SortedSet<long>[] shards = [.. Enumerable.Range(0, random.Next(1, 6)).Select(_ => new SortedSet<long> { 0 })];
            int[] strides = [.. shards.Select(_ => random.Next(1, 5))];
            long now = 1;
            long[] acknowledged = new long[shards.Length];
            var common = new CommonVersion(shards.Length, isNow: true);
            long found = Find(common, (shard, version) =>
            {
                GoOn(random.Next(1, 6));
                if (version is { } asked) { return AtOrBelow(shards[shard], asked); }
                // The next one that it closes, as the proxy waits for it.
                long next = (now + strides[shard] - 1) / strides[shard] * strides[shard];
                GoOn(next - now + 1);
                if (acknowledged[shard] == 0) { acknowledged[shard] = next; }
                return next;
            });
            Assert.All(shards, s => Assert.Contains(found, s));
            Assert.True(found >= acknowledged.Max(), $"seed {seed}: {found} lacks what was acknowledged in {acknowledged.Max()}");

            void GoOn(long versions)
            {
                for (; versions > 0; versions--, now++)
                {
                    foreach (int s in Enumerable.Range(0, shards.Length).Where(s => now % strides[s] == 0)) { shards[s].Add(now); }
                }
            }
        }
    }

    [Fact]
    public void Now_OfOneShard_OneQuestion()
    {
        var common = new CommonVersion(1, isNow: true);
        Assert.Equal(new InstantQuestion(0, null), common.Next);
        common.OnAnswer(new(7));
        Assert.Null(common.Next);
    }

    // Two shards that never close the same version: there is an answer all the same, and the questions end.
    [Fact]
    public void Now_NothingInCommonButTheBeginning_Ends()
    {
        long now = 1;
        int questions = 0;
        long found = Find(new(2, isNow: true), (shard, version) =>
        {
            questions++;
            long last = version ?? (now += 2);
            return last % 2 == shard ? last : Math.Max(0, last - 1);
        });
        Assert.Equal(0, found);
        Assert.InRange(questions, 1, 1_000_000);
    }

    private static long Find(CommonVersion common, Func<int, long?, long> ask)
    {
        long last = -1;
        while (common.Next is { } question)
        {
            last = ask(question.Shard, question.Version?.Number);
            common.OnAnswer(new(last));
        }
        return last;
    }

    private static long AtOrBelow(SortedSet<long> closed, long version) => closed.GetViewBetween(0, version).Max;

    private static long Newest(SortedSet<long>[] shards, long atOrBelow) =>
        shards.Aggregate(Enumerable.Range(0, (int)atOrBelow + 1).Select(v => (long)v), (left, s) => left.Where(s.Contains)).Max();
}
