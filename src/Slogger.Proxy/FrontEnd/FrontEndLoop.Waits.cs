// Clients that wait for a commit.
namespace Slogger.Proxy.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private readonly List<Client> _waitingForCommit = [];

    /// <summary>A client waits until a version is committed, or its time is over.</summary>
    public void WaitForCommit(Client client)
    {
        _waitingForCommit.Add(client);
        if (_waitingForCommit.Count == 1) { Shard.OnCommitAwaited(); }
    }

    /// <summary>Whether a commit should be told to the loop at once.</summary>
    public bool AnybodyWaits => _waitingForCommit.Count > 0 || _heldOutputs.Count > 0;

    /// <summary>More is committed than before.</summary>
    public void OnCommitted()
    {
        ReleaseOutputs();
        for (int i = _waitingForCommit.Count - 1; i >= 0; i--)
        {
            if (_waitingForCommit[i].CheckCommit(Now))
            {
                _waitingForCommit[i] = _waitingForCommit[^1];
                _waitingForCommit.RemoveAt(_waitingForCommit.Count - 1);
            }
        }
    }

    private void ExpireWaits()
    {
        if (AnybodyWaits) { OnCommitted(); }
    }
}
