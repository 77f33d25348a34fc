// Writes whose effects are reduced: those of YCSB, as the paper of beelog has them, and what applications typically do with Redis. Reads
// are not sent: nothing of them is in the stream.
using System.Globalization;
using System.Text;
using Slogger.Bench.Faster;
using Slogger.Redis.Connections;

namespace Slogger.Bench.Reduction;

/// <summary>A load.</summary>
/// <param name="Name">By which it is chosen.</param>
/// <param name="Title">For the report.</param>
/// <param name="Writes">How many writes there are, about.</param>
/// <param name="Keys">Over how many keys.</param>
internal sealed record ReductionLoad(string Name, string Title, int Writes, int Keys)
{
    private const int ValueBytes = 100, InsertsPerHundred = 5;

    public static readonly IReadOnlyList<ReductionLoad> All =
    [
        new("zipf", "A, Zipf's law, SET", 500_000, 1_000_000),
        new("uniform", "A, even, SET (the paper's)", 500_000, 1_000_000),
        new("latest", "AWL, the latest, SET (the paper's)", 1_000_000, 1_000_000),
        new("typical", "a typical mix", 300_000, 100_000),
        new("hash", "H, Zipf's law, HSET of 10 fields", 300_000, 100_000),
        new("counters", "C, Zipf's law, INCR", 300_000, 100_000),
    ];

    /// <summary>Whether all of its writes are overwrites.</summary>
    public bool IsOverwriting => Name is "zipf" or "uniform" or "latest";

    /// <summary>All commands, in batches.</summary>
    public IEnumerable<RedisBatch> Batches()
    {
        const int BatchCommands = 500;
        var random = new Random(20_221);
        var zipf = new Zipf(Keys, 0.99);
        long latest = Keys;
        var batch = new RedisBatch();
        byte[] Value(int bytes) => RandomText(random, bytes);
        void Add(params string[] words) => batch.Add([.. words.Select(Encoding.ASCII.GetBytes)]);
        void Set(long key) => batch.Add("SET"u8.ToArray(), Key("user", key), Value(ValueBytes));
        for (int i = 0; i < Writes; i++)
        {
            switch (Name)
            {
                case "zipf":
                    Set(Scrambled(zipf, random));
                    break;
                case "uniform":
                    Set(random.Next(Keys));
                    break;
                case "latest":
                    Set(random.Next(100) < InsertsPerHundred ? latest++ : Math.Max(0, latest - 1 - zipf.Rank(random)));
                    break;
                case "hash":
                    batch.Add("HSET"u8.ToArray(), Key("h", Scrambled(zipf, random)), Key("field", random.Next(10)), Value(ValueBytes));
                    break;
                case "counters":
                    batch.Add("INCR"u8.ToArray(), Key("c", Scrambled(zipf, random)));
                    break;
                default:
                    Typical(random, Scrambled(zipf, random), Add);
                    break;
            }
            if (batch.Count < BatchCommands) { continue; }
            yield return batch;
            batch.Clear();
        }
        yield return batch;
    }

    // Sessions, counters, rate limits, profiles, timelines, ratings, tags, events, queues.
    private static void Typical(Random random, long frequent, Action<string[]> add)
    {
        string key = frequent.ToString(CultureInfo.InvariantCulture);
        string Text(int bytes) => Encoding.ASCII.GetString(RandomText(random, bytes));
        switch (random.Next(100))
        {
            case < 25: add(["SET", "sess:" + key, Text(ValueBytes), "EX", "3600"]); break;
            case < 40: add(["INCR", "cnt:" + key]); break;
            case < 50: add(["INCR", "rl:" + key]); add(["EXPIRE", "rl:" + key, "600"]); break;
            case < 62: add(["HSET", "u:" + key, $"f{random.Next(10)}", Text(30)]); break;
            case < 70: add(["LPUSH", "tl:" + key, Text(60)]); add(["LTRIM", "tl:" + key, "0", "99"]); break;
            case < 78: add(["ZADD", $"z:{random.Next(100)}", $"{random.Next(100_000)}", "m" + key]); break;
            case < 84: add(["ZINCRBY", $"lb:{random.Next(10)}", "1", "m" + key]); break;
            case < 90: add(["SADD", "s:" + key, $"x{random.Next(50)}"]); break;
            case < 93: add(["DEL", "sess:" + key]); break;
            case < 96: add(["XADD", $"st:{random.Next(20)}", "*", "a", Text(40)]); break;
            case < 98: add(["RPUSH", "q", Text(50)]); break;
            default: add(["LPOP", "q"]); break;
        }
    }

    private static byte[] Key(string prefix, long number) =>
        Encoding.ASCII.GetBytes(prefix + number.ToString(CultureInfo.InvariantCulture));

    // As YCSB spreads its frequent keys: by a hash, FNV-1a, so that some of them fall together.
    private long Scrambled(Zipf zipf, Random random)
    {
        ulong rank = (ulong)zipf.Rank(random), hash = 0xCBF29CE484222325;
        for (int i = 0; i < 8; i++, rank >>= 8) { hash = (hash ^ (rank & 255)) * 0x100000001B3; }
        return (long)(hash % (ulong)Keys);
    }

    private static byte[] RandomText(Random random, int bytes)
    {
        byte[] text = new byte[bytes];
        for (int i = 0; i < bytes; i++) { text[i] = (byte)('a' + random.Next(26)); }
        return text;
    }
}
