// What an administrator may change through the proxy, and what is refused because it would cut the proxy off: a table of both. After each
// request Redis is made to end every connection, so that what would keep the proxy from coming back shows.
using System.Diagnostics;
using System.Net;
using Slogger.Core.Shards;
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class LockOutTests(LockOutTests.Files files) : IClassFixture<LockOutTests.Files>
{
    private const string Password = "own";
    private const string Hash = "5b3975651c3cab92d044c096dc30a1c2d9525497457472de48c51ecb363d1f4a";

    /// <summary>How Redis is reached, and as whom.</summary>
    public enum Way
    {
        /// <summary>TCP, as a user of the proxy's own.</summary>
        OwnUser,

        /// <summary>TCP, as the default user, who needs no password.</summary>
        Default,

        /// <summary>TCP, as the default user, with its password.</summary>
        DefaultWithPassword,

        /// <summary>TCP, as the default user, with a password that it does not need.</summary>
        DefaultWithNeedlessPassword,

        /// <summary>TCP to a name, as the default user, who needs no password.</summary>
        Localhost,

        /// <summary>A Unix socket, as a user of the proxy's own.</summary>
        Unix,

        /// <summary>TLS, as the default user.</summary>
        Tls,

        /// <summary>TCP to an address that is not loopback, as the default user, who needs no password.</summary>
        Elsewhere,

        /// <summary>The same, as a user of the proxy's own, where the default user is off.</summary>
        ElsewhereOwnUser,

        /// <summary>The same, where the default user has a password, and Redis is in protected mode.</summary>
        ElsewhereProtected,
    }

    public sealed class Files : IDisposable
    {
        public Certificates Certificates { get; } = new();

        public void Dispose() => Certificates.Dispose();
    }

    public static TheoryData<Way, bool, string> Requests
    {
        get
        {
            var data = new TheoryData<Way, bool, string>();
            void Refused(Way way, params string[] requests) { foreach (string request in requests) { data.Add(way, true, request); } }
            void Allowed(Way way, params string[] requests) { foreach (string request in requests) { data.Add(way, false, request); } }
            Refused(Way.OwnUser,
                "CONFIG SET port 0", "CONFIG SET hz 20 PORT 1", "CONFIG SET bind 127.0.0.2", "CONFIG SET maxclients 8",
                    "CONFIG SET maxclients 1",
                "ACL DELUSER slogger", "ACL DELUSER nobody slogger", "ACL LOAD", "ACL SETUSER slogger off", "ACL SETUSER slogger RESET",
                    "ACL SETUSER slogger resetpass",
                "ACL SETUSER slogger <own", $"ACL SETUSER slogger !{Hash}", "ACL SETUSER slogger +get -@all",
                    "ACL SETUSER slogger nocommands", "ACL SETUSER slogger -psync",
                "ACL SETUSER slogger -config|set", "ACL SETUSER slogger -@dangerous", "ACL SETUSER slogger resetchannels",
                    "ACL SETUSER slogger resetkeys");
            Allowed(Way.OwnUser,
                "CONFIG SET port {port}", "CONFIG SET bind 127.0.0.1", "CONFIG SET maxclients 5000", "CONFIG SET requirepass other",
                    "CONFIG SET timeout 1", "CONFIG SET protected-mode yes",
                "CONFIG SET repl-timeout 60", "CONFIG SET repl-ping-replica-period 1", "CONFIG SET tls-port 0",
                    "CONFIG SET maxmemory-clients 100mb", "CONFIG SET repl-backlog-size 16384",
                "ACL SETUSER slogger >next", "ACL SETUSER slogger <other", "ACL SETUSER slogger -flushall", "ACL SETUSER slogger on",
                    "ACL SETUSER default off", "ACL SETUSER default -@all +ping",
                "ACL DELUSER nobody", "CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE replica", "CLIENT KILL USER slogger",
                    "CLIENT KILL USER slogger SKIPME no", "CLIENT NO-EVICT off", "CLIENT PAUSE 10",
                "CONFIG REWRITE", "DEBUG SLEEP 0.1");
            Refused(Way.Default, "CONFIG SET port 0", "CONFIG SET requirepass x", "ACL SETUSER default >x", $"ACL SETUSER default #{Hash}",
                "ACL SETUSER default off", "ACL SETUSER default resetpass",
                "ACL SETUSER default -spublish", "ACL SETUSER default reset on nopass +@all");
            Allowed(Way.Default, "ACL SETUSER bob on >x +@all ~*", "ACL SETUSER default -flushall", "ACL SETUSER bob off",
                "ACL DELUSER bob", "ACL SETUSER default on", "ACL SETUSER default nopass");
            Refused(Way.DefaultWithPassword, "CONFIG SET requirepass other", "ACL SETUSER default <own", "ACL SETUSER default resetpass");
            Allowed(Way.DefaultWithPassword, "CONFIG SET requirepass own", "ACL SETUSER default >other", "ACL SETUSER default nopass");
            Refused(Way.DefaultWithNeedlessPassword, "CONFIG SET requirepass other", "ACL SETUSER default >other");
            Allowed(Way.DefaultWithNeedlessPassword, "CONFIG SET requirepass own", "ACL SETUSER default >own",
                $"ACL SETUSER default #{Hash}");
            Allowed(Way.DefaultWithPassword, "CONFIG SET requirepass ");
            Allowed(Way.DefaultWithNeedlessPassword, "CONFIG SET requirepass ");
            Allowed(Way.Default, "CONFIG SET requirepass ");
            Refused(Way.OwnUser, "CONFIG SET bind ", "CONFIG SET bind ::1", "CONFIG SET bind ::*", "CONFIG SET bind 127.0.0.2;-::1",
                "CONFIG SET bind redis.invalid");
            Allowed(Way.OwnUser, "CONFIG SET bind localhost", "CONFIG SET bind -::1;127.0.0.1", "CONFIG SET bind 127.0.0.2;-127.0.0.1");
            Refused(Way.Localhost, "CONFIG SET bind 127.0.0.2", "CONFIG SET bind ::1");
            Allowed(Way.Localhost, "CONFIG SET bind 127.0.0.1", "CONFIG SET bind LOCALHOST");
            Refused(Way.Unix, "CONFIG SET maxclients 8", "ACL SETUSER slogger off");
            Allowed(Way.Unix, "CONFIG SET port 0", "CONFIG SET bind 127.0.0.2");
            Refused(Way.Tls, "CONFIG SET tls-port 0", "CONFIG SET tls-ca-cert-file {other}", "CONFIG SET tls-auth-clients yes",
                "CONFIG SET bind 127.0.0.2");
            Allowed(Way.Tls, "CONFIG SET port 0", "CONFIG SET tls-session-caching no");
            Refused(Way.Default, "ACL LOAD");
            Allowed(Way.Default, "CONFIG SET protected-mode yes", "CONFIG SET protected-mode no");
            foreach (Way way in (Way[])[Way.Elsewhere, Way.ElsewhereOwnUser])
            {
                Refused(way, "CONFIG SET protected-mode yes", "CONFIG SET hz 20 PROTECTED-MODE YES",
                    "CONFIG SET protected-mode yes requirepass ");
                Allowed(way, "CONFIG SET protected-mode no", "CONFIG SET requirepass ", "ACL SETUSER default nopass");
            }
            Allowed(Way.ElsewhereOwnUser, "CONFIG SET protected-mode yes requirepass x");
            Refused(Way.ElsewhereProtected, "CONFIG SET requirepass ", "CONFIG SET protected-mode yes requirepass ",
                "ACL SETUSER default nopass", "ACL SETUSER default reset NOPASS");
            Allowed(Way.ElsewhereProtected, "CONFIG SET protected-mode yes", "CONFIG SET protected-mode no requirepass ",
                "CONFIG SET requirepass x", "ACL SETUSER default nopass >x", "ACL SETUSER bob nopass");
            return data;
        }
    }

    [Theory]
    [MemberData(nameof(Requests))]
    public async Task Change_OfRedis_NeverCutsTheProxyOff(Way way, bool isRefused, string request)
    {
        bool hasUser = way is Way.OwnUser or Way.Unix or Way.ElsewhereOwnUser or Way.ElsewhereProtected;
        bool hasPassword = hasUser || way is Way.DefaultWithPassword or Way.DefaultWithNeedlessPassword;
        string[] users = ["--user", .. "slogger on >own ~* &* +@all".Split(' '), "--user", .. "admin on nopass ~* &* +@all".Split(' ')];
        if (way == Way.DefaultWithPassword) { users = [.. users, "--requirepass", Password]; }
        if (way == Way.Tls) { users = [.. users, "--tls-auth-clients", "optional"]; }
        if (way == Way.ElsewhereProtected) { users = [.. users, "--requirepass", "other"]; }
        if (way == Way.ElsewhereOwnUser) { users = [.. users, "--user", .. "default off nopass ~* &* +@all".Split(' ')]; }
        IPAddress? elsewhere = way is Way.Elsewhere or Way.ElsewhereOwnUser or Way.ElsewhereProtected ? Elsewhere() : null;
        if (elsewhere is null && way is (Way.Elsewhere or Way.ElsewhereOwnUser or Way.ElsewhereProtected))
        {
            Assert.Skip("this machine has no address but loopback");
        }
        if (elsewhere is not null)
        {
            users = [.. users, "--bind", "127.0.0.1", $"{elsewhere}", "--protected-mode", way == Way.ElsewhereProtected ? "yes" : "no"];
        }
        using var redis = new RedisServer(way == Way.Tls ? files.Certificates : null, users);
        string password = Path.Combine(redis.Directory, "password");
        await File.WriteAllTextAsync(password, $"{Password}\n", TestContext.Current.CancellationToken);
        using var proxy = new TestProxy(redis, TransportKind.Auto, o => o with
        {
            Redis = way switch { Way.Unix => ListenAddress.Unix(redis.UnixPath), Way.Localhost =>
                ListenAddress.Tcp("localhost", redis.Port), _ => elsewhere is null ? o.Redis
                    : ListenAddress.Tcp($"{elsewhere}", redis.Port) },
            RedisTls = way == Way.Tls ? new RedisTlsOptions { CaFile = files.Certificates.AuthorityFile } : null,
            RedisUser = hasUser ? "slogger" : null,
            RedisPasswordFile = hasPassword ? password : null,
            Commit = CommitMode.Log,
        });
        // Whatever becomes of the others, this connection stays.
        using RespConnection direct = RespConnection.To(new System.Net.Sockets.UnixDomainSocketEndPoint(redis.UnixPath));
        Assert.Equal("+OK\r\n", direct.Call("AUTH", "admin", "any"));
        using RespConnection client = Admin(proxy);
        string[] words = request.Replace("{port}", $"{redis.Port}", StringComparison.Ordinal)
            .Replace("{other}", files.Certificates.OtherAuthorityFile, StringComparison.Ordinal).Split(' ');
        // A blank within an argument.
        words = [.. words.Select(word => word.Replace(';', ' '))];
        string reply = client.Call(words);
        Assert.True(reply.StartsWith("-ERR SLOGGER", StringComparison.Ordinal) == isRefused, reply);
        if (isRefused)
        {
            Assert.DoesNotContain(Password + "'", reply, StringComparison.Ordinal);
            Assert.True(reply.Length > 60, "the error says why: " + reply);
            Assert.Equal("+OK\r\n", client.Call("MULTI"));
            // How many connections there are may differ.
            Assert.Equal(WithoutNumbers(reply), WithoutNumbers(client.Call(words)));
            Assert.StartsWith("-EXECABORT", client.Call("EXEC"), StringComparison.Ordinal);
            string script = $"return redis.call({string.Join(',', words.Select(word => $"'{word}'"))})";
            Assert.Contains("not allowed from script", client.Call("EVAL", script, "0"), StringComparison.Ordinal);
        }
        direct.Call("CLIENT", "KILL", "TYPE", "normal");
        direct.Call("CLIENT", "KILL", "TYPE", "replica");
        // The proxy may not have seen yet that a connection has ended which it gives to the client.
        var patience = Stopwatch.StartNew();
        while (!Commits(proxy) && patience.ElapsedMilliseconds < RespConnection.PatienceMilliseconds) { }
        Assert.True(Commits(proxy), proxy.Log);
    }

    // Others have connections, too, and each counts.
    [Fact]
    public void MaxClients_BelowWhatRedisHas_IsRefused()
    {
        using var redis = new RedisServer();
        using var proxy = new TestProxy(redis, TransportKind.Auto, o => o with { Commit = CommitMode.Log });
        List<RespConnection> others = [];
        try
        {
            for (int i = 0; i < 200; i++)
            {
                others.Add(redis.Connect());
                Assert.Equal("+PONG\r\n", others[^1].Call("PING"));
            }
            using RespConnection client = proxy.Connect();
            Assert.Contains("'maxclients' must be", client.Call("CONFIG", "SET", "maxclients", "100"), StringComparison.Ordinal);
            Assert.Contains("'maxclients' must be", client.Call("CONFIG", "SET", "hz", "20", "MAXCLIENTS", "210"),
                StringComparison.Ordinal);
            Assert.Equal("+OK\r\n", client.Call("CONFIG", "SET", "maxclients", "300"));
            others[0].Call("CLIENT", "KILL", "TYPE", "replica");
            var patience = Stopwatch.StartNew();
            while (!Commits(proxy, isAdmin: false) && patience.ElapsedMilliseconds < RespConnection.PatienceMilliseconds) { }
            Assert.True(Commits(proxy, isAdmin: false), proxy.Log);
        }
        finally
        {
            foreach (RespConnection other in others) { other.Dispose(); }
        }
    }

    private static string WithoutNumbers(string reply) => new([.. reply.Where(c => !char.IsDigit(c))]);

    // Of this machine, but Redis does not know that.
    private static IPAddress? Elsewhere() => System.Net.NetworkInformation.NetworkInterface.GetAllNetworkInterfaces()
        .SelectMany(i => i.GetIPProperties().UnicastAddresses).Select(a => a.Address)
        .FirstOrDefault(a => a.AddressFamily == System.Net.Sockets.AddressFamily.InterNetwork && !IPAddress.IsLoopback(a));

    private static bool Commits(TestProxy proxy, bool isAdmin = true)
    {
        try
        {
            using RespConnection client = isAdmin ? Admin(proxy) : proxy.Connect();
            return client.Call("SET", "after", "1") == "+OK\r\n"
                && client.Call("DPR.WAIT", "*", "1000").EndsWith(":1\r\n", StringComparison.Ordinal);
        }
        catch (IOException)
        {
            return false;
        }
    }

    private static RespConnection Admin(TestProxy proxy)
    {
        RespConnection client = proxy.Connect();
        try
        {
            Assert.Equal("+OK\r\n", client.Call("AUTH", "admin", "any"));
            return client;
        }
        catch
        {
            client.Dispose();
            throw;
        }
    }
}
