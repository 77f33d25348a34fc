// The connection that carries the markers breaks with a marker on its way. Redis may execute it when what was forwarded later, on other
// connections, is done: whoever reads the stream then would take that marker for the end of its version.
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Tests.Harness;
using Slogger.Resp;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class LostMarkerTests
{
    private static readonly TimeSpan Patience = TimeSpan.FromMilliseconds(RespConnection.PatienceMilliseconds);

    public static TheoryData<TransportKind, bool> Carriers =>
        [.. BothTransports.Transports.SelectMany(t => (TheoryDataRow<TransportKind, bool>[])[(t.Data, false), (t.Data, true)])];

    [Theory]
    [MemberData(nameof(Carriers))]
    public async Task Marker_LostOnItsWay_IsExecutedBeforeWhatFollowsOrNever(TransportKind transport, bool isControl)
    {
        // Where the default user may not send markers nobody shares, and a connection of the proxy's own user carries them.
        string[] users = isControl
            ? ["--user", .. "default on nopass ~* &* +@all -spublish".Split(' '), "--user", .. "slogger on >own ~* &* +@all".Split(' ')]
            : [];
        using var redis = new RedisServer(tls: null, users);
        string password = Path.Combine(redis.Directory, "password");
        await File.WriteAllTextAsync(password, "own\n", TestContext.Current.CancellationToken);
        using var relay = new MarkerRelay(redis);
        using var proxy = new TestProxy(redis, transport, o => o with
        {
            Redis = ListenAddress.Tcp("127.0.0.1", relay.Port),
            RedisUser = isControl ? "slogger" : null,
            RedisPasswordFile = isControl ? password : null,
            Commit = CommitMode.Log,
        });
        using RespConnection client = proxy.Connect(), pinned = proxy.Connect(), other = proxy.Connect();
        Assert.Equal("+OK\r\n", pinned.Call("WATCH", "nothing"));
        Assert.Equal("+OK\r\n", client.Call("SET", "before", "1"));
        AssertCommits(client);

        relay.Catch(watched: "held");
        client.Send("SET", "lost", "1");
        await relay.Caught.Task.WaitAsync(Patience, TestContext.Current.CancellationToken);
        // Held since a marker is on its way. It has been read when another is answered, which the proxy does itself.
        pinned.Send("SET", "held", "1");
        other.SendRaw("*x\r\n");
        Assert.StartsWith("-ERR Protocol error", other.ReadToEnd(), StringComparison.Ordinal);
        relay.Break();

        Assert.Equal("+OK\r\n", pinned.Read());
        using RespConnection next = proxy.Connect();
        Assert.Equal("+OK\r\n", next.Call("SET", "after", "1"));
        relay.Deliver();
        Assert.Equal("", await relay.Outcome.Task.WaitAsync(Patience, TestContext.Current.CancellationToken));
        Assert.False(relay.IsOvertaken);
        AssertCommits(next);
        Assert.DoesNotContain("executed late", proxy.Log, StringComparison.Ordinal);
    }

    private static void AssertCommits(RespConnection client) =>
        Assert.EndsWith(":1\r\n", client.Call("DPR.WAIT", "*", "20000"), StringComparison.Ordinal);
}
