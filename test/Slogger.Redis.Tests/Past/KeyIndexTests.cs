// The index of a segment against a list of what is in it, wherever segments are cut; and that what is torn, damaged or of another segment
// is no index. Then the index of a stretch, which is made of such and of what is read, against one that has read all.
using System.Text;
using Slogger.Redis.Feeding;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Tests.Past;

public sealed class KeyIndexTests : IDisposable
{
    private const long Origin = 5000;
    private static readonly KeyIndexMark s_mark = new(7, 0xDEAD_BEEF);

    private readonly string _directory = Directory.CreateTempSubdirectory("key-index").FullName;

    private sealed class Memory(byte[] bytes) : IHistorySource
    {
        public int Read(long offset, Span<byte> destination)
        {
            int count = (int)Math.Min(destination.Length, bytes.Length - (offset - Origin));
            if (count <= 0) { return 0; }
            bytes.AsSpan((int)(offset - Origin), count).CopyTo(destination);
            return count;
        }
    }

    private sealed record Written(long Offset, int Database, IReadOnlyList<StoreKey> Keys, string? Unconfined);

    /// <param name="Bytes">From <see cref="Origin"/> on.</param>
    /// <param name="Commands">Those that may change keys.</param>
    /// <param name="Places">Where each command begins, and the last ends, with the database selected there.</param>
    private sealed record Tail(byte[] Bytes, IReadOnlyList<Written> Commands, IReadOnlyList<(long Offset, int Database)> Places)
    {
        public long End => Origin + Bytes.Length;

        public IEnumerable<StoreKey> Keys => Commands.SelectMany(c => c.Keys).Distinct();

        public Memory Source => new(Bytes);
    }

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    private string PathOf(string name) => Path.Combine(_directory, name);

    [Fact]
    public void Find_SegmentsCutAnywhere_GivesEachCommandOfAKeyOnce()
    {
        for (int seed = 0; seed < 24; seed++)
        {
            var random = new Random(seed);
            // Several pages, now and then.
            Tail tail = Random(random, seed % 8 == 0 ? 4000 : 300);
            IEnumerable<long> anywhere = Enumerable.Range(0, random.Next(8)).Select(_ => random.NextInt64(Origin, tail.End)).Order();
            long[] cuts = [Origin, .. anywhere, tail.End];
            long behind = Origin;
            for (int i = 0; i + 1 < cuts.Length; i++)
            {
                (long start, long end) = (cuts[i], cuts[i + 1]);
                (long before, int database) = tail.Places.Where(p => p.Offset <= start).TakeLast(random.Next(1, 20)).First();
                using KeyIndex index = Make(tail, before, database, start, end);
                Assert.Equal((behind, end), (index.First, index.MadeTo));
                behind = index.End;
                Assert.Equal(tail.Places.First(p => p.Offset >= end).Offset, behind);
                Check(tail, index, start, end);
            }
            Assert.Equal(tail.End, behind);
        }
    }

    [Fact]
    public void Take_OfTheTailsIndex_IsWhatIsRead()
    {
        for (int seed = 0; seed < 24; seed++)
        {
            var random = new Random(seed);
            Tail tail = Random(random, seed % 8 == 0 ? 80_000 : 300, hasEmptyLines: false);
            var known = new TailIndex();
            (long from, int selected) = tail.Places[random.Next(40)];
            known.Restart(from, selected);
            known.ReadTo(tail.Source, tail.End);
            // Somebody has looked for few keys, so that full chunks are ordered by hash.
            if (random.Next(2) == 0) { known.Find([1], from, tail.End, 1, []); }
            long[] cuts = [from, .. Enumerable.Range(0, random.Next(8)).Select(_ => random.NextInt64(from, tail.End)).Order(), tail.End];
            long behind = -1;
            var maker = new KeyIndexMaker();
            for (int i = 0; i + 1 < cuts.Length; i++)
            {
                (long start, long end) = (cuts[i], cuts[i + 1]);
                Assert.True(maker.Take(known, tail.Source, start, end, default));
                maker.Write(PathOf("taken"), s_mark);
                using KeyIndex index = KeyIndex.Open(PathOf("taken"), s_mark)!;
                Assert.Equal(end, index.MadeTo);
                // It may begin behind commands that name no key, and ends as one that was read: what lies behind may become void.
                Assert.Contains(index.First, tail.Places.Select(p => p.Offset));
                Assert.True(index.First >= start && index.First >= behind);
                Assert.Equal(tail.Places.First(p => p.Offset >= end).Offset, index.End);
                behind = index.End;
                Check(tail, index, start, end);
            }
            Assert.False(maker.Take(known, tail.Source, from - 1, tail.End, default));
            Assert.False(maker.Take(known, tail.Source, from, tail.End + 1, default));
        }
    }

    [Fact]
    public void Read_TheLastCommandHasNotEnded_IsNotMadeYet()
    {
        byte[] bytes = Encode("SET", "k", "1");
        Assert.False(new KeyIndexMaker().Read(new Memory(bytes), Origin, 0, Origin, Origin + 5, Origin + bytes.Length - 1, default));
        Assert.True(new KeyIndexMaker().Read(new Memory(bytes), Origin, 0, Origin, Origin + 5, Origin + bytes.Length, default));
    }

    [Fact]
    public void Open_FileOfAnotherSegmentOrLength_IsNone()
    {
        Tail tail = Random(new Random(1), 1500);
        Make(tail, Origin, 0, Origin, tail.End).Dispose();
        string path = PathOf("made");
        Assert.Null(KeyIndex.Open(path, s_mark with { Salt = 1 }));
        Assert.Null(KeyIndex.Open(path, s_mark with { Sequence = 8 }));
        Assert.Null(KeyIndex.Open(PathOf("missing"), s_mark));
        byte[] whole = File.ReadAllBytes(path);
        File.WriteAllBytes(path, [.. whole, 0]);
        Assert.Null(KeyIndex.Open(path, s_mark));
        File.WriteAllBytes(path, whole);
        KeyIndex.Open(path, s_mark)!.Dispose();
    }

    // As a crash may leave it, since nothing is synced: shorter, or with zeros from somewhere on; or as a disk may damage it.
    [Fact]
    public void File_TornOrDamagedAtAnyByte_GivesNothingElseThanItHad()
    {
        Tail tail = Random(new Random(2), 700);
        Make(tail, Origin, 0, Origin, tail.End).Dispose();
        byte[] whole = File.ReadAllBytes(PathOf("made"));
        string path = PathOf("torn");
        // Of each page.
        StoreKey[] ordered = [.. tail.Keys.OrderBy(k => k.Hash)], keys = [ordered[0], ordered[^1], .. ordered.Where((_, i) => i % 20 == 0)];
        long[] unconfined = [.. tail.Commands.Where(c => c.Unconfined is not null).Select(c => c.Offset)];
        int none = 0, damaged = 0;
        for (int at = 0; at < whole.Length; at++)
        {
            File.WriteAllBytes(path, whole.AsSpan(0, at));
            Assert.Null(KeyIndex.Open(path, s_mark));
            // Of the pages, where one byte is as good as the next.
            if (at > whole.Length - (2 * KeyIndex.PageBytes) && at % 5 > 0) { continue; }
            byte[] torn = [.. whole.AsSpan(0, at), .. new byte[whole.Length - at]], flipped = [.. whole];
            flipped[at] ^= (byte)(1 << (at % 8));
            foreach (byte[] wrong in (byte[][])[torn, flipped])
            {
                if (wrong.AsSpan().SequenceEqual(whole)) { continue; }
                File.WriteAllBytes(path, wrong);
                using KeyIndex? index = KeyIndex.Open(path, s_mark);
                if (index is null)
                {
                    none++;
                    continue;
                }
                Assert.Equal(unconfined, index.Unconfined.Select(u => u.Offset));
                foreach (StoreKey key in keys)
                {
                    if (index.Find((uint)(key.Hash >> 32)) is { } found) { Assert.Equal(OffsetsOf(tail, key), found); }
                    else { damaged++; }
                }
                // It is made again.
                Assert.False(File.Exists(path));
            }
        }
        Assert.True(none > 0 && damaged > 0);
    }

    [Fact]
    public void Stretch_OfSegmentsWithAndWithoutIndex_IsAsIfAllWasRead()
    {
        for (int seed = 0; seed < 24; seed++)
        {
            var random = new Random(seed);
            // Before an empty line or behind it, a command begins at one place or the other.
            Tail tail = Random(random, 1500, hasEmptyLines: false);
            var all = new TailIndex();
            all.Restart(Origin, 0);
            all.ReadTo(tail.Source, tail.End);
            var stretches = new List<EffectStretch>();
            long at = Origin;
            int database = 0;
            for (int i = 0; i < 4; i++)
            {
                (long end, int next) = tail.Places[random.Next(tail.Places.Count)];
                if (end <= at) { continue; }
                KeyIndex? index = null;
                if (random.Next(3) > 0)
                {
                    index = Make(tail, at, database, at, end, $"part-{i}");
                    if (random.Next(3) == 0) { Damage(PathOf($"part-{i}")); }
                }
                stretches.Add(new(at, end, database, index));
                (at, database) = (end, next);
            }
            stretches.Add(new(at, long.MaxValue, database, null));
            using var stretch = new StretchIndex(tail.Source, stretches, 1 << 20);
            (long first, long last) = (Origin, tail.Places[random.Next(tail.Places.Count)].Offset);
            foreach (long to in (long[])[last, tail.End])
            {
                stretch.ReadTo(to);
                Assert.True(stretch.Position >= to);
                first = Math.Min(to, tail.Places[random.Next(tail.Places.Count)].Offset);
                Assert.Equal(NameOf(all.NotConfined(first, to)), NameOf(stretch.NotConfined(first, to)));
                Assert.Equal(all.EmptiedAt(first, to), stretch.EmptiedAt(first, to));
                StoreKey[] keys = [.. tail.Keys];
                random.Shuffle(keys);
                foreach (StoreKey[] some in (StoreKey[][])[keys[..1], keys[..5], keys])
                {
                    List<(long, int)> expected = [], found = [];
                    HashSet<uint> hashes = [.. some.Select(k => (uint)(k.Hash >> 32))];
                    Assert.True(all.Find(hashes, first, to, int.MaxValue, expected));
                    Assert.True(stretch.Find(hashes, first, to, int.MaxValue, found));
                    Assert.Equal(expected.Distinct(), found.Distinct());
                    int most = found.Count / 2;
                    found.Clear();
                    Assert.Equal(most >= expected.Count, stretch.Find(hashes, first, to, most, found));
                    Assert.True(found.Count <= most);
                }
            }
            Assert.Equal((Origin, null), (stretch.Start, stretch.Flaw));
        }
    }

    // An index has the beginning.
    private static string? NameOf(string? name) => name?[..Math.Min(name.Length, KeyIndex.NameBytes)];

    private KeyIndex Make(Tail tail, long before, int database, long start, long end, string name = "made")
    {
        var maker = new KeyIndexMaker();
        Assert.True(maker.Read(tail.Source, before, database, start, end, tail.End, TestContext.Current.CancellationToken));
        maker.Write(PathOf(name), s_mark);
        Assert.False(File.Exists(PathOf(name) + KeyIndexMaker.AsideExtension));
        return KeyIndex.Open(PathOf(name), s_mark)!;
    }

    private static void Damage(string path)
    {
        using var file = new FileStream(path, FileMode.Open, FileAccess.Write, FileShare.ReadWrite | FileShare.Delete);
        // In the last page.
        file.Position = file.Length - 1 - (KeyIndex.PageBytes / 2);
        file.WriteByte(0xA5);
    }

    private static IEnumerable<long> OffsetsOf(Tail tail, StoreKey key) =>
        tail.Commands.Where(c => c.Keys.Contains(key)).Select(c => c.Offset);

    private static void Check(Tail tail, KeyIndex index, long start, long end)
    {
        IEnumerable<Written> within = tail.Commands.Where(c => c.Offset >= start && c.Offset < end);
        Assert.Equal(within.Where(c => c.Unconfined is not null).Select(c => new UnconfinedCommand(c.Offset, c.Unconfined!)),
            index.Unconfined);
        foreach (StoreKey key in tail.Keys)
        {
            Assert.Equal(OffsetsOf(tail, key).Where(o => o >= start && o < end), index.Find((uint)(key.Hash >> 32)));
        }
        foreach (Written command in within) { Assert.Equal(command.Database, index.DatabaseAt(command.Offset)); }
    }

    private static Tail Random(Random random, int commands, bool hasEmptyLines = true)
    {
        using var bytes = new MemoryStream();
        var written = new List<Written>();
        var places = new List<(long, int)> { (Origin, 0) };
        int database = 0;
        string Key() => "key:" + random.Next(60);
        StoreKey In(int of, string key) => new(of, Encoding.ASCII.GetBytes(key));
        for (int i = 0; i < commands; i++)
        {
            long offset = Origin + bytes.Length;
            string a = Key(), b = Key();
            int other = random.Next(3);
            // An index of the tail notes a thousand that are not confined to keys.
            (string[] words, StoreKey[] keys, string? unconfined) = random.Next(commands > 10_000 ? 4000 : 40) switch
            {
                0 or 1 => (["SELECT", $"{other}"], [], null),
                2 => (["FLUSHALL"], [], "FLUSHALL"),
                3 => (["flushdb", "ASYNC"], [], "flushdb"),
                4 => (["SOMEMODULE.WITHALONGERNAMETHANOTHERS", a], [], "SOMEMODULE.WITHALONGERNAMETHANOTHERS"[..24]),
                5 => (["MOVE", a, $"{other}"], [In(database, a), In(other, a)], null),
                6 => (["RENAME", a, b], [In(database, a), In(database, b)], null),
                7 => (["PING"], [], null),
                8 => (["MULTI"], [], null),
                9 => (["FUNCTION", "FLUSH"], [], null),
                10 => (["MSET", a, "1", b, "2"], [In(database, a), In(database, b)], null),
                _ => (new[] { "SET", a, new string('x', random.Next(30)) }, new[] { In(database, a) }, (string?)null),
            };
            // Redis skips empty lines.
            if (hasEmptyLines && random.Next(20) == 0) { bytes.Write("\n"u8); }
            bytes.Write(Encode(words));
            if (keys.Length > 0 || unconfined is not null) { written.Add(new(offset, database, keys, unconfined)); }
            if (words[0] == "SELECT") { database = other; }
            places.Add((Origin + bytes.Length, database));
        }
        return new(bytes.ToArray(), written, places);
    }

    private static byte[] Encode(params string[] words) =>
        Encoding.ASCII.GetBytes($"*{words.Length}\r\n" + string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n")));
}
