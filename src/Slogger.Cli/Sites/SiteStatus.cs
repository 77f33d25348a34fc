// slogger status --site: a site of two, and all of its streams, as SQL and its processes say.
using Slogger.Cli.Terminal;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Access;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>Shows a site.</summary>
internal static class SiteStatus
{
    public static readonly IReadOnlyList<OptionDefinition> Options =
        [Patience.Option("A whole site"), .. SiteArguments.Common("With --site: its database, as given to its processes")
            .Select(o => o with { Group = "A whole site" })];

    private static readonly string[] OfOneProxy = ["data", "user", "password-file", "tls", "tls-ca", "tls-insecure"];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, IReadOnlyList<string> addresses, AppHost host)
    {
        var arguments = new SiteArguments(texts, host);
        MetadataSpec? spec = arguments.Metadata("metadata", "as for the site's processes");
        TimeSpan timeout = Patience.LimitIn(arguments);
        SiteCredentials credentials = arguments.Known();
        string cluster = arguments.Cluster;
        if (addresses.Count > 0 || OfOneProxy.Any(texts.Values.ContainsKey))
        {
            arguments.Fail("one proxy is named together with --site",
                "give --site and --metadata for a whole site, or ADDRESS or --data for one proxy");
        }
        if (arguments.Errors.Count > 0) { return CommandResult.BadOptions(arguments.Errors); }
        using LineLog log = new(host.Error, LogLevel.Information);
        using StopSignals signals = new(log, host.HandlesSignals, host.Stop);
        try
        {
            var patience = new Patience(timeout, log);
            return await patience.WithDatabasesAsync(
                async () =>
                {
                    await using SiteAccess site = await SiteAccess.OpenAsync(
                        spec!, cluster, credentials, signals.Token).ConfigureAwait(false);
                    return await RunAsync(site, arguments.Flag(Report.Option), host, patience, signals.Token).ConfigureAwait(false);
                },
                signals.Token).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return CommandResult.Failed(e.Message, "check --metadata and --cluster");
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Failed("interrupted", "nothing was changed");
        }
    }

    private static async Task<CommandResult> RunAsync(SiteAccess site, bool asJson, AppHost host, Patience patience, CancellationToken stop)
    {
        SiteState state = await site.StateAsync(stop).ConfigureAwait(false);
        int shards = (await site.Metadata.FindClusterAsync(site.Cluster, stop).ConfigureAwait(false))!.ShardCount;
        (IReadOnlyList<Answered<V1.StatusReply>> answers, CommandResult? obstacle) =
            await patience.AskAsync(site, a => ObstacleOf(state, a, shards), stop).ConfigureAwait(false);
        ReportOf(state, answers, shards, site.Cluster, obstacle).Write(host, asJson);
        return obstacle ?? CommandResult.Done;
    }

    // Why the site is not ready to do what it is for: a backup to take over now, a primary to serve. Null: it is.
    private static CommandResult? ObstacleOf(SiteState state, IReadOnlyList<Answered<V1.StatusReply>> answers, int shards)
    {
        const string whole = "the site could not take over now: ";
        switch (state.Role)
        {
            case SiteRole.Backup:
                return FailoverCommand.Obstacle(state, [], answers) is { } found
                    ? CommandResult.Failed(whole + found.Errors[0].What, found.Errors[0].Remedy) : null;
            case SiteRole.FailingOver:
                return CommandResult.Failed($"the site is {RoleText(state)}, and serves nobody yet", "slogger failover goes on with it");
            case SiteRole.HandingOver:
                return CommandResult.Failed($"the site is {RoleText(state)}",
                    "slogger switchover goes on with it, or calls it off (--call-off)");
            case SiteRole.Deposed:
                return CommandResult.Failed("the site was deposed: it neither serves nor could take over",
                    "the other site serves; make this one its backup with slogger seed");
            default:
                int missing = Enumerable.Range(0, shards).FirstOrDefault(s => ShippedOf(answers, s).Status is null, -1);
                return missing < 0 ? null
                    : CommandResult.Failed($"it is not known whether the primary's shard {missing} serves: "
                        + $"{Missing(ShippedOf(answers, missing).Of, ServeProcess)}", "see what is said of each shard");
        }
    }

    private const string ServeProcess = "slogger serve (with --site-listen)", BackupProcess = "slogger backup", Unknown = "unknown";

    public static string RoleText(SiteState state) => state switch
    {
        { Role: SiteRole.Primary, Final: { } final } => $"primary, since it took over at {final}",
        { Role: SiteRole.Primary } => "primary",
        { Role: SiteRole.Backup } => "backup",
        { Role: SiteRole.FailingOver, Final: { } final } =>
            $"taking over at {final}: "
                + $"{Enumerable.Range(0, state.Shards).Count(s => state.StreamsOf(new(s)).All(i => state.Streams[i].IsOpen))} of "
                + $"{state.Shards} shards are open",
        { Role: SiteRole.FailingOver } => "taking over: not decided yet",
        { Role: SiteRole.HandingOver } => $"primary, handing over (switch-over {state.HandOver.Number}): clients are held",
        _ => "deposed: slogger seed makes it a backup",
    };

    /// <summary>The process of a stream, and what that says of it; null: none does.</summary>
    public static (Answered<V1.StatusReply>? Of, V1.StreamStatus? Status) StreamOf(SiteState state,
        IReadOnlyList<Answered<V1.StatusReply>> answers, int stream)
    {
        foreach (Answered<V1.StatusReply> answer in answers)
        {
            if (answer.Reply?.Streams.FirstOrDefault(s => s.Shard == stream) is { } status) { return (answer, status); }
        }
        int shard = state.ShardOf(stream);
        return (answers.Where(a => a.Process.Shards.Any(s => s.Number == shard)).Select(a => (Answered<V1.StatusReply>?)a)
            .FirstOrDefault(), null);
    }

    private static (Answered<V1.StatusReply>? Of, V1.ShippedStatus? Status) ShippedOf(IReadOnlyList<Answered<V1.StatusReply>> answers,
        int shard)
    {
        foreach (Answered<V1.StatusReply> answer in answers)
        {
            if (answer.Reply?.Shipped.FirstOrDefault(s => s.Shard == shard) is { } status) { return (answer, status); }
        }
        return (answers.Where(a => a.Process.Shards.Any(s => s.Number == shard)).Select(a => (Answered<V1.StatusReply>?)a)
            .FirstOrDefault(), null);
    }

    private static SiteReport ReportOf(SiteState state, IReadOnlyList<Answered<V1.StatusReply>> answers, int shards, string cluster,
        CommandResult? obstacle)
    {
        bool isBackup = state.Role is SiteRole.Backup or SiteRole.FailingOver;
        return new(cluster, state.Epoch.Number, state.Role.ToString(), RoleText(state), obstacle?.Errors[0].What, state.Final,
            [.. Enumerable.Range(0, state.Streams.Length).Select(stream => FactsOf(state, answers, stream))],
            isBackup ? [] : [.. Enumerable.Range(0, shards).Select(shard => FactsOf(answers, shard))], isBackup);
    }

    private static StreamFacts FactsOf(SiteState state, IReadOnlyList<Answered<V1.StatusReply>> answers, int stream)
    {
        (Answered<V1.StatusReply>? of, V1.StreamStatus? s) = StreamOf(state, answers, stream);
        var facts = new StreamFacts(
            state.ShardOf(stream), state.Layout.IsPlain ? stream : state.Layout[stream].Source, state.NameOf(stream),
            of?.Process.Address, s is null ? "Unknown" : state.Streams[stream].Phase.ToString(), s is null ? Unknown : SiteText.Phase(s),
            state.Streams[stream].Generation);
        return s is null ? facts with { Problem = Missing(of, BackupProcess) } : facts with
        {
            Held = SiteText.Of(s.Held),
            Watermark = SiteText.Of(s.Watermark),
            WatermarkAge = SiteText.TimeOf(s.WatermarkTime) is { } time ? DateTimeOffset.UtcNow - time : null,
            Applied = SiteText.Of(s.Applied),
            ApplyUs = s.ApplyUs,
            SilentUs = s.SilentUs,
            SeedHasBytes = s.SeedHasBytes,
            SeedBytes = s.SeedBytes,
            Problem = Problem(s) is { Length: > 0 } problem ? problem : null,
        };
    }

    private static ShippedFacts FactsOf(IReadOnlyList<Answered<V1.StatusReply>> answers, int shard)
    {
        (Answered<V1.StatusReply>? of, V1.ShippedStatus? s) = ShippedOf(answers, shard);
        return s is null ? new(shard, of?.Process.Address, Unknown, null, null, Missing(of, ServeProcess))
            : new(shard, of?.Process.Address, s.State, SiteText.Of(s.Cut), SiteText.Of(s.Watermark), null);
    }

    private static string Problem(V1.StreamStatus status) => status.Failure.Length > 0 ? status.Failure : status.Refusal;

    private static string Missing(Answered<V1.StatusReply>? of, string process) =>
        of is not { } known ? $"no process has ever said that it has it: start its {process}"
        : known.Reply is null ? $"{known.Process.Address} does not answer: {known.Problem}: {known.Remedy}"
        : $"{known.Process.Address} answers, and does not have it: start its {process}";
}
