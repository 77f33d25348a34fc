// Restores a Redis to an exact offset of a history without restarting it: REPLICAOF our feed, load base and tail, wait until
// exactly the target is executed, REPLICAOF NO ONE, verify. Afterwards Redis knows the feed's identity as its former one,
// so that PSYNC <feed id> <target + 1> continues without a gap.
//
// Safety: Redis is promoted only when it stands at exactly the target. If anything fails before, it is left a replica without a
// master, which accepts no writes; restoring again is then allowed and needed. Settings changed for the while are noted in the
// undo file first.
using System.Diagnostics;
using System.Globalization;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Feeding;

/// <summary>Settings of a restore.</summary>
public sealed record RestoreOptions
{
    /// <summary>Where the feed listens, and whether it demands its secret.</summary>
    public FeedOptions Feed { get; init; } = new();

    /// <summary>The host name by which Redis reaches the feed. Default: the listening address.</summary>
    public string? FeedHost { get; init; }

    /// <summary>Where the settings to return to are kept while they are changed. Default: null, nowhere: a crash of the proxy
    /// during the restore then leaves Redis with the feed's masterauth, without notifications and so on.</summary>
    public string? UndoFile { get; init; }

    /// <summary>Load the base beside the old data and swap (repl-diskless-load swapdb). Default: true, the fastest; needs
    /// memory for both. False: by way of Redis's disk.</summary>
    public bool SwapDatabases { get; init; } = true;

    /// <summary>How long nothing may move before it is given up. Default: 60 s.</summary>
    public TimeSpan StallMax { get; init; } = TimeSpan.FromSeconds(60);

    /// <summary>Restore also a Redis that is a replica now (left so by a restore that failed, or by a switch-over). Default:
    /// true; false refuses with <see cref="RedisProblem.NotMaster"/>.</summary>
    public bool AllowReplica { get; init; } = true;

    /// <summary>Called when Redis stands at the target, still a replica: the only moment to compare its data exactly. An
    /// exception leaves it so, and passes to the caller.</summary>
    public Func<RedisConnection, CancellationToken, Task>? BeforePromotion { get; init; }

    /// <summary>Called when Redis is a master again, with its settings still changed.</summary>
    public Action? Promoted { get; init; }

    /// <summary>Is told of progress, some 10 times a second.</summary>
    public IProgress<FeedProgress>? Progress { get; init; }
}

/// <summary>The outcome of a restore: one of the nested records.</summary>
public abstract record RestoreResult
{
    private RestoreResult()
    {
    }

    /// <summary>Redis is a master again and holds exactly the history up to the target.</summary>
    /// <param name="FeedReplicationId">Attach with this identity and the target offset.</param>
    /// <param name="Offset">The target.</param>
    /// <param name="ReplicationId">Redis's new identity.</param>
    /// <param name="Suppressed">Messages that were not published again.</param>
    public sealed record Restored(string FeedReplicationId, long Offset, string ReplicationId, long Suppressed) : RestoreResult;

    /// <summary>It did not work.</summary>
    /// <param name="Problem">Why.</param>
    /// <param name="Message">For a person; says in which state Redis is.</param>
    public sealed record Failed(RedisProblem Problem, string Message) : RestoreResult;
}

/// <summary>Runs restores.</summary>
public static class RedisRestore
{
    private const string LeftBehind =
        " Redis is left as a replica without a master, so that it accepts no writes; restore it again when the cause is removed.";

    /// <summary>Restores the Redis behind <paramref name="control"/> to <see cref="FeedPlan.TargetOffset"/> of the plan.</summary>
    public static async Task<RestoreResult> RunAsync(RedisConnection control, FeedPlan plan, RestoreOptions? options = null,
        CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(control);
        ArgumentNullException.ThrowIfNull(plan);
        options ??= new RestoreOptions();
        bool demoted = false;
        try
        {
            ProbeResult probe = await RedisProbe.InspectAsync(control, cancellation).ConfigureAwait(false);
            if (!probe.IsUsable && !(probe.Problem == RedisProblem.NotMaster && options.AllowReplica))
                return new RestoreResult.Failed(probe.Problem, probe.Message);
            await using ReplicationFeed feed = ReplicationFeed.Start(plan, options.Feed);
            ConfigScope scope = await ConfigScope.EnterAsync(control, Wanted(feed, options), options.UndoFile,
                cancellation).ConfigureAwait(false);
            try
            {
                if (!HasSecret(scope, options))
                    return new RestoreResult.Failed(RedisProblem.NoPermission,
                        $"Redis at {control.Endpoint} does not let the proxy set masteruser and masterauth "
                        + $"({string.Join("; ", scope.Refused)}). "
                        + "Allow CONFIG SET to the proxy's user, or allow a feed without a secret.");
                demoted = true;
                await PointAsync(control, feed, options, cancellation).ConfigureAwait(false);
                await WaitForTargetAsync(control, feed, plan.TargetOffset, options, cancellation).ConfigureAwait(false);
                if (options.BeforePromotion is { } check)
                    await check(control, cancellation).ConfigureAwait(false);
                await control.ExpectAsync(["REPLICAOF", "NO", "ONE"], cancellation).ConfigureAwait(false);
                demoted = false;
                options.Promoted?.Invoke();
                return Verify(control, feed, plan.TargetOffset, await control.InfoAsync("replication", cancellation).ConfigureAwait(false));
            }
            finally
            {
                await TryLeaveAsync(scope, control).ConfigureAwait(false);
            }
        }
        catch (RedisException e)
        {
            return new RestoreResult.Failed(e.Problem, e.Message + (demoted ? LeftBehind : ""));
        }
        catch (OperationCanceledException) when (cancellation.IsCancellationRequested)
        {
            return new RestoreResult.Failed(RedisProblem.Cancelled, "The restore was given up." + (demoted ? LeftBehind : ""));
        }
        catch (Exception e) when (e is IOException or System.Net.Sockets.SocketException or UnauthorizedAccessException)
        {
            return new RestoreResult.Failed(RedisProblem.LocalFile, $"The restore failed: {e.Message}" + (demoted ? LeftBehind : ""));
        }
    }

    internal static bool HasSecret(ConfigScope scope, RestoreOptions options) =>
        !options.Feed.RequireSecret || (scope.IsSet("masteruser") && scope.IsSet("masterauth"));

    internal static Task PointAsync(RedisConnection control, ReplicationFeed feed, RestoreOptions options,
        CancellationToken cancellation) =>
        control.ExpectAsync(["REPLICAOF", options.FeedHost ?? feed.LocalEndPoint.Address.ToString(),
            feed.LocalEndPoint.Port.ToString(CultureInfo.InvariantCulture)], cancellation);

    internal static Dictionary<string, string> Wanted(ReplicationFeed feed, RestoreOptions options)
    {
        var wanted = new Dictionary<string, string>
        {
            ["replica-read-only"] = "yes",          // a client's write in between would be lost, or worse, kept
            ["replica-ignore-maxmemory"] = "yes",   // evictions come with the history; more of them would be a difference
            ["notify-keyspace-events"] = "",        // replayed writes must not be announced again
            ["repl-diskless-load"] = options.SwapDatabases ? "swapdb" : "disabled",
            ["tls-replication"] = "no",             // the feed speaks plain TCP
        };
        if (options.Feed.RequireSecret)
        {
            wanted["masteruser"] = ReplicationFeed.SecretUser;
            wanted["masterauth"] = feed.Secret;
        }
        return wanted;
    }

    internal static async Task WaitForTargetAsync(RedisConnection control, ReplicationFeed feed, long target, RestoreOptions options,
        CancellationToken cancellation)
    {
        var clock = Stopwatch.StartNew();
        TimeSpan lastMoved = TimeSpan.Zero, nextReport = TimeSpan.Zero, lastAsked = TimeSpan.Zero;
        (FeedProgress Feed, long Offset) seen = default;
        string loadedSeen = "";
        while (true)
        {
            if (feed.Failure is { } failure)
                throw new RedisException(RedisProblem.CommandFailed, failure);
            if (feed.HasRefused)
                throw new RedisException(RedisProblem.HistoryGone,
                    $"Redis at {control.Endpoint} cannot continue the history at its offset.");
            // At least once, however little there is to restore.
            if (clock.Elapsed >= nextReport)
            {
                options.Progress?.Report(feed.Progress);
                nextReport = clock.Elapsed + TimeSpan.FromMilliseconds(100);
            }
            RedisRole role = await control.RoleAsync(cancellation).ConfigureAwait(false);
            if (role.IsMaster)
                throw new RedisException(RedisProblem.NotNow, $"Somebody promoted Redis at {control.Endpoint} during the restore.");
            if (role.LinkState == "connected" && feed.Progress.Phase == FeedPhase.Sent && role.Offset == target)
                return;
            if (role.LinkState == "connected" && role.Offset > target)
                throw new RedisException(
                    RedisProblem.Protocol, $"Redis at {control.Endpoint} stands at offset {role.Offset}, beyond the target {target}.");
            FeedProgress progress = feed.Progress;
            if (seen != (progress, role.Offset))
            {
                seen = (progress, role.Offset);
                lastMoved = clock.Elapsed;
            }
            if (clock.Elapsed - lastMoved > TimeSpan.FromSeconds(1) && clock.Elapsed - lastAsked > TimeSpan.FromSeconds(1))
            {
                // Loading from Redis's disk moves nothing here.
                Dictionary<string, string> info = await control.InfoAsync("persistence", cancellation).ConfigureAwait(false);
                string loaded = info.GetValueOrDefault("loading_loaded_bytes", "");
                if (loaded != loadedSeen)
                {
                    loadedSeen = loaded;
                    lastMoved = clock.Elapsed;
                }
                lastAsked = clock.Elapsed;
            }
            if (clock.Elapsed - lastMoved > options.StallMax)
                throw new RedisException(RedisProblem.Timeout, Stalled(control, feed, role, options));
            // Fine at first and while the tail runs, coarse while a large base loads.
            await Task.Delay(progress.Phase is FeedPhase.SendingBase or FeedPhase.Loading ? 5 : 1, cancellation).ConfigureAwait(false);
        }
    }

    internal static string Stalled(RedisConnection control, ReplicationFeed feed, RedisRole role, RestoreOptions options) =>
        string.Create(CultureInfo.InvariantCulture,
            $"Redis at {control.Endpoint} is being fed and has not moved for {options.StallMax.TotalSeconds:0} s (feed: "
                + $"{feed.Progress.Phase} on {feed.LocalEndPoint}, ")
        + string.Create(CultureInfo.InvariantCulture, $"Redis: {role.LinkState}, offset {role.Offset} of {feed.TargetOffset}). ")
        + (feed.Progress.Phase == FeedPhase.Waiting ? "Redis may be unable to reach the feed's address." : "");

    internal static RestoreResult Verify(RedisConnection control, ReplicationFeed feed, long target, Dictionary<string, string> info)
    {
        string next = (target + 1).ToString(CultureInfo.InvariantCulture);
        if (info.GetValueOrDefault("role") != "master" || info.GetValueOrDefault("master_replid2") != feed.ReplicationId
            || info.GetValueOrDefault("second_repl_offset") != next)
        {
            return new RestoreResult.Failed(RedisProblem.Protocol, string.Create(CultureInfo.InvariantCulture,
                $"Redis at {control.Endpoint} was promoted but does not continue the history at offset {target}: role "
                    + $"{info.GetValueOrDefault("role")}, second_repl_offset {info.GetValueOrDefault("second_repl_offset")}. Do not use "
                    + $"it; restore it again."));
        }
        return new RestoreResult.Restored(feed.ReplicationId, target, info.GetValueOrDefault("master_replid", ""), feed.Suppressed);
    }

    internal static async Task TryLeaveAsync(ConfigScope scope, RedisConnection control)
    {
        try
        {
            await scope.LeaveAsync(control, CancellationToken.None).ConfigureAwait(false);
        }
        catch (RedisException)
        {
            // The undo file stays; the next restore, or ConfigScope.UndoAsync, puts the settings back.
        }
    }
}
