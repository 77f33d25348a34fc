// How far a session is committed, waiting for it, and what a rollback means: the machine says what survived; callers are told, all of them,
// before anything goes on.
using System.Diagnostics;
using System.Runtime.CompilerServices;
using Slogger.Client.Wire;
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

public sealed partial class SloggerSession
{
    /// <summary>Every operation up to here is committed: it survives the loss of every process. Less <see cref="Exceptions"/>.
    /// It moves while the session works, waits, or is listened to. It never goes back.</summary>
    public SequenceNumber CommittedUpTo
    {
        get
        {
            lock (_gate)
            {
                _local.Settle();
                return _machine.Committed;
            }
        }
    }

    /// <summary>Operations that are not committed although <see cref="CommittedUpTo"/> is past them: those that were reported lost
    /// or uncertain (the last 256 ranges), and those that are still open.</summary>
    public IReadOnlyList<ExceptionRange> Exceptions
    {
        get
        {
            var exceptions = new List<ExceptionRange>();
            lock (_gate)
            {
                _local.Settle();
                _machine.CopyExceptions(exceptions);
            }

            return exceptions;
        }
    }

    /// <summary>Waits until every operation that was started before is committed, or has failed: whoever awaited it was told.</summary>
    /// <exception cref="RollbackException">The session was rolled back.</exception>
    public Task WaitForCommitAsync(CancellationToken cancellation = default)
    {
        CommitWaiter? waiter;
        lock (_gate)
        {
            if (_closed is { } why) { return Task.FromException(why); }
            _local.Settle();
            waiter = _commits.WaitForAll();
        }

        return waiter is null ? Task.CompletedTask : WaitAsync(waiter, cancellation);
    }

    /// <summary>Waits until every operation up to this number is committed, or has failed.</summary>
    /// <param name="upTo">The number of an operation that was sent, as of a <see cref="Result{T}"/>.</param>
    /// <param name="cancellation">Ends the wait.</param>
    /// <exception cref="RollbackException">The session was rolled back.</exception>
    /// <exception cref="ArgumentOutOfRangeException">No operation has this number yet.</exception>
    public Task WaitForCommitAsync(SequenceNumber upTo, CancellationToken cancellation = default)
    {
        CommitWaiter? waiter;
        lock (_gate)
        {
            if (_closed is { } why) { return Task.FromException(why); }
            _local.Settle();
            ArgumentOutOfRangeException.ThrowIfGreaterThan(upTo.Number, _machine.Begun.Number, nameof(upTo));
            waiter = _commits.WaitFor(upTo);
        }

        return waiter is null ? Task.CompletedTask : WaitAsync(waiter, cancellation);
    }

    /// <summary>The committed prefix as it grows: its present end, then each later one (steps may be left out when they come faster than
    /// they are taken).</summary>
    /// <exception cref="RollbackException">The session was rolled back: resume it, and enumerate again.</exception>
    public async IAsyncEnumerable<CommitProgress> CommitsAsync([EnumeratorCancellation] CancellationToken cancellation = default)
    {
        lock (_gate) { _commits.Listen(); }
        try
        {
            _client.Watch.Signal();
            CommitProgress? last = null;
            while (true)
            {
                Task advanced;
                CommitProgress now;
                lock (_gate)
                {
                    if (_closed is { } why) { throw why; }
                    _local.Settle();
                    advanced = _commits.Advanced;
                    now = new(_machine.Committed, _machine.WorldLine);
                }

                if (now != last)
                {
                    last = now;
                    yield return now;
                    continue;
                }

                await advanced.WaitAsync(cancellation).ConfigureAwait(false);
            }
        }
        finally
        {
            lock (_gate) { _commits.EndListen(); }
        }
    }

    /// <summary>The version that somebody waits for to be committed; null: nobody does, or what is waited for is no commit.</summary>
    internal VersionNumber? CommitNeed()
    {
        lock (_gate)
        {
            _local.Settle();
            bool isWanted = _commits.IsWanted || _lanes.IsBlocked;
            return isWanted && _machine.Uncommitted is { } version && version > VersionNumber.Zero ? version : null;
        }
    }

    /// <summary>Every shard is committed at least up to here.</summary>
    internal void OnCommitted(WorldPoint uniform) => OnCommitted(uniform, null);

    /// <summary>So much is committed at each shard.</summary>
    internal void OnCommitted(Cut cut) => OnCommitted(default, cut);

    private void OnCommitted(WorldPoint uniform, Cut? byShard)
    {
        PendingFlush flush;
        lock (_gate)
        {
            _local.Settle();
            SequenceNumber before = _machine.Committed;
            SequenceNumber now = byShard is null ? _machine.OnCommitted(uniform)
                : _machine.OnCommitted(byShard.WorldLine, byShard.Versions);
            if (now == before && !_commits.Any && !_lanes.IsBlocked) { return; }
            _lanes.PumpBlocked();
            _commits.Check();
            if (_machine.Committed > before) { _commits.Grown(); }
            flush = _lanes.TakeFlush();
        }

        flush.Run();
    }

    private async Task WaitAsync(CommitWaiter waiter, CancellationToken cancellation)
    {
        long began = Stopwatch.GetTimestamp();
        using Activity? activity = Telemetry.Activities.StartActivity("slogger.commit.wait");
        _client.Watch.Signal();
        try
        {
            await waiter.Done.Task.WaitAsync(cancellation).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            lock (_gate) { _commits.Remove(waiter); }
            throw;
        }
        finally
        {
            Telemetry.CommitWait.Record(Stopwatch.GetElapsedTime(began).TotalMilliseconds);
        }
    }

    /// <summary>The rollback that has not been taken in; null: none. While there is one, every call fails with it.</summary>
    public RollbackException? Rollback
    {
        get { lock (_gate) { return _closed as RollbackException; } }
    }

    /// <summary>Says that the application has taken a rollback in: the session goes on, in the new world-line.</summary>
    /// <param name="rollback">The one that it has taken in. Does nothing if the session is not held up by it (any more): so that each of
    /// several threads may call it.</param>
    public void Resume(RollbackException rollback)
    {
        ArgumentNullException.ThrowIfNull(rollback);
        lock (_gate)
        {
            if (_closed is RollbackException current && current.Rollback == rollback.Rollback)
            {
                _closed = null;
                GoOnLocally();
            }
        }
    }

    /// <summary>The world-line is over. A session that has lost nothing goes on as if nothing had happened.</summary>
    internal void OnRollback(Branch branch)
    {
        lock (_gate)
        {
            // From here on nothing more is executed in the old world-line.
            _local.GoOn(null);
            _local.Settle();
            if (branch.Tell(_machine) is not { } rollback)
            {
                GoOnLocally();
                return;
            }

            if (rollback.Lost.IsEmpty && rollback.Uncertain.IsEmpty && rollback.Exceptions.IsEmpty)
            {
                GoOnLocally();
                _commits.Check();
                return;
            }

            if (_closed is not null) { return; }
            int unsent = _turns.Waiting + _lanes.Unsent;
            Close(new RollbackException(Id, rollback, unsent, SequenceNumber.None), of => new RollbackException(Id, rollback, unsent, of));
            Telemetry.Rollbacks.Add(1);
        }
    }
}
