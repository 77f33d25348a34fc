// A shard that joins its cluster, in the order of the product's VersionedShard.Members: it begins with its empty store at a version that
// nobody can go back behind, lets nobody in, records each version at once, and asks with it to be admitted. Whatever goes wrong before
// that, it begins anew.
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    private bool _isJoining;
    private bool _asksToJoin;
    private Version? _joinsFrom;
    private bool _mayBeAdmitted;

    // Nothing is claimed for what is over while the recovery looks where the shard stands.
    private IEnumerable<bool> SuspendAdmission()
    {
        while (_asksToJoin) yield return true;
        _joinsFrom = null;
    }

    private void BeginToJoin(WorldPoint at, SqlView view)
    {
        // What was asked with what it had before may be granted yet: only a new epoch ends that.
        if (_mayBeAdmitted && !Is(SimMutation.AdmissionForgotten))
        {
            Cluster.Count("member: does not know whether it has joined");
            Die("does not know whether it has joined");
            return;
        }

        Store store = _host.Store;
        // The machine of an attempt before has closed nothing that anybody knows of.
        UpstreamLost();
        _machine = null;
        _durableNotes.Clear();
        _syncRequested = 0;
        store.BeginEmpty(at.WorldLine);
        _host.Log.Begin(new(at.WorldLine, at.Version, store.History.Count, 0, Now()), store.HistoryId);
        if (Cluster.IsTraced) Cluster.Note($"{Name} begins to join at {at}");
        Attach(_host.Log.Last, view);
        _joinsFrom = at.Version;
        Cluster.OnMember("begins to join", Shard);
    }

    private IEnumerable<bool> AskToJoin(WorldPoint recorded, WorldPoint cut)
    {
        // What is durable may move on, and then the claim that waits to be recorded is older than the one it asks with.
        yield return true;
        if (_joinsFrom is not { } from || _machine is not { } machine || machine.WorldLine != recorded.WorldLine || recorded.Version < from) yield break;
        _asksToJoin = true;
        // The newest: meanwhile the cut may have passed what was recorded.
        DurableClaim claim = machine.ClaimOf(machine.Durable);
        SqlCall admit = Ask("admit", () => Cluster.Sql.Admit(Shard, claim, Epoch));
        while (!admit.IsDone) yield return true;
        _asksToJoin = false;
        _mayBeAdmitted |= admit.Result is null;
        if (admit.Result is not false) _recorder.AskedToJoin(claim);
        if (admit.Result is true) _isJoining = false;
        else if (Members.CatchesUpAt(cut, claim.Point) is { } version && !Is(SimMutation.JoinerNotHurried)) machine.FastForward(version);
    }

    // Nobody is let in before it counts; a store that is lost meanwhile is for the recovery.
    private IEnumerable<bool> AwaitAdmission()
    {
        while (_isJoining && !_isSuspect && !IsDead) yield return true;
    }
}
