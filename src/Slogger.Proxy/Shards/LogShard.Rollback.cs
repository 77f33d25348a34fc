// Takes back what lies above a branch in a store that is alive: in place, so that only the keys written since are touched and clients
// wait for milliseconds. Where that is not possible, or does not work, everything is restored (LogShard.Recovery).
//
// The offsets of Redis's stream go on, and so do the log's: in the log the stretch from the branch to where Redis stands there again is
// filled with something that does nothing. So what was abandoned is in no log, nor is what undid it, and a checkpoint from
// below the branch with the log on top of it is what Redis holds.
//
// What a crash leaves: a note in the data directory says until the last step that Redis is on its way, and then the next start restores
// everything.
using System.Diagnostics;
using System.Text;
using Slogger.Core.Recovery;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;
using Slogger.Redis.Rollback;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard
{
    private RollbackIndexes _indexes = null!;
    private long _rollbacksInPlace;
    private long _rollbacksFull;
    private long _rollbackKeys;
    private long _rollbackMilliseconds;

    private IEnumerable<(string, long)> RollbackStatus()
    {
        yield return ("rollback_ready", _indexes.IsReady ? 1 : 0);
        yield return ("rollbacks_in_place", Volatile.Read(ref _rollbacksInPlace));
        yield return ("rollbacks_full", Volatile.Read(ref _rollbacksFull));
        yield return ("rollback_last_keys", Volatile.Read(ref _rollbackKeys));
        yield return ("rollback_last_ms", Volatile.Read(ref _rollbackMilliseconds));
    }

    // True if it is done: the store is at the branch, and followed.
    private async Task<bool> RollBackAsync(Boundary start, CancellationToken stop)
    {
        if (_facts is not { } facts || !IsOnHistory(facts)) { return false; }
        long began = Stopwatch.GetTimestamp();
        (bool isDone, string how, int keys) = (false, "", 0);
        try
        {
            (isDone, how, keys) = await TryInPlaceAsync(facts, start, stop).ConfigureAwait(false);
        }
        catch (Exception e) when (e is LogHistoryChangedException or ArgumentOutOfRangeException)
        {
            // The log was trimmed, or has a gap, where an index was just beginning.
            how = e.Message;
        }
        finally
        {
            _indexes.Return();
        }
        long milliseconds = (long)Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        Volatile.Write(ref _rollbackKeys, keys);
        Volatile.Write(ref _rollbackMilliseconds, milliseconds);
        if (isDone) { Interlocked.Increment(ref _rollbacksInPlace); }
        else { Interlocked.Increment(ref _rollbacksFull); }
        _report.Info(isDone
            ? $"shard {_options.Shard}: rolled back in place: {keys} keys in {milliseconds} ms ({how})"
            : $"shard {_options.Shard}: the whole store is restored, since a rollback in place is not possible: {how} ({milliseconds} ms)");
        return isDone;
    }

    // Whether a store that is alive has all that the log has, and whatever it has beyond that comes in its stream.
    private bool IsOnHistory(RedisFacts facts) => facts.IsMaster && facts.ReplicationId == _log.ReplicationId && facts.Offset >= _log.EndOffset;

    private async Task<(bool IsDone, string How, int Keys)> TryInPlaceAsync(RedisFacts facts, Boundary start, CancellationToken stop)
    {
        if (_options.Rollback == RollbackMethod.Full) { return (false, "--rollback full", 0); }
        if (_unlogged.MayLieAboveCut) { return (false, "data was changed past the log, and no checkpoint that is committed holds that yet", 0); }
        if (_indexes.Borrow(start.Offset) is not ({ } checkpoint, { } index)) { return (false, "there is no index of a checkpoint yet", 0); }
        if (_log.HasGap(checkpoint.Offset, _log.EndOffset)) { return (false, "part of the stream was not read, since Redis's backlog did not reach back", 0); }
        if (BudgetOf(checkpoint, start) is not { } budget) { return (false, "too much of the log has not been read yet", 0); }
        _indexes.ReadTo(start.Offset);
        RollbackOutcome outcome = await InPlaceRollback.RunAsync(
            new RollbackRequest
            {
                Endpoint = _fence.Endpoint,
                ReplicationId = facts.ReplicationId,
                OpenHistory = () => new LogHistory(_log),
                LogEnd = _log.EndOffset,
                BranchOffset = start.Offset,
                BranchDatabase = start.Database,
                Index = index,
                BaseOffset = checkpoint.Offset,
                Tail = _indexes.Tail,
                Limits = new RollbackLimits { KeysMax = budget.Keys, CommandsMax = budget.Commands },
                Planned = () =>
                {
                    FailPoint.Pass(FailPoint.RollbackPlanned);
                    return Task.Run(
                        () =>
                        {
                            NoteStore(facts);
                            BeginWorldLine(start, facts.ReplicationId);
                        }, CancellationToken.None);
                },
                Applied = () => FailPoint.Pass(FailPoint.RollbackApplied),
            }, stop).ConfigureAwait(false);
        if (outcome is not RollbackOutcome.Done done) { return (false, ((RollbackOutcome.NotPossible)outcome).Reason, 0); }
        FailPoint.Pass(FailPoint.RolledBack);
        string? reason = await AttachBehindAsync(facts, start, done, stop).ConfigureAwait(false);
        return (reason is null, reason ?? $"{done.Commands} commands; ms: {done.Times}", done.Keys);
    }

    private RollbackBudget? BudgetOf(Checkpoint checkpoint, Boundary start)
    {
        long tail = start.Offset - checkpoint.Offset;
        long unread = Math.Max(0, start.Offset - Math.Max(checkpoint.Offset, _indexes.Tail.Position));
        return RollbackChoice.BudgetFor(RollbackChoice.FullUs(checkpoint.Bytes, tail), unread);
    }

    // The history goes on where the store stands at the branch again. Null if it does.
    private async Task<string?> AttachBehindAsync(RedisFacts facts, Boundary start, RollbackOutcome.Done done, CancellationToken stop)
    {
        ReplicationLink link = NewLink();
        AttachResult attached = await link.AttachAsync(
            new AttachRequest { ReplicationId = facts.ReplicationId, Position = new StreamScanner(done.Offset, done.Database), OnFull = OnFullSync.Refuse }, stop).ConfigureAwait(false);
        if (attached is not AttachResult.Continued continued)
        {
            link.Dispose();
            return ((AttachResult.Failed)attached).Message;
        }
        FailPoint.Pass(FailPoint.Attached);
        lock (_logLock)
        {
            foreach (ReadOnlyMemory<byte> piece in Filler.Stretch(done.Offset - start.Offset, done.Database)) { _log.Append(piece.Span); }
            _log.SetReplicationId(continued.ReplicationId);
            _log.Sync();
        }
        FailPoint.Pass(FailPoint.IdentityWritten);
        GoOn(link, start, continued.Offset);
        return null;
    }

    // ---- A store on its way to a branch ----

    private string StoreNote => Path.Combine(_options.DataDirectory, "store-on-its-way");

    // The store with this identity is neither continued nor taken for somebody else's: it is to be restored.
    private void NoteStore(RedisFacts facts) => DurableFile.Write(_files, StoreNote, Encoding.ASCII.GetBytes(facts.ReplicationId));

    private bool IsNoted(RedisFacts facts) => DurableFile.Read(_files, StoreNote) is { } noted && Encoding.ASCII.GetString(noted) == facts.ReplicationId;

    // Not synced: a note that a crash brings back costs a restore.
    private void ForgetStore() => _files.Delete(StoreNote);
}
