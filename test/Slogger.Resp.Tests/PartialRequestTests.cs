// A request that comes in pieces: what is said of it must be what the whole scan says, and what has been seen is not seen again.
using System.Text;

namespace Slogger.Resp.Tests;

public sealed unsafe class PartialRequestTests
{
    [Theory]
    [MemberData(nameof(CommandScannerTests.Payloads), MemberType = typeof(CommandScannerTests))]
    public void IsIncomplete_PieceByPiece_AgreesWithTheWholeScan(string payload)
    {
        byte[] bytes = Bytes.Of(payload);
        foreach (int step in (int[])[1, 2, 7])
        {
            PartialRequest partial = default;
            for (int there = 0; there <= bytes.Length; there += step)
            {
                // Elsewhere in memory each time, as in a buffer that grows.
                fixed (byte* p = bytes.AsSpan(0, there).ToArray())
                {
                    if (!partial.IsIncomplete(p, p + there)) { break; }
                    Assert.Equal(0, CommandScanner.ReadArguments(p, p + there, []));
                }
            }
        }
    }

    [Fact]
    public void IsIncomplete_WhatWasSeen_IsNotLookedAtAgain()
    {
        byte[] bytes = Encoding.ASCII.GetBytes("*1000\r\n" + string.Concat(Enumerable.Repeat("$1\r\na\r\n", 1000)));
        PartialRequest partial = default;
        fixed (byte* p = bytes)
        {
            int header = 7, argument = 7;
            for (int i = 1; i < 1000; i++)
            {
                int there = header + (i * argument) + (i % argument);
                Assert.True(partial.IsIncomplete(p, p + there));
                Assert.Equal(i, partial.Arguments);
                // A second look here would take it for malformed.
                bytes.AsSpan(0, header + (i * argument)).Fill((byte)'!');
            }

            Assert.False(partial.IsIncomplete(p, p + bytes.Length));
            Assert.Equal(1000, partial.Arguments);
        }
    }

    [Theory]
    [InlineData("*3\r\n$9223372036854775807\r\n")]
    [InlineData("*9223372036854775807\r\n")]
    [InlineData("*2\r\n$3\r\nGET\r\n$-5\r\n")]
    [InlineData("PING")]
    public void IsIncomplete_NoRequestThatCanBecomeWhole_IsLeftToTheScan(string payload)
    {
        PartialRequest partial = default;
        fixed (byte* p = Bytes.Of(payload)) { Assert.False(partial.IsIncomplete(p, p + payload.Length)); }
    }
}
