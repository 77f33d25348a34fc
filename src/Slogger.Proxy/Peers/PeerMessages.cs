// PUBLISH among several shards: what is published at one reaches the subscribers of all, as in Redis Cluster. An embedded store says itself
// what its clients publish, and publishes what others send to its own subscribers only (FasterShard). Of a Redis the source is the
// replication stream: Redis writes every PUBLISH into it, of clients, scripts and transactions alike, in its own order. Each proxy
// sends what its Redis has published to each other proxy, in that order; that one publishes it at its own Redis by a script whose
// effects are not replicated, so that it is in no stream again: nothing can go round in circles.
//
// As PUBLISH itself this promises nothing: while a proxy cannot be reached, or is too slow, messages for it are dropped and counted.
using System.Buffers;
using System.Buffers.Binary;
using System.Threading.Channels;
using Slogger.Core.Identities;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Proxy.Peers;

/// <summary>The messages of one shard to the others. Any thread.</summary>
/// <param name="seat">This shard's place in the cluster.</param>
/// <param name="addressOf">Where a shard's proxy is; null: not known yet.</param>
/// <param name="report">Is told of messages that are dropped.</param>
internal sealed class PeerMessages(ClusterSeat seat, Func<ShardId, ListenAddress?> addressOf, ILogger report)
{
    /// <summary>What may wait for one of the others. Unit: bytes.</summary>
    public const long WaitingBytesMax = 8 << 20;

    private const int FrameBytes = 256 << 10;
    private static readonly TimeSpan ReconnectPause = TimeSpan.FromMilliseconds(200);
    private static readonly TimeSpan DeliveryLimit = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(30);
    private static readonly TimeSpan ReportPeriod = TimeSpan.FromSeconds(10);
    private static readonly byte[] Eval = "EVAL"u8.ToArray(), NoKeys = "0"u8.ToArray(),
        Script = "redis.set_repl(redis.REPL_NONE) for i = 1, #ARGV, 2 do redis.call('PUBLISH', ARGV[i], ARGV[i + 1]) end"u8.ToArray();
    private readonly Lock _lock = new();
    private volatile Outbox[] _outboxes = [];
    private CancellationToken? _running;
    private long _sent, _dropped;

    private sealed class Outbox(ShardId to)
    {
        public long Bytes;

        /// <summary>Its shard has left.</summary>
        public CancellationTokenSource Closed { get; } = new();

        public Task Sending { get; set; } = Task.CompletedTask;

        public ShardId To => to;

        public Channel<byte[]> Messages { get; } = System.Threading.Channels.Channel.CreateUnbounded<byte[]>(new() { SingleReader = true });
    }

    /// <summary>Messages given to other proxies, one counted for each.</summary>
    public long Sent => Volatile.Read(ref _sent);

    /// <summary>Messages that did not reach one of them.</summary>
    public long Dropped => Volatile.Read(ref _dropped);

    /// <summary>This shard's Redis has published a message. Does not wait.</summary>
    public void Publish(ReadOnlySpan<byte> channel, ReadOnlySpan<byte> message)
    {
        byte[] entry = new byte[8 + channel.Length + message.Length];
        BinaryPrimitives.WriteInt32BigEndian(entry, channel.Length);
        channel.CopyTo(entry.AsSpan(4));
        BinaryPrimitives.WriteInt32BigEndian(entry.AsSpan(4 + channel.Length), message.Length);
        message.CopyTo(entry.AsSpan(8 + channel.Length));
        foreach (Outbox outbox in _outboxes)
        {
            if (Interlocked.Add(ref outbox.Bytes, entry.Length) > WaitingBytesMax)
            {
                Interlocked.Add(ref outbox.Bytes, -entry.Length);
                Interlocked.Increment(ref _dropped);
                continue;
            }
            outbox.Messages.Writer.TryWrite(entry);
        }
    }

    /// <summary>A message could not be read from the stream.</summary>
    public void CountLost() => Interlocked.Add(ref _dropped, _outboxes.Length);

    /// <summary>Who the other shards are now; this one may be among them.</summary>
    public void Follow(IEnumerable<ShardId> members)
    {
        ShardId[] others = [.. members.Where(m => m != seat.Shard)];
        lock (_lock)
        {
            if (others.SequenceEqual(_outboxes.Select(o => o.To))) { return; }
            foreach (Outbox gone in _outboxes.Where(o => !others.Contains(o.To))) { gone.Closed.Cancel(); }
            _outboxes = [.. others.Select(o => Array.Find(_outboxes, known => known.To == o) ?? Opened(new Outbox(o)))];
        }
    }

    /// <summary>Sends until stopped.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        lock (_lock)
        {
            _running = stop;
            foreach (Outbox outbox in _outboxes) { Opened(outbox); }
        }
        await ReportAsync(stop).ConfigureAwait(false);
        Task[] sending;
        lock (_lock) { sending = [.. _outboxes.Select(o => o.Sending)]; }
        await Task.WhenAll(sending).ConfigureAwait(false);
    }

    // Under the lock.
    private Outbox Opened(Outbox outbox)
    {
        if (_running is { } stop) { outbox.Sending = Task.Run(() => SendAsync(outbox, stop), CancellationToken.None); }
        return outbox;
    }

    private async Task SendAsync(Outbox outbox, CancellationToken ending)
    {
        using var either = CancellationTokenSource.CreateLinkedTokenSource(ending, outbox.Closed.Token);
        CancellationToken stop = either.Token;
        while (!stop.IsCancellationRequested)
        {
            try
            {
                await outbox.Messages.Reader.WaitToReadAsync(stop).ConfigureAwait(false);
                ListenAddress address = addressOf(outbox.To) ?? throw new PeerException($"shard {outbox.To} has no address yet");
                await using PeerChannel peer = await PeerChannel.ConnectAsync(
                    seat, address, PeerKind.Messages, outbox.To, stop).ConfigureAwait(false);
                while (await outbox.Messages.Reader.WaitToReadAsync(stop).ConfigureAwait(false))
                {
                    (byte[] frame, int count) = Take(outbox);
                    await peer.SendAsync('M', frame, stop).ConfigureAwait(false);
                    // Answered when it is published: a proxy that is slow holds up its own messages, and no others.
                    await AnsweredAsync(peer, stop).ConfigureAwait(false);
                    Interlocked.Add(ref _sent, count);
                    if (addressOf(outbox.To) != address) { throw new PeerException($"shard {outbox.To} is elsewhere now"); }
                }
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                return;
            }
            catch (IOException)
            {
                // What was published meanwhile would come late and out of time: as in Redis Cluster it does not come.
                Drop(outbox);
                await Task.WhenAny(Task.Delay(ReconnectPause, stop)).ConfigureAwait(false);
            }
        }
    }

    private static async Task AnsweredAsync(PeerChannel peer, CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(AnswerLimit);
        try
        {
            await peer.ReceiveAsync(limit.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            throw new PeerException($"shard {peer.Other} does not answer");
        }
    }

    private static (byte[] Frame, int Count) Take(Outbox outbox)
    {
        var frame = new ArrayBufferWriter<byte>();
        int count = 0;
        while (frame.WrittenCount < FrameBytes && outbox.Messages.Reader.TryRead(out byte[]? entry))
        {
            frame.Write(entry);
            Interlocked.Add(ref outbox.Bytes, -entry.Length);
            count++;
        }
        return (frame.WrittenSpan.ToArray(), count);
    }

    private void Drop(Outbox outbox)
    {
        // What was sent and not answered may have arrived, or not: it is not counted as either.
        while (outbox.Messages.Reader.TryRead(out byte[]? entry))
        {
            Interlocked.Add(ref outbox.Bytes, -entry.Length);
            Interlocked.Increment(ref _dropped);
        }
    }

    private async Task ReportAsync(CancellationToken stop)
    {
        long told = 0;
        while (!stop.IsCancellationRequested)
        {
            await Task.WhenAny(Task.Delay(ReportPeriod, stop)).ConfigureAwait(false);
            long dropped = Dropped;
            if (dropped > told)
            {
                report.Warn($"shard {seat.Shard}: {dropped - told} published messages did not reach subscribers at other shards, whose "
                    + "proxies are away or slow");
            }
            told = dropped;
        }
    }

    // ---- The other side ----

    /// <summary>Publishes what another proxy sends, until it hangs up.</summary>
    /// <param name="peer">The other proxy.</param>
    /// <param name="publish">Publishes: channel, message, channel, message...; completes when that is done.</param>
    /// <param name="stop">Ends it.</param>
    public static async Task DeliverAsync(PeerChannel peer, Func<List<byte[]>, Task> publish, CancellationToken stop)
    {
        while (true)
        {
            (_, byte[] frame) = await peer.ReceiveAsync(stop).ConfigureAwait(false);
            await publish(Entries(frame)).ConfigureAwait(false);
            await peer.SendAsync('K', default, stop).ConfigureAwait(false);
        }
    }

    /// <summary>Publishes at a Redis what another proxy sends, until it hangs up. Where there is no Redis there are no
    /// subscribers.</summary>
    public static async Task DeliverAsync(PeerChannel peer, Func<RedisEndpoint?> store, CancellationToken stop)
    {
        RedisPipeline? redis = null;
        var batch = new RedisBatch();
        try
        {
            await DeliverAsync(peer, PublishAsync, stop).ConfigureAwait(false);
        }
        finally
        {
            if (redis is not null) { await redis.DisposeAsync().ConfigureAwait(false); }
        }

        async Task PublishAsync(List<byte[]> entries)
        {
            if (store() is not { } endpoint) { return; }
            try
            {
                redis ??= await RedisPipeline.ConnectAsync(endpoint, DeliveryLimit, stop).ConfigureAwait(false);
                batch.Clear();
                batch.Add([Eval, Script, NoKeys, .. entries]);
                await redis.RunAsync(batch, stop).ConfigureAwait(false);
            }
            catch (RedisException)
            {
                // Redis is away, and so are its subscribers.
                if (redis is not null) { await redis.DisposeAsync().ConfigureAwait(false); }
                redis = null;
            }
        }
    }

    private static List<byte[]> Entries(byte[] frame)
    {
        var parts = new List<byte[]>();
        for (int at = 0; at + 4 <= frame.Length;)
        {
            int length = BinaryPrimitives.ReadInt32BigEndian(frame.AsSpan(at));
            if (length < 0 || length > frame.Length - at - 4) { throw new PeerException("a frame of messages is cut short"); }
            parts.Add(frame.AsSpan(at + 4, length).ToArray());
            at += 4 + length;
        }
        return parts.Count % 2 == 0 ? parts : throw new PeerException("a frame of messages is cut short");
    }
}
