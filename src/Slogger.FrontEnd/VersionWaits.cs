// Clients that wait for versions: for the commit of one, or for one in which their next batch may be executed.
namespace Slogger.FrontEnd;

/// <summary>Clients that wait for versions. The loop's thread.</summary>
internal sealed class VersionWaits(FrontEndLoop loop)
{
    private readonly List<Client> _forCommit = [];
    private readonly List<Client> _heldOutputs = [];
    private readonly List<Client> _heldBatches = [];
    private long _awaitedVersion;

    /// <summary>Up to here somebody has waited for versions to be committed. Any thread.</summary>
    public long AwaitedVersion => Volatile.Read(ref _awaitedVersion);

    /// <summary>Whether a commit, or that the backup holds it, should be told to the loop at once.</summary>
    public bool AnybodyWaits => _forCommit.Count > 0 || _heldOutputs.Count > 0;

    /// <summary>A client waits until a version is committed (and, maybe, the backup holds it), or a backup has come to it, or its time is
    /// over.</summary>
    public void WaitForCommit(Client client, long version)
    {
        _forCommit.Add(client);
        Await(version);
    }

    /// <summary>What a client is to be told waits for the commit of a version.</summary>
    public void HoldOutput(Client client, long version)
    {
        _heldOutputs.Add(client);
        Await(version);
    }

    /// <summary>A client waits until its batch can be let through, or refused.</summary>
    public void HoldBatch(Client client) => _heldBatches.Add(client);

    /// <summary>Whether a batch is held.</summary>
    public bool HoldsBatches => _heldBatches.Count > 0;

    /// <summary>Lets batches go on whose version is open. Called once in each turn: there are few, and a turn comes at the latest with
    /// the next
    /// housekeeping.</summary>
    public void CheckBatches() => _heldBatches.RemoveAll(static client => client.IsBatchReleased());

    /// <summary>More is committed than before.</summary>
    public void OnCommitted()
    {
        _heldOutputs.RemoveAll(static client => client.IsOutputReleased());
        for (int i = _forCommit.Count - 1; i >= 0; i--)
        {
            if (_forCommit[i].Commits.Check(loop.Now))
            {
                _forCommit[i] = _forCommit[^1];
                _forCommit.RemoveAt(_forCommit.Count - 1);
            }
        }
    }

    /// <summary>Ends waits whose time is over.</summary>
    public void Expire()
    {
        if (AnybodyWaits) { OnCommitted(); }
    }

    private void Await(long version)
    {
        // What has not been executed yet has no version: nothing comes of hurrying.
        if (version == long.MaxValue || version <= _awaitedVersion) { return; }
        Volatile.Write(ref _awaitedVersion, version);
        loop.Shard.OnCommitAwaited();
    }
}
