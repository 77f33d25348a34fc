// Takes back what lies above a branch in a store that is alive: in place, so that only the keys written since are touched and clients
// wait for milliseconds. Where that is not possible, or does not work, everything is restored (LogShard.Recovery).
//
// The offsets of Redis's stream go on, and so do the log's: in the log the stretch from the branch to where Redis stands there again is
// filled with something that does nothing. So what was abandoned is in no log, nor is what undid it, and a checkpoint from
// below the branch with the log on top of it is what Redis holds.
//
// The order of the steps is Core's (RollbackInPlace), which says also what a crash at each of them leaves; those in Redis are
// RedisRollback's. Here are those in the log, and the note in the data directory that says that Redis is on its way.
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

    private bool IsOnHistory(RedisFacts facts) =>
        RollbackChoice.IsOnHistory(facts.IsMaster && facts.ReplicationId == OwnReplicationId, facts.Offset, _log.EndOffset);

    private async Task<(bool IsDone, string How, int Keys)> TryInPlaceAsync(RedisFacts facts, Boundary start, CancellationToken stop)
    {
        var ready = _indexes.Borrow(start.Offset);
        RollbackBudget? budget = ready is { } found ? BudgetOf(found.Checkpoint, start) : null;
        string? whyNot = RollbackChoice.WhyNot(new RollbackFacts
        {
            IsWanted = _options.Rollback != RollbackMethod.Full,
            IsOnHistory = IsOnHistory(facts),
            IsNoted = IsNoted(facts),
            IsUnlogged = _unlogged.MayLieAboveCut,
            IsIndexed = ready is not null,
            HasGap = ready is { } from && _log.HasGap(from.Checkpoint.Offset, _log.EndOffset),
            Budget = budget,
        });
        if (whyNot is not null) { return (false, whyNot, 0); }
        (Checkpoint checkpoint, CheckpointIndex index) = ready!.Value;
        _indexes.ReadTo(start.Offset);
        var request = new RollbackRequest
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
            Limits = new RollbackLimits { KeysMax = budget!.Value.Keys, CommandsMax = budget.Value.Commands },
        };
        var rollback = new RollbackInPlace(new(start.Offset, start.Database));
        await using var redis = new RedisRollback(request);
        await PerformAsync(rollback, redis, facts, start, stop).ConfigureAwait(false);
        return rollback.IsDone ? (true, $"{redis.Commands} commands; ms: {redis.Times}", redis.Keys)
            : (false, rollback.Reason ?? "it was not done", 0);
    }

    private RollbackBudget? BudgetOf(Checkpoint checkpoint, Boundary start)
    {
        long tail = start.Offset - checkpoint.Offset;
        long unread = Math.Max(0, start.Offset - Math.Max(checkpoint.Offset, _indexes.Tail.Position));
        return RollbackChoice.BudgetFor(RollbackChoice.FullUs(checkpoint.Bytes, tail), unread);
    }

    private async Task PerformAsync(RollbackInPlace rollback, RedisRollback redis, RedisFacts facts, Boundary start, CancellationToken stop)
    {
        Task branch = Task.CompletedTask;
        ReplicationLink? link = null;
        AttachResult.Continued? attached = null;
        try
        {
            while (rollback.Next(out RollbackStep step))
            {
                switch (step.Kind)
                {
                    case RollbackStepKind.NoteStore:
                        FailPoint.Pass(FailPoint.RollbackPlanned);
                        branch = Behind(branch, () => NoteStore(facts));
                        break;
                    case RollbackStepKind.BeginWorldLine:
                        branch = Behind(branch, () => BeginWorldLine(start, facts.ReplicationId));
                        break;
                    case RollbackStepKind.AwaitBranch:
                        await branch.ConfigureAwait(false);
                        break;
                    case RollbackStepKind.GiveExpiriesBack:
                        FailPoint.Pass(FailPoint.RollbackApplied);
                        await redis.PerformAsync(step, rollback, stop).ConfigureAwait(false);
                        break;
                    case RollbackStepKind.Attach:
                        FailPoint.Pass(FailPoint.RolledBack);
                        link = NewLink();
                        AttachResult result = await AttachAsync(link, facts.ReplicationId, step.At, stop).ConfigureAwait(false);
                        attached = result as AttachResult.Continued;
                        if (result is AttachResult.Failed failed) { rollback.Failed(failed.Message); }
                        else { FailPoint.Pass(FailPoint.Attached); }
                        break;
                    case RollbackStepKind.FillLog:
                        lock (_logLock)
                        {
                            foreach (ReadOnlyMemory<byte> piece in Filler.Stretch(step.At.Offset - start.Offset, step.At.Database))
                            {
                                _log.Append(piece.Span);
                            }
                        }
                        break;
                    case RollbackStepKind.SetIdentity:
                        lock (_logLock)
                        {
                            _log.SetReplicationId(attached!.ReplicationId);
                            _log.Sync();
                        }
                        FailPoint.Pass(FailPoint.IdentityWritten);
                        break;
                    case RollbackStepKind.ForgetNote:
                        ForgetStore();
                        break;
                    case RollbackStepKind.Follow:
                        GoOn(link!, start, attached!.Offset);
                        link = null;
                        break;
                    default:
                        await redis.PerformAsync(step, rollback, stop).ConfigureAwait(false);
                        break;
                }
            }
        }
        finally
        {
            link?.Dispose();
            await branch.ConfigureAwait(false);
        }

        static async Task Behind(Task before, Action step)
        {
            await before.ConfigureAwait(false);
            await Task.Run(step, CancellationToken.None).ConfigureAwait(false);
        }
    }

    private static Task<AttachResult> AttachAsync(ReplicationLink link, string replicationId, RollbackPlace at, CancellationToken stop) =>
        link.AttachAsync(
            new AttachRequest
            {
                ReplicationId = replicationId, Position = new StreamScanner(at.Offset, at.Database), OnFull = OnFullSync.Refuse,
            }, stop);

    // ---- A store on its way to a branch ----

    private string StoreNote => Path.Combine(_options.DataDirectory, "store-on-its-way");

    // The store with this identity is neither continued nor taken for somebody else's: it is to be restored.
    private void NoteStore(RedisFacts facts) => DurableFile.Write(_files, StoreNote, Encoding.ASCII.GetBytes(facts.ReplicationId));

    // Also if its identity has changed since: it goes on under another one then.
    private bool IsNoted(RedisFacts facts) => IsNotedIn(StoreNote, facts);

    private bool IsNotedIn(string path, RedisFacts facts) =>
        DurableFile.Read(_files, path, mayReturn: true) is { } note && Encoding.ASCII.GetString(note) is { } noted
        && (noted == facts.ReplicationId || noted == facts.SecondReplicationId);

    // Not synced: a note that a crash brings back costs a restore.
    private void ForgetStore() => _files.Delete(StoreNote);
}
