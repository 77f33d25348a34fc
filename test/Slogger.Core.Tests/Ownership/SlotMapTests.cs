// The map: every slot has one owner, rows are read back as they were written, and rows that are no map are told of.
using System.Collections.Immutable;
using Slogger.Core.Ownership;

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
                int first = random.Next(HashSlot.Count), last = random.Next(first, Math.Min(HashSlot.Count, first + 3000)), to =
                    random.Next(6);
                SlotMap before = map;
                map = map.Move([new(new(first), new(last))], new(to));
                Assert.Equal(plain[first], before.Owner(new(first)).Number);
                Array.Fill(plain, to, first, last - first + 1);
            }

            SlotRow[] shuffled = [.. map.Rows];
            random.Shuffle(shuffled);
            SlotMap? read = SlotMap.FromRows(shuffled, out string? error);
            Assert.True(error is null, $"seed {seed}: {error}");
            for (int i = 0; i < HashSlot.Count; i++)
                Assert.True(plain[i] == map.Owner(new(i)).Number && plain[i] == read!.Owner(new(i)).Number, $"seed {seed}: slot {i}");
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
    public void Even_FewerSlots_AreDividedAmongAllShards()
    {
        Assert.Equal("0-2 3-4 5-7", string.Join(' ', SlotMap.Even(3, 8).Rows.Select(r => r.Slots)));
        for (int slots = 1; slots <= 40; slots++)
        {
            for (int shards = 1; shards <= slots; shards++)
            {
                SlotMap map = SlotMap.Even(shards, slots);
                int[] sizes = [.. map.Rows.Select(r => r.Slots.Count)];
                Assert.Equal((slots, slots, shards), (map.Count, sizes.Sum(), sizes.Length));
                Assert.True(sizes.Max() - sizes.Min() <= 1, $"{slots} slots, {shards} shards: {string.Join(' ', sizes)}");
            }
        }

        Assert.Throws<ArgumentOutOfRangeException>(() => SlotMap.Even(9, 8));
    }

    [Fact]
    public void FromRows_FewerSlots_AreAllThereAndNoOthers()
    {
        Assert.Equal(SlotMap.Even(2, 3).Rows, SlotMap.FromRows([Row("2-2:1"), Row("0-1:0")], out string? error, 3)?.Rows);
        Assert.Null(SlotMap.FromRows([Row("0-1:0")], out error, 3));
        Assert.Equal("Slots 2 have no owner.", error);
        Assert.Null(SlotMap.FromRows([Row("0-3:0")], out error, 3));
        Assert.Equal("0 to 3 of shard 0 is no range of slots: slots are 0 to 2.", error);
        Assert.Throws<ArgumentException>(() => SlotMap.Even(2, 3).Move([new(new(2), new(3))], new(0)));
        Assert.Null(new OwnershipTable(MapRevision.First, new(1), SlotMap.Even(2, 3), []).Plan([new(new(2), new(3))], new(0), out error));
        Assert.Equal("Slots are ranges within 0 to 2, at least one.", error);
    }

    private static SlotRow Row(string text)
    {
        int[] numbers = [.. text.Split('-', ':').Select(n => int.Parse(n, System.Globalization.CultureInfo.InvariantCulture))];
        return new(new(new(numbers[0]), new(numbers[1])), new(numbers[2]));
    }
}
