// The set of names: exact for every real command name and for near misses, in any case, allocation-free.
using System.Text;

namespace Slogger.Resp.Tests;

public sealed unsafe class SpecialNamesTests
{
    private static readonly string[] Words =
        ["GET", "A", "MULTI", "EXEC", "DPR.WAIT", "DPR.COMMITTED", "EVALSHA_RO", "PUNSUBSCRIBE", "SUBSCRIBE", "SSUBSCRIBE", "BZPOPMIN",
            "BZPOPMAX", "XREAD", "XREADGROUP", "HOST:"];

    private readonly SpecialNames _names = new(Words.Select((w, i) => KeyValuePair.Create(w, (byte)(i + 1))), impossible: 255);

    [Fact]
    public void Find_EveryName_InAnyCase()
    {
        var random = new Random(5);
        for (int i = 0; i < Words.Length; i++)
        {
            for (int round = 0; round < 20; round++)
            {
                Assert.Equal(i + 1, Find(string.Concat(Words[i].Select(c => random.Next(2) == 0 ? char.ToLowerInvariant(c) : c))));
            }
        }
    }

    [Fact]
    public void Find_NearMisses_AreNotInTheSet()
    {
        foreach (string word in Words)
        {
            for (int at = 0; at < word.Length; at++)
            {
                string without = word.Remove(at, 1);
                if (!Words.Contains(without)) { Assert.Equal(0, Find(without)); }
                Assert.Equal(0, Find(word.Insert(at, "Q")));
                Assert.Equal(0, Find(word[..at] + (word[at] == 'Q' ? 'W' : 'Q') + word[(at + 1)..]));
                Assert.Equal(255, Find(word[..at] + "\0" + word[(at + 1)..]));
                Assert.Equal(255, Find(word.Insert(at, "\0")));
            }
            Assert.Equal(255, Find(word + "\0"));
            Assert.Equal(0, Find(word + "Q"));
        }
        Assert.Equal(0, Find(new string('x', 200)));
        Assert.Equal(255, Find(new string('x', 200) + "\0"));
        Assert.Equal(0, Find(""));
    }

    [Fact]
    public void Find_OwnSpelling_OfAnyName()
    {
        var names = new SpecialNames([KeyValuePair.Create("PING", (byte)1), KeyValuePair.Create("DPR.WAIT", (byte)2)], impossible: 255,
            own: 9);
        foreach (string own in (string[])["pING", "gET", "dPR.WAIT", "rEPLCONF", "xR", "pUNSUBSCRIBE_OF_ALL", "e1"])
        {
            bool isOwn = own != "e1";
            Assert.Equal(isOwn, OwnSpelling.Is(Encoding.ASCII.GetBytes(own)));
            Assert.Equal(isOwn ? 9 : 0, Find(own, names));
            Assert.Equal(own.ToUpperInvariant() switch { "PING" => 1, "DPR.WAIT" => 2, _ => 0 }, Find(own.ToUpperInvariant(), names));
        }
        foreach (string other in (string[])["p", "P", "hGet", "hGetAll", "zADd", "1PING", "-PING", "pUNSUBSCRIBE_of_all", ""])
        {
            Assert.False(OwnSpelling.Is(Encoding.ASCII.GetBytes(other)));
            Assert.Equal(0, Find(other, names));
        }
        Assert.Equal((1, 1), (Find("ping", names), Find("Ping", names)));
        Assert.Equal(255, Find("pIN\0", names));
        Assert.Equal(255, Find("pING_OF_NONE\0", names));
        Assert.Equal("rEPLCONF", OwnSpelling.Of("REPLCONF"));
    }

    // The scanner does not look at the bytes behind carriage returns; nor may what respells a name that it has found.
    [Theory]
    [InlineData("*2\r\n$3\r\ngET\r\n$3\r\nkey\r\n")]
    [InlineData("*1\rX$4\rXpING\r\n\nabc\nabc")]
    [InlineData("*1\r\r$4\r\rpINGxx")]
    [InlineData("*1\r*$4\r$pING\r\n")]
    public void Undo_WhateverEndsTheLines_RespellsTheNameAlone(string request)
    {
        var names = new SpecialNames([KeyValuePair.Create("PING", (byte)1)], impossible: 255, own: 9);
        using var native = new Native(Bytes.Of(request), behind: 0);
        int count = 0;
        byte* stopped = CommandScanner.ScanRun(native.Start, native.End, names, 1 << 20, ref count, out ScanStop stop, out byte special);
        Assert.Equal((ScanStop.Special, 9), (stop, (int)special));
        OwnSpelling.Undo(stopped);
        Assert.Equal(request.Replace("pING", "PING", StringComparison.Ordinal).Replace("gET", "GET", StringComparison.Ordinal),
            Encoding.Latin1.GetString(native.Start, request.Length));
        CommandScanner.ScanRun(native.Start, native.End, names, 1 << 20, ref count, out stop, out special);
        Assert.NotEqual((ScanStop.Special, 9), (stop, (int)special));
    }

    [Fact]
    public void Constructor_BadNames_AreRefused()
    {
        Assert.Throws<ArgumentException>(() => new SpecialNames([KeyValuePair.Create("", (byte)1)]));
        Assert.Throws<ArgumentException>(() => new SpecialNames([KeyValuePair.Create("A", (byte)0)]));
        Assert.Throws<ArgumentException>(() => new SpecialNames([KeyValuePair.Create("A", (byte)1), KeyValuePair.Create("a", (byte)2)]));
    }

    [Fact]
    public void ScanRun_SteadyState_AllocatesNothing()
    {
        using var native = new Native([.. Bytes.Request("SET", "key", "value"), .. Bytes.Request("ZRANGEBYSCORE", "k", "1", "2")]);
        for (int round = 0; round < 2; round++)
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            int count = 0;
            for (int i = 0; i < 1000; i++) { CommandScanner.ScanRun(native.Start, native.End, _names, 1 << 20, ref count, out _, out _); }
            if (round == 1) { Assert.Equal(0, GC.GetAllocatedBytesForCurrentThread() - before); }
        }
    }

    private int Find(string name) => Find(name, _names);

    private static int Find(string name, SpecialNames names)
    {
        // A byte behind that would complete another name, were it looked at.
        using var native = new Native(Bytes.Of(name), behind: 0);
        int value = names.Find(native.Start, name.Length);
        using var other = new Native(Bytes.Of(name), behind: (byte)'X');
        Assert.Equal(value, names.Find(other.Start, name.Length));
        return value;
    }
}
