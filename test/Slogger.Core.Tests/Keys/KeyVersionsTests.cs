// Invariant R11: of two successful conditional puts of a key the later one's expected version is at or above the earlier one's own. And a
// put never succeeds if the key was written since the version that it names.
using Slogger.Core.Identities;
using Slogger.Core.Keys;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Keys;

public sealed class KeyVersionsTests(ITestOutputHelper output)
{
    [Fact]
    public void Find_KeyOfTheTable_IsItsLastPlace()
    {
        var table = new KeyVersions(10, 100);
        table.Note(1, 101);
        table.Note(2, 150);
        table.Note(1, 200);
        Assert.Equal((200, 150, 100), (table.Find(1), table.Find(2), table.Find(3)));
    }

    [Fact]
    public void NoteAll_EveryKey_IsWrittenThere()
    {
        var table = new KeyVersions(10, 100);
        table.Note(1, 101);
        table.NoteAll(120);
        table.Note(2, 130);
        Assert.Equal((120, 130, 120), (table.Find(1), table.Find(2), table.Find(3)));
    }

    [Fact]
    public void Note_MoreKeysThanThereIsRoom_TheLastOnesAreKnownAndTheHorizonRises()
    {
        var table = new KeyVersions(100, 0);
        for (ulong key = 1; key <= 1000; key++)
        {
            table.Note(key, (long)key);
            for (ulong known = key > 100 ? key - 99 : 1; known <= key; known++) { Assert.Equal((long)known, table.Find(known)); }
        }
        Assert.InRange(table.Horizon, 700, 900);
        Assert.Equal(table.Horizon, table.Find(1));
    }

    [Fact]
    public void Note_OneEffectOfMoreKeysThanThereIsRoom_IsThePlaceOfEachOfThem()
    {
        var table = new KeyVersions(4, 0);
        for (ulong key = 1; key <= 40; key++) { table.Note(key, 7); }
        for (ulong key = 1; key <= 41; key++) { Assert.Equal(7, table.Find(key)); }
        table.Note(1, 8);
        Assert.Equal((8, 7), (table.Find(1), table.Find(2)));
    }

    [Fact]
    public void Prepend_TableOfBefore_CountsUntilAKeyIsForgotten()
    {
        var before = new KeyVersions(10, 50);
        before.Note(1, 60);
        var table = new KeyVersions(2, 100);
        table.Note(2, 101);
        table.Prepend(before);
        Assert.Equal((60, 101, 50), (table.Find(1), table.Find(2), table.Find(3)));
        for (ulong key = 10; key < 20; key++) { table.Note(key, 100 + (long)key); }
        Assert.Equal(table.Horizon, table.Find(1));
        table.Prepend(before);
        Assert.Equal(table.Horizon, table.Find(1));
    }

    [Fact]
    public void Note_PlaceBelowTheLast_IsRefused()
    {
        var table = new KeyVersions(2, 100);
        table.Note(1, 102);
        Assert.Throws<ArgumentOutOfRangeException>(() => table.Note(1, 101));
        Assert.Throws<ArgumentOutOfRangeException>(() => table.NoteAll(101));
    }

    // Tables of a few entries, hashes that many keys share, rollbacks, commands that may have written anything.
    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(5)]
    [InlineData(50)]
    public void ConditionalPuts_AgainstAnExactModel_NeverMissAWrite(int room)
    {
        int seed = Environment.TickCount;
        output.WriteLine($"seed {seed}, room {room}");
        var random = new Random(seed);
        (int puts, int refusals) = (0, 0);
        for (int round = 0; round < 200; round++)
        {
            (int done, int refused) = Run(random, room, keys: 1 + random.Next(30), hashes: 1 + random.Next(60));
            (puts, refusals) = (puts + done, refusals + refused);
        }
        Assert.True(puts > 500 && refusals > 500, $"{puts} puts and {refusals} refusals show little");
    }

    private static (int Puts, int Refusals) Run(Random random, int room, int keys, int hashes)
    {
        var history = new List<(WorldLine Line, long Offset)>();
        WorldLine line = new(1 + random.Next(3));
        KeyLines lines = new(new(0), line, []);
        long end = random.Next(1000);
        // Of each key the exact place of its last write; what lies above a branch is taken back.
        var writes = new List<(int Key, long Place)>();
        // What a client has been told of a key, and the write that it is about: -1 is none.
        var told = new List<(int Key, KeyVersion Version, long Write)>();
        KeyVersions table = new(room, end);
        (int puts, int refusals) = (0, 0);
        ulong HashOf(int key) => (ulong)(key % hashes) * 0x9E3779B97F4A7C15;
        long LastWrite(int key) => writes.FindLast(w => w.Key == key || w.Key < 0) is { Place: > 0 } last ? last.Place : -1;
        long Write(int key)
        {
            long place = end + 1;
            writes.Add((key, place));
            if (key < 0) { table.NoteAll(place); } else { table.Note(HashOf(key), place); }
            end += 1 + random.Next(50);
            return place;
        }
        for (int step = 0; step < 300; step++)
        {
            int key = random.Next(keys);
            switch (random.Next(40))
            {
                case < 10:
                    Write(key);
                    break;
                case < 20:
                    told.Add((key, lines.At(Math.Min(table.Find(HashOf(key)), end)), LastWrite(key)));
                    break;
                case < 37 when told.Count > 0:
                    (key, KeyVersion expected, long write) = told[random.Next(told.Count)];
                    long known = table.Find(HashOf(key));
                    // What is known is never below the truth.
                    Assert.True(known >= LastWrite(key));
                    if (!lines.Accepts(expected, known, end))
                    {
                        refusals++;
                        break;
                    }
                    puts++;
                    Assert.Equal(write, LastWrite(key));
                    Assert.True(expected.Offset >= LastWrite(key));
                    long own = Write(key);
                    told.Add((key, lines.At(own), own));
                    break;
                case 37:
                    Write(-1);
                    break;
                case 38:
                    // A start: a table of its own, with what the end of the log tells.
                    long tail = end - random.Next(200);
                    var before = new KeyVersions(1 + random.Next(room), Math.Max(tail, 0));
                    foreach ((int written, long place) in writes.Where(w => w.Place > tail))
                    {
                        if (written < 0) { before.NoteAll(place); } else { before.Note(HashOf(written), place); }
                    }
                    table = new(room, end);
                    table.Prepend(before);
                    break;
                case 39:
                    // A rollback: what is above the branch is void. A value that was rolled back is another than the one before.
                    long branch = writes.Count == 0 ? end : Math.Max(0, writes[random.Next(writes.Count)].Place - 1);
                    line = new(line.Number + 1 + random.Next(2));
                    history.Add((line, branch));
                    lines = lines with { Begins = [.. history] };
                    writes.RemoveAll(w => w.Place > branch);
                    end = random.Next(2) == 0 ? branch : end + 64;
                    table = new(room, end);
                    break;
            }
        }
        return (puts, refusals);
    }
}
