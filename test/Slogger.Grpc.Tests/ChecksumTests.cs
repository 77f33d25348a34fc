// What is changed on its way is not taken for a message.
using System.Buffers;
using System.IO.Hashing;
using Google.Protobuf;
using Slogger.Grpc.Shipping;
using Slogger.Grpc.Shipping.V1;

namespace Slogger.Grpc.Tests;

public class ChecksumTests
{
    [Fact]
    public void Frame_WithAnyByteChanged_IsRefused_AndIsReadAsItWas()
    {
        byte[] sent = Sent(new(new() { Shard = 3, Piece = new() { SentUs = 77 } }, new("some bytes of a log"u8.ToArray())));
        for (int at = 0; at < sent.Length - Checksum.Bytes; at++)
        {
            byte[] changed = [.. sent];
            changed[at] ^= 1;
            var refused = Assert.Throws<global::Grpc.Core.RpcException>(() => ShipFrame.Read(new(changed), isChecked: true));
            Assert.Equal(global::Grpc.Core.StatusCode.DataLoss, refused.StatusCode);
        }
        // In pieces, as it comes.
        using ShipFrame read = ShipFrame.Read(new(sent), isChecked: true);
        Assert.Equal((3, 77L), (read.Request.Shard, read.Request.Piece.SentUs));
        Assert.Equal("some bytes of a log"u8.ToArray(), read.Data.ToArray());
    }

    // Of a peer from before.
    [Fact]
    public void Frame_WithoutAChecksum_IsRead()
    {
        byte[] sent = new ShipRequest { Shard = 3, Data = ByteString.CopyFromUtf8("a log's") }.ToByteArray();
        using ShipFrame read = ShipFrame.Read(new(sent), isChecked: true);
        Assert.Equal("a log's"u8.ToArray(), read.Data.ToArray());
    }

    // A peer from before takes the checksum for a field that it does not know.
    [Fact]
    public void Frame_IsAMessageForWhoKnowsNoChecksum()
    {
        byte[] sent = Sent(new(new() { Shard = 3 }, new("a log's"u8.ToArray())));
        ShipRequest read = ShipRequest.Parser.ParseFrom(sent);
        Assert.Equal((3, "a log's"), (read.Shard, read.Data.ToStringUtf8()));
    }

    private static byte[] Sent(ShipFrame frame)
    {
        var to = new ArrayBufferWriter<byte>();
        XxHash3 hash = Checksum.Begin();
        ShipFrame.Write(frame, to, hash);
        Checksum.Write(hash, to);
        return to.WrittenSpan.ToArray();
    }
}
