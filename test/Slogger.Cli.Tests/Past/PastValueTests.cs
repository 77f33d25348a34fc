// Two values have one fingerprint if they are the same value, however Redis keeps and gives it; and what people are shown of a command.
using System.Text;
using Slogger.Cli.Access;
using Slogger.Cli.Past;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Past;

public sealed class PastValueTests
{
    private static ProxyReply Bulk(string text) => new('$', Encoding.Latin1.GetBytes(text), []);

    private static ProxyReply Array(params object[] items) => new('*', [], [.. items.Select(i => i as ProxyReply ?? Bulk((string)i))]);

    private static string Of(string type, ProxyReply? reply) => new PastValue(type, null, reply).Fingerprint();

    [Theory]
    [InlineData("set", "a b c", "c a b", true)]
    [InlineData("set", "a b c", "a b d", false)]
    [InlineData("set", "a b", "ab", false)]
    [InlineData("hash", "f 1 g 2", "g 2 f 1", true)]
    [InlineData("hash", "f 1 g 2", "f 2 g 1", false)]
    [InlineData("hash", "f g 1 2", "1 2 f g", true)]
    [InlineData("hash", "f g 1 2", "g f 2 1", false)]
    [InlineData("list", "a b", "b a", false)]
    [InlineData("zset", "a 1 b 2", "a 1 b 2", true)]
    [InlineData("zset", "a 1 b 2", "b 2 a 1", false)]
    public void Aggregate_IsTheSame_InWhateverOrderItsTypeHasNone(string type, string one, string other, bool isSame) =>
        Assert.Equal(isSame, Of(type, Array(one.Split(' '))) == Of(type, Array(other.Split(' '))));

    [Fact]
    public void Bytes_ThatAreNoText_AreCompared()
    {
        Assert.NotEqual(Of("string", Bulk("\xfe")), Of("string", Bulk("\xfd")));
        Assert.NotEqual(Of("set", Array("\xfe")), Of("set", Array("\xfd")));
        Assert.NotEqual(Of("string", Bulk("")), Of("none", null));
        Assert.NotEqual(Of("list", Array("a", Array("b"))), Of("list", Array("a", "b")));
    }

    [Fact]
    public void Stream_HowItIsKept_AndWhenConsumersWereSeen_DoesNotCount()
    {
        static ProxyReply Stream(string nodes = "1", string seen = "5", string entry = "x", string pending = "c", string last = "9-9") =>
            Array("length", "1", "radix-tree-keys", nodes, "radix-tree-nodes", nodes, "last-generated-id", last, "entries",
                Array(Array("1-1", Array("seen-time", entry))), "groups", Array(Array("name", "g", "pel",
                    Array(Array("1-1", pending, "7", "1")), "consumers",
                    Array(Array("name", "c", "seen-time", seen, "active-time", seen)))));
        string known = Of("stream", Stream());
        Assert.Equal(known, Of("stream", Stream(nodes: "8", seen: "6")));
        // An entry may have fields of such names.
        Assert.NotEqual(known, Of("stream", Stream(entry: "y")));
        Assert.NotEqual(known, Of("stream", Stream(pending: "d")));
        Assert.NotEqual(known, Of("stream", Stream(last: "9-8")));
    }

    [Fact]
    public void Change_IsNamed()
    {
        KeyState none = new(PastKey.None, null, "0"), one = new("string", null, "1"), two = new("string", null, "2");
        KeyState later = one with { Expires = DateTimeOffset.UnixEpoch };
        Assert.Equal(KeyChange.New, KeyState.ChangeOf(none, one));
        Assert.Equal(KeyChange.Gone, KeyState.ChangeOf(one, none));
        Assert.Equal(KeyChange.Changed, KeyState.ChangeOf(one, two));
        Assert.Equal(KeyChange.Changed, KeyState.ChangeOf(later, two));
        Assert.Equal(KeyChange.Changed, KeyState.ChangeOf(one, one with { Type = "list" }));
        Assert.Equal(KeyChange.Expiry, KeyState.ChangeOf(one, later));
    }

    [Fact]
    public void Command_ForPeople_IsOneLine_ShortAndAsRedisCliTakesIt()
    {
        Assert.Equal(@"SET k """" ""a b"" ""\""\\\n\r\t\x01"" ""'x'""",
            PastText.Of(["SET", "k", "", "a b", "\"\\\n\r\t\u0001", "'x'"]));
        Assert.Equal($"SET k {new string('x', 60)}", PastText.Of(["SET", "k", new string('x', 60)]));
        Assert.Equal($"SET k {new string('x', 50)}...(61 letters)", PastText.Of(["SET", "k", new string('x', 61)]));
    }

    [Theory]
    [InlineData("123456", "VERSION 123456")]
    [InlineData("10m", "AGO 600000")]
    [InlineData("0s", "AGO 0")]
    [InlineData("2026-11-29T14:03:07.120Z", "TIME 1795960987120")]
    [InlineData("2026-11-29T15:03:07.120+01:00", "TIME 1795960987120")]
    [InlineData("soon", null)]
    [InlineData("-1", null)]
    public void Instant_AsOneOption_IsAVersionADurationOrATime(string text, string? instant)
    {
        List<OptionError> errors = [];
        Assert.Equal(instant, PastArguments.InstantOf("from", text, errors) is { } found ? string.Join(' ', found) : null);
        Assert.Equal(instant is null ? 1 : 0, errors.Count);
    }
}
