// What slogger drill finds out, part by part: what a failover would keep, how long it would take, whether it would succeed. The parts are
// shown as they are known; for a program they are one object at the end.
using System.Globalization;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;
using Slogger.Core.WorldLines;

namespace Slogger.Cli.Sites;

/// <summary>A drill.</summary>
/// <param name="Keeps">What a failover would keep.</param>
/// <param name="Takes">How long it would take.</param>
/// <param name="Logs">Whether each stream's log can be brought to where it would go on from.</param>
/// <param name="Restores">Whether each shard's log restores to what its store holds; empty: not tried.</param>
/// <param name="WouldSucceed">Whether a failover would succeed.</param>
internal sealed record DrillReport(KeptFacts Keeps, TakeoverFacts Takes, IReadOnlyList<LogFacts> Logs, IReadOnlyList<RestoreFacts> Restores,
    bool WouldSucceed) : Report
{
    protected override JsonTypeInfo Shape => SiteReportJson.Default.DrillReport;

    public override void Print(AppHost host)
    {
        if (WouldSucceed) { host.Output.WriteLine("a failover would succeed; nothing was changed"); }
    }
}

/// <summary>What a failover would keep.</summary>
/// <param name="Streams">What each stream holds.</param>
/// <param name="From">What the site would go on from.</param>
/// <param name="Rpo">How much would be lost of what is known of the primary; null: not known.</param>
/// <param name="KeptUntil">When the last version that would be kept ended at the primary.</param>
/// <param name="KnownUntil">When the last version that has come here ended there.</param>
internal sealed record KeptFacts(IReadOnlyList<HeldFacts> Streams, WorldPoint From,
    [property: JsonPropertyName("rpo_ms")] TimeSpan? Rpo, DateTimeOffset? KeptUntil, DateTimeOffset? KnownUntil)
{
    public void Print(AppHost host)
    {
        foreach (HeldFacts s in Streams)
        {
            string heard = s.Silent is { } silent ? $"its primary was heard {SiteText.Age(silent)} ago" : "its primary was never heard";
            host.Output.WriteLine($"shard {s.Shard}: holds {s.Held}, the store is at {s.Applied}, {heard}");
        }
        host.Output.WriteLine($"a failover now would go on from {From}, the newest recorded cut that all shards hold");
        if (Rpo is { } rpo)
        {
            host.Output.WriteLine(
                $"RPO (measured): {SiteText.Age(rpo)} would be lost. Kept: up to {SiteText.Time(KeptUntil!.Value)}. "
                + $"Come here: up to {SiteText.Time(KnownUntil!.Value)}. What the primary did since is not known here.");
        }
    }
}

/// <summary>What a stream holds.</summary>
/// <param name="Shard">Which, with the primary's if that is another one.</param>
/// <param name="Held">The newest version that is durable here.</param>
/// <param name="Applied">What the store is at.</param>
/// <param name="Silent">How long ago the primary was heard; null: never.</param>
internal sealed record HeldFacts(string Shard, WorldPoint Held, WorldPoint Applied,
    [property: JsonPropertyName("silent_ms")] TimeSpan? Silent);

/// <summary>How long a failover would take. The first four are medians of some calls, the next two this command's own.</summary>
/// <param name="Transaction">A transaction of the site's database that is rolled back.</param>
/// <param name="AskAll">To ask all processes at once.</param>
/// <param name="Processes">How many there are.</param>
/// <param name="Samples">Of how many calls.</param>
/// <param name="Apply">The slowest store's last version.</param>
/// <param name="Lease">The site lease; zero: there is none.</param>
/// <param name="Looked">To start and to look for obstacles.</param>
/// <param name="Rehearsed">To rehearse it.</param>
/// <param name="Measured">To take over, from what was measured.</param>
/// <param name="Takeover">The same, corrected by the last failover.</param>
/// <param name="LastFailover">What the last failover here took; null: none is known.</param>
/// <param name="LastEstimate">What had been estimated of it; null: nothing.</param>
internal sealed record TakeoverFacts(
    [property: JsonPropertyName("transaction_ms")] TimeSpan Transaction, [property: JsonPropertyName("ask_all_ms")] TimeSpan AskAll,
    int Processes, int Samples, [property: JsonPropertyName("apply_ms")] TimeSpan Apply,
    [property: JsonPropertyName("lease_ms")] TimeSpan Lease, [property: JsonPropertyName("looked_ms")] TimeSpan Looked,
    [property: JsonPropertyName("rehearsed_ms")] TimeSpan Rehearsed, [property: JsonPropertyName("measured_ms")] TimeSpan Measured,
    [property: JsonPropertyName("takeover_ms")] TimeSpan Takeover,
    [property: JsonPropertyName("last_failover_ms")] TimeSpan? LastFailover,
    [property: JsonPropertyName("last_estimate_ms")] TimeSpan? LastEstimate)
{
    /// <summary>From the command's start until every shard serves clients, without the lease.</summary>
    [JsonPropertyName("rto_ms")]
    public TimeSpan Rto => Looked + Rehearsed + Takeover;

    public void Print(AppHost host)
    {
        string transaction = string.Create(CultureInfo.InvariantCulture, $"{Transaction.TotalMilliseconds:0.00} ms");
        host.Output.WriteLine($"measured: {transaction} for a transaction of the site's database that is rolled back, "
            + $"{SiteText.Ms(AskAll)} to ask all {Processes} processes at once, {SiteText.Ms(Apply)} for the slowest store's last version "
            + $"(medians of {Samples}, but for the last)");
        const string lacks = "without the promotion of each Redis and without syncs of disks";
        string basis = LastFailover is not { } last
            ? $"from what is measured alone, {lacks}: no failover of this site has been measured yet"
            : LastEstimate is not { } estimate
            ? $"from what is measured, and from the last failover here, which took {SiteText.Ms(last)}"
            : $"{SiteText.Ms(Measured)} from what is measured, corrected by the last failover here, which took {SiteText.Ms(last)} "
                + $"where {SiteText.Ms(estimate)} had been estimated";
        string forLease = Lease == TimeSpan.Zero ? ""
            : $", and {SiteText.Ms(Lease)} for the site lease, unless you attest that the primary is down";
        host.Output.WriteLine(
            $"RTO (estimated, from the command's start until every shard serves clients): {SiteText.Ms(Rto)}{forLease}");
        host.Output.WriteLine(
            $"of these: {SiteText.Ms(Looked)} to start and to see whether anything stands in the way, and {SiteText.Ms(Rehearsed)} to "
            + $"rehearse it, as this command took; {SiteText.Ms(Takeover)} to take over ({basis})");
    }
}

/// <summary>What the log of a stream is good for.</summary>
/// <param name="Shard">Which, with the primary's if that is another one.</param>
/// <param name="To">Where it has to be brought to.</param>
/// <param name="Problem">Why it could not be looked at; null: it was.</param>
/// <param name="Flaw">Why it cannot be brought there; null: it can.</param>
/// <param name="Bytes">How much of it was read.</param>
/// <param name="FromOffset">From where on.</param>
/// <param name="Took">How long that took.</param>
internal sealed record LogFacts(string Shard, WorldPoint To, string? Problem, string? Flaw, long Bytes, long FromOffset,
    [property: JsonPropertyName("took_ms")] TimeSpan Took)
{
    public void Print(AppHost host) => host.Output.WriteLine(
        Problem is not null ? $"shard {Shard}: its log could not be looked at: {Problem}"
        : Flaw is not null ? $"shard {Shard}: cannot be brought to {To}: {Flaw}"
        : string.Create(CultureInfo.InvariantCulture,
            $"shard {Shard}: whole up to {To}: {ConsoleText.Bytes(Bytes)} of log behind offset {FromOffset}, and the checkpoint there, "
            + $"read with every checksum right in {Took.TotalMilliseconds:0} ms"));
}

/// <summary>What a restore of a shard has come to.</summary>
/// <param name="Shard">Which.</param>
/// <param name="Flaw">Why it is not what the store holds, or could not be tried; null: it is.</param>
/// <param name="At">The version that was compared; null: none was.</param>
/// <param name="Took">How long the restore took.</param>
/// <param name="CheckpointBytes">Of the checkpoint.</param>
/// <param name="LogBytes">Of the log behind it.</param>
/// <param name="Keys">How many were compared.</param>
internal sealed record RestoreFacts(int Shard, string? Flaw, WorldPoint? At, [property: JsonPropertyName("took_ms")] TimeSpan Took,
    long CheckpointBytes, long LogBytes, long Keys)
{
    public void Print(AppHost host) => host.Output.WriteLine(
        Flaw is not null ? $"shard {Shard}: the drill of a restore failed: {Flaw}"
        : string.Create(CultureInfo.InvariantCulture,
            $"shard {Shard}: restored to {At} in {Took.TotalMilliseconds:0} ms, from a checkpoint of {ConsoleText.Bytes(CheckpointBytes)} "
            + $"and {ConsoleText.Bytes(LogBytes)} of log: {Keys} keys, the same as the store holds"));
}
