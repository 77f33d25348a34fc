// Redis's commands on a FASTER store: what all connections have in common. A connection is given requests as bytes, and gives replies as
// bytes; sockets are for others. What is atomic in Redis is so here: whoever changes keys, or reads several, holds their locks.
//
// What an answer means is Redis 7.0's; where this differs it is written in docs/reference/embedded-store.md.
using Slogger.Faster.Keys;
using Slogger.Faster.Records;

namespace Slogger.Faster.Commands;

/// <summary>What all connections of one store share. Its connections are for one thread each; any number at the same time.</summary>
public sealed class CommandEngine : IDisposable
{
    /// <summary>The longest key, in bytes.</summary>
    public const int KeyBytesMax = 64 << 10;

    /// <summary>The longest value, in bytes.</summary>
    public const int ValueBytesMax = 16 << 20;

    /// <summary>The most keys that one command, or one transaction, names, or other things where it names no keys: while it is executed
    /// nobody else is served.</summary>
    public const int KeysMax = 64 << 10;

    /// <summary>The last moment at which a key may expire, in milliseconds since the Unix epoch: in 146 million years.</summary>
    internal const long ExpiryMsMax = RecordHeader.Removed - 1;

    private readonly Lock _gate = new();
    private readonly Lock _sweep = new();
    private readonly FasterWorker _sweeper;
    private readonly KeyList _found = new();
    private readonly Dictionary<long, CommandConnection> _connections = [];
    private CommandCounts _ended;
    private CommandCounts _since;
    private ulong _sweepPlace;
    private long _lastId;
    private long _expired;
    private volatile bool _isFollowing;

    /// <summary>Makes an engine. The store's log is read once, for its keys.</summary>
    /// <param name="store">The store; it is not disposed of with the engine.</param>
    /// <param name="options">The options.</param>
    public CommandEngine(FasterStore store, EngineOptions options)
    {
        ArgumentNullException.ThrowIfNull(store);
        ArgumentNullException.ThrowIfNull(options);
        (Store, Options) = (store, options);
        Keys = store.ListKeys();
        Watched = new(store.Stripes.Count);
        StartedMs = options.NowMs();
        _sweeper = store.NewWorker();
    }

    /// <summary>Called by the connection that was given SLOGGER.COMMIT, on its thread, at the command's place among its requests. Null:
    /// there is no such command.</summary>
    public Action<CommitCommand>? OnCommit { get; set; }

    /// <summary>Whether the store follows another, as a replica does: connections change nothing but the one that feeds it
    /// (<see cref="ConnectFeed"/>), and a key that has expired is missing to who reads, but is removed only when that other store says so.
    /// Default: false.</summary>
    public bool IsFollowing
    {
        get => _isFollowing;
        set => _isFollowing = value;
    }

    /// <summary>Called with channel and message of each PUBLISH of a client, on its connection's thread.</summary>
    public PublishedMessage? OnPublished { get; set; }

    /// <summary>How many keys there are; expired ones count until they are swept.</summary>
    public long KeyCount => Keys.Count;

    internal bool IsOutOfMemory => Options.IsOutOfMemory is { } hook ? hook() : Store.IsOutOfMemory;

    internal FasterStore Store { get; }

    internal EngineOptions Options { get; }

    internal KeyDirectory Keys { get; }

    internal WatchedKeys Watched { get; }

    internal PubSub PubSub { get; } = new();

    internal long StartedMs { get; }

    /// <summary>Keys that were removed because they had expired, since statistics were reset.</summary>
    internal long Expired => Volatile.Read(ref _expired);

    /// <summary>A connection. Dispose of it when it has ended.</summary>
    /// <param name="isOwner">Whether it may end versions.</param>
    public CommandConnection Connect(bool isOwner = false) => Connect(isOwner, isFeed: false);

    /// <summary>The connection by which a store that follows is told what to do: no key expires for it, and it ends at the first command
    /// that cannot be done (<see cref="CommandConnection.FeedError"/>).</summary>
    public CommandConnection ConnectFeed() => Connect(isOwner: false, isFeed: true);

    private CommandConnection Connect(bool isOwner, bool isFeed)
    {
        lock (_gate)
        {
            var connection = new CommandConnection(this, ++_lastId, isOwner, isFeed);
            _connections.Add(connection.Id, connection);
            return connection;
        }
    }

    /// <summary>Publishes to the subscribers of this store, and to nobody else. Any thread.</summary>
    /// <returns>How many times the message was given to a subscriber.</returns>
    public int PublishHere(ReadOnlySpan<byte> channel, ReadOnlySpan<byte> message) => PubSub.Publish(channel, message);

    /// <summary>A way to the records for a caller in this process. Dispose of it when it is not needed any more.</summary>
    public LocalConnection ConnectLocal() => new(this);

    /// <summary>Removes expired keys, each with a record that says so. To be called now and then, or they cost memory until somebody asks
    /// for them. Goes on where it ended the last time.</summary>
    /// <param name="budget">How many keys with an expiry are looked at, at most.</param>
    /// <returns>How many it has removed.</returns>
    public int SweepExpired(int budget)
    {
        const int KeysAtOnce = 256;
        int swept = 0;
        if (_isFollowing) return 0;
        lock (_sweep)
        {
            // Buckets without such keys cost little, but are many.
            for (int looks = budget * 16; budget > 0 && looks > 0 && Keys.Expiring > 0 && !Store.IsFull; looks -= KeysAtOnce * 4)
            {
                _found.Clear();
                _sweepPlace = Keys.Read(_sweepPlace, Math.Min(budget, KeysAtOnce), KeysAtOnce * 4, expiringOnly: true, _found);
                if (_sweepPlace >= KeyDirectory.End) _sweepPlace = 0;
                long now = Options.NowMs();
                for (int i = 0; i < _found.Count; i++)
                {
                    bool isPast = _sweeper.TryRead(_found[i], null, out long expiryMs, out _) && IsPast(expiryMs, now);
                    if (isPast && Expire(_sweeper, _found[i], now)) swept++;
                }

                budget -= _found.Count;
            }
        }

        return swept;
    }

    /// <summary>A digest of all keys, values and expiries, in whatever order they are; nobody changes any meanwhile.</summary>
    /// <param name="cancellation">Gives up.</param>
    /// <returns>How many keys there are, and the digest.</returns>
    public (long Keys, string Digest) Digest(CancellationToken cancellation = default)
    {
        var sum = default(KeyDigest);
        var value = new ValueBuffer();
        using FasterWorker worker = Store.NewWorker();
        var found = new KeyList();
        for (ulong place = 0; place < KeyDirectory.End;)
        {
            cancellation.ThrowIfCancellationRequested();
            found.Clear();
            place = Keys.Read(place, 1024, int.MaxValue, expiringOnly: false, found);
            for (int i = 0; i < found.Count; i++)
            {
                if (worker.TryRead(found[i], value, out long expiryMs, out _)) sum.Add(found[i], value.Bytes, expiryMs);
            }
        }

        return (sum.Keys, sum.ToString());
    }

    /// <inheritdoc />
    public void Dispose()
    {
        CommandConnection[] connections;
        lock (_gate) { connections = [.. _connections.Values]; }
        foreach (CommandConnection connection in connections) connection.Dispose();
        lock (_sweep) { _sweeper.Dispose(); }
    }

    internal static bool IsPast(long expiryMs, long now) => expiryMs != 0 && expiryMs <= now;

    /// <summary>Removes a key if it has expired. Its lock is not held.</summary>
    internal bool Expire(FasterWorker worker, ReadOnlySpan<byte> key, long now)
    {
        if (_isFollowing) return false;
        int entered = worker.Enter(key);
        try
        {
            if (!worker.TryRead(key, null, out long expiryMs, out _) || !IsPast(expiryMs, now)) return false;
            Remove(worker, key);
            return true;
        }
        finally
        {
            worker.Exit(entered);
        }
    }

    /// <summary>Removes a key that has expired. Its lock is held.</summary>
    internal void Remove(FasterWorker worker, ReadOnlySpan<byte> key)
    {
        // It is taken for missing all the same.
        if (_isFollowing || !worker.TryWrite(key, [], RecordHeader.Removed)) return;
        if (Watched.Any) Watched.Touch(worker.StripeOf(key), key, hadExpired: true);
        Interlocked.Increment(ref _expired);
    }

    internal void Forget(CommandConnection connection)
    {
        lock (_gate)
        {
            if (_connections.Remove(connection.Id)) _ended.Add(connection.Counts);
        }
    }

    internal CommandConnection[] Connections()
    {
        lock (_gate) { return [.. _connections.Values.OrderBy(c => c.Id)]; }
    }

    /// <summary>What all connections have done since statistics were reset.</summary>
    internal CommandCounts Counts()
    {
        lock (_gate)
        {
            CommandCounts counts = All();
            counts.Subtract(_since);
            return counts;
        }
    }

    internal void ResetCounts()
    {
        lock (_gate)
        {
            _since = All();
            Interlocked.Exchange(ref _expired, 0);
        }
    }

    private CommandCounts All()
    {
        CommandCounts counts = _ended;
        foreach (CommandConnection connection in _connections.Values) counts.Add(connection.Counts);
        counts.Connections = _lastId;
        return counts;
    }
}

/// <summary>A message that was published.</summary>
/// <param name="channel">Its channel.</param>
/// <param name="message">What it says.</param>
public delegate void PublishedMessage(ReadOnlySpan<byte> channel, ReadOnlySpan<byte> message);

/// <summary>What INFO counts. Each connection counts for itself.</summary>
internal struct CommandCounts
{
    public long Connections;
    public long Commands;
    public long Errors;
    public long Hits;
    public long Misses;
    public long InputBytes;

    public void Add(CommandCounts other)
    {
        Commands += other.Commands;
        Errors += other.Errors;
        Hits += other.Hits;
        Misses += other.Misses;
        InputBytes += other.InputBytes;
    }

    public void Subtract(CommandCounts other)
    {
        Connections -= other.Connections;
        Commands -= other.Commands;
        Errors -= other.Errors;
        Hits -= other.Hits;
        Misses -= other.Misses;
        InputBytes -= other.InputBytes;
    }
}
