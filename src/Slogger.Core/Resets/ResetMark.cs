// What a cluster knows of a reset that a replicated shard has begun to write. Another node that leads the shard goes on with its log, and
// not from the recorded cut: it may lack what the leader before has written, while another shard has its part. So each shard marks, in the
// metadata, in which world-line it is about to write, before it does. Whoever takes the lead takes the shard in the metadata first, and no
// mark of an earlier leader comes later. If there is an open one, a world-line begins at the newest cut before anybody is served, and
// before anything more is claimed: that cut has all of the reset, or nothing of it. It is closed by any world-line that begins.
using Slogger.Core.WorldLines;

namespace Slogger.Core.Resets;

/// <summary>That a shard's leader has begun to write a reset.</summary>
/// <param name="Line">In which world-line; the default: in none.</param>
public readonly record struct ResetMark(WorldLine Line)
{
    /// <summary>Whether it is open: no world-line has begun since.</summary>
    /// <param name="current">The cluster's world-line.</param>
    public bool IsOpen(WorldLine current) => Line == current;
}
