// A shard's view of the slots and of the other shards, from the metadata: taken at the start, and again about once a second, so
// that a client is never sent to where a shard was long ago; more often while slots move, and at once when somebody asks. While
// the metadata is away the last view holds. Only for shards among others.
using System.Globalization;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.FrontEnd;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Proxy.Cluster;

internal sealed class SlotWatch
{
    private static readonly TimeSpan Period = TimeSpan.FromSeconds(1);

    // While a shard has not come yet, at the start of a cluster.
    private static readonly TimeSpan ShortPeriod = TimeSpan.FromMilliseconds(200);
    private readonly ClusterSeat _seat;
    private readonly ILogger _report;
    private readonly SemaphoreSlim _looking = new(1, 1);
    private Dictionary<ShardId, ListenAddress> _at = [];
    private string _addresses = "";
    private bool _isComplete;

    private SlotWatch(ClusterSeat seat, ILogger report, byte[] commands, ClusterSlots view)
    {
        _seat = seat;
        _report = report;
        Commands = StoreCommands.Of(commands);
        Keys = Commands.Keys;
        View = view;
    }

    /// <summary>The store's.</summary>
    public StoreCommands Commands { get; }

    /// <summary>Where its commands have their keys.</summary>
    public KeyFinder Keys { get; }

    /// <summary>Owners and moves, as last seen.</summary>
    public OwnershipTable Table { get; private set; } = null!;

    /// <summary>Called after each look.</summary>
    public Action Looked { get; set; } = static () => { };

    /// <summary>Where a shard's proxy is; null: it has never run.</summary>
    public ListenAddress? AddressOf(ShardId shard) => Volatile.Read(ref _at).GetValueOrDefault(shard);

    /// <summary>As last seen.</summary>
    public ClusterSlots View { get; private set; }

    /// <summary>A Redis's reply to COMMAND.</summary>
    /// <exception cref="RecoveryRefusedException">Redis does not tell what its commands are.</exception>
    /// <exception cref="RedisException">The connection failed.</exception>
    public static async Task<byte[]> CommandsOfAsync(RedisEndpoint store, ShardId shard, CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(store, cancellation: stop).ConfigureAwait(false);
        RedisReply commands = await control.CommandAsync(["COMMAND"], stop).ConfigureAwait(false);
        if (commands.IsError)
        {
            throw new RecoveryRefusedException($"shard {shard}: Redis does not tell the proxy where commands have their keys, which it "
                + $"must know in a cluster of several shards: {commands.Text}. Give its user the right to COMMAND");
        }
        var text = new StringBuilder(64 << 10);
        Append(text, commands);
        return Encoding.Latin1.GetBytes(text.ToString());
    }

    /// <summary>Looks for the first time.</summary>
    /// <param name="seat">The shard's place in the metadata.</param>
    /// <param name="commands">The store's reply to COMMAND.</param>
    /// <param name="report">Told what goes wrong.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="MetadataException">The metadata has no such cluster, or no map.</exception>
    public static async Task<SlotWatch> StartAsync(ClusterSeat seat, byte[] commands, ILogger report, CancellationToken stop)
    {
        var watch = new SlotWatch(seat, report, commands, null!);
        await seat.RetryAsync(() => watch.LookAsync(stop), stop).ConfigureAwait(false);
        return watch;
    }

    /// <summary>Looks now and then, until stopped.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            try
            {
                await Task.Delay(_isComplete && Table.Moves.IsEmpty ? Period : ShortPeriod, stop).ConfigureAwait(false);
                await LookAsync(stop).ConfigureAwait(false);
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

    /// <summary>Looks at once.</summary>
    /// <returns>True, for callers that want a value.</returns>
    /// <exception cref="MetadataException">It cannot.</exception>
    public async Task<bool> LookAsync(CancellationToken stop)
    {
        await _looking.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            await LookOnceAsync(stop).ConfigureAwait(false);
        }
        finally
        {
            _looking.Release();
        }
        Looked();
        return true;
    }

    private async Task LookOnceAsync(CancellationToken stop)
    {
        OwnershipTable owners = await _seat.Metadata.OwnershipAsync(_seat.Cluster, stop).ConfigureAwait(false);
        Table = owners;
        IReadOnlyList<ShardRecord> all = await _seat.Metadata.ShardsAsync(_seat.Cluster, stop).ConfigureAwait(false);
        // Clients are told of no shard that has not joined yet, or has left.
        ShardRecord[] shards = [.. all.Where(s => Members.Counts(s.State) || s.Shard == _seat.Shard)];
        string addresses = string.Create(CultureInfo.InvariantCulture,
            $"{owners.Revision} {string.Join(' ', shards.Select(s => $"{s.Shard}={s.Address}"))}");
        if (addresses == _addresses) { return; }
        _addresses = addresses;
        var nodes = new List<ClusterNode>();
        foreach (ShardRecord shard in shards)
        {
            // One that has never run has no address. Of those that have nobody can tell here whether they still do.
            if (ListenAddress.TryParse(shard.Address, out ListenAddress? at, out _) && !at.IsUnix)
            {
                nodes.Add(new ClusterNode(shard.Shard, at.Host, at.Port, IsAlive: true));
            }
        }
        _isComplete = nodes.Count == shards.Length;
        Volatile.Write(ref _at, shards.Where(s => ListenAddress.TryParse(s.Address, out _, out _))
            .ToDictionary(s => s.Shard, s => ListenAddress.TryParse(s.Address, out ListenAddress? at, out _) ? at : null!));
        var replies = new ClusterReplies(_seat.Cluster, _seat.Partitions, owners.Map, owners.Revision, nodes, _seat.Shard);
        View = new ClusterSlots(_seat.Partitions, new ServedSlots(_seat.Shard, owners.Map), replies);
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
