// What a version has changed, as a store tells it that can (docs/internals/STORES.md): each changed key once, with what it was at the
// version's end; removed and expired ones too, and nothing else. Compared with a model that knows of every operation in which version it
// was.
using System.Globalization;
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Sessions;

namespace Slogger.Integration.Tests.Stores;

public sealed class FasterChangeFeedTests : ChangeFeedTests
{
    private protected override StoreUnderTest Store => StoreUnderTest.Faster;
}

public abstract class ChangeFeedTests
{
    private const int Keys = 40, Operations = 3000, VersionsMin = 10, ExpiryMilliseconds = 300;

    private protected abstract StoreUnderTest Store { get; }

    /// <summary>An operation that has changed something.</summary>
    private sealed record Effect(long Version, KeyChange Change);

    /// <summary>What was done, and what the feed tells of it.</summary>
    /// <param name="Tag">How its keys begin.</param>
    /// <param name="Effects">What was done, in order.</param>
    /// <param name="Late">Keys of which it is not known whether they were ever there.</param>
    /// <param name="Feed">What each version has changed, oldest first.</param>
    private sealed record Course(string Tag, IReadOnlyList<Effect> Effects, IReadOnlySet<string> Late,
        IReadOnlyList<(long Version, IReadOnlyList<KeyChange> Changes)> Feed);

    [Fact]
    public async Task Feed_OfEachVersion_HasEachChangedKeyOnceAsItWasAtItsEnd() => Check(await RunAsync());

    // The test of the test: a change is missing, or told twice, or with another value; or a removal is missing, of a key that was deleted
    // and of one that has expired.
    [Fact]
    public async Task Feed_WithAFault_IsCaught()
    {
        Course course = await RunAsync();
        Check(course);
        static bool IsSet(KeyChange change) => change.Value is not null && !IsExpiring(change.Key);
        AssertCaught(IsSet, static _ => []);
        AssertCaught(IsSet, static c => [c, c]);
        AssertCaught(IsSet, static c => [c with { Value = c.Value + "0" }]);
        AssertCaught(static c => c.Value is null && !IsExpiring(c.Key), static _ => []);
        AssertCaught(static c => c.Value is null && IsExpiring(c.Key), static _ => []);

        // One change, somewhere in the middle, and what is told in its place.
        void AssertCaught(Func<KeyChange, bool> which, Func<KeyChange, KeyChange[]> instead)
        {
            (int Version, KeyChange Change)[] some = [.. course.Feed.SelectMany((v, i) => v.Changes.Select(c => (Version: i, Change: c)))
                .Where(c => c.Change.Key.StartsWith(course.Tag, StringComparison.Ordinal) && !course.Late.Contains(c.Change.Key)
                    && which(c.Change))];
            (int at, KeyChange change) = some[some.Length / 2];
            (long Version, IReadOnlyList<KeyChange> Changes)[] feed = [.. course.Feed];
            feed[at].Changes = [.. feed[at].Changes.SelectMany(c => c == change ? instead(c) : [c])];
            Assert.ThrowsAny<Xunit.Sdk.XunitException>(() => Check(course with { Feed = feed }));
        }
    }

    private async Task<Course> RunAsync()
    {
        int seed = Environment.TickCount & 0xFFFFFF;
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Embedded = Store.IsEmbedded ? 2
            : 0, RedisOptions = ["--commit", Store.Mode] };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        string tag = "{" + cluster.Key(1, "feed") + "}";
        // Without the other shard the cut stands still, and every version is kept.
        cluster.KillProxy(0);
        var late = new HashSet<string>();
        List<Effect> effects = await WriteAsync(cluster, tag, new Random(seed), late);
        await Task.Delay(3 * ExpiryMilliseconds);
        cluster.KillProxy(1);
        return new(tag, effects, late, Store.Feed(cluster.Data(1), workspace));
    }

    private static void Check(Course course)
    {
        (string tag, IReadOnlyList<Effect> effects, IReadOnlySet<string> late,
            IReadOnlyList<(long Version, IReadOnlyList<KeyChange> Changes)> feed) = course;
        Assert.True(feed.Count > VersionsMin, $"{feed.Count} versions are kept");
        long from = 0;
        int compared = 0;
        var expired = new Dictionary<string, int>();
        foreach ((long version, IReadOnlyList<KeyChange> changes) in feed)
        {
            KeyChange[] told = [.. changes.Where(c => c.Key.StartsWith(tag, StringComparison.Ordinal))];
            Assert.Equal(told.Select(c => c.Key).Distinct().Count(), told.Length);
            Dictionary<string, KeyChange> expected = effects.Where(
                e => e.Version > from && e.Version <= version && !late.Contains(e.Change.Key)).GroupBy(e => e.Change.Key)
                    .ToDictionary(g => g.Key, g => g.Last().Change);
            foreach (KeyChange change in told)
            {
                if (late.Contains(change.Key)) { continue; }
                // One that expires is removed by nobody's operation, once.
                if (IsExpiring(change.Key) && change.Value is null) { expired[change.Key] = expired.GetValueOrDefault(change.Key) + 1; }
                else { Assert.Equal(expected.GetValueOrDefault(change.Key), change); }
                expected.Remove(change.Key);
                compared++;
            }

            Assert.True(expected.Count == 0,
                $"version {version} has changed {string.Join(", ", expected.Values)}, which its feed does not tell");
            from = version;
        }

        string[] were = [.. effects.Where(e => e.Version <= from && IsExpiring(e.Change.Key) && !late.Contains(e.Change.Key))
            .Select(e => e.Change.Key)];
        Assert.Equal(were.Order(StringComparer.Ordinal), expired.Keys.Order(StringComparer.Ordinal));
        Assert.All(expired.Values, times => Assert.Equal(1, times));
        Assert.True(compared > Keys && were.Length > 0, $"{compared} changes, {were.Length} expired keys");
    }

    private static bool IsExpiring(string key) => key.Contains("}expiring", StringComparison.Ordinal);

    // One operation at a time, of one session: their order is known. On a busy machine they may be in few versions: then there are more of
    // them.
    private static async Task<List<Effect>> WriteAsync(ClusterDeployment cluster, string tag, Random random, HashSet<string> late)
    {
        var effects = new List<Effect>();
        var values = new Dictionary<string, (string Value, long ExpiryMs)>();
        SessionId session = SessionClient.NewId();
        using SessionClient client = await SessionClient.ConnectAsync(cluster.Endpoint(1));
        long line = (await client.HelloAsync(session))["worldline"].Number;
        for (int i = 1; i <= Operations || await cluster.NumberAsync(1, "commits_kept") <= VersionsMin + 1; i++)
        {
            string key = string.Create(CultureInfo.InvariantCulture, $"{tag}{random.Next(Keys)}");
            bool exists = values.TryGetValue(key, out (string Value, long ExpiryMs) old);
            string text = i.ToString(CultureInfo.InvariantCulture);
            long never = DateTimeOffset.UtcNow.AddDays(1).ToUnixTimeMilliseconds()
                + i, soon = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + ExpiryMilliseconds;
            (string[] request, KeyChange? change) = random.Next(10) switch
            {
                0 or 1 => (["SET", key, text], new KeyChange(key, text, 0)),
                2 => (["SET", key, text, "PXAT", never.ToString(CultureInfo.InvariantCulture)], new KeyChange(key, text, never)),
                3 or 4 => (["APPEND", key, text], new KeyChange(key, old.Value + text, old.ExpiryMs)),
                5 => (["DEL", key], exists ? new KeyChange(key, null, 0) : null),
                6 => (["PEXPIREAT", key, never.ToString(CultureInfo.InvariantCulture)], exists ? new KeyChange(key, old.Value, never)
                    : null),
                7 => (["SETNX", key, text], exists ? null : new KeyChange(key, text, 0)),
                8 => (["GET", key], null),
                _ => ((string[])["SET", $"{tag}expiring{i}", text, "PXAT", soon.ToString(CultureInfo.InvariantCulture)],
                    (KeyChange?)new KeyChange($"{tag}expiring{i}", text, soon)),
            };
            await client.SendAsync(SessionClient.HeaderOf(session, line, 0, i, 1), request);
            BatchOutcome outcome = await client.ReadAsync(1);
            Assert.Null(outcome.Refusal);
            Assert.False(outcome.Replies[0].IsError, outcome.Replies[0].Text);
            if (change is not { } made) { continue; }
            // One that was late: whether it was ever there is not known.
            if (IsExpiring(made.Key) && DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() >= soon) { late.Add(made.Key); }
            effects.Add(new Effect(outcome.Reply.Versions.Span[^1].Version.Number, made));
            if (IsExpiring(made.Key)) { continue; }
            if (made.Value is { } value) { values[made.Key] = (value, made.ExpiryMs); } else { values.Remove(made.Key); }
        }

        return effects;
    }
}
