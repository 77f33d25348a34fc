// What a process of two sites says when it cannot start, and that it then leaves everything as it was: once the cause is gone, the next
// start goes on.
using System.Net;
using System.Net.Sockets;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Sites;

public sealed class SiteStartTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(90);

    [Theory]
    [InlineData(false, "stream/seed.json")]
    [InlineData(true, "faster/followed.json")]
    public async Task File_OfABackupIsDamaged_IsNamed_AndThePlaceIsAsItWas(bool isEmbedded, string name)
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 1, 1, usesPostgres: false, isEmbedded, TimeSpan.Zero);
        await sites.StartAsync();
        Site backup = sites.Backup;
        // In order, so that an embedded store has noted where it stands.
        Assert.Equal(0, await backup.TerminateAsync(0));
        string path = Path.Combine([backup.Data(0), .. name.Split('/')]);
        byte[] whole = await File.ReadAllBytesAsync(path);
        await File.WriteAllBytesAsync(path, whole.AsMemory(0, whole.Length / 2));
        backup.Launch(0);
        Assert.Equal(1, await backup.ExitAsync(0, Generous));
        Assert.Contains($"{Path.GetFileName(path)} is damaged", backup.Tail(0), StringComparison.Ordinal);
        Assert.DoesNotContain("   at ", backup.Tail(0), StringComparison.Ordinal);

        await File.WriteAllBytesAsync(path, whole);
        await backup.StartAsync(0);
        await sites.FollowingAsync();
    }

    [Fact]
    public async Task SiteListen_OfAPrimaryIsTaken_IsSaid_AndItsRedisEnds()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, TimeSpan.Zero);
        Site primary = sites.Primary;
        using (var taken = new TcpListener((IPEndPoint)primary.SiteEndpoint(0)))
        {
            taken.Start();
            primary.Launch(0);
            Assert.Equal(1, await primary.ExitAsync(0, Generous));
            Assert.Contains("cannot listen on", primary.Tail(0), StringComparison.Ordinal);
            Assert.Null(SupervisedRedis.Find(primary.Data(0)));
        }
        await sites.StartAsync();
    }
}
