// The rules of the reduction one by one, as they are numbered in EffectReducer. What is expected is text: the commands that are left.
// ReductionEquivalenceTests shows that a real Redis agrees.
using System.Buffers;
using System.Globalization;
using System.Text;
using Slogger.Core.Sessions;
using Slogger.Redis.Connections;
using Slogger.Redis.Reduction;
using Slogger.Redis.Replication;

namespace Slogger.Redis.Tests.Reduction;

public sealed class EffectReducerTests
{
    [Theory]
    [InlineData("SET a 1; SET a 2; SET b 3", "SET a 2; SET b 3")]
    [InlineData("SET a 1; SET a 2 PXAT 5; set a 3", "set a 3")]
    [InlineData("HSET a f 1; PEXPIREAT a 5; XADD a 1-1 f v; SET a 2", "SET a 2")]
    [InlineData("SET a 1; RESTORE a 0 x REPLACE; RESTORE a 5 x IDLETIME 3 ABSTTL REPLACE", "RESTORE a 5 x IDLETIME 3 ABSTTL REPLACE")]
    public void Rule1_Overwrite_KillsWhatTheKeyWas(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("DEL a", "DEL a")]
    [InlineData("SET a 1; DEL a", "DEL a")]
    [InlineData("DEL a; UNLINK a; INCR a", "UNLINK a; INCR a")]
    [InlineData("DEL a; SET a 1", "SET a 1")]
    public void Rule1_Delete_StaysUntilTheNextOverwrite(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("DEL a; SET a 1 NX")]
    [InlineData("SET a 1; SET a 2 XX")]
    [InlineData("DEL a; SET a 1 GET")]
    [InlineData("DEL a; GETSET a 1")]
    [InlineData("DEL a; SETNX a 1")]
    [InlineData("DEL a; RESTORE a 0 x")]
    [InlineData("SET a 1; RESTORE a 5 x REPLACE")]
    [InlineData("SET a 1; SET a 2 PX 5")]
    [InlineData("SET a 1; SET a 2 PXAT 5 XX")]
    public void Rule1_WhatDependsOnTheKey_IsNoOverwrite(string commands) => Is(commands, commands);

    [Theory]
    [InlineData("MSET a 1 b 2; DEL c d", "MSET a 1 b 2; DEL c d")]
    [InlineData("MSET a 1 b 2 c 3; SET b 4", "MSET a 1 c 3; SET b 4")]
    [InlineData("mset a 1 b 2; SET a 3; SET b 4", "SET a 3; SET b 4")]
    [InlineData("MSET a 1 a 2", "MSET a 2")]
    [InlineData("UNLINK a b c; SET a 1; DEL b", "UNLINK c; SET a 1; DEL b")]
    [InlineData("SET a 1; SET b 1; MSET a 2 b 2", "MSET a 2 b 2")]
    [InlineData("SET a 1; MSETNX b 1 c 2; SET b 3", "SET a 1; MSETNX b 1 c 2; SET b 3")]
    public void Rule1_CommandOfSeveralKeys_DiesKeyByKey(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("SET a 1 KEEPTTL; SET a 2 KEEPTTL", "SET a 2 KEEPTTL")]
    [InlineData("SET a 1 KEEPTTL; APPEND a x; SET a 2 KEEPTTL", "SET a 1 KEEPTTL; APPEND a x; SET a 2 KEEPTTL")]
    [InlineData("SET a 1 PXAT 5; SET a 2 KEEPTTL; SET a 3 KEEPTTL", "SET a 1 PXAT 5; SET a 3 KEEPTTL")]
    public void Rule2_KeepTtl_TakesThePlaceOfTheOneBefore(string before, string after) => Is(before, after);

    // Without the first, there may be no key that the expiry is of.
    [Fact]
    public void Rule2_KeepTtlBehindAnExpiry_StandsWhereTheFirstStood() =>
        Is("SET a 1 KEEPTTL; PEXPIREAT a 5; SET a 2 KEEPTTL", "SET a 2 KEEPTTL; PEXPIREAT a 5");

    [Theory]
    [InlineData("INCR a; INCR a; DECR a; INCRBY a 5; DECRBY a 2", "INCRBY a 4")]
    [InlineData("INCR a", "INCR a")]
    [InlineData("DECR a; INCR a", "INCRBY a 0")]
    [InlineData("INCR a; PEXPIREAT a 5; INCR a", "INCRBY a 2; PEXPIREAT a 5")]
    [InlineData("INCR a; APPEND a 1; INCR a", "INCR a; APPEND a 1; INCR a")]
    [InlineData("INCRBY a 9223372036854775807; INCR a; INCR a", "INCRBY a 9223372036854775807; INCRBY a 2")]
    [InlineData("DECRBY a 9223372036854775807; DECR a; DECR a", "INCRBY a -9223372036854775808; DECR a")]
    public void Rule3_Counts_AreAddedWhileTheyFit(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("HSET h f 1 g 2; HSET h i 3; HMSET h f 4", "HSET h f 4 g 2 i 3")]
    [InlineData("HSET h f 1; HINCRBY h f 1; HSET h f 3", "HSET h f 1; HINCRBY h f 1; HSET h f 3")]
    [InlineData("HSET h f 1 f 2", "HSET h f 1 f 2")]
    [InlineData("HSET h f 1 f 2; HSET h g 3", "HSET h f 2 g 3")]
    [InlineData("HSET h f 1; HSETNX h g 2; HSET h f 3", "HSET h f 1; HSETNX h g 2; HSET h f 3")]
    public void Rule3_Fields_HaveTheirLastValueInTheOrderOfAppearance(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("ZADD z 1 a; ZADD z -2.5 b 3 a; ZADD z +inf c", "ZADD z 3 a -2.5 b +inf c")]
    [InlineData("ZADD z 1 a; ZADD z GT 2 a; ZADD z 3 a", "ZADD z 1 a; ZADD z GT 2 a; ZADD z 3 a")]
    [InlineData("ZADD z 1 a; ZADD z NX CH 2 b", "ZADD z 1 a; ZADD z NX CH 2 b")]
    [InlineData("ZADD z INCR 1 a; ZADD z INCR 1 a", "ZADD z INCR 1 a; ZADD z INCR 1 a")]
    [InlineData("ZINCRBY z 1 a; ZINCRBY z 1 a", "ZINCRBY z 1 a; ZINCRBY z 1 a")]
    public void Rule3_Scores_AreMergedWithoutOptions(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("SADD s a b; SADD s b c", "SADD s a b c")]
    [InlineData("SREM s a; SREM s b a", "SREM s a b")]
    [InlineData("HDEL h a; PEXPIREAT h 5; HDEL h b", "HDEL h a b; PEXPIREAT h 5")]
    public void Rule3_Members_AreNamedOnce(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("RPUSH l a b; RPUSH l a", "RPUSH l a b a")]
    [InlineData("LPUSH l a b; LPUSH l c", "LPUSH l a b c")]
    [InlineData("RPUSH l a; LPUSH l b; RPUSH l c", "RPUSH l a; LPUSH l b; RPUSH l c")]
    [InlineData("APPEND s ab; APPEND s c; APPEND s def", "APPEND s abcdef")]
    public void Rule3_Elements_FollowEachOther(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("LPUSH l a b c; LTRIM l 0 1; LPUSH l d; LTRIM l 0 1", "LPUSH l c d; LTRIM l 0 1")]
    [InlineData("LPUSH l a; LTRIM l 0 1; LPUSH l b; LTRIM l 0 1; LPUSH l c d", "LPUSH l a b; LTRIM l 0 1; LPUSH l c d")]
    [InlineData("LPUSH l a b; LTRIM l 0 0; LTRIM l 0 0", "LPUSH l b; LTRIM l 0 0")]
    [InlineData("LPUSH l a; LTRIM l 0 1; LPUSH l b; LTRIM l 0 2; LPUSH l c", "LPUSH l a; LTRIM l 0 1; LPUSH l b; LTRIM l 0 2; LPUSH l c")]
    [InlineData("LPUSH l a; LTRIM l 0 -2; LPUSH l b", "LPUSH l a; LTRIM l 0 -2; LPUSH l b")]
    [InlineData("LPUSH l a; LTRIM l 1 2; LPUSH l b", "LPUSH l a; LTRIM l 1 2; LPUSH l b")]
    [InlineData("RPUSH l a; LTRIM l 0 2; RPUSH l b", "RPUSH l a; LTRIM l 0 2; RPUSH l b")]
    [InlineData("LTRIM l 0 2; LPUSH l a; LTRIM l 0 2", "LTRIM l 0 2; LPUSH l a; LTRIM l 0 2")]
    public void Rule3_TrimmedList_KeepsWhatWasPushedLast(string before, string after) => Is(before, after);

    [Fact]
    public void Rule3_MergedCommand_HasABound()
    {
        string commands = string.Join("; ",
            Enumerable.Range(0, 10).Select(i => Text($"RPUSH l {i}; APPEND s 12345; HSET h f{i} v; INCR n")));
        Is(commands, "RPUSH l 0 1 2 3 4 5 6 7; APPEND s 12345123451234512345123451234512345; HSET h f0 v f1 v f2 v f3 v; INCRBY n 10; "
            + "HSET h f4 v f5 v f6 v f7 v; APPEND s 123451234512345; RPUSH l 8 9; HSET h f8 v f9 v",
            new(new() { MergedArgumentsMax = 8, MergedBytesMax = 35 }));
        Is("SADD s a b c d; SADD s e", "SADD s a b c d; SADD s e", new(new() { MergedArgumentsMax = 3 }));
    }

    // A field that is written again takes no more room.
    [Fact]
    public void Rule3_FieldsWrittenOften_AreOneCommand()
    {
        string commands = string.Join("; ", Enumerable.Range(0, 1000).Select(i => Text($"HSET h f{i % 4} v{i}")));
        Is(commands, "HSET h f0 v996 f1 v997 f2 v998 f3 v999", new(new() { MergedArgumentsMax = 10, MergedBytesMax = 100 }));
    }

    [Theory]
    [InlineData("PEXPIREAT a 5; PEXPIREAT a 6", "PEXPIREAT a 6")]
    [InlineData("PEXPIREAT a 5; APPEND a x; PERSIST a", "APPEND a x; PERSIST a")]
    [InlineData("SET a 1; PEXPIREAT a 5; SET a 2", "SET a 2")]
    [InlineData("PEXPIREAT a 5; RENAME a b; PEXPIREAT b 6", "PEXPIREAT a 5; RENAME a b; PEXPIREAT b 6")]
    public void Rule4_Expiry_KillsTheOneBefore(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("PEXPIREAT h 5; HDEL h f; HSET h f 1; PEXPIREAT h 6", "HDEL h f; HSET h f 1; PEXPIREAT h 6")]
    [InlineData("PEXPIREAT h 5; HDEL h f; HSET h f 1", "PEXPIREAT h 5; HDEL h f; HSET h f 1")]
    public void Rule4_Expiry_IsNeverMovedUp(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("PEXPIREAT a 5; PEXPIREAT a 6 GT")]
    [InlineData("PEXPIREAT a 5; PEXPIREAT a 6 GT; PEXPIREAT a 7")]
    public void Rule4_ExpiryWithACondition_KillsNothing(string commands) => Is(commands, commands);

    [Theory]
    [InlineData("HSET h f 1; HDEL h f; HSET h f 2")]
    [InlineData("HDEL h f; HSET h f 1; HDEL h f")]
    [InlineData("SADD s a; SREM s a; SADD s a")]
    [InlineData("ZADD z 1 a; ZREM z a; ZADD z 1 a")]
    [InlineData("RPUSH l a; LPOP l; RPUSH l a")]
    public void Rule5_WhatMayEmptyTheKey_EndsTheRun(string commands) => Is(commands, commands);

    [Theory]
    [InlineData("SET a 1; RENAME a b; SET a 2; SET b 3")]
    [InlineData("SET a 1; COPY a b; SET a 2")]
    [InlineData("RPUSH a x; LMOVE a b LEFT RIGHT; RPUSH a y; RPUSH b z")]
    [InlineData("SADD a x; SMOVE a b x; SADD a y")]
    [InlineData("SADD b x; SUNIONSTORE a b c; SADD b y; DEL c")]
    [InlineData("SET a 1; BITOP NOT b a; SET a 2")]
    [InlineData("PFADD a x; PFMERGE b a; DEL a")]
    [InlineData("RPUSH a x; SORT a STORE b; RPUSH a y")]
    [InlineData("SELECT 1; SET a 1; SELECT 0; SET a 2; MOVE a 1; SET a 3; SELECT 1; SET a 4")]
    public void Rule6_JointCommand_IsABarrierForItsKeys(string commands) => Is(commands, commands);

    [Fact]
    public void Rule6_JointCommand_IsNoBarrierForOtherKeys() => Is("SET c 1; RENAME a b; SET c 2", "RENAME a b; SET c 2");

    [Theory]
    [InlineData("SET a 1; SELECT 1; SET b 1; RENAME b c; FLUSHALL; SET a 2", "SELECT 1; FLUSHALL; SET a 2")]
    [InlineData("FLUSHALL ASYNC; SET a 1; FLUSHALL", "FLUSHALL")]
    [InlineData("SET a 1; MODULE.SET a 2; SET b 1; FLUSHALL", "SET a 1; MODULE.SET a 2; FLUSHALL")]
    [InlineData("FUNCTION LOAD x; SET a 1; FLUSHALL", "FUNCTION LOAD x; FLUSHALL")]
    [InlineData("SET a 1; SELECT 1; SET b 1; FLUSHDB; SET b 2", "SET a 1; SELECT 1; FLUSHDB; SET b 2")]
    public void Rule7_Flush_KillsWhatItFlushes(string before, string after) => Is(before, after);

    [Theory]
    [InlineData("SET a 1; COPY a b DB 1; FLUSHDB")]
    [InlineData("SET a 1; SWAPDB 0 1; FLUSHDB")]
    public void Rule7_FlushOfADatabase_SparesWhatWasReadOrSwapped(string commands) => Is(commands, commands);

    [Theory]
    [InlineData("SET a 1; SWAPDB 0 1; SET a 2")]
    [InlineData("SET a 1; FUNCTION FLUSH; SET a 2")]
    [InlineData("SET a 1; JSON.SET b . 1; SET a 2")]
    [InlineData("SET a 1; SORT b BY w_* STORE c; SET a 2")]
    [InlineData("INCR a; SPOP b; INCR a")]
    [InlineData("SET a 1; SETEX a 5 1; SET a 2")]
    [InlineData("SET a 1; SET a; SET a 2")]
    public void Rule7_WhatIsNotKnown_IsABarrierForAll(string commands) => Is(commands, commands);

    [Theory]
    [InlineData("MULTI; SET a 1; PUBLISH c m; EXEC; PING; REPLCONF GETACK *; SPUBLISH c m; SET a 2", "SET a 2")]
    [InlineData("SELECT 0; SELECT 3; SET a 1; SELECT 0; SET a 2; SELECT 3; SET a 3", "SET a 2; SELECT 3; SET a 3")]
    [InlineData("SELECT 4; PING", "SELECT 4")]
    [InlineData("SELECT 4; SET a 1; SELECT 0", "SELECT 4; SET a 1; SELECT 0")]
    [InlineData("", "")]
    public void Rule8_WhatChangesNoData_IsLeftOut(string before, string after) => Is(before, after);

    [Fact]
    public void Rule8_Marks_TheLastOfEachSessionIsKept()
    {
        var codec = new MarkerCodec(new string('a', 32));
        string Mark(params (UInt128 Session, long Last)[] sessions)
        {
            byte[] payload = new byte[512];
            int length = 0;
            foreach ((UInt128 session, long last) in sessions) { length = SessionMark.Append(payload, length, session, last); }
            return $"SPUBLISH {codec.Channel} {Encoding.ASCII.GetString(payload, 0, length)}";
        }
        string before = $"{Mark((1, 5))}; SET a 1; {Mark((2, 7), (1, 6))}; SPUBLISH {codec.Channel} 1:2:3:4; {Mark((2, 9))}; SPUBLISH x S1";
        Is(before, $"SET a 1; {Mark((1, 6), (2, 9))}", new(null, codec));
        Is(before, "SET a 1");
    }

    [Theory]
    [InlineData("SETRANGE a 1 x; SETBIT a 1 1; LSET a 0 x; LREM a 0 x; LINSERT a BEFORE x y; PFADD a x; XADD a 1-1 f v; XTRIM a MAXLEN 1")]
    [InlineData("XGROUP CREATE a g 0; XGROUP CREATE a h 0; ZINCRBY a 1 x; BITFIELD a SET u8 0 1; HINCRBY a f 1; LPUSHX a x")]
    public void Rule9_AllElse_IsKeptAsItIs(string commands) => Is(commands, commands);

    [Fact]
    public void Rule9_AllElse_DiesByAnOverwrite() => Is("XADD a 1-1 f v; XGROUP CREATE a g 0; SETRANGE a 1 x; DEL a", "DEL a");

    [Fact]
    public void Rule9_LoneCommand_KeepsItsOwnBytes() => Is("incr a; HMSET h f 1; dEl b", "incr a; HMSET h f 1; dEl b");

    [Fact]
    public void Window_OfSeveralVersions_IsFullAtItsBounds()
    {
        byte[] stream = ReductionText.Stream("SET a 1; SET a 2; SET a 3; SET a 4");
        int version = stream.Length / 4;
        foreach (ReductionLimits limits in (ReductionLimits[])[new() { WindowCommandsMax = 2 }, new() { WindowBytesMax = 2 * version }])
        {
            var reducer = new EffectReducer(limits);
            reducer.Begin(stream, version, 0);
            Assert.True(reducer.TryTake(2 * version));
            Assert.True(reducer.TryTake(3 * version));
            Assert.False(reducer.TryTake(4 * version));
            var output = new ArrayBufferWriter<byte>();
            Assert.Equal(new ReducedWindow(2, 1, 2 * version, version, 0), reducer.Write(output));
            Assert.Equal("SET a 3", ReductionText.Of(output.WrittenSpan.ToArray()));
        }
    }

    [Fact]
    public void Window_OfOneLargeVersion_IsTaken() =>
        Is("SET a 1; SET a 2", "SET a 2", new(new() { WindowBytesMax = 1, WindowCommandsMax = 1 }));

    [Theory]
    [InlineData("SET a 1", 3)]
    [InlineData("MULTI; SET a 1", 0)]
    public void Window_ThatEndsInsideOfSomething_IsRefused(string text, int missing)
    {
        byte[] stream = ReductionText.Stream(text);
        var reducer = new EffectReducer();
        reducer.Begin(stream, 0, 0);
        Assert.Equal(RedisProblem.Protocol, Assert.Throws<RedisException>(() => reducer.TryTake(stream.Length - missing)).Problem);
        // It goes on with another.
        Is("SET a 1; SET a 2", "SET a 2", reducer);
    }

    [Fact]
    public void Window_WithEmptyLines_IsRead()
    {
        byte[] stream = [(byte)'\n', .. ReductionText.Stream("SET a 1"), (byte)'\n'];
        var reducer = new EffectReducer();
        reducer.Begin(stream, 0, 0);
        Assert.True(reducer.TryTake(stream.Length));
        Assert.Equal(1, reducer.Write(new ArrayBufferWriter<byte>()).CommandsAfter);
    }

    [Fact]
    public void Overwrites_OfAWindowLikeTheOneBefore_AllocateNothing()
    {
        byte[] stream = ReductionText.Stream(string.Join("; ", Enumerable.Range(0, 5000).Select(i => Text($"SET key:{i % 700} {i}"))));
        var reducer = new EffectReducer();
        var output = new ArrayBufferWriter<byte>(stream.Length);
        long allocated = 0;
        for (int i = 0; i < 4; i++)
        {
            output.ResetWrittenCount();
            long before = GC.GetAllocatedBytesForCurrentThread();
            reducer.Begin(stream, 0, 0);
            reducer.TryTake(stream.Length);
            long left = reducer.Write(output).CommandsAfter;
            allocated = GC.GetAllocatedBytesForCurrentThread() - before;
            Assert.Equal(700, left);
        }
        Assert.Equal(0, allocated);
    }

    private static void Is(string before, string after, EffectReducer? reducer = null) =>
        Assert.Equal(after, ReductionText.Reduced(before, reducer));

    private static string Text(FormattableString text) => text.ToString(CultureInfo.InvariantCulture);
}
