// The way to one server: connections of HTTP/2, made when a call needs one and again when one is lost. A call that is lost with its
// connection is not made again here: whether it was executed only its caller can find out.
using System.Net;
using System.Net.Security;
using Slogger.Grpc.Wire;

namespace Slogger.Grpc.Client;

/// <summary>A client of one server. Any thread.</summary>
public sealed class GrpcChannel : IDisposable
{
    private readonly HttpMessageInvoker _http;
    private readonly Uri _address;

    /// <summary>Makes a channel; nothing is connected yet.</summary>
    /// <param name="host">Name or address of the server; its certificate has to have it.</param>
    /// <param name="port">Its port.</param>
    /// <param name="options">Options; null: the defaults.</param>
    /// <exception cref="ArgumentException">The secret cannot go in a header.</exception>
    public GrpcChannel(string host, int port, GrpcChannelOptions? options = null)
    {
        Options = options ?? new();
        if (Options.Secret?.AsSpan().ContainsAnyExceptInRange('!', '~') == true) { throw new ArgumentException("a secret is of printable ASCII, without blanks", nameof(options)); }
        _address = new UriBuilder(Options.Tls is null ? Uri.UriSchemeHttp : Uri.UriSchemeHttps, host, port).Uri;
        _http = new(new SocketsHttpHandler
        {
            UseProxy = false,
            UseCookies = false,
            AllowAutoRedirect = false,
            AutomaticDecompression = DecompressionMethods.None,
            ActivityHeadersPropagator = null,
            // A call beyond what one connection may carry goes over another one, instead of waiting.
            EnableMultipleHttp2Connections = true,
            InitialHttp2StreamWindowSize = Options.WindowBytes,
            ConnectTimeout = Options.ConnectTimeout,
            KeepAlivePingPolicy = HttpKeepAlivePingPolicy.WithActiveRequests,
            KeepAlivePingDelay = Options.PingAfter,
            KeepAlivePingTimeout = Options.PingTimeout,
            SslOptions = Options.Tls?.ForClient(host) ?? new SslClientAuthenticationOptions(),
        });
    }

    internal GrpcChannelOptions Options { get; }

    /// <summary>Begins a call of any number of requests and replies. To be disposed.</summary>
    public ClientCall<TRequest, TReply> Open<TRequest, TReply>(Method<TRequest, TReply> method, in CallOptions options = default) where TRequest : class where TReply : class
    {
        var request = new HttpRequestMessage(HttpMethod.Post, new Uri(_address, method.Path)) { Version = HttpVersion.Version20, VersionPolicy = HttpVersionPolicy.RequestVersionExact };
        request.Headers.TryAddWithoutValidation("te", "trailers");
        request.Headers.TryAddWithoutValidation("user-agent", "grpc-slogger");
        request.Headers.TryAddWithoutValidation(Headers.AcceptEncoding, Headers.Accepted);
        if (options.IsGzip) { request.Headers.TryAddWithoutValidation(Headers.Encoding, Headers.Gzip); }
        if (options.Timeout is { } timeout) { request.Headers.TryAddWithoutValidation(Headers.Timeout, Headers.FormatTimeout(timeout)); }
        if (Options.Secret is { } secret) { request.Headers.TryAddWithoutValidation("authorization", "Bearer " + secret); }
        foreach ((string key, string value) in options.Metadata ?? []) { request.Headers.TryAddWithoutValidation(key, value); }
        return new(_http, request, method, Options.MessageBytesMax, options);
    }

    /// <summary>A call of one request and one reply, which must not refer to what it was read from.</summary>
    /// <exception cref="RpcException">It has not succeeded.</exception>
    public async Task<TReply> CallAsync<TRequest, TReply>(Method<TRequest, TReply> method, TRequest request, CallOptions options = default) where TRequest : class where TReply : class
    {
        await using ClientCall<TRequest, TReply> call = Open(method, options);
        // Whether it arrived or not: how the call ends is in the answer.
        if (await call.WriteAsync(request, flush: false).ConfigureAwait(false)) { await call.CompleteAsync().ConfigureAwait(false); }
        TReply reply = await call.ReadAsync().ConfigureAwait(false) ?? throw new RpcException(StatusCode.Internal, "the call has succeeded without a reply");
        if (await call.ReadAsync().ConfigureAwait(false) is not null) { throw new RpcException(StatusCode.Internal, "more than one reply has come"); }
        return reply;
    }

    /// <summary>Ends all connections, and the calls on them.</summary>
    public void Dispose() => _http.Dispose();
}
