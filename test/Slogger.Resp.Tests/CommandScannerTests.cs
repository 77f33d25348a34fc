// The scanner of requests against the slow reader: every payload under every cut, in one or two places, random ones, and
// mutilated ones. The rule that matters most: what is passed on as n whole requests are n whole requests to Redis.
using System.Text;

namespace Slogger.Resp.Tests;

public sealed unsafe class CommandScannerTests(ITestOutputHelper output)
{
    private const byte Impossible = 9;
    private static readonly SpecialNames Names =
        new([KeyValuePair.Create("MULTI", (byte)1), KeyValuePair.Create("SUBSCRIBE", (byte)2), KeyValuePair.Create("XREAD", (byte)3)],
            Impossible);

    public static TheoryData<string> Payloads =>
    [
        "*1\r\n$4\r\nPING\r\n",
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
        "*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n*0\r\n",
        "*-9223372036854775808\r\n*1\r\n$4\r\nPING\r\n",
        "*1\r\n$0\r\n\r\n",
        "*1xy*1\r\n$4\r\nPINGxy",
        "*1\r\n$4\rxPINGab*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
        "*2\r\n$3\r\nGET\r\n$13\r\n$3\r\n*1\r\nabc\r\n\r\n",
        "*2\r\n$3\r\nGET\r\n$100\r\n"
            + "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\r\n",
        "*12\r\n$4\r\nMGET\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n6\r\n$1\r\n7\r\n$1\r\n8\r\n$1\r\n9\r\n$1\r\n"
            + "a\r\n$1\r\nb\r\n",
        "*x\r\n", "*1x\r\n$4\r\nPING\r\n", "*01\r\n$4\r\nPING\r\n", "*+1\r\n$4\r\nPING\r\n", "*-0\r\n", "*\r\n", "* 1\r\n", "*-\r\n",
            "*1 \r\n",
        "*2147483648\r\n", "*9223372036854775807\r\n", "*9223372036854775808\r\n", "*-9223372036854775809\r\n",
            "*123456789012345678901\r\n",
        "*1\r\n:1\r\n", "*1\r\n\r\n$4\r\nPING\r\n", "*1\r\n\n\r\n", "*1\r\n\0\r\n", "*1\r\n+\r\n", "*1\r\nPING\r\n", "*1\r\n\xff\r\n",
        "*1\r\n$-1\r\n", "*1\r\n$\r\n\r\n", "*1\r\n$x\r\n", "*1\r\n$04\r\nPING\r\n", "*1\r\n$-0\r\n\r\n", "*2\r\n$3\r\nGET\r\n$-5\r\n",
        "*2\r\n$3\r\nGET\r\n$9223372036854775808\r\n", "*1\r\n$4\0\r\nPING\r\n", "*1\0\r\n$4\r\nPING\r\n", "*\0",
        "PING\r\n", "\r\n*1\r\n$4\r\nPING\r\n", "*1\r\n$4\r\nPING\r\nPING\r\n", "$4\r\nPING\r\n", "\0",
    ];

    [Theory]
    [MemberData(nameof(Payloads))]
    public void ScanRun_CutAnywhere_AgreesWithTheReference(string payload)
    {
        byte[] bytes = Bytes.Of(payload);
        CheckPieces(bytes, [bytes.Length]);
        for (int first = 0; first <= bytes.Length; first++)
        {
            CheckPieces(bytes, [first, bytes.Length]);
            for (int second = first; second <= bytes.Length; second++) { CheckPieces(bytes, [first, second, bytes.Length]); }
        }
    }

    [Fact]
    public void ScanRun_RandomRequests_AgreesWithTheReference()
    {
        for (int seed = 1; seed <= 1500; seed++)
        {
            var random = new Random(seed);
            byte[] bytes = RandomRequests.Of(random, random.Next(1, 8), mutilated: false);
            try
            {
                CheckPieces(bytes, RandomRequests.Cuts(random, bytes.Length));
            }
            catch
            {
                output.WriteLine($"seed {seed}: {Bytes.Show(bytes)}");
                throw;
            }
        }
    }

    [Fact]
    public void ScanRun_MutilatedRequests_AgreesWithTheReference()
    {
        for (int seed = 1; seed <= 6000; seed++)
        {
            var random = new Random(seed);
            byte[] bytes = RandomRequests.Of(random, random.Next(1, 5), mutilated: true);
            try
            {
                CheckPieces(bytes, RandomRequests.Cuts(random, bytes.Length));
            }
            catch
            {
                output.WriteLine($"seed {seed}: {Bytes.Show(bytes)}");
                throw;
            }
        }
    }

    [Theory]
    [InlineData("MULTI", 1)]
    [InlineData("multi", 1)]
    [InlineData("mUlTi", 1)]
    [InlineData("SUBSCRIBE", 2)]
    [InlineData("subscribe", 2)]
    [InlineData("MULT", 0)]
    [InlineData("MULTIX", 0)]
    [InlineData("SUBSCRIBX", 0)]
    [InlineData("SUBSCRIBEX", 0)]
    [InlineData("", 0)]
    [InlineData("multi\0", Impossible)]
    [InlineData("multi\0x", Impossible)]
    [InlineData("\0", Impossible)]
    [InlineData("get\0", Impossible)]
    [InlineData("g\0t", Impossible)]
    [InlineData("multi\0\0\0", Impossible)]
    [InlineData("subscrib\0", Impossible)]
    [InlineData("subscribe\0and a long tail behind the zero byte", Impossible)]
    public void ScanRun_SpecialName_StopsBeforeIt(string name, byte expected)
    {
        using var native = new Native([.. Bytes.Request("GET", "k"), .. Bytes.Request(name, "argument"), .. Bytes.Request("GET", "k")]);
        int count = 0;
        byte* next = CommandScanner.ScanRun(native.Start, native.End, Names, 1 << 20, ref count, out ScanStop stop, out byte value);
        Assert.Equal(expected, value);
        Assert.Equal(expected == 0 ? ScanStop.NeedMore : ScanStop.Special, stop);
        Assert.Equal(expected == 0 ? 3 : 1, count);
        Assert.Equal(expected == 0 ? native.Length : Bytes.Request("GET", "k").Length, (int)(next - native.Start));
    }

    [Theory]
    [InlineData("GET k", false)]
    [InlineData("get k|Get k", false)]
    [InlineData("SET k v", true)]
    [InlineData("GET k|SET k v|GET k", true)]
    [InlineData("NONSENSE", true)]
    [InlineData("GET k|MULTI|SET k v", false)]
    [InlineData("MULTI", false)]
    public void ScanRun_KnownReads_AllElseMayWrite(string requests, bool expected)
    {
        var names = new SpecialNames([KeyValuePair.Create("MULTI", (byte)1), KeyValuePair.Create("GET", CommandScanner.ReadsOnly)]);
        using var native = new Native([.. requests.Split('|').SelectMany(r => Bytes.Request(r.Split(' ')))]);
        int count = 0;
        CommandScanner.ScanRun(native.Start, native.End, names, 1 << 20, ref count, out ScanStop stop, out byte value, out bool mayWrite);
        Assert.Equal(expected, mayWrite);
        bool isStopped = requests.Contains("MULTI", StringComparison.Ordinal);
        Assert.Equal((isStopped ? ScanStop.Special : ScanStop.NeedMore, isStopped ? 1 : 0), (stop, value));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    public void ScanRun_CountBelowZero_StopsWhenAsManyWereScanned(int wanted)
    {
        byte[] one = Bytes.Request("GET", "k");
        // A request that has no reply is not counted.
        using var native = new Native([.. one, .. Bytes.Of("*0\r\n"), .. one, .. one]);
        int count = -wanted;
        byte* next = CommandScanner.ScanRun(native.Start, native.End, Names, 1 << 20, ref count, out ScanStop stop, out _);
        Assert.Equal(wanted <= 3 ? ScanStop.Enough : ScanStop.NeedMore, stop);
        Assert.Equal(Math.Max(0, wanted - 3), -count);
        Assert.Equal((Math.Min(wanted, 3) * one.Length) + (wanted > 1 ? 4 : 0), (int)(next - native.Start));
    }

    [Fact]
    public void ScanRun_NameLongerThanAnyCommand_IsImpossible()
    {
        using var native = new Native(Bytes.Of("*1\r\n$300\r\nmulti"));
        int count = 0;
        CommandScanner.ScanRun(native.Start, native.End, Names, 1 << 20, ref count, out ScanStop stop, out byte value);
        Assert.Equal((ScanStop.Special, Impossible), (stop, value));
    }

    [Theory]
    [InlineData(100, 99, ScanStop.NeedMore)]
    [InlineData(100, 101, ScanStop.Large)]
    [InlineData(100, 100_000_000_000, ScanStop.Large)]
    public void ScanRun_PromisedLength_DecidesWhetherLarge(long largeBytes, long valueBytes, ScanStop expected)
    {
        using var native = new Native(Bytes.Of($"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${valueBytes}\r\n"));
        int count = 0;
        byte* next = CommandScanner.ScanRun(native.Start, native.End, Names, largeBytes, ref count, out ScanStop stop, out _);
        Assert.Equal(expected, stop);
        Assert.True(next == native.Start);
    }

    [Fact]
    public void ScanRun_ManySmallArguments_AreLargeBeforeTheEnd()
    {
        using var native = new Native(Bytes.Of("*1000000\r\n" + string.Concat(Enumerable.Repeat("$1\r\nx\r\n", 1000))));
        int count = 0;
        CommandScanner.ScanRun(native.Start, native.End, Names, 4096, ref count, out ScanStop stop, out _);
        Assert.Equal(ScanStop.Large, stop);
    }

    [Theory]
    [InlineData("*", "too big mbulk count string")]
    [InlineData("*1\r\n$", "too big bulk count string")]
    [InlineData("*1\r\n:", "too big bulk count string")]
    public void ScanRun_LineWithoutEnd_IsMalformedFrom64KilobytesOn(string start, string error)
    {
        foreach (int extra in (int[])[-1, 0, 1, 20_000])
        {
            byte[] bytes = Bytes.Of(start + new string('1', CommandScanner.MaxLineBytes + extra));
            using var native = new Native(bytes, behind: (byte)'\r');
            int count = 0;
            CommandScanner.ScanRun(native.Start, native.End, Names, 1 << 20, ref count, out ScanStop stop, out _);
            Assert.Equal(extra < 0 ? ScanStop.NeedMore : ScanStop.Malformed, stop);
            if (extra >= 0) { Assert.Equal("ERR Protocol error: " + error, CommandScanner.Classify(native.Start, native.End)); }
        }
    }

    [Fact]
    public void ReadArguments_CutAnywhere_FindsThemWhenWhole()
    {
        byte[] bytes = Bytes.Request("SUBSCRIBE", "", "a\r\nb", new string('x', 300));
        var found = new List<(int Offset, int Length)>();
        for (int length = 1; length <= bytes.Length; length++)
        {
            using var native = new Native(bytes.AsSpan(0, length));
            Assert.Equal(length == bytes.Length ? length : 0, CommandScanner.ReadArguments(native.Start, native.End, found));
        }
        Assert.Equal(["SUBSCRIBE", "", "a\r\nb", new string('x', 300)], found.Select(a => Bytes.Text(bytes.AsSpan(a.Offset, a.Length))));
    }

    [Theory]
    [InlineData("*2\r\n$1\r\na\r\nSUBSCR", 0)]
    [InlineData("*2\r\n$1\r\na\r\nSUBSCR\r", 0)]
    [InlineData("*2\r\n$1\r\na\r\nSUBSCR\r\n", -1)]
    public void ReadArguments_NoLength_IsSaidWhenTheLineHasCome(string bytes, long expected)
    {
        using var native = new Native(Bytes.Of(bytes));
        Assert.Equal(expected, CommandScanner.ReadArguments(native.Start, native.End, []));
    }

    [Theory]
    [InlineData("*11\r\n", "multibulk")]
    [InlineData("*10\r\n", null)]
    [InlineData("*2147483648\r\n", null)]
    [InlineData("*2\r\n$4\r\nAUTH\r\n$16385\r\n", "bulk")]
    [InlineData("*2\r\n$4\r\nAUTH\r\n$16384\r\n", null)]
    [InlineData("*2\r\n$16385\r\n", "bulk")]
    [InlineData("*1\r\n$4\r\nPING\r\n*11\r\n", null)]
    [InlineData("*2\r\n$4\r\nAUTH\r\n$16385", null)]
    [InlineData("*2\r\n$4\r\nAUTH\r\n:16385\r\n", null)]
    [InlineData("*2\r\n$x\r\n$16385\r\n", null)]
    [InlineData("PING\r\n", null)]
    public void ClassifyUnauthenticated_FirstRequest_IsHeldToTheLimits(string bytes, string? expected)
    {
        using var native = new Native(Bytes.Of(bytes));
        string? error = expected is null ? null : $"ERR Protocol error: unauthenticated {expected} length";
        Assert.Equal(error, CommandScanner.ClassifyUnauthenticated(native.Start, native.End));
    }

    [Theory]
    [InlineData("*x\r\n")]
    [InlineData("*2147483648\r\n")]
    [InlineData("*1\r\n:1\r\n")]
    [InlineData("*1\r\n$-1\r\n")]
    [InlineData("*1\r\n$9223372036854775807\r\n")]
    public void ReadArguments_Malformed_IsSaid(string bytes)
    {
        using var native = new Native(Bytes.Of(bytes));
        Assert.Equal(-1, CommandScanner.ReadArguments(native.Start, native.End, []));
    }

    // Feeds pieces as the front end does (what is not consumed is presented again with the next piece) and compares.
    private static void CheckPieces(byte[] bytes, int[] cuts)
    {
        var reference = new ReferenceReader();
        var kept = new List<byte>();
        var passed = new List<byte>();
        int total = 0, from = 0;
        foreach (int cut in cuts)
        {
            reference.Feed(bytes.AsSpan(from, cut - from));
            kept.AddRange(bytes[from..cut]);
            from = cut;
            foreach (byte behind in (byte[])[(byte)'1', (byte)'\r', (byte)'$'])
            {
                using var probe = new Native(kept.ToArray(), behind);
                int probed = 0;
                byte* end = CommandScanner.ScanRun(probe.Start, probe.End, Names, 1 << 20, ref probed, out ScanStop stop, out byte value);
                Assert.InRange((long)(end - probe.Start), 0, probe.Length);
                if (behind != (byte)'$') { continue; }
                total += probed;
                int used = (int)(end - probe.Start);
                passed.AddRange(kept[..used]);
                kept.RemoveRange(0, used);
                if (stop == ScanStop.Special)
                {
                    Assert.NotEqual(0, value);
                    ReferenceReader stopped = ReferenceReader.Read(passed.ToArray());
                    Assert.Equal((total, true), (stopped.Requests.Count, stopped.IsBetween));
                    return;
                }
                if (stop == ScanStop.Malformed)
                {
                    Assert.NotNull(reference.Error);
                    Assert.Equal(reference.Error, CommandScanner.Classify(end, probe.End));
                }
                else
                {
                    Assert.Null(reference.Error);
                    Assert.Equal(stop == ScanStop.Inline, reference.IsInline);
                }
                Assert.Equal(reference.Requests.Count, total);
                ReferenceReader whole = ReferenceReader.Read(passed.ToArray());
                Assert.Equal((total, true), (whole.Requests.Count, whole.IsBetween));
                if (stop is ScanStop.Malformed or ScanStop.Inline) { return; }
            }
        }
    }
}
