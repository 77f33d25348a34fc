// Walking through all keys while they change, and patterns.
using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;
using Slogger.Faster.Commands;

namespace Slogger.Faster.Tests.Commands;

public sealed class ScanTests : IDisposable
{
    private readonly TestEngine _test = new();

    public void Dispose() => _test.Dispose();

    [Theory]
    [InlineData(1)]
    [InlineData(7)]
    [InlineData(1000)]
    public void Scan_WhileOthersComeAndGo_ReturnsWhatIsThereAllTheTimeExactlyOnce(int count)
    {
        TestClient client = _test.Client;
        var random = new Random(count);
        for (int i = 0; i < 500; i++) client.Send("SET", $"stays:{i}", "1");
        for (int i = 0; i < 500; i++) client.Send("SET", $"goes:{i}", "1");
        var found = new List<string>();
        string cursor = "0";
        int n = 0;
        do
        {
            string[] reply = client.Send("SCAN", cursor, "COUNT", count.ToString(CultureInfo.InvariantCulture)).Split('|');
            cursor = reply[2];
            found.AddRange(reply[4..].Where(k => k.Length > 0 && k[0] != '$'));
            for (int i = 0; i < 20 && n < 4000; i++)
            {
                // More and more: the directory grows several times under the scan.
                client.Send("SET", $"comes:{n++}", "1");
                client.Send("DEL", $"goes:{random.Next(500)}");
                client.Send("SET", $"stays:{random.Next(500)}", new string('v', random.Next(50)));
            }
        }
        while (cursor != "0");
        string[] stays = [.. found.Where(k => k.StartsWith("stays", StringComparison.Ordinal))];
        Assert.Equal(500, stays.Distinct().Count());
        Assert.Equal(500, stays.Length);
    }

    [Fact]
    public void Scan_OfNothingOrFew_EndsAtOnce()
    {
        Assert.Equal("*2|$1|0|*0|", _test.Client.Send("SCAN 0"));
        _test.Client.Send("MSET a 1 b 2 c 3");
        string[] reply = _test.Client.Send("SCAN 0").Split('|');
        Assert.Equal(("0", "*3"), (reply[2], reply[3]));
        Assert.Equal("*2|$1|0|*0|", _test.Client.Send("SCAN 18446744073709551615"));
    }

    [Fact]
    public void RandomKey_OfSeveral_IsEachOfThemInTime()
    {
        Assert.Equal("$-1|", _test.Client.Send("RANDOMKEY"));
        for (int i = 0; i < 10; i++) _test.Client.Send("SET", $"{i}", "1");
        var found = new HashSet<string>();
        for (int i = 0; i < 100_000 && found.Count < 10; i++) found.Add(_test.Client.Send("RANDOMKEY"));
        Assert.Equal(10, found.Count);
    }

    [Theory]
    [InlineData("h?llo", "hello", true)]
    [InlineData("h*llo", "hllo", true)]
    [InlineData("h[ae]llo", "hillo", false)]
    [InlineData("h[^e]llo", "hallo", true)]
    [InlineData("h[a-b]llo", "hbllo", true)]
    [InlineData("h[b-a]llo", "hallo", true)]
    [InlineData("h\\*", "h*", true)]
    [InlineData("h\\*", "hx", false)]
    [InlineData("*", "", false)]
    [InlineData("", "", true)]
    [InlineData("a*", "a", true)]
    [InlineData("a**", "a", true)]
    [InlineData("[a", "a", true)]
    [InlineData("[", "a", false)]
    [InlineData("[^", "a", true)]
    [InlineData("\\", "\\", true)]
    [InlineData("*a*b", "xaxbxb", true)]
    [InlineData("*a*b", "xaxbxc", false)]
    public void Pattern_OfRedis_MatchesAsThere(string pattern, string text, bool expected) =>
        Assert.Equal(expected, Glob.IsMatch(Encoding.Latin1.GetBytes(pattern), Encoding.Latin1.GetBytes(text)));

    [Fact]
    public void Pattern_WithManyStars_EndsSoon()
    {
        byte[] pattern = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat("*a", 2000)) + "b"), text =
            Encoding.ASCII.GetBytes(new string('a', 20_000));
        // Tried in turn for each star this would not end before the sun does.
        Assert.False(Glob.IsMatch(pattern, text));
        Assert.True(Glob.IsMatch(pattern[..^1], text));
    }

    [Fact]
    public void Pattern_OfStarsAndQuestions_MatchesAsARegularExpressionDoes()
    {
        var random = new Random(5);
        for (int i = 0; i < 20_000; i++)
        {
            string pattern = string.Concat(Enumerable.Range(0, random.Next(1, 8)).Select(_ => "ab*?"[random.Next(4)]));
            string text = string.Concat(Enumerable.Range(0, random.Next(1, 10)).Select(_ => "ab"[random.Next(2)]));
            bool expected = Regex.IsMatch(
                text, $"^{pattern.Replace("*", ".*", StringComparison.Ordinal).Replace("?", ".", StringComparison.Ordinal)}$");
            Assert.True(expected == Glob.IsMatch(Encoding.ASCII.GetBytes(pattern), Encoding.ASCII.GetBytes(text)), $"{pattern} {text}");
        }
    }
}
