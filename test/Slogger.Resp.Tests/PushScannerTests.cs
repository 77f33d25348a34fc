// What begins like a push is told from a reply as soon as it is whole, and never told otherwise from less of it.
namespace Slogger.Resp.Tests;

public sealed unsafe class PushScannerTests
{
    public static TheoryData<string, PushKind> Frames => new()
    {
        { ">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nm\r\n", PushKind.Message },
        { "*4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$2\r\nch\r\n$1\r\nm\r\n", PushKind.Message },
        { ">3\r\n$8\r\nsmessage\r\n$2\r\nch\r\n$1\r\nm\r\n", PushKind.Message },
        { ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n", PushKind.Message },
        { ">2\r\n$10\r\ninvalidate\r\n_\r\n", PushKind.Message },
        { ">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n", PushKind.Confirmation },
        { "*3\r\n$10\r\npsubscribe\r\n$2\r\nch\r\n:1\r\n", PushKind.Confirmation },
        { "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", PushKind.Confirmation },
        { ">3\r\n$12\r\nsunsubscribe\r\n$2\r\nch\r\n:1\r\n", PushKind.Confirmation },
        { ">2\r\n$16\r\nserver-cpu-usage\r\n:42\r\n", PushKind.Other },
        { "*2\r\n$4\r\npong\r\n$0\r\n\r\n", PushKind.Other },
        { "*2\r\n$0\r\n\r\n$0\r\n\r\n", PushKind.Other },
        { "*0\r\n", PushKind.Other },
        { "*-1\r\n", PushKind.Other },
        { ">0\r\n", PushKind.Other },
        { "*1\r\n_\r\n", PushKind.Other },
        { "*1\r\n$-1\r\n", PushKind.Other },
        { "*1\r\n*0\r\n", PushKind.Other },
        { "*1\r\n:1\r\n", PushKind.Other },
        { "*1\r\n+OK\r\n", PushKind.Other },
        { "*1\r\n%0\r\n", PushKind.Other },
        { "*12\r\n$25\r\n0123456789012345subscribe\r\n", PushKind.Other },
    };

    [Theory]
    [MemberData(nameof(Frames))]
    public void Classify_OfAnyBeginning_SaysTheSameOrWaits(string frame, PushKind expected)
    {
        using var native = new Native(Bytes.Of(frame));
        for (byte* end = native.Start + 1; end < native.End; end++)
        {
            PushKind kind = PushScanner.Classify(native.Start, end);
            if (kind != PushKind.Incomplete) { Assert.Equal(expected, kind); }
        }
        Assert.Equal(expected, PushScanner.Classify(native.Start, native.End));
    }

    [Theory]
    [InlineData("+1700000000.123456 [0 127.0.0.1:50000] \"PING\"\r\n", PushKind.Message)]
    [InlineData("+1.000000 [0 lua] \"GET\"\r\n", PushKind.Message)]
    [InlineData("+OK\r\n", PushKind.Other)]
    [InlineData("+\r\n", PushKind.Other)]
    [InlineData("+1\r\n", PushKind.Other)]
    [InlineData("+1 x\r\n", PushKind.Other)]
    [InlineData("+.123456 [\r\n", PushKind.Other)]
    [InlineData("+1.\r\n", PushKind.Other)]
    [InlineData("+1.12345 [0\r\n", PushKind.Other)]
    [InlineData("+1.1234567 [0\r\n", PushKind.Other)]
    [InlineData("+1.123456\r\n", PushKind.Other)]
    [InlineData("+1.123456 \r\n", PushKind.Other)]
    [InlineData("+1.123456  [\r\n", PushKind.Other)]
    public void ClassifyLine_OfAnyBeginning_SaysTheSameOrWaits(string frame, PushKind expected)
    {
        using var native = new Native(Bytes.Of(frame));
        for (byte* end = native.Start + 1; end < native.End; end++)
        {
            PushKind kind = PushScanner.ClassifyLine(native.Start, end);
            if (kind != PushKind.Incomplete) { Assert.Equal(expected, kind); }
        }
        Assert.Equal(expected, PushScanner.ClassifyLine(native.Start, native.End));
    }
}
