// A client never has more rights through the proxy than it would have directly.
using System.Net;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

public sealed class AccessTests
{
    private const string Password = "correct horse";

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task Password_Needed_EveryClientMustGiveIt(Target target)
    {
        await using var server = await ServerAsync(target);
        using var first = await RespClient.ConnectAsync(server.Endpoint);
        Assert.StartsWith("-NOAUTH", (await first.CallAsync("SET", "a", "1")).Compact, StringComparison.Ordinal);
        Assert.StartsWith("-NOAUTH", (await first.CallAsync("HELLO", "3")).Compact, StringComparison.Ordinal);
        Assert.StartsWith("-WRONGPASS", (await first.CallAsync("AUTH", "wrong")).Compact, StringComparison.Ordinal);
        Assert.StartsWith("-NOAUTH", (await first.CallAsync("GET", "a")).Compact, StringComparison.Ordinal);
        Assert.Equal("+OK", (await first.CallAsync("AUTH", Password)).Compact);
        Assert.Equal("+OK", (await first.CallAsync("SET", "a", "1")).Compact);

        using var second = await RespClient.ConnectAsync(server.Endpoint);
        Assert.StartsWith("-NOAUTH", (await second.CallAsync("GET", "a")).Compact, StringComparison.Ordinal);
        Assert.Equal(RespKind.Map, (await second.CallAsync("HELLO", "3", "AUTH", "default", Password)).Kind);
        Assert.Equal("$1", (await second.CallAsync("GET", "a")).Compact);
    }

    [Theory]
    [MemberData(nameof(Servers.Targets), MemberType = typeof(Servers))]
    public async Task AclUser_LimitedRights_AreKeptAndChangesTakeEffectAtOnce(Target target)
    {
        await using var server = await ServerAsync(target);
        using var admin = await RespClient.ConnectAsync(server.Endpoint);
        await admin.DoAsync("AUTH", Password);
        await admin.DoAsync("ACL", "SETUSER", "bob", "on", ">builder", "~b:*", "+get", "+set", "+ping");
        using var bob = await RespClient.ConnectAsync(server.Endpoint);
        Assert.Equal("+OK", (await bob.CallAsync("AUTH", "bob", "builder")).Compact);
        Assert.Equal("+OK", (await bob.CallAsync("SET", "b:1", "x")).Compact);
        Assert.StartsWith("-NOPERM", (await bob.CallAsync("SET", "a", "x")).Compact, StringComparison.Ordinal);
        Assert.StartsWith("-NOPERM", (await bob.CallAsync("DEL", "b:1")).Compact, StringComparison.Ordinal);
        Assert.Equal("+OK", (await admin.CallAsync("SET", "a", "y")).Compact);

        await admin.DoAsync("ACL", "SETUSER", "bob", "-set");
        Assert.StartsWith("-NOPERM", (await bob.CallAsync("SET", "b:1", "x")).Compact, StringComparison.Ordinal);
        await admin.DoAsync("ACL", "DELUSER", "bob");
        await Assert.ThrowsAsync<ConnectionLostException>(() => bob.CallAsync("GET", "b:1"));
    }

    [Fact]
    public async Task AclUser_DeletedDirectlyAtRedis_LosesItsRightsWithinSeconds()
    {
        await using var server = await ServerAsync(Target.Proxy);
        using var direct = await RespClient.ConnectAsync(server.RedisEndpoint);
        await direct.DoAsync("AUTH", Password);
        await direct.DoAsync("ACL", "SETUSER", "bob", "on", ">builder", "~*", "+@all");
        using var bob = await RespClient.ConnectAsync(server.Endpoint);
        await bob.DoAsync("AUTH", "bob", "builder");
        await bob.DoAsync("SET", "k", "1");
        await direct.DoAsync("ACL", "DELUSER", "bob");
        await Eventually.AsyncTrue("bob is out", TimeSpan.FromSeconds(20), async () =>
        {
            try
            {
                return (await bob.CallAsync("GET", "k")).IsError;
            }
            catch (ConnectionLostException)
            {
                return true;
            }
        });
    }

    private static async Task<Server> ServerAsync(Target target)
    {
        var workspace = new Workspace();
        if (target == Target.Raw)
        {
            var redis = await RedisProcess.StartAsync(workspace.Root, "--requirepass", Password);
            return new(workspace, redis, null);
        }

        var proxy = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { RedisPassword = Password });
        try
        {
            await proxy.StartAsync();
            return new(workspace, null, proxy);
        }
        catch
        {
            await proxy.DisposeAsync();
            workspace.Dispose();
            throw;
        }
    }

    private sealed class Server(Workspace workspace, RedisProcess? redis, ProxyDeployment? proxy) : IAsyncDisposable
    {
        public EndPoint Endpoint => redis?.Endpoint ?? proxy!.Endpoint;

        public EndPoint RedisEndpoint => redis?.Endpoint ?? proxy!.Redis.Endpoint;

        public async ValueTask DisposeAsync()
        {
            redis?.Dispose();
            if (proxy is not null)
            {
                await proxy.DisposeAsync();
            }

            workspace.Dispose();
        }
    }
}
