// Commits, and what a version has changed.
using System.Diagnostics;
using FASTER.core;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Faster;

public sealed partial class FasterStore
{
    private static readonly TimeSpan s_switchMax = TimeSpan.FromSeconds(30);
    private long _lastCommitTicks;

    /// <summary>Ends the open version, and makes it durable. Operations wait for its end only, a fraction of a millisecond.</summary>
    /// <param name="line">The timeline.</param>
    /// <param name="next">The version that is open from then on: later than the open one. All before it is in the commit.</param>
    /// <param name="cancellation">Ends the wait for a commit or rollback that is under way. One that has begun is completed.</param>
    /// <returns>The commit, when it is on disk.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="next"/> is not later than the open version.</exception>
    /// <exception cref="IOException">The disk is full, or fails: the commit is not durable. The store goes on; what was to be in the commit
    /// is in the next one. That is not begun before the log can be written again, and then the failed one may be there after
    /// all.</exception>
    public async Task<CommitRecord> CommitAsync(WorldLine line, Version next, CancellationToken cancellation = default)
    {
        await TakeTurnAsync(cancellation).ConfigureAwait(false);
        return await CommitInTurnAsync(line, next).ConfigureAwait(false);
    }

    /// <summary>Ends the open version at this very place among the calling thread's operations: when this returns, <paramref name="next"/>
    /// is open. The thread holds no key's lock.</summary>
    /// <param name="line">The timeline.</param>
    /// <param name="next">The version that is open from then on: later than the open one. All before it is in the commit.</param>
    /// <param name="open">The version that is open instead, if later: those before it pass empty. Null: <paramref name="next"/>.</param>
    /// <returns>The commit, when it is on disk. Null: a commit or a rollback is under way, and nothing has been done.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="next"/> is not later than the open version.</exception>
    public Task<CommitRecord>? BeginCommit(WorldLine line, Version next, Version? open = null) =>
        !_isDisposed && _turn.Wait(0) ? CommitInTurnAsync(line, next, open) : null;

    /// <summary>Whether <see cref="BeginCommit"/> would begin one: no commit or rollback is under way.</summary>
    public bool CanBeginCommit => _turn.CurrentCount > 0;

    // Gives the turn back, whatever happens.
    private Task<CommitRecord> CommitInTurnAsync(WorldLine line, Version next, Version? open = null)
    {
        try
        {
            ArgumentOutOfRangeException.ThrowIfLessThanOrEqual(next.Number, Open.Number, nameof(next));
            if (_undo is not null)
                throw new InvalidOperationException("A rollback has begun and was not finished: the store has to go back once more, or be "
                    + "opened again.");
            if (_compactor.Failure is { } failure)
                throw new InvalidOperationException("Compaction has ended: the store cannot go on.", failure);
            CommitRecord commit = null!;
            ValueTask written = default;
            Stripes.Alone(() =>
            {
                // Nobody adds to the log meanwhile: its end is where the version ends.
                long end = _kv.Log.TailAddress;
                _device.EndAt(end);
                if (!_kv.TryInitiateHybridLogCheckpoint(out Guid token, CheckpointType.FoldOver, tryIncremental: false))
                    throw new InvalidOperationException("FASTER is taking a checkpoint that Slogger has not begun.");
                long number = _kv.CurrentVersion;
                (long keys, long live) = _counts.Sum();
                commit = new(token, number, new(line, next.Previous), _from, end)
                {
                    Since = _since, Keys = keys, LiveBytes = live, PageBits = _options.PageBits, SegmentBits = _options.SegmentBits,
                };
                written = _kv.CompleteCheckpointAsync();
                WaitFor(number + 1);
                Volatile.Write(ref _open, Version.Max(next, open ?? next).Number);
                Volatile.Write(ref _ended, commit.To);
            });
            return ReportAsync(Task.Run(() => MakeDurableAsync(commit, written)));
        }
        catch
        {
            _turn.Release();
            throw;
        }
    }

    // Commits and rollbacks take turns. At the end of the store whoever waits is told.
    private async Task TakeTurnAsync(CancellationToken cancellation)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        await _turn.WaitAsync(cancellation).ConfigureAwait(false);
        if (!_isDisposed) return;
        _turn.Release();
        throw new ObjectDisposedException(nameof(FasterStore));
    }

    // A write that fails is tried again until it succeeds: that is waited for by the next commit, not by this one.
    private async Task<CommitRecord> ReportAsync(Task<CommitRecord> durable)
    {
        Task<IOException> failed = _device.Failed;
        if (await Task.WhenAny(durable, failed).ConfigureAwait(false) == durable) return await durable.ConfigureAwait(false);
        IOException failure = await failed.ConfigureAwait(false);
        throw new IOException($"The log in {_options.Directory} cannot be written: {failure.Message} Nothing is committed until it can: "
            + "make room.", failure);
    }

    private async Task<CommitRecord> MakeDurableAsync(CommitRecord commit, ValueTask written)
    {
        try
        {
            long start = Stopwatch.GetTimestamp();
            // At the end of the device FASTER would wait for ever.
            Task checkpoint = written.AsTask();
            await (await Task.WhenAny(checkpoint, _device.Ended).ConfigureAwait(false)).ConfigureAwait(false);
            // FASTER does not wait for what became read-only before it asked.
            await _device.WrittenAsync(commit.To).ConfigureAwait(false);
            commit = _files.Write(commit, SumOf);
            _from = _since = commit.To;
            _commits.Add(commit);
            Volatile.Write(ref _lastCommitTicks, Stopwatch.GetElapsedTime(start).Ticks);
            _compactor.Wake();
            return commit;
        }
        finally
        {
            _turn.Release();
        }
    }

    // As a rule it was reckoned when that was written.
    private uint SumOf(long from, long to) => _device.TryTakeSum(from, to, out uint checksum) ? checksum : Checksum(from, to);

    // Before the next version begins all that there is becomes read-only.
    private sealed class VersionEnds : IStateMachineCallback
    {
        public void BeforeEnteringState<TKey, TValue>(SystemState next, FasterKV<TKey, TValue> faster)
        {
            if (next.Phase == Phase.IN_PROGRESS) faster.Log.ShiftReadOnlyAddress(faster.Log.TailAddress, wait: false);
        }
    }

    private void WaitFor(long number)
    {
        long start = Stopwatch.GetTimestamp();
        var wait = default(SpinWait);
        while (_kv.CurrentVersion != number)
        {
            if (Stopwatch.GetElapsedTime(start) > s_switchMax)
                throw new TimeoutException($"FASTER does not go on to its version {number}: it is at {_kv.SystemState.Phase} of "
                    + $"{_kv.CurrentVersion}.");
            // All writers wait for this.
            wait.SpinOnce(sleep1Threshold: -1);
        }
    }
}
