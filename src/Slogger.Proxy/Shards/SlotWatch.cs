// A shard's view of the slots and of the other shards, from the metadata: taken at the start, and again about once a second, so
// that a client is never sent to where a shard was long ago. While the metadata is away the last view holds. Has Redis tell,
// once, where its commands have their keys. Only for shards among others.
using System.Globalization;
using System.Text;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.FrontEnd;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Proxy.Shards;

internal sealed class SlotWatch
{
    private static readonly TimeSpan Period = TimeSpan.FromSeconds(1);

    // While a shard has not come yet, at the start of a cluster.
    private static readonly TimeSpan ShortPeriod = TimeSpan.FromMilliseconds(200);
    private readonly ClusterSeat _seat;
    private readonly ILogSink _report;
    private readonly byte[] _commands;
    private string _addresses = "";
    private bool _isComplete;

    private SlotWatch(ClusterSeat seat, ILogSink report, byte[] commands, ClusterSlots view)
    {
        _seat = seat;
        _report = report;
        _commands = commands;
        View = view;
    }

    /// <summary>As last seen.</summary>
    public ClusterSlots View { get; private set; }

    /// <summary>Looks for the first time.</summary>
    /// <exception cref="RecoveryRefusedException">Redis does not tell what its commands are.</exception>
    /// <exception cref="MetadataException">The metadata has no such cluster, or no map.</exception>
    /// <exception cref="RedisException">The connection failed.</exception>
    public static async Task<SlotWatch> StartAsync(ClusterSeat seat, RedisEndpoint store, ILogSink report, CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(store, cancellation: stop).ConfigureAwait(false);
        RedisReply commands = await control.CommandAsync(["COMMAND"], stop).ConfigureAwait(false);
        if (commands.IsError)
        {
            throw new RecoveryRefusedException($"shard {seat.Shard}: Redis does not tell the proxy where commands have their keys, which it must know in a cluster of several shards: {commands.Text}. Give its user the right to COMMAND");
        }
        var text = new StringBuilder(64 << 10);
        Append(text, commands);
        var watch = new SlotWatch(seat, report, Encoding.Latin1.GetBytes(text.ToString()), null!);
        await seat.RetryAsync(() => watch.LookAsync(stop), stop).ConfigureAwait(false);
        return watch;
    }

    /// <summary>Has a front end know the view, now and whenever it changes, until stopped.</summary>
    public async Task RunAsync(FrontEndLoop loop, CancellationToken stop)
    {
        Tell(loop);
        while (!stop.IsCancellationRequested)
        {
            try
            {
                await Task.Delay(_isComplete ? Period : ShortPeriod, stop).ConfigureAwait(false);
                if (await LookAsync(stop).ConfigureAwait(false)) { Tell(loop); }
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                return;
            }
            catch (MetadataUnavailableException)
            {
                // The recorder tells.
            }
            catch (MetadataException e)
            {
                _report.Error($"shard {_seat.Shard}: {e.Message} Slots stay as they were.");
            }
        }
    }

    private void Tell(FrontEndLoop loop)
    {
        ClusterSlots view = View;
        loop.Post(() => loop.UseSlots(view, _commands));
    }

    // True if there is something new.
    private async Task<bool> LookAsync(CancellationToken stop)
    {
        SlotOwners owners = await _seat.Metadata.SlotsAsync(_seat.Cluster, stop).ConfigureAwait(false);
        IReadOnlyList<ShardRecord> shards = await _seat.Metadata.ShardsAsync(_seat.Cluster, stop).ConfigureAwait(false);
        string addresses = string.Create(CultureInfo.InvariantCulture, $"{owners.Revision} {string.Join(' ', shards.Select(s => s.Address))}");
        if (addresses == _addresses) { return false; }
        _addresses = addresses;
        var nodes = new List<ClusterNode>();
        foreach (ShardRecord shard in shards)
        {
            // One that has never run has no address. Of those that have nobody can tell here whether they still do.
            if (ListenAddress.TryParse(shard.Address, out ListenAddress? at, out _) && !at.IsUnix) { nodes.Add(new ClusterNode(shard.Shard, at.Host, at.Port, IsAlive: true)); }
        }
        _isComplete = nodes.Count == shards.Count;
        View = new ClusterSlots(_seat.Shard, owners.Map, new ClusterReplies(_seat.Cluster, owners.Map, owners.Revision, nodes, _seat.Shard));
        return true;
    }

    // As it came.
    private static void Append(StringBuilder text, RedisReply reply)
    {
        switch (reply.Kind)
        {
            case RedisReplyKind.Array:
                text.Append(CultureInfo.InvariantCulture, $"*{reply.Items.Count}\r\n");
                foreach (RedisReply item in reply.Items) { Append(text, item); }
                break;
            case RedisReplyKind.Nil:
                text.Append("$-1\r\n");
                break;
            case RedisReplyKind.Bulk:
                text.Append(CultureInfo.InvariantCulture, $"${reply.Bytes.Length}\r\n{Encoding.Latin1.GetString(reply.Bytes.Span)}\r\n");
                break;
            default:
                text.Append(reply.Kind == RedisReplyKind.Integer ? ':' : '+').Append(reply.Text).Append("\r\n");
                break;
        }
    }
}
