// A call as its handler sees it. One reader and one writer at a time; both may be at work together. The handler's end is the
// call's: with OK, or by an exception with another status.
using Microsoft.AspNetCore.Http;
using Slogger.Grpc.Wire;

namespace Slogger.Grpc.Server;

/// <summary>A call under way.</summary>
public sealed class ServerCall<TRequest, TReply> where TRequest : class where TReply : class
{
    private readonly HttpContext _http;
    private readonly MessageReader<TRequest> _requests;
    private readonly Method<TRequest, TReply> _method;
    private readonly CallScope _scope;
    private MessageWriter<TReply>? _replies;

    internal ServerCall(HttpContext http, Method<TRequest, TReply> method, int messageBytesMax, CallScope scope)
    {
        (_http, _method, _scope) = (http, method, scope);
        _requests = new(http.Request.BodyReader, method.Request, messageBytesMax, scope.IsGzip);
        foreach ((string key, Microsoft.Extensions.Primitives.StringValues values) in http.Request.Headers) { Metadata.Receive(key, values); }
    }

    /// <summary>Ends when the call does: given up by the caller, out of time, or the server stops. A handler must heed it.</summary>
    public CancellationToken Cancellation => _scope.Cancellation;

    /// <summary>What came with the request.</summary>
    public Metadata Metadata { get; } = [];

    /// <summary>What goes before the first reply; to be filled until then.</summary>
    public Metadata Headers { get; } = [];

    /// <summary>What goes with the status.</summary>
    public Metadata Trailers => _scope.Trailers;

    /// <summary>Has replies compressed, if the caller takes that; to be said before the first one.</summary>
    public bool IsGzip { get; set; }

    /// <summary>The caller's address.</summary>
    public string Peer => $"{_http.Connection.RemoteIpAddress}:{_http.Connection.RemotePort}";

    /// <summary>The next request; null: there is none to come. What it refers to is there until the next read.</summary>
    /// <exception cref="RpcException">What came is no message, or too large.</exception>
    /// <exception cref="OperationCanceledException">The call is over.</exception>
    public async ValueTask<TRequest?> ReadAsync()
    {
        try
        {
            return await _requests.ReadAsync(Cancellation).ConfigureAwait(false);
        }
        catch (Exception e) when (e is IOException or OperationCanceledException)
        {
            throw _scope.Over(e);
        }
    }

    /// <summary>Writes a reply. Returns when there is room for more.</summary>
    /// <param name="reply">The reply.</param>
    /// <param name="flush">Whether it is sent now; or else together with what follows.</param>
    /// <exception cref="OperationCanceledException">The call is over.</exception>
    public ValueTask WriteAsync(TReply reply, bool flush = true) => TakenAsync(Replies().WriteAsync(reply, flush, Cancellation));

    /// <summary>Sends what is written; before the first reply, the headers.</summary>
    /// <exception cref="OperationCanceledException">The call is over.</exception>
    public ValueTask FlushAsync() => TakenAsync(Replies().FlushAsync(Cancellation));

    /// <summary>After the handler's end.</summary>
    internal void Close()
    {
        if (!_http.Response.HasStarted) { Replies(); }
        _requests.Close();
    }

    private async ValueTask TakenAsync(ValueTask<bool> writing)
    {
        try
        {
            if (!await writing.ConfigureAwait(false)) { throw new IOException("the caller is gone"); }
        }
        catch (Exception e) when (e is IOException or OperationCanceledException)
        {
            throw _scope.Over(e);
        }
    }

    private MessageWriter<TReply> Replies()
    {
        if (_replies is not null) { return _replies; }
        IHeaderDictionary headers = _http.Response.Headers;
        foreach ((string key, string value) in Headers) { headers.Append(key, value); }
        bool isGzip = IsGzip && _scope.MayGzip;
        if (isGzip) { headers[Wire.Headers.Encoding] = Wire.Headers.Gzip; }
        return _replies = new(_http.Response.BodyWriter, _method.Reply, isGzip);
    }
}
