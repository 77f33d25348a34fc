// A connection to Redis is used when Redis has answered on it and the shard has proved, after that, that it is still this process's:
// whoever takes the shard later closes the connection (Stores/StoreFence). Until then what is meant for it waits in its send buffer.
// Connections that come while a proof is under way are proved together by the next.
namespace Slogger.FrontEnd;

/// <summary>New connections to Redis that wait for the proof that the shard is this process's. The loop's thread.</summary>
internal sealed class ConnectionAdmission(FrontEndLoop loop)
{
    private readonly List<Upstream> _greeted = [];
    private bool _isProving;

    /// <summary>Redis has answered on a new connection.</summary>
    public void OnAnswered(Upstream upstream)
    {
        _greeted.Add(upstream);
        if (!_isProving) { Prove(); }
    }

    private void Prove()
    {
        _isProving = true;
        Upstream[] asked = [.. _greeted];
        _greeted.Clear();
        loop.Shard.ProveOwnership(() => loop.Post(() =>
        {
            _isProving = false;
            foreach (Upstream upstream in asked) { upstream.Admit(); }
            if (_greeted.Count > 0) { Prove(); }
        }));
    }
}
