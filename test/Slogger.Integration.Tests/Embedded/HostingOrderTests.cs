// The order of a hosted application's writes to a key of another shard, while its client still takes a third one for the owner, as in a
// cluster that has just started. The earlier write is on its way there when the client hears who the owner is, and starts a later one.
using System.Globalization;
using System.Net;
using System.Text;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Slogger.Client;
using Slogger.Core.Ownership;
using Slogger.Core.Sessions;
using Slogger.Hosting;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Embedded;

public sealed class HostingOrderTests
{
    private const int Shards = 3, Owner = 1, Other = 2;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(120);

    [Fact]
    public async Task EarlierWriteIsRedirected_LaterOneDoesNotOvertakeIt()
    {
        using var workspace = new Workspace();
        int port = Workspace.FreePort(), ownerPort = Workspace.FreePort(), otherPort = Workspace.FreePort();
        // What the client and the third shard say to each other can be held up.
        using var relay = new TcpRelay(new IPEndPoint(IPAddress.Loopback, otherPort));
        string otherEndpoint = string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{relay.Port}");
        string[] common = ["--metadata", "sqlite:" + workspace.File("metadata.db"), "--shards", "3", "--finder", "exact"];
        using IHost host = HostingTests.Application(port, workspace.File("here"), common);
        await host.StartAsync();
        using var owner = new EmbeddedShardAt(workspace.File("owner"), ownerPort, [.. common, "--shard", "1"]);
        using var other = new EmbeddedShardAt(workspace.File("other"), otherPort, [.. common, "--shard", "2", "--announce", otherEndpoint]);
        try
        {
            await Task.WhenAll(owner.StartAsync(), other.StartAsync());
            var shard = host.Services.GetRequiredService<ISloggerShard>();
            await shard.Ready.WaitAsync(Generous);
            await using LocalSession session = shard.OpenSession();
            string key = KeyOf(Owner, "k"), beside = KeyOf(Owner, "beside"), elsewhere = KeyOf(Other, "elsewhere");
            // All connections are there, and all shards serve.
            await SetAsync(session, elsewhere, "x").WaitAsync(Generous);
            await SetAsync(session, beside, "x").WaitAsync(Generous);

            HashSlot slot = HashSlot.Of(Encoding.ASCII.GetBytes(key));
            Result<bool> first, second;
            long before;
            do
            {
                before = session.Last.Number;
                relay.Cut();
                shard.Client.OwnSlot(slot, otherEndpoint);
                Task<Result<bool>> earlier = SetAsync(session, key, "21");
                shard.Client.OwnSlot(slot, string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{ownerPort}"));
                Task<Result<bool>> later = SetAsync(session, key, "298");
                // Executed behind the later one, had that been sent.
                await SetAsync(session, beside, "y").WaitAsync(Generous);
                relay.Open();
                (first, second) = (await earlier.WaitAsync(Generous), await later.WaitAsync(Generous));
                Assert.Equal([Owner, Owner], [first.Shard.Number, second.Shard.Number]);
                Assert.True(first.Sequence < second.Sequence, $"{second.Sequence} has overtaken {first.Sequence}");
            }
            // The client may have looked up the owner just before the earlier one: then that was not redirected, and has one number.
            while (session.Last.Number == before + 3);

            await session.WaitForCommitAsync().WaitAsync(Generous);
            Assert.True(session.CommittedUpTo >= second.Sequence);
            using RespClient client = await owner.ConnectAsync();
            Assert.Equal("$298", (await client.CallAsync("GET", key)).Compact);
        }
        finally
        {
            await host.StopAsync();
        }
    }

    private static Task<Result<bool>> SetAsync(LocalSession session, string key, string value) =>
        session.SetAsync(Encoding.ASCII.GetBytes(key), Encoding.ASCII.GetBytes(value)).AsTask();

    private static string KeyOf(int shard, string name) =>
        Enumerable.Range(0, 1000).Select(i => string.Create(CultureInfo.InvariantCulture, $"{name}:{i}"))
        .First(k => SlotMap.Even(Shards, HashSlot.Count).Owner(HashSlot.Of(Encoding.ASCII.GetBytes(k))).Number == shard);
}
