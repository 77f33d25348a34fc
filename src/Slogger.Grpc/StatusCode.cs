// How a call ends. Numbers, names and meanings are gRPC's own, so that stock gRPC could take this library's place.
using System.Net;

namespace Slogger.Grpc;

/// <summary>The status of a call. Source: gRPC, "Status codes and their use".</summary>
public enum StatusCode
{
    /// <summary>It has done what was asked.</summary>
    OK = 0,

    /// <summary>Whoever made the call has given it up.</summary>
    Cancelled = 1,

    /// <summary>A failure that says nothing of itself.</summary>
    Unknown = 2,

    /// <summary>What was asked makes no sense in any state.</summary>
    InvalidArgument = 3,

    /// <summary>It has not ended in time; it may have been executed all the same.</summary>
    DeadlineExceeded = 4,

    /// <summary>What it names is not there.</summary>
    NotFound = 5,

    /// <summary>What it should make is there.</summary>
    AlreadyExists = 6,

    /// <summary>Known, but not allowed.</summary>
    PermissionDenied = 7,

    /// <summary>A limit: of messages' size, calls or connections. The text says which.</summary>
    ResourceExhausted = 8,

    /// <summary>The state is not one in which it can be done.</summary>
    FailedPrecondition = 9,

    /// <summary>It lost against another one; try again from a higher level.</summary>
    Aborted = 10,

    /// <summary>Beyond the end.</summary>
    OutOfRange = 11,

    /// <summary>There is no such method, or no such encoding.</summary>
    Unimplemented = 12,

    /// <summary>One of both does not keep the protocol.</summary>
    Internal = 13,

    /// <summary>The peer cannot be reached now, or was lost on the way: what was asked may have been executed.</summary>
    Unavailable = 14,

    /// <summary>Data is lost or damaged.</summary>
    DataLoss = 15,

    /// <summary>The peer has not shown who it is.</summary>
    Unauthenticated = 16,
}

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

    /// <summary>What came with the status, or is to go with it.</summary>
    public Metadata Trailers { get; init; } = [];

    /// <summary>What an HTTP status other than 200 means to a caller. Source: gRPC, "HTTP to gRPC status code mapping".</summary>
    internal static StatusCode OfHttp(HttpStatusCode status) => status switch
    {
        HttpStatusCode.BadRequest => StatusCode.Internal,
        HttpStatusCode.Unauthorized => StatusCode.Unauthenticated,
        HttpStatusCode.Forbidden => StatusCode.PermissionDenied,
        HttpStatusCode.NotFound => StatusCode.Unimplemented,
        HttpStatusCode.TooManyRequests or HttpStatusCode.BadGateway or HttpStatusCode.ServiceUnavailable or HttpStatusCode.GatewayTimeout => StatusCode.Unavailable,
        _ => StatusCode.Unknown,
    };

    /// <summary>What an error code of HTTP/2 means to a caller. Source: gRPC over HTTP2, "Errors"; but HttpClient gives the same exception for a stream that was reset
    /// and for a connection that is broken, and codes that say no more are rather of the latter.</summary>
    internal static StatusCode OfHttp2(long errorCode) => errorCode switch
    {
        0x2 => StatusCode.Internal,           // INTERNAL_ERROR
        0x8 => StatusCode.Cancelled,          // CANCEL
        0xb => StatusCode.ResourceExhausted,  // ENHANCE_YOUR_CALM
        0xc => StatusCode.PermissionDenied,   // INADEQUATE_SECURITY
        _ => StatusCode.Unavailable,          // REFUSED_STREAM among them: nothing of it was executed
    };
}
