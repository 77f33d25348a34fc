// A connection to Redis is used when Redis has answered on it and the shard has proved, after that, that it is still this process's: whoever
// takes the shard later closes it (Shards/StoreFence). Until then what is meant for it waits in its send buffer. Connections that come
// while a proof is under way are proved together by the next.
namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private readonly List<Upstream> _greeted = [];
    private bool _isProving;

    private const long FullQueueWarningMicroseconds = 60_000_000;
    private long _nextFullQueueWarning;

    /// <summary>The queue of Redis's Unix socket is full: a client that needs a connection of its own has been refused. Said once a minute.</summary>
    public void WarnOfFullQueue()
    {
        if (Now < _nextFullQueueWarning) { return; }
        _nextFullQueueWarning = Now + FullQueueWarningMicroseconds;
        Shard.Warn($"{Store} has more new connections to accept than its tcp-backlog, so clients that need connections of their own are refused: raise it");
    }

    /// <summary>Redis has answered on a new connection.</summary>
    public void OnUpstreamAnswers(Upstream upstream)
    {
        _greeted.Add(upstream);
        if (!_isProving) { Prove(); }
    }

    private void Prove()
    {
        _isProving = true;
        Upstream[] asked = [.. _greeted];
        _greeted.Clear();
        Shard.ProveOwnership(() => Post(() =>
        {
            _isProving = false;
            foreach (Upstream upstream in asked) { upstream.Admit(); }
            if (_greeted.Count > 0) { Prove(); }
        }));
    }
}
