// Where the databases differ. Everything else is one implementation over ADO.NET in SQL that all of them share: no upsert
// syntax, no lock hints (a row is locked by updating it), no database clock.
using System.Data.Common;

namespace Slogger.Metadata.Sql;

/// <summary>What a failed call means for the next one.</summary>
internal enum FailureKind
{
    /// <summary>The transaction was certainly rolled back because of another one: repeat it at once.</summary>
    Conflict,

    /// <summary>Not possible now; the connection is good.</summary>
    Unavailable,

    /// <summary>Not possible now; the connection has to be replaced.</summary>
    ConnectionLost,

    /// <summary>A person has to act.</summary>
    Permanent,
}

/// <summary>A provider's failure, classified.</summary>
/// <param name="Kind">What it means.</param>
/// <param name="Advice">What to do about it, a sentence; empty when there is nothing better to say than the provider does.</param>
internal readonly record struct SqlFailure(FailureKind Kind, string Advice);

/// <summary>One kind of database, and the connection data of one of them.</summary>
internal abstract class SqlDialect
{
    /// <summary>The database for people, without a password.</summary>
    public abstract string Description { get; }

    /// <summary>What must appear in no message; null when there is nothing to hide.</summary>
    public virtual string? Secret => null;

    /// <summary>The provider's async methods block the calling thread: calls are moved to the thread pool.</summary>
    public virtual bool IsSynchronous => false;

    /// <summary>Preparing a command pays and is safe.</summary>
    public virtual bool PreparesCommands => true;

    /// <summary>Several statements can be sent at once.</summary>
    public virtual bool Batches => false;

    /// <summary>The statement that begins a transaction, ended by COMMIT or ROLLBACK; null to use the provider's own.</summary>
    public virtual string? BeginStatement => null;

    /// <summary>A query for the names of all tables the program can see in its schema whose names start with "slogger_".</summary>
    public abstract string TableNamesSql { get; }

    /// <summary>A closed connection. Does no I/O.</summary>
    public abstract DbConnection CreateConnection();

    /// <summary>What has to be checked before a connection is opened. Throws <see cref="MetadataException"/>.</summary>
    public virtual void BeforeOpen()
    {
    }

    /// <summary>Makes a fresh connection durable and bounded in time.</summary>
    public abstract Task SetUpAsync(SqlSession session, CancellationToken cancellation);

    /// <summary>See <see cref="IMetadataStore.DoubtsAsync"/>.</summary>
    public virtual Task<IReadOnlyList<string>> DoubtsAsync(SqlSession session, CancellationToken cancellation) =>
        Task.FromResult<IReadOnlyList<string>>([]);

    /// <summary>Looks for damage. Throws <see cref="MetadataException"/>. Called once at initialization.</summary>
    public virtual Task CheckIntegrityAsync(SqlSession session, CancellationToken cancellation) => Task.CompletedTask;

    /// <summary>Inside a transaction: waits for, and keeps out, other programs that create or upgrade the schema.</summary>
    public abstract Task LockSchemaAsync(SqlSession session, CancellationToken cancellation);

    /// <summary>The type of a text column that compares by code units, of at most that many UTF-16 code units.</summary>
    public abstract string TextType(int length);

    /// <summary>The type of a text column without a bound, that is never compared.</summary>
    public virtual string LongTextType => "TEXT";

    /// <summary>Settles a parameter's type where the provider's guess is not good enough.</summary>
    public virtual void Refine(DbParameter parameter)
    {
    }

    /// <summary>The failure is a unique key that exists.</summary>
    public abstract bool IsDuplicateKey(DbException exception);

    /// <summary>Classifies a provider's exception.</summary>
    /// <param name="exception">From opening, or from a command.</param>
    public abstract SqlFailure Classify(Exception exception);

    /// <summary>Called when a connection has failed, so that a pool, where there is one, does not hand it out again.</summary>
    public virtual void Discard(DbConnection connection)
    {
    }

    /// <summary>Whole seconds, at least one: what the servers' providers take.</summary>
    protected static int Seconds(TimeSpan time) => Math.Max(1, (int)Math.Ceiling(time.TotalSeconds));

    /// <summary>Hides the password in a text of the provider.</summary>
    public string Redact(string text) =>
        string.IsNullOrEmpty(Secret) ? text : text.Replace(Secret, "***", StringComparison.Ordinal);

    /// <summary>An exception as an inner one: none at all if it would show the password.</summary>
    public Exception? Inner(Exception exception) =>
        string.IsNullOrEmpty(Secret) || !exception.ToString().Contains(Secret, StringComparison.Ordinal) ? exception : null;
}
