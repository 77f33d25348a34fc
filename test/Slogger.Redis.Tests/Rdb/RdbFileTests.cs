// RDB headers and checksums, against known values and against what a real Redis accepts and writes.
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Rdb;

public sealed class RdbFileTests
{
    [Fact]
    public void Crc64_CheckString_KnownValue()
    {
        Assert.Equal(0xe9c6d914c4b8d9caUL, Crc64.Append(0, "123456789"u8));
        byte[] long_ = [.. Enumerable.Range(0, 1000).Select(i => (byte)i)];
        for (int cut = 0; cut < 30; cut++)
            Assert.Equal(Crc64.Append(0, long_), Crc64.Append(Crc64.Append(0, long_.AsSpan(0, cut)), long_.AsSpan(cut)));
    }

    [Fact]
    public void Checker_AnyPieces_SameVerdict()
    {
        byte[] rdb = RdbFile.Empty();
        for (int size = 1; size <= rdb.Length; size++)
        {
            var good = new RdbChecker();
            foreach (byte[] piece in rdb.Chunk(size))
                good.Append(piece);
            Assert.Equal(RdbIntegrity.Good, good.Result());
        }
        for (int i = 0; i < rdb.Length; i++)
        {
            byte[] bent = [.. rdb];
            bent[i] ^= 1;
            var bad = new RdbChecker();
            bad.Append(bent);
            Assert.Equal(RdbIntegrity.Broken, bad.Result());
        }
    }

    [Fact]
    public async Task Dump_OfRedis_InspectedAndVerified()
    {
        await using TestRedis redis = await TestRedis.StartAsync();
        await using RedisConnection client = await redis.ConnectAsync();
        await client.ExpectAsync("DEBUG", "POPULATE", "5000");
        await client.ExpectAsync("SAVE");
        string path = Path.Combine(redis.Directory, "dump.rdb");
        RdbInfo info = RdbFile.Inspect(path);
        Assert.Equal(10, info.FormatVersion);
        Assert.Equal("7.0.15", info.Fields["redis-ver"]);
        Assert.Null(info.ReplicationId); // no replica was ever attached
        Assert.Equal(RdbIntegrity.Good, RdbFile.Verify(path));
        byte[] bytes = await File.ReadAllBytesAsync(path);
        await File.WriteAllBytesAsync(path, bytes[..^100]);
        Assert.Equal(RdbIntegrity.Broken, RdbFile.Verify(path));
        await client.ExpectAsync("CONFIG", "SET", "rdbcompression", "no");
        await File.WriteAllTextAsync(path, "nonsense");
        Assert.Equal(RedisProblem.LocalFile, Assert.Throws<RedisException>(() => RdbFile.Inspect(path)).Problem);
    }
}
