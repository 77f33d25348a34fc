using Slogger.Redis.Rdb;

namespace Slogger.Redis.Tests.Rdb;

public sealed class RdbWriterTests : IDisposable
{
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-rdb-").FullName;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    // Each form in which a length is written, and values that pass over the buffer's end.
    [Fact]
    public void Keys_OfAllLengths_AreReadBack_WithTheirExpiries()
    {
        string path = Path.Combine(_directory, "a.rdb");
        var random = new Random(1);
        List<(byte[] Key, byte[] Value, long ExpiresAtMs)> written = [];
        foreach (int length in (int[])[0, 1, 63, 64, 16_383, 16_384, 70_000, (1 << 20) - 5, 3 << 20])
        {
            byte[] key = new byte[Math.Min(length, 60_000)], value = new byte[length];
            random.NextBytes(key);
            random.NextBytes(value);
            written.Add((key, value, length % 2 == 0 ? 0 : 1_700_000_000_000 + length));
        }
        using (var writer = new RdbWriter(path))
        {
            foreach ((byte[] key, byte[] value, long expiresAtMs) in written) { writer.Add(key, value, expiresAtMs); }
            writer.Finish();
            Assert.Equal(writer.Bytes, new FileInfo(path).Length);
        }
        Assert.Equal(RdbIntegrity.Good, RdbFile.Verify(path));
        using var cursor = new RdbCursor(path, 1 << 16);
        cursor.ReadHead();
        foreach ((byte[] key, byte[] value, long expiresAtMs) in written)
        {
            RdbEntry entry = cursor.ReadEntry()!.Value;
            Assert.Equal((0, RdbCursor.StringType, expiresAtMs), (entry.Database, entry.Type, entry.ExpiresAtMs));
            Assert.Equal(key, entry.Key);
            Assert.Equal(value, cursor.ReadString(entry));
        }
        Assert.Null(cursor.ReadEntry());
    }

    [Fact]
    public void File_WithoutAKey_IsWhole_AndOneThatWasNotFinishedIsNot()
    {
        string path = Path.Combine(_directory, "a.rdb");
        using (var writer = new RdbWriter(path))
        {
            writer.Finish();
        }
        Assert.Equal(RdbIntegrity.Good, RdbFile.Verify(path));
        using (var writer = new RdbWriter(path))
        {
            writer.Add("k"u8, Enumerable.Repeat((byte)'v', 2 << 20).ToArray(), 0);
        }
        Assert.Equal(RdbIntegrity.Broken, RdbFile.Verify(path));
    }
}
