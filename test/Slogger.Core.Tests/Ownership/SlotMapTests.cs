// The maps: every slot and key has one owner, rows are read back as they were written, and rows that are no map are told of.
using System.Collections.Immutable;
using Slogger.Core.Ownership;
using Slogger.Core.Shards;

namespace Slogger.Core.Tests.Ownership;

public class SlotMapTests
{
    [Fact]
    public void Even_AnyCount_CutsWhereRedisCliCuts()
    {
        for (int shards = 1; shards <= 1000; shards++)
        {
            // As redis-cli does, in single precision.
            float perNode = HashSlot.Count / (float)shards, cursor = 0;
            List<SlotRow> expected = [];
            for (int i = 0, first = 0; i < shards; i++)
            {
                int last = i == shards - 1 ? HashSlot.Count - 1 : (int)MathF.Round(cursor + perNode - 1, MidpointRounding.AwayFromZero);
                expected.Add(new(new(new(first), new(last)), new(i)));
                first = last + 1;
                cursor += perNode;
            }

            SlotMap map = SlotMap.Even(shards);
            int[] sizes = [.. map.Rows.Select(r => r.Slots.Count)];
            Assert.Equal(shards, sizes.Length);
            Assert.True(sizes.Max() - sizes.Min() <= 1, $"{shards} shards: {sizes.Min()} to {sizes.Max()}");
            // Single precision drifts with many nodes; nobody builds those by it.
            if (shards <= 16) Assert.Equal(expected, map.Rows);
        }

        Assert.Equal("0-5460 5461-10922 10923-16383", string.Join(' ', SlotMap.Even(3).Rows.Select(r => r.Slots)));
        Assert.Throws<ArgumentOutOfRangeException>(() => SlotMap.Even(0));
        Assert.Throws<ArgumentOutOfRangeException>(() => SlotMap.Even(HashSlot.Count + 1));
    }

    [Fact]
    public void Move_RandomRanges_OwnersAndRowsAgreeWithAPlainArray()
    {
        for (int seed = 1; seed <= 200; seed++)
        {
            Random random = new(seed);
            SlotMap map = SlotMap.Even(random.Next(1, 6));
            int[] plain = [.. Enumerable.Range(0, HashSlot.Count).Select(i => map.Owner(new(i)).Number)];
            for (int n = 0; n < 10; n++)
            {
                int first = random.Next(HashSlot.Count), last = random.Next(first, Math.Min(HashSlot.Count, first + 3000)), to = random.Next(6);
                SlotMap before = map;
                map = map.Move([new(new(first), new(last))], new(to));
                Assert.Equal(plain[first], before.Owner(new(first)).Number);
                Array.Fill(plain, to, first, last - first + 1);
            }

            SlotRow[] shuffled = [.. map.Rows];
            random.Shuffle(shuffled);
            SlotMap? read = SlotMap.FromRows(shuffled, out string? error);
            Assert.True(error is null, $"seed {seed}: {error}");
            for (int i = 0; i < HashSlot.Count; i++) Assert.True(plain[i] == map.Owner(new(i)).Number && plain[i] == read!.Owner(new(i)).Number, $"seed {seed}: slot {i}");
            Assert.Equal(map.Rows, read!.Rows);
            Assert.DoesNotContain(map.Rows.Zip(map.Rows.Skip(1)), p => p.First.Shard == p.Second.Shard);
        }
    }

    [Theory]
    [InlineData("", "Slots 0-16383 have no owner.")]
    [InlineData("0-100:0 102-16383:1", "Slots 101 have no owner.")]
    [InlineData("1-16383:1", "Slots 0 have no owner.")]
    [InlineData("0-16000:1", "Slots 16001-16383 have no owner.")]
    [InlineData("0-100:0 100-16383:1", "Slots 100-16383 of shard 1 overlap slots 0-100 of shard 0.")]
    [InlineData("0-16383:0 5-6:1", "Slots 5-6 of shard 1 overlap slots 0-16383 of shard 0.")]
    [InlineData("0-16384:0", "0 to 16384 of shard 0 is no range of slots: slots are 0 to 16383.")]
    [InlineData("7-3:0", "7 to 3 of shard 0 is no range of slots: slots are 0 to 16383.")]
    public void FromRows_NoMap_SaysWhy(string rows, string expected)
    {
        Assert.Null(SlotMap.FromRows(rows.Split(' ', StringSplitOptions.RemoveEmptyEntries).Select(Row), out string? error));
        Assert.Equal(expected, error);
    }

    [Fact]
    public void Move_NoRange_IsRefused() =>
        Assert.Throws<ArgumentException>(() => SlotMap.Even(2).Move([new(new(3), new(HashSlot.Count))], new(0)));

    [Fact]
    public void RangeOwner_RandomKeys_IsThatOfTheLastSplitKeyNotAboveIt()
    {
        for (int seed = 1; seed <= 200; seed++)
        {
            Random random = new(seed);
            SortedDictionary<string, int> plain = new(StringComparer.Ordinal) { [""] = 0 };
            for (int n = random.Next(8); n > 0; n--) plain[Key(random)] = random.Next(4);
            RangeRow[] rows = [.. plain.Select(p => new RangeRow(Bytes(p.Key), new(p.Value)))];
            random.Shuffle(rows);
            RangeMap map = RangeMap.FromRows(rows, out string? error)!;
            Assert.True(error is null, $"seed {seed}: {error}");
            Assert.Equal(plain.Select(p => (p.Key, p.Value)), map.Rows.Select(r => (Convert.ToHexString(r.From.Span), r.Shard.Number)));
            for (int n = 0; n < 100; n++)
            {
                string key = Key(random);
                int expected = plain.Last(p => string.CompareOrdinal(p.Key, key) <= 0).Value;
                Assert.True(expected == map.Owner(Bytes(key)).Number, $"seed {seed}: key {key}");
            }
        }

        // Few bytes and short keys, so that keys meet split keys and are prefixes of each other.
        static string Key(Random random) => string.Concat(Enumerable.Range(0, random.Next(4)).Select(_ => ((string[])["00", "61", "FF"])[random.Next(3)]));
        static byte[] Bytes(string hex) => Convert.FromHexString(hex);
    }

    [Fact]
    public void RangeFromRows_NoMap_SaysWhy()
    {
        Assert.Equal("The map has no row: no key has an owner.", Error());
        Assert.Equal("Keys below 0x61 have no owner: the first row has to begin at the empty key.", Error(("a", 0)));
        Assert.Equal("The keys from 0x61 on have two owners: shards 1 and 2.", Error(("", 0), ("a", 1), ("a", 2)));
        Assert.Equal("The keys from 0x61 on have the owner -1: shards are numbered from 0.", Error(("", 0), ("a", -1)));

        static string? Error(params (string From, int Shard)[] rows)
        {
            Assert.Null(RangeMap.FromRows(rows.Select(r => new RangeRow(System.Text.Encoding.ASCII.GetBytes(r.From), new(r.Shard))), out string? error));
            return error;
        }
    }

    private static SlotRow Row(string text)
    {
        int[] numbers = [.. text.Split('-', ':').Select(n => int.Parse(n, System.Globalization.CultureInfo.InvariantCulture))];
        return new(new(new(numbers[0]), new(numbers[1])), new(numbers[2]));
    }
}
