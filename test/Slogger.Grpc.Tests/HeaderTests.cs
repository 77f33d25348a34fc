// Values of gRPC's own headers, as "gRPC over HTTP2" has them.
using System.Text;
using Slogger.Grpc.Wire;

namespace Slogger.Grpc.Tests;

public sealed class HeaderTests(ITestOutputHelper output)
{
    [Theory]
    [InlineData("1n", 0)]
    [InlineData("100n", 1)]
    [InlineData("0S", 0)]
    [InlineData("5u", 50)]
    [InlineData("250m", 2_500_000)]
    [InlineData("7S", 70_000_000)]
    [InlineData("2M", 1_200_000_000)]
    [InlineData("3H", 108_000_000_000)]
    public void Timeout_Read_IsWhatItSays(string text, long ticks) => Assert.Equal(new TimeSpan(ticks), Headers.ParseTimeout(text));

    [Theory]
    [InlineData("99999999H")]
    [InlineData("99999999M")]
    public void Timeout_BeyondWhatTimersCan_IsTheirLongest(string text) => Assert.Equal(Headers.TimeoutMax, Headers.ParseTimeout(text));

    [Theory]
    [InlineData("")]
    [InlineData("S")]
    [InlineData("5")]
    [InlineData("5s")]
    [InlineData("-5S")]
    [InlineData("+5S")]
    [InlineData(" 5S")]
    [InlineData("5 S")]
    [InlineData("0x5S")]
    [InlineData("123456789S")]
    public void Timeout_Malformed_IsInternal(string text) => Assert.Equal(StatusCode.Internal, Assert.Throws<RpcException>(() => Headers.ParseTimeout(text)).Code);

    [Fact]
    public void Timeout_Written_IsNeverLessAndHardlyMore()
    {
        var random = new Random(3);
        for (int i = 0; i < 10_000; i++)
        {
            var time = new TimeSpan(random.NextInt64(1L << random.Next(1, 45)));
            string text = Headers.FormatTimeout(time);
            Assert.InRange(text.Length, 2, 9);
            TimeSpan read = Headers.ParseTimeout(text);
            Assert.True(read >= time && read.Ticks - time.Ticks <= Math.Max(10, time.Ticks / 1000), $"{time} {text} {read}");
        }
        Assert.Equal("99999999M", Headers.FormatTimeout(TimeSpan.FromMinutes(99_999_999)));
        Assert.Equal("1u", Headers.FormatTimeout(TimeSpan.FromSeconds(-3)));
        Assert.Equal(9, Headers.FormatTimeout(TimeSpan.MaxValue).Length);
    }

    [Fact]
    public void Message_Encoded_IsPrintableAsciiAndComesBack()
    {
        int seed = Environment.TickCount;
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        for (int i = 0; i < 10_000; i++)
        {
            var text = new StringBuilder();
            for (int n = random.Next(20); n > 0; n--) { text.Append(new Rune(random.Next(3) switch { 0 => random.Next(0x80), 1 => '%', _ => random.Next(0xe000, 0x11000) })); }
            string encoded = Headers.EncodeMessage(text.ToString());
            Assert.All(encoded, c => Assert.InRange(c, ' ', '~'));
            Assert.Equal(text.ToString(), Headers.DecodeMessage(encoded));
        }
    }

    [Theory]
    [InlineData("100%", "100%")]
    [InlineData("%zz%4", "%zz%4")]
    [InlineData("%E4%B8", "\ufffd")]
    [InlineData("a%20b%25", "a b%")]
    public void Message_EncodedWrongly_IsStillRead(string encoded, string text) => Assert.Equal(text, Headers.DecodeMessage(encoded));

    [Theory]
    [InlineData("application/grpc", true)]
    [InlineData("application/grpc+proto", true)]
    [InlineData("Application/GRPC;charset=x", true)]
    [InlineData("application/grpc-web", false)]
    [InlineData("application/json", false)]
    [InlineData(null, false)]
    public void ContentType_IsGrpcs_OrNot(string? type, bool expected) => Assert.Equal(expected, Headers.IsGrpc(type));
}
