// The payload of session marks: what is written is read, and nothing else is taken for one.
using System.Text;
using Slogger.Core.Sessions;

namespace Slogger.Redis.Tests.Replication;

public sealed class SessionMarkTests
{
    [Fact]
    public void Append_SeveralSessions_AreReadInOrder()
    {
        (UInt128 Session, long Last)[] sessions = [(0, 0), (UInt128.MaxValue, long.MaxValue), ((UInt128)7 << 64, 12)];
        Span<byte> bytes = stackalloc byte[1 + (3 * SessionMark.EntryBytesMax)];
        int length = 0;
        foreach ((UInt128 session, long last) in sessions) length = SessionMark.Append(bytes, length, session, last);

        ReadOnlySpan<byte> payload = bytes[..length];
        Assert.True(SessionMark.IsMark(payload));
        foreach (var expected in sessions)
        {
            Assert.True(SessionMark.TryReadNext(ref payload, out UInt128 session, out long last));
            Assert.Equal(expected, (session, last));
        }

        Assert.False(SessionMark.TryReadNext(ref payload, out _, out _));
        Assert.True(payload.IsEmpty);
    }

    [Theory]
    [InlineData("")]
    [InlineData("S")]
    [InlineData("1:5:6:99")]
    [InlineData("S00000000000000000000000000000001:5")]
    [InlineData("S0000000000000000000000000000000g:5,")]
    [InlineData("S00000000000000000000000000000001;5,")]
    [InlineData("S00000000000000000000000000000001:,")]
    [InlineData("S00000000000000000000000000000001:99999999999999999999,")]
    public void TryReadNext_NoMark_IsRefused(string text)
    {
        ReadOnlySpan<byte> payload = Encoding.ASCII.GetBytes(text);
        Assert.False(SessionMark.TryReadNext(ref payload, out _, out _));
    }

    [Fact]
    public void IsMark_Marker_IsNone() => Assert.False(SessionMark.IsMark("3:1200:1201:77"u8));
}
