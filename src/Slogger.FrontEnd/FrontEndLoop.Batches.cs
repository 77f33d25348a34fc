// Clients whose next batch waits for a version or a world-line, or whose last one for a commit.
namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private readonly List<Client> _heldBatches = [];

    private readonly List<Client> _heldOutputs = [];

    /// <summary>What a client is to be told waits for the commit of a version.</summary>
    public void HoldOutput(Client client, long version)
    {
        _heldOutputs.Add(client);
        Await(version);
    }

    private void ReleaseOutputs() => _heldOutputs.RemoveAll(client => client.IsOutputReleased());

    /// <summary>A client waits until its batch can be let through, or refused.</summary>
    public void HoldBatch(Client client) => _heldBatches.Add(client);

    // Once in each turn, when the version that is open may be another: there are few, and a turn comes at the latest with
    // the next housekeeping.
    private void CheckHeldBatches() => _heldBatches.RemoveAll(client => client.IsBatchReleased());
}
