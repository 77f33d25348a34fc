// SUBSCRIBE, PUBLISH and their like.
namespace Slogger.Faster.Commands;

/// <summary>Commands on messages.</summary>
internal sealed class PubSubCommands(
    Request request, Replies replies, CommandEngine engine, Subscriptions subscriptions, TransactionQueue queue)
{
    public void Subscribe() => Subscribe(SubscriptionKind.Channel, "subscribe"u8);

    public void SubscribeToPatterns() => Subscribe(SubscriptionKind.Pattern, "psubscribe"u8);

    public void SubscribeToShardChannels()
    {
        if (queue.IsRunning) replies.Error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");
        else Subscribe(SubscriptionKind.ShardChannel, "ssubscribe"u8);
    }

    public void Unsubscribe() => Unsubscribe(SubscriptionKind.Channel, "unsubscribe"u8);

    public void UnsubscribeFromPatterns() => Unsubscribe(SubscriptionKind.Pattern, "punsubscribe"u8);

    public void UnsubscribeFromShardChannels() => Unsubscribe(SubscriptionKind.ShardChannel, "sunsubscribe"u8);

    public void Publish()
    {
        int given = engine.PublishHere(request[1], request[2]);
        engine.OnPublished?.Invoke(request[1], request[2]);
        subscriptions.Flush();
        replies.Integer(given);
    }

    public void PublishToShard()
    {
        int given = engine.PubSub.PublishToShard(request[1], request[2]);
        subscriptions.Flush();
        replies.Integer(given);
    }

    public void ListChannels() => List(SubscriptionKind.Channel);

    public void ListShardChannels() => List(SubscriptionKind.ShardChannel);

    public void CountSubscribers() => CountSubscribers(SubscriptionKind.Channel);

    public void CountShardSubscribers() => CountSubscribers(SubscriptionKind.ShardChannel);

    public void CountPatterns() => replies.Integer(engine.PubSub.PatternCount);

    private void Subscribe(SubscriptionKind kind, ReadOnlySpan<byte> word)
    {
        for (int i = 1; i < request.Count; i++) subscriptions.Add(kind, request[i].ToArray(), word);
    }

    private void Unsubscribe(SubscriptionKind kind, ReadOnlySpan<byte> word)
    {
        byte[][] names = request.Count > 1
            ? [.. Enumerable.Range(1, request.Count - 1).Select(i => request[i].ToArray())]
            : [.. subscriptions.Names(kind)];
        foreach (byte[] name in names) subscriptions.Remove(kind, name, word);
        if (names.Length == 0) subscriptions.Confirm(kind, null, word);
    }

    private void List(SubscriptionKind kind)
    {
        if (request.Count > 3)
        {
            replies.Error(ErrorText.BadSubcommandUse(request));
            return;
        }

        byte[][] names = engine.PubSub.Names(kind);
        if (request.Count == 3)
        {
            byte[] pattern = request[2].ToArray();
            names = [.. names.Where(n => Glob.IsMatch(pattern, n))];
        }

        replies.BeginArray(names.Length);
        foreach (byte[] name in names) replies.Bulk(name);
    }

    private void CountSubscribers(SubscriptionKind kind)
    {
        replies.BeginArray((request.Count - 2) * 2L);
        for (int i = 2; i < request.Count; i++)
        {
            replies.Bulk(request[i]);
            replies.Integer(engine.PubSub.Subscribers(kind, request[i]));
        }
    }
}
