// What a call's headers say of the call itself, and when it is over.
using Microsoft.AspNetCore.Http;
using Slogger.Grpc.Wire;

namespace Slogger.Grpc.Server;

internal sealed class CallScope(CancellationToken aborted, CancellationToken stopping) : IDisposable
{
    private readonly CancellationTokenSource _either = CancellationTokenSource.CreateLinkedTokenSource(aborted, stopping);
    private CancellationTokenSource? _late, _any;
    private volatile bool _isAborted;

    public CancellationToken Cancellation => (_any ?? _either).Token;

    /// <summary>Whether the caller's time is over.</summary>
    public bool IsLate => _late?.IsCancellationRequested == true;

    /// <summary>Whether the caller is gone.</summary>
    public bool IsAborted => _isAborted || aborted.IsCancellationRequested;

    /// <summary>Whether requests may be compressed.</summary>
    public bool IsGzip { get; private set; }

    /// <summary>Whether replies may be.</summary>
    public bool MayGzip { get; private set; }

    public Metadata Trailers { get; } = [];

    /// <exception cref="RpcException">They are not understood.</exception>
    public void Read(IHeaderDictionary headers)
    {
        string encoding = headers[Headers.Encoding].ToString();
        IsGzip = encoding == Headers.Gzip;
        MayGzip = headers[Headers.AcceptEncoding].ToString().Split(',', StringSplitOptions.TrimEntries).Contains(Headers.Gzip);
        if (!IsGzip && encoding is not ("" or Headers.Identity)) { throw new RpcException(StatusCode.Unimplemented, $"no encoding '{encoding}' here"); }
        if (headers[Headers.Timeout].ToString() is not { Length: > 0 } timeout) { return; }
        _late = new(Headers.ParseTimeout(timeout));
        _any = CancellationTokenSource.CreateLinkedTokenSource(_either.Token, _late.Token);
    }

    /// <summary>A read or write found the caller gone, maybe before Kestrel's token says so: whoever looks at ours after that is to see it.</summary>
    public OperationCanceledException Over(Exception e)
    {
        if (!Cancellation.IsCancellationRequested)
        {
            _isAborted = true;
            _either.Cancel();
        }
        return new("the call is over", e, Cancellation);
    }

    public void Dispose()
    {
        _any?.Dispose();
        _late?.Dispose();
        _either.Dispose();
    }
}
