// PostgreSQL by Npgsql, 10 or newer.
using System.Data.Common;
using System.Globalization;
using System.Net.Sockets;
using Npgsql;

namespace Slogger.Metadata.Sql;

internal sealed class PostgresDialect : SqlDialect
{
    // Any constant does: it only has to be the same in all programs that create this schema.
    private const long SchemaLockKey = 0x51066E72;

    private readonly NpgsqlConnectionStringBuilder builder;
    private readonly int lockMilliseconds;

    /// <exception cref="ArgumentException">The connection string cannot be understood.</exception>
    public PostgresDialect(string connectionString, MetadataStoreOptions options)
    {
        builder = new NpgsqlConnectionStringBuilder(connectionString);
        if (string.IsNullOrEmpty(builder.Host))
        {
            throw new ArgumentException("The host is missing.");
        }

        if (!builder.ShouldSerialize("Timeout"))
        {
            builder.Timeout = Seconds(options.ConnectTimeout);
        }

        if (!builder.ShouldSerialize("Command Timeout"))
        {
            builder.CommandTimeout = Seconds(options.CommandTimeout);
        }

        if (!builder.ShouldSerialize("Application Name"))
        {
            builder.ApplicationName = "slogger";
        }

        if (builder.Host.Contains(','))
        {
            // Npgsql tries several hosts only through its pool.
            if (!builder.ShouldSerialize("Target Session Attributes"))
            {
                builder.TargetSessionAttributes = "primary";
            }
        }
        else
        {
            builder.Pooling = false;
        }

        builder.Enlist = false;
        builder.PersistSecurityInfo = false;
        lockMilliseconds = (int)options.CommandTimeout.TotalMilliseconds;
        string database = builder.Database ?? builder.Username ?? string.Empty;
        Description = string.Create(CultureInfo.InvariantCulture, $"postgres:{builder.Host}:{builder.Port}/{database}");
    }

    public override string Description { get; }

    public override string? Secret => builder.Password;

    public override bool Batches => true;

    public override string TableNamesSql =>
        "SELECT CAST(table_name AS TEXT) FROM information_schema.tables "
        + "WHERE table_schema = current_schema() AND table_name LIKE 'slogger%'";

    public override DbConnection CreateConnection() => new NpgsqlConnection(builder.ConnectionString);

    public override async Task SetUpAsync(SqlSession session, CancellationToken cancellation)
    {
        // A server or database may have asynchronous commits by default; a cut that was answered must not be lost. Any
        // other setting (remote_apply...) is its administrator's choice.
        await session.ExecuteOnceAsync(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
            cancellation);

        // A process that is stopped inside a transaction must not hold its locks against everyone else.
        await session.ExecuteOnceAsync(
            string.Create(
                CultureInfo.InvariantCulture,
                $"SET lock_timeout = {lockMilliseconds}; SET idle_in_transaction_session_timeout = {2 * lockMilliseconds}"),
            cancellation);
    }

    public override async Task<IReadOnlyList<string>> DoubtsAsync(SqlSession session, CancellationToken cancellation)
    {
        // Of other users' connections anybody sees that they are there, and their names. What only copies the log cannot take over.
        List<(string Fsync, string Pages, string Commit, string Names, long Standbys)> all = await session.QueryAsync(
            "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), "
            + "current_setting('synchronous_standby_names'), (SELECT COUNT(*) FROM pg_stat_replication "
            + "WHERE COALESCE(application_name, '') NOT IN ('pg_receivewal', 'pg_basebackup'))",
            r => (r.GetString(0), r.GetString(1), r.GetString(2), r.GetString(3), r.GetInt64(4)),
            cancellation);
        (string fsync, string pages, string commit, string names, long standbys) = all[0];
        List<string> doubts = [];
        if (fsync == "off")
        {
            doubts.Add("fsync is off: the metadata is lost or damaged when its machine fails. Set fsync = on");
        }

        if (pages == "off")
        {
            doubts.Add("full_page_writes is off: the metadata may be damaged when its machine fails. Set full_page_writes = on");
        }

        if (commit == "off")
        {
            doubts.Add("synchronous_commit is off, also on Slogger's own connection: what was confirmed may be lost. Set "
                + "synchronous_commit = on");
        }

        if (standbys > 0 && string.IsNullOrWhiteSpace(names))
        {
            doubts.Add(string.Create(
                CultureInfo.InvariantCulture,
                $"{standbys} standby(s) follow this server and none is synchronous: one that takes over may lack what was confirmed, and "
                + $"give out epochs and cuts twice. Set synchronous_standby_names, or let none of them take over"));
        }

        if (!string.IsNullOrWhiteSpace(names) && commit == "local")
        {
            doubts.Add("synchronous_commit is local: no standby is waited for, and one that takes over may give out epochs and cuts "
                + "twice. Set synchronous_commit = on for Slogger's user");
        }

        return doubts;
    }

    public override Task LockSchemaAsync(SqlSession session, CancellationToken cancellation) =>
        session.ExecuteOnceAsync(
            string.Create(CultureInfo.InvariantCulture, $"SELECT pg_advisory_xact_lock({SchemaLockKey})"), cancellation);

    public override string TextType(int length) => string.Create(CultureInfo.InvariantCulture, $"VARCHAR({length}) COLLATE \"C\"");

    public override bool IsDuplicateKey(DbException exception) =>
        exception is PostgresException { SqlState: PostgresErrorCodes.UniqueViolation };

    public override SqlFailure Classify(Exception exception) => exception switch
    {
        PostgresException failure => Classify(failure),
        NpgsqlException { InnerException: System.Security.Authentication.AuthenticationException } =>
            new(FailureKind.Permanent, "Check the certificates and SSL settings in the connection string."),
        NpgsqlException { IsTransient: true } or NpgsqlException { InnerException: IOException or SocketException or TimeoutException } =>
            new(FailureKind.ConnectionLost, string.Empty),
        IOException or SocketException or TimeoutException or ObjectDisposedException => new(FailureKind.ConnectionLost, string.Empty),
        _ => new(FailureKind.Permanent, string.Empty),
    };

    private static SqlFailure Classify(PostgresException failure) => failure.SqlState switch
    {
        "40001" or "40P01" => new(FailureKind.Conflict, string.Empty),
        "55P03" or "57014" => new(FailureKind.Unavailable, "A lock is held for too long."),
        "57P01" or "57P02" or "57P03" or "57P05" or "25P03" => new(FailureKind.ConnectionLost, string.Empty),
        "25006" => new(FailureKind.ConnectionLost, "The server is read-only: a standby, perhaps."),
        "42P01" or "42703" or "3F000" => new(FailureKind.Permanent, SqlSchema.ShapeAdvice),
        "42501" => new(FailureKind.Permanent, "Give the user the right to create and change tables in the schema."),
        "28P01" or "28000" => new(FailureKind.Permanent, "Check user name and password, and the server's pg_hba.conf."),
        "3D000" => new(FailureKind.Permanent, "Create the database first."),
        "22P05" or "22021" => new(FailureKind.Permanent, "Use a database with encoding UTF8."),
        { } state when state.StartsWith("53", StringComparison.Ordinal) || state.StartsWith("58", StringComparison.Ordinal) =>
            new(FailureKind.ConnectionLost, "The server is out of resources: disk, memory or connections."),
        { } state when state.StartsWith("08", StringComparison.Ordinal) => new(FailureKind.ConnectionLost, string.Empty),
        { } state when state.StartsWith("40", StringComparison.Ordinal) => new(FailureKind.Conflict, string.Empty),
        _ when failure.IsTransient => new(FailureKind.ConnectionLost, string.Empty),
        _ => new(FailureKind.Permanent, string.Empty),
    };

    // Only a pool of several hosts hands connections out again.
    public override void Discard(DbConnection connection)
    {
        if (builder.Pooling)
        {
            NpgsqlConnection.ClearPool((NpgsqlConnection)connection);
        }
    }
}
