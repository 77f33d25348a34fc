// Clients that wait for a commit.
namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private readonly List<Client> _waitingForCommit = [];

    private long _awaitedVersion;

    /// <summary>A client waits until a version is committed (and, maybe, the backup holds it), or a backup has come to it, or its time is over.</summary>
    public void WaitForCommit(Client client, long version)
    {
        _waitingForCommit.Add(client);
        Await(version);
    }

    /// <summary>Up to here somebody has waited for versions to be committed.</summary>
    public long AwaitedVersion => Volatile.Read(ref _awaitedVersion);

    private void Await(long version)
    {
        // What has not been executed yet has no version: nothing comes of hurrying.
        if (version == long.MaxValue || version <= _awaitedVersion) { return; }
        Volatile.Write(ref _awaitedVersion, version);
        Shard.OnCommitAwaited();
    }

    /// <summary>Whether a commit, or that the backup holds it, should be told to the loop at once.</summary>
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
