// A call as its caller sees it, on stock gRPC's. One reader and one writer at a time; both may be at work together. How it ends the reader
// is told, and only the reader: a write that nobody takes returns false, and why is in the answer.
using System.Diagnostics;
using System.Runtime.CompilerServices;
using Grpc.Core;

namespace Slogger.Grpc.Client;

/// <summary>A call under way. To be disposed: before its end, that gives it up.</summary>
public sealed class ClientCall<TRequest, TReply> : IAsyncDisposable where TRequest : class where TReply : class
{
    private readonly AsyncDuplexStreamingCall<TRequest, TReply> _call;
    private readonly CallOptions _options;
    private readonly long _begun = Stopwatch.GetTimestamp();
    private RpcException? _failure;
    private bool _isOver;
    private volatile bool _isGivenUp;

    internal ClientCall(AsyncDuplexStreamingCall<TRequest, TReply> call, in CallOptions options) => (_call, _options) = (call, options);

    /// <summary>What came with the status, once the reader has been told of it.</summary>
    public Metadata Trailers { get; private set; } = [];

    /// <summary>Writes a request, and sends it. Returns when there is room for more.</summary>
    /// <returns>False: the call is over, or is going to be; <see cref="ReadAsync"/> tells how.</returns>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<bool> WriteAsync(TRequest request)
    {
        try
        {
            await _call.RequestStream.WriteAsync(request).ConfigureAwait(false);
            return true;
        }
        catch (Exception e) when (RpcException.IsOfCall(e))
        {
            return false;
        }
        catch
        {
            GiveUp();
            throw;
        }
    }

    /// <summary>Says that no more comes.</summary>
    /// <returns>As for <see cref="WriteAsync"/>.</returns>
    public async ValueTask<bool> CompleteAsync()
    {
        try
        {
            await _call.RequestStream.CompleteAsync().ConfigureAwait(false);
            return true;
        }
        catch (Exception e) when (RpcException.IsOfCall(e))
        {
            return false;
        }
    }

    /// <summary>What the server has said before its first reply. Waits for that.</summary>
    /// <exception cref="RpcException">The call has ended without.</exception>
    public async Task<Metadata> HeadersAsync()
    {
        try
        {
            return await _call.ResponseHeadersAsync.ConfigureAwait(false);
        }
        catch (Exception e) when (RpcException.IsOfCall(e))
        {
            throw FailureOf(e, _options, _begun, _isGivenUp);
        }
    }

    /// <summary>The next reply; null: the call has ended with OK.</summary>
    /// <exception cref="RpcException">It has ended otherwise.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<TReply?> ReadAsync()
    {
        if (_failure is not null) { throw _failure; }
        if (_isOver) { return null; }
        try
        {
            if (await _call.ResponseStream.MoveNext(CancellationToken.None).ConfigureAwait(false)) { return _call.ResponseStream.Current; }
            Trailers = _call.GetTrailers();
            _isOver = true;
            return null;
        }
        catch (Exception e) when (RpcException.IsOfCall(e) || e is InvalidDataException || _isGivenUp)
        {
            _failure = FailureOf(e, _options, _begun, _isGivenUp);
            Trailers = _failure.Trailers;
        }
        _isOver = true;
        GiveUp();
        throw _failure;
    }

    /// <inheritdoc />
    public ValueTask DisposeAsync()
    {
        GiveUp();
        return ValueTask.CompletedTask;
    }

    /// <summary>How a call has ended.</summary>
    internal static RpcException FailureOf(Exception e, in CallOptions options, long begun, bool isGivenUp)
    {
        if (options.Cancellation.IsCancellationRequested) { return new(StatusCode.Cancelled, "the caller has given it up", e); }
        var rpc = e as global::Grpc.Core.RpcException;
        // A server may be a little faster, and reset the stream.
        if (rpc?.StatusCode is StatusCode.DeadlineExceeded or StatusCode.Cancelled && Stopwatch.GetElapsedTime(begun) >= options.Timeout)
        {
            return new(StatusCode.DeadlineExceeded, "the time that was set is over", e);
        }
        // Disposal breaks what is under way: that can look like an error of the connection.
        if (isGivenUp && (rpc?.StatusCode is null or StatusCode.Cancelled || rpc.Status.DebugException is not null))
        {
            return new(StatusCode.Cancelled, "the call was given up", e);
        }
        if (e is InvalidDataException) { return new(StatusCode.Internal, "what came is no message", e); }
        if (rpc is null) { return RpcException.OfConnection(e); }
        return rpc.Status.DebugException is { } cause && cause is not Google.Protobuf.InvalidProtocolBufferException
            and not InvalidDataException ? RpcException.OfConnection(cause) : RpcException.Of(rpc);
    }

    private void GiveUp()
    {
        _isGivenUp = true;
        _call.Dispose();
    }
}
