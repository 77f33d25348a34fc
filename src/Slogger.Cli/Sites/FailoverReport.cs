// What slogger failover has come to: who serves, how long nobody did, what is kept and what is lost.
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;
using Slogger.Core.WorldLines;

namespace Slogger.Cli.Sites;

/// <summary>A failover. Of one that was over before only the first five facts are known.</summary>
/// <param name="WasOverBefore">Whether the site was the primary already.</param>
/// <param name="SiteEpoch">The site's epoch.</param>
/// <param name="WorldLine">Its first world-line.</param>
/// <param name="From">What it went on from.</param>
/// <param name="Shards">How many shards it has.</param>
internal sealed record FailoverReport(bool WasOverBefore, long SiteEpoch, long WorldLine, WorldPoint From, int Shards) : Report
{
    protected override JsonTypeInfo Shape => SiteReportJson.Default.FailoverReport;

    /// <summary>How many of them it has taken: the others were given up.</summary>
    public int? ShardsTaken { get; init; }

    /// <summary>Shards that are open and do not serve yet.</summary>
    public IReadOnlyList<int>? Silent { get; init; }

    /// <summary>Whether an earlier run had begun it.</summary>
    public bool? WasUnderWay { get; init; }

    /// <summary>From the command's start until every shard served clients, or this was given up.</summary>
    [JsonPropertyName("rto_ms")]
    public TimeSpan? Rto { get; init; }

    /// <summary>What that time went into.</summary>
    public IReadOnlyList<PartFacts>? RtoParts { get; init; }

    /// <summary>Milliseconds of the takeover's stages, as text.</summary>
    public string? Stages { get; init; }

    /// <summary>How much is lost; null: not known, since another run has decided.</summary>
    [JsonPropertyName("rpo_ms")]
    public TimeSpan? Rpo { get; init; }

    /// <summary>When the last version that is kept ended at the primary.</summary>
    public DateTimeOffset? KeptUntil { get; init; }

    /// <summary>When the last version that is known of the primary ended there.</summary>
    public DateTimeOffset? KnownUntil { get; init; }

    /// <summary>Whether the last is what the primary's database has recorded: without it there may have been any more.</summary>
    public bool? IsFromPrimary { get; init; }

    /// <summary>Why what the primary did last is not known; null: its database has said it.</summary>
    public string? Unasked { get; init; }

    /// <summary>What the primary's database says of being deposed; null: it was not asked.</summary>
    public string? Primary { get; init; }

    public override void Print(AppHost host)
    {
        TextWriter output = host.Output;
        if (WasOverBefore)
        {
            output.WriteLine($"the site is the primary already, since it has taken over at {From} (site epoch {SiteEpoch})");
            return;
        }
        bool isWhole = Silent is not { Count: > 0 };
        output.WriteLine($"the site is the primary: site epoch {SiteEpoch}, world-line {WorldLine}, {ShardsTaken} of {Shards} shards");
        if (!isWhole)
        {
            output.WriteLine($"warning: shard {string.Join(", ", Silent!)} is open, and does not serve yet: see what its process "
                + "says; it recovers by itself, or when it is started again");
        }
        output.WriteLine($"RTO: {SiteText.Ms(Rto!.Value)}, from the command's start until "
            + (isWhole ? "every shard served clients" : "this was given up")
            + (WasUnderWay == true ? " (of this run: the failover was under way before)" : ""));
        output.WriteLine($"of these: {string.Join(", ", RtoParts!.Select(part => $"{SiteText.Ms(part.Took)} {part.For}"))}");
        output.WriteLine($"stages, ms: {Stages}");
        PrintLoss(output);
        if (Primary is not null) { output.WriteLine(Primary); }
    }

    private void PrintLoss(TextWriter output)
    {
        if (Rpo is not { } lost || KeptUntil is not { } kept || KnownUntil is not { } known)
        {
            output.WriteLine($"RPO: not known, since another run has decided: everything up to version {From.Version} is kept");
            return;
        }
        output.WriteLine($"RPO: {(Unasked is null ? "" : "at least ")}{SiteText.Age(lost)} are lost. Everything up to version "
            + $"{From.Version} is kept; it ended at the primary at {SiteText.Time(kept)}.");
        string where = IsFromPrimary == true ? "it is recorded in its database" : "it had come to a shard here, and not to all";
        output.WriteLine(known <= kept ? "Nothing later is known of the primary."
            : $"The last known version of the primary ended at {SiteText.Time(known)}: {where}.");
        if (Unasked is not null) { output.WriteLine($"What the primary did after that is not known: {Unasked}."); }
    }
}

/// <summary>A part of a time.</summary>
/// <param name="Took">How long.</param>
/// <param name="For">What it went into, behind a number.</param>
internal sealed record PartFacts([property: JsonPropertyName("took_ms")] TimeSpan Took, string For);
