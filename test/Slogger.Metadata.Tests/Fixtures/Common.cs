// Short forms that the tests share.
using System.Globalization;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Tests.Fixtures;

internal static class Common
{
    public static readonly ShardId Shard0 = new(0);

    public static ClusterSettings Settings(int shards = 1, long interval = 5000) =>
        new() { ShardCount = shards, Grid = [new(new(1), 1_700_000_000_000_000, interval)] };

    /// <summary>A point from its usual notation, world-line:version.</summary>
    public static WorldPoint Point(string text)
    {
        string[] parts = text.Split(':');
        return new(new(Number(parts[0])), new(Number(parts[1])));
    }

    /// <summary>Records a shard of stride 1 as durable.</summary>
    public static async Task<DurableOutcome> RecordAsync(this IMetadataStore store, string cluster, ShardId shard, WorldPoint durable,
        long epoch) =>
        (await store.RecordDurableAsync(cluster, shard, DurableClaim.Of(durable), epoch)).Outcome;

    /// <summary>Starts a world-line from shard 0, which is durable up to a version.</summary>
    public static Task<WorldLineResult> BeginAsync(this IMetadataStore store, string cluster, WorldLine next, VersionNumber durable,
        long epoch) =>
        store.BeginWorldLineAsync(cluster, Shard0, next, DurableClaim.Of(new(new(next.Number - 1), durable)), epoch);

    /// <summary>The exception and all that it shows a person or a log.</summary>
    public static void AssertHides(Exception exception, string secret) =>
        Assert.DoesNotContain(secret, exception.ToString(), StringComparison.Ordinal);

    /// <summary>Repeats a call until the database is back.</summary>
    public static async Task<T> EventuallyAsync<T>(Func<Task<T>> call)
    {
        DateTime end = DateTime.UtcNow.AddMinutes(2);
        while (true)
        {
            try
            {
                return await call();
            }
            catch (MetadataUnavailableException) when (DateTime.UtcNow < end)
            {
                await Task.Delay(20);
            }
        }
    }

    private static long Number(string text) => long.Parse(text, CultureInfo.InvariantCulture);
}
