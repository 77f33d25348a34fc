// What a reset writes may be larger than memory: a part is on a disk, which may be full, or give back something else.
using System.Text;
using Slogger.Log.Files;
using Slogger.Log.Tests.Simulation;
using Slogger.Proxy.Past;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Tests.Past;

public sealed class ResetPlanTests : IDisposable
{
    private readonly string _directory = Directory.CreateTempSubdirectory("reset-plan").FullName;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    [Theory]
    [InlineData(int.MaxValue)]
    [InlineData(3 << 20)]
    [InlineData(0)]
    public void Batches_AnyPartOnDisk_AreAllWrites_DeletionsFirst(int heldMax)
    {
        using var plan = new ResetPlan(() => new Spill(SystemFileLayer.Instance, _directory, heldMax), shiftMs: 7);
        var random = new Random(1);
        List<DumpedKey> keys = [];
        for (int i = 0; i < 300; i++)
        {
            byte[] name = Encoding.ASCII.GetBytes($"k{i}");
            byte[]? value = i % 3 == 0 ? null : new byte[random.Next(60_000)];
            if (value is not null) { random.NextBytes(value); }
            keys.Add(new(new(i % 2, name), IsString: i % 5 != 0, value, i % 4 == 0 ? 1000 + i : 0));
        }
        foreach (DumpedKey[] some in keys.Chunk(17)) { plan.Add([.. some.OrderBy(k => k.Key.Database)]); }

        Assert.Equal(300, plan.Keys);
        List<RedisBatch> copies = [.. plan.Batches.Select(b => new RedisBatch().Add(b.Written.Span, b.Count))];
        Assert.Equal(plan.Bytes, copies.Sum(b => (long)b.Bytes));
        Assert.All(copies, b => Assert.InRange(b.Bytes, 1, 2 << 20));
        List<(int Database, byte[][] Words)> written = [.. copies.SelectMany(CommandsOf)];
        int deletions = keys.Count(k => k.Value is null);
        Assert.All(written.Take(deletions), w => Assert.Equal("DEL", Encoding.ASCII.GetString(w.Words[0])));
        Assert.Equal(300, written.Count);
        Dictionary<StoreKey, byte[][]> byKey = written.ToDictionary(w => new StoreKey(w.Database, w.Words[1]), w => w.Words);
        foreach (DumpedKey key in keys)
        {
            byte[] expiry = Encoding.ASCII.GetBytes(key.ExpiresAtMs == 0 ? "0" : $"{key.ExpiresAtMs + 7}");
            byte[][] wanted = key.Value is not { } value ? ["DEL"u8.ToArray(), key.Key.Name]
                : !key.IsString ? ["RESTORE"u8.ToArray(), key.Key.Name, expiry, value, "REPLACE"u8.ToArray(), "ABSTTL"u8.ToArray()]
                : key.ExpiresAtMs == 0 ? ["SET"u8.ToArray(), key.Key.Name, value]
                : ["SET"u8.ToArray(), key.Key.Name, value, "PXAT"u8.ToArray(), expiry];
            Assert.Equal(wanted.Select(Convert.ToHexString), byKey[key.Key].Select(Convert.ToHexString));
        }
        // Nothing is left of it, not even if the process is killed now.
        Assert.Empty(Directory.EnumerateFileSystemEntries(_directory));

        HashSet<StoreKey> asked = [keys[3].Key, new(0, "new"u8.ToArray()), keys[298].Key];
        plan.RemoveKnown(asked);
        Assert.Equal([new StoreKey(0, "new"u8.ToArray())], asked);
    }

    [Fact]
    public void Keys_AddedAgain_CountOnce_AsFarAsTheyAreKnown()
    {
        using var keys = new SpilledKeys(new(SystemFileLayer.Instance, _directory, heldMax: 1000), knownMax: 10_000);
        StoreKey Key(int i) => new(i % 3, Encoding.ASCII.GetBytes($"a longer name {i}"));
        for (int i = 0; i < 30_000; i++) { keys.Add(Key(i % 10_000)); }
        Assert.Equal(10_000, keys.Count);
        keys.Add(Key(10_000));
        keys.Add(Key(10_000));
        Assert.Equal([.. Enumerable.Range(0, 10_001), 10_000], keys.Read(_ => true)
            .Select(k => int.Parse(Encoding.ASCII.GetString(k.Name)[14..])));
        Assert.Equal([Key(9999)], keys.Read(h => h == Key(9999).Hash));
    }

    [Fact]
    public void File_AnyByteChanged_OrShorter_IsNotRead()
    {
        var disk = new Altered(new SimulatedDisk(1));
        using var spill = new Spill(disk, "/reset", heldMax: 0);
        for (int i = 1; i < 6; i++) { spill.Append(Encoding.ASCII.GetBytes(new string('x', 10 * i)), i); }
        Assert.Equal([1, 2, 3, 4, 5], spill.Read().Select(p => p.Count));
        for (long at = 0; at < spill.FileBytes; at++)
        {
            disk.Changed = at;
            IOException e = Assert.Throws<IOException>(() => spill.Read().Count());
            Assert.Contains("/reset", e.Message);
        }
        disk.Changed = -1;
        for (long end = 0; end < spill.FileBytes; end++)
        {
            disk.End = end;
            Assert.Throws<IOException>(() => spill.Read().Count());
        }
    }

    [Fact]
    public void Disk_IsFull_SaysSo_AndWhatIsHeldIsStillThere()
    {
        using var spill = new Spill(new SimulatedDisk(1) { WriteFailureRate = 1 }, "/reset", heldMax: 3000);
        int added = 0;
        IOException e = Assert.Throws<IOException>(() =>
        {
            for (; added < 100; added++) { spill.Append(new byte[1000], added); }
        });
        Assert.Contains("no space left", e.Message);
        Assert.Equal(3, added);
        Assert.Equal(Enumerable.Range(0, added), spill.Read().Select(p => p.Count));
    }

    [Fact]
    public void Disposed_TakesNothingMore()
    {
        var spill = new Spill(SystemFileLayer.Instance, _directory, heldMax: 0);
        spill.Append(new byte[10], 1);
        spill.Dispose();
        spill.Dispose();
        Assert.Throws<ObjectDisposedException>(() => spill.Append(new byte[10], 1));
        Assert.Throws<ObjectDisposedException>(() => spill.Read().Count());
    }

    [Fact]
    public void Clear_DeletesWhatWasJustOpened()
    {
        string folder = Path.Combine(_directory, "reset");
        Spill.Clear(folder);
        Directory.CreateDirectory(folder);
        File.WriteAllText(Path.Combine(folder, "left"), "");
        Spill.Clear(folder);
        Assert.False(Directory.Exists(folder));
    }

    // The commands of a batch, which selects its databases itself.
    private static IEnumerable<(int Database, byte[][] Words)> CommandsOf(RedisBatch batch)
    {
        byte[] bytes = batch.Written.ToArray();
        int at = 0, database = -1;
        while (at < bytes.Length)
        {
            var words = new byte[Number('*')][];
            for (int i = 0; i < words.Length; i++)
            {
                int length = Number('$');
                words[i] = bytes[at..(at + length)];
                at += length + 2;
            }
            if (words[0].AsSpan().SequenceEqual("SELECT"u8)) { database = int.Parse(words[1]); }
            else { yield return (database, words); }
        }

        int Number(char kind)
        {
            Assert.Equal(kind, (char)bytes[at]);
            int end = Array.IndexOf(bytes, (byte)'\r', at);
            int number = int.Parse(bytes.AsSpan(at + 1, end - at - 1));
            at = end + 2;
            return number;
        }
    }

    // A disk that gives back something else than it took.
    private sealed class Altered(IFileLayer disk) : IFileLayer
    {
        public long Changed { get; set; } = -1;

        public long End { get; set; } = long.MaxValue;

        public ILogFile Create(string path) => new AlteredFile(disk.Create(path), this);

        public void CreateDirectory(string path) => disk.CreateDirectory(path);

        public void Delete(string path) => disk.Delete(path);

        public ILogFile Open(string path, bool writable) => throw new NotSupportedException();

        public IReadOnlyList<string> List(string directory) => throw new NotSupportedException();

        public void Rename(string from, string to) => throw new NotSupportedException();

        public void LinkOrCopy(string from, string to) => throw new NotSupportedException();

        public void SyncDirectory(string directory) => throw new NotSupportedException();

        public IDisposable? TryLock(string path) => throw new NotSupportedException();
    }

    private sealed class AlteredFile(ILogFile file, Altered disk) : ILogFile
    {
        public long Length => file.Length;

        public int Read(Span<byte> destination, long position)
        {
            int read = file.Read(destination, position);
            if (disk.Changed >= position && disk.Changed < position + read) { destination[(int)(disk.Changed - position)] ^= 0x10; }
            return (int)Math.Clamp(disk.End - position, 0, read);
        }

        public void Write(ReadOnlySpan<byte> source, long position) => file.Write(source, position);

        public void Allocate(long length) => throw new NotSupportedException();

        public void SetLength(long length) => throw new NotSupportedException();

        public void SyncData() => throw new NotSupportedException();

        public void Dispose() => file.Dispose();
    }
}
