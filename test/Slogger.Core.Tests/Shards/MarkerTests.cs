using System.Text;
using Slogger.Core.Shards;

namespace Slogger.Core.Tests.Shards;

public class MarkerTests
{
    [Fact]
    public void Format_ThenParse_IsTheSameMarker()
    {
        Marker[] markers =
        [
            new(new(1), new(0), new(1), new(0)),
            new(new(7), new(123456789), new(123456800), new(0xFFFF_FFFF_FFFF_FFFF)),
            new(new(long.MaxValue), new(long.MaxValue - 1), new(long.MaxValue), new(ulong.MaxValue)),
        ];
        byte[] buffer = new byte[Marker.PayloadBytesMax];
        foreach (Marker m in markers)
        {
            int n = m.Format(buffer);
            Assert.True(n > 0);
            Assert.Equal($"{m.WorldLine}:{m.Closed}:{m.Next}:{m.Time.Bits}", Encoding.ASCII.GetString(buffer, 0, n));
            Assert.True(Marker.TryParse(buffer.AsSpan(0, n), out Marker parsed));
            Assert.Equal(m, parsed);
            for (int shorter = 0; shorter < n; shorter++) Assert.Equal(0, m.Format(buffer.AsSpan(0, shorter)));
            Assert.Equal(n, m.Format(buffer.AsSpan(0, n)));
        }
    }

    [Theory]
    [InlineData("")]
    [InlineData("1:2:3")]
    [InlineData("1:2:3:")]
    [InlineData(":2:3:4")]
    [InlineData("1:2:3:4:")]
    [InlineData("1:2:3:4:5")]
    [InlineData("1:2:3:4 ")]
    [InlineData("1: 2:3:4")]
    [InlineData("-1:2:3:4")]
    [InlineData("+1:2:3:4")]
    [InlineData("1:3:3:4")]
    [InlineData("1:2:99999999999999999999:4")]
    [InlineData("1:2:9223372036854775808:4")]
    public void TryParse_AnythingElse_IsRefused(string text) =>
        Assert.False(Marker.TryParse(Encoding.ASCII.GetBytes(text), out _));
}
