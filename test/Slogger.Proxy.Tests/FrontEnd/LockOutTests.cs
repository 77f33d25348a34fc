// What an administrator may change through the proxy, and what is refused because it would cut the proxy off: a table of both. After each
// request Redis is made to end every connection, so that what would keep the proxy from coming back shows.
using System.Diagnostics;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;

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
                "CONFIG SET port 0", "CONFIG SET hz 20 PORT 1", "CONFIG SET bind 127.0.0.2", "CONFIG SET maxclients 8", "CONFIG SET maxclients 1",
                "ACL DELUSER slogger", "ACL DELUSER nobody slogger", "ACL LOAD", "ACL SETUSER slogger off", "ACL SETUSER slogger RESET", "ACL SETUSER slogger resetpass",
                "ACL SETUSER slogger <own", $"ACL SETUSER slogger !{Hash}", "ACL SETUSER slogger +get -@all", "ACL SETUSER slogger nocommands", "ACL SETUSER slogger -psync",
                "ACL SETUSER slogger -config|set", "ACL SETUSER slogger -@dangerous", "ACL SETUSER slogger resetchannels", "ACL SETUSER slogger resetkeys");
            Allowed(Way.OwnUser,
                "CONFIG SET port {port}", "CONFIG SET bind 127.0.0.1", "CONFIG SET maxclients 5000", "CONFIG SET requirepass other", "CONFIG SET timeout 1", "CONFIG SET protected-mode yes",
                "CONFIG SET repl-timeout 60", "CONFIG SET repl-ping-replica-period 1", "CONFIG SET tls-port 0", "CONFIG SET maxmemory-clients 100mb", "CONFIG SET repl-backlog-size 16384",
                "ACL SETUSER slogger >next", "ACL SETUSER slogger <other", "ACL SETUSER slogger -flushall", "ACL SETUSER slogger on", "ACL SETUSER default off", "ACL SETUSER default -@all +ping",
                "ACL DELUSER nobody", "CLIENT KILL TYPE pubsub", "CLIENT KILL TYPE replica", "CLIENT KILL USER slogger", "CLIENT KILL USER slogger SKIPME no", "CLIENT NO-EVICT off", "CLIENT PAUSE 10",
                "CONFIG REWRITE", "DEBUG SLEEP 0.1");
            Refused(Way.Default, "CONFIG SET port 0", "CONFIG SET requirepass x", "ACL SETUSER default >x", $"ACL SETUSER default #{Hash}", "ACL SETUSER default off", "ACL SETUSER default resetpass",
                "ACL SETUSER default -spublish", "ACL SETUSER default reset on nopass +@all");
            Allowed(Way.Default, "ACL SETUSER bob on >x +@all ~*", "ACL SETUSER default -flushall", "ACL SETUSER bob off", "ACL DELUSER bob", "ACL SETUSER default on", "ACL SETUSER default nopass");
            Refused(Way.DefaultWithPassword, "CONFIG SET requirepass other", "ACL SETUSER default <own", "ACL SETUSER default resetpass");
            Allowed(Way.DefaultWithPassword, "CONFIG SET requirepass own", "ACL SETUSER default >other", "ACL SETUSER default nopass");
            Refused(Way.DefaultWithNeedlessPassword, "CONFIG SET requirepass other", "ACL SETUSER default >other");
            Allowed(Way.DefaultWithNeedlessPassword, "CONFIG SET requirepass own", "ACL SETUSER default >own", $"ACL SETUSER default #{Hash}");
            Allowed(Way.DefaultWithPassword, "CONFIG SET requirepass ");
            Allowed(Way.DefaultWithNeedlessPassword, "CONFIG SET requirepass ");
            Allowed(Way.Default, "CONFIG SET requirepass ");
            Refused(Way.OwnUser, "CONFIG SET bind ", "CONFIG SET bind ::1", "CONFIG SET bind ::*", "CONFIG SET bind 127.0.0.2;-::1", "CONFIG SET bind redis.invalid");
            Allowed(Way.OwnUser, "CONFIG SET bind localhost", "CONFIG SET bind -::1;127.0.0.1", "CONFIG SET bind 127.0.0.2;-127.0.0.1");
            Refused(Way.Localhost, "CONFIG SET bind 127.0.0.2", "CONFIG SET bind ::1");
            Allowed(Way.Localhost, "CONFIG SET bind 127.0.0.1", "CONFIG SET bind LOCALHOST");
            Refused(Way.Unix, "CONFIG SET maxclients 8", "ACL SETUSER slogger off");
            Allowed(Way.Unix, "CONFIG SET port 0", "CONFIG SET bind 127.0.0.2");
            Refused(Way.Tls, "CONFIG SET tls-port 0", "CONFIG SET tls-ca-cert-file {other}", "CONFIG SET tls-auth-clients yes", "CONFIG SET bind 127.0.0.2");
            Allowed(Way.Tls, "CONFIG SET port 0", "CONFIG SET tls-session-caching no");
            return data;
        }
    }

    [Theory]
    [MemberData(nameof(Requests))]
    public async Task Change_OfRedis_NeverCutsTheProxyOff(Way way, bool isRefused, string request)
    {
        bool hasUser = way is Way.OwnUser or Way.Unix;
        bool hasPassword = hasUser || way is Way.DefaultWithPassword or Way.DefaultWithNeedlessPassword;
        string[] users = ["--user", .. "slogger on >own ~* &* +@all".Split(' '), "--user", .. "admin on nopass ~* &* +@all".Split(' ')];
        if (way == Way.DefaultWithPassword) { users = [.. users, "--requirepass", Password]; }
        if (way == Way.Tls) { users = [.. users, "--tls-auth-clients", "optional"]; }
        using var redis = new RedisServer(way == Way.Tls ? files.Certificates : null, users);
        string password = Path.Combine(redis.Directory, "password");
        await File.WriteAllTextAsync(password, $"{Password}\n", TestContext.Current.CancellationToken);
        using var proxy = new TestProxy(redis, TransportKind.Auto, o => o with
        {
            Redis = way switch { Way.Unix => ListenAddress.Unix(redis.UnixPath), Way.Localhost => ListenAddress.Tcp("localhost", redis.Port), _ => o.Redis },
            RedisTls = way == Way.Tls ? new RedisTlsOptions { CaFile = files.Certificates.AuthorityFile } : null,
            RedisUser = hasUser ? "slogger" : null,
            RedisPasswordFile = hasPassword ? password : null,
            Commit = CommitMode.Log,
        });
        // Whatever becomes of the others, this connection stays.
        using RespConnection direct = RespConnection.To(new System.Net.Sockets.UnixDomainSocketEndPoint(redis.UnixPath));
        Assert.Equal("+OK\r\n", direct.Call("AUTH", "admin", "any"));
        using RespConnection client = Admin(proxy);
        string[] words = request.Replace("{port}", $"{redis.Port}", StringComparison.Ordinal).Replace("{other}", files.Certificates.OtherAuthorityFile, StringComparison.Ordinal).Split(' ');
        // A blank within an argument.
        words = [.. words.Select(word => word.Replace(';', ' '))];
        string reply = client.Call(words);
        Assert.True(reply.StartsWith("-ERR SLOGGER", StringComparison.Ordinal) == isRefused, reply);
        if (isRefused)
        {
            Assert.DoesNotContain(Password + "'", reply, StringComparison.Ordinal);
            Assert.True(reply.Length > 60, "the error says why: " + reply);
            Assert.Equal("+OK\r\n", client.Call("MULTI"));
            Assert.Equal(reply, client.Call(words));
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

    private static bool Commits(TestProxy proxy)
    {
        try
        {
            using RespConnection client = Admin(proxy);
            return client.Call("SET", "after", "1") == "+OK\r\n" && client.Call("DPR.WAIT", "*", "1000").EndsWith(":1\r\n", StringComparison.Ordinal);
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
