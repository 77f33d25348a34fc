// A seeded client that does a bit of everything that matters to replication: several databases, expiry, scripts,
// functions, transactions, streams, messages.
using Slogger.Redis.Connections;

namespace Slogger.Redis.Tests.Support;

internal sealed class Workload(RedisConnection client, int seed)
{
    private readonly Random _random = new(seed);

    public const string Library = "#!lua name=lib\nredis.register_function('bump', function(keys, args) redis.call('INCR', keys[1]); "
        + "return redis.call('LPUSH', keys[1]..':l', args[1]) end)";

    public async Task RunAsync(int steps)
    {
        for (int i = 0; i < steps; i++)
        {
            foreach (string[] command in Next())
            {
                RedisReply reply = await client.CommandAsync(command);
                Assert.False(reply.IsError && !reply.Text.StartsWith("WRONGTYPE", StringComparison.Ordinal)
                    && !reply.Text.StartsWith("NOGROUP", StringComparison.Ordinal), $"{string.Join(' ', command)}: {reply.Text}");
            }
        }
    }

    private string Key(string kind) => $"{kind}{_random.Next(40)}";

    private string[][] Next()
    {
        string value = new('v', _random.Next(100));
        switch (_random.Next(24))
        {
            case 0: return [["SELECT", $"{_random.Next(4)}"]];
            case 1: return [["SET", Key("s"), value]];
            case 2: return [["SET", Key("e"), value, "PX", $"{_random.Next(1, 400)}"]];
            case 3: return [["INCR", Key("n")]];
            case 4: return [["PEXPIRE", Key("n"), $"{_random.Next(1, 300)}"]];
            case 5: return [["GET", Key("e")]];
            case 6: return [["HSET", Key("h"), $"f{_random.Next(9)}", value]];
            case 7: return [["SADD", Key("set"), $"{_random.Next(50)}", $"{_random.Next(50)}", $"{_random.Next(50)}"],
                ["SPOP", Key("set")]];
            case 8: return [["ZADD", Key("z"), $"{_random.Next(99)}", $"m{_random.Next(9)}"], ["ZPOPMIN", Key("z")]];
            case 9: return [["XADD", Key("x"), "MAXLEN", "~", "50", "*", "f", value]];
            case 10: return [["XADD", "stream", "*", "a", "b"], ["XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "stream", ">"]];
            case 11: return [["EVAL", "redis.call('SET',KEYS[1],ARGV[1]) redis.call('PUBLISH','news',ARGV[1]) return "
                + "redis.call('INCR',KEYS[2])", "2", Key("s"), Key("n"), value]];
            case 12: return [["MULTI"], ["INCR", Key("n")], ["PUBLISH", "news", value], ["SPUBLISH", "shard", value],
                ["SET", Key("s"), value], ["EXEC"]];
            case 13: return [["PUBLISH", "news", new string('p', _random.Next(300))]];
            case 14: return [["SPUBLISH", "shard", new string('p', _random.Next(2000))]];
            case 15: return [["DEL", Key("s"), Key("n"), Key("h")]];
            case 16: return [["RPUSH", Key("l"), value, value], ["LPOP", Key("l")]];
            case 17: return [["FUNCTION", "LOAD", "REPLACE", Library], ["FCALL", "bump", "1", Key("fn"), value]];
            case 18: return [["PFADD", Key("p"), value], ["PFCOUNT", Key("p")]];
            case 19: return [["SETRANGE", Key("s"), "10", value], ["APPEND", Key("s"), "x"]];
            case 20: return [["GETEX", Key("s"), "PX", "100"], ["INCRBYFLOAT", Key("fl"), "0.5"]];
            case 21 when _random.Next(3) == 0: return [["XADD", "stream", "*", "a", "b"], ["XGROUP", "DESTROY", "stream", "g"],
                ["XGROUP", "CREATE", "stream", "g", "0"]];
            case 21: return _random.Next(30) == 0 ? [["FLUSHDB"]] : [["COPY", Key("s"), Key("copy"), "REPLACE"]];
            case 22: return _random.Next(10) == 0 ? [["SWAPDB", "0", "1"]] : [["BITFIELD", Key("b"), "INCRBY", "u8", "0", "3"]];
            default: return [["PUBLISH", "", ""]];
        }
    }
}
