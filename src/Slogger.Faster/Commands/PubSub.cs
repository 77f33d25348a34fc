// Who is subscribed to what. A message goes to its subscribers at once; it is no data, so it belongs to no version.
namespace Slogger.Faster.Commands;

/// <summary>The subscriptions of all connections of one store. Any thread.</summary>
internal sealed class PubSub
{
    private readonly Lock _lock = new();
    private readonly SubscriptionTable _channels = new(), _patterns = new(), _shardChannels = new();

    /// <summary>How many different patterns there are.</summary>
    public int PatternCount
    {
        get
        {
            lock (_lock) { return _patterns.Count; }
        }
    }

    /// <summary>How many channels have subscribers.</summary>
    public int ChannelCount
    {
        get
        {
            lock (_lock) { return _channels.Count; }
        }
    }

    public void Add(SubscriptionKind kind, byte[] name, Subscriptions subscriber)
    {
        lock (_lock) { TableOf(kind).Add(name, subscriber); }
    }

    public void Remove(SubscriptionKind kind, byte[] name, Subscriptions subscriber)
    {
        lock (_lock) { TableOf(kind).Remove(name, subscriber); }
    }

    /// <summary>Gives a message to all subscribers of its channel, and to all with a pattern that fits.</summary>
    /// <returns>How many times it was given.</returns>
    public int Publish(ReadOnlySpan<byte> channel, ReadOnlySpan<byte> message)
    {
        lock (_lock)
        {
            List<Subscriptions> subscribers = _channels.Of(channel);
            foreach (Subscriptions subscriber in subscribers) subscriber.Push("message"u8, null, channel, message);
            int given = subscribers.Count;
            foreach ((byte[] pattern, List<Subscriptions> those) in _patterns.All)
            {
                if (!Glob.IsMatch(pattern, channel)) continue;
                foreach (Subscriptions subscriber in those) subscriber.Push("pmessage"u8, pattern, channel, message);
                given += those.Count;
            }

            return given;
        }
    }

    /// <summary>Gives a message to all subscribers of a shard's channel.</summary>
    /// <returns>How many there are.</returns>
    public int PublishToShard(ReadOnlySpan<byte> channel, ReadOnlySpan<byte> message)
    {
        lock (_lock)
        {
            List<Subscriptions> subscribers = _shardChannels.Of(channel);
            foreach (Subscriptions subscriber in subscribers) subscriber.Push("smessage"u8, null, channel, message);
            return subscribers.Count;
        }
    }

    /// <summary>How many are subscribed to it.</summary>
    public int Subscribers(SubscriptionKind kind, ReadOnlySpan<byte> name)
    {
        lock (_lock) { return TableOf(kind).Of(name).Count; }
    }

    /// <summary>The names that have subscribers.</summary>
    public byte[][] Names(SubscriptionKind kind)
    {
        lock (_lock) { return [.. TableOf(kind).All.Keys]; }
    }

    private SubscriptionTable TableOf(SubscriptionKind kind) => kind switch
    {
        SubscriptionKind.Channel => _channels,
        SubscriptionKind.Pattern => _patterns,
        _ => _shardChannels,
    };
}

/// <summary>What a connection can be subscribed to.</summary>
internal enum SubscriptionKind { Channel, Pattern, ShardChannel }

/// <summary>Subscribers by name, in the order in which they subscribed. Under its owner's lock.</summary>
internal sealed class SubscriptionTable
{
    private static readonly List<Subscriptions> s_nobody = [];

    public Dictionary<byte[], List<Subscriptions>> All { get; } = new(NameBytes.Instance);

    public int Count => All.Count;

    public List<Subscriptions> Of(ReadOnlySpan<byte> name) =>
        All.GetAlternateLookup<ReadOnlySpan<byte>>().TryGetValue(name, out List<Subscriptions>? subscribers) ? subscribers : s_nobody;

    public void Add(byte[] name, Subscriptions subscriber)
    {
        if (!All.TryGetValue(name, out List<Subscriptions>? subscribers)) All.Add(name, subscribers = []);
        subscribers.Add(subscriber);
    }

    public void Remove(byte[] name, Subscriptions subscriber)
    {
        if (!All.TryGetValue(name, out List<Subscriptions>? subscribers)) return;
        subscribers.Remove(subscriber);
        if (subscribers.Count == 0) All.Remove(name);
    }
}

/// <summary>Compares names byte by byte.</summary>
internal sealed class NameBytes : IEqualityComparer<byte[]>, IAlternateEqualityComparer<ReadOnlySpan<byte>, byte[]>
{
    public static readonly NameBytes Instance = new();

    public bool Equals(byte[]? x, byte[]? y) => x.AsSpan().SequenceEqual(y);

    public bool Equals(ReadOnlySpan<byte> alternate, byte[] other) => alternate.SequenceEqual(other);

    public int GetHashCode(byte[] name) => GetHashCode(name.AsSpan());

    public int GetHashCode(ReadOnlySpan<byte> name)
    {
        var hash = new HashCode();
        hash.AddBytes(name);
        return hash.ToHashCode();
    }

    public byte[] Create(ReadOnlySpan<byte> alternate) => alternate.ToArray();
}
