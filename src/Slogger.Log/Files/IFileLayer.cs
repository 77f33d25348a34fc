// The few operations the log needs of a file system, so that tests can put a disk under it that crashes, tears, fills up
// and lies. Rules the log relies on, and a simulated layer must keep:
//   - nothing is durable before a sync: file contents and length by SyncData, names by SyncDirectory;
//   - at a crash an unsynced sector of 512 bytes holds any earlier state of itself, never a mixture; a write that fails or is
//     killed half-way has written whole sectors (Linux copies whole pages);
//   - bytes of an allocated file that were never written read as zero;
//   - a failed SyncData leaves unsynced bytes in doubt for ever, although they may still be read.
// Failures are IOException (or UnauthorizedAccessException).
namespace Slogger.Log.Files;

/// <summary>A file system as the log sees it. Thread-safe.</summary>
public interface IFileLayer
{
    /// <summary>Creates a directory and its parents, durably; nothing happens if it exists.</summary>
    void CreateDirectory(string path);

    /// <summary>Names (not paths) of the files in a directory, in no particular order.</summary>
    IReadOnlyList<string> List(string directory);

    /// <summary>Creates an empty file, replacing one of that name, open for reading and writing.</summary>
    ILogFile Create(string path);

    /// <summary>Opens an existing file.</summary>
    /// <exception cref="FileNotFoundException">There is none.</exception>
    ILogFile Open(string path, bool writable);

    /// <summary>Renames a file atomically, replacing a file of the new name.</summary>
    void Rename(string from, string to);

    /// <summary>Makes <paramref name="to"/> hold what <paramref name="from"/> holds now, also when another file is renamed over that: a
    /// second name where the file system allows one, else a copy, which
    /// is to be synced.</summary>
    void LinkOrCopy(string from, string to);

    /// <summary>Deletes a file; nothing happens if there is none.</summary>
    void Delete(string path);

    /// <summary>Makes creations, renames and deletions in a directory durable.</summary>
    void SyncDirectory(string directory);

    /// <summary>Takes an exclusive lock that ends with the process; null if another holds it.</summary>
    IDisposable? TryLock(string path);
}

/// <summary>An open file. Reads and writes may run on different threads.</summary>
public interface ILogFile : IDisposable
{
    /// <summary>Length in bytes.</summary>
    long Length { get; }

    /// <summary>Reads until <paramref name="destination"/> is full or the file ends; returns the bytes read.</summary>
    int Read(Span<byte> destination, long position);

    /// <summary>Writes all of <paramref name="source"/>.</summary>
    void Write(ReadOnlySpan<byte> source, long position);

    /// <summary>Reserves space and sets the length, in bytes; the new part reads as zero.</summary>
    void Allocate(long length);

    /// <summary>Cuts or extends the file, in bytes.</summary>
    void SetLength(long length);

    /// <summary>Makes everything written so far durable, and the length if it changed (fdatasync).</summary>
    void SyncData();
}
