// What a shard's store could not follow is not taken into its stream's log, so no cut that has it is ever held, and no failover goes to
// one: the site stays at the version before, and can take over there.
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;

namespace Slogger.Replication.Following;

/// <summary>Looks at a stream before it goes into its log. Not thread-safe.</summary>
internal abstract class StreamGuard
{
    private const int BufferBytes = 256 << 10;

    /// <summary>Begins at the log's end, all of which is durable.</summary>
    /// <exception cref="LogException">It cannot be read.</exception>
    public void Restart(VersionLog log)
    {
        Boundary? last = log.LastBoundary;
        Begin(last?.Database ?? log.Origin.Database);
        long at = last?.Offset ?? log.Origin.Offset;
        if (at == log.EndOffset) { return; }
        using LogReader reader = log.OpenReader(at, log.EndOffset);
        byte[] buffer = new byte[BufferBytes];
        while (reader.Read(buffer) is > 0 and var count) { Look(buffer.AsSpan(0, count)); }
    }

    /// <summary>Looks at the copy that the log is to begin with; its checksum is right.</summary>
    /// <param name="file">An RDB file.</param>
    /// <exception cref="UnfollowableException">The store could not begin from it.</exception>
    public virtual void LookAtCopy(string file)
    {
    }

    /// <summary>Looks at what is about to be appended.</summary>
    /// <exception cref="UnfollowableException">It has a command that the store could not follow.</exception>
    public abstract void Look(ReadOnlySpan<byte> bytes);

    /// <summary>Begins at the end of a version.</summary>
    /// <param name="database">The database selected there.</param>
    protected abstract void Begin(int database);
}

/// <summary>A stream cannot be followed further here: the text says why, and what to do.</summary>
/// <param name="message">For people.</param>
/// <param name="isOver">A fresh copy of the primary's store makes up for it.</param>
internal sealed class UnfollowableException(string message, bool isOver = false) : Exception(message)
{
    /// <summary>Whether a fresh copy of the primary's store makes up for it.</summary>
    public bool IsOver { get; } = isOver;
}
