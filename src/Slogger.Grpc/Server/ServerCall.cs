// A call as its handler sees it, on stock gRPC's. One reader and one writer at a time; both may be at work together. The handler's end is
// the call's: with OK, or by an exception with another status. Reads and writes take the memory in which they wait from a pool; so what
// they return is to be awaited once.
using System.IO.Pipelines;
using System.Runtime.CompilerServices;
using Grpc.Core;
using Microsoft.AspNetCore.Http;

namespace Slogger.Grpc.Server;

/// <summary>A call under way.</summary>
public sealed class ServerCall<TRequest, TReply> where TRequest : class where TReply : class
{
    private static readonly WriteOptions Kept = new(WriteFlags.BufferHint);

    private readonly IAsyncStreamReader<TRequest> _requests;
    private readonly IServerStreamWriter<TReply> _replies;
    private readonly ServerCallContext _context;
    private readonly PipeReader _body;
    private readonly CancellationTokenSource _over;
    private TRequest? _read;
    private bool _hasHeaders;

    internal ServerCall(IAsyncStreamReader<TRequest> requests, IServerStreamWriter<TReply> replies, ServerCallContext context,
        CancellationTokenSource over) =>
        (_requests, _replies, _context, _body, _over, Cancellation) =
            (requests, replies, context, context.GetHttpContext().Request.BodyReader, over, over.Token);

    /// <summary>Ends when the call does: given up by the caller, out of time, or the server stops. A handler must heed it.</summary>
    public CancellationToken Cancellation { get; }

    /// <summary>What came with the request.</summary>
    public Metadata Metadata => _context.RequestHeaders;

    /// <summary>What goes before the first reply; to be filled until then.</summary>
    public Metadata Headers { get; } = [];

    /// <summary>What goes with the status.</summary>
    public Metadata Trailers => _context.ResponseTrailers;

    /// <summary>The caller's address.</summary>
    public string Peer
    {
        get
        {
            ConnectionInfo connection = _context.GetHttpContext().Connection;
            return $"{connection.RemoteIpAddress}:{connection.RemotePort}";
        }
    }

    /// <summary>The next request; null: there is none to come. What it refers to is there until the next read.</summary>
    /// <exception cref="RpcException">What came is no message, or too large.</exception>
    /// <exception cref="OperationCanceledException">The call is over.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<TRequest?> ReadAsync()
    {
        LetGo();
        try
        {
            // Stock gRPC allocates for each message that it waits for; so it is asked when something is there.
            ReadResult arrived = await _body.ReadAsync(Cancellation).ConfigureAwait(false);
            _body.AdvanceTo(arrived.Buffer.Start);
            if (!await _requests.MoveNext(Cancellation).ConfigureAwait(false)) { return null; }
            return _read = _requests.Current;
        }
        catch (InvalidDataException e)
        {
            throw new RpcException(StatusCode.Internal, "what came is no message", e);
        }
        catch (Exception e) when (Cancellation.IsCancellationRequested || e is IOException or OperationCanceledException)
        {
            throw Over(e);
        }
        catch (global::Grpc.Core.RpcException e)
        {
            throw RpcException.Of(e);
        }
    }

    /// <summary>Writes a reply. Returns when there is room for more.</summary>
    /// <param name="reply">The reply.</param>
    /// <param name="flush">Whether it is sent now; or else together with what follows.</param>
    /// <exception cref="OperationCanceledException">The call is over.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    public async ValueTask WriteAsync(TReply reply, bool flush = true)
    {
        try
        {
            if (!_hasHeaders && Headers.Count > 0) { await SendHeadersAsync().ConfigureAwait(false); }
            Cancellation.ThrowIfCancellationRequested();
            _replies.WriteOptions = flush ? null : Kept;
            Task writing = _replies.WriteAsync(reply);
            // Where the caller does not read it may take until the call is over.
            if (!writing.IsCompleted) { writing = writing.WaitAsync(Cancellation); }
            await writing.ConfigureAwait(false);
        }
        catch (Exception e) when (Cancellation.IsCancellationRequested || e is IOException or OperationCanceledException)
        {
            throw Over(e);
        }
    }

    /// <summary>Sends the headers, before the first reply.</summary>
    /// <exception cref="OperationCanceledException">The call is over.</exception>
    public async ValueTask SendHeadersAsync()
    {
        try
        {
            _hasHeaders = true;
            await _context.WriteResponseHeadersAsync(Headers).ConfigureAwait(false);
        }
        catch (Exception e) when (Cancellation.IsCancellationRequested || e is IOException or OperationCanceledException)
        {
            throw Over(e);
        }
    }

    /// <summary>After the handler's end: the last request is nobody's any more.</summary>
    internal void LetGo()
    {
        TRequest? read = _read;
        _read = null;
        (read as IDisposable)?.Dispose();
    }

    // A read or write may find the caller gone before Kestrel's token says so: whoever looks at ours after that is to see it.
    private OperationCanceledException Over(Exception e)
    {
        if (!Cancellation.IsCancellationRequested) { _over.Cancel(); }
        return new("the call is over", e, Cancellation);
    }
}
