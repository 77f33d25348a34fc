using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Keys;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Keys;

public sealed class KeyVersionTests
{
    [Theory]
    [InlineData("1.0")]
    [InlineData("7.4711")]
    [InlineData("7.4711.3")]
    [InlineData("0")]
    [InlineData("9223372036854775807.9223372036854775807.2147483647")]
    public void Text_OfAVersion_IsReadBack(string text)
    {
        Assert.True(KeyVersion.TryParse(Encoding.ASCII.GetBytes(text), out KeyVersion version));
        Assert.Equal(text, version.ToString());
        Assert.Equal(version, KeyVersion.Parse(text));
        Assert.True(text.Length <= KeyVersion.TextBytesMax);
    }

    [Theory]
    [InlineData("")]
    [InlineData("1")]
    [InlineData("00")]
    [InlineData("0.0")]
    [InlineData("0.5")]
    [InlineData("1.")]
    [InlineData(".1")]
    [InlineData("1.-1")]
    [InlineData("-1.1")]
    [InlineData("1.+1")]
    [InlineData("1.1.")]
    [InlineData("1.1.0")]
    [InlineData("1.1.2.3")]
    [InlineData("1.1 ")]
    [InlineData("1.1x")]
    [InlineData("1.9223372036854775808")]
    [InlineData("1.1.2147483648")]
    public void Text_OfNoVersion_IsRefused(string text)
    {
        Assert.False(KeyVersion.TryParse(Encoding.ASCII.GetBytes(text), out _));
        Assert.Throws<FormatException>(() => KeyVersion.Parse(text));
    }

    private static readonly KeyLines Lines = new(new(2), new(1), [(new(2), 1000), (new(4), 500)]);

    // World-line 2 branched at 1000, and 4 at 500: what 1 and 2 had above 500 is void.
    [Theory]
    [InlineData(1, 500, true)]
    [InlineData(1, 501, false)]
    [InlineData(2, 500, true)]
    [InlineData(2, 900, false)]
    [InlineData(4, 900, true)]
    [InlineData(4, 2000, true)]
    [InlineData(4, 2001, false)]
    [InlineData(3, 400, false)]
    [InlineData(5, 400, false)]
    public void Holds_VersionOfALine_UpToTheBranchesBehindIt(long line, long offset, bool holds) =>
        Assert.Equal(holds, Lines.Holds(new(new(line), offset, new(2)), 2000));

    [Fact]
    public void Holds_VersionOfAnotherShard_IsUnknown() => Assert.False(Lines.Holds(new(new(4), 100, new(1)), 2000));

    [Fact]
    public void Holds_LineOlderThanTheOldest_IsUnknown() =>
        Assert.False(new KeyLines(new(0), new(3), []).Holds(new(new(2), 1), 10));

    [Theory]
    [InlineData(400, 1)]
    [InlineData(500, 1)]
    [InlineData(501, 4)]
    [InlineData(1200, 4)]
    public void At_APlace_IsOfTheLineThatHasIt(long offset, long line)
    {
        KeyVersion version = Lines.At(offset);
        Assert.Equal(new(new(line), offset, new(2)), version);
        Assert.True(Lines.Holds(version, 2000));
    }
}
