// SQL Server 2016 or newer, and Azure SQL, by Microsoft.Data.SqlClient.
using System.Data.Common;
using System.Globalization;
using System.Net.Sockets;
using Microsoft.Data.SqlClient;

namespace Slogger.Metadata.Sql;

internal sealed class SqlServerDialect : SqlDialect
{
    // From this severity on the server closes the connection.
    private const int FatalSeverity = 20;

    private readonly SqlConnectionStringBuilder builder;
    private readonly int lockMilliseconds;

    /// <exception cref="ArgumentException">The connection string cannot be understood.</exception>
    public SqlServerDialect(string connectionString, MetadataStoreOptions options)
    {
        builder = new SqlConnectionStringBuilder(connectionString);
        if (string.IsNullOrEmpty(builder.DataSource))
        {
            throw new ArgumentException("The server is missing.");
        }

        if (!builder.ShouldSerialize("Connect Timeout"))
        {
            // A refused connection is tried again for most of this time.
            builder.ConnectTimeout = Seconds(options.ConnectTimeout);
        }

        if (!builder.ShouldSerialize("Command Timeout"))
        {
            builder.CommandTimeout = Seconds(options.CommandTimeout);
        }

        if (!builder.ShouldSerialize("Application Name"))
        {
            builder.ApplicationName = "slogger";
        }

        // Reconnecting is the store's business: the driver's own would forget the session's settings.
        builder.ConnectRetryCount = 0;
        builder.Pooling = false;
        builder.Enlist = false;
        builder.PersistSecurityInfo = false;
        lockMilliseconds = (int)options.CommandTimeout.TotalMilliseconds;
        Description = $"sqlserver:{builder.DataSource}/{builder.InitialCatalog}";
    }

    public override string Description { get; }

    public override string? Secret => builder.Password;

    // sp_executesql caches the plan; preparing costs one more round trip and gains nothing.
    public override bool PreparesCommands => false;

    public override string TableNamesSql =>
        "SELECT name FROM sys.tables WHERE schema_id = SCHEMA_ID() AND name LIKE 'slogger%'";

    public override DbConnection CreateConnection() => new SqlConnection(builder.ConnectionString);

    public override async Task SetUpAsync(SqlSession session, CancellationToken cancellation)
    {
        await session.ExecuteOnceAsync(
            string.Create(CultureInfo.InvariantCulture, $"SET NOCOUNT OFF; SET XACT_ABORT ON; SET LOCK_TIMEOUT {lockMilliseconds}"),
            cancellation);
    }

    public override async Task CheckIntegrityAsync(SqlSession session, CancellationToken cancellation)
    {
        List<string> found = await session.QueryAsync(
            "SELECT delayed_durability_desc FROM sys.databases WHERE database_id = DB_ID()", r => r.GetString(0), cancellation);
        if (found is ["FORCED"])
        {
            throw new MetadataException(
                $"{Description} loses acknowledged commits in a crash: its DELAYED_DURABILITY is FORCED. "
                + "ALTER DATABASE ... SET DELAYED_DURABILITY = ALLOWED, or name another database.");
        }
    }

    public override Task LockSchemaAsync(SqlSession session, CancellationToken cancellation) =>
        session.ExecuteOnceAsync(
            string.Create(
                CultureInfo.InvariantCulture,
                $"""
                DECLARE @result INT;
                EXEC @result = sp_getapplock @Resource = 'slogger_schema', @LockMode = 'Exclusive',
                    @LockOwner = 'Transaction', @LockTimeout = {lockMilliseconds};
                IF @result < 0 THROW 51222, 'another program is changing the schema', 1;
                """),
            cancellation);

    public override string TextType(int length) =>
        string.Create(CultureInfo.InvariantCulture, $"NVARCHAR({length}) COLLATE Latin1_General_BIN2");

    public override string LongTextType => "NVARCHAR(MAX)";

    // One plan for all lengths.
    public override void Refine(DbParameter parameter)
    {
        if (parameter.Value is string)
        {
            parameter.Size = parameter.ParameterName.EndsWith(SqlSession.Unbounded, StringComparison.Ordinal) ? -1 : 4000;
        }
    }

    public override bool IsDuplicateKey(DbException exception) => exception is SqlException { Number: 2627 or 2601 };

    public override SqlFailure Classify(Exception exception) => exception switch
    {
        SqlException failure => Classify(failure),
        IOException or SocketException or TimeoutException or ObjectDisposedException => new(FailureKind.ConnectionLost, string.Empty),
        _ => new(FailureKind.Permanent, string.Empty),
    };

    private static SqlFailure Classify(SqlException failure) => failure.Number switch
    {
        1205 or 3960 => new(FailureKind.Conflict, string.Empty),
        1222 or 51222 => new(FailureKind.Unavailable, "A lock is held for too long."),
        208 or 207 => new(FailureKind.Permanent, SqlSchema.ShapeAdvice),
        229 or 262 => new(FailureKind.Permanent, "Give the user the right to create and change tables in the schema."),
        18456 => new(FailureKind.Permanent, "Check user name and password, and that the database exists."),
        4060 => new(FailureKind.Permanent, "Create the database first, and give the user access."),
        1101 or 1105 or 9002 => new(FailureKind.ConnectionLost, "Its disk or log is full."),

        // Starting, recovering, paused, shutting down, out of memory or workers, throttled, moved.
        701 or 802 or 922 or 927 or 904 or 6005 or 6006 or 9001 or 10928 or 10929 or 17142 or 17187 or 17197 or 18401
            or 40197 or 40501 or 40613 or 49918 or 49919 or 49920 => new(FailureKind.ConnectionLost, string.Empty),

        // Numbers of the network below, positive or negative, and timeouts (-2).
        <= 0 or 2 or 53 or 64 or 121 or 232 or 233 or 258 or 1225 or 1231 or 1232 or 11001
            or (>= 10050 and <= 10065) => new(FailureKind.ConnectionLost, string.Empty),
        _ when failure.Class >= FatalSeverity => new(FailureKind.ConnectionLost, string.Empty),
        _ => new(FailureKind.Permanent, string.Empty),
    };
}
