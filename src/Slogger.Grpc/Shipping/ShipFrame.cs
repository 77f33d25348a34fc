// A ShipRequest whose data is copied once on either side: from the log into the buffer that is sent, and from the buffer in which it has
// arrived into one that lasts until the frame is let go. On the wire it is what the generated message would be, byte for byte; so the head
// is the generated message, and only the last field is written and found by hand.
using System.Buffers;
using Google.Protobuf;
using Grpc.Core;
using Slogger.Grpc.Shipping.V1;

namespace Slogger.Grpc.Shipping;

/// <summary>A request with its data beside it.</summary>
/// <param name="Request">All of it but its data.</param>
/// <param name="Data">Its data. Of a frame that was read: there until the next read.</param>
public sealed record ShipFrame(ShipRequest Request, ReadOnlySequence<byte> Data) : IDisposable
{
    private const int DataTag = (ShipRequest.DataFieldNumber << 3) | 2;
    private byte[]? _rented;

    /// <summary>How frames are written and read.</summary>
    public static Marshaller<ShipFrame> Marshaller { get; } = new(
        static (frame, context) =>
        {
            context.SetPayloadLength(SizeOf(frame));
            Write(frame, context.GetBufferWriter());
            context.Complete();
        },
        static context => Read(context.PayloadAsReadOnlySequence()));

    /// <summary>Lets go of the data of a frame that was read.</summary>
    public void Dispose()
    {
        if (Interlocked.Exchange(ref _rented, null) is { } rented) { ArrayPool<byte>.Shared.Return(rented); }
    }

    internal static int SizeOf(ShipFrame frame)
    {
        int head = frame.Request.CalculateSize(), data = checked((int)frame.Data.Length);
        return data == 0 ? head : checked(head + 1 + CodedOutputStream.ComputeLengthSize(data) + data);
    }

    internal static void Write(ShipFrame frame, IBufferWriter<byte> to)
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
        foreach (ReadOnlyMemory<byte> piece in frame.Data) { to.Write(piece.Span); }
    }

    internal static ShipFrame Read(ReadOnlySequence<byte> from)
    {
        try
        {
            if (FindData(from) is { } at)
            {
                ShipRequest head = ShipRequest.Parser.ParseFrom(from.Slice(0, at.Head));
                ReadOnlySequence<byte> found = from.Slice(at.Data);
                int length = (int)found.Length;
                byte[] rented = ArrayPool<byte>.Shared.Rent(length);
                found.CopyTo(rented);
                return new(head, new(rented, 0, length)) { _rented = rented };
            }
            // None, or something behind it that a later version has added, or no message at all.
            ShipRequest request = ShipRequest.Parser.ParseFrom(from);
            var data = new ReadOnlySequence<byte>(request.Data.Memory);
            request.Data = ByteString.Empty;
            return new(request, data);
        }
        catch (InvalidProtocolBufferException e)
        {
            throw Messages.NotA<ShipFrame>(e);
        }
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
