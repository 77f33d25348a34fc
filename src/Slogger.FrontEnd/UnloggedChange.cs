// A change that the version log does not hold: nothing is committed until a checkpoint does. The reply comes after that checkpoint.
namespace Slogger.FrontEnd;

/// <summary>One such change, on its way to Redis. The loop's thread.</summary>
internal sealed class UnloggedChange
{
    private readonly Client _client;
    private readonly IShardPort _shard;

    private UnloggedChange(Client client) => (_client, _shard) = (client, client.Loop.Shard);

    /// <summary>Forwards the request that makes the change. Nothing is committed from here on.</summary>
    public static bool Forward(Client client)
    {
        if (client.Route(needsDedicated: true) is null) { return false; }
        var change = new UnloggedChange(client);
        change._shard.BeforeUnloggedChange();
        client.UnloggedChange = change;
        return client.Forward(needsDedicated: true, change.OnAnswered, ReplyKind.Unlogged, barrier: true);
    }

    // The change was made, or refused.
    private void OnAnswered(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        _client.UnloggedChange = null;
        if (_client.IsClosed)
        {
            // It was kept open for this reply.
            upstream.Close("the client has gone");
            _shard.AfterUnloggedChange(() => { });
            return;
        }
        byte[]? answer = _client.IsReplying ? reply.ToArray() : null;
        _client.Wait(Waiting.Checkpoint);
        _shard.AfterUnloggedChange(() =>
        {
            if (_client.IsClosed || !_client.WaitsForCheckpoint) { return; }
            _client.Loop.Replies.BeginAny();
            if (answer is not null) { _client.Deliver(answer); }
            _client.Loop.Replies.End();
            if (!_client.IsClosed) { _client.EndWait(); }
        });
    }

    /// <summary>The connection died that was to answer: the change was made, or not.</summary>
    public void OnLost()
    {
        _client.UnloggedChange = null;
        _shard.AfterUnloggedChange(() => { });
    }
}
