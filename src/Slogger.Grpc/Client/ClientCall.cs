// A call as its caller sees it. One reader and one writer at a time; both may be at work together. How it ends the reader is told,
// and only the reader: a write that nobody takes returns false, and why is in the answer.
using System.Diagnostics;
using System.IO.Pipelines;
using System.Net;
using System.Net.Http.Headers;
using System.Net.Sockets;
using Slogger.Grpc.Wire;

namespace Slogger.Grpc.Client;

/// <summary>A call under way. To be disposed: before its end, that gives it up. When it is given up otherwise (its time is over, or by its token) the server hears at
/// once; only after <see cref="CompleteAsync"/> not before somebody reads.</summary>
public sealed class ClientCall<TRequest, TReply> : IAsyncDisposable where TRequest : class where TReply : class
{
    private const int BufferBytes = 64 << 10;
    private readonly Method<TRequest, TReply> _method;
    private readonly int _messageBytesMax;
    private readonly CallOptions _options;
    private readonly long _begun = Stopwatch.GetTimestamp();
    private readonly CancellationTokenSource _late, _stop;
    private readonly CallContent _content;
    private readonly Task<HttpResponseMessage> _response;
    private MessageWriter<TRequest>? _requests;
    private PipeReader? _pipe;
    private MessageReader<TReply>? _replies;
    private RpcException? _failure;
    private bool _isOver;
    private volatile bool _isDisposed;

    internal ClientCall(HttpMessageInvoker http, HttpRequestMessage request, Method<TRequest, TReply> method, int messageBytesMax, in CallOptions options)
    {
        (_method, _messageBytesMax, _options) = (method, messageBytesMax, options);
        _late = options.Timeout is { } timeout ? new(TimeSpan.FromTicks(Math.Clamp(timeout.Ticks, 0, Headers.TimeoutMax.Ticks))) : new();
        _stop = CancellationTokenSource.CreateLinkedTokenSource(options.Cancellation, _late.Token);
        request.Content = _content = new(_stop.Token);
        _response = SendAsync(http, request);
    }

    /// <summary>What came with the status, once the reader has been told of it.</summary>
    public Metadata Trailers { get; private set; } = [];

    /// <summary>Writes a request. Returns when there is room for more.</summary>
    /// <param name="request">The request.</param>
    /// <param name="flush">Whether it is sent now; or else together with what follows.</param>
    /// <returns>False: the call is over, or is going to be; <see cref="ReadAsync"/> tells how.</returns>
    public async ValueTask<bool> WriteAsync(TRequest request, bool flush = true)
    {
        try
        {
            MessageWriter<TRequest> requests = _requests ?? await BeginAsync().ConfigureAwait(false);
            return await requests.WriteAsync(request, flush, _stop.Token).ConfigureAwait(false);
        }
        catch (Exception e) when (IsOfConnection(e))
        {
            return false;
        }
        catch
        {
            // Half a message may be on its way.
            await GiveUpAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Sends what is written; before the first request, the call's headers.</summary>
    /// <returns>As for <see cref="WriteAsync"/>.</returns>
    public async ValueTask<bool> FlushAsync()
    {
        try
        {
            return await (_requests ?? await BeginAsync().ConfigureAwait(false)).FlushAsync(_stop.Token).ConfigureAwait(false);
        }
        catch (Exception e) when (IsOfConnection(e))
        {
            return false;
        }
    }

    /// <summary>Sends what is written, and says that no more comes.</summary>
    /// <returns>As for <see cref="WriteAsync"/>.</returns>
    public async ValueTask<bool> CompleteAsync()
    {
        bool isTaken = await FlushAsync().ConfigureAwait(false);
        if (isTaken) { _content.End(); }
        return isTaken;
    }

    /// <summary>What the server has said before its first reply. Waits for that.</summary>
    /// <exception cref="RpcException">The call has ended without.</exception>
    public async Task<Metadata> HeadersAsync()
    {
        try
        {
            return Received((await _response.ConfigureAwait(false)).Headers);
        }
        catch (Exception e) when (IsOfConnection(e))
        {
            throw FailureOf(e);
        }
    }

    /// <summary>The next reply; null: the call has ended with OK. What it refers to is there until the next read.</summary>
    /// <exception cref="RpcException">It has ended otherwise.</exception>
    public async ValueTask<TReply?> ReadAsync()
    {
        if (_failure is not null) { throw _failure; }
        if (_isOver) { return null; }
        try
        {
            MessageReader<TReply>? replies = _replies ?? await FirstAsync().ConfigureAwait(false);
            if (replies is not null && await replies.ReadAsync(_stop.Token).ConfigureAwait(false) is { } reply) { return reply; }
            HttpResponseMessage response = await _response.ConfigureAwait(false);
            Finish(replies is null ? response.Headers : response.TrailingHeaders);
        }
        catch (RpcException e)
        {
            _failure = e;
        }
        catch (Exception e) when (IsOfConnection(e))
        {
            _failure = FailureOf(e);
        }
        _isOver = true;
        if (_failure is null) { return null; }
        await GiveUpAsync().ConfigureAwait(false);
        // A read that is given up resets nothing by itself.
        if (_response.IsCompletedSuccessfully) { (await _response.ConfigureAwait(false)).Dispose(); }
        throw _failure;
    }

    /// <inheritdoc />
    public async ValueTask DisposeAsync()
    {
        if (_isDisposed) { return; }
        _isDisposed = true;
        if (!_isOver) { await GiveUpAsync().ConfigureAwait(false); }
        _content.End();
        try
        {
            HttpResponseMessage response = await _response.ConfigureAwait(false);
            if (_isOver) { _replies?.Close(); _pipe?.Complete(); }
            response.Dispose();
        }
        catch (Exception e) when (IsOfConnection(e))
        {
            // The reader has been told.
        }
        _stop.Dispose();
        _late.Dispose();
    }

    private async Task GiveUpAsync()
    {
        try
        {
            await _stop.CancelAsync().ConfigureAwait(false);
        }
        catch (ObjectDisposedException)
        {
            // The call was disposed under its reader or writer.
        }
    }

    private async Task<HttpResponseMessage> SendAsync(HttpMessageInvoker http, HttpRequestMessage request)
    {
        try
        {
            return await http.SendAsync(request, _stop.Token).ConfigureAwait(false);
        }
        catch (Exception e)
        {
            _content.Fail(e);
            throw;
        }
    }

    private async Task<MessageWriter<TRequest>> BeginAsync()
    {
        Stream stream = await _content.Stream.WaitAsync(_stop.Token).ConfigureAwait(false);
        return _requests = new(PipeWriter.Create(stream, new StreamPipeWriterOptions(minimumBufferSize: 16 << 10, leaveOpen: true)), _method.Request, _options.IsGzip);
    }

    /// <returns>Null: the answer is a status and nothing else.</returns>
    private async Task<MessageReader<TReply>?> FirstAsync()
    {
        HttpResponseMessage response = await _response.ConfigureAwait(false);
        if (response.StatusCode != HttpStatusCode.OK) { throw new RpcException(RpcException.OfHttp(response.StatusCode), $"the server answers with HTTP status {(int)response.StatusCode}"); }
        if (response.Headers.NonValidated.Contains(Headers.Status)) { return null; }
        string? type = response.Content.Headers.NonValidated.TryGetValues("content-type", out HeaderStringValues types) ? types.ToString() : null;
        if (!Headers.IsGrpc(type)) { throw new RpcException(StatusCode.Unknown, $"the server answers with '{type}', not with {Headers.ContentType}"); }
        string encoding = response.Headers.NonValidated.TryGetValues(Headers.Encoding, out HeaderStringValues encodings) ? encodings.ToString() : Headers.Identity;
        if (encoding is not (Headers.Identity or Headers.Gzip)) { throw new RpcException(StatusCode.Internal, $"the server compresses with '{encoding}', which it was not offered"); }
        _pipe = PipeReader.Create(await response.Content.ReadAsStreamAsync(_stop.Token).ConfigureAwait(false), new StreamPipeReaderOptions(bufferSize: BufferBytes, leaveOpen: true));
        return _replies = new(_pipe, _method.Reply, _messageBytesMax, encoding == Headers.Gzip);
    }

    private void Finish(HttpResponseHeaders last)
    {
        Trailers = Received(last);
        if (!last.NonValidated.TryGetValues(Headers.Status, out HeaderStringValues status) || !int.TryParse(status.ToString(), out int code)) { throw new RpcException(StatusCode.Unknown, "the answer has no status"); }
        if (code == 0) { return; }
        string text = last.NonValidated.TryGetValues(Headers.Message, out HeaderStringValues message) ? Headers.DecodeMessage(message.ToString()) : "";
        throw new RpcException(code is > 0 and <= (int)StatusCode.Unauthenticated ? (StatusCode)code : StatusCode.Unknown, text) { Trailers = Trailers };
    }

    private static Metadata Received(HttpResponseHeaders headers)
    {
        var metadata = new Metadata();
        foreach ((string key, HeaderStringValues values) in headers.NonValidated) { metadata.Receive(key, values); }
        return metadata;
    }

    // Whoever has a call disposed under him may get anything of HttpClient.
    private bool IsOfConnection(Exception e) =>
        e is IOException or HttpRequestException or SocketException or OperationCanceledException or ObjectDisposedException || (_isDisposed && e is InvalidOperationException);

    private RpcException FailureOf(Exception e)
    {
        if (_options.Cancellation.IsCancellationRequested) { return new(StatusCode.Cancelled, "the caller has given it up", e); }
        // A server may be a little faster, and reset the stream.
        if (_late.IsCancellationRequested || (ErrorCode(e) == 0x8 && Stopwatch.GetElapsedTime(_begun) >= _options.Timeout)) { return new(StatusCode.DeadlineExceeded, "the time that was set is over", e); }
        if (_stop.IsCancellationRequested) { return new(StatusCode.Cancelled, "the call was given up", e); }
        Exception cause = e.GetBaseException() is OperationCanceledException ? e : e.GetBaseException();
        return new(ErrorCode(e) is { } code ? RpcException.OfHttp2(code) : StatusCode.Unavailable, cause.Message, e);
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
