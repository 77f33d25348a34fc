// SQL Server: the conformance tests when SLOGGER_TEST_SQLSERVER holds a connection string of an empty database of the
// tests' own (its slogger_ tables are dropped); and what can be tested without a server.
using Slogger.Metadata.Sql;
using Slogger.Metadata.Tests.Fixtures;
using static Slogger.Metadata.Tests.Fixtures.Common;

namespace Slogger.Metadata.Tests;

public sealed class SqlServerConformanceTests : ConformanceTests
{
    private static readonly string? ConnectionString = Environment.GetEnvironmentVariable("SLOGGER_TEST_SQLSERVER");

    protected override async Task<string> FreshSpecAsync()
    {
        Assert.SkipWhen(string.IsNullOrEmpty(ConnectionString), "SLOGGER_TEST_SQLSERVER is not set.");
        SqlServerDialect dialect = new(ConnectionString!, new());
        await using SqlSession session = await SqlSession.OpenAsync(dialect, default);
        foreach (string table in await session.QueryAsync(dialect.TableNamesSql, r => r.GetString(0), default))
        {
            await session.ExecuteOnceAsync($"DROP TABLE [{table}]", default);
        }

        return "sqlserver:" + ConnectionString;
    }
}

public sealed class SqlServerTests
{
    [Fact]
    public async Task AnyCall_NobodyListens_IsUnavailable()
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(
            "sqlserver:Server=127.0.0.1,9;Database=d;User Id=u;Password=s3cret-Pass;Connect Timeout=1");
        MetadataUnavailableException refused = await Assert.ThrowsAsync<MetadataUnavailableException>(() => store.InitializeAsync());
        AssertHides(refused, "s3cret-Pass");
        Assert.Contains("sqlserver:127.0.0.1,9/d", refused.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<MetadataUnavailableException>(() => store.InitializeAsync());
    }
}
