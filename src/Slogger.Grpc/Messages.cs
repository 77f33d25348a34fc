// How generated messages are written and read: into the buffers that are sent, out of those in which they arrived.
using System.Buffers;
using System.IO.Hashing;
using Google.Protobuf;
using Grpc.Core;

namespace Slogger.Grpc;

/// <summary>Marshallers of generated messages.</summary>
public static class Messages
{
    /// <summary>That of a generated message.</summary>
    public static Marshaller<T> Of<T>(MessageParser<T> parser) where T : class, IMessage<T> => new(
        static (message, context) =>
        {
            context.SetPayloadLength(message.CalculateSize());
            message.WriteTo(context.GetBufferWriter());
            context.Complete();
        },
        context => Parse(parser, context));

    /// <summary>The same with a checksum behind the message, for what must not be changed on its way.</summary>
    public static Marshaller<T> Checked<T>(MessageParser<T> parser) where T : class, IMessage<T> => new(
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
        context => ParseChecked(parser, context));

    private static T ParseChecked<T>(MessageParser<T> parser, DeserializationContext context) where T : class, IMessage<T>
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

    private static T Parse<T>(MessageParser<T> parser, DeserializationContext context) where T : class, IMessage<T>
    {
        try
        {
            return parser.ParseFrom(context.PayloadAsReadOnlySequence());
        }
        catch (InvalidProtocolBufferException e)
        {
            throw NotA<T>(e);
        }
    }

    /// <summary>What came is no such message.</summary>
    internal static global::Grpc.Core.RpcException NotA<T>(Exception e) =>
        new(new Status(StatusCode.Internal, $"what came is no {typeof(T).Name}", e));
}
