// Commits as they are on disk, for who decides what a store is opened at.
using Slogger.Faster.Commits;
using Slogger.Faster.Disk;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Faster;

/// <summary>Reads and copies commits. No store need be open.</summary>
internal static class StoredCommits
{
    private const int ReadBytes = 1 << 20;

    /// <summary>The directory of a store's commits.</summary>
    public static string DirectoryIn(string directory) => Path.Combine(directory, "commits");

    /// <summary>Those in a directory in which no store is open, oldest first, that are whole and rest on a log that is.</summary>
    public static IReadOnlyList<CommitRecord> In(FasterOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        List<CommitRecord> commits = new CommitFiles(options.Files, DirectoryIn(options.Directory)).Load();
        if (commits.Count == 0) return commits;
        RequireSizes(options, commits);
        using var device = new LogDevice(options.Files, options.Directory, options.SegmentBits, options.PageBits);
        int damaged = FirstDamaged(device, commits);
        return damaged < 0 ? commits : commits[..damaged];
    }

    /// <summary>The same, with the sizes that the store was made with.</summary>
    public static IReadOnlyList<CommitRecord> In(string directory)
    {
        FasterOptions options = new() { Directory = directory };
        List<CommitRecord> commits = new CommitFiles(options.Files, DirectoryIn(directory)).Load();
        return commits is [.., var last] ? In(options with { PageBits = last.PageBits, SegmentBits = last.SegmentBits }) : commits;
    }

    /// <summary>Copies a commit into another directory, so that a store can be opened there.</summary>
    public static void Copy(FasterOptions options, CommitRecord commit, string directory, CancellationToken cancellation = default)
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

        string commits = DirectoryIn(directory);
        options.Files.CreateDirectory(commits);
        string own = CommitFiles.FileOf(DirectoryIn(options.Directory), commit.Token);
        Copy(options.Files, own, CommitFiles.FileOf(commits, commit.Token), long.MaxValue);
    }

    /// <summary>Whether what a commit has added to the log is on disk as it was written.</summary>
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

    /// <summary>The sizes of pages and files are those that the commits were made with.</summary>
    /// <exception cref="InvalidDataException">They are not.</exception>
    public static void RequireSizes(FasterOptions options, IReadOnlyList<CommitRecord> commits)
    {
        // With other sizes the log is read in the wrong places, and looks damaged.
        if (commits.FirstOrDefault(c => c.PageBits != options.PageBits || c.SegmentBits != options.SegmentBits) is { } commit)
            throw new InvalidDataException($"{options.Directory} was made with pages of 2^{commit.PageBits} bytes and files of "
                + $"2^{commit.SegmentBits}: open it with the same, not 2^{options.PageBits} and 2^{options.SegmentBits}.");
    }

    /// <summary>The number of the first commit whose part of the log is damaged; -1: none.</summary>
    public static int FirstDamaged(LogDevice device, IReadOnlyList<CommitRecord> commits)
    {
        for (int i = 0; i < commits.Count; i++) if (Checksum(device, commits[i].Since, commits[i].To) != commits[i].Checksum) return i;
        return -1;
    }

    /// <summary>The checksum of a stretch of the log.</summary>
    public static uint Checksum(LogDevice device, long from, long to)
    {
        uint checksum = 0;
        byte[] buffer = new byte[(int)Math.Min(ReadBytes, Math.Max(1, to - from))];
        for (int bytes; from < to; from += bytes)
        {
            bytes = (int)Math.Min(buffer.Length, to - from);
            device.Read(from, buffer.AsSpan(0, bytes));
            checksum = Crc32C.Compute(buffer.AsSpan(0, bytes), checksum);
        }

        return checksum;
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
