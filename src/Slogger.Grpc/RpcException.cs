// How a call ends that does not end with OK, in words for people. Stock gRPC's own exception wraps its texts in a form for programs.
using System.Net.Http;
using System.Net.Sockets;
using Grpc.Core;

namespace Slogger.Grpc;

/// <summary>A call that has ended otherwise than with <see cref="StatusCode.OK"/>. A handler throws it to end its call so.</summary>
/// <param name="code">The status.</param>
/// <param name="detail">What happened, for people.</param>
/// <param name="inner">What lies behind it on this side.</param>
public sealed class RpcException(StatusCode code, string detail, Exception? inner = null) : Exception($"{code}: {detail}", inner)
{
    /// <summary>The status.</summary>
    public StatusCode Code => code;

    /// <summary>What happened, for people.</summary>
    public string Detail => detail;

    /// <summary>What goes with the status, or came with it.</summary>
    public Metadata Trailers { get; init; } = [];

    /// <summary>As stock gRPC has it.</summary>
    internal global::Grpc.Core.RpcException ToStock() => new(new Status(code, detail), Trailers);

    /// <summary>What was said by the other side, or by this side's own checks of what came.</summary>
    internal static RpcException Of(global::Grpc.Core.RpcException e) =>
        new(e.StatusCode, e.Status.Detail, e.Status.DebugException) { Trailers = e.Trailers };

    /// <summary>Whether an exception is of a call or its connection, and not of a caller's mistake.</summary>
    internal static bool IsOfCall(Exception e) =>
        e is global::Grpc.Core.RpcException or IOException or HttpRequestException or SocketException or OperationCanceledException
            or ObjectDisposedException;

    /// <summary>What an error of the connection means to a caller. HttpClient gives the same exception for a stream that was reset and for
    /// a connection that is broken: codes of HTTP/2 that say no more are taken for the latter. Source: gRPC over HTTP2, "Errors".</summary>
    internal static RpcException OfConnection(Exception e)
    {
        Exception cause = e.GetBaseException() is OperationCanceledException ? e : e.GetBaseException();
        StatusCode meant = ErrorCode(e) switch
        {
            0x2 => StatusCode.Internal,           // INTERNAL_ERROR
            0x8 => StatusCode.Cancelled,          // CANCEL
            0xb => StatusCode.ResourceExhausted,  // ENHANCE_YOUR_CALM
            0xc => StatusCode.PermissionDenied,   // INADEQUATE_SECURITY
            _ => StatusCode.Unavailable,          // REFUSED_STREAM among them: nothing of it was executed
        };
        return new(meant, cause.Message, e);
    }

    private static long? ErrorCode(Exception? e)
    {
        for (; e is not null; e = e.InnerException)
        {
            if (e is HttpProtocolException protocol) { return protocol.ErrorCode; }
        }
        return null;
    }
}
