// Splitting of inline requests. The table was checked against redis-server 7.0.15; RedisDifferentialTests does it again
// with random lines.
namespace Slogger.Resp.Tests;

public sealed class InlineRequestTests
{
    public static TheoryData<string, string[]?> Lines => new()
    {
        { "", [] },
        { "   \t ", [] },
        { "PING", ["PING"] },
        { "  SET  a\tb  ", ["SET", "a", "b"] },
        { "SET a \"x y\"", ["SET", "a", "x y"] },
        { "SET a \"\"", ["SET", "a", ""] },
        { "SET a ''", ["SET", "a", ""] },
        { "SET a \"\\x41\\n\\r\\t\\b\\a\\\\\\\"\\q\"", ["SET", "a", "A\n\r\t\b\a\\\"q"] },
        { "SET a \"\\x4\"", ["SET", "a", "x4"] },
        { "SET a \"\\xzz\"", ["SET", "a", "xzz"] },
        { "SET a '\\x41\\'b\\n'", ["SET", "a", "\\x41'b\\n"] },
        { "SET a b\"c d\"", ["SET", "a", "bc d"] },
        { "SET a \"b\"c", null },
        { "SET a 'b'c", null },
        { "SET a \"b", null },
        { "SET a 'b", null },
        { "SET a \"b\\", null },
        { "SET a \"b\\\"", null },
        { "SET a 'b\\'", null },
        { "\"SE\\x54\" \"\\x00\"", ["SET", "\0"] },
        { "a\0b c", ["a"] },
        { "a \0b c", ["a"] },
        { "a\vb\fc", ["a\vb\fc"] },
        { "a \v b", ["a", "b"] },
        { "\"a\"\vb", ["a", "b"] },
        { "\xff\xfe", ["\xff\xfe"] },
    };

    [Theory]
    [MemberData(nameof(Lines))]
    public void Split_Line_GivesRedissArguments(string line, string[]? expected)
    {
        List<byte[]>? found = InlineRequest.Split(Bytes.Of(line));
        Assert.Equal(expected, found?.Select(a => Bytes.Text(a)).ToArray());
    }
}
