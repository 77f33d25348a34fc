// The log on stderr.
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Commands;

public sealed class LineLogTests
{
    [Fact]
    public void Write_LongerThanALineMayBe_IsCutAndSaysByHowMuch()
    {
        StringWriter output = new();
        string whole = new('a', LogText.CharsMax), longer = whole + new string('b', 127_000);
        using (LineLog log = new(output, LogLevel.Info))
        {
            log.Info(whole);
            log.Info(longer);
        }
        string[] lines = output.ToString().TrimEnd().Split(Environment.NewLine);
        Assert.Equal(2, lines.Length);
        Assert.EndsWith(" info  " + whole, lines[0], StringComparison.Ordinal);
        Assert.EndsWith(" info  " + whole + "... (127000 more characters were cut)", lines[1], StringComparison.Ordinal);
    }

    [Fact]
    public void Bounded_CutInTheMiddleOfACharacter_LeavesItOut()
    {
        string text = new string('a', LogText.CharsMax - 1) + "\U0001F600" + "bc";
        Assert.Equal(new string('a', LogText.CharsMax - 1) + "... (4 more characters were cut)", LogText.Bounded(text));
    }
}
