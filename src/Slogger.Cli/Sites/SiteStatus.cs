// slogger status --site: a site of two, and all of its streams, as SQL and its processes say.
using System.Globalization;
using System.Text;
using System.Text.Encodings.Web;
using System.Text.Json;
using Slogger.Cli.Terminal;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Access;
using Spectre.Console;
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
                    return await RunAsync(site, arguments.Flag("json"), host, patience, signals.Token).ConfigureAwait(false);
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
        if (asJson) { host.Output.WriteLine(ToJson(state, answers, shards, obstacle)); }
        else { Print(state, answers, shards, site.Cluster, host); }
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
                    : CommandResult.Failed($"of the primary's shard {missing} it is not known whether it serves: {Missing(ShippedOf(answers, missing).Of, ServeProcess)}", "see what is said of each shard");
        }
    }

    private const string ServeProcess = "slogger serve (with --site-listen)", BackupProcess = "slogger backup", Unknown = "unknown";

    public static string RoleText(SiteState state) => state switch
    {
        { Role: SiteRole.Primary, Final: { } final } => $"primary, since it took over at {final}",
        { Role: SiteRole.Primary } => "primary",
        { Role: SiteRole.Backup } => "backup",
        { Role: SiteRole.FailingOver, Final: { } final } =>
            $"taking over at {final}: {Enumerable.Range(0, state.Shards).Count(s => state.StreamsOf(new(s)).All(i => state.Streams[i].IsOpen))} of {state.Shards} shards are open",
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

    private static void Print(SiteState state, IReadOnlyList<Answered<V1.StatusReply>> answers, int shards, string cluster, AppHost host)
    {
        Table table = new Table { Border = TableBorder.Rounded,
            Title = new TableTitle(Markup.Escape($"cluster {cluster}, site epoch {state.Epoch}: {RoleText(state)}")) };
        bool isBackup = state.Role is SiteRole.Backup or SiteRole.FailingOver;
        foreach (string column in isBackup ? ["shard", "process", "stream", "held", "watermark", "age", "applied", "heard"]
            : (string[])["shard", "process", "ships", "recorded cut", "at the backup"])
        {
            table.AddColumn(column);
        }
        // Long texts do not go into a cell.
        List<string> problems = [];
        if (isBackup)
        {
            for (int s = 0; s < state.Streams.Length; s++)
            {
                (Answered<V1.StatusReply>? of, V1.StreamStatus? status) = StreamOf(state, answers, s);
                table.AddRow([.. Row(state.NameOf(s), of, status).Select(t => new Text(t))]);
                string problem = status is null ? Missing(of, BackupProcess) : Problem(status);
                if (problem.Length > 0) { problems.Add($"shard {state.NameOf(s)}: {problem}"); }
            }
        }
        else
        {
            for (int shard = 0; shard < shards; shard++)
            {
                (Answered<V1.StatusReply>? of, V1.ShippedStatus? s) = ShippedOf(answers, shard);
                string address = of?.Process.Address ?? "none";
                if (s is not null)
                {
                    table.AddRow(Number(shard), address, Markup.Escape(s.State), $"{SiteText.Of(s.Cut)}",
                        Version(SiteText.Of(s.Watermark)));
                }
                else
                {
                    table.AddRow(Number(shard), address, Unknown, "", "");
                    problems.Add($"shard {shard}: {Missing(of, ServeProcess)}");
                }
            }
        }
        ConsoleText.ConsoleOf(host).Write(table);
        foreach (string problem in problems) { host.Output.WriteLine(problem); }
    }

    private static string Problem(V1.StreamStatus status) => status.Failure.Length > 0 ? status.Failure : status.Refusal;

    private static string[] Row(string name, Answered<V1.StatusReply>? of, V1.StreamStatus? s)
    {
        // What SQL says of it was so when somebody was there.
        if (s is null) { return [name, of?.Process.Address ?? "none", Unknown, "", "", "", "", ""]; }
        string age = SiteText.TimeOf(s.WatermarkTime) is { } time ? SiteText.Age(DateTimeOffset.UtcNow - time) : "";
        return
        [
            name, of!.Value.Process.Address, $"{SiteText.Phase(s)}, generation {s.Generation}{Seed(s)}", Version(SiteText.Of(s.Held)),
                Version(SiteText.Of(s.Watermark)), age,
            Version(SiteText.Of(s.Applied)), s.SilentUs < 0 ? "never" : SiteText.Age(TimeSpan.FromMicroseconds(s.SilentUs)) + " ago",
        ];
    }

    private static string Missing(Answered<V1.StatusReply>? of, string process) =>
        of is not { } known ? $"no process has ever said that it has it: start its {process}"
        : known.Reply is null ? $"{known.Process.Address} does not answer: {known.Problem}: {known.Remedy}"
        : $"{known.Process.Address} answers, and does not have it: start its {process}";

    private static string Seed(V1.StreamStatus s) => s.SeedBytes == 0 ? ""
        : $", {ConsoleText.Bytes(s.SeedHasBytes)} of {ConsoleText.Bytes(s.SeedBytes)}";

    private static string Version(WorldPoint point) => point == default ? "none" : $"{point}";

    private static string Number(long number) => number.ToString(CultureInfo.InvariantCulture);

    // Names are those of the messages between processes.
    private static string ToJson(SiteState state, IReadOnlyList<Answered<V1.StatusReply>> answers, int shards, CommandResult? obstacle)
    {
        using MemoryStream text = new();
        using (Utf8JsonWriter writer =
            new(text, new JsonWriterOptions { Indented = true, Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping }))
        {
            writer.WriteStartObject();
            writer.WriteNumber("site_epoch", state.Epoch.Number);
            writer.WriteString("role", state.Role.ToString());
            writer.WriteString("obstacle", obstacle?.Errors[0].What);
            Point(writer, "final", state.Final ?? default);
            writer.WriteStartArray("streams");
            for (int stream = 0; stream < state.Streams.Length; stream++)
            {
                (Answered<V1.StatusReply>? of, V1.StreamStatus? s) = StreamOf(state, answers, stream);
                writer.WriteStartObject();
                writer.WriteNumber("shard", state.ShardOf(stream));
                if (!state.Layout.IsPlain) { writer.WriteNumber("primary_shard", state.Layout[stream].Source); }
                writer.WriteString("process", of?.Process.Address);
                writer.WriteString("phase", s is null ? "Unknown" : state.Streams[stream].Phase.ToString());
                writer.WriteNumber("generation", state.Streams[stream].Generation);
                if (s is null) { writer.WriteString("problem", Missing(of, BackupProcess)); }
                else
                {
                    Point(writer, "held", SiteText.Of(s.Held));
                    Point(writer, "watermark", SiteText.Of(s.Watermark));
                    if (SiteText.TimeOf(s.WatermarkTime) is { } time)
                    {
                        writer.WriteNumber("watermark_age_ms", Math.Round((DateTimeOffset.UtcNow - time).TotalMilliseconds, 3));
                    }
                    Point(writer, "applied", SiteText.Of(s.Applied));
                    writer.WriteNumber("apply_us", s.ApplyUs);
                    writer.WriteNumber("silent_us", s.SilentUs);
                    writer.WriteNumber("seed_has_bytes", s.SeedHasBytes);
                    writer.WriteNumber("seed_bytes", s.SeedBytes);
                    writer.WriteString("problem", Problem(s) is { Length: > 0 } problem ? problem : null);
                }
                writer.WriteEndObject();
            }
            writer.WriteEndArray();
            writer.WriteStartArray("shipped");
            for (int shard = 0; state.Role is SiteRole.Primary or SiteRole.HandingOver && shard < shards; shard++)
            {
                (Answered<V1.StatusReply>? of, V1.ShippedStatus? s) = ShippedOf(answers, shard);
                writer.WriteStartObject();
                writer.WriteNumber("shard", shard);
                writer.WriteString("process", of?.Process.Address);
                writer.WriteString("state", s?.State ?? Unknown);
                if (s is null) { writer.WriteString("problem", Missing(of, ServeProcess)); }
                else
                {
                    Point(writer, "cut", SiteText.Of(s.Cut));
                    Point(writer, "watermark", SiteText.Of(s.Watermark));
                }
                writer.WriteEndObject();
            }
            writer.WriteEndArray();
            writer.WriteEndObject();
        }
        return Encoding.UTF8.GetString(text.ToArray());
    }

    private static void Point(Utf8JsonWriter writer, string name, WorldPoint point)
    {
        if (point == default)
        {
            writer.WriteNull(name);
            return;
        }
        writer.WriteStartObject(name);
        writer.WriteNumber("world_line", point.WorldLine.Number);
        writer.WriteNumber("version", point.Version.Number);
        writer.WriteEndObject();
    }
}
