// What a shard decides about the batches of sessions: Core's BatchGate, with what it has to know of this shard.
using Slogger.Core.Identities;
using Slogger.Core.Recovery;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.FrontEnd;
using Slogger.Metadata;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard : IBatchPort
{
    private readonly BatchGate _batchGate;

    // As of the last opening of the front end: replaced by the control task, read by the loop.
    private volatile IReadOnlyCollection<WorldLineBranch> _branches = [];
    private volatile IReadOnlyList<WorldLineRecord> _branchLines = [];

    /// <inheritdoc />
    public IBatchPort? Batches => this;

    string IBatchPort.Cluster => _options.Cluster;

    ShardId IBatchPort.Shard => _options.Shard;

    long IBatchPort.VersionIntervalUs => VersionIntervalUs;

    // Of the version that is open now.
    private long VersionIntervalUs => _seat.Grid.IntervalUsAt(Now().Microseconds);

    GateDecision IBatchPort.Decide(in BatchHeader header, Version open)
    {
        // The clock is only looked at for a session that is ahead.
        HybridTimestamp now = header.AtLeast > open ? Now() : default;
        GridView grid = _seat.GridView;
        return _batchGate.Decide(header, new GateShard(new(WorldLine), open, grid.Grid, _branches) { GridValidUntilUs = grid.ValidUntilUs }, now);
    }

    (Sequence Last, long Version)? IBatchPort.LastDone(SessionId session) => LastDone(session);

    /// <summary>See <see cref="IBatchPort.LastDone"/>; without a stream nothing is known.</summary>
    protected virtual (Sequence Last, long Version)? LastDone(SessionId session) => null;

    void IBatchPort.FastForward(Version atLeast)
    {
        HybridTimestamp opens = HybridTimestamp.Of(_seat.Grid.StartOf(atLeast), 0);
        lock (_machineLock)
        {
            // The clock goes along, and so does the next process's: it must not open earlier versions again. One that is too far behind
            // waits, and its clients are refused in the end.
            if (_machine is not { } machine || !_clock.TryObserve(opens)) { return; }
            machine.FastForward(atLeast);
        }
    }

    /// <summary>Opens a version ahead of the clock, on the loop's thread. Any thread.</summary>
    protected void FastForwardSoon(Version atLeast)
    {
        if (_loop is not { } loop) { return; }
        loop.Post(() =>
        {
            ((IBatchPort)this).FastForward(atLeast);
            loop.Boundary.OnFastForward();
        });
    }

    private void PublishBranches()
    {
        _branchLines = _lines;
        _branches = [.. _lines.Select(l => new WorldLineBranch(l.WorldLine, l.BranchOf(_options.Shard)))];
    }
}
