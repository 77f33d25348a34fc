// What one connection is subscribed to, and the messages that wait for it. Messages may come from any thread at any time: they wait, whole
// and in order, until their reader asks for them, or the next request is executed.
namespace Slogger.Faster.Commands;

/// <summary>The subscriptions of a connection. On its thread, but for <see cref="Push"/>.</summary>
internal sealed unsafe class Subscriptions(CommandEngine engine, Replies replies) : IDisposable
{
    private readonly Lock _lock = new();
    private readonly HashSet<byte[]>?[] _names = new HashSet<byte[]>?[3];
    private ReplyBuffer? _pushes;         // under its lock
    private volatile bool _hasPushes;
    private volatile bool _isOverrun;
    private bool _isDisposed;             // under the lock
    private int _count;

    /// <summary>Called when messages wait and none did before, or when so many wait that the connection is to be closed; on the thread that
    /// published.</summary>
    public Action? OnPush { get; set; }

    /// <summary>Whether messages wait.</summary>
    public bool HasPushes => _hasPushes;

    /// <summary>Whether more waited than may: the connection is to be closed.</summary>
    public bool IsOverrun => _isOverrun;

    /// <summary>Whether there are any subscriptions.</summary>
    public bool Any => _count > 0;

    public int Count(SubscriptionKind kind) => _names[(int)kind]?.Count ?? 0;

    /// <summary>What it is subscribed to.</summary>
    public IReadOnlyCollection<byte[]> Names(SubscriptionKind kind) => _names[(int)kind] ?? [];

    /// <summary>Subscribes to something, and confirms it.</summary>
    /// <param name="kind">What it is.</param>
    /// <param name="name">Its name.</param>
    /// <param name="word">The word that confirms it.</param>
    public void Add(SubscriptionKind kind, byte[] name, ReadOnlySpan<byte> word)
    {
        bool isNew = (_names[(int)kind] ??= new(NameBytes.Instance)).Add(name);
        if (isNew) _count++;
        // Messages come behind the confirmation.
        Confirm(kind, name, word);
        if (isNew) engine.PubSub.Add(kind, name, this);
    }

    /// <summary>Ends a subscription, if there is such a one, and confirms it.</summary>
    /// <inheritdoc cref="Add" />
    public void Remove(SubscriptionKind kind, byte[] name, ReadOnlySpan<byte> word)
    {
        if (_names[(int)kind]?.Remove(name) == true)
        {
            _count--;
            engine.PubSub.Remove(kind, name, this);
        }

        // Messages come before the confirmation.
        Flush();
        Confirm(kind, name, word);
    }

    /// <summary>Confirms a change.</summary>
    /// <param name="kind">What has changed.</param>
    /// <param name="name">Its name; null: there was none.</param>
    /// <param name="word">The word that confirms it.</param>
    public void Confirm(SubscriptionKind kind, byte[]? name, ReadOnlySpan<byte> word)
    {
        if (!replies.IsQuiet)
        {
            ConfirmTo(replies.Buffer, kind, name, word);
            return;
        }

        // Not thrown away with the replies.
        lock (_lock)
        {
            ConfirmTo(_pushes ??= new ReplyBuffer(), kind, name, word);
            _hasPushes = true;
        }
    }

    /// <summary>A message for this connection. Any thread.</summary>
    public void Push(ReadOnlySpan<byte> kind, byte[]? pattern, ReadOnlySpan<byte> channel, ReadOnlySpan<byte> message)
    {
        lock (_lock)
        {
            if (_isOverrun || _isDisposed) return;
            ReplyBuffer pushes = _pushes ??= new ReplyBuffer();
            if (pushes.Count + channel.Length + message.Length > CommandConnection.PushBytesMax)
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

    /// <summary>Moves the messages that wait to where replies go.</summary>
    public void TakePushes(ReplyBuffer buffer)
    {
        if (!_hasPushes) return;
        lock (_lock)
        {
            _hasPushes = false;
            if (_pushes is null) return;
            buffer.Raw(new(_pushes.Start, (int)_pushes.Count));
            _pushes.Consume(_pushes.Count);
        }
    }

    /// <summary>The same, unless what is answered is thrown away: what is pushed is not.</summary>
    public void Flush()
    {
        if (_hasPushes && !replies.IsQuiet) TakePushes(replies.Buffer);
    }

    /// <summary>The connection speaks another protocol from now on. Messages that wait are in the old one.</summary>
    public void SetProtocol(int protocol)
    {
        lock (_lock)
        {
            Flush();
            replies.Protocol = protocol;
        }
    }

    /// <summary>Ends all subscriptions, and confirms nothing.</summary>
    public void Clear()
    {
        for (int kind = 0; kind < _names.Length; kind++)
        {
            if (_names[kind] is not { } mine) continue;
            foreach (byte[] name in mine) engine.PubSub.Remove((SubscriptionKind)kind, name, this);
            _names[kind] = null;
        }

        _count = 0;
    }

    /// <inheritdoc />
    public void Dispose()
    {
        Clear();
        lock (_lock)
        {
            _isDisposed = true;
            _pushes?.Dispose();
            _pushes = null;
            _hasPushes = false;
        }
    }

    private byte PushKind => replies.IsResp3 ? (byte)'>' : (byte)'*';

    // As Redis counts them: channels and patterns together, those of a shard by themselves.
    private int CountToTell(SubscriptionKind kind) => kind == SubscriptionKind.ShardChannel ? Count(kind)
        : Count(SubscriptionKind.Channel) + Count(SubscriptionKind.Pattern);

    private void ConfirmTo(ReplyBuffer buffer, SubscriptionKind kind, byte[]? name, ReadOnlySpan<byte> word)
    {
        buffer.Number(PushKind, 3);
        buffer.Bulk(word);
        if (name is null) buffer.Raw(replies.IsResp3 ? "_\r\n"u8 : "$-1\r\n"u8);
        else buffer.Bulk(name);
        buffer.Number((byte)':', CountToTell(kind));
    }
}
