// The packages that the tool ships.
using Slogger.Tests.Packages;

namespace Slogger.Cli.Tests;

public sealed class PackagesTests
{
    [Fact]
    public void Tool_ShipsNoPackageThatIsKnownToBeFlawed()
    {
        IReadOnlyList<(string Package, string Version)> shipped =
            KnownBad.PackagesOf(Path.Combine(AppContext.BaseDirectory, "slogger.deps.json"));
        Assert.Contains(shipped, p => p.Package == "Microsoft.Data.SqlClient");
        Assert.Empty(KnownBad.Among(shipped));
    }

    [Theory]
    [InlineData("Microsoft.Data.SqlClient", "2.1.4", true)]
    [InlineData("Microsoft.Data.SqlClient", "2.1.7", false)]
    [InlineData("microsoft.data.sqlclient", "5.1.2", true)]
    [InlineData("Microsoft.Data.SqlClient", "5.1.3-preview1", false)]
    [InlineData("Microsoft.Data.SqlClient", "7.1.0", false)]
    [InlineData("Npgsql", "8.0.2", true)]
    [InlineData("SQLite", "3.53.4", false)]
    public void List_FindsTheVersionsWithTheFlaw(string package, string version, bool isBad) =>
        Assert.Equal(isBad, KnownBad.Among([(package, version)]).Any());
}
