// A Redis that asks for passwords: clients must give theirs, the proxy has its own, and versions are committed all the same.
// Who logs in as the user that the proxy is shares its connection; who does not never does.
using System.Net;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

public sealed class CredentialTests
{
    private const string Password = "correct-horse";
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("log")]
    [InlineData("bgsave")]
    public async Task Password_Needed_CommitsAndRecoversExactly(string commit)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace,
            new ProxySetup(Attached: true) { RedisPassword = Password, Commit = commit });
        await deployment.StartAsync();
        await CommitManyAsync(deployment, client => client.DoAsync("AUTH", Password));
        Assert.DoesNotContain(Password, deployment.Proxy.Tail(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("log", false)]
    [InlineData("log", true)]
    [InlineData("bgsave", false)]
    public async Task SupervisedRedis_AsksForThePassword_AndIsAdoptedAndRestored(string commit, bool ownUser)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            RedisPassword = Password,
            Commit = commit,
            Options = ownUser ? ["--redis-user", "slogger"] : [],
        });
        await deployment.StartAsync();
        string directory = Path.Combine(deployment.DataDirectory, "redis");
        if (!OperatingSystem.IsWindows())
        {
            Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(Path.Combine(directory, "redis.conf")));
        }
        Assert.DoesNotContain(Password, await File.ReadAllTextAsync($"/proc/{SupervisedRedis.Find(deployment.DataDirectory)}/cmdline"),
            StringComparison.Ordinal);
        using (var direct = await SupervisedRedis.ConnectAsync(deployment.DataDirectory))
        {
            // With a user of the proxy's own everybody else is as free as before.
            Assert.Equal(ownUser, !(await direct.CallAsync("PING")).IsError);
            Assert.True((await direct.CallAsync("AUTH", "slogger", "wrong")).IsError);
        }
        Task Login(RespClient client) => ownUser ? Task.CompletedTask : client.DoAsync("AUTH", Password);
        await CommitManyAsync(deployment, Login);

        int? redis = SupervisedRedis.Find(deployment.DataDirectory);
        deployment.Proxy.KillHard();
        await deployment.StartProxyAsync();
        Assert.Equal(redis, SupervisedRedis.Find(deployment.DataDirectory));
        using var client = await deployment.ConnectAsync();
        await Login(client);
        Assert.Equal("$201", (await client.CallAsync("GET", "n0")).Compact);
        Assert.DoesNotContain(Password, deployment.Tail(), StringComparison.Ordinal);
    }

    [Theory]
    // As docs/operate/install.md says it.
    [InlineData("log", "resetchannels", "&__slogger:*", "+ping", "+info", "+role", "+psync", "+replconf", "+replicaof", "+spublish",
        "+config|get", "+config|set", "+client|no-evict", "+client|info", "+client|kill")]
    [InlineData("bgsave", "+@all", "~*", "&*")]
    public async Task OwnUser_OfTheProxy_IsAllThatItNeeds(string commit, params string[] rights)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true)
        {
            Commit = commit,
            ProxyPassword = "own",
            Options = ["--redis-user", "slogger"],
            RedisOptions = Users(workspace, $"user default on >{Password} ~* &* +@all", $"user slogger on >own {string.Join(' ', rights)}"),
        });
        await deployment.StartAsync();
        await CommitManyAsync(deployment, client => client.DoAsync("AUTH", Password));
    }

    [Fact]
    public async Task DefaultUser_MayNotSendMarkers_NobodySharesAndVersionsAreCommitted()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true)
        {
            ProxyPassword = "own",
            Options = ["--redis-user", "slogger"],
            RedisOptions = Users(workspace, "user default on nopass ~* &* +@all -spublish", "user slogger on >own +@all ~* &*"),
        });
        await deployment.StartAsync();
        await CommitManyAsync(deployment, _ => Task.CompletedTask);
    }

    [Fact]
    public async Task DefaultUser_LosesAndRegainsTheRight_ClientsGoOn()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true)
        {
            ProxyPassword = "own",
            Options = ["--redis-user", "slogger"],
            RedisOptions = Users(workspace, "user default on nopass ~* &* +@all", "user slogger on >own +@all ~* &*"),
        });
        await deployment.StartAsync();
        using var admin = await RespClient.ConnectAsync(deployment.Redis.Endpoint);
        await admin.DoAsync("AUTH", "slogger", "own");
        using var client = await deployment.ConnectAsync();
        for (int round = 0; round < 4; round++)
        {
            for (int i = 0; i < 50; i++) { await client.DoAsync("INCR", "n"); }
            Assert.Equal(1, (await WaitAsync(client)).Items[2].AsInteger());
            await admin.DoAsync("ACL", "SETUSER", "default", round % 2 == 0 ? "-spublish" : "+spublish");
        }
        Assert.Equal("$200", (await client.CallAsync("GET", "n")).Compact);
    }

    [Fact]
    public async Task Password_SetAndTakenAwayWhileRunning_CommitsGoOn()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true)
        {
            ProxyPassword = "own",
            Options = ["--redis-user", "slogger"],
            RedisOptions = Users(workspace, "user default on nopass ~* &* +@all", "user slogger on >own +@all ~* &*"),
        });
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "a", "1");
        await client.DoAsync("CONFIG", "SET", "requirepass", Password);
        using var second = await deployment.ConnectAsync();
        Assert.StartsWith("-NOAUTH", (await second.CallAsync("GET", "a")).Compact, StringComparison.Ordinal);
        await second.DoAsync("AUTH", Password);
        await second.DoAsync("SET", "a", "2");
        Assert.Equal(1, (await WaitAsync(second)).Items[2].AsInteger());
        await second.DoAsync("CONFIG", "SET", "requirepass", "");
        using var third = await deployment.ConnectAsync();
        await third.DoAsync("SET", "a", "3");
        Assert.Equal(1, (await WaitAsync(third)).Items[2].AsInteger());
        Assert.Equal(1, (await WaitAsync(client)).Items[2].AsInteger());
    }

    [Theory]
    [InlineData("log")]
    [InlineData("none")]
    public async Task LoggedInAsTheProxysUser_OrdinaryCommandsAreShared_TheRestIsTheClientsOwn(string commit)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace,
            new ProxySetup(Attached: true) { RedisPassword = Password, Commit = commit });
        await deployment.StartAsync();
        using var direct = await RespClient.ConnectAsync(deployment.Redis.Endpoint);
        await direct.DoAsync("AUTH", Password);
        await direct.DoAsync("ACL", "SETUSER", "bob", "on", ">builder", "~b:*", "+@all");
        using var first = await deployment.ConnectAsync();
        using var second = await deployment.ConnectAsync();
        using var bob = await deployment.ConnectAsync();
        using var nobody = await deployment.ConnectAsync();
        await first.DoAsync("AUTH", Password);
        await second.DoAsync("HELLO", "3", "AUTH", "default", Password);
        await bob.DoAsync("AUTH", "bob", "builder");
        for (int i = 0; i < 20; i++)
        {
            await first.DoAsync("INCR", "n");
            await second.DoAsync("INCR", "n");
            await bob.DoAsync("INCR", "b:n");
            Assert.StartsWith("-NOPERM", (await bob.CallAsync("INCR", "n")).Compact, StringComparison.Ordinal);
            Assert.StartsWith("-NOAUTH", (await nobody.CallAsync("INCR", "n")).Compact, StringComparison.Ordinal);
            Assert.StartsWith("-WRONGPASS", (await nobody.CallAsync("AUTH", "wrong")).Compact, StringComparison.Ordinal);
        }

        // On the connections on which they logged in nothing has been done since; bob has done all on his.
        string[] own = (await direct.CallAsync("CLIENT", "LIST")).Text.Split('\n');
        // (The other one that asked last for AUTH was refused.)
        Assert.Equal(2, own.Count(line => line.Contains("cmd=auth ", StringComparison.Ordinal)
            && line.Contains("user=default", StringComparison.Ordinal)));
        Assert.Single(own, line => line.Contains("cmd=hello ", StringComparison.Ordinal)
            && line.Contains("user=default", StringComparison.Ordinal));
        Assert.Single(own, line => line.Contains("cmd=incr ", StringComparison.Ordinal)
            && line.Contains("user=bob", StringComparison.Ordinal));

        // One after the other, wherever each is done.
        var expected = new List<string>();
        for (int i = 0; i < 50; i++)
        {
            foreach (string[] request in new string[][] { ["INCR", "m"], ["MULTI"], ["INCR", "m"], ["EXEC"], ["INCR", "m"] })
            {
                await first.SendAsync(request);
            }
            expected.AddRange([$":{(3 * i) + 1}", "+OK", "+QUEUED", $"[:{(3 * i) + 2}]", $":{(3 * i) + 3}"]);
        }
        var replies = new List<string>();
        for (int i = 0; i < expected.Count; i++) { replies.Add((await first.ReadAsync()).Compact); }
        Assert.Equal(expected, replies);
        if (commit == "log") { Assert.Equal(1, (await WaitAsync(first)).Items[2].AsInteger()); }

        // Whoever it becomes, it is only that.
        await second.DoAsync("AUTH", "bob", "builder");
        Assert.StartsWith("-NOPERM", (await second.CallAsync("GET", "n")).Compact, StringComparison.Ordinal);
        await first.DoAsync("RESET");
        Assert.StartsWith("-NOAUTH", (await first.CallAsync("GET", "n")).Compact, StringComparison.Ordinal);
        await first.DoAsync("AUTH", Password);
        Assert.Equal("$40", (await first.CallAsync("GET", "n")).Compact);

        // No password any more: what is shared is the same user's. And a new one, set again.
        await direct.DoAsync("CONFIG", "SET", "requirepass", "");
        await Eventually.AsyncTrue("nobody needs a password", Generous, async () =>
        {
            using var free = await deployment.ConnectAsync();
            return !(await free.CallAsync("GET", "n")).IsError;
        });
        await direct.DoAsync("CONFIG", "SET", "requirepass", Password);
        await Eventually.AsyncTrue("everybody needs a password", Generous, async () =>
        {
            using var free = await deployment.ConnectAsync();
            return (await free.CallAsync("GET", "n")).IsError;
        });
        Assert.Equal("$40", (await first.CallAsync("GET", "n")).Compact);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task LoggedInAndKnowsOfVersions_IsToldWhatSurvived_AndStaysWhoItIs(bool attached)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: attached) { RedisPassword = Password });
        await deployment.StartAsync();
        using var idle = await deployment.ConnectAsync();
        using var busy = await deployment.ConnectAsync();
        foreach (RespClient client in (RespClient[])[idle, busy])
        {
            await client.DoAsync("AUTH", Password);
            await client.DoAsync("DPR.WORLDLINE");
            for (int i = 0; i < 10; i++) { await client.DoAsync("INCR", "n"); }
            Assert.Equal(1, (await WaitAsync(client)).Items[2].AsInteger());
        }

        for (int round = 1; round <= 2; round++)
        {
            await deployment.KillRedisAsync();
            // Asked while the store is away, and after.
            Task<RespValue> asked = busy.CallAsync("GET", "n");
            await deployment.RecoverAsync();
            RespValue[] notices = [await asked, await idle.CallAsync("GET", "n")];
            Assert.All(notices, n => Assert.StartsWith($"-ROLLBACK worldline={round + 1} survived=", n.Compact, StringComparison.Ordinal));
            Assert.Equal("+OK", (await busy.ResumeAsync(notices[0])).Compact);
            Assert.Equal("+OK", (await idle.ResumeAsync(notices[1])).Compact);
            foreach (RespClient client in (RespClient[])[idle, busy])
            {
                await client.DoAsync("MULTI");
                await client.DoAsync("INCR", "n");
                await client.DoAsync("EXEC");
                Assert.Equal("$default", (await client.CallAsync("ACL", "WHOAMI")).Compact);
                Assert.Equal(1, (await WaitAsync(client)).Items[2].AsInteger());
            }
            Assert.Equal($"${20 + (2 * round)}", (await idle.CallAsync("GET", "n")).Compact);
        }

        // Nobody is logged in again whose connection Redis has closed.
        string id = (await busy.CallAsync("CLIENT", "ID")).Text;
        using var other = await deployment.ConnectAsync();
        await other.DoAsync("AUTH", Password);
        string[] listed = (await other.CallAsync("CLIENT", "LIST")).Text.Split('\n');
        foreach (RespClient client in (RespClient[])[idle, busy, other])
        {
            Assert.Single(listed, l => l.Contains(AddressOf(client), StringComparison.Ordinal));
        }
        Assert.Contains(listed, l => l.StartsWith($"id={id}{AddressOf(busy)}", StringComparison.Ordinal));
        Assert.Equal(":1", (await other.CallAsync("CLIENT", "KILL", "ID", id)).Compact);
        Assert.True(await busy.IsClosedWithinAsync(Generous));
        await idle.DoAsync("INCR", "n");

        static string AddressOf(RespClient client) => $" addr=127.0.0.1:{((IPEndPoint)client.LocalEndPoint!).Port} ";
    }

    [Fact]
    public async Task LoggedInAndSharing_RedisClosesIdleConnections_ItsOwnIsKeptAsLongAsItIsActive()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { RedisPassword = Password });
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("AUTH", Password);
        await client.DoAsync("CONFIG", "SET", "timeout", "1");
        for (int i = 0; i < 40; i++)
        {
            await client.DoAsync("INCR", "n");
            await Task.Delay(100);
        }
        await client.DoAsync("MULTI");
        await client.DoAsync("INCR", "n");
        Assert.Equal("[:41]", (await client.CallAsync("EXEC")).Compact);
    }

    [Fact]
    public async Task ProxysUser_IsAnother_WhoLogsInAsItShares_AndIsOutWithIt()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true)
        {
            ProxyPassword = "own",
            Options = ["--redis-user", "app"],
            RedisOptions = Users(workspace, $"user default on >{Password} ~* &* +@all", "user app on >own +@all ~* &*"),
        });
        await deployment.StartAsync();
        using var direct = await RespClient.ConnectAsync(deployment.Redis.Endpoint);
        await direct.DoAsync("AUTH", Password);
        using var app = await deployment.ConnectAsync();
        using var other = await deployment.ConnectAsync();
        await app.DoAsync("AUTH", "app", "own");
        await other.DoAsync("AUTH", Password);
        for (int i = 0; i < 20; i++)
        {
            await app.DoAsync("INCR", "n");
            await other.DoAsync("INCR", "n");
        }
        string[] own = (await direct.CallAsync("CLIENT", "LIST")).Text.Split('\n');
        Assert.Single(own, line => line.Contains("cmd=auth ", StringComparison.Ordinal)
            && line.Contains("user=app", StringComparison.Ordinal));
        Assert.Equal("$app", (await app.CallAsync("ACL", "WHOAMI")).Compact);
        Assert.Equal(1, (await WaitAsync(other)).Items[2].AsInteger());

        // Its rights go at once, and with the user it goes itself.
        await direct.DoAsync("ACL", "SETUSER", "app", "-get");
        Assert.StartsWith("-NOPERM", (await app.CallAsync("GET", "n")).Compact, StringComparison.Ordinal);
        await direct.DoAsync("ACL", "DELUSER", "app");
        await Eventually.AsyncTrue("app is out", Generous, async () =>
        {
            try
            {
                return (await app.CallAsync("INCR", "n")).IsError;
            }
            catch (ConnectionLostException)
            {
                return true;
            }
        });
    }

    private static string[] Users(Workspace workspace, params string[] lines)
    {
        File.WriteAllLines(workspace.File("users.acl"), lines);
        return ["--aclfile", workspace.File("users.acl")];
    }

    // Many clients at once, each on a connection of its own; then Redis is killed: what was committed is there.
    private static async Task CommitManyAsync(ProxyDeployment deployment, Func<RespClient, Task> login)
    {
        var clients = new List<RespClient>();
        try
        {
            for (int i = 0; i < 8; i++)
            {
                clients.Add(await deployment.ConnectAsync());
                await login(clients[i]);
            }
            await Task.WhenAll(clients.Select(async (client, index) =>
            {
                for (int i = 0; i < 200; i++) { await client.DoAsync("INCR", $"n{index}"); }
                Assert.Equal(1, (await WaitAsync(client)).Items[2].AsInteger());
            }));
        }
        finally
        {
            foreach (RespClient client in clients) { client.Dispose(); }
        }
        await deployment.KillRedisAsync();
        if (deployment.IsAttached) { await deployment.Redis.RestartAsync(); }
        await Eventually.AsyncTrue("the proxy serves again\n" + deployment.Tail(), Generous, async () =>
        {
            try
            {
                using var client = await deployment.ConnectAsync();
                await login(client);
                return (await client.CallAsync("GET", "n7")).Compact == "$200";
            }
            catch (Exception e) when (e is ConnectionLostException or InvalidOperationException)
            {
                return false;
            }
        });
        using var after = await deployment.ConnectAsync();
        await login(after);
        for (int i = 0; i < 8; i++) { Assert.Equal("$200", (await after.CallAsync("GET", $"n{i}")).Compact); }
        await after.DoAsync("INCR", "n0");
        Assert.Equal(1, (await WaitAsync(after)).Items[2].AsInteger());
    }

    private static async Task<RespValue> WaitAsync(RespClient client)
    {
        await client.SendAsync("DPR.WAIT", "*", "50000");
        return await client.ReadAsync(Generous);
    }
}
