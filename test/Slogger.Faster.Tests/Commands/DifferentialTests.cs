// The engine against a real Redis.
using Slogger.Faster.Commands;
using Slogger.Faster.Tests.Commands.Differential;
using Slogger.Resp;

namespace Slogger.Faster.Tests.Commands;

public sealed class DifferentialTests
{
    [Theory]
    [InlineData(1)]
    [InlineData(1001)]
    [InlineData(2001)]
    public void Commands_AtRandom_AreAnsweredAsRedisAnswersThem(int first)
    {
        using var run = new DifferentialRun();
        for (int seed = first; seed < first + 10; seed++) Assert.Null(run.Run(seed)?.ToString());
    }

    [Fact]
    public void Table_OfCommands_SaysWhatRedisSays()
    {
        using var redis = new RedisServer();
        using var test = new TestEngine();
        foreach (Command command in CommandTable.Entries)
        {
            List<object?> expected = Assert.IsType<List<object?>>(Entry(redis.Send("COMMAND", "INFO", command.Name))), found =
                Assert.IsType<List<object?>>(Entry(test.Client.Raw(TestClient.Request("COMMAND", "INFO", command.Name))));
            Assert.Equal(expected.Take(7), found.Take(7));
            foreach (List<object?> subcommand in Assert.IsType<List<object?>>(found[9]).OfType<List<object?>>())
            {
                List<object?> same = Assert.Single(Assert.IsType<List<object?>>(expected[9]).OfType<List<object?>>(),
                    s => (string?)s[0] == (string?)subcommand[0]);
                Assert.Equal(same.Take(7), subcommand.Take(7));
            }
        }

        Assert.Equal(redis.Send("COMMAND", "INFO", "nonsense"), test.Client.Raw(TestClient.Request("COMMAND", "INFO", "nonsense")));
        Assert.Equal($":{CommandTable.Entries.Length}|", test.Client.Send("COMMAND COUNT"));
        Assert.StartsWith($"*{CommandTable.Entries.Length}|", test.Client.Send("COMMAND"), StringComparison.Ordinal);
        Assert.StartsWith($"*{CommandTable.Entries.Length}|", test.Client.Send("COMMAND LIST"), StringComparison.Ordinal);
        Assert.Equal("*1|$-1|", test.Client.Send("COMMAND INFO slogger.commit"));
    }

    [Theory]
    [InlineData("GET k")]
    [InlineData("MGET k none k")]
    [InlineData("STRLEN k")]
    [InlineData("GETRANGE k 0 1")]
    [InlineData("GETRANGE k -1 -2")]
    [InlineData("SUBSTR k 0 1")]
    [InlineData("GETBIT k 3")]
    [InlineData("BITCOUNT k")]
    [InlineData("EXISTS k none k")]
    [InlineData("TOUCH k none")]
    [InlineData("TYPE k")]
    [InlineData("TTL k")]
    [InlineData("PTTL none")]
    [InlineData("EXPIRETIME k")]
    [InlineData("PEXPIRETIME none")]
    [InlineData("SET k 1")]
    [InlineData("SET k 1 NX")]
    [InlineData("SET k 1 XX")]
    [InlineData("SET k 1 GET")]
    [InlineData("SET none 1 XX GET")]
    [InlineData("SETNX k 1")]
    [InlineData("SETEX k 100 1")]
    [InlineData("GETSET k 1")]
    [InlineData("GETDEL k")]
    [InlineData("GETEX k")]
    [InlineData("GETEX k EX 100")]
    [InlineData("GETEX k EX 0")]
    [InlineData("GETEX none PERSIST")]
    [InlineData("MSET k 1 l 2")]
    [InlineData("MSETNX k 1 l 2")]
    [InlineData("APPEND k 1")]
    [InlineData("SETRANGE k 1 x")]
    [InlineData("SETBIT k 3 1")]
    [InlineData("INCR n")]
    [InlineData("INCRBY none 3")]
    [InlineData("INCRBYFLOAT n 3")]
    [InlineData("DEL k none")]
    [InlineData("UNLINK k none")]
    [InlineData("EXPIRE k 100")]
    [InlineData("PEXPIREAT none 100")]
    [InlineData("PERSIST k")]
    [InlineData("RENAME k l")]
    [InlineData("RENAMENX k n")]
    [InlineData("COPY k l")]
    [InlineData("COPY none l")]
    [InlineData("COPY k n REPLACE")]
    [InlineData("KEYS *")]
    [InlineData("SCAN 0")]
    [InlineData("RANDOMKEY")]
    [InlineData("DBSIZE")]
    [InlineData("FLUSHALL")]
    [InlineData("WATCH k none")]
    public void Command_OfAnyKind_HitsAndMissesAsOftenAsInRedis(string command)
    {
        using var redis = new RedisServer();
        using var test = new TestEngine();
        string[] counts = [.. new Func<string[], string>[] { redis.Send, w => test.Client.Raw(TestClient.Request(w)) }.Select(send =>
        {
            foreach (string setup in (string[])["SET k value", "SET n 5", "CONFIG RESETSTAT", command]) send(setup.Split(' '));
            string[] fields = send(["INFO", "stats"]).Split("\r\n");
            return string.Join(' ', fields.Where(f => f.StartsWith("keyspace_hits:", StringComparison.Ordinal)
                || f.StartsWith("keyspace_misses:", StringComparison.Ordinal)));
        })];
        Assert.Contains("keyspace_misses", counts[0], StringComparison.Ordinal);
        Assert.Equal(counts[0], counts[1]);
    }

    private static object? Entry(string reply)
    {
        int at = 0;
        return (CommandReply.Read(System.Text.Encoding.Latin1.GetBytes(reply), ref at) as List<object?>)?[0];
    }
}
