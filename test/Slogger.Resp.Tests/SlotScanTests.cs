// The scan that looks at slots in passing, with the slots of Redis Cluster.
using Slogger.Core.Ownership;

namespace Slogger.Resp.Tests;

[Collection(nameof(RedisCluster))]
public sealed unsafe class SlotScanTests(RedisCluster cluster, ITestOutputHelper output)
{
    private const int LargeBytes = SlotScanChecker.LargeBytes;

    // Of this shard: what hashes as b, c and d do. The others are another's.
    private static readonly HashSlot SlotOfB = HashSlot.Of("b"u8), SlotOfC = HashSlot.Of("c"u8);
    private static readonly bool[] OwnedSlots = Mark(SlotOfB, SlotOfC, HashSlot.Of("d"u8));

    private readonly SlotScanChecker _checker = new(KeyFinder.FromCommandReply(cluster.First.AskIn(2, "COMMAND")), Partitioning.Hash,
        OwnedSlots);

    private SlotTable Table => _checker.Table;

    [Theory]
    [InlineData("SET b 1|GET a|GET b", "run 1|slot|run 1")]
    [InlineData("MGET b {b}1 {b}2|MGET b c|MGET b {b}1 a|GET c", "run 1|slot|slot|run 1")]
    [InlineData("MSET b 1 {b}2 2|MSET b a|MSET b 1 a 2|mset b 1 c 2", "run 2|slot|slot")]
    [InlineData("BITOP AND b {b}1|BITOP AND a {a}1|BITOP AND b c", "run 1|slot|slot")]
    [InlineData("PING|ECHO a|DBSIZE|PUBLISH a b|SPUBLISH a b|SPUBLISH b a", "run 4|slot|run 1")]
    [InlineData("NOSUCH b|GET b|OBJECT ENCODING b|ZUNION 1 b", "slot|run 1|slot|slot")]
    [InlineData("GET|GET a b|GET b a", "run 1|slot|run 1")]
    [InlineData("MULTI|GET a|EVAL x 0", "special 1|slot|special 2")]
    [InlineData("RENAME b {b}1|RENAME b a|RENAME a b|SMOVE b {b}1 m|LMOVE {c}x c LEFT LEFT", "run 1|slot|slot|run 2")]
    public void ScanRun_WithSlots_StopsWhereAKeyIsElsewhere(string requests, string expected) =>
        Assert.Equal(expected, _checker.Stops(SlotTable.Owned, requests.Split('|')));

    [Fact]
    public void ScanRun_WithinOneSlot_PassesThatSlotOnly()
    {
        string[] requests = ["PING", "GET b", "GET {b}x", "GET c", "GET a", "MGET b {b}1"];
        Assert.Equal("run 3|slot|slot|run 1", _checker.Stops(SlotOfB.Number, requests));
        Assert.Equal("run 1|slot|slot|slot|slot|slot", _checker.Stops(SlotTable.None, requests));
        // A slot that was this shard's when it was noted.
        Assert.Equal("run 1|slot|slot|slot|slot|slot", SlotScanChecker.Stops(Table.With(Mark(SlotOfC)), SlotOfB.Number, requests));
    }

    [Fact]
    public void ScanRun_ForeignKeyInALargeRequest_IsLarge()
    {
        using var native = new Native(Bytes.Request("SET", "a", new string('x', LargeBytes + 1)));
        int count = 0;
        CommandScanner.ScanRun(native.Start, native.End, Table, SlotTable.Owned, LargeBytes, ref count, out ScanStop stop, out _);
        Assert.Equal(ScanStop.Large, stop);
    }

    [Fact]
    public void ScanRun_WithSlotsCutAnywhere_StopsAtTheSamePlaces()
    {
        string[][] requests = [["SET", "b", "1"], ["GET", "a"], ["MGET", "b", "{b}1"], ["MGET", "b", "c"], ["PING"], ["NO", "b"],
            ["GET", "c"]];
        byte[] bytes = [.. requests.SelectMany(r => Bytes.Request(r))];
        for (int first = 0; first <= bytes.Length; first++)
        {
            for (int second = first; second <= bytes.Length; second++)
            {
                _checker.CheckPieces(requests, bytes, [first, second, bytes.Length], SlotTable.Owned);
            }
        }
    }

    [Fact]
    public void ScanRun_RandomRequestsAndCuts_AgreesWithKeyFinder()
    {
        string[][] shapes = [.. KeyFinderTests.All.Select(row => row.Data.Split(' '))
            .Where(words => !SlotScanChecker.Special.Any(s => s.Key.Equals(words[0], StringComparison.OrdinalIgnoreCase)))];
        string[] keys = ["b", "{b}1", "c", "{c}2", "d", "a", "{a}1", "", "other"];
        for (int seed = 1; seed <= 2000; seed++)
        {
            var random = new Random(seed);
            string[][] requests = [.. Enumerable.Range(0, random.Next(1, 9)).Select(_ =>
            {
                string one = keys[random.Next(keys.Length)];
                bool same = random.Next(3) > 0;
                return shapes[random.Next(shapes.Length)].Select(w => w is "a" or "b" or "c" or "d"
                    ? same ? one : keys[random.Next(keys.Length)] : w == "''" ? "" : w).ToArray();
            })];
            byte[] bytes = [.. requests.SelectMany(r => Bytes.Request(r))];
            int within = random.Next(4) switch { 0 => SlotOfB.Number, 1 => SlotTable.None, _ => SlotTable.Owned };
            try
            {
                _checker.CheckPieces(requests, bytes, RandomRequests.Cuts(random, bytes.Length), within);
            }
            catch
            {
                output.WriteLine($"seed {seed}: {Bytes.Show(bytes)}");
                throw;
            }
        }
    }

    [Fact]
    public void ScanRun_WithSlots_AllocatesNothing()
    {
        using var native = new Native(
            [.. Bytes.Request("SET", "{b}key", "value"), .. Bytes.Request("MGET", "b", "{b}1"), .. Bytes.Request("GET", "a")]);
        SlotTable table = Table;
        int count = 0;
        CommandScanner.ScanRun(native.Start, native.End, table, SlotTable.Owned, LargeBytes, ref count, out _, out _);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++)
        {
            CommandScanner.ScanRun(native.Start, native.End, table, SlotTable.Owned, LargeBytes, ref count, out _, out _);
        }
        Assert.Equal(before, GC.GetAllocatedBytesForCurrentThread());
        Assert.Equal(2002, count);
    }

    private static bool[] Mark(params HashSlot[] slots)
    {
        bool[] owned = new bool[HashSlot.Count];
        foreach (HashSlot slot in slots) { owned[slot.Number] = true; }
        return owned;
    }
}
