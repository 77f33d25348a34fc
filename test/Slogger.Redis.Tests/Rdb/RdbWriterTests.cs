// A file that is written key by key is one that a real Redis loads, with the same keys, values and expiries.
using System.Globalization;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;
using Slogger.Redis.Tests.Support;

namespace Slogger.Redis.Tests.Rdb;

public sealed class RdbWriterTests : IDisposable
{
    private const string FileName = "written.rdb";
    private readonly string _directory = TestRedis.NewDirectory();

    [Fact]
    public async Task File_OfAllTypesAndLengths_IsLoadedByRedis()
    {
        await using TestRedis source = await TestRedis.StartAsync();
        await using RedisConnection client = await source.ConnectAsync();
        long expires = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + 3_600_000;
        foreach (string[] command in (string[][])
        [
            ["RPUSH", "list", "1", "2", new('x', 300)], ["HSET", "hash", "f", "v"], ["ZADD", "zset", "1.5", "m"], ["SADD", "set", "a", "b"],
            ["XADD", "stream", "1-1", "f", "v"], ["XGROUP", "CREATE", "stream", "g", "0"],
            ["PEXPIREAT", "hash", expires.ToString(CultureInfo.InvariantCulture)],
        ])
        {
            await client.ExpectAsync(command);
        }
        string[] dumped = ["list", "hash", "zset", "set", "stream"];
        // Where the form of a length changes.
        int[] lengths = [0, 1, 63, 64, 16383, 16384, 70_000];
        using (FileStream file = File.Open(Path.Combine(_directory, FileName), FileMode.CreateNew))
        {
            var writer = new RdbWriter(file);
            foreach (int length in lengths) { writer.Add(3, Name(length), isString: true, new byte[length], length == 1 ? expires : 0); }
            foreach (string key in dumped)
            {
                byte[] payload = (await client.ExpectAsync("DUMP", key)).Bytes.ToArray();
                writer.Add(0, System.Text.Encoding.ASCII.GetBytes(key), isString: false, payload, key == "hash" ? expires : 0);
            }
            writer.End();
            Assert.Equal(lengths.Length + dumped.Length, writer.Keys);
        }
        Assert.Equal(RdbIntegrity.Good, RdbFile.Verify(Path.Combine(_directory, FileName)));
        await using TestRedis loaded = await TestRedis.StartAsync(null, "--dir", _directory, "--dbfilename", FileName);
        await using RedisConnection reader = await loaded.ConnectAsync();
        foreach (string key in dumped)
        {
            Assert.Equal((await client.ExpectAsync("DEBUG", "DIGEST-VALUE", key)).Items[0].Text,
                (await reader.ExpectAsync("DEBUG", "DIGEST-VALUE", key)).Items[0].Text);
        }
        Assert.Equal(expires, (await reader.ExpectAsync("PEXPIRETIME", "hash")).Integer);
        Assert.Equal("g", (await reader.ExpectAsync("XINFO", "GROUPS", "stream")).Items[0].Items[1].Text);
        await reader.ExpectAsync("SELECT", "3");
        Assert.Equal(lengths.Length, (await reader.ExpectAsync("DBSIZE")).Integer);
        foreach (int length in lengths)
        {
            string name = System.Text.Encoding.ASCII.GetString(Name(length));
            Assert.Equal(length, (await reader.ExpectAsync("STRLEN", name)).Integer);
            Assert.Equal(length == 1 ? expires : -1, (await reader.ExpectAsync("PEXPIRETIME", name)).Integer);
        }
    }

    [Fact]
    public async Task File_OfNothing_IsLoadedByRedis()
    {
        using (FileStream file = File.Open(Path.Combine(_directory, FileName), FileMode.CreateNew)) { new RdbWriter(file).End(); }
        Assert.Equal(RdbIntegrity.Good, RdbFile.Verify(Path.Combine(_directory, FileName)));
        await using TestRedis loaded = await TestRedis.StartAsync(null, "--dir", _directory, "--dbfilename", FileName);
        await using RedisConnection reader = await loaded.ConnectAsync();
        Assert.Equal(0, (await reader.ExpectAsync("DBSIZE")).Integer);
    }

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    // A name as long as the value.
    private static byte[] Name(int length) => System.Text.Encoding.ASCII.GetBytes($"{length}:{new string('k', length)}");
}
