// A store that goes forward by commands: what expires on the way, what is put back, and what cannot be repeated.
using System.Globalization;
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Past;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Past;

public sealed class RollingStoreTests
{
    private const int Start = 1000;
    private static readonly TimeSpan s_most = TimeSpan.FromMinutes(1);

    private sealed class Stream(byte[] bytes) : IHistorySource
    {
        public int Read(long offset, Span<byte> destination)
        {
            int count = Math.Min(destination.Length, bytes.Length - (int)(offset - Start));
            bytes.AsSpan((int)(offset - Start), count).CopyTo(destination);
            return count;
        }
    }

    /// <summary>A store with its stream: versions with a bar between, and their commands with a semicolon between.</summary>
    private sealed class Rolled(TestRedis redis, RollingStore store, RollingSources sources, List<long> ends) : IAsyncDisposable
    {
        public RollingStore Store => store;

        public RollingSources Sources => sources;

        public static async Task<Rolled> StartAsync(string stream, Func<StoreKey, bool>? isWanted = null)
        {
            var bytes = new List<byte>();
            List<long> ends = [];
            foreach (string version in stream.Split('|'))
            {
                foreach (string command in version.Split(';', StringSplitOptions.RemoveEmptyEntries))
                {
                    string[] words = command.Split(' ');
                    bytes.AddRange(Encoding.ASCII.GetBytes($"*{words.Length}\r\n"));
                    foreach (string word in words) { bytes.AddRange(Encoding.ASCII.GetBytes($"${word.Length}\r\n{word}\r\n")); }
                }
                ends.Add(Start + bytes.Count);
            }
            TestRedis redis = await TestRedis.StartAsync();
            string file = Path.Combine(redis.Directory, "base.rdb");
            await File.WriteAllBytesAsync(file, RdbFile.Empty());
            var sources = new RollingSources(file, Start, new Stream([.. bytes]), ends[^1], isWanted);
            return new(redis, await RollingStore.OpenAsync(redis.Endpoint, sources, default), sources, ends);
        }

        public Task<bool> ToAsync(int version, long timeMs) => store.BringAsync(ends[version], timeMs, s_most, default);

        public long EndOf(int version) => ends[version];

        // What a script sees.
        public async Task<string> EvalAsync(string script)
        {
            byte[][] words = [.. new[] { "EVAL_RO", script, "0" }.Select(Encoding.ASCII.GetBytes)];
            byte[] reply = await store.RunAsync(0, 2, ["+@all"], words, default);
            return Encoding.ASCII.GetString(reply).Replace("\r\n", " ", StringComparison.Ordinal).TrimEnd();
        }

        public string Told() => string.Join(';', store.Told.Select(c => string.Join(' ', c.Select(Encoding.ASCII.GetString))));

        public async ValueTask DisposeAsync()
        {
            await store.DisposeAsync();
            await redis.DisposeAsync();
        }
    }

    private const string Values = "local a = {} for d = 0, 1 do redis.call('SELECT', d) for _, k in ipairs(redis.call('KEYS', '*')) do "
        + "a[#a + 1] = d .. k .. redis.call('GET', k) end end table.sort(a) return table.concat(a, ',')";

    [Fact]
    public async Task Expiry_ByTheTimeOfEachPlace_WhateverTheClockSays()
    {
        await using Rolled rolled = await Rolled.StartAsync(
            "SET a 1 PXAT 2000;SET b 2 PXAT 9000|RENAME b c;PEXPIREAT c 3000|SET d 4|DEL a");
        Assert.True(await rolled.ToAsync(0, 1000));
        Assert.Equal("$7 0a1,0b2", await rolled.EvalAsync(Values));
        Assert.Equal("", rolled.Told());
        await rolled.ToAsync(1, 2000);
        Assert.Equal("$3 0c2", await rolled.EvalAsync(Values));
        Assert.Equal("RENAME b c;PEXPIREAT c 3000;DEL a", rolled.Told());
        Assert.Equal(3000, rolled.Store.NextExpiryMs);
        await rolled.ToAsync(2, 2999);
        Assert.Equal("$7 0c2,0d4", await rolled.EvalAsync(Values));
        await rolled.ToAsync(3, 3000);
        Assert.Equal("$3 0d4", await rolled.EvalAsync(Values));
        Assert.Equal("DEL a;DEL c", rolled.Told());
        Assert.Null(rolled.Store.FindNext(default));
    }

    // By Redis's own clock it was not over yet.
    [Fact]
    public async Task Command_OnAKeyThatWasTakenOut_FindsItAsItWas()
    {
        await using Rolled rolled = await Rolled.StartAsync("SET a 1 PXAT 2000;SET b 2 PXAT 2000|APPEND a x;PEXPIREAT a 5000|SWAPDB 0 1");
        await rolled.ToAsync(0, 2000);
        Assert.Equal("$0", await rolled.EvalAsync(Values));
        await rolled.ToAsync(1, 2100);
        Assert.Equal("$4 0a1x", await rolled.EvalAsync(Values));
        await rolled.ToAsync(2, 2200);
        Assert.Equal("$4 1a1x", await rolled.EvalAsync(Values));
    }

    [Fact]
    public async Task Expiry_OfDatabasesThatAreSwapped_IsOfTheKeyWhereItIs()
    {
        await using Rolled rolled = await Rolled.StartAsync(
            "SET a 1 PXAT 2000;SET k 0 PXAT 8000;SELECT 1;SET k 1 PXAT 3000;SWAPDB 1 0;SET x 9|DEL x|FLUSHALL");
        await rolled.ToAsync(0, 1000);
        Assert.Equal("$15 0k1,1a1,1k0,1x9", await rolled.EvalAsync(Values));
        await rolled.ToAsync(1, 2500);
        Assert.Equal("$7 0k1,1k0", await rolled.EvalAsync(Values));
        await rolled.ToAsync(1, 3000);
        Assert.Equal("$3 1k0", await rolled.EvalAsync(Values));
        await rolled.ToAsync(2, 9000);
        Assert.Equal("$0", await rolled.EvalAsync(Values));
    }

    // Of the others nothing is done, whatever other keys a command names.
    [Fact]
    public async Task Keys_ThatAreNotWanted_AreNotThere_UntilAllBeginsAnew()
    {
        static Func<StoreKey, bool> Of(string first) => key => first.Contains((char)key.Name[0], StringComparison.Ordinal);
        await using Rolled rolled = await Rolled.StartAsync(
            "SET a 1;SET b 2;SET c 3 PXAT 2000|SET b 4|MSET a 5 b 6|APPEND b 7|SET c 8|UNLINK a b c", Of("ac"));
        await rolled.ToAsync(0, 1000);
        Assert.Equal("$7 0a1,0c3", await rolled.EvalAsync(Values));
        // The one that names it in the version behind the next.
        Assert.Equal(rolled.EndOf(2), rolled.Store.FindNext(default));
        await rolled.ToAsync(2, 1500);
        Assert.Equal("$7 0a5,0c3", await rolled.EvalAsync(Values));
        await rolled.ToAsync(2, 2500);
        await rolled.Store.LeaveOutAsync(Of("a"), default);
        Assert.Equal("$3 0a5", await rolled.EvalAsync(Values));
        Assert.Null(rolled.Store.NextExpiryMs);
        await rolled.ToAsync(3, 2600);
        await rolled.Store.BeginAnewAsync(rolled.Sources with { IsWanted = Of("ab") }, default);
        await rolled.ToAsync(3, 2600);
        Assert.Equal("$8 0a5,0b67", await rolled.EvalAsync(Values));
        await rolled.ToAsync(4, 2700);
        Assert.Equal("", rolled.Told());
        await rolled.ToAsync(5, 2800);
        Assert.Equal(("$0", "UNLINK a b c"), (await rolled.EvalAsync(Values), rolled.Told()));
    }

    [Fact]
    public async Task Told_AreTheNewest_AndTheOthersAreCounted()
    {
        string many = string.Join(';', Enumerable.Range(0, 2500).Select(i => $"SET k{i} {i}"));
        await using Rolled rolled = await Rolled.StartAsync($"SET a 1|{many}|DEL a");
        await rolled.ToAsync(0, 0);
        await rolled.ToAsync(1, 0);
        Assert.Equal((2400, 100), (rolled.Store.LeftOut, rolled.Store.Told.Count));
        Assert.EndsWith("SET k2499 2499", rolled.Told(), StringComparison.Ordinal);
        Assert.Equal(":2501", await rolled.EvalAsync("return redis.call('DBSIZE')"));
        await rolled.ToAsync(2, 0);
        Assert.Equal((0, "DEL a"), (rolled.Store.LeftOut, rolled.Told()));
    }

    [Theory]
    [InlineData("HPEXPIREAT h 5 FIELDS 1 f", "the log has HPEXPIREAT")]
    [InlineData("SET a 1 EX 5", "SET with an expiry that is not an absolute time")]
    [InlineData("LPUSH l 1;INCR l", "Redis answered -WRONGTYPE")]
    public async Task WhatCannotBeRepeated_IsNamed(string stream, string why)
    {
        await using Rolled rolled = await Rolled.StartAsync(stream);
        PastException refused = await Assert.ThrowsAsync<PastException>(() => rolled.ToAsync(0, 0));
        Assert.Contains(why, refused.Message);
    }
}
