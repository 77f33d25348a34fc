// Records in SQL what is durable, one point at a time: of several that wait only the newest is recorded. While SQL is down
// operations go on and nothing is reported as committed.
using System.Threading.Channels;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Shards;

/// <summary>The recorder of a shard's cut.</summary>
/// <param name="seat">The shard's place in the metadata.</param>
/// <param name="report">Is told when SQL goes and comes.</param>
/// <param name="answered">Takes the outcome of each attempt: null if SQL could not be reached. The recorder's task.</param>
/// <param name="failed">Takes the failure after which nothing can be recorded any more.</param>
internal sealed class CutRecorder(ClusterSeat seat, ILogSink report, Action<WorldPoint, CutRecordResult?> answered, Action<ProxyExit> failed)
{
    /// <summary>How often the cut is recorded while nobody waits for it, in microseconds.</summary>
    public const long IntervalMicroseconds = 50_000;

    private readonly Channel<WorldPoint> _wanted = Channel.CreateBounded<WorldPoint>(
        new BoundedChannelOptions(1) { FullMode = BoundedChannelFullMode.DropOldest, SingleReader = true });

    private volatile bool _isAvailable = true;

    /// <summary>Whether SQL answered at the last attempt.</summary>
    public bool IsMetadataAvailable => _isAvailable;

    /// <summary>Has a point recorded. Any thread.</summary>
    public void Record(WorldPoint point) => _wanted.Writer.TryWrite(point);

    /// <summary>Hands the outcomes of a machine's record to it: the caller holds its lock.</summary>
    public static void Tell(ShardMachine machine, WorldPoint point, CutRecordResult? result, ShardEffects effects)
    {
        switch (result)
        {
            case CutRecordResult.Recorded:
                machine.CutRecorded(point, effects);
                break;
            case null:
                machine.CutUnavailable(point);
                break;
            default:
                machine.CutRefused(point, $"the metadata answered {result}", effects);
                break;
        }
    }

    /// <summary>Records until stopped.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        await foreach (WorldPoint point in _wanted.Reader.ReadAllAsync(stop).ConfigureAwait(false))
        {
            CutRecordResult? result;
            try
            {
                result = await seat.Metadata.RecordCutAsync(seat.Cluster, seat.Shard, point, seat.Epoch, stop).ConfigureAwait(false);
                if (!_isAvailable) { report.Info("the metadata is back: commits are reported again"); }
                _isAvailable = true;
            }
            catch (MetadataUnavailableException e)
            {
                result = null;
                if (_isAvailable) { report.Warn($"the metadata cannot be reached: operations go on, commits are reported when it is back ({e.Message})"); }
                _isAvailable = false;
            }
            catch (OperationCanceledException)
            {
                return;
            }
            catch (MetadataException e)
            {
                failed(ProxyExit.Failed($"the metadata failed: {e.Message}", ""));
                return;
            }
            answered(point, result);
        }
    }
}
