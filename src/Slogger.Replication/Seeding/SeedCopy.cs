using Slogger.Core.Replication;
using Slogger.Log;

namespace Slogger.Replication.Seeding;

/// <summary>A copy of a shard's store for its backup, on disk.</summary>
/// <param name="Seed">What it is.</param>
/// <param name="File">Where it lies.</param>
internal sealed record SeedCopy(Seed Seed, string File)
{
    /// <summary>Whether a log goes on from it: of another history it is worthless, and so it is if a later world-line keeps less than it
    /// holds.</summary>
    public bool IsPartOf(VersionLog log) =>
        SeedOffer.IsPartOf(Seed, log.History, log.StartOffset, log.Branches);
}
