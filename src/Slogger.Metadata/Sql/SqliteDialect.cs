// SQLite: the embedded default, one file on the proxy's own disk. Write-ahead log with full sync: a recorded cut is on disk
// when the call returns, at the price of one fdatasync.
using System.Data.Common;
using System.Globalization;
using Microsoft.Data.Sqlite;

namespace Slogger.Metadata.Sql;

internal sealed class SqliteDialect : SqlDialect
{
    // Primary result codes of sqlite3.h.
    private const int Error = 1, Permission = 3, Abort = 4, Busy = 5, Locked = 6, NoMemory = 7, ReadOnly = 8, Interrupt = 9,
        InputOutput = 10, Corrupt = 11, Full = 13, CantOpen = 14, Protocol = 15, NoLargeFiles = 22, NotADatabase = 26;

    private const int PrimaryKeyTaken = 1555, UniqueTaken = 2067;

    private readonly string path;
    private readonly string connectionString;
    private readonly int busyMilliseconds;

    public SqliteDialect(string path, MetadataStoreOptions options)
    {
        this.path = Path.GetFullPath(path);
        busyMilliseconds = (int)options.CommandTimeout.TotalMilliseconds;
        connectionString = new SqliteConnectionStringBuilder
        {
            DataSource = this.path,
            Mode = SqliteOpenMode.ReadWriteCreate,
            Pooling = false,

            // The provider polls a busy file each 150 ms for this many seconds (0: for ever), after SQLite's own, finer
            // waiting (busy_timeout), which is the one that counts here.
            DefaultTimeout = 1,
        }.ToString();
    }

    public override string Description => "sqlite:" + path;

    public override bool IsSynchronous => true;

    // Immediate: with the write lock from the start, or a reader that turns writer could fail. Not by the provider's transaction:
    // when a commit fails because the disk is full it neither notices that SQLite has rolled back nor lets the file be closed.
    public override string? BeginStatement => "BEGIN IMMEDIATE";

    public override string TableNamesSql => "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'slogger%'";

    public override DbConnection CreateConnection() => new SqliteConnection(connectionString);

    public override void BeforeOpen()
    {
        string? directory = Path.GetDirectoryName(path);
        if (Directory.Exists(path))
        {
            throw new MetadataException($"{Description} is a directory; name a file in it.");
        }

        if (!Directory.Exists(directory))
        {
            throw new MetadataException($"The directory of {Description} does not exist. Create it, or name another file.");
        }

        MakePrivate();
    }

    // It holds the secret by which proxies know each other. SQLite would make it with the mode that the process's mask allows, and gives
    // the files beside it the mode of this one. An empty file is an empty database. What cannot be made here SQLite cannot make, and says
    // why.
    private void MakePrivate()
    {
        if (OperatingSystem.IsWindows() || File.Exists(path))
        {
            return;
        }

        try
        {
            new FileStream(path, new FileStreamOptions { Mode = FileMode.CreateNew, Access = FileAccess.Write,
                UnixCreateMode = UnixFileMode.UserRead | UnixFileMode.UserWrite }).Dispose();
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
        }
    }

    public override async Task SetUpAsync(SqlSession session, CancellationToken cancellation)
    {
        await session.ExecuteOnceAsync(
            string.Create(CultureInfo.InvariantCulture, $"PRAGMA busy_timeout = {busyMilliseconds}"), cancellation);

        // A file system that cannot do it stays with the rollback journal: as durable, and slower.
        await session.ExecuteOnceAsync("PRAGMA journal_mode = WAL", cancellation);
        await session.ExecuteOnceAsync("PRAGMA synchronous = FULL", cancellation);
    }

    public override async Task CheckIntegrityAsync(SqlSession session, CancellationToken cancellation)
    {
        List<string> found = await session.QueryAsync("PRAGMA quick_check(1)", r => r.GetString(0), cancellation);
        if (found is not ["ok"])
        {
            throw new MetadataException($"{Description} is damaged: {string.Join(' ', found)}. {DamageAdvice}");
        }
    }

    // Every transaction here begins IMMEDIATE, that is, with the write lock.
    public override Task LockSchemaAsync(SqlSession session, CancellationToken cancellation) => Task.CompletedTask;

    public override string TextType(int length) => "TEXT";

    public override bool IsDuplicateKey(DbException exception) =>
        exception is SqliteException { SqliteExtendedErrorCode: PrimaryKeyTaken or UniqueTaken };

    public override SqlFailure Classify(Exception exception)
    {
        if (exception is not SqliteException failure)
        {
            return new(FailureKind.Permanent, string.Empty);
        }

        return failure.SqliteErrorCode switch
        {
            Busy or Locked or Protocol => new(FailureKind.Unavailable, "Another process holds its write lock."),
            Full => new(FailureKind.Unavailable, "Free space on its disk."),
            Interrupt or Abort => new(FailureKind.Unavailable, string.Empty),
            InputOutput => new(FailureKind.ConnectionLost, "Check its disk, and whether it is full."),
            NoMemory => new(FailureKind.ConnectionLost, "The machine is out of memory."),
            CantOpen => new(FailureKind.ConnectionLost, "Check that this user may write to its directory."),
            Permission or ReadOnly => new(FailureKind.Permanent, "Make the file and its directory writable for this user."),
            Corrupt or NotADatabase => new(FailureKind.Permanent, DamageAdvice),
            NoLargeFiles => new(FailureKind.Permanent, "Name a file on another file system."),
            Error => new(FailureKind.Permanent, SqlSchema.ShapeAdvice),
            _ => new(FailureKind.Permanent, string.Empty),
        };
    }

    private const string DamageAdvice =
        "Keep a copy of the file and of its -wal, then restore it from a backup (or with sqlite3's .recover); "
        + "do not start with an empty file: it would not know what is committed.";
}
