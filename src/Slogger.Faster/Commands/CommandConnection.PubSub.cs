// SUBSCRIBE, PUBLISH and their like. Messages for a connection may come from any thread at any time: they wait, whole and in order, until
// their reader asks for them, or the next request is executed.
namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    /// <summary>So much may wait for a reader. One who is slower loses his connection, as at Redis. Unit: bytes.</summary>
    public const long PushBytesMax = 32 << 20;

    private readonly Lock _pushLock = new();
    private readonly HashSet<byte[]>?[] _subscriptions = new HashSet<byte[]>?[3];
    private ReplyBuffer? _pushes;         // under its lock
    private volatile bool _hasPushes;
    private volatile bool _isOverrun;
    private bool _isInExec;

    /// <summary>Called when messages wait and none did before, or when so many wait that the connection is to be closed; on the thread that
    /// published.</summary>
    public Action? OnPush { get; set; }

    /// <summary>Whether messages wait.</summary>
    public bool HasPushes => _hasPushes;

    private bool IsSubscribed => SubscriptionCount(SubscriptionKind.Channel) + SubscriptionCount(SubscriptionKind.Pattern) + SubscriptionCount(SubscriptionKind.ShardChannel) > 0;

    /// <summary>Takes the messages that wait. On the connection's thread.</summary>
    public void TakePushes(ReplyBuffer replies)
    {
        ArgumentNullException.ThrowIfNull(replies);
        if (!_hasPushes) return;
        lock (_pushLock)
        {
            _hasPushes = false;
            if (_pushes is null) return;
            replies.Raw(new(_pushes.Start, (int)_pushes.Count));
            _pushes.Consume(_pushes.Count);
        }
    }

    /// <summary>A message for this connection. Any thread.</summary>
    internal void Push(ReadOnlySpan<byte> kind, byte[]? pattern, ReadOnlySpan<byte> channel, ReadOnlySpan<byte> message)
    {
        lock (_pushLock)
        {
            if (_isOverrun || _isDisposed) return;
            ReplyBuffer pushes = _pushes ??= new ReplyBuffer();
            if (pushes.Count + channel.Length + message.Length > PushBytesMax)
            {
                _isOverrun = true;
                pushes.Consume(pushes.Count);
            }
            else
            {
                pushes.Number(PushKind, pattern is null ? 3 : 4);
                pushes.Bulk(kind);
                if (pattern is not null) pushes.Bulk(pattern);
                pushes.Bulk(channel);
                pushes.Bulk(message);
                if (_hasPushes) return;
            }

            _hasPushes = !_isOverrun;
        }

        OnPush?.Invoke();
    }

    internal void Subscribe() => Subscribe(SubscriptionKind.Channel, "subscribe"u8);

    internal void SubscribeToPatterns() => Subscribe(SubscriptionKind.Pattern, "psubscribe"u8);

    internal void SubscribeToShardChannels()
    {
        if (_isInExec) Error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
        else Subscribe(SubscriptionKind.ShardChannel, "ssubscribe"u8);
    }

    internal void Unsubscribe() => Unsubscribe(SubscriptionKind.Channel, "unsubscribe"u8);

    internal void UnsubscribeFromPatterns() => Unsubscribe(SubscriptionKind.Pattern, "punsubscribe"u8);

    internal void UnsubscribeFromShardChannels() => Unsubscribe(SubscriptionKind.ShardChannel, "sunsubscribe"u8);

    internal void Publish()
    {
        int given = _engine.PublishHere(ArgumentAt(1), ArgumentAt(2));
        _engine.OnPublished?.Invoke(ArgumentAt(1), ArgumentAt(2));
        FlushPushes();
        Integer(given);
    }

    internal void PublishToShard()
    {
        int given = _engine.PubSub.PublishToShard(ArgumentAt(1), ArgumentAt(2));
        FlushPushes();
        Integer(given);
    }

    internal void ListChannels() => ListChannels(SubscriptionKind.Channel);

    internal void ListShardChannels() => ListChannels(SubscriptionKind.ShardChannel);

    internal void CountSubscribers() => CountSubscribers(SubscriptionKind.Channel);

    internal void CountShardSubscribers() => CountSubscribers(SubscriptionKind.ShardChannel);

    internal void CountPatterns() => Integer(_engine.PubSub.PatternCount);

    // What is answered is thrown away then, what is pushed is not.
    private bool IsQuiet => _replyMode is ReplyMode.Off or ReplyMode.Skip;

    private byte PushKind => IsResp3 ? (byte)'>' : (byte)'*';

    private int SubscriptionCount(SubscriptionKind kind) => _subscriptions[(int)kind]?.Count ?? 0;

    // As Redis says it: channels and patterns count together, those of a shard by themselves.
    private int CountToTell(SubscriptionKind kind) => kind == SubscriptionKind.ShardChannel ? SubscriptionCount(kind)
        : SubscriptionCount(SubscriptionKind.Channel) + SubscriptionCount(SubscriptionKind.Pattern);

    private void Subscribe(SubscriptionKind kind, ReadOnlySpan<byte> word)
    {
        HashSet<byte[]> mine = _subscriptions[(int)kind] ??= new(NameBytes.Instance);
        for (int i = 1; i < _count; i++)
        {
            byte[] name = ArgumentAt(i).ToArray();
            bool isNew = mine.Add(name);
            // Messages come behind the confirmation.
            Confirm(word, name, CountToTell(kind));
            if (isNew) _engine.PubSub.Add(kind, name, this);
        }
    }

    private void Unsubscribe(SubscriptionKind kind, ReadOnlySpan<byte> word)
    {
        byte[][] names = _count > 1 ? [.. Enumerable.Range(1, _count - 1).Select(i => ArgumentAt(i).ToArray())] : [.. _subscriptions[(int)kind] ?? []];
        foreach (byte[] name in names)
        {
            if (_subscriptions[(int)kind]?.Remove(name) == true) _engine.PubSub.Remove(kind, name, this);
            // Messages come before the confirmation.
            FlushPushes();
            Confirm(word, name, CountToTell(kind));
        }

        if (names.Length == 0) Confirm(word, null, CountToTell(kind));
    }

    // Messages that wait are in the old one.
    private void SetProtocol(int protocol)
    {
        lock (_pushLock)
        {
            FlushPushes();
            _protocol = protocol;
        }
    }

    // Without a word.
    private void EndSubscriptions()
    {
        for (int kind = 0; kind < _subscriptions.Length; kind++)
        {
            if (_subscriptions[kind] is not { } mine) continue;
            foreach (byte[] name in mine) _engine.PubSub.Remove((SubscriptionKind)kind, name, this);
            _subscriptions[kind] = null;
        }
    }

    private void Confirm(ReadOnlySpan<byte> word, byte[]? name, int count)
    {
        if (!IsQuiet)
        {
            ConfirmTo(_replies, word, name, count);
            return;
        }

        // Not thrown away with the replies.
        lock (_pushLock)
        {
            ConfirmTo(_pushes ??= new ReplyBuffer(), word, name, count);
            _hasPushes = true;
        }
    }

    private void ConfirmTo(ReplyBuffer replies, ReadOnlySpan<byte> word, byte[]? name, int count)
    {
        replies.Number(PushKind, 3);
        replies.Bulk(word);
        if (name is null) replies.Raw(IsResp3 ? "_\r\n"u8 : "$-1\r\n"u8);
        else replies.Bulk(name);
        replies.Number((byte)':', count);
    }

    private void FlushPushes()
    {
        if (_hasPushes && !IsQuiet) TakePushes(_replies);
    }

    private void ListChannels(SubscriptionKind kind)
    {
        if (_count > 3)
        {
            Error(BadSubcommandUse());
            return;
        }

        byte[][] names = _engine.PubSub.Names(kind);
        if (_count == 3)
        {
            byte[] pattern = ArgumentAt(2).ToArray();
            names = [.. names.Where(n => Glob.IsMatch(pattern, n))];
        }

        BeginArray(names.Length);
        foreach (byte[] name in names) Bulk(name);
    }

    private void CountSubscribers(SubscriptionKind kind)
    {
        BeginArray((_count - 2) * 2L);
        for (int i = 2; i < _count; i++)
        {
            Bulk(ArgumentAt(i));
            Integer(_engine.PubSub.Subscribers(kind, ArgumentAt(i)));
        }
    }

    private void DisposePushes()
    {
        lock (_pushLock)
        {
            _pushes?.Dispose();
            _pushes = null;
            _hasPushes = false;
        }
    }
}
