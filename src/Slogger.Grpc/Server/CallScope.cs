// What a call's headers say of the call itself, and when it is over.
using Microsoft.AspNetCore.Http;
using Slogger.Grpc.Wire;

namespace Slogger.Grpc.Server;

internal sealed class CallScope(CancellationToken aborted, CancellationToken stopping) : IDisposable
{
    private readonly CancellationTokenSource _either = CancellationTokenSource.CreateLinkedTokenSource(aborted, stopping);
    private CancellationTokenSource? _late, _any;

    public CancellationToken Cancellation => (_any ?? _either).Token;

    /// <summary>Whether the caller's time is over.</summary>
    public bool IsLate => _late?.IsCancellationRequested == true;

    /// <summary>Whether requests may be compressed.</summary>
    public bool IsGzip { get; private set; }

    /// <summary>Whether replies may be.</summary>
    public bool MayGzip { get; private set; }

    public Metadata Trailers { get; set; } = [];

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

    public void Dispose()
    {
        _any?.Dispose();
        _late?.Dispose();
        _either.Dispose();
    }
}
