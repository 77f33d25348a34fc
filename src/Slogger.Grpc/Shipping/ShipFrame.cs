// A ShipRequest whose data is copied once on either side: from the log into the buffer that is sent, and from the buffer in which it has
// arrived into one that lasts until the frame is let go. On the wire it is what the generated message would be, byte for byte, and its
// checksum; so the head is the generated message, and only the last field is written and found by hand.
using System.Buffers;
using System.IO.Hashing;
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
            context.SetPayloadLength(SizeOf(frame) + Checksum.Bytes);
            XxHash3 hash = Checksum.Begin();
            IBufferWriter<byte> to = context.GetBufferWriter();
            Write(frame, to, hash);
            Checksum.Write(hash, to);
            context.Complete();
        },
        static context => Read(context.PayloadAsReadOnlySequence(), isChecked: true));

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

    /// <param name="frame">What is written.</param>
    /// <param name="to">Where to.</param>
    /// <param name="hash">Is given all that is written, out of memory that is the caller's.</param>
    internal static void Write(ShipFrame frame, IBufferWriter<byte> to, XxHash3 hash)
    {
        if (!frame.Request.Data.IsEmpty) { throw new ArgumentException("the data belongs beside the request", nameof(frame)); }
        int length = frame.Request.CalculateSize();
        byte[] own = ArrayPool<byte>.Shared.Rent(length + 6);
        frame.Request.WriteTo(own.AsSpan(0, length));
        if (!frame.Data.IsEmpty)
        {
            own[length++] = DataTag;
            for (uint rest = (uint)frame.Data.Length; ; rest >>= 7)
            {
                own[length++] = (byte)(rest > 0x7f ? rest | 0x80 : rest);
                if (rest <= 0x7f) { break; }
            }
        }
        Both(own.AsSpan(0, length));
        foreach (ReadOnlyMemory<byte> piece in frame.Data) { Both(piece.Span); }
        ArrayPool<byte>.Shared.Return(own);

        void Both(ReadOnlySpan<byte> bytes)
        {
            hash.Append(bytes);
            to.Write(bytes);
        }
    }

    internal static ShipFrame Read(ReadOnlySequence<byte> from, bool isChecked = false)
    {
        int length = (int)from.Length;
        byte[] rented = ArrayPool<byte>.Shared.Rent(length);
        bool isKept = false;
        try
        {
            from.CopyTo(rented);
            if (isChecked) { length = Checksum.Check(rented.AsSpan(0, length)); }
            var whole = new ReadOnlySequence<byte>(rented, 0, length);
            if (FindData(whole) is { } at)
            {
                ShipRequest head = ShipRequest.Parser.ParseFrom(whole.Slice(0, at.Head));
                isKept = true;
                return new(head, whole.Slice(at.Data)) { _rented = rented };
            }
            // None, or something behind it that a later version has added, or no message at all.
            ShipRequest request = ShipRequest.Parser.ParseFrom(whole);
            var data = new ReadOnlySequence<byte>(request.Data.Memory);
            request.Data = ByteString.Empty;
            return new(request, data);
        }
        catch (InvalidProtocolBufferException e)
        {
            throw Messages.NotA<ShipFrame>(e);
        }
        finally
        {
            if (!isKept) { ArrayPool<byte>.Shared.Return(rented); }
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
