// The index of the tail against a list of what is in it: whatever pieces it is read in, cut back to, or forgotten below.
using System.Text;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Tests.Rollback;

public sealed class TailIndexTests
{
    private sealed class Memory(byte[] bytes) : IHistorySource
    {
        public int Read(long offset, Span<byte> destination)
        {
            int count = (int)Math.Min(destination.Length, bytes.Length - offset);
            if (count <= 0) { return 0; }
            bytes.AsSpan((int)offset, count).CopyTo(destination);
            return count;
        }
    }

    private readonly record struct Written(long Offset, int Database, string Key);

    [Fact]
    public void Find_RandomTail_GivesEveryCommandOfAKeyInItsDatabase()
    {
        for (int seed = 0; seed < 60; seed++)
        {
            var random = new Random(seed);
            (byte[] bytes, List<Written> written, List<(long Offset, int Database)> places) = Tail(random, 400);
            var tail = new TailIndex();
            tail.Restart(0, 0);
            var source = new Memory(bytes);
            while (tail.Position < bytes.Length) { tail.ReadTo(source, Math.Min(bytes.Length, tail.Position + random.Next(1, 3000))); }
            Check(tail, written, 0, bytes.Length);

            (long cut, int database) = places[random.Next(places.Count)];
            tail.CutAt(cut, database);
            Assert.Equal(cut, tail.Position);
            Check(tail, [.. written.Where(w => w.Offset < cut)], 0, bytes.Length);
            tail.ReadTo(source, bytes.Length);
            Check(tail, written, 0, bytes.Length);

            (long forgotten, database) = places[random.Next(places.Count)];
            tail.ForgetBelow(forgotten, database);
            Check(tail, [.. written.Where(w => w.Offset >= forgotten)], forgotten, bytes.Length);
        }
    }

    // So large that it is ordered by key.
    [Fact]
    public void Find_LargeTail_GivesEveryCommandInOrder_ForFewKeysAndForMany()
    {
        const int Commands = 110_000, Keys = 1000;
        var random = new Random(1);
        using var bytes = new MemoryStream();
        var places = new List<(int Key, long Offset)>();
        byte[][] keys = [.. Enumerable.Range(0, Keys).Select(i => Encoding.ASCII.GetBytes($"key:{i}"))];
        for (int i = 0; i < Commands; i++)
        {
            int key = random.Next(Keys);
            places.Add((key, bytes.Length));
            bytes.Write(Encode("SET", $"key:{key}", ""));
        }
        var source = new Memory(bytes.ToArray());
        var tail = new TailIndex();
        tail.Restart(0, 0);
        long end = bytes.Length;
        tail.ReadTo(source, end);
        foreach (long cut in (long[])[places[80_000].Offset, places[65_536].Offset, places[40_000].Offset])
        {
            foreach (int count in (int[])[1, 2, 50, 700])
            {
                HashSet<int> some = [.. Enumerable.Range(0, count).Select(_ => random.Next(Keys))];
                HashSet<uint> hashes = [.. some.Select(k => (uint)(StoreKey.HashOf(0, keys[k]) >> 32))];
                (long from, long to) = (places[random.Next(20_000)].Offset, places[random.Next(20_000, Commands)].Offset);
                List<(long Offset, int Database)> found = [];
                Assert.True(tail.Find(hashes, from, to, int.MaxValue, found));
                Assert.Equal(places.Where(p => some.Contains(p.Key) && p.Offset >= from && p.Offset < to).Select(p => p.Offset),
                    found.Select(f => f.Offset));
                int most = found.Count - 1;
                found.Clear();
                Assert.False(tail.Find(hashes, from, to, most, found));
                Assert.Equal(most, found.Count);
            }
            tail.CutAt(cut, 0);
            Assert.Equal(cut, tail.Position);
            tail.ReadTo(source, end);
        }
    }

    [Fact]
    public void NotConfined_CommandThatNamesNoKeys_IsNamedWithinItsPlace()
    {
        byte[] before = Encode("SET", "a", "1"), flush = Encode("FLUSHALL"), after = Encode("SET", "a", "2");
        byte[] bytes = [.. before, .. flush, .. after];
        var tail = new TailIndex();
        tail.Restart(0, 0);
        tail.ReadTo(new Memory(bytes), bytes.Length);
        Assert.Equal("FLUSHALL", tail.NotConfined(0, bytes.Length));
        Assert.Null(tail.NotConfined(0, before.Length));
        Assert.Null(tail.NotConfined(before.Length + flush.Length, bytes.Length));
        Assert.Equal(before.Length, tail.EmptiedAt(0, bytes.Length));
        Assert.Null(tail.EmptiedAt(0, before.Length));
        Assert.Null(tail.EmptiedAt(before.Length + 1, bytes.Length));
    }

    [Fact]
    public void ReadTo_MoreThanItsBound_KnowsNothingUntilTheNextCheckpoint()
    {
        byte[] one = Encode("SET", "a", "1");
        byte[] bytes = [.. Enumerable.Repeat(one, 20).SelectMany(b => b)];
        var tail = new TailIndex(entriesMax: 10);
        tail.Restart(0, 0);
        tail.ReadTo(new Memory(bytes), bytes.Length);
        Assert.NotNull(tail.Flaw);
        tail.ForgetBelow(15 * one.Length, 0);
        Assert.Null(tail.Flaw);
        tail.ReadTo(new Memory(bytes), bytes.Length);
        Check(tail, [.. Enumerable.Range(15, 5).Select(i => new Written(i * one.Length, 0, "a"))], 15 * one.Length, bytes.Length);
    }

    [Fact]
    public void Stretch_AnyLength_IsFilledExactlyAndSelects()
    {
        for (int length = Filler.StretchBytesMin; length < 3000; length++) { CheckStretch(length); }
        foreach (int around in new[] { 1 << 20, 2 << 20 })
        {
            for (int length = around - 60; length < around + 60; length++) { CheckStretch(length); }
        }
    }

    private static void CheckStretch(int length)
    {
        using var bytes = new MemoryStream();
        foreach (ReadOnlyMemory<byte> piece in Filler.Stretch(length, 11)) { bytes.Write(piece.Span); }
        Assert.Equal(length, bytes.Length);
        var scanner = new StreamScanner(0, 0);
        int at = 0;
        while (at < bytes.Length) { scanner.Next(bytes.GetBuffer().AsSpan(0, (int)bytes.Length), ref at); }
        Assert.True(scanner.AtCommandBoundary);
        Assert.Equal(11, scanner.Database);
    }

    private static void Check(TailIndex tail, List<Written> written, long from, long to)
    {
        foreach (IGrouping<(int, string), Written> key in written.GroupBy(w => (w.Database, w.Key)))
        {
            var found = new List<(long Offset, int Database)>();
            uint hash = (uint)(StoreKey.HashOf(key.Key.Item1, Encoding.ASCII.GetBytes(key.Key.Item2)) >> 32);
            Assert.True(tail.Find([hash], from, to, int.MaxValue, found));
            Assert.Equal(key.Select(w => (w.Offset, w.Database)).Distinct(), found.Distinct());
        }
    }

    private static (byte[] Bytes, List<Written> Written, List<(long, int)> Places) Tail(Random random, int commands)
    {
        using var bytes = new MemoryStream();
        var written = new List<Written>();
        var places = new List<(long, int)> { (0, 0) };
        int database = 0;
        for (int i = 0; i < commands; i++)
        {
            long at = bytes.Length;
            string a = "k" + random.Next(30), b = "k" + random.Next(30);
            switch (random.Next(6))
            {
                case 0:
                    database = random.Next(4);
                    bytes.Write(Encode("SELECT", $"{database}"));
                    break;
                case 1:
                    bytes.Write(Encode("RENAME", a, b));
                    written.AddRange([new(at, database, a), new(at, database, b)]);
                    break;
                case 2:
                    bytes.Write(Encode("PING", new string('.', random.Next(2000))));
                    break;
                default:
                    bytes.Write(Encode("SET", a, new string('v', random.Next(200))));
                    written.Add(new(at, database, a));
                    break;
            }
            places.Add((bytes.Length, database));
        }
        return (bytes.ToArray(), written, places);
    }

    private static byte[] Encode(params string[] words) =>
        Encoding.ASCII.GetBytes($"*{words.Length}\r\n" + string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n")));
}
