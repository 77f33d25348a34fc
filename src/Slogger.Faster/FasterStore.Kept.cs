// Which commits there are, for who decides what a store is opened at.
using Slogger.Faster.Commits;
using Slogger.Faster.Disk;

namespace Slogger.Faster;

public sealed partial class FasterStore
{
    /// <summary>The commits in a directory in which no store is open, oldest first: those that are whole, and rest on a log that is.</summary>
    public static IReadOnlyList<CommitRecord> CommitsIn(FasterOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        List<CommitRecord> commits = new CommitFiles(options.Files, Path.Combine(options.Directory, "commits")).Load();
        if (commits.Count == 0) return commits;
        RequireSizes(options, commits);
        using var device = new LogDevice(options.Files, options.Directory, options.SegmentBits, options.PageBits);
        int damaged = FirstDamaged(device, commits);
        return damaged < 0 ? commits : commits[..damaged];
    }

    /// <summary>How many commits are on disk.</summary>
    public int CommitCount
    {
        get { lock (_commits) { return _commits.Count; } }
    }
}
