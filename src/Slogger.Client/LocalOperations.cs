// The operations of a session that its application executes by itself, on a shard in its own process: see ILocalWork.
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

/// <summary>What a session executes locally, if it does. Guarded by the session.</summary>
internal sealed class LocalOperations(ClientSession machine)
{
    private ILocalWork? _work;

    /// <summary>The session has a shard in its own process. Once, before anything is done.</summary>
    public void Join(ILocalWork work) => _work = work;

    /// <summary>From now on operations are of this world-line; null: nothing may be done any more.</summary>
    public void GoOn(WorldLine? line) => _work?.GoOn(line);

    /// <summary>Takes in what was executed. Called before the machine is told or asked anything.</summary>
    public void Settle()
    {
        if (_work is not { } work) { return; }
        foreach (LocalRun run in work.Take(out WorldLine line)) { machine.OnExecutedHere(work.Shard, line, run.Count, run.Version); }
    }

    /// <summary>What the session has seen at other shards since.</summary>
    /// <param name="learned">What <see cref="ClientSession.Learned"/> was then.</param>
    public ReadOnlyMemory<Dependency> DependenciesSince(long learned) => machine.DependenciesSince(_work!.Shard, learned);
}
