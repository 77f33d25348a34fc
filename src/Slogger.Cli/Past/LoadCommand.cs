// slogger load: puts a snapshot into an empty cluster, of however many shards. Each key goes to the shard that has its slot.
using System.Globalization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;

namespace Slogger.Cli.Past;

/// <summary>What was loaded.</summary>
/// <param name="Version">The version of the snapshot.</param>
/// <param name="Time">When that was.</param>
/// <param name="Keys">Keys that were loaded.</param>
/// <param name="Expired">Keys that were left out, since they have expired.</param>
internal sealed record LoadReport(long Version, DateTimeOffset Time, long Keys, long Expired) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.LoadReport;

    public override void Print(AppHost host)
    {
        host.Output.WriteLine(PastText.Head(Version, Time));
        host.Output.WriteLine($"{Keys} keys loaded{(Expired > 0 ? $"; {Expired} had expired" : "")}");
    }
}

/// <summary>Loads a snapshot.</summary>
internal static class LoadCommand
{
    public const string Name = "load";

    private const string What = "The snapshot", Origin = "the command line", AsOf = "as-of", Shift = "shift", Never = "none";

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new("from", What, SnapshotPlace.Form, "The snapshot: the directory with manifest.json, or where it is in a bucket. Those that it "
            + "rests on are where they were, or beside it.", "none", ""),
        new("expiries", What, "as-of|shift|none", "When keys expire. as-of: when they were to; those whose time is over are left out. "
            + "shift: each lives as long as it had left. none: never.", AsOf, ""),
        .. PastArguments.Access,
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        string? from = texts.One("from", errors);
        string expiries = texts.One("expiries", errors) ?? AsOf;
        SnapshotPlace? place = null;
        if (from is null) { errors.Add(new OptionError("no snapshot is named", Origin, "give --from DIR")); }
        else { place = SnapshotPlace.Of(from, "from", errors); }
        if (expiries is not (AsOf or Shift or Never))
        {
            errors.Add(new OptionError($"--expiries \"{expiries}\" is none of {AsOf}, {Shift} and {Never}", Origin, "correct it"));
        }
        ProxyAccess? access = ProxyAccess.Read(texts, texts.One("address", errors), errors);
        if (errors.Count > 0) { return CommandResult.BadOptions(errors); }
        if (access!.Find(host) is { } failure) { return failure; }
        bool asJson = texts.Values.ContainsKey(Report.Option), hasBegun = false;
        try
        {
            SnapshotChain chain = await SnapshotChain.ReadAsync(place!, default).ConfigureAwait(false);
            await chain.VerifyAsync().ConfigureAwait(false);
            SnapshotManifest snapshot = chain.Layers[0].Manifest;
            await using SnapshotLoader loader = await SnapshotLoader.OpenAsync(access, ExpiryOf(expiries, snapshot),
                Report.Progress(host, asJson)).ConfigureAwait(false);
            hasBegun = true;
            // What a snapshot says of a key counts, and not those that it rests on.
            foreach (SnapshotLayer layer in chain.Layers)
            {
                foreach (SnapshotShard shard in layer.Manifest.Shards)
                {
                    await loader.LoadAsync(await layer.Place.OpenAsync(shard.File).ConfigureAwait(false), layer.Place.PathOf(shard.File),
                        shard.Keys, isNoted: layer.Manifest.Previous is not null).ConfigureAwait(false);
                    if (shard.Removed is not { } removed) { continue; }
                    loader.LeaveOut(SnapshotChain.Removals(await layer.Place.OpenAsync(removed.File).ConfigureAwait(false),
                        layer.Place.PathOf(removed.File)));
                }
            }
            await loader.CommitAsync().ConfigureAwait(false);
            new LoadReport(snapshot.Version, snapshot.Time, loader.Keys, loader.Expired).Write(host, asJson);
            return CommandResult.Done;
        }
        catch (ProxyUnreachableException e)
        {
            return CommandResult.Failed(e.Message + access.Found, e.Remedy);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or RedisException)
        {
            return CommandResult.Failed(e.Message, !hasBegun ? "nothing was loaded"
                : "what was loaded until then is there: empty the cluster (FLUSHALL at each shard) before you load again");
        }
    }

    // The time at which a key that was to expire then is to expire now; 0: never. Null: it is left out.
    private static Func<long, long?> ExpiryOf(string expiries, SnapshotManifest snapshot)
    {
        long thenMs = snapshot.Time.ToUnixTimeMilliseconds(), nowMs = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds();
        return atMs => atMs == 0 ? 0 : atMs <= thenMs ? null : expiries switch
        {
            Shift => atMs + nowMs - thenMs,
            Never => 0,
            _ => atMs <= nowMs ? null : atMs,
        };
    }
}
