// The scan that looks at slots in passing, where keys are cut into ranges.
using Slogger.Core.Ownership;

namespace Slogger.Resp.Tests;

[Collection(nameof(RedisCluster))]
public sealed unsafe class RangeScanTests(RedisCluster cluster, ITestOutputHelper output)
{
    // Partitions: below b, from b, from d, from m, from m0. Of this shard: the second, the third and the last.
    private static readonly string[] Splits = ["b", "d", "m", "m0"];
    private static readonly bool[] Owned = [false, true, true, false, true];
    private readonly KeyFinder _finder = KeyFinder.FromCommandReply(cluster.First.AskIn(2, "COMMAND"));

    private SlotScanChecker Checker => new(_finder, Partitions(), Owned);

    [Theory]
    [InlineData("SET b 1|GET a|GET c|GET d|GET m|GET m/|GET m0|GET zz", "run 1|slot|run 2|slot|slot|run 2")]
    [InlineData("MGET b c bb|MGET b d|MGET {d}b d|MGET d e lll|MGET d m|MGET m0 n", "run 1|slot|slot|run 1|slot|run 1")]
    [InlineData("MSET b 1 c 2|MSET b 1 a 2|mset d 1 e m", "run 1|slot|run 1")]
    [InlineData("PING|ECHO a|DBSIZE|PUBLISH a b|SPUBLISH a b|SPUBLISH b a", "run 4|slot|run 1")]
    [InlineData("NOSUCH b|GET b|OBJECT ENCODING b|GET|MULTI|EVAL x 0", "slot|run 1|slot|run 1|special 1|special 2")]
    public void ScanRun_WithRanges_StopsWhereAKeyIsElsewhere(string requests, string expected) =>
        Assert.Equal(expected, Checker.Stops(SlotTable.Owned, requests.Split('|')));

    [Fact]
    public void ScanRun_WithinOneRange_PassesThatRangeOnly()
    {
        Assert.Equal("run 3|slot|slot|run 1", Checker.Stops(1, "PING", "GET b", "GET c", "GET d", "GET m0", "MGET b bb c"));
        Assert.Equal("run 1|slot|slot", Checker.Stops(SlotTable.None, "PING", "GET b", "GET a"));
        Assert.Equal("slot|run 1",
            SlotScanChecker.Stops(Checker.Table.With([true, false, false, false, false]), SlotTable.Owned, ["GET b", "GET a"]));
    }

    [Fact]
    public void ScanRun_WithRangesCutAnywhere_StopsAtTheSamePlaces()
    {
        string[][] requests = [["SET", "b", "1"], ["GET", "a"], ["MGET", "m0", "z"], ["MGET", "b", "d"], ["PING"], ["NO", "b"],
            ["GET", "lll"]];
        byte[] bytes = [.. requests.SelectMany(r => Bytes.Request(r))];
        SlotScanChecker checker = Checker;
        for (int first = 0; first <= bytes.Length; first++)
        {
            for (int second = first; second <= bytes.Length; second++)
            {
                checker.CheckPieces(requests, bytes, [first, second, bytes.Length], SlotTable.Owned);
            }
        }
    }

    [Fact]
    public void ScanRun_RandomRangesRequestsAndCuts_AgreesWithASlowReference()
    {
        string[][] shapes = [.. KeyFinderTests.All.Select(row => row.Data.Split(' '))
            .Where(words => !SlotScanChecker.Special.Any(s => s.Key.Equals(words[0], StringComparison.OrdinalIgnoreCase)))];
        for (int seed = 1; seed <= 1000; seed++)
        {
            var random = new Random(seed);
            string[] keys = [.. Enumerable.Range(0, 12).Select(_ => RandomKey(random))];
            string[] splits = [.. Enumerable.Range(0, random.Next(1, 8))
                .Select(_ => random.Next(2) == 0 ? keys[random.Next(keys.Length)] : RandomKey(random)).Where(k => k.Length > 0).Distinct()
                    .Append("zzz").Order(StringComparer.Ordinal)];
            Partitioning partitions = Partitions(splits);
            foreach (string key in keys)
            {
                Assert.True(splits.Count(s => string.CompareOrdinal(s, key) <= 0) == partitions.Of(Bytes.Of(key)).Number,
                    $"seed {seed}: {key} of {string.Join(' ', splits)}");
            }
            var checker = new SlotScanChecker(_finder, partitions,
                [.. Enumerable.Range(0, partitions.Count).Select(_ => random.Next(3) > 0)]);
            string[][] requests = [.. Enumerable.Range(0, random.Next(1, 9)).Select(_ =>
            {
                string one = keys[random.Next(keys.Length)];
                bool same = random.Next(3) > 0;
                return shapes[random.Next(shapes.Length)].Select(w => w is "a" or "b" or "c" or "d"
                    ? same ? one : keys[random.Next(keys.Length)] : w == "''" ? "" : w).ToArray();
            })];
            byte[] bytes = [.. requests.SelectMany(r => Bytes.Request(r))];
            int within = random.Next(4) switch { 0 => random.Next(partitions.Count), 1 => SlotTable.None, _ => SlotTable.Owned };
            try
            {
                checker.CheckPieces(requests, bytes, RandomRequests.Cuts(random, bytes.Length), within);
            }
            catch
            {
                output.WriteLine($"seed {seed}: {partitions}: {Bytes.Show(bytes)}");
                throw;
            }
        }
    }

    [Fact]
    public void ScanRun_WithRanges_AllocatesNothing()
    {
        using var native = new Native(
            [.. Bytes.Request("SET", "bkey", "value"), .. Bytes.Request("MGET", "d", "e"), .. Bytes.Request("GET", "a")]);
        SlotTable table = Checker.Table;
        int count = 0;
        CommandScanner.ScanRun(native.Start, native.End, table, SlotTable.Owned, SlotScanChecker.LargeBytes, ref count, out _, out _);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++)
        {
            CommandScanner.ScanRun(native.Start, native.End, table, SlotTable.Owned, SlotScanChecker.LargeBytes, ref count, out _, out _);
        }
        Assert.Equal(before, GC.GetAllocatedBytesForCurrentThread());
        Assert.Equal(2002, count);
    }

    [Fact]
    public void Of_AsManySlotsAsThereAreNot_IsRefused() =>
        Assert.Throws<ArgumentException>(() => Checker.Table.With(new bool[HashSlot.Count]));

    // Few letters and short keys, so that keys meet split keys and are prefixes of each other.
    private static string RandomKey(Random random) => string.Concat(Enumerable.Range(0, random.Next(4)).Select(_ => "bm~"[random.Next(3)]));

    private static Partitioning Partitions(string[]? splits = null) =>
        Partitioning.ByRange((splits ?? Splits).Select(s => (ReadOnlyMemory<byte>)Bytes.Of(s)), out _)!;
}
