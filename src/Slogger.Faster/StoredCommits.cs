// Which commits there are, for who decides what a store is opened at.
using Slogger.Faster.Commits;
using Slogger.Faster.Disk;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Faster;

public sealed partial class FasterStore
{
    /// <summary>The commits in a directory in which no store is open, oldest first: those that are whole, and rest on a log that
    /// is.</summary>
    public static IReadOnlyList<CommitRecord> CommitsIn(FasterOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        List<CommitRecord> commits = new CommitFiles(options.Files, Path.Combine(options.Directory, CommitsDirectory)).Load();
        if (commits.Count == 0) return commits;
        RequireSizes(options, commits);
        using var device = new LogDevice(options.Files, options.Directory, options.SegmentBits, options.PageBits);
        int damaged = FirstDamaged(device, commits);
        return damaged < 0 ? commits : commits[..damaged];
    }

    /// <summary>As <see cref="CommitsIn(FasterOptions)"/>, with the sizes that the store was made with.</summary>
    public static IReadOnlyList<CommitRecord> CommitsIn(string directory)
    {
        FasterOptions options = new() { Directory = directory };
        List<CommitRecord> commits = new CommitFiles(options.Files, Path.Combine(directory, CommitsDirectory)).Load();
        return commits is [.., var last] ? CommitsIn(options with { PageBits = last.PageBits, SegmentBits = last.SegmentBits }) : commits;
    }

    /// <summary>Copies a commit into another directory, so that a store can be opened there. The one that has made it may be open, if it
    /// keeps the commit meanwhile.</summary>
    /// <param name="options">The store's.</param>
    /// <param name="commit">The commit.</param>
    /// <param name="directory">The other directory; it exists, and is empty.</param>
    /// <param name="cancellation">Gives up: a part is there then.</param>
    /// <exception cref="IOException">The disk refused.</exception>
    public static void CopyCommit(FasterOptions options, CommitRecord commit, string directory, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(commit);
        long bytes = 1L << options.SegmentBits;
        for (long segment = commit.Begin >> options.SegmentBits; segment << options.SegmentBits < commit.To; segment++)
        {
            cancellation.ThrowIfCancellationRequested();
            string from = LogDevice.FileOf(options.Directory, (int)segment), to = LogDevice.FileOf(directory, (int)segment);
            Copy(options.Files, from, to, Math.Min(bytes, commit.To - (segment << options.SegmentBits)));
        }

        string commits = Path.Combine(directory, CommitsDirectory);
        options.Files.CreateDirectory(commits);
        string own = CommitFiles.FileOf(Path.Combine(options.Directory, CommitsDirectory), commit.Token);
        Copy(options.Files, own, CommitFiles.FileOf(commits, commit.Token), long.MaxValue);
    }

    /// <summary>Whether what a commit has added to the log is on disk as it was written. The store may be open, if it keeps the commit
    /// meanwhile.</summary>
    /// <exception cref="IOException">It cannot be read.</exception>
    public static bool IsWhole(FasterOptions options, CommitRecord commit)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(commit);
        uint checksum = 0;
        byte[] buffer = new byte[ReadBytes];
        for (long at = commit.Since; at < commit.To;)
        {
            string path = LogDevice.FileOf(options.Directory, (int)(at >> options.SegmentBits));
            using ILogFile file = options.Files.Open(path, writable: false);
            long begin = at >> options.SegmentBits << options.SegmentBits;
            for (long end = Math.Min(commit.To, begin + (1L << options.SegmentBits)); at < end;)
            {
                Span<byte> piece = buffer.AsSpan(0, (int)Math.Min(buffer.Length, end - at));
                // What was never written is zero.
                piece[file.Read(piece, at - begin)..].Clear();
                checksum = Crc32C.Compute(piece, checksum);
                at += piece.Length;
            }
        }

        return checksum == commit.Checksum;
    }

    private static void Copy(IFileLayer files, string from, string to, long bytes)
    {
        // What was not written yet when the commit was made is not part of it.
        using ILogFile source = files.Open(from, writable: false), target = files.Create(to);
        byte[] buffer = new byte[ReadBytes];
        for (long at = 0; at < bytes;)
        {
            int read = source.Read(buffer.AsSpan(0, (int)Math.Min(buffer.Length, bytes - at)), at);
            if (read == 0) return;
            target.Write(buffer.AsSpan(0, read), at);
            at += read;
        }
    }
}
