// A drill's restore: a redis-server is started beside the shard's own, is given first what that one holds and then what checkpoint and log
// make of the same version, and both times is asked for the digest of all it has (DEBUG DIGEST). The store itself is only forked, as for
// any checkpoint: it need not allow DEBUG, and its readers wait for nothing. One server after the other's data, so that the machine needs
// memory for one more copy and not for two.
//
// What a digest tells apart: every key of every database, its whole value, and whether it expires; however it is encoded. Not when it
// expires, nor the groups of a stream, nor functions.
using System.Diagnostics;
using System.Globalization;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Supervision;
using Slogger.Replication.Following;
using RestoreOptions = Slogger.Redis.Feeding.RestoreOptions;

namespace Slogger.Proxy.Drills;

/// <summary>What came of a trial.</summary>
/// <param name="At">The version that was restored.</param>
/// <param name="Keys">How many keys it has.</param>
/// <param name="BaseBytes">Of the checkpoint.</param>
/// <param name="LogBytes">Of the log on top.</param>
/// <param name="Took">From an empty Redis to one that stands at the version.</param>
/// <param name="Flaw">Why it could not be compared, or what differs; null: both are the same.</param>
internal sealed record RestoreTrial(WorldPoint At, long Keys, long BaseBytes, long LogBytes, TimeSpan Took, string? Flaw)
{
    public static RestoreTrial Impossible(string why) => new(default, 0, 0, 0, default, why);
}

/// <summary>The redis-server of a trial.</summary>
internal static class TrialRedis
{
    private const string Folder = "drill";

    private static readonly string[] s_settings = ["maxmemory 0", "enable-debug-command yes"];

    private readonly record struct Content(string Digest, long Keys);

    /// <summary>Restores, compares, and leaves nothing behind.</summary>
    /// <param name="options">The shard's.</param>
    /// <param name="log">Its log.</param>
    /// <param name="checkpoints">What that rests on: none is deleted meanwhile.</param>
    /// <param name="copy">Writes what the store holds into a file, and says of which version that is; or why it cannot.</param>
    /// <param name="stop">Gives up.</param>
    public static async Task<RestoreTrial> CompareAsync(
        ServeOptions options, VersionLog log, CheckpointStore checkpoints,
            Func<string, CancellationToken, Task<(Boundary? At, string Flaw)>> copy, CancellationToken stop)
    {
        RedisSupervisorOptions how = ScratchServer.In(Folder, options, s_settings);
        await ClearAsync(options, stop).ConfigureAwait(false);
        await using var server = new RedisSupervisor(how);
        try
        {
            if (await server.StartOrAdoptAsync(stop).ConfigureAwait(false) is SupervisedStart.Failed failed)
            {
                return RestoreTrial.Impossible($"a redis-server to restore into does not start: {failed.Message}");
            }
            string file = Path.Combine(how.Directory, "store.rdb");
            (Boundary? at, string flaw) = await copy(file, stop).ConfigureAwait(false);
            if (at is not { } end) { return RestoreTrial.Impossible(flaw); }
            await using RedisConnection control = await RedisConnection.ConnectAsync(
                server.Endpoint, cancellation: stop).ConfigureAwait(false);
            (Content store, _) = await LoadAsync(
                control, new() { BaseFile = file, BaseOffset = end.Offset, TargetOffset = end.Offset, History = NoHistory.Instance,
                    ReplicationId = FeedPlan.NewReplicationId() }, stop).ConfigureAwait(false);
            File.Delete(file);
            await control.ExpectAsync(["FLUSHALL", "SYNC"], stop).ConfigureAwait(false);

            if (checkpoints.Latest(log, end.Offset) is not { } checkpoint)
            {
                return RestoreTrial.Impossible($"there is no checkpoint that the log could be replayed from to version {end.Version}");
            }
            checkpoints.Verify(checkpoint);
            using var history = new FollowedLog(log);
            (Content restored, TimeSpan took) = await LoadAsync(
                control, new() { BaseFile = checkpoints.PathOf(checkpoint), BaseOffset = checkpoint.Offset, TargetOffset = end.Offset,
                    History = history, ReplicationId = FeedPlan.NewReplicationId() }, stop).ConfigureAwait(false);
            string? difference = restored == store ? null : string.Create(CultureInfo.InvariantCulture,
                $"what the log restores is not what the store holds at {end.Point}: {restored.Keys} keys with digest {restored.Digest}, "
                    + $"and the store has {store.Keys} with {store.Digest}");
            return new(end.Point, restored.Keys, checkpoint.Bytes, end.Offset - checkpoint.Offset, took, difference);
        }
        catch (Exception e) when (e is RedisException or LogException or LogHistoryChangedException or IOException
            or UnauthorizedAccessException)
        {
            return RestoreTrial.Impossible(e.Message);
        }
        finally
        {
            await ScratchServer.EndAsync(server, how).ConfigureAwait(false);
        }
    }

    /// <summary>Ends what a process has left behind that was killed in a drill.</summary>
    public static Task ClearAsync(ServeOptions options, CancellationToken stop) => options.RedisServerPath is null ? Task.CompletedTask
        : ScratchServer.EndLeftAsync(ScratchServer.In(Folder, options, s_settings), stop);

    // Compared while it is a replica: a master would drop what has expired, and the store that follows has it still.
    private static async Task<(Content Content, TimeSpan Took)> LoadAsync(RedisConnection control, FeedPlan plan, CancellationToken stop)
    {
        Content content = default;
        TimeSpan took = default;
        long began = Stopwatch.GetTimestamp();
        var how = new RestoreOptions
        {
            Feed = FeedAddress.For(control.Endpoint),
            SwapDatabases = false,
            BeforePromotion = async (c, t) =>
            {
                took = Stopwatch.GetElapsedTime(began);
                content = new((await c.ExpectAsync(["DEBUG", "DIGEST"], t).ConfigureAwait(false)).Text,
                    await RedisProbe.KeyCountAsync(c, t).ConfigureAwait(false));
            },
        };
        RestoreResult result = await RedisRestore.RunAsync(control, plan, how, stop).ConfigureAwait(false);
        if (result is RestoreResult.Failed { Problem: RedisProblem.Cancelled }) { stop.ThrowIfCancellationRequested(); }
        return result is RestoreResult.Failed failed ? throw new RedisException(failed.Problem, $"version {plan.TargetOffset} could not "
            + $"be restored into a Redis of its own: {failed.Message}") : (content, took);
    }
}
