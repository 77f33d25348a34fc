// The version log as a store reads it that follows (StoreFollower): a world-line may begin in the log meanwhile. What was read below its
// branch is part of it, too, and it is read on. A store is never fed beyond what survives (I4); should it have been, that is found here.
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Redis.Feeding;

namespace Slogger.Replication.Following;

/// <summary>A log that is followed through its world-lines. One reader at a time; begins in the log's world-line.</summary>
internal sealed class FollowedLog(VersionLog log) : IHistorySource, IDisposable
{
    private LogHistory _history = new(log);
    private WorldLine _worldLine = log.WorldLine;
    private long _rewinds = log.Rewinds;

    /// <inheritdoc />
    /// <exception cref="LogHistoryChangedException">What was read below the offset is void: the store has to begin from a base.</exception>
    public int Read(long offset, Span<byte> destination)
    {
        while (true)
        {
            GoOn(offset);
            try
            {
                return _history.Read(offset, destination);
            }
            catch (LogHistoryChangedException) when (log.WorldLine != _worldLine || log.Rewinds != _rewinds)
            {
                // It began just now.
            }
        }
    }

    public void Dispose() => _history.Dispose();

    private void GoOn(long offset)
    {
        long rewinds = log.Rewinds;
        WorldLine now = log.WorldLine;
        // What a rewind makes void no store was ever fed.
        if (now == _worldLine && rewinds == _rewinds) { return; }
        foreach (LogBranch branch in log.Branches)
        {
            if (branch.WorldLine > _worldLine && branch.Offset < offset)
                throw new LogHistoryChangedException(
                    $"World-line {branch.WorldLine} voids what lies above offset {branch.Offset}, and the store was fed up to {offset}.");
        }
        _history.Dispose();
        (_history, _worldLine, _rewinds) = (new LogHistory(log), now, rewinds);
    }
}
