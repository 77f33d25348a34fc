// The way back of a shard whose store is alive: it performs the steps of the real RollbackInPlace, each of which may be the last of the
// process. A step may fail, and the store may be taken by another meanwhile: then everything is restored, or looked at anew.
using Slogger.Core.Recovery;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed partial class ProxyProcess
{
    private static readonly RollbackBudget Ample = new(int.MaxValue, int.MaxValue);

    private bool MayRollBackInPlace(in Boundary branch)
    {
        Store store = _host.Store;
        if (!MayTouchStore()) return false;
        string? whyNot = RollbackChoice.WhyNot(new()
        {
            IsWanted = Cluster.RollsBackInPlace && !Cluster.Dice(3),
            IsOnHistory = RollbackChoice.IsOnHistory(store.HistoryId == _host.Log.HistoryId, store.History.Count, _host.Log.End),
            IsNoted = _host.NotedHistory == store.HistoryId,
            IsUnlogged = false,
            IsIndexed = true,
            HasGap = _host.Log.HasGap(branch.Offset),
            Budget = Ample,
        }, _settings.Rollback);
        return whyNot is null;
    }

    private bool MayTouchStore() => _host.Store.IsUp && _host.Store.Admits(Epoch) && _host.Log.Admits(Epoch);

    /// <param name="start">The branch.</param>
    /// <param name="end">Told true when it is done, and false if the recovery is given up with it.</param>
    private IEnumerable<bool> RollBackInPlace(Boundary start, Action<bool> end)
    {
        Store store = _host.Store;
        ShardLog log = _host.Log;
        int branch = (int)start.Offset, historyId = store.HistoryId;
        RollbackInPlace rollback = new(new(branch, 0), _settings.Rollback);
        Queue<RollbackStepKind> beside = new();
        HashSet<int> touched = [];
        // Somebody else's writes: one now and then, or one after the other.
        int others = Cluster.Dice(24) ? 1 : 3;
        bool isGivenUp = false;
        int read = 0, before = 0, behind = 0;       // in the store's history: up to where it was read; its last transaction
        while (!IsDead && rollback.Next(out RollbackStep step))
        {
            if (Cluster.IsTraced) Cluster.Note($"{Name}: {step.Kind}");
            if (step.IsBeside)
            {
                beside.Enqueue(step.Kind);
                if (beside.Count == 1) Start(Beside());
                continue;
            }
            if (step.Kind == RollbackStepKind.FillLog)
            {
                // The disk takes its time.
                for (int n = Cluster.Random.Next(4); n > 0; n--) yield return true;
            }
            // Whoever comes back to a store that another has taken meanwhile leaves it alone.
            if (!MayDo()) rollback.Failed("the store is another one, or another's");
            else if (Cluster.Settings.Faults && Cluster.Dice(64))
            {
                // Or it is the disk that does not take something.
                isGivenUp = Cluster.Dice(2);
                rollback.Failed(isGivenUp ? "the disk refuses" : "the store does not answer");
            }
            if (rollback.Reason is not null) break;
            switch (step.Kind)
            {
                case RollbackStepKind.ShutOut:
                    store.KillAll();
                    break;
                case RollbackStepKind.ReadUndone:
                    // The log's part, and behind it the stream's, of which the store's backlog may lack some.
                    if (store.HasGap) rollback.Failed("the stream does not reach back");
                    read = store.History.Count;
                    touched = [.. KeysOf(log.Bytes.Skip(branch)), .. KeysOf(store.History.Take(read).Skip((int)log.End))];
                    break;
                case RollbackStepKind.Plan:
                    continue;
                case RollbackStepKind.PutBack:
                    if (Cluster.Dice(others)) store.Expire(Cluster.Random.Next(Cluster.Keys.Count));
                    before = store.History.Count;
                    store.PutBack(branch, touched.Select(k => new KeyWrite(k, log.ValueAt(k, branch))), start.WorldLine);
                    behind = store.History.Count;
                    break;
                case RollbackStepKind.FindTransaction:
                    touched = [.. KeysOf(store.History.Take(before).Skip(read))];
                    read = behind;
                    rollback.Found(new(behind, 0), touched.Count > 0);
                    break;
                case RollbackStepKind.AwaitBranch:
                    while (beside.Count > 0 && !IsDead) yield return true;
                    break;
                case RollbackStepKind.GiveExpiriesBack:
                    Cluster.Checks.OnRolledBack(_host, start);
                    Cluster.Count("rolled back in place");
                    if (Cluster.Dice(2)) store.GiveExpiryBack(Cluster.Random.Next(Cluster.Keys.Count));
                    break;
                case RollbackStepKind.Attach or RollbackStepKind.SetIdentity:
                    break;
                case RollbackStepKind.FillLog:
                    log.AppendFiller((int)step.At.Offset);
                    break;
                case RollbackStepKind.ForgetNote:
                    _host.NotedHistory = 0;
                    break;
                case RollbackStepKind.Follow:
                    Attach(start, start.Point, standsAt: step.At.Offset);
                    end(true);
                    continue;
                default:
                    throw new SimException($"{Name}: no step of a rollback in place: {step.Kind}");
            }

            yield return true;
        }

        if (!rollback.IsDone) Cluster.Count($"not rolled back in place: {rollback.Reason}");
        while (beside.Count > 0 && !IsDead) yield return true;
        if (isGivenUp) end(false);
        yield break;

        bool MayDo() => MayTouchStore() && store.HistoryId == historyId;

        // It takes its time, in which the steps that it is done beside may come and go.
        IEnumerable<bool> Beside()
        {
            while (beside.TryPeek(out RollbackStepKind kind))
            {
                for (int n = Cluster.Random.Next(4); n > 0; n--) yield return true;
                if (!MayDo()) rollback.Failed("the store is another one, or another's");
                else if (kind == RollbackStepKind.NoteStore) _host.NotedHistory = historyId;
                else log.BeginWorldLine(start, historyId);
                beside.Dequeue();
                yield return true;
            }
        }

        static IEnumerable<int> KeysOf(IEnumerable<Command> commands) => commands.Where(c => c.Key >= 0).Select(c => c.Key);
    }
}
