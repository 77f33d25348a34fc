// A shard that joins its cluster asks to be admitted with each version that is recorded of it: the real Joiner says when, and with what.
using Slogger.Core.Cuts;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    private bool _asksToJoin;

    private IEnumerable<bool> AskToJoin(WorldPoint recorded, WorldPoint cut)
    {
        // What is durable may move on, and then the claim that waits to be recorded is older than the one it asks with.
        yield return true;
        if (_machine is not { } machine || !_life.Joiner.MayAsk(recorded, machine.WorldLine)) yield break;
        _asksToJoin = true;
        // The newest: meanwhile the cut may have passed what was recorded.
        DurableClaim claim = machine.ClaimOf(machine.Durable);
        SqlCall admit = Ask("admit", () => Cluster.Sql.Admit(Shard, claim, Epoch));
        while (!admit.IsDone) yield return true;
        _asksToJoin = false;
        if (admit.Result is not false) _recorder.AskedToJoin(claim);
        if (_life.Joiner.Answered((bool?)admit.Result, claim.Point, cut) is { } version) machine.FastForward(version);
    }
}
