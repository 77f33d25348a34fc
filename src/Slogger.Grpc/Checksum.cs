// The checksum of a message, behind it. It goes from the sender's own memory to the receiver's own.
//
// Why: what lies in the buffers of the transport may be changed there. It has been, once, by a reply to another call. The checksums of TCP
// and TLS see nothing of that. What a log takes for history, or an election for a vote, must not be changed by anybody.
//
// On the wire it is a field of the message that no generated message knows: number 2047, fixed64, XxHash3 of all bytes before it. A peer
// from before leaves it out, and overlooks it.
using System.Buffers;
using System.Buffers.Binary;
using System.IO.Hashing;
using Grpc.Core;

namespace Slogger.Grpc;

/// <summary>Writes and checks it.</summary>
internal static class Checksum
{
    /// <summary>How many bytes it takes.</summary>
    public const int Bytes = 2 + sizeof(ulong);

    // Field 2047, wire type 1, as a varint.
    private const byte Tag0 = 0xF9, Tag1 = 0x7F;

    [ThreadStatic]
    private static XxHash3? s_hash;

    /// <summary>One to add a message's parts to. Of the thread: until the next call.</summary>
    public static XxHash3 Begin()
    {
        XxHash3 hash = s_hash ??= new();
        hash.Reset();
        return hash;
    }

    /// <summary>Writes it behind a message.</summary>
    public static void Write(XxHash3 hash, IBufferWriter<byte> to)
    {
        Span<byte> field = stackalloc byte[Bytes];
        (field[0], field[1]) = (Tag0, Tag1);
        BinaryPrimitives.WriteUInt64LittleEndian(field[2..], hash.GetCurrentHashAsUInt64());
        to.Write(field);
    }

    /// <summary>How long a message is without its checksum, which is right; or it has none, as those of peers from before.</summary>
    /// <param name="whole">In memory that only the caller has.</param>
    /// <exception cref="global::Grpc.Core.RpcException">It is wrong.</exception>
    public static int Check(ReadOnlySpan<byte> whole)
    {
        int length = whole.Length - Bytes;
        if (length < 0 || whole[length] != Tag0 || whole[length + 1] != Tag1) { return whole.Length; }
        if (BinaryPrimitives.ReadUInt64LittleEndian(whole[(length + 2)..]) == XxHash3.HashToUInt64(whole[..length])) { return length; }
        throw new global::Grpc.Core.RpcException(new Status(StatusCode.DataLoss,
            "what came is not what was sent: its checksum is another one"));
    }
}
