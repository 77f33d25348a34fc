// Keys to partitions: against a slow reference, and as text that is read back as it was written.
using System.Collections.Immutable;
using System.Text;
using Slogger.Core.Ownership;

namespace Slogger.Core.Tests.Ownership;

public class PartitioningTests
{
    [Fact]
    public void Of_RandomRanges_IsHowManySplitKeysAreNotAboveTheKey()
    {
        for (int seed = 1; seed <= 300; seed++)
        {
            Random random = new(seed);
            SortedSet<string> splits = new(StringComparer.Ordinal);
            for (int n = random.Next(1, 12); n > 0; n--) splits.Add(Key(random, 1));
            string[] shuffled = [.. splits];
            random.Shuffle(shuffled);
            Partitioning partitions = Ranges(shuffled);
            Assert.Equal(splits.Count + 1, partitions.Count);
            Assert.Equal(splits, partitions.SplitKeys.Select(k => Convert.ToHexString(k.Span)));
            string before = "";
            foreach (string key in Enumerable.Range(0, 100).Select(_ => Key(random, 0)).Concat(splits).Append("")
                .Order(StringComparer.Ordinal))
            {
                // Hexadecimal digits are in the order of the bytes.
                int expected = splits.Count(s => string.CompareOrdinal(s, key) <= 0), found = Of(partitions, key);
                Assert.True(expected == found,
                    $"seed {seed}: key {key} is in {found}, and {expected} of {string.Join(' ', splits)} are not above it");
                Assert.True(Of(partitions, before) <= found, $"seed {seed}: {before} and {key}");
                before = key;
            }
        }

        // Few bytes and short keys, so that keys meet split keys and are prefixes of each other.
        static string Key(Random random, int shortest) =>
            string.Concat(Enumerable.Range(0, random.Next(shortest, 5))
                .Select(_ => ((string[])["00", "61", "7F", "80", "FF"])[random.Next(5)]));
    }

    [Fact]
    public void Of_Hash_IsTheSlotOfRedisCluster()
    {
        Assert.Equal(HashSlot.Count, Partitioning.Hash.Count);
        Assert.Empty(Partitioning.Hash.SplitKeys);
        foreach (string key in (string[])["", "a", "{a}b", "user:1", "\0"])
            Assert.Equal(HashSlot.Of(Encoding.UTF8.GetBytes(key)), Partitioning.Hash.Of(Encoding.UTF8.GetBytes(key)));
    }

    [Fact]
    public void Of_AnyKind_AllocatesNothing()
    {
        Partitioning ranges = Parse("range:b,c,d"), hash = Partitioning.Hash;
        byte[] key = "cat"u8.ToArray();
        int sum = ranges.Of(key).Number + hash.Of(key).Number;
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++) sum += ranges.Of(key).Number - hash.Of(key).Number;
        Assert.Equal(before, GC.GetAllocatedBytesForCurrentThread());
        Assert.NotEqual(0, sum);
    }

    [Theory]
    [InlineData("hash", "hash")]
    [InlineData("HASH", "hash")]
    [InlineData("range:m", "range:m")]
    [InlineData("Range:z,m,a", "range:a,m,z")]
    [InlineData("range:user:1000,user:2000", "range:user:1000,user:2000")]
    [InlineData(@"range:a\x2cb,\x00\xff", @"range:\x00\xff,a\x2cb")]
    [InlineData(@"range:\x61", "range:a")]
    [InlineData(@"range:a b", @"range:a\x20b")]
    [InlineData(@"range:\x40x,x@", @"range:\x40x,x\x40")]
    [InlineData("range:\u00e9", @"range:\xc3\xa9")]
    [InlineData(@"range:a""b\x5c", @"range:a\x22b\x5c")]
    public void TryParse_WhatPeopleWrite_HasOneText(string text, string expected)
    {
        Partitioning read = Parse(text);
        Assert.Equal(expected, read.ToString());
        Assert.Equal(read, Parse(expected));
    }

    [Theory]
    [InlineData("", "is neither hash nor range:KEY,KEY,...")]
    [InlineData("range", "is neither hash nor range:KEY,KEY,...")]
    [InlineData("range:", "has an empty split key: no key is below it")]
    [InlineData("range:a,,b", "has an empty split key: no key is below it")]
    [InlineData("range:a,b,a", "has the split key a twice")]
    [InlineData(@"range:a,\x61", "has the split key a twice")]
    [InlineData(@"range:a\b",
        @"has the split key ""a\b"": a backslash is written \x5c, and any other byte \xHH with two hexadecimal digits")]
    [InlineData(@"range:\x6",
        @"has the split key ""\x6"": a backslash is written \x5c, and any other byte \xHH with two hexadecimal digits")]
    [InlineData(@"range:\xg1",
        @"has the split key ""\xg1"": a backslash is written \x5c, and any other byte \xHH with two hexadecimal digits")]
    public void TryParse_NoPartitioning_SaysWhy(string text, string expected)
    {
        Assert.False(Partitioning.TryParse(text, out _, out string problem));
        Assert.Equal(expected, problem);
    }

    [Fact]
    public void ToString_RandomBytes_AreReadBackAndShowNothingStrange()
    {
        for (int seed = 1; seed <= 300; seed++)
        {
            Random random = new(seed);
            byte[][] splits = [.. Enumerable.Range(0, random.Next(1, 20)).Select(_ =>
            {
                byte[] split = new byte[random.Next(1, 20)];
                random.NextBytes(split);
                return split;
            }).DistinctBy(Convert.ToHexString)];
            Partitioning written = Partitioning.ByRange(splits.Select(s => (ReadOnlyMemory<byte>)s), out _)!;
            string text = written.ToString();
            Partitioning read = Parse(text);
            Assert.True(written.Equals(read) && written.GetHashCode() == read.GetHashCode(), $"seed {seed}: {text}");
            Assert.Equal(text, read.ToString());
            Assert.DoesNotContain(text, c => c is <= ' ' or >= '\x7f' or '@' or '"');
            Assert.True(Partitioning.TryReadLines(text["range:".Length..].Split(','), out read, out _) && read.Equals(written),
                $"seed {seed}: {text}");
        }
    }

    [Fact]
    public void TryReadLines_AFile_HasAKeyInEachLine()
    {
        Assert.True(Partitioning.TryReadLines(["b,1\r", "", "@x", @"a\x0a"], out Partitioning read, out string problem), problem);
        Assert.Equal(@"range:\x40x,a\x0a,b\x2c1", read.ToString());
        Assert.False(Partitioning.TryReadLines([""], out _, out problem));
        Assert.Equal("has no split key: give at least one", problem);
    }

    [Fact]
    public void ByRange_MoreThanTheBounds_IsRefused()
    {
        Assert.Equal(HashSlot.Count, Ranges([.. Enumerable.Range(0, HashSlot.Count - 1).Select(i => $"{i:x8}")]).Count);
        Assert.Equal("has 16384 split keys: there can be 16383", Problem(Enumerable.Range(0, HashSlot.Count).Select(i => $"{i:x8}")));
        Assert.Equal("has a split key of 513 bytes: one can have 512", Problem([new string('6', 2 * (Partitioning.SplitKeyBytesMax + 1))]));
        Assert.Equal("has split keys of more than 1048576 bytes together",
            Problem(Enumerable.Range(0, 2049).Select(i => $"{i:x8}{new string('6', 2 * (Partitioning.SplitKeyBytesMax - 4))}")));

        static string Problem(IEnumerable<string> splits)
        {
            Assert.Null(Partitioning.ByRange(splits.Select(s => (ReadOnlyMemory<byte>)Convert.FromHexString(s)), out string problem));
            return problem;
        }
    }

    [Fact]
    public void Equals_OtherKindOrKeys_IsFalse()
    {
        Assert.Equal(Parse("range:b,a"), Parse("range:a,b"));
        Assert.NotEqual(Parse("range:a"), Parse("range:a,b"));
        Assert.NotEqual(Parse("range:a"), Parse("range:b"));
        Assert.NotEqual(Parse("range:a"), Partitioning.Hash);
        Assert.False(Partitioning.Hash.Equals(null));
    }

    [Theory]
    [InlineData("range:b,d", 0, 0, "keys below \"b\"")]
    [InlineData("range:b,d", 1, 1, "keys from \"b\", below \"d\"")]
    [InlineData("range:b,d", 0, 1, "keys below \"d\"")]
    [InlineData("range:b,d", 1, 2, "keys from \"b\"")]
    [InlineData("range:b,d", 0, 2, "all keys")]
    [InlineData("hash", 0, 2, "")]
    public void KeysOf_SomePartitions_AreNamedByTheirEnds(string text, int first, int last, string expected) =>
        Assert.Equal(expected, Parse(text).KeysOf(new(new(first), new(last))));

    [Theory]
    [InlineData("range:b,d", "0-2", null)]
    [InlineData("range:b,d", "0,2-3", "there are partitions 0 to 2, and no 3")]
    [InlineData("hash", "0-16383", null)]
    public void Missing_SomeRanges_SaysWhichThereAreNot(string text, string ranges, string? expected)
    {
        Assert.True(SlotRange.TryParseList(ranges, out ImmutableArray<SlotRange> wanted, out _));
        Assert.Equal(expected, Parse(text).Missing(wanted));
    }

    private static Partitioning Parse(string text)
    {
        Assert.True(Partitioning.TryParse(text, out Partitioning partitions, out string problem), $"{text} {problem}");
        return partitions;
    }

    private static Partitioning Ranges(string[] hex)
    {
        Partitioning? partitions = Partitioning.ByRange(hex.Select(s => (ReadOnlyMemory<byte>)Convert.FromHexString(s)),
            out string problem);
        Assert.True(partitions is not null, problem);
        return partitions!;
    }

    private static int Of(Partitioning partitions, string hex) => partitions.Of(Convert.FromHexString(hex)).Number;
}
