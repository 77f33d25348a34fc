// What slogger seed has decided, and how far the streams are.
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Sites;

/// <summary>A seeding.</summary>
/// <param name="FollowsEpoch">The site epoch of the site that this one follows from now on; null: it was a backup already.</param>
/// <param name="Reseeded">Shards that are seeded anew, as was asked for.</param>
/// <param name="NotShipping">Shards of the primary that do not ship.</param>
/// <param name="Streams">How far each stream is; empty: this was not waited for.</param>
/// <param name="CanTakeOver">Whether all streams follow.</param>
internal sealed record SeedReport(long? FollowsEpoch, IReadOnlyList<ReseededFacts> Reseeded, IReadOnlyList<int> NotShipping,
    IReadOnlyList<StreamProgress> Streams, bool CanTakeOver) : Report
{
    protected override JsonTypeInfo Shape => SiteReportJson.Default.SeedReport;

    public override void Print(AppHost host)
    {
        // All else has been said on the way.
        if (CanTakeOver) { host.Output.WriteLine("all streams follow: this site can take over"); }
    }
}

/// <summary>A shard that is seeded anew.</summary>
/// <param name="Shard">Which.</param>
/// <param name="Generation">How often it was seeded.</param>
/// <param name="WasEmpty">Whether it was being seeded already.</param>
internal sealed record ReseededFacts(int Shard, long Generation, bool WasEmpty)
{
    public override string ToString() =>
        $"shard {Shard} is seeded{(WasEmpty ? ", as it was already" : $" anew: generation {Generation}")}";
}

/// <summary>How far a stream is.</summary>
/// <param name="Shard">Which, with the primary's if that is another one.</param>
/// <param name="IsDone">Whether it follows, and counts.</param>
/// <param name="Share">How much of the copy is here: 0 to 1.</param>
/// <param name="Text">The same for a person, and what it waits for.</param>
internal sealed record StreamProgress(string Shard, bool IsDone, double Share, string Text)
{
    public override string ToString() => $"shard {Shard}: {Text}";
}
