// A way from a shipper to a receiver that loses messages, sends them twice or late, and breaks. By the dice of one seed; who runs when is
// the machine's affair.
using System.Buffers;
using System.Threading.Channels;
using Slogger.Core.Replication;
using Slogger.Replication.Links;
using Slogger.Replication.Receiving;

namespace Slogger.Sites.Tests.Shipping;

/// <summary>Leads to whoever receives now.</summary>
internal sealed class BadWay(int seed, Func<StreamReceiver?> receiver, bool isGood = false) : IShipConnector
{
    private readonly Random _dice = new(seed);
    private int _open, _sent, _pieces;

    /// <summary>How many links are open.</summary>
    public int Open => Volatile.Read(ref _open);

    /// <summary>How many messages the shipper has sent.</summary>
    public int Sent => Volatile.Read(ref _sent);

    public bool IsGood { get; set; } = isGood;

    /// <summary>After so many messages with bytes none arrives any more.</summary>
    public int PiecesMax { get; init; } = int.MaxValue;

    public string Target => "the other site";

    public Task<IShipLink> ConnectAsync(CancellationToken stop) =>
        receiver() is { } to ? Task.FromResult<IShipLink>(new BadLink(this, to)) : throw new ShipLinkException("nobody is there");

    private int Dice(int faces)
    {
        lock (_dice) { return IsGood ? faces - 1 : _dice.Next(faces); }
    }

    private sealed class BadLink : IShipLink, IReplyLink
    {
        private readonly BadWay _way;
        private readonly StreamReceiver _to;
        private readonly Channel<ShipMessage> _there = Channel.CreateUnbounded<ShipMessage>();
        private readonly Channel<ShipReply> _back = Channel.CreateUnbounded<ShipReply>();
        private readonly Task _delivering;
        private ShipMessage? _late;

        public BadLink(BadWay way, StreamReceiver to)
        {
            (_way, _to) = (way, to);
            Interlocked.Increment(ref way._open);
            _delivering = Task.Run(DeliverAsync);
        }

        public ValueTask<bool> SendAsync(ShipMessage message, bool isLast)
        {
            Interlocked.Increment(ref _way._sent);
            if (!message.Bytes.IsEmpty) { _way._pieces++; }
            if (_way._pieces > _way.PiecesMax) { return ValueTask.FromResult(true); }
            // Its bytes are the shipper's.
            ShipMessage own = message with { Bytes = new(message.Bytes.ToArray()), Ends = [.. message.Ends] };
            Assert.True(own.Flaw is null, $"{own.Flaw}: {own.Request}, {own.Bytes.Length} bytes, {string.Join(", ", own.Ends)}");
            switch (_way.Dice(40))
            {
                case 0: return ValueTask.FromResult(true);
                case 1: _there.Writer.TryWrite(own); break;
                case 2 when _late is null:
                    _late = own;
                    return ValueTask.FromResult(true);
                case 3 when _way.Dice(4) == 0:
                    _there.Writer.TryComplete();
                    _back.Writer.TryComplete();
                    return ValueTask.FromResult(false);
            }
            bool isOpen = _there.Writer.TryWrite(own);
            if (_late is { } late && _way.Dice(3) > 0) { (_late, _) = (null, _there.Writer.TryWrite(late)); }
            return ValueTask.FromResult(isOpen);
        }

        public async ValueTask<ShipReply> ReceiveAsync(CancellationToken stop)
        {
            try
            {
                return await _back.Reader.ReadAsync(stop);
            }
            catch (ChannelClosedException e)
            {
                throw new ShipLinkException("the link broke", e);
            }
        }

        public void Reply(ShipReply reply)
        {
            if (_way.Dice(20) == 0) { return; }
            _back.Writer.TryWrite(reply);
            if (_way.Dice(20) == 1) { _back.Writer.TryWrite(reply); }
        }

        public async ValueTask DisposeAsync()
        {
            _there.Writer.TryComplete();
            _back.Writer.TryComplete();
            await _delivering;
            Interlocked.Decrement(ref _way._open);
        }

        private async Task DeliverAsync()
        {
            try
            {
                await foreach (ShipMessage message in _there.Reader.ReadAllAsync()) { await _to.ReceivedAsync(message, this); }
            }
            catch (OperationCanceledException)
            {
                // The receiver has stopped.
            }
            _back.Writer.TryComplete();
        }
    }
}
