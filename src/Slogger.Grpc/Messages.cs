// How generated messages are written and read: into the buffers that are sent, out of those in which they arrived.
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
