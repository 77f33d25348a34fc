// The slot of a key is what redis-server computes, for keys of all kinds.
using Slogger.Core.Ownership;

namespace Slogger.Resp.Tests;

[Collection(nameof(RedisCluster))]
public sealed class HashSlotTests(RedisCluster cluster)
{
    [Theory]
    [InlineData("123456789", 12739)]
    [InlineData("", 0)]
    [InlineData("foo", 12182)]
    [InlineData("{foo}bar", 12182)]
    [InlineData("a{foo}b{bar}", 12182)]
    public void Of_KnownKey_IsItsSlot(string key, int slot) => Assert.Equal(new(slot), HashSlot.Of(Bytes.Of(key)));

    [Fact]
    public void Of_RandomKeys_IsWhatRedisComputes()
    {
        var ours = new ClusterReplies("test", Partitioning.Hash, SlotMap.Even(1), new(1), [new(new(0), "h", 1, true)], new(0));
        for (int seed = 1; seed <= 10; seed++)
        {
            var random = new Random(seed);
            byte[][] keys = [.. Enumerable.Range(0, 1000).Select(_ => RandomKey(random))];
            string replies = Bytes.Text(cluster.First.AskAll(
                [.. keys.SelectMany(k => Bytes.Of($"*3\r\n$7\r\nCLUSTER\r\n$7\r\nKEYSLOT\r\n${k.Length}\r\n").Concat(k)
                    .Concat(Bytes.Of("\r\n")))]));
            string[] slots = replies.Split("\r\n", StringSplitOptions.RemoveEmptyEntries);
            Assert.Equal(keys.Length, slots.Length);
            for (int i = 0; i < keys.Length; i++)
            {
                Assert.True(slots[i] == $":{HashSlot.Of(keys[i])}",
                    $"seed {seed}: {Bytes.Show(keys[i])}: {slots[i]}, computed {HashSlot.Of(keys[i])}");
                Assert.Equal($"{slots[i]}\r\n", Bytes.Text(ours.KeySlot(keys[i])));
            }
        }
    }

    private static byte[] RandomKey(Random random)
    {
        byte[] key = new byte[random.Next(random.Next(4) == 0 ? 200 : 20)];
        random.NextBytes(key);
        for (int i = 0; i < key.Length; i++)
        {
            if (random.Next(5) == 0) { key[i] = (byte)"{}"[random.Next(2)]; }
        }
        return key;
    }
}
