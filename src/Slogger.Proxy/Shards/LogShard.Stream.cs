// The way of a version to its commit: stream -> log -> disk -> SQL.
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    private readonly object _logLock = new();
    private readonly AutoResetEvent _syncWanted = new(false);
    private readonly TaskCompletionSource _stopped = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly CancellationTokenSource _ending = new();
    private VersionLog _log = null!;
    private ClusterSeat _seat = null!;
    private CutRecorder _cuts = null!;
    private ReplicationLink? _link;

    // ---- The replication link's thread ----

    void IStreamSink.OnBytes(ReadOnlySpan<byte> bytes, long startOffset)
    {
        // After a failure nothing more: a later success would leave a hole.
        if (_failure.Task.IsCompleted) { return; }
        try
        {
            lock (_logLock) { _log.Append(bytes); }
        }
        catch (LogIOException e)
        {
            OnLogFailure(e);
            return;
        }
        Volatile.Write(ref _lastStreamOffset, startOffset + bytes.Length);
        // Keep-alives and markers are in here too; claiming too much costs a marker, at most ten a second on an idle shard.
        if (!IsOwnTraffic(bytes)) { Volatile.Write(ref _streamed, 1); }
    }

    private long _lastStreamOffset;

    private bool IsOwnTraffic(ReadOnlySpan<byte> bytes)
    {
        // A chunk that is one marker or one PING only.
        return bytes.Length <= 200 && (bytes.IndexOf(_channelBytes) >= 0 || bytes.StartsWith("*1\r\n$4\r\nPING\r\n"u8) || bytes.StartsWith("*1\r\n$4\r\nping\r\n"u8));
    }

    private byte[] _channelBytes = [];

    void IStreamSink.OnMarker(in StreamMarker marker)
    {
        MarkerPayload p = marker.Payload;
        lock (_machineLock)
        {
            _machine?.MarkerRead(new Marker(p.WorldLine, p.Closed, p.NextOpen, p.Time), marker.OffsetAfter, marker.Database, _effects);
            _machine?.StreamRead(marker.OffsetAfter);
            Perform();
        }
    }

    void IStreamSink.OnKeepalive(long offset)
    {
        lock (_machineLock) { _machine?.StreamRead(offset); }
    }

    void IStreamSink.OnClosed(LinkClosed reason)
    {
        _linkEnded = true;
        Suspect($"the replication link ended: {reason.Message}");
    }

    private volatile bool _linkEnded = true;

    // ---- The syncing thread ----

    private void SyncLoop()
    {
        while (!_ending.IsCancellationRequested)
        {
            _syncWanted.WaitOne(1000);
            try
            {
                _log.Sync();
            }
            catch (LogIOException e)
            {
                OnLogFailure(e);
                return;
            }
            catch (ObjectDisposedException)
            {
                return;
            }
            if (_log.DurableBoundary is not { } durable) { continue; }
            lock (_machineLock)
            {
                _machine?.LogDurable(new WorldPoint(durable.WorldLine, durable.Version), _effects);
                Perform();
            }
        }
    }

    // The disk is full or broken: nothing more can be committed. What is in Redis and in the log stays as it is.
    private void OnLogFailure(LogIOException e)
    {
        _isOpen = false;
        if (_failure.TrySetResult(ProxyExit.Failed($"the version log cannot be written: {e.Message}", "free space on the disk of --data, or repair it, and start again")))
        {
            _report.Error($"shard {_options.Shard}: the version log cannot be written: {e.Message}. The proxy stops; give it room or another disk, and start it again: nothing that was committed is lost.");
        }
    }

    private readonly TaskCompletionSource<ProxyExit> _failure = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Completes when the shard cannot go on.</summary>
    public Task<ProxyExit> Failure => _failure.Task;

    // ---- The recorder ----

    private void OnRecordAnswered(WorldPoint point, CutRecordResult? result)
    {
        lock (_machineLock)
        {
            if (_machine is not { } machine) { return; }
            CutRecorder.Tell(machine, point, result, _effects);
            Perform();
        }
    }
}
