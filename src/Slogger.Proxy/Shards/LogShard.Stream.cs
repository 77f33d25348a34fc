// The way of a version to the disk: stream -> log -> sync.
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    private readonly Lock _logLock = new();
    private VersionLog _log = null!;
    private ReplicationLink? _link;
    private LogSyncer _syncer = null!;

    // ---- The replication link's thread ----

    void IStreamSink.OnBytes(ReadOnlySpan<byte> bytes, long startOffset)
    {
        // After a failure nothing more: a later success would leave a hole.
        if (HasFailed) { return; }
        try
        {
            lock (_logLock) { _log.Append(bytes); }
        }
        catch (LogIOException e)
        {
            OnLogFailure(e);
            return;
        }
        WakeShippers();
        FollowChanges(bytes, endsCommand: startOffset + bytes.Length <= _link!.CommandEnd);
        // Keep-alives and markers are in here too; claiming too much costs a marker, at most ten a second on an idle shard.
        if (!IsOwnTraffic(bytes)) { MarkChanged(); }
    }

    private bool IsOwnTraffic(ReadOnlySpan<byte> bytes)
    {
        // A chunk that is one marker or one PING only.
        return bytes.Length <= 200 && (bytes.IndexOf(_channelBytes) >= 0 || bytes.StartsWith("*1\r\n$4\r\nPING\r\n"u8) || bytes.StartsWith("*1\r\n$4\r\nping\r\n"u8));
    }

    void IStreamSink.OnMarker(in StreamMarker marker)
    {
        MarkerPayload p = marker.Payload;
        _marks.OnBoundary(p.Closed.Number);
        lock (_machineLock)
        {
            _machine?.MarkerRead(new Marker(p.WorldLine, p.Closed, p.NextOpen, p.Time), marker.OffsetAfter, marker.Database, _effects);
            _machine?.StreamRead(marker.OffsetAfter);
            Perform();
        }
    }

    void IStreamSink.OnSessionMark(ReadOnlySpan<byte> payload) => _marks.OnMark(payload);

    protected internal override (Sequence Last, long Version)? LastDone(SessionId session) => _marks.Find(session);

    void IStreamSink.OnPublish(ReadOnlySpan<byte> command) => OnPublished(command);

    void IStreamSink.OnKeepalive(long offset)
    {
        lock (_machineLock) { _machine?.StreamRead(offset); }
    }

    void IStreamSink.OnClosed(LinkClosed reason)
    {
        _isAttached = false;
        FollowingEnded();
        // What the shard itself has ended says nothing of the store.
        if (reason.Problem != RedisProblem.Cancelled) { Suspect($"the replication link ended: {reason.Message}"); }
    }

    protected override async Task StreamReadAsync(CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false);
        long until = (await control.RoleAsync(stop).ConfigureAwait(false)).Offset;
        while (_link is { } link && link.Offset < until)
        {
            if (link.Completion.IsCompleted) { throw new RedisException(RedisProblem.Closed, "The replication stream was interrupted."); }
            link.Hurry();
            await Task.Delay(1, stop).ConfigureAwait(false);
        }
    }

    // ---- Under the machine's lock ----

    protected override void Append(in ShardEffect effect)
    {
        if (HasFailed) { return; }
        try
        {
            lock (_logLock)
            {
                if (effect.Kind == ShardEffectKind.AppendBoundary) { _log.AppendBoundary(effect.Boundary); }
                else { _log.AppendEmptyRun(effect.Boundary.Version, effect.Boundary.Time); }
            }
            WakeShippers();
        }
        catch (LogIOException e)
        {
            // The version is never durable, so never committed.
            OnLogFailure(e);
        }
    }

    protected override void RequestSync() => _syncer.Request();

    // ---- The start and the end ----

    protected override void StartWorkers()
    {
        _syncer.Start(_ending.Token);
        // A shard alone never has to go back with a store that is alive.
        if (_seat.HasPeers && _options.Rollback == RollbackMethod.InPlace) { _indexes.Start(); }
    }

    // The syncing thread.
    private void OnSynced(Boundary? durable)
    {
        WakeShippers();
        if (durable is { } last) { OnDurable(last.Point); }
    }

    protected override async Task GiveUpStartAsync()
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        if (_indexes is not null)
        {
            await DetachAsync(CancellationToken.None).ConfigureAwait(false);
            await EndWorkersAsync().ConfigureAwait(false);
        }
        _log?.Dispose();
    }

    protected override async Task EndWorkersAsync()
    {
        if (Intake is { } intake) { await intake.EndAsync().ConfigureAwait(false); }
        await EndFollowingAsync().ConfigureAwait(false);
        _link?.Dispose();
        await EndShippingAsync().ConfigureAwait(false);
        _syncer.Join();
        _indexes.Dispose();
        await _site.EndAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    // ---- Failures ----

    // The disk is full or broken: nothing more can be committed. What is in Redis and in the log stays as it is.
    protected override void OnLogFailure(LogException e)
    {
        if (e is not LogIOException)
        {
            base.OnLogFailure(e);
            return;
        }
        if (Fail(ProxyExit.Failed($"the version log cannot be written: {e.Message}", "free space on the disk of --data, or repair it, and start again")))
        {
            _report.Error($"shard {_options.Shard}: the version log cannot be written: {e.Message} The proxy stops; give it room or another disk, and start it again: nothing that was committed is lost.");
        }
    }
}
