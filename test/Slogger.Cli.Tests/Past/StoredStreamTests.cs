// A file that is fetched in blocks reads as the file itself, wherever it is read; what is used once is fetched once.
using Slogger.Cli.Past;

namespace Slogger.Cli.Tests.Past;

public sealed class StoredStreamTests(ITestOutputHelper output)
{
    private const int Length = (20 << 20) + 17;

    [Fact]
    public void ReadsAndSeeks_AreThoseOfTheBytes()
    {
        int seed = Random.Shared.Next();
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        byte[] bytes = Bytes(random), there = new byte[1 << 20];
        using var stream = new StoredStream(Length, (from, count) => Task.FromResult(bytes.AsSpan((int)from, count).ToArray()));
        Assert.Equal(Length, stream.Length);
        for (int i = 0; i < 300; i++)
        {
            int at = random.Next(Length + 1);
            Assert.Equal(at, random.Next(2) == 0 ? stream.Seek(at, SeekOrigin.Begin) : stream.Seek(at - Length, SeekOrigin.End));
            int wanted = random.Next(there.Length), read = stream.ReadAtLeast(there.AsSpan(0, wanted), wanted, throwOnEndOfStream: false);
            Assert.Equal(Math.Min(wanted, Length - at), read);
            Assert.True(bytes.AsSpan(at, read).SequenceEqual(there.AsSpan(0, read)), $"{read} bytes at {at}");
            Assert.Equal(at + read, stream.Position);
        }
    }

    // As a file is walked: forward, and now and then back to where a value began.
    [Fact]
    public void WhatLiesNotFarBefore_IsNotFetchedAgain()
    {
        byte[] bytes = Bytes(new Random(1)), there = new byte[64 << 10];
        List<long> fetched = [];
        using var stream = new StoredStream(Length, (from, count) =>
        {
            fetched.Add(from);
            return Task.FromResult(bytes.AsSpan((int)from, count).ToArray());
        });
        for (long at = 0; at < Length; at += there.Length)
        {
            stream.Position = Math.Max(0, at - (1 << 20));
            stream.ReadExactly(there.AsSpan(0, 100));
            stream.Position = at;
            _ = stream.ReadAtLeast(there, there.Length, throwOnEndOfStream: false);
        }
        Assert.Equal(fetched.Distinct(), fetched);
    }

    private static byte[] Bytes(Random random)
    {
        byte[] bytes = new byte[Length];
        random.NextBytes(bytes);
        return bytes;
    }
}
