// The subscriptions of a multiplexer, made once: what breaks is for the multiplexer to mend.
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Multiplexer;

internal sealed class MultiplexerSubscriber
{
    private readonly ConnectionMultiplexer _redis;
    private readonly MultiplexerTally _tally;
    private readonly Lock _guard = new();
    private readonly HashSet<string> _seen = new(StringComparer.Ordinal);
    private string? _violation;

    private MultiplexerSubscriber(ConnectionMultiplexer redis, int number, MultiplexerTally tally)
    {
        _redis = redis;
        _tally = tally;
        Sharded = RedisChannel.Sharded($"{{m{number}}}news");
    }

    public static RedisChannel News { get; } = RedisChannel.Literal("news");

    public static RedisChannel Pattern { get; } = RedisChannel.Pattern("news:*");

    /// <summary>A channel of its own, in the slot of which it lies.</summary>
    public RedisChannel Sharded { get; }

    public string Name => _redis.ClientName;

    public static async Task<MultiplexerSubscriber> StartAsync(ConnectionMultiplexer redis, int number, MultiplexerTally tally)
    {
        var subscriber = new MultiplexerSubscriber(redis, number, tally);
        foreach (RedisChannel channel in (RedisChannel[])[News, Pattern, subscriber.Sharded])
        {
            ChannelMessageQueue queue = await redis.GetSubscriber().SubscribeAsync(channel);
            queue.OnMessage(message => subscriber.Take(channel, message));
        }

        return subscriber;
    }

    /// <summary>Publishes a text at all that it listens to; the names of those messages as <see cref="HasAll"/> knows them.</summary>
    public async Task<string[]> PublishAsync(ConnectionMultiplexer from, string text)
    {
        ISubscriber publisher = from.GetSubscriber();
        var sent = new List<string>();
        foreach (RedisChannel channel in (RedisChannel[])[News, RedisChannel.Literal("news:" + Name), Sharded])
        {
            try
            {
                await publisher.PublishAsync(channel, $"{channel}|{text}")
                    .WaitAsync(TimeSpan.FromMilliseconds(MultiplexerWorker.TimeoutMs) + TimeSpan.FromSeconds(15));
                _tally.CountPublished();
                sent.Add($"{channel}|{text}");
            }
            catch (Exception e) when (e is RedisConnectionException or RedisTimeoutException
                || (e is RedisServerException && !_tally.IsCalm))
            {
                _tally.CountFailure(e);
            }
            catch (TimeoutException)
            {
                throw new InvalidDataException(
                    $"{from.ClientName}: PUBLISH ended neither with a reply nor with an exception: {from.GetStatus()}");
            }
        }

        return [.. sent];
    }

    /// <summary>Which of these messages have not come.</summary>
    /// <exception cref="InvalidDataException">A message came where it does not belong.</exception>
    public string[] Missing(IEnumerable<string> messages)
    {
        lock (_guard)
        {
            return _violation is null ? [.. messages.Where(m => !_seen.Contains(m))] : throw new InvalidDataException(_violation);
        }
    }

    public void Forget()
    {
        lock (_guard) { _seen.Clear(); }
    }

    private void Take(RedisChannel subscription, ChannelMessage message)
    {
        string text = (string?)message.Message ?? "";
        lock (_guard)
        {
            bool isRight = text.StartsWith($"{message.Channel}|", StringComparison.Ordinal)
                && (subscription == Pattern ? ((string?)message.Channel)!.StartsWith("news:", StringComparison.Ordinal)
                : message.Channel == subscription);
            if (!isRight) { _violation ??= $"{Name}: the subscription of {subscription} was given '{text}' as of {message.Channel}"; }
            _tally.CountReceived(!_seen.Add(text));
        }
    }
}
