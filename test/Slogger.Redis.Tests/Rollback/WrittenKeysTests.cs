// The place of what a transaction writes, as ROLE within it tells it and as the stream does.
using System.Globalization;
using System.Text;
using Slogger.Core.Keys;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Redis.Rollback;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Rollback;

public sealed class WrittenKeysTests(ITestOutputHelper output)
{
    private const int Start = 1000;

    private static (KeyVersions Table, WrittenKeys Keys) Read(string stream, int piece = int.MaxValue)
    {
        var table = new KeyVersions(1000, Start);
        var keys = new WrittenKeys(table, Start, 0);
        byte[] bytes = Bytes(stream);
        for (int at = 0; at < bytes.Length; at += Math.Min(piece, bytes.Length))
        {
            keys.Read(bytes.AsSpan(at, Math.Min(piece, bytes.Length - at)));
        }
        Assert.Equal(Start + bytes.Length, keys.End);
        return (table, keys);
    }

    // Commands with a semicolon between.
    private static byte[] Bytes(string stream)
    {
        var text = new StringBuilder();
        foreach (string command in stream.Split(';', StringSplitOptions.RemoveEmptyEntries))
        {
            string[] words = command.Split(' ');
            text.Append(CultureInfo.InvariantCulture, $"*{words.Length}\r\n");
            foreach (string word in words) { text.Append(CultureInfo.InvariantCulture, $"${word.Length}\r\n{word}\r\n"); }
        }
        return Encoding.ASCII.GetBytes(text.ToString());
    }

    private static long Of(KeyVersions table, string key, string? field = null, int database = 0) => field is null
        ? WrittenKeys.Find(table, database, Encoding.ASCII.GetBytes(key))
        : WrittenKeys.Find(table, database, Encoding.ASCII.GetBytes(key), Encoding.ASCII.GetBytes(field));

    [Theory]
    [InlineData(1)]
    [InlineData(7)]
    [InlineData(int.MaxValue)]
    public void Place_OfAnEffect_IsOneMoreThanWhereItBegins(int piece)
    {
        const string First = "SELECT 0;SET a 1;", Second = "MULTI;SET b 1;SELECT 2;DEL a c;EXEC;", Third = "SPUBLISH x y;";
        (KeyVersions table, WrittenKeys keys) = Read(First + Second + Third + "SELECT 0;INCR b", piece);
        Assert.Equal(keys.End, keys.Position);
        Assert.Equal(Start + 1, Of(table, "a"));
        Assert.Equal(Start + Bytes(First).Length + 1, Of(table, "a", database: 2));
        Assert.Equal(Start + Bytes(First).Length + 1, Of(table, "c", database: 2));
        Assert.Equal(Start + Bytes(First + Second + Third).Length + 1, Of(table, "b"));
        Assert.Equal(Start, Of(table, "c"));
    }

    [Fact]
    public void Fields_OfAHash_AndTheKeyAsAWhole()
    {
        const string First = "HSET h f 1 g 2;", Second = "HINCRBY h g 1;", Third = "HDEL h f x;";
        (KeyVersions table, _) = Read(First + Second + Third);
        long second = Start + Bytes(First).Length + 1, third = second + Bytes(Second).Length;
        Assert.Equal((third, second, third, Start),
            (Of(table, "h", "f"), Of(table, "h", "g"), Of(table, "h", "x"), Of(table, "h", "none")));
        Assert.Equal(third, Of(table, "h"));
        (table, _) = Read(First + "PEXPIREAT h 5");
        Assert.Equal((second, second, second), (Of(table, "h", "f"), Of(table, "h", "none"), Of(table, "h")));
    }

    [Theory]
    [InlineData("FLUSHALL")]
    [InlineData("FLUSHDB ASYNC")]
    [InlineData("SWAPDB 0 1")]
    [InlineData("SOMETHING.NEW k")]
    public void Effect_OfWhichTheKeysAreNotKnown_IsOneOnAll(string command)
    {
        (KeyVersions table, _) = Read("SET a 1;" + command);
        long place = Start + Bytes("SET a 1").Length + 1;
        Assert.Equal((place, place, place), (Of(table, "a"), Of(table, "none"), Of(table, "none", "f")));
    }

    [Fact]
    public async Task Place_ThatRoleTellsWithinMulti_IsThatOfTheStream()
    {
        const int Operations = 400, Keys = 12;
        int seed = Environment.TickCount;
        output.WriteLine($"seed {seed}");
        await using TestRedis redis = await TestRedis.StartAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(new()));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        var told = new List<(int Database, string Key, long Place)>[4];
        await Task.WhenAll(Enumerable.Range(0, told.Length).Select(async client =>
        {
            told[client] = [];
            var random = new Random(seed + client);
            await using RedisConnection connection = await redis.ConnectAsync();
            for (int i = 0; i < Operations; i++)
            {
                int database = random.Next(3);
                await connection.ExpectAsync("SELECT", $"{database}");
                string key = $"k{random.Next(Keys)}";
                string[] write = random.Next(6) switch
                {
                    0 => ["DEL", key],
                    1 => ["SET", key, "x", "PX", "1"],
                    2 => ["MSET", key, "1", $"k{random.Next(Keys)}", "2"],
                    3 => ["EVAL", "redis.call('set',KEYS[1],'1');return redis.call('append',KEYS[1],'2')", "1", key],
                    _ => ["SET", key, "1"],
                };
                await connection.ExpectAsync("MULTI");
                await connection.ExpectAsync("ROLE");
                await connection.ExpectAsync(write);
                RedisReply done = await connection.ExpectAsync("EXEC");
                if (write[0] == "DEL" && done.Items[1].Integer == 0) { continue; }
                told[client].Add((database, key, done.Items[0].Items[1].Integer + 1));
            }
        }));
        await using RedisConnection last = await redis.ConnectAsync();
        long end = (await last.RoleAsync()).Offset;
        await sink.WaitForAsync(end);
        // Each place that a client was told is, in the stream read up to just behind it, the key's.
        byte[] bytes = sink.Bytes;
        var table = new KeyVersions(1000, full.Offset);
        var keys = new WrittenKeys(table, full.Offset, 0);
        int at = 0;
        foreach ((int database, string key, long place) in told.SelectMany(t => t).OrderBy(t => t.Place))
        {
            while (keys.Position < place)
            {
                keys.Read(bytes.AsSpan(at++, 1));
            }
            // Of a transaction to its end.
            while (table.Find(StoreKey.HashOf(database, Encoding.ASCII.GetBytes(key))) < place) { keys.Read(bytes.AsSpan(at++, 1)); }
            Assert.Equal(place, Of(table, key, database: database));
        }
        Assert.True(told.Sum(t => t.Count) > Operations);
    }
}
