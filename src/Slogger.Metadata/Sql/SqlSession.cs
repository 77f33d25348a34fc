// One open connection with its prepared commands and, at times, a transaction. Used by one call at a time. Every statement
// of the store is a constant, so the commands are few and kept for as long as the connection lives.
using System.Data;
using System.Data.Common;

namespace Slogger.Metadata.Sql;

/// <summary>A statement that changes rows.</summary>
internal readonly record struct SqlStatement(string Sql, params (string Name, object Value)[] Parameters);

/// <summary>A query, and who takes its rows.</summary>
internal readonly record struct SqlQuery(string Sql, Action<DbDataReader> Row);

internal sealed class SqlSession(DbConnection connection, SqlDialect dialect) : IAsyncDisposable
{
    /// <summary>How the names of text parameters end that may be longer than any column of a bounded type.</summary>
    public const string Unbounded = "_list";

    private readonly Dictionary<string, DbCommand> commands = new(StringComparer.Ordinal);
    private readonly Dictionary<string, DbBatch> batches = new(StringComparer.Ordinal);
    private DbTransaction? transaction;
    private bool suspect;

    /// <summary>The connection exists.</summary>
    public bool IsOpen => connection.State == ConnectionState.Open;

    /// <summary>The connection can take the next statement.</summary>
    public bool IsGood => IsOpen && !suspect;

    /// <summary>Opens and sets up a connection.</summary>
    public static async Task<SqlSession> OpenAsync(SqlDialect dialect, CancellationToken cancellation)
    {
        dialect.BeforeOpen();
        SqlSession session = new(dialect.CreateConnection(), dialect);
        try
        {
            await session.OpenAsync(cancellation);
            return session;
        }
        catch
        {
            await session.DisposeAsync();
            throw;
        }
    }

    private async Task OpenAsync(CancellationToken cancellation)
    {
        await connection.OpenAsync(cancellation);
        await dialect.SetUpAsync(this, cancellation);
    }

    /// <summary>Runs work in a transaction: committed when it returns true, rolled back when it returns false or throws. What
    /// is thrown is what went wrong first, not what the rollback made of it.</summary>
    public async Task InTransactionAsync(Func<Task<bool>> work, CancellationToken cancellation)
    {
        await BeginAsync(cancellation);
        try
        {
            if (await work())
            {
                await (transaction is null ? ExecuteOnceAsync("COMMIT", cancellation) : transaction.CommitAsync(cancellation));
            }
            else
            {
                await RollBackAsync();
            }
        }
        catch
        {
            await RollBackFailedAsync();
            throw;
        }
        finally
        {
            transaction?.Dispose();
            transaction = null;
        }
    }

    private async Task BeginAsync(CancellationToken cancellation)
    {
        if (dialect.BeginStatement is { } begin)
        {
            await ExecuteOnceAsync(begin, cancellation);
        }
        else
        {
            // The servers' default (read committed) suits the way rows are locked here.
            transaction = await connection.BeginTransactionAsync(cancellation);
        }
    }

    private Task RollBackAsync() => transaction is null
        ? ExecuteOnceAsync("ROLLBACK", CancellationToken.None)
        : transaction.RollbackAsync(CancellationToken.None);

    private async Task RollBackFailedAsync()
    {
        try
        {
            await RollBackAsync();
        }
        catch (Exception exception) when (exception is DbException or InvalidOperationException or IOException)
        {
            // Rolled back already, or the connection is broken. Not knowing which, never use it again: closing rolls back too.
            suspect = true;
        }
    }

    /// <summary>Runs a statement that is not worth keeping prepared.</summary>
    public async Task ExecuteOnceAsync(string sql, CancellationToken cancellation)
    {
        await using DbCommand command = NewCommand(sql);
        command.Transaction = transaction;
        await command.ExecuteNonQueryAsync(cancellation);
    }

    /// <summary>Runs a statement and says how many rows it changed.</summary>
    public async Task<int> ExecuteAsync(string sql, CancellationToken cancellation, params (string Name, object Value)[] parameters)
    {
        DbCommand command = await CommandAsync(sql, parameters, cancellation);
        return await command.ExecuteNonQueryAsync(cancellation);
    }

    /// <summary>Runs statements one after the other, in one exchange with the database where it can, and says how many rows each has
    /// changed.</summary>
    public async Task<IReadOnlyList<int>> ExecuteAllAsync(IReadOnlyList<SqlStatement> statements, CancellationToken cancellation)
    {
        List<int> rows = [];
        if (!dialect.Batches || statements.Count == 0)
        {
            foreach (SqlStatement statement in statements)
            {
                rows.Add(await ExecuteAsync(statement.Sql, cancellation, statement.Parameters));
            }

            return rows;
        }

        await using DbBatch batch = connection.CreateBatch();
        batch.Transaction = transaction;
        foreach (SqlStatement statement in statements)
        {
            DbBatchCommand command = batch.CreateBatchCommand();
            command.CommandText = statement.Sql;
            foreach ((string name, object value) in statement.Parameters)
            {
                command.Parameters.Add(Parameter(command.CreateParameter(), name, value));
            }

            batch.BatchCommands.Add(command);
        }

        // Not prepared: that would be another exchange, and what is done so is done rarely. One alone, too: so all of this is compiled when
        // a process has taken its stream.
        await batch.ExecuteNonQueryAsync(cancellation);
        rows.AddRange(batch.BatchCommands.Select(c => c.RecordsAffected));
        return rows;
    }

    /// <summary>Runs a query and reads all its rows.</summary>
    public async Task<List<T>> QueryAsync<T>(
        string sql, Func<DbDataReader, T> map, CancellationToken cancellation, params (string Name, object Value)[] parameters)
    {
        DbCommand command = await CommandAsync(sql, parameters, cancellation);
        await using DbDataReader reader = await command.ExecuteReaderAsync(cancellation);
        List<T> rows = [];
        while (await reader.ReadAsync(cancellation))
        {
            rows.Add(map(reader));
        }

        return rows;
    }

    /// <summary>Runs queries of the same parameters one after the other, in one exchange with the database where it can, and reads all
    /// their rows.</summary>
    public async Task QueryAllAsync(IReadOnlyList<SqlQuery> queries, CancellationToken cancellation,
        params (string Name, object Value)[] parameters)
    {
        if (!dialect.Batches)
        {
            foreach (SqlQuery query in queries)
            {
                await QueryAsync(
                    query.Sql,
                    row =>
                    {
                        query.Row(row);
                        return true;
                    },
                    cancellation,
                    parameters);
            }

            return;
        }

        DbBatch batch = await BatchAsync(queries, parameters, cancellation);
        await using DbDataReader reader = await batch.ExecuteReaderAsync(cancellation);
        foreach (SqlQuery query in queries)
        {
            while (await reader.ReadAsync(cancellation))
            {
                query.Row(reader);
            }

            await reader.NextResultAsync(cancellation);
        }
    }

    private async Task<DbBatch> BatchAsync(IReadOnlyList<SqlQuery> queries, (string Name, object Value)[] parameters,
        CancellationToken cancellation)
    {
        string text = string.Join(';', queries.Select(q => q.Sql));
        if (batches.TryGetValue(text, out DbBatch? batch))
        {
            foreach (DbBatchCommand command in batch.BatchCommands)
            {
                for (int i = 0; i < parameters.Length; i++)
                {
                    command.Parameters[i].Value = parameters[i].Value;
                }
            }

            batch.Transaction = transaction;
            return batch;
        }

        batch = connection.CreateBatch();
        batch.Transaction = transaction;
        foreach (SqlQuery query in queries)
        {
            DbBatchCommand command = batch.CreateBatchCommand();
            command.CommandText = query.Sql;
            foreach ((string name, object value) in parameters)
            {
                command.Parameters.Add(Parameter(command.CreateParameter(), name, value));
            }

            batch.BatchCommands.Add(command);
        }

        try
        {
            await batch.PrepareAsync(cancellation);
        }
        catch
        {
            await batch.DisposeAsync();
            throw;
        }

        batches.Add(text, batch);
        return batch;
    }

    private async ValueTask<DbCommand> CommandAsync(
        string sql, (string Name, object Value)[] parameters, CancellationToken cancellation)
    {
        if (commands.TryGetValue(sql, out DbCommand? command))
        {
            for (int i = 0; i < parameters.Length; i++)
            {
                command.Parameters[i].Value = parameters[i].Value;
            }

            command.Transaction = transaction;
            return command;
        }

        command = NewCommand(sql);
        command.Transaction = transaction;
        foreach ((string name, object value) in parameters)
        {
            command.Parameters.Add(Parameter(command.CreateParameter(), name, value));
        }

        if (dialect.PreparesCommands)
        {
            try
            {
                await command.PrepareAsync(cancellation);
            }
            catch
            {
                await command.DisposeAsync();
                throw;
            }
        }

        commands.Add(sql, command);
        return command;
    }

    private DbParameter Parameter(DbParameter parameter, string name, object value)
    {
        parameter.ParameterName = name;
        parameter.Value = value;
        parameter.DbType = value switch
        {
            long => DbType.Int64,
            string => DbType.String,
            _ => throw new ArgumentException($"A parameter of type {value.GetType()} is not foreseen.", nameof(value)),
        };
        dialect.Refine(parameter);
        return parameter;
    }

    private DbCommand NewCommand(string sql)
    {
        DbCommand command = connection.CreateCommand();
        command.CommandText = sql;
        return command;
    }

    public async ValueTask DisposeAsync()
    {
        foreach (DbCommand command in commands.Values)
        {
            await command.DisposeAsync();
        }

        foreach (DbBatch batch in batches.Values)
        {
            await batch.DisposeAsync();
        }

        commands.Clear();
        batches.Clear();
        if (!IsGood)
        {
            dialect.Discard(connection);
        }

        await connection.DisposeAsync();
    }
}
