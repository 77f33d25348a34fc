// Ends versions, and makes them durable.
using System.Diagnostics;
using FASTER.core;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Disk;

namespace Slogger.Faster;

/// <summary>Makes the commits of a store, one at a time: whoever asks for one has the store's turn.</summary>
internal sealed class Committer
{
    private static readonly TimeSpan s_switchMax = TimeSpan.FromSeconds(30);
    private readonly FasterStore _store;
    private readonly FasterOptions _options;
    private readonly FasterKV<SpanByte, SpanByte> _kv;
    private readonly LogDevice _device;
    private readonly CommitFiles _files;
    private readonly CommitList _commits;
    private readonly RecordCounts _counts;
    private readonly CommitTurn _turn;
    private readonly Compactor _compactor;
    private long _from;             // where the open version begins in the log
    private long _since;            // up to where the log is covered by checksums
    private long _lastCommitTicks;

    public Committer(
        FasterStore store, FasterOptions options, LogDevice device, CommitFiles files, CommitList commits, RecordCounts counts,
        CommitTurn turn, Compactor compactor)
    {
        (_store, _options, _kv, _device, _files, _commits, _counts) = (store, options, store.Kv, device, files, commits, counts);
        (_turn, _compactor) = (turn, compactor);
        _kv.UnsafeRegisterCallback(new VersionEnds());
    }

    /// <summary>How long it took to make the last commit durable.</summary>
    public TimeSpan LastCommit => new(Volatile.Read(ref _lastCommitTicks));

    /// <summary>The log was opened, and ends here.</summary>
    public void BeginAt(long tail) => _from = _since = tail;

    /// <summary>The changes of the open version begin here: what was before was taken back. In turn.</summary>
    public void BeginAnewAt(long tail) => _from = tail;

    /// <summary>Makes a commit, in turn, and gives the turn back, whatever happens.</summary>
    /// <param name="line">The timeline.</param>
    /// <param name="next">The version that is open from then on: later than the open one. All before it is in the commit.</param>
    /// <param name="open">The version that is open instead, if later. Null: <paramref name="next"/>.</param>
    /// <returns>The commit, when it is on disk.</returns>
    public Task<CommitRecord> CommitAsync(WorldLine line, VersionNumber next, VersionNumber? open = null)
    {
        try
        {
            ArgumentOutOfRangeException.ThrowIfLessThanOrEqual(next.Number, _store.Open.Number, nameof(next));
            if (_store.BeingUndone is not null)
                throw new InvalidOperationException("A rollback has begun and was not finished: the store has to go back once more, or be "
                    + "opened again.");
            if (_compactor.Failure is { } failure)
                throw new InvalidOperationException("Compaction has ended: the store cannot go on.", failure);
            CommitRecord commit = null!;
            ValueTask written = default;
            _store.Stripes.Alone(() =>
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
                _store.BeginVersion(VersionNumber.Max(next, open ?? next), commit.To);
            });
            return ReportAsync(Task.Run(() => MakeDurableAsync(commit, written)));
        }
        catch
        {
            _turn.Give();
            throw;
        }
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
            _turn.Give();
        }
    }

    // As a rule it was reckoned when that was written.
    private uint SumOf(long from, long to) =>
        _device.TryTakeSum(from, to, out uint checksum) ? checksum : StoredCommits.Checksum(_device, from, to);

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
