// What both sides agree on: a method's name, and how its messages are written and read. Two forms of messages: generated ones
// (IMessage), and raw ones, for the path on which bytes must not be copied more than once.
using System.Buffers;
using Google.Protobuf;

namespace Slogger.Grpc;

/// <summary>Reads a message. It may refer to <paramref name="from"/>, which stays as it is until the next one is asked for.</summary>
/// <exception cref="InvalidDataException">It is none.</exception>
public delegate T MessageParse<out T>(ReadOnlySequence<byte> from);

/// <summary>How messages of one kind are written and read.</summary>
public sealed class Marshaller<T> where T : class
{
    /// <summary>The size of a message with its tail. Unit: bytes.</summary>
    public required Func<T, int> Size { get; init; }

    /// <summary>Writes a message, up to its tail.</summary>
    public required Action<T, IBufferWriter<byte>> Write { get; init; }

    /// <summary>The end of a message that is sent from where it lies, and is not written; null: there is none.</summary>
    public Func<T, ReadOnlySequence<byte>>? Tail { get; init; }

    /// <summary>Reads one.</summary>
    public required MessageParse<T> Parse { get; init; }
}

/// <summary>Marshallers of generated messages.</summary>
public static class Marshaller
{
    /// <summary>That of a generated message.</summary>
    public static Marshaller<T> Of<T>(MessageParser<T> parser) where T : class, IMessage<T> =>
        new() { Size = static m => m.CalculateSize(), Write = static (m, to) => m.WriteTo(to), Parse = from => parser.ParseFrom(from) };
}

/// <summary>A method of a service. Whether it streams is up to those who use it: on the wire there is no difference.</summary>
/// <param name="Service">The service's full name, <c>package.Service</c>.</param>
/// <param name="Name">The method's.</param>
/// <param name="Request">How requests are written and read.</param>
/// <param name="Reply">And replies.</param>
public sealed record Method<TRequest, TReply>(string Service, string Name, Marshaller<TRequest> Request, Marshaller<TReply> Reply)
    where TRequest : class where TReply : class
{
    /// <summary>Its path on the wire.</summary>
    public string Path => $"/{Service}/{Name}";
}
