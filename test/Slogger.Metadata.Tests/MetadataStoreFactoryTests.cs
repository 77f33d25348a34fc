// Specs as people write them, right and wrong.
using Slogger.Metadata.Sql;
using Slogger.Metadata.Tests.Fixtures;

namespace Slogger.Metadata.Tests;

public sealed class MetadataStoreFactoryTests
{
    [Theory]
    [InlineData("sqlite:/var/lib/m.db", "sqlite:/var/lib/m.db")]
    [InlineData("SQLite: /var/lib/a:b.db", "sqlite:/var/lib/a:b.db")]
    [InlineData("postgres:Host=h;Database=d;Username=u;Password=topsecret", "postgres:h:5432/d")]
    [InlineData("postgresql:Host=h1,h2;Port=6000;Database=d;Username=u;Password=topsecret", "postgres:h1,h2:6000/d")]
    [InlineData("sqlserver:Server=h,1;Database=d;User Id=u;Password=topsecret", "sqlserver:h,1/d")]
    public async Task Create_GoodSpec_DescribesItWithoutPassword(string spec, string description)
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(spec);
        Assert.Equal(description, store.Description);
    }

    [Theory]
    [InlineData("")]
    [InlineData("topsecret")]
    [InlineData("mysql:Host=h;Password=topsecret")]
    [InlineData("sqlite:")]
    [InlineData("sqlite::memory:")]
    [InlineData("postgres: ")]
    [InlineData("postgres://u:topsecret@h/d")]
    [InlineData("postgres:Password=topsecret")]
    [InlineData("postgres:Host=h;Password=x;topsecret")]
    [InlineData("postgres:Host=h;Password=x;topsecret=1")]
    [InlineData("postgres:Host=h;Port=topsecret")]
    [InlineData("sqlserver:Server=h;Password=x;topsecret=1")]
    [InlineData("sqlserver:Server=h;Password=x;Connect Timeout=topsecret")]
    [InlineData("sqlserver:Password=topsecret")]
    public void Create_BadSpec_HelpsWithoutQuotingIt(string spec)
    {
        ArgumentException refused = Assert.Throws<ArgumentException>(() => MetadataStoreFactory.Create(spec));
        Assert.Contains(MetadataStoreFactory.SpecHelp, refused.Message, StringComparison.Ordinal);
        Common.AssertHides(refused, "topsecret");
    }

    [Fact]
    public void Redact_PasswordInAProvidersText_IsHidden()
    {
        PostgresDialect dialect = new("Host=h;Username=u;Password=topsecret", new());
        Assert.Equal("login with *** failed", dialect.Redact("login with topsecret failed"));
        Assert.Null(dialect.Inner(new InvalidOperationException("topsecret")));
        Assert.NotNull(dialect.Inner(new InvalidOperationException("harmless")));
    }
}
