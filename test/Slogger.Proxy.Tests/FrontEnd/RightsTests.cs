// Clients whom Redis does not let do what they ask for: they hear it as from Redis, at once, and what they may do goes on as before.
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class RightsTests
{
    private static readonly string Session = new('a', 32);

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Batch_OfAClientWithoutAPassword_IsRefusedAtOnce(bool unix)
    {
        using var redis = new RedisServer(tls: null, "--requirepass", "secret");
        string password = Path.Combine(redis.Directory, "password");
        await File.WriteAllTextAsync(password, "secret\n", TestContext.Current.CancellationToken);
        using var proxy = new TestProxy(redis, TransportKind.Epoll, o => o with
        {
            Redis = unix ? ListenAddress.Unix(redis.UnixPath) : o.Redis,
            RedisPasswordFile = password,
            Commit = CommitMode.Log,
        });
        foreach (string? before in (string?[])[null, "GET a", "MULTI", "WATCH a"])
        {
            using RespConnection client = proxy.Connect();
            if (before is not null) { Assert.StartsWith("-NOAUTH", client.Call(before.Split(' ')), StringComparison.Ordinal); }
            client.Send("DPR.BATCH", Session, "1", "0", "1", "1");
            Assert.Equal("-NOAUTH Authentication required.\r\n", client.Read());
            Assert.Equal("", client.ReadToEnd());
        }
        using RespConnection user = proxy.Connect();
        Assert.Equal("+OK\r\n", user.Call("AUTH", "secret"));
        user.Send("DPR.BATCH", Session, "1", "0", "1", "1");
        user.Send("SET", "a", "1");
        Assert.Equal(["+OK\r\n", "+OK\r\n"], [user.Read(), user.Read()]);
    }

    public static TheoryData<bool, string> Refused => new()
    {
        // Who may not begin a transaction.
        { false, "AUTH bob b|MULTI|SELECT 1|SET a 1|SELECT 0|GET a|SELECT 1|GET a" },
        { false, "AUTH bob b|MULTI|SELECT 1|SET a 1|EXEC|GET a|SELECT 0|GET a" },
        { false, "AUTH bob b|MULTI|HELLO 3|HGETALL nokey|EXEC|HGETALL nokey" },
        { false, "AUTH bob b|MULTI|SUBSCRIBE ch|PING|UNSUBSCRIBE|GET a|SET a 2|GET a" },
        { false, "AUTH bob b|MULTI|AUTH default d|SET a 2|MULTI|SET a 3|SELECT 1|EXEC|GET a" },
        { false, "AUTH bob b|WATCH a|MULTI|SET a 2|EXEC|MULTI|DISCARD|AUTH default d|MULTI|GET a|EXEC" },
        { false, "AUTH bob b|MULTI|CLIENT SETNAME me|CLIENT GETNAME|CLIENT REPLY OFF|SET a 1|CLIENT REPLY ON|GET a" },
        { false, "AUTH bob b|MULTI|BLPOP l 0.01|DISCARD|BLPOP l 0.01" },
        // Who may again: the second is one, and what is in it is queued.
        { false, "AUTH bob b|MULTI|ACL SETUSER bob +multi|MULTI|SELECT 1|SET a 1|EXEC|GET a|MULTI|MULTI|SET a 2|EXEC" },
        { false, "AUTH bob b|MULTI|ACL SETUSER bob +multi|MULTI|EVAL return(1) 0|EXEC|EXEC" },
        // Who has not logged in yet.
        { true, "MULTI|AUTH d|SELECT 1|SET a 1|SELECT 0|GET a|MULTI|GET a|EXEC" },
    };

    [Theory]
    [MemberData(nameof(Refused))]
    public void Multi_ThatRedisRefuses_BeginsNoTransaction(bool needsPassword, string requests)
    {
        string[] users = ["--user", .. $"default on {(needsPassword ? ">d" : "nopass")} ~* &* +@all".Split(' '), "--user",
            .. "bob on >b ~* &* +@all -multi".Split(' ')];
        byte[] all = [.. requests.Split('|').SelectMany(r => RespConnection.Request(r.Split(' ')))];
        string expected = Ask(redis => redis.Connect());
        foreach (TransportKind transport in (TransportKind[])[TransportKind.Epoll, TransportKind.Sockets])
        {
            using var proxies = new Disposables();
            Assert.Equal(expected, Ask(redis => proxies.Add(Proxy(redis, transport)).Connect()));
            Assert.Equal(expected, Ask(redis => proxies.Add(Proxy(redis, transport)).Connect(), oneByOne: true));
        }

        static TestProxy Proxy(RedisServer redis, TransportKind transport)
        {
            string password = Path.Combine(redis.Directory, "password");
            File.WriteAllText(password, "d\n");
            return new TestProxy(redis, transport, o => o with { RedisPasswordFile = password });
        }

        string Ask(Func<RedisServer, RespConnection> connect, bool oneByOne = false)
        {
            using var redis = new RedisServer(tls: null, users);
            using RespConnection client = connect(redis);
            if (oneByOne)
            {
                var replies = new List<string>();
                foreach (string request in requests.Split('|'))
                {
                    client.Send(request.Split(' '));
                    if (request != "CLIENT REPLY OFF"
                        && !(request == "SET a 1" && requests.Contains("REPLY OFF", StringComparison.Ordinal)))
                    {
                        replies.Add(client.Read());
                    }
                }
                return WithoutId(string.Concat(replies));
            }
            client.SendRaw([.. all, .. RespConnection.Request("QUIT")]);
            string text = client.ReadToEnd();
            Assert.EndsWith("+OK\r\n", text, StringComparison.Ordinal);
            return WithoutId(text[..^5]);
        }
    }

    // HELLO tells the connection's.
    private static string WithoutId(string replies) => System.Text.RegularExpressions.Regex.Replace(replies, @"(\$2\r\nid\r\n):\d+", "$1");

    private sealed class Disposables : IDisposable
    {
        private readonly Stack<IDisposable> _all = new();

        public T Add<T>(T one)
            where T : IDisposable
        {
            _all.Push(one);
            return one;
        }

        public void Dispose()
        {
            while (_all.TryPop(out IDisposable? one)) { one.Dispose(); }
        }
    }
}
