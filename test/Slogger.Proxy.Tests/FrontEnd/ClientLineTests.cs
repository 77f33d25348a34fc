using System.Text;
using Slogger.FrontEnd;

namespace Slogger.Proxy.Tests.FrontEnd;

public sealed class ClientLineTests
{
    private const string Line =
        "id=7 addr=/a b/c:0 laddr=/a b/c:0 fd=8 name=x age=3 idle=1 flags=PU db=2 cmd=subscribe user=default redir=-1 resp=2";

    [Fact]
    public void Fields_OfALineWithSpacesInItsAddresses_AreReadAndChanged()
    {
        var line = new ClientLine(Line);
        Assert.Equal((7, "/a b/c:0", ClientType.PubSub), (line.Id, line.Address, line.Type));
        Assert.Equal("", line["none"]);
        line["addr"] = "127.0.0.1:5";
        line["laddr"] = "127.0.0.1:6";
        line["resp"] = "3";
        line["id"] = "70";
        Assert.Equal("id=70 addr=127.0.0.1:5 laddr=127.0.0.1:6 fd=8 name=x age=3 idle=1 flags=PU db=2 cmd=subscribe user=default "
            + "redir=-1 resp=3", line.Text);
    }

    [Theory]
    [InlineData("N", ClientType.Normal)]
    [InlineData("O", ClientType.Normal)]
    [InlineData("S", ClientType.Replica)]
    [InlineData("M", ClientType.Master)]
    [InlineData("Px", ClientType.PubSub)]
    internal void Type_FromFlags_IsAsInRedis(string flags, ClientType type) =>
        Assert.Equal(type, new ClientLine($"id=1 flags={flags} db=0").Type);

    [Theory]
    [InlineData("$", "")]
    [InlineData("=", "txt:")]
    public void Reply_ParsedAndFormatted_IsTheSame(string type, string prefix)
    {
        string body = $"{prefix}{Line}\n{Line.Replace("id=7", "id=8", StringComparison.Ordinal)}\n";
        byte[] reply = Encoding.Latin1.GetBytes($"{type}{body.Length}\r\n{body}\r\n");
        List<ClientLine> lines = ClientLine.Parse(reply);
        Assert.Equal([7L, 8L], lines.Select(l => l.Id));
        Assert.Equal(reply, ClientLine.Format(lines, reply[0]));
    }
}
