// What the shard says to the front end.

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    /// <summary>The store can be used: connects the shared upstream. Called when the shard opens, or would if it were not to end.</summary>
    /// <param name="run">Which run of the store's program it is: what its commands are has been learnt of the same one; empty: not
    /// known.</param>
    public void OpenStore(string run = "")
    {
        // Closed again meanwhile: this is called again.
        if (!MayConnect) { return; }
        IsStoreClosed = false;
        Catalog.OnStoreOpens(run);
        Directory.OnStoreOpens(run);
        Probe.OnStoreOpens();
        Carrier.OnStoreOpens();
        Replies.OnStoreOpens();
        foreach (Client client in Clients.ToArray()) { client.OnStoreSame(); }
        Probe.StartNow();
    }

    /// <summary>The store is gone: every client of the old world-line is told or closed.</summary>
    public void CloseStore(string reason)
    {
        IsStoreClosed = true;
        Probe.OnStoreCloses();
        Catalog.Forget();
        Spares.Drop(reason);
        Probe.Close(reason);
        Shared?.Close(reason);
        Carrier.Close(reason);
        Sharing.Retiring?.Close(reason);
        foreach (Upstream lingering in Upstreams.Lingering.ToArray()) { lingering.Close(reason); }
        foreach (Client client in Clients.ToArray()) { client.OnStoreLost(); }
    }

    /// <summary>A new world-line has begun, at this version: tells the clients that were kept.</summary>
    public void OnRolledBack(Core.WorldLines.WorldLine next, Core.Versions.VersionNumber branch)
    {
        CloseStore("a rollback");
        foreach (Client client in Clients.ToArray()) { client.OnRolledBack(next, branch); }
    }

    /// <summary>More is committed than before.</summary>
    public void OnCommitted() => Waits.OnCommitted();

    /// <summary>More is settled than before, or what was read may be told again (<see cref="IShardPort.MaySpeak"/>).</summary>
    public void OnSettled() => Replies.Release();

    /// <summary>See <see cref="VersionWaits.AnybodyWaits"/>.</summary>
    public bool AnybodyWaits => Waits.AnybodyWaits;

    /// <summary>See <see cref="VersionWaits.AwaitedVersion"/>. Any thread.</summary>
    public long AwaitedVersion => Waits.AwaitedVersion;

    /// <summary>See <see cref="QuietMoment.BeginAsync"/>. Any thread.</summary>
    public Task HoldAsync() => _quiet.BeginAsync();

    /// <summary>See <see cref="QuietMoment.End"/>. Any thread.</summary>
    public void LetGo() => _quiet.End();

    /// <summary>Less is held than before (<see cref="IShardPort.Hold"/>).</summary>
    public void OnHoldEnded() => Held.Release();
}
