// How generated messages are written and read: by way of memory of our own, in which the checksum is made, and checked (Checksum).
using System.Buffers;
using System.IO.Hashing;
using Google.Protobuf;
using Grpc.Core;

namespace Slogger.Grpc;

/// <summary>Marshallers of generated messages.</summary>
public static class Messages
{
    /// <summary>That of a generated message, which goes with its checksum.</summary>
    public static Marshaller<T> Of<T>(MessageParser<T> parser) where T : class, IMessage<T> => new(
        static (message, context) =>
        {
            int size = message.CalculateSize();
            byte[] own = ArrayPool<byte>.Shared.Rent(size);
            message.WriteTo(own.AsSpan(0, size));
            XxHash3 hash = Checksum.Begin();
            hash.Append(own.AsSpan(0, size));
            context.SetPayloadLength(size + Checksum.Bytes);
            IBufferWriter<byte> to = context.GetBufferWriter();
            to.Write(own.AsSpan(0, size));
            Checksum.Write(hash, to);
            context.Complete();
            ArrayPool<byte>.Shared.Return(own);
        },
        context => Parse(parser, context));

    private static T Parse<T>(MessageParser<T> parser, DeserializationContext context) where T : class, IMessage<T>
    {
        byte[] own = ArrayPool<byte>.Shared.Rent(context.PayloadLength);
        try
        {
            context.PayloadAsReadOnlySequence().CopyTo(own);
            return parser.ParseFrom(new ReadOnlySequence<byte>(own, 0, Checksum.Check(own.AsSpan(0, context.PayloadLength))));
        }
        catch (InvalidProtocolBufferException e)
        {
            throw NotA<T>(e);
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(own);
        }
    }

    /// <summary>What came is no such message.</summary>
    internal static global::Grpc.Core.RpcException NotA<T>(Exception e) =>
        new(new Status(StatusCode.Internal, $"what came is no {typeof(T).Name}", e));
}
