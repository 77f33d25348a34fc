// What goes wrong in the model, and how the shard recovers: through RecoveryPlan, as in the product.
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Model;

internal sealed partial class ShardWorld
{
    /// <summary>The shared connection dies; what Redis has of it already may still be executed, at any later time.</summary>
    private void SharedConnectionDies()
    {
        Count("shared connection died");
        _store.Zombies.Add(_shared);
        _shared = new();
        LoseMarker();
        foreach (ModelSession s in _sessions)
            if (s.Own is null) s.UpstreamLost();
    }

    private void LoseMarker()
    {
        if (!_awaitingAnswer) return;
        _awaitingAnswer = false;
        Marker lost = _marker;
        Do(e => _machine.MarkerLost(lost, e));
    }

    /// <summary>The backlog overflowed: the log goes on from a checkpoint of the same history.</summary>
    private void StreamGap()
    {
        if (Bgsave || _machine.Mode != ShardMode.Running || _streamed == _store.History.Count) return;
        Count("stream gap");
        _streamed = _store.History.Count;
        _log.AppendBytes(_streamed);
        _machine.StreamRestarted(_streamed);
        _awaitingAnswer = false;
        _busy = true;
    }

    /// <summary>All connections to Redis break and come back: it had not died.</summary>
    private void StoreUnreachableForAWhile()
    {
        if (_machine.Mode != ShardMode.Running) return;
        Count("store unreachable");
        _machine.StoreLost();
        _store.Zombies.Add(_shared);
        _shared = new();
        _awaitingAnswer = false;
        foreach (ModelSession s in _sessions)
        {
            s.UpstreamLost();
            if (s.Own is null) continue;
            _store.Zombies.Add(s.Own);
            s.Own = new();
        }

        for (int n = _random.Next(6); n > 0; n--)
        {
            ExecuteSome();
            MetadataSome();
            SyncSome();
        }

        _machine.Attached(_log.End, _store.History.Count);
    }

    /// <summary>Redis is killed: all it had not sent is lost.</summary>
    private void StoreDies()
    {
        Count("store died");
        if (_random.Next(2) == 0) StreamSome();
        if (_random.Next(2) == 0) Loop();
        _machine.StoreLost();
        _awaitingAnswer = false;
        _durableNotes.Add(_log.Sync(_log.Appended));
        for (int n = _random.Next(4); n > 0; n--)
        {
            MetadataSome();
            SyncSome();
        }

        // A cluster's cut may be below what this shard has durable, never below what is recorded.
        List<Boundary> possible = _log.Boundaries.FindAll(b => b.Version >= _metadata.Recorded.Version);
        Boundary branch = _random.Next(2) == 0 ? possible[^1] : possible[_random.Next(possible.Count)];
        WorldLine next = _metadata.Recorded.WorldLine.Next;
        _metadata.BeginWorldLine(next, branch.Version);
        if (_random.Next(10) == 0)
        {
            // And the proxy dies between the metadata and the log.
            ProxyStartsAgain(StoreSituation.Empty);
            return;
        }

        branch = branch with { WorldLine = next };
        _log.BeginWorldLine(branch);
        foreach (ModelSession s in _sessions) s.RollBack(next, branch, exact: _settings.Entries > 64);
        Restore(branch.Offset);
        Do(e => _machine.WorldLineStarted(next, branch, e));
        if (_random.Next(4) == 0) Do(e => _machine.WorldLineStarted(next, branch, e));
        _shared = new();
        foreach (ModelSession s in _sessions)
            if (s.Own is not null) s.Own = new();
        if (_random.Next(3) == 0) _store.WriteOfSomebodyElse(); // keys that expired meanwhile
        _machine.Attached(_log.End, _store.History.Count);
    }

    /// <summary>The proxy is killed: its connections live on as zombies, its clients are gone, the page cache stays.</summary>
    private void ProxyDies()
    {
        Count("proxy died");
        _store.Zombies.Add(_shared);
        foreach (ModelSession s in _sessions)
            if (s.Own is { } own) _store.Zombies.Add(own);
        if (_random.Next(2) == 0) ExecuteSome();
        ProxyStartsAgain(_random.Next(10) switch
        {
            < 2 => StoreSituation.Empty,
            < 4 => StoreSituation.BehindKnownOrigin,
            < 5 => StoreSituation.AheadWithGap,
            _ => StoreSituation.Continues,
        });
    }

    /// <summary>SIGTERM: nothing more is forwarded, all that was answered is committed, then the store is stopped too.</summary>
    private void OrderedEnd()
    {
        if (_machine.Mode != ShardMode.Running) return;
        Count("ordered end");
        _store.Busy = _metadata.Down = false;
        _idle = false;
        for (int n = _random.Next(6); n > 0; n--) Loop();
        _machine.Stopping();
        for (int i = 0; !_stopped; i++)
        {
            if (i == 10_000) throw new ModelException($"I8: the ordered end is not reached: {_machine.StatusAt(Now)}");
            switch (_random.Next(10))
            {
                case 0: Loop(); break;
                case < 3: ExecuteSome(); break;
                case < 5: StreamSome(); break;
                case < 7: SyncSome(); break;
                default: MetadataSome(); break;
            }
        }

        _stopped = false;
        List<ModelOp> answered = _sessions.SelectMany(s => s.AnsweredOps()).ToList();
        ProxyStartsAgain(StoreSituation.Empty);
        if (answered.Find(op => op.Position < 0) is { } lost)
            throw new ModelException(
                $"I2: session {lost.Session}, operation {lost.Sequence} ({(lost.OpenEnded ? "two bounds" : "exact")}) was answered before "
                    + "an ordered end and is lost");
    }

    /// <summary>Everything dies at once, and the disk keeps only what was synced, and some of the rest.</summary>
    private void PowerCut()
    {
        Count("power cut");
        _log.PowerCut(_random);
        ProxyStartsAgain(StoreSituation.Empty);
    }

    private void ProxyStartsAgain(StoreSituation situation)
    {
        // A request on its way to the metadata may still arrive.
        if (_recordPending is { } pending && _random.Next(2) == 0) _metadata.Record(pending);
        _recordPending = null;
        _recordAnswer = null;
        _durableNotes.Clear();
        _readBefore.Clear();
        _syncRequested = 0;
        _log.Sync(_log.Appended);
        if (_random.Next(4) == 0) _nowUs -= _random.Next(0, 20) * IntervalUs; // the clock was set back
        _nowUs = Math.Max(_nowUs, 1_000_500);

        VersionNumber lastValid = WorldLineBranches.LastValid(_log.Last.WorldLine, _metadata.Branches);
        RecoveryDecision decision = RecoveryPlan.Decide(new()
        {
            Shard = default,
            Log = new LogEvidence(_log.Last),
            Recorded = _metadata.Recorded,
            LastBelowBranch = _log.Last.WorldLine < _metadata.Recorded.WorldLine ? _log.AtOrBelow(lastValid) : null,
            Situation = situation,
            Supervised = true,
        });
        Count(decision.GetType().Name);
        switch (decision)
        {
            case RecoveryDecision.Continue:
                break;
            case RecoveryDecision.GapCheckpoint:
                _log.AppendBytes(_store.History.Count);
                break;
            case RecoveryDecision.RestoreFromLog restore:
                if (restore.Begins) _metadata.BeginWorldLine(restore.WorldLine, restore.Last.Version);
                _log.BeginWorldLine(restore.Last with { WorldLine = restore.WorldLine });
                Restore(restore.Last.Offset, inPlace: situation == StoreSituation.BehindKnownOrigin);
                break;
            default:
                throw new ModelException($"I2: recovery impossible: {decision}");
        }

        _streamed = _log.End;
        _busy = false;
        _machine = NewMachine();
        Connect();
    }

    private void Restore(long offset, bool inPlace = false)
    {
        _store.RestoreTo(offset, inPlace);
        if (inPlace)
            foreach (ModelConnection zombie in _store.Zombies)
                for (int n = _random.Next(4); n > 0; n--) _store.Execute(zombie, unblock: true);
        _streamed = offset;
        foreach (ModelOp op in _everCommitted)
            if (op.Position < 0) throw new ModelException($"I2: session {op.Session}, operation {op.Sequence} was committed and is lost");
    }
}
