// The writers of a log that lies in several directories: see VersionLog.Writers.
using Slogger.Log.Files;
using Slogger.Log.Segments;

namespace Slogger.Log;

/// <summary>Writes and syncs one file of the newest segment.</summary>
/// <param name="part">Which of the segment's files.</param>
internal sealed class LogWriter(int part)
{
    /// <summary>Which of the segment's files it writes.</summary>
    public int Part => part;

    /// <summary>Held by whoever has it write and sync.</summary>
    public Lock Turn { get; } = new();

    /// <summary>The file; null: there is none yet.</summary>
    public ILogFile? File { get; set; }

    /// <summary>Where its next block goes in the file. Under the log's I/O lock.</summary>
    public long Position { get; set; }

    /// <summary>Blocks that it was dealt, and that are not written, or not synced: that is done before it is dealt others. Under
    /// <see cref="Turn"/>.</summary>
    public DealtBlocks? Unfinished { get; set; }
}

/// <summary>Blocks that follow each other in the log, and were dealt to one writer.</summary>
/// <param name="Writer">Which.</param>
/// <param name="Path">Its file, for messages.</param>
/// <param name="Salt">The segment's.</param>
/// <param name="SyncedUpTo">Position in the segment known to be synced when they were dealt.</param>
/// <param name="Blocks">What is not written yet, with its position in the file and its number in the segment.</param>
/// <param name="FileEnd">Where they end in the file.</param>
/// <param name="SegmentEnd">Where they end in the segment.</param>
/// <param name="Written">How far the log has got with them.</param>
internal sealed record DealtBlocks(LogWriter Writer, string Path, uint Salt, long SyncedUpTo,
    Queue<(AppendChunk Chunk, long Position, long Number)> Blocks, long FileEnd, long SegmentEnd, Progress Written)
{
    /// <summary>Whether they are synced. Under the log's I/O lock.</summary>
    public bool IsSynced { get; set; }
}
