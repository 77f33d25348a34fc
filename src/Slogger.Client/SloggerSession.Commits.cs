// How far a session is committed, and waiting for it.
using System.Diagnostics;
using System.Runtime.CompilerServices;
using Slogger.Core.Cuts;
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Client;

public sealed partial class SloggerSession
{
    private readonly List<Generation> _earlier = [];   // that were outstanding when a wait began, the oldest first
    private readonly List<Waiter> _waiters = [];
    private readonly List<ExceptionRange> _exceptions = [];
    private Generation _generation = new();
    private int _subscribers;
    private TaskCompletionSource _advanced = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Somebody who waits for commit.</summary>
    /// <param name="Generations">Whose operations all have to end first; null if only the number counts.</param>
    /// <param name="Upto">The number.</param>
    private sealed record Waiter(Generation[]? Generations, Sequence Upto)
    {
        public TaskCompletionSource Done { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    /// <summary>Every operation up to here is committed: it survives the loss of every process. Less <see cref="Exceptions"/>.
    /// It moves while the session works, waits, or is listened to. It never goes back.</summary>
    public Sequence CommittedUpTo
    {
        get
        {
            lock (_gate)
            {
                Settle();
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
                Settle();
                _machine.CopyExceptions(exceptions);
            }

            return exceptions;
        }
    }

    /// <summary>Waits until every operation that was started before is committed, or has failed: whoever awaited it was told.</summary>
    /// <exception cref="RollbackException">The session was rolled back.</exception>
    public Task WaitForCommitAsync(CancellationToken cancellation = default)
    {
        Waiter waiter;
        lock (_gate)
        {
            if (_closed is { } why) { return Task.FromException(why); }
            Settle();
            if (_generation.Outstanding > 0)
            {
                _earlier.Add(_generation);
                _generation = new();
            }

            waiter = new([.. _earlier], _machine.Begun);
            if (IsDone(waiter)) { return Task.CompletedTask; }
            _waiters.Add(waiter);
        }

        return WaitAsync(waiter, cancellation);
    }

    /// <summary>Waits until every operation up to this number is committed, or has failed.</summary>
    /// <param name="upTo">The number of an operation that was sent, as of a <see cref="Result{T}"/>.</param>
    /// <param name="cancellation">Ends the wait.</param>
    /// <exception cref="RollbackException">The session was rolled back.</exception>
    /// <exception cref="ArgumentOutOfRangeException">No operation has this number yet.</exception>
    public Task WaitForCommitAsync(Sequence upTo, CancellationToken cancellation = default)
    {
        Waiter waiter;
        lock (_gate)
        {
            if (_closed is { } why) { return Task.FromException(why); }
            Settle();
            ArgumentOutOfRangeException.ThrowIfGreaterThan(upTo.Number, _machine.Begun.Number, nameof(upTo));
            waiter = new(null, upTo);
            if (IsDone(waiter)) { return Task.CompletedTask; }
            _waiters.Add(waiter);
        }

        return WaitAsync(waiter, cancellation);
    }

    /// <summary>The committed prefix as it grows: its present end, then each later one (steps may be left out when they come faster than they
    /// are taken).</summary>
    /// <exception cref="RollbackException">The session was rolled back: resume it, and enumerate again.</exception>
    public async IAsyncEnumerable<CommitProgress> CommitsAsync([EnumeratorCancellation] CancellationToken cancellation = default)
    {
        lock (_gate) { _subscribers++; }
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
                    Settle();
                    advanced = _advanced.Task;
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
            lock (_gate) { _subscribers--; }
        }
    }

    /// <summary>The version that somebody waits for to be committed; null: nobody does, or what is waited for is no commit.</summary>
    internal Version? CommitNeed()
    {
        lock (_gate)
        {
            Settle();
            bool isWanted = _waiters.Count > 0 || _subscribers > 0 || _isBlocked;
            return isWanted && _machine.Uncommitted is { } version && version > Version.Zero ? version : null;
        }
    }

    /// <summary>Every shard is committed at least up to here.</summary>
    internal void OnCommitted(WorldPoint uniform) => OnCommitted(uniform, null);

    /// <summary>So much is committed at each shard.</summary>
    internal void OnCommitted(Cut cut) => OnCommitted(default, cut);

    private void OnCommitted(WorldPoint uniform, Cut? byShard)
    {
        Link? flush = null;
        List<Link>? more = null;
        lock (_gate)
        {
            Settle();
            Sequence before = _machine.Committed;
            Sequence now = byShard is null ? _machine.OnCommitted(uniform) : _machine.OnCommitted(byShard.WorldLine, byShard.Versions);
            if (now == before && _waiters.Count == 0 && !_isBlocked) { return; }
            if (_isBlocked) { PumpAll(); }
            CheckWaiters();
            if (_subscribers > 0 && _machine.Committed > before) { Advanced(); }
            flush = TakeFlush(out more);
        }

        Flush(flush, more);
    }

    private void Advanced()
    {
        _advanced.TrySetResult();
        _advanced = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    private async Task WaitAsync(Waiter waiter, CancellationToken cancellation)
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
            lock (_gate) { _waiters.Remove(waiter); }
            throw;
        }
        finally
        {
            Telemetry.CommitWait.Record(Stopwatch.GetElapsedTime(began).TotalMilliseconds);
        }
    }

    /// <summary>Lets go whose operations are committed. Called whenever something was answered, given up or committed.</summary>
    private void CheckWaiters()
    {
        while (_earlier.Count > 0 && _earlier[0].Outstanding == 0) { _earlier.RemoveAt(0); }
        if (_waiters.Count == 0 && _subscribers == 0) { return; }
        for (int i = _waiters.Count - 1; i >= 0; i--)
        {
            if (!IsDone(_waiters[i])) { continue; }
            _waiters[i].Done.TrySetResult();
            _waiters.RemoveAt(i);
        }

        // What was just answered has to be committed yet.
        if (_waiters.Count > 0 || _subscribers > 0) { _client.Watch.Signal(); }
    }

    private bool IsDone(Waiter waiter)
    {
        Sequence upTo = waiter.Upto;
        foreach (Generation generation in waiter.Generations ?? [])
        {
            if (generation.Outstanding > 0) { return false; }
            if (generation.Last > upTo) { upTo = generation.Last; }
        }

        if (_machine.Committed < upTo) { return false; }
        _machine.CopyExceptions(_exceptions);
        foreach (ExceptionRange exception in _exceptions)
        {
            if (exception.Kind == ExceptionKind.Open && exception.Range.First <= upTo) { return false; }
        }

        return true;
    }

    private void FailWaiters(Exception why)
    {
        foreach (Waiter waiter in _waiters) { waiter.Done.TrySetException(why); }
        _waiters.Clear();
        _earlier.Clear();
        _generation = new();
        Advanced();
    }
}
