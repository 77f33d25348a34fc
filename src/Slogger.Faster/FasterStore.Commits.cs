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

    /// <summary>Ends the open version, and makes it durable. Operations wait for its end only, a fraction of a millisecond.</summary>
    /// <param name="line">The timeline.</param>
    /// <param name="next">The version that is open from then on: later than the open one. All before it is in the commit.</param>
    /// <param name="cancellation">Ends the wait for a commit or rollback that is under way. One that has begun is completed.</param>
    /// <returns>The commit, when it is on disk.</returns>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="next"/> is not later than the open version.</exception>
    public async Task<CommitRecord> CommitAsync(WorldLine line, Version next, CancellationToken cancellation = default)
    {
        await _turn.WaitAsync(cancellation).ConfigureAwait(false);
        try
        {
            return await CommitInTurnAsync(line, next).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    }

    private async Task<CommitRecord> CommitInTurnAsync(WorldLine line, Version next)
    {
        ArgumentOutOfRangeException.ThrowIfLessThanOrEqual(next.Number, Open.Number, nameof(next));
        CommitRecord commit = null!;
        ValueTask completion = default;
        Stripes.Alone(() =>
        {
            if (!_kv.TryInitiateHybridLogCheckpoint(out Guid token, CheckpointType.FoldOver, tryIncremental: false))
                throw new InvalidOperationException("FASTER is taking a checkpoint that Slogger has not begun.");
            // Nobody adds to the log meanwhile: its end is where the version ends.
            long number = _kv.CurrentVersion;
            _files.UnderWay = commit = new(token, number, new(line, next.Previous), _from, _kv.Log.TailAddress);
            completion = _kv.CompleteCheckpointAsync();
            WaitFor(number + 1);
            Volatile.Write(ref _open, next.Number);
        });
        await completion.ConfigureAwait(false);
        _from = commit.To;
        lock (_commits) { _commits.Add(commit); }
        return commit;
    }

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
            if (Stopwatch.GetElapsedTime(start) > s_switchMax) throw new TimeoutException($"FASTER does not go on to its version {number}: it is at {_kv.SystemState.Phase} of {_kv.CurrentVersion}.");
            wait.SpinOnce();
        }
    }
}
