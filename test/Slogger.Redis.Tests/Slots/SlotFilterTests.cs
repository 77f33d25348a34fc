// What of a stream is kept for some slots: command by command, however it is cut; and against a real redis-server, whose stream is divided
// among others that together hold what it holds.
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Redis.Slots;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Slots;

public sealed class SlotFilterTests(ITestOutputHelper output)
{
    // Slots 0-8191 have "b", slots 8192-16383 have "a" (15495), by Redis's own CRC16.
    private static readonly SlotRange Low = SlotMap.EvenSlots(2, 0), High = SlotMap.EvenSlots(2, 1);

    [Theory]
    [InlineData("SET a 1|SET b 2", "SET b 2")]
    [InlineData("SELECT 0|SET b 1|PING|REPLCONF GETACK *|PUBLISH x y|SPUBLISH x y", "SET b 1")]
    [InlineData("MULTI|SET a 1|EXEC|SET b 2", "SET b 2")]
    [InlineData("MULTI|SET a 1|SET b 2|PUBLISH x y|INCR {b}c|EXEC", "MULTI|SET b 2|INCR {b}c|EXEC")]
    [InlineData("MULTI|EXEC|multi|del b|exec", "MULTI|del b|exec")]
    [InlineData("DEL a b {a}x {b}x", "DEL b {b}x")]
    [InlineData("UNLINK a|MSET a 1 b 2|MSETNX {b}1 1 a 2", "MSET b 2|MSETNX {b}1 1")]
    [InlineData("RENAME a {a}b|RENAME b {b}c|SUNIONSTORE {b}s b {b}c", "RENAME b {b}c|SUNIONSTORE {b}s b {b}c")]
    [InlineData("FUNCTION FLUSH", "FUNCTION FLUSH")]
    public void Take_KeepsWhatConcernsTheSlots(string stream, string expected)
    {
        byte[] bytes = Encode(stream);
        Assert.Equal(Encoding.ASCII.GetString(Encode(expected)), Filtered(new(Low, true, true), bytes, bytes.Length));
        // However it is cut.
        for (int piece = 1; piece < 40; piece++)
        {
            Assert.Equal(Encoding.ASCII.GetString(Encode(expected)), Filtered(new(Low, true, true), bytes, piece));
        }
    }

    [Theory]
    [InlineData("RENAME a b", "several of this site's shards", false)]
    [InlineData("SUNIONSTORE b a", "several of this site's shards", false)]
    [InlineData("MULTI|SET b 1|LMOVE a b LEFT LEFT|EXEC", "several of this site's shards", false)]
    [InlineData("SORT b BY w_* STORE {b}s", "any slot", false)]
    [InlineData("SWAPDB 0 1", "any slot", false)]
    [InlineData("SOMEBODYS.OWN b", "any slot", false)]
    [InlineData("SELECT 2|SET a 1", "database 2", false)]
    [InlineData("MOVE b 3", "database 3", false)]
    [InlineData("FLUSHALL", "emptied", true)]
    [InlineData("FLUSHDB ASYNC", "emptied", true)]
    public void Take_WhatCannotBeFollowed_IsRefused(string stream, string why, bool isOver)
    {
        SlotEffectException refused = Assert.Throws<SlotEffectException>(() => Filtered(new(Low, false, true), Encode(stream), 7));
        Assert.Contains(why, refused.Message, StringComparison.Ordinal);
        Assert.Equal(isOver, refused.IsOver);
    }

    [Fact]
    public void Take_OneOfSeveralSources_EmptiesNothingAndGivesFunctionsOnce()
    {
        Assert.Equal("", Filtered(new(Low, false, false), Encode("FUNCTION FLUSH|SELECT 5|FLUSHDB"), 100));
        Assert.Equal(Encoding.ASCII.GetString(Encode("FLUSHALL ASYNC")), Filtered(new(Low, true, false), Encode("FLUSHALL ASYNC"), 100));
    }

    [Fact]
    public void IsAtBoundary_InsideACommandOrATransaction_IsFalse()
    {
        var filter = new SlotFilter(new(Low, true, true), 0);
        Assert.True(filter.IsAtBoundary);
        filter.Take("\n*1\r\n$5\r\nMUL"u8, null);
        Assert.False(filter.IsAtBoundary);
        filter.Take("TI\r\n"u8, null);
        Assert.False(filter.IsAtBoundary);
        filter.Take("*1\r\n$4\r\nEXEC\r\n\n"u8, null);
        Assert.True(filter.IsAtBoundary);
    }

    // One source, two shards: what each is given makes of an empty server its half of the source.
    [Fact]
    public async Task Take_StreamOfARedis_DividedAmongTwo_TogetherTheyHoldWhatItHolds()
    {
        int seed = Environment.TickCount;
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        await using TestRedis redis = await TestRedis.StartAsync(), low = await TestRedis.StartAsync(), high = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        using var link = new ReplicationLink(new() { Endpoint = redis.Endpoint });
        var full = Assert.IsType<AttachResult.Full>(
            await link.AttachAsync(new() { OnFull = OnFullSync.WithData, RdbFile = Path.Combine(redis.Directory, "base.rdb") }));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        for (int i = 0; i < 3000; i++)
        {
            // Emptied now and then, but not so late that it ends with few keys.
            string[][] commands = i < 2500 && random.Next(840) == 0 ? [["FLUSHALL"]] : Next(random);
            foreach (string[] command in commands) { await client.CommandAsync(command); }
        }
        long end = (await client.RoleAsync()).Offset;
        await sink.WaitForAsync(end);
        byte[] stream = new byte[end - full.Offset];
        for (int at = 0; at < stream.Length;) { at += sink.Read(full.Offset + at, stream.AsSpan(at)); }
        int keys = 0;
        foreach ((TestRedis server, SlotRange slots) in new[] { (low, Low), (high, High) })
        {
            await using RedisConnection half = await server.ConnectAsync();
            string kept = Filtered(new(slots, true, true), stream, 1000);
            foreach (string[] command in Decode(kept))
            {
                RedisReply reply = await half.CommandAsync(command);
                Assert.False(reply.IsError, $"{string.Join(' ', command)}: {reply.Text}");
            }
            foreach (RedisReply key in (await half.ExpectAsync("KEYS", "*")).Items)
            {
                keys++;
                Assert.True(slots.Contains(HashSlot.Of(Encoding.ASCII.GetBytes(key.Text))));
                Assert.Equal((await client.ExpectAsync("DEBUG", "DIGEST-VALUE", key.Text)).Items[0].Text,
                    (await half.ExpectAsync("DEBUG", "DIGEST-VALUE", key.Text)).Items[0].Text);
                Assert.Equal((await client.ExpectAsync("PEXPIRETIME", key.Text)).Integer,
                    (await half.ExpectAsync("PEXPIRETIME", key.Text)).Integer);
            }
        }
        Assert.Equal((await client.ExpectAsync("DBSIZE")).Integer, keys);
        Assert.True(keys > 20, $"{keys} keys");
    }

    private static string[][] Next(Random random)
    {
        string tag = $"{{{random.Next(30)}}}", key = tag + random.Next(3), other = tag
            + random.Next(3), far = $"{{{random.Next(30)}}}0", value = new('v', random.Next(300));
        return random.Next(14) switch
        {
            0 => [["SET", key, value]],
            1 => [["SET", key, value, "PX", "3600000"]],
            2 => [["RPUSH", key, value, "x"], ["LPOP", key]],
            3 => [["SADD", key, value, "1", "2", "3"], ["SPOP", key]],
            4 => [["ZADD", key, "1", value, "2", "x"], ["ZPOPMIN", key]],
            5 => [["HSET", key, "f", value], ["HINCRBY", key, "n", "2"]],
            6 => [["XADD", key, "*", "f", value]],
            7 => [["MULTI"], ["SET", key, value], ["DEL", far], ["SPUBLISH", "m", value], ["INCR", other], ["EXEC"]],
            8 => [["DEL", key, far, other]],
            9 => [["MSET", key, value, far, value]],
            10 => [["RENAME", key, other]],
            11 => [["EVAL", "redis.call('SET', KEYS[1], ARGV[1]) redis.call('DEL', KEYS[2]) return 1", "2", key, far, value]],
            12 => [["COPY", key, other, "REPLACE"], ["APPEND", key, "x"]],
            _ => [["PUBLISH", "m", value], ["PEXPIRE", key, "7200000"]],
        };
    }

    private static string Filtered(SlotShare share, byte[] bytes, int piece)
    {
        var filter = new SlotFilter(share, 0);
        var kept = new StringBuilder();
        for (int at = 0; at < bytes.Length; at += piece)
        {
            filter.Take(bytes.AsSpan(at, Math.Min(piece, bytes.Length - at)), b => kept.Append(Encoding.Latin1.GetString(b)));
        }
        Assert.True(filter.IsAtBoundary);
        return kept.ToString();
    }

    private static byte[] Encode(string commands) =>
        Encoding.ASCII.GetBytes(string.Concat(commands.Split('|').Select(c => c.Split(' '))
            .Select(c => $"*{c.Length}\r\n{string.Concat(c.Select(a => $"${a.Length}\r\n{a}\r\n"))}")));

    private static IEnumerable<string[]> Decode(string stream)
    {
        for (int at = 0; at < stream.Length;)
        {
            int count = Number('*');
            string[] command = new string[count];
            for (int i = 0; i < count; i++)
            {
                int length = Number('$');
                command[i] = stream.Substring(at, length);
                at += length + 2;
            }
            yield return command;

            int Number(char kind)
            {
                Assert.Equal(kind, stream[at]);
                int end = stream.IndexOf('\r', at), number = int.Parse(
                    stream.AsSpan(at + 1, end - at - 1), System.Globalization.CultureInfo.InvariantCulture);
                at = end + 2;
                return number;
            }
        }
    }
}
