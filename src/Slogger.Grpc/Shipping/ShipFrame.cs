// A ShipRequest whose data is not copied: sent from where it lies, and read where it has arrived. On the wire it is what the generated message would be, byte for byte;
// so the head is the generated message, and only the last field is written and found by hand.
using System.Buffers;
using Google.Protobuf;
using Slogger.Grpc.Shipping.V1;

namespace Slogger.Grpc.Shipping;

/// <summary>A request with its data beside it.</summary>
/// <param name="Request">All of it but its data.</param>
/// <param name="Data">Its data. Of a frame that was read: there until the next read.</param>
public sealed record ShipFrame(ShipRequest Request, ReadOnlySequence<byte> Data)
{
    private const int DataTag = (ShipRequest.DataFieldNumber << 3) | 2;

    /// <summary>How frames are written and read.</summary>
    public static Marshaller<ShipFrame> Marshaller { get; } = new() { Size = SizeOf, Write = WriteHead, Tail = static f => f.Data, Parse = Read };

    private static int SizeOf(ShipFrame frame)
    {
        int head = frame.Request.CalculateSize(), data = checked((int)frame.Data.Length);
        return data == 0 ? head : checked(head + 1 + CodedOutputStream.ComputeLengthSize(data) + data);
    }

    private static void WriteHead(ShipFrame frame, IBufferWriter<byte> to)
    {
        if (!frame.Request.Data.IsEmpty) { throw new ArgumentException("the data belongs beside the request", nameof(frame)); }
        frame.Request.WriteTo(to);
        if (frame.Data.IsEmpty) { return; }
        Span<byte> header = to.GetSpan(6);
        header[0] = DataTag;
        int length = 1;
        for (uint rest = (uint)frame.Data.Length; ; rest >>= 7)
        {
            header[length++] = (byte)(rest > 0x7f ? rest | 0x80 : rest);
            if (rest <= 0x7f) { break; }
        }
        to.Advance(length);
    }

    private static ShipFrame Read(ReadOnlySequence<byte> from)
    {
        if (FindData(from) is { } at) { return new(ShipRequest.Parser.ParseFrom(from.Slice(0, at.Head)), from.Slice(at.Data)); }
        // None, or something behind it that a later version has added, or no message at all.
        ShipRequest request = ShipRequest.Parser.ParseFrom(from);
        var data = new ReadOnlySequence<byte>(request.Data.Memory);
        request.Data = ByteString.Empty;
        return new(request, data);
    }

    /// <returns>Where the head ends and the data begins, if the data is what the message ends with.</returns>
    private static (long Head, long Data)? FindData(ReadOnlySequence<byte> from)
    {
        var reader = new SequenceReader<byte>(from);
        while (!reader.End)
        {
            long head = reader.Consumed;
            if (!TryReadVarint(ref reader, out ulong tag)) { return null; }
            ulong length;
            switch (tag & 7)
            {
                case 0 when TryReadVarint(ref reader, out _): length = 0; break;
                case 1: length = 8; break;
                case 2 when TryReadVarint(ref reader, out length): break;
                case 5: length = 4; break;
                default: return null;
            }
            if (length > (ulong)reader.Remaining) { return null; }
            if (tag == DataTag) { return length == (ulong)reader.Remaining ? (head, reader.Consumed) : null; }
            reader.Advance((long)length);
        }
        return null;
    }

    private static bool TryReadVarint(ref SequenceReader<byte> reader, out ulong value)
    {
        value = 0;
        for (int shift = 0; shift < 64; shift += 7)
        {
            if (!reader.TryRead(out byte b)) { return false; }
            value |= (ulong)(b & 0x7f) << shift;
            if (b < 0x80) { return true; }
        }
        return false;
    }
}
