// A data directory in use by this process: created where missing, locked against every other process, and known to belong
// to this store, cluster and shard. Opened before anything else touches it, disposed last. The lock is the operating system's
// (flock), so it goes away with the process, also by kill -9; children do not inherit it.
using System.Globalization;
using System.Text;
using Slogger.Core.Shards;
using Slogger.Log.Files;

namespace Slogger.Proxy.Configuration;

/// <summary>How opening a data directory ended.</summary>
/// <param name="Opened">The directory; null if it cannot be used.</param>
/// <param name="Problem">What is wrong; empty if opened.</param>
/// <param name="Remedy">What to do.</param>
/// <param name="IsOptionError">True if the options contradict the directory (exit code 2), false if it is in use or broken (1).</param>
public sealed record DataDirectoryResult(DataDirectory? Opened, string Problem, string Remedy, bool IsOptionError);

/// <summary>The process that has a data directory.</summary>
/// <param name="Pid">Its number.</param>
/// <param name="IsProxy">Whether it is a proxy; else it restores.</param>
/// <param name="Since">Since when it has the directory.</param>
public sealed record DirectoryOwner(int Pid, bool IsProxy, DateTimeOffset Since);

/// <summary>A locked data directory.</summary>
public sealed class DataDirectory : IDisposable
{
    /// <summary>Name of the lock file.</summary>
    public const string LockFileName = "lock";

    /// <summary>Name of the file with the owner's process id, for messages (a locked file cannot be read by .NET). A second line says what
    /// the process is.</summary>
    public const string PidFileName = "proxy.pid";

    private const string ProxyText = "proxy", RestoreText = "restore";

    /// <summary>The directory of an embedded store, in the data directory.</summary>
    public const string FasterDirectory = "faster";

    // What the log and the checkpoints leave behind: with these, a missing store.json is a loss, not a first start.
    private static readonly string[] Remains = ["log", "checkpoints", "bgsave", FasterDirectory];

    private readonly FileStream _lock;

    private DataDirectory(string path, FileStream held, StoreRecord store, CommitMode? previous)
        => (Path, _lock, Store, PreviousCommit) = (path, held, store, previous);

    /// <summary>The directory, absolute.</summary>
    public string Path { get; }

    /// <summary>What it belongs to.</summary>
    public StoreRecord Store { get; }

    /// <summary>The commit mode of the start before this one; null at the first start.</summary>
    public CommitMode? PreviousCommit { get; }

    /// <summary>Opens the directory for a proxy; a missing one is created, an empty one becomes this store's.</summary>
    public static DataDirectoryResult OpenForServe(ServeOptions options) => Guard(options.DataDirectory, () =>
    {
        string path = options.DataDirectory;
        // Its own name has to survive what the log in it promises to.
        SystemFileLayer.Instance.CreateDirectory(path);
        return WithLock(path, ProxyText, held =>
        {
            StoreRecord? found = StoreRecord.Read(path);
            if (found is null && FindRemains(path) is { } remains)
            {
                return Broken($"the data directory {path} holds {remains}/ but no {StoreRecord.FileName}",
                    $"put {StoreRecord.FileName} back from a copy, or use an empty directory");
            }

            if (found?.Contradiction(options) is { } contradiction)
            {
                return new DataDirectoryResult(null, $"the data directory {path} cannot be used: {contradiction}", "give the directory of "
                    + "this store with --data (an empty or new one for a first start), or correct the other options", true);
            }

            if (AgainstCohort(options) is { } against) { return against; }

            StoreRecord current = StoreRecord.From(options) with { Created = found?.Created
                ?? DateTimeOffset.UtcNow, ClusterIdentity = found?.ClusterIdentity ?? "" };
            if (found != current)
            {
                current.Write(path);
            }

            return Opened(path, held, current, found?.Commit);
        });
    });

    // What one node of a cohort has is not all that was committed; and to go on from another version is no work of a cohort.
    private static DataDirectoryResult? AgainstCohort(ServeOptions options)
    {
        string path = options.DataDirectory;
        if (options.Cohort is null)
        {
            return CohortDirectory.Of(path) is not { HasOthers: true } node ? null : new DataDirectoryResult(null,
                $"the data directory {path} is that of {node}", "give --node and --cohort. If a majority of the nodes is lost for good, "
                + "slogger restore --latest --keep --i-accept-loss makes this one the only member", true);
        }
        return RestoredNote.Read(path).GoesOn is not { } goesOn ? null : new DataDirectoryResult(null,
            $"the data directory {path} is to go on from version {goesOn.Version}, as slogger restore --keep has said, and a cohort cannot "
            + "begin with that",
            "start slogger serve once without --node and --cohort; when it serves, stop it, and start this again", true);
    }

    /// <summary>Opens an existing directory offline.</summary>
    public static DataDirectoryResult OpenExisting(string path) => Guard(path, () =>
    {
        if (!Directory.Exists(path))
        {
            return new DataDirectoryResult(null, $"the data directory {path} does not exist", "give the right one with --data", true);
        }

        if (!File.Exists(System.IO.Path.Combine(path, StoreRecord.FileName)))
        {
            return new DataDirectoryResult(null, $"{path} is not a data directory of Slogger: it has no {StoreRecord.FileName}",
                "give the right one with --data", true);
        }

        return WithLock(path, RestoreText, held =>
        {
            StoreRecord found = StoreRecord.Read(path)!;
            return Opened(path, held, found, found.Commit);
        });
    });

    /// <summary>The directory's owner, for messages; null if unknown or if nobody holds it. After a crash it may be a process that has
    /// ended.</summary>
    public static DirectoryOwner? OwnerOf(string path)
    {
        try
        {
            string file = System.IO.Path.Combine(path, PidFileName);
            string[] lines = File.ReadAllLines(file);
            return lines.Length > 0 && int.TryParse(lines[0], NumberStyles.None, CultureInfo.InvariantCulture, out int pid)
                ? new(pid, lines.Length > 1 && lines[1] == ProxyText, File.GetLastWriteTimeUtc(file)) : null;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return null;
        }
    }

    /// <summary>
    /// Call it when a start failed: a first start that left no data behind does not bind the directory to its kind of store, so
    /// that a corrected command line can use it.
    /// </summary>
    public void ForgetFailedFirstStart()
    {
        if (PreviousCommit is null && FindRemains(Path) is null)
        {
            File.Delete(System.IO.Path.Combine(Path, StoreRecord.FileName));
        }
    }

    /// <summary>Removes proxy.json and proxy.pid, and gives up the lock.</summary>
    public void Dispose()
    {
        // The lock file stays: removing it would let two processes lock two files of the same name.
        if (_lock.CanWrite)
        {
            ProxyRecord.Remove(Path);
            TryDelete(System.IO.Path.Combine(Path, PidFileName));
            _lock.Dispose();
        }
    }

    // For files whose staleness harms nobody.
    internal static void TryDelete(string path)
    {
        try
        {
            File.Delete(path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // Stale; see above.
        }
    }

    private static string? FindRemains(string path) => Remains.FirstOrDefault(name => Directory.Exists(System.IO.Path.Combine(path, name)));

    private static DataDirectoryResult WithLock(string path, string what, Func<FileStream, DataDirectoryResult> use)
    {
        FileStream held;
        try
        {
            held = PrivateFile.Open(System.IO.Path.Combine(path, LockFileName), FileMode.OpenOrCreate, FileShare.None);
        }
        catch (IOException e) when (IsLockViolation(e))
        {
            string owner = OwnerOf(path) is { } of ? string.Create(CultureInfo.InvariantCulture, $" (process {of.Pid})") : "";
            return Broken($"the data directory {path} is in use by another Slogger process{owner}",
                "stop that one, or give another directory with --data");
        }

        DataDirectoryResult? result = null;
        try
        {
            // A record of a killed proxy would send status to whoever has its address now.
            ProxyRecord.Remove(path);
            PrivateFile.Write(System.IO.Path.Combine(path, PidFileName),
                Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{Environment.ProcessId}\n{what}\n")));
            result = use(held);
            return result;
        }
        finally
        {
            if (result?.Opened is null)
            {
                held.Dispose();
            }
        }
    }

    private static DataDirectoryResult Guard(string path, Func<DataDirectoryResult> open)
    {
        try
        {
            return open();
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return Broken($"the data directory {path} cannot be used: {e.Message}",
                "check its path, its owner and the free space, or give another one with --data");
        }
        catch (InvalidDataException e)
        {
            return Broken($"the data directory {path} cannot be used: {e.Message}",
                "put the file back from a copy, or use the Slogger that wrote it");
        }
    }

    // .NET reports a lost flock as a sharing violation: EWOULDBLOCK on Unix, ERROR_SHARING_VIOLATION on Windows.
    private static bool IsLockViolation(IOException e) =>
        e is not (FileNotFoundException or DirectoryNotFoundException or PathTooLongException)
        && (e.HResult is 11 or 35 or unchecked((int)0x80070020)
        || e.Message.Contains("being used by another process", StringComparison.Ordinal));

    private static DataDirectoryResult Opened(string path, FileStream held, StoreRecord store, CommitMode? previous)
        => new(new DataDirectory(path, held, store, previous), "", "", false);

    private static DataDirectoryResult Broken(string problem, string remedy) => new(null, problem, remedy, false);
}
