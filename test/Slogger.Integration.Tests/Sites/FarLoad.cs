// Much to write on few keys, of all kinds, as fast as one connection takes it.
using System.Buffers;
using System.Globalization;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

/// <summary>Writes by Zipf's law. What expires does so long after the test.</summary>
internal sealed class FarLoad(int seed)
{
    private const int Keys = 1500, AtOnce = 500;
    private const long ExpiresFromMs = 4_000_000_000_000;

    private readonly Random _random = new(seed);
    private readonly double[] _weights = Weights();

    /// <summary>Writes to one shard, each command answered.</summary>
    /// <param name="site">The primary.</param>
    /// <param name="shard">The shard.</param>
    /// <param name="commands">How many.</param>
    public async Task WriteAsync(Site site, int shard, int commands)
    {
        string tag = site.Key(shard, "far");
        using RespClient client = await site.ConnectAsync(shard);
        for (int done = 0; done < commands; done += AtOnce)
        {
            var batch = new ArrayBufferWriter<byte>(1 << 16);
            int replies = 0;
            void Add(params string[] command)
            {
                RespClient.Append(batch, command);
                replies++;
            }

            // A shard of several has one database.
            if (site.Shards == 1) { Add("SELECT", _random.Next(3) == 0 ? "3" : "0"); }
            for (int n = 0; n < AtOnce; n++) { One(tag, Add); }
            await client.WriteAsync(batch.WrittenMemory);
            for (int n = 0; n < replies; n++)
            {
                RespValue reply = await client.ReadAsync();
                if (reply.IsError) { throw new InvalidDataException($"a command of the load was answered with {reply.Text}"); }
            }
        }
    }

    private void One(string tag, Action<string[]> add)
    {
        string key = Key(tag), value = Text(_random.NextInt64()) + new string('v', _random.Next(120));
        switch (_random.Next(20))
        {
            case < 9: add(["SET", $"{key}:s", value]); break;
            case 9: add(["SET", $"{key}:s", value, "PXAT", Text(ExpiresFromMs + _random.Next())]); break;
            case 10 or 11: add(["INCRBY", $"{key}:n", Text(_random.Next(100))]); break;
            case 12 or 13: add(["HSET", $"{key}:h", Text(_random.Next(12)), value]); break;
            case 14: add(["PEXPIREAT", _random.Next(2) == 0 ? $"{key}:h" : $"{key}:n", Text(ExpiresFromMs + _random.Next())]); break;
            case 15:
                add(["LPUSH", $"{key}:l", value]);
                add(["LTRIM", $"{key}:l", "0", "9"]);
                break;
            case 16: add(["ZADD", $"{key}:z", Text(_random.Next(1000)), Text(_random.Next(30))]); break;
            case 17: add(["SADD", $"{key}:m", Text(_random.Next(40))]); break;
            case 18: add(["DEL", $"{key}:s", $"{Key(tag)}:h"]); break;
            default:
                add(["MULTI"]);
                add(["SET", $"{key}:s", value]);
                add(["INCR", $"{key}:n"]);
                add(["HDEL", $"{key}:h", Text(_random.Next(12))]);
                add(["EXEC"]);
                break;
        }
    }

    private string Key(string tag)
    {
        int found = Array.BinarySearch(_weights, _random.NextDouble() * _weights[^1]);
        return $"{tag}:{Text(found < 0 ? ~found : found)}";
    }

    private static double[] Weights()
    {
        double[] sums = new double[Keys];
        double sum = 0;
        for (int i = 0; i < Keys; i++) { sums[i] = sum += 1.0 / (i + 1); }
        return sums;
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
