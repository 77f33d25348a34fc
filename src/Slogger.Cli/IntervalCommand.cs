// slogger interval: changes the length of versions of a running cluster. It proposes a time in the metadata, and waits until all shards
// have agreed. Interrupted, it leaves that to the shards, which settle it within seconds.
using Slogger.Cli.Terminal;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Changes the version interval.</summary>
internal static class IntervalCommand
{
    public const string Name = "interval";

    // Shards look twice a second. Theirs and this machine's clock may differ by some.
    private static readonly TimeSpan s_ahead = TimeSpan.FromSeconds(4);
    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(100);

    private const string Origin = "the command line", What = "What it is to be", Where = "Which cluster";

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new("to", What, "DURATION", "Length of a version from then on, 1ms to 1h.", "none", ""),
        Report.Json(What),
        new("metadata", Where, "SPEC", "The cluster's metadata, as given to slogger serve: sqlite:PATH, postgres:CONNECTION or "
            + "sqlserver:CONNECTION. Also SLOGGER_METADATA.", "none", "") { IsSecret = true },
        new("cluster", Where, "NAME", "The cluster's name. Also SLOGGER_CLUSTER.", "default", ""),
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        string? One(string name) => texts.One(name, errors);
        TimeSpan interval = default;
        string? to = One("to"), spec = One("metadata") ?? host.Environment["SLOGGER_METADATA"] as string;
        string cluster = One("cluster") ?? host.Environment["SLOGGER_CLUSTER"] as string ?? "default";
        MetadataSpec? metadata = null;
        if (to is null) { errors.Add(new OptionError("no interval is named", Origin, "give --to 1ms")); }
        else if (!OptionText.Duration(ServeOptions.VersionIntervalMin, ServeOptions.VersionIntervalMax)(
            to, out interval, out string? problem))
        {
            errors.Add(new OptionError($"--to \"{to}\" {problem}", Origin, "write --to 1ms"));
        }
        if (spec is null)
        {
            errors.Add(new OptionError("no metadata is named", Origin, "give --metadata as for slogger serve, or set SLOGGER_METADATA"));
        }
        else if (!MetadataSpec.TryParse(spec, out metadata, out string? wrong))
        {
            errors.Add(new OptionError($"--metadata {wrong}", Origin, "write sqlite:PATH, postgres:CONNECTION or sqlserver:CONNECTION"));
        }
        if (errors.Count > 0) { return CommandResult.BadOptions(errors); }
        if (metadata!.Kind == MetadataKind.Sqlite && !File.Exists(metadata.Target))
        {
            return CommandResult.Failed($"the metadata {metadata.Target} does not exist",
                "give the --metadata that the cluster's proxies were started with");
        }
        using LineLog log = new(host.Error, LogLevel.Information);
        using StopSignals signals = new(log, host.HandlesSignals);
        try
        {
            await using IMetadataStore store = MetadataStoreFactory.Create(metadata.Text);
            await store.InitializeAsync(signals.Token).ConfigureAwait(false);
            return await ChangeAsync(store, cluster, interval, host, texts.Values.ContainsKey(Report.Option),
                signals.Token).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return CommandResult.Failed(e.Message, "check --metadata and --cluster, and give the command again");
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Failed("interrupted", "give the command again: twice does no harm");
        }
    }

    private static async Task<CommandResult> ChangeAsync(IMetadataStore store, string cluster, TimeSpan interval, AppHost host,
        bool asJson, CancellationToken stop)
    {
        if (await store.FindClusterAsync(cluster, stop).ConfigureAwait(false) is not { } settings)
        {
            return CommandResult.Failed($"the metadata knows no cluster \"{cluster}\"", "check --cluster and --metadata");
        }
        if (settings.ShardCount == 1)
        {
            return CommandResult.Failed($"cluster \"{cluster}\" has one shard, whose proxy takes the interval when it starts",
                $"start it again with --version-interval {OptionText.FormatDuration(interval)}");
        }
        long intervalUs = (long)interval.TotalMicroseconds;
        GridState state = await store.ProposeIntervalAsync(
            cluster, intervalUs, NowUs + (long)s_ahead.TotalMicroseconds, stop).ConfigureAwait(false);
        IReadOnlyList<ShardId> missing = [];
        while (state.ChangeUs > 0)
        {
            bool isLate = NowUs > state.ChangeUs;
            IReadOnlyList<ShardId> now = await store.SettleIntervalAsync(cluster, state.ChangeUs, isLate, stop).ConfigureAwait(false);
            if (now.Count > 0) { missing = now; }
            if (now.Count == 0 || isLate) { break; }
            await Task.Delay(s_pause, stop).ConfigureAwait(false);
        }
        GridStretch newest = (await store.FindClusterAsync(cluster, stop).ConfigureAwait(false))!.Grid[^1];
        if (newest.IntervalUs != intervalUs)
        {
            return missing.Count > 0
                ? CommandResult.Failed(
                    $"the interval stays as it is: shard {string.Join(", ", missing)} did not agree in time. It is down, or cannot reach "
                        + "the metadata, or its clock is ahead",
                    "see slogger status; start it, or remove it with slogger leave, and give the command again")
                : CommandResult.Failed("another change was under way: versions are of "
                    + $"{OptionText.FormatDuration(TimeSpan.FromMicroseconds(newest.IntervalUs))} now", "give the command again");
        }
        new IntervalReport(interval, newest.FirstVersion.Number, TimeSpan.FromMicroseconds(newest.StartUs - NowUs)).Write(host, asJson);
        return CommandResult.Done;
    }

    private static long NowUs => (DateTime.UtcNow - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;
}
