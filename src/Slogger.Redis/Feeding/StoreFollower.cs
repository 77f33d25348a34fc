// A Redis that follows a growing log, as the backup's does: it executes history exactly up to where it is brought, waits there for any
// length of time, is read meanwhile, and is promoted in a moment. To Redis this process is its master: it refuses writes, and neither
// expires nor evicts anything by itself.
//
// What the caller keeps, durably, before BeginAsync is called: the plan's replication id, with the history that it stands for. Redis knows
// it when it has the whole base, and keeps it and its offset for as long as it runs: so ResumeAsync, in this process or the next, goes on
// where Redis stands, without loading anything. That may be inside a version (this process died on the way): nobody reads, and nothing is
// promoted, before the next boundary is reached. Before PromoteAsync the caller keeps the offset of the promotion, too: a Redis that is a
// master again, and branched off that id there, has been promoted; ConfigScope.UndoAsync puts its settings back, should that be left to do.
//
// Nobody else feeds this Redis: the caller has shut out former proxies, and the control connection is one that is proved
// (RedisEndpoint.Admission). A Redis that was restarted, promoted by somebody or made another one's replica has to begin from a base; Lost
// tells so as soon as it can be known, and Redis is never made to load a base again without being asked.
using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Feeding;

/// <summary>The outcome of beginning or resuming.</summary>
/// <param name="Follower">Null if it did not work.</param>
/// <param name="Problem">Why not. <see cref="RedisProblem.HistoryGone"/>: only <see cref="StoreFollower.BeginAsync"/> can help.</param>
/// <param name="Message">For a person.</param>
public readonly record struct FollowStart(StoreFollower? Follower, RedisProblem Problem, string Message);

/// <summary>The outcome of <see cref="StoreFollower.BringToAsync"/>.</summary>
/// <param name="Problem">None: Redis has executed exactly the history up to the offset. <see cref="RedisProblem.HistoryGone"/>: it is lost.
/// Any other: it stands below, nobody may read there, and it can be tried again.</param>
/// <param name="Message">For a person; empty if it is there.</param>
public readonly record struct FollowResult(RedisProblem Problem, string Message)
{
    /// <summary>Whether Redis stands at the offset.</summary>
    public bool IsThere => Problem == RedisProblem.None;
}

/// <summary>Feeds one Redis from a log. <see cref="BringToAsync"/> and <see cref="PromoteAsync"/> by one caller at a time.</summary>
public sealed class StoreFollower : IAsyncDisposable
{
    // Redis would end a link that says nothing for `repl-timeout` seconds, and whatever can be said counts in the offset. A day: should it
    // end once, it is continued.
    private const string SilenceSeconds = "86400";

    private const string GivenUp = "It was given up.";

    // A small version is there after one or two questions.
    private static readonly TimeSpan HurryMax = TimeSpan.FromMilliseconds(2);
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(1);
    private static readonly TimeSpan AwayPause = TimeSpan.FromMilliseconds(20);

    // Without these what is read there is not what was fed.
    private static readonly string[] s_needed = ["replica-read-only", "replica-serve-stale-data", "replica-ignore-maxmemory"];

    private readonly RedisConnection _control;
    private readonly ReplicationFeed _feed;
    private readonly ConfigScope _scope;
    private readonly RestoreOptions _options;
    private readonly string _runId;
    private readonly TaskCompletionSource<string> _lost = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly CancellationTokenSource _stop = new();
    private readonly Task _watching;
    private long _offset;
    private volatile bool _promoting;

    private StoreFollower(RedisConnection control, ReplicationFeed feed, ConfigScope scope, RestoreOptions options, string runId)
    {
        (_control, _feed, _scope, _options, _runId) = (control, feed, scope, options, runId);
        _offset = feed.TargetOffset;
        _watching = WatchAsync();
    }

    /// <summary>Identity of the stream that Redis follows.</summary>
    public string ReplicationId => _feed.ReplicationId;

    /// <summary>Where it was last known to stand: where it was brought last, or was found when it was resumed. Any thread.</summary>
    public long Offset => Volatile.Read(ref _offset);

    /// <summary>Completes, with the reason, when Redis does not hold the history any more: nobody may read there, and it has to begin from
    /// a base.</summary>
    public Task<string> Lost => _lost.Task;

    /// <summary>Makes Redis load the plan's base and executes history up to the plan's target. What it held is lost. If it fails then,
    /// Redis is left as a replica without its master, its settings changed: begin again, or resume.</summary>
    /// <param name="control">A control connection to it; the follower uses it for as long as it lives.</param>
    /// <param name="plan">Base, history and target. Its replication id is durably kept.</param>
    /// <param name="options">As for a restore. Settings are changed until promotion: give an undo file.</param>
    /// <param name="cancellation">Gives up.</param>
    public static Task<FollowStart> BeginAsync(RedisConnection control, FeedPlan plan, RestoreOptions? options = null,
        CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(control);
        ArgumentNullException.ThrowIfNull(plan);
        return StartAsync(control, _ => plan, options ?? new RestoreOptions(), cancellation);
    }

    /// <summary>Goes on with a Redis that has followed before, where it stands.</summary>
    /// <param name="control">As for <see cref="BeginAsync"/>.</param>
    /// <param name="replicationId">Identity of the stream that it follows.</param>
    /// <param name="history">That history, at least from where Redis stands.</param>
    /// <param name="end">Where the history ends, durably: Redis cannot be beyond.</param>
    /// <param name="options">With the undo file of before: its values are returned to at promotion.</param>
    /// <param name="cancellation">Gives up.</param>
    public static Task<FollowStart> ResumeAsync(RedisConnection control, string replicationId, IHistorySource history, long end,
        RestoreOptions? options = null, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(control);
        ArgumentNullException.ThrowIfNull(history);
        return StartAsync(control, found =>
        {
            if (found.IsMaster || found.ReplicationId != replicationId || found.Offset > end)
                throw new RedisException(RedisProblem.HistoryGone, string.Create(CultureInfo.InvariantCulture,
                    $"Redis at {control.Endpoint} does not follow history {replicationId} up to {end} (it is a "
                        + $"{(found.IsMaster ? "master" : "replica")} of history {found.ReplicationId} at offset {found.Offset})."));
            return new FeedPlan { BaseOffset = found.Offset, TargetOffset = found.Offset, History = history, ReplicationId = replicationId,
                ContinuesOnly = true };
        }, options ?? new RestoreOptions(), cancellation);
    }

    private static async Task<FollowStart> StartAsync(RedisConnection control, Func<RedisFacts, FeedPlan> plan, RestoreOptions options,
        CancellationToken cancellation)
    {
        ReplicationFeed? feed = null;
        ConfigScope? scope = null;
        bool started = false, untouched = false;
        try
        {
            ProbeResult probe = await RedisProbe.InspectAsync(control, cancellation).ConfigureAwait(false);
            if (!probe.IsUsable && !(probe.Problem == RedisProblem.NotMaster && options.AllowReplica))
                return new FollowStart(null, probe.Problem, probe.Message);
            feed = ReplicationFeed.Start(plan(probe.Facts!), options.Feed);
            untouched = probe.Facts!.IsMaster;
            Dictionary<string, string> wanted = RedisRestore.Wanted(feed, options);
            wanted["replica-serve-stale-data"] = "yes";
            wanted["repl-timeout"] = SilenceSeconds;
            scope = await ConfigScope.EnterAsync(control, wanted, options.UndoFile, cancellation).ConfigureAwait(false);
            if (!RedisRestore.HasSecret(scope, options) || !s_needed.All(scope.IsSet))
                return new FollowStart(null, RedisProblem.NoPermission,
                    $"Redis at {control.Endpoint} does not let the proxy set what a backup needs ({string.Join("; ", scope.Refused)}). "
                        + "Allow CONFIG SET to the proxy's user.");
            untouched = false;
            await RedisRestore.PointAsync(control, feed, options, cancellation).ConfigureAwait(false);
            await RedisRestore.WaitForTargetAsync(control, feed, feed.TargetOffset, options, cancellation).ConfigureAwait(false);
            feed.EndBase();
            started = true;
            return new FollowStart(new StoreFollower(control, feed, scope, options, probe.Facts.RunId), RedisProblem.None, "");
        }
        catch (RedisException e)
        {
            return new FollowStart(null, e.Problem, e.Message);
        }
        catch (OperationCanceledException) when (cancellation.IsCancellationRequested)
        {
            return new FollowStart(null, RedisProblem.Cancelled, GivenUp);
        }
        catch (Exception e) when (e is IOException or SocketException or UnauthorizedAccessException)
        {
            return new FollowStart(null, RedisProblem.LocalFile, $"Redis at {control.Endpoint} cannot be fed: {e.Message}");
        }
        finally
        {
            // A replica without its master stays one that keeps what it has: it may be resumed.
            if (untouched && scope is not null)
                await RedisRestore.TryLeaveAsync(scope, control).ConfigureAwait(false);
            if (!started && feed is not null)
                await feed.DisposeAsync().ConfigureAwait(false);
        }
    }

    /// <summary>Feeds history up to a boundary and returns when Redis has executed exactly that; gives up when nothing has moved for
    /// <see cref="RestoreOptions.StallMax"/>.</summary>
    /// <param name="offset">A command boundary outside a transaction, no less than before.</param>
    /// <param name="cancellation">Gives up; Redis may get there all the same.</param>
    /// <exception cref="ArgumentOutOfRangeException">The offset lies below the last one.</exception>
    public async Task<FollowResult> BringToAsync(long offset, CancellationToken cancellation = default)
    {
        if (_promoting) throw new InvalidOperationException("Redis is being promoted.");
        _feed.ExtendTo(offset);
        try
        {
            return await WaitForAsync(offset, cancellation).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (cancellation.IsCancellationRequested)
        {
            return new FollowResult(RedisProblem.Cancelled, GivenUp);
        }
    }

    // ROLE is asked and nothing else: what Redis could be asked through its link counts in the offset, and by itself it tells once a
    // second.
    private async Task<FollowResult> WaitForAsync(long offset, CancellationToken cancellation)
    {
        long began = Stopwatch.GetTimestamp(), moved = began;
        (long Sent, long Executed) seen = default;
        RedisRole role = default;
        while (true)
        {
            if (_lost.Task.IsCompleted) return new FollowResult(RedisProblem.HistoryGone, await _lost.Task.ConfigureAwait(false));
            if (_feed.Failure is { } failure) return new FollowResult(RedisProblem.CommandFailed, failure);
            TimeSpan pause = Stopwatch.GetElapsedTime(began) < HurryMax ? TimeSpan.Zero : Pause;
            try
            {
                role = await _control.RoleAsync(cancellation).ConfigureAwait(false);
                if (!IsLinked(role))
                {
                    await LookAsync(cancellation).ConfigureAwait(false);
                    pause = AwayPause;
                }
                else if (role.Offset == offset)
                {
                    Volatile.Write(ref _offset, offset);
                    return default;
                }
                else if (role.Offset > offset)
                {
                    TellLost(string.Create(CultureInfo.InvariantCulture, $"stands at offset {role.Offset}, beyond {offset}."));
                }
            }
            catch (RedisException e)
            {
                if (!e.Problem.IsTransient() || Stopwatch.GetElapsedTime(moved) > _options.StallMax)
                    return new FollowResult(e.Problem, e.Message);
                pause = AwayPause;
            }
            if (seen != (_feed.Progress.OffsetSent, role.Offset)) moved = Stopwatch.GetTimestamp();
            seen = (_feed.Progress.OffsetSent, role.Offset);
            if (Stopwatch.GetElapsedTime(moved) > _options.StallMax)
                return new FollowResult(RedisProblem.Timeout, RedisRestore.Stalled(_control, _feed, role, _options));
            if (pause > TimeSpan.Zero) await Task.Delay(pause, cancellation).ConfigureAwait(false);
        }
    }

    /// <summary>Makes Redis a master, at exactly the offset to which it was brought: <c>PSYNC</c> with <see cref="ReplicationId"/> and the
    /// next offset continues there. Its settings are those of before again. After a failure that passes it can be called again.</summary>
    /// <exception cref="InvalidOperationException">It is not known to be where it was to be brought.</exception>
    public async Task<RestoreResult> PromoteAsync(CancellationToken cancellation = default)
    {
        long offset = Offset;
        if (offset != _feed.TargetOffset)
            throw new InvalidOperationException($"Redis was to be brought to offset {_feed.TargetOffset} and is not known to be there.");
        try
        {
            if (!_promoting)
            {
                long stands = await LookAsync(cancellation).ConfigureAwait(false);
                if (stands != offset) TellLost(string.Create(CultureInfo.InvariantCulture, $"stands at offset {stands}, not at {offset}."));
                if (_lost.Task.IsCompleted)
                    return new RestoreResult.Failed(RedisProblem.HistoryGone, await _lost.Task.ConfigureAwait(false));
                if (_options.BeforePromotion is { } check) await check(_control, cancellation).ConfigureAwait(false);
                _promoting = true;
            }
            // Of a master it changes nothing, so it can be sent again.
            string[] promote = ["REPLICAOF", "NO", "ONE"];
            IReadOnlyList<RedisReply> replies = await _control.CommandsAsync(
                [promote, ["INFO", "replication"], ["INFO", "server"]], cancellation).ConfigureAwait(false);
            _control.Check(promote, replies[0]);
            RestoreResult result = RedisRestore.Verify(_control, _feed, offset, _control.InfoOf("replication", replies[1]));
            // One that was restarted just now, from a dump, may say all that and have dropped what had expired.
            if (_control.InfoOf("server", replies[2]).GetValueOrDefault("run_id") != _runId)
            {
                TellLost("was restarted.");
                return new RestoreResult.Failed(RedisProblem.HistoryGone, await _lost.Task.ConfigureAwait(false));
            }
            await PutBackAsync().ConfigureAwait(false);
            return result;
        }
        catch (RedisException e)
        {
            return new RestoreResult.Failed(e.Problem, e.Message);
        }
        catch (OperationCanceledException) when (cancellation.IsCancellationRequested)
        {
            return new RestoreResult.Failed(RedisProblem.Cancelled, GivenUp);
        }
    }

    /// <summary>Whether Redis was promoted, and has the settings of before. The undo file stays until this is disposed.</summary>
    public bool SettingsAreBack { get; private set; }

    // Whoever waits for the promotion is not to wait for the disk.
    private async Task PutBackAsync()
    {
        try
        {
            await _scope.PutBackAsync(_control, CancellationToken.None).ConfigureAwait(false);
            SettingsAreBack = true;
        }
        catch (RedisException)
        {
            // The undo file stays; the next restore, or ConfigScope.UndoAsync, puts the settings back.
        }
    }

    /// <summary>The caller knows that Redis is gone, with all that it held: nobody waits for it any more. Any thread.</summary>
    public void Lose(string why) => TellLost(why);

    /// <summary>Stops feeding. A Redis that was not promoted stays as it is, readable where it stands, until it is resumed.</summary>
    public async ValueTask DisposeAsync()
    {
        if (_stop.IsCancellationRequested) return;
        await _stop.CancelAsync().ConfigureAwait(false);
        await _watching.ConfigureAwait(false);
        await _feed.DisposeAsync().ConfigureAwait(false);
        if (SettingsAreBack) _scope.Forget();
        _stop.Dispose();
    }

    private string FeedHost => _options.FeedHost ?? _feed.LocalEndPoint.Address.ToString();

    private bool IsLinked(in RedisRole role) => !role.IsMaster && role.LinkState == "connected" && IsFeed(role.MasterHost, role.MasterPort);

    private bool IsFeed(string? host, int port) => port == _feed.LocalEndPoint.Port
        && string.Equals(host, FeedHost, StringComparison.OrdinalIgnoreCase);

    // Whether it still is the Redis that follows. Returns where it stands.
    private async Task<long> LookAsync(CancellationToken cancellation)
    {
        bool hasAsked = _feed.HasRefused;
        IReadOnlyList<RedisReply> replies = await _control.CommandsAsync(
            [["INFO", "server"], ["INFO", "replication"]], cancellation).ConfigureAwait(false);
        Dictionary<string, string> server = _control.InfoOf("server", replies[0]), replication = _control.InfoOf("replication", replies[1]);
        _ = int.TryParse(replication.GetValueOrDefault("master_port"), CultureInfo.InvariantCulture, out int port);
        if (server.GetValueOrDefault("run_id") != _runId) TellLost("was restarted.");
        else if (_promoting) return -1;
        else if (replication.GetValueOrDefault("role") == "master") TellLost("was promoted by somebody.");
        else if (!IsFeed(replication.GetValueOrDefault("master_host"), port)) TellLost("was made the replica of another one.");
        else if (replication.GetValueOrDefault("master_replid") != ReplicationId) TellLost("follows another history.");
        else if (hasAsked && replication.GetValueOrDefault("master_link_status") != "up") TellLost("cannot continue at its offset.");
        return long.TryParse(replication.GetValueOrDefault("slave_repl_offset"), NumberStyles.None, CultureInfo.InvariantCulture,
            out long offset) ? offset : -1;
    }

    private void TellLost(string what) => _lost.TrySetResult($"Redis at {_control.Endpoint} {what} {RedisProblem.HistoryGone.Remedy()}");

    // Whatever happens to Redis ends its connection, though nobody may be waiting for it just then.
    private async Task WatchAsync()
    {
        try
        {
            while (!_lost.Task.IsCompleted)
            {
                await _feed.WaitForEndAsync(_stop.Token).ConfigureAwait(false);
                while (!_promoting && !_lost.Task.IsCompleted && !await IsBackAsync(_stop.Token).ConfigureAwait(false))
                    await Task.Delay(AwayPause, _stop.Token).ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException)
        {
        }
    }

    private async Task<bool> IsBackAsync(CancellationToken cancellation)
    {
        try
        {
            if (IsLinked(await _control.RoleAsync(cancellation).ConfigureAwait(false))) return true;
            if (!_promoting) await LookAsync(cancellation).ConfigureAwait(false);
        }
        catch (RedisException)
        {
            // Asked again until it answers.
        }
        return false;
    }
}
