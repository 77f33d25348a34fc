// The body of a request that is written while the reply is read: HttpClient hands over its stream, and the body ends when we say so.
using System.Net;
using System.Net.Http.Headers;
using Slogger.Grpc.Wire;

namespace Slogger.Grpc.Client;

internal sealed class CallContent : HttpContent
{
    private readonly TaskCompletionSource<Stream> _stream = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource _end = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly CancellationToken _stop;

    public CallContent(CancellationToken stop)
    {
        _stop = stop;
        Headers.ContentType = new MediaTypeHeaderValue(Wire.Headers.ContentType);
    }

    /// <summary>Where requests are written; there is one when a connection is.</summary>
    public Task<Stream> Stream => _stream.Task;

    /// <summary>No more requests.</summary>
    public void End() => _end.TrySetResult();

    /// <summary>There will be no stream, or it is over.</summary>
    public void Fail(Exception why)
    {
        _stream.TrySetException(why);
        _ = _stream.Task.Exception;   // seen: whoever writes is told, and nobody has to
        _end.TrySetResult();
    }

    protected override Task SerializeToStreamAsync(Stream stream, TransportContext? context) => SerializeToStreamAsync(stream, context, CancellationToken.None);

    protected override async Task SerializeToStreamAsync(Stream stream, TransportContext? context, CancellationToken cancellationToken)
    {
        try
        {
            // HttpClient lets a call's headers lie until something follows them; who waits for the server to speak first would wait for the next ping.
            await stream.FlushAsync(cancellationToken).ConfigureAwait(false);
            // Asked a second time when the first connection would not take the call: what was written to it is not there any more.
            if (!_stream.TrySetResult(stream)) { throw new IOException("the connection was lost before the call began"); }
            using var either = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken, _stop);
            // A body that ends with an exception resets the stream: so the server hears at once of a call that is given up.
            await _end.Task.WaitAsync(either.Token).ConfigureAwait(false);
        }
        catch (Exception e)
        {
            // The server may have answered already, and wants no body: then nobody else tells the writer.
            Fail(e);
            throw;
        }
    }

    protected override bool TryComputeLength(out long length)
    {
        length = -1;
        return false;
    }
}
