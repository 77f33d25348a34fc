// What a proxy does that finds that its own record cannot be true: it stops, with exit code 70, and says why.
using System.Globalization;
using Microsoft.Data.Sqlite;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class BrokenInvariantTests
{
    private const int BrokenInvariant = 70;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    // Somebody has changed the metadata: committed would be what no log holds.
    [Fact]
    public async Task Cut_BeyondWhatIsDurable_IsToldToNobodyAndEndsTheProxy()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync(), waiting = await deployment.ConnectAsync();
        await client.DoAsync("SET", "k", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "50000")).Items[2].AsInteger());
        const long Far = 1L << 40;
        await using (var sql = new SqliteConnection("Data Source=" + Path.Combine(deployment.DataDirectory, "metadata.db")))
        {
            await sql.OpenAsync(TestContext.Current.CancellationToken);
            await using SqliteCommand change = sql.CreateCommand();
            change.CommandText = string.Create(CultureInfo.InvariantCulture, $"UPDATE slogger_shards SET cut_version = {Far}");
            Assert.Equal(1, await change.ExecuteNonQueryAsync(TestContext.Current.CancellationToken));
        }

        await waiting.SendAsync("SET", "k", "2");
        await waiting.SendAsync("DPR.WAIT", "*", "0");
        try
        {
            while (true) { Assert.InRange((await client.CallAsync("DPR.CUT")).Items[1].AsInteger(), 0, Far - 1); }
        }
        catch (ConnectionLostException)
        {
            // It has stopped.
        }

        Assert.Equal(BrokenInvariant, await deployment.Proxy.ExitAsync(Generous));
        Assert.Contains("The proxy stops at once", deployment.Proxy.Tail(), StringComparison.Ordinal);
    }
}
