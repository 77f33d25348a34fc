// The way back of a shard whose store is alive: only what was written above the branch is put back, in the order of the product's
// LogShard.Rollback. The store's history goes on, and so do the log's offsets: the stretch from the branch to where the store stands
// there again is filled with what does nothing. Until the end a note says that the store is on its way: a start that finds it
// restores everything.
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    // It has all that the log has, and whatever it has beyond that comes in its stream.
    private bool MayRollBackInPlace()
    {
        if (!Cluster.RollsBackInPlace) return false;
        Store store = _host.Store;
        bool isOnHistory = MayTouchStore() && store.HistoryId == _host.Log.HistoryId && store.History.Count >= _host.Log.End;
        return isOnHistory && !store.HasGap && _host.NotedHistory != store.HistoryId && !Cluster.Dice(3);
    }

    private bool MayTouchStore() => _host.Store.IsUp && _host.Store.Admits(Epoch) && _host.Log.Admits(Epoch);

    private IEnumerable<bool> RollBackInPlace(Boundary start, Action done)
    {
        Store store = _host.Store;
        ShardLog log = _host.Log;
        int branch = (int)start.Offset, historyId = store.HistoryId;
        // What clients sent before is executed by now, or never.
        if (!Is(SimMutation.ClientsNotShutOut)) store.KillAll();
        yield return true;
        int read = store.History.Count;
        HashSet<int> touched = [.. store.History.Skip(branch).Where(c => c.Key >= 0).Select(c => c.Key)];
        if (!MayTouchStore() || store.HistoryId != historyId) yield break;
        // Before anything changes.
        if (!Is(SimMutation.StoreNotNoted)) _host.NotedHistory = historyId;
        log.BeginWorldLine(start, historyId);
        yield return true;
        while (touched.Count > 0 || !store.Line.Equals(start.WorldLine))
        {
            // Whoever comes back to a store that another has taken meanwhile leaves it alone.
            if (!MayTouchStore() || store.HistoryId != historyId) yield break;
            if (Cluster.Dice(3)) store.Expire(Cluster.Random.Next(Cluster.Keys.Count));
            int before = store.History.Count;
            store.PutBack(branch, touched.Select(k => new KeyWrite(k, log.ValueAt(k, branch))), start.WorldLine);
            yield return true;
            if (!MayTouchStore() || store.HistoryId != historyId) yield break;
            // The transaction is found in the stream: what others have written before it was not known when it was made.
            touched = Is(SimMutation.OnePassOnly) ? []
                : [.. store.History.Take(before).Skip(read).Where(c => c.Key >= 0).Select(c => c.Key)];
            read = store.History.Count;
        }

        Cluster.Checks.OnRolledBack(_host, start);
        Cluster.Count("rolled back in place");
        yield return true;
        if (!MayTouchStore() || store.HistoryId != historyId) yield break;
        log.AppendFiller(store.History.Count);
        yield return true;
        if (!MayTouchStore() || store.HistoryId != historyId) yield break;
        _host.NotedHistory = 0;
        done();
    }
}
