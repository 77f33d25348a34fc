// The way to one server: stock gRPC on connections of HTTP/2, made when a call needs one and again when one is lost. A call that is lost
// with its connection is not made again here: whether it was executed only its caller can find out.
using System.Diagnostics;
using System.Net;
using System.Net.Http;
using System.Net.Security;
using System.Net.Sockets;
using Grpc.Core;
using Stock = Grpc.Net.Client;

namespace Slogger.Grpc.Client;

/// <summary>A client of one server. Any thread.</summary>
public sealed class GrpcChannel : IDisposable
{
    private static readonly TimeSpan TimeoutMax = TimeSpan.FromDays(40);
    private readonly string _host;
    private readonly int _port;
    private readonly Lock _lock = new();
    private readonly List<Stock.GrpcChannel> _channels = [];
    private GrpcTls? _tls;
    private CallInvoker _calls;
    private bool _isDisposed;

    /// <summary>Makes a channel; nothing is connected yet.</summary>
    /// <param name="host">Name or address of the server; its certificate has to have it.</param>
    /// <param name="port">Its port.</param>
    /// <param name="options">Options; null: the defaults.</param>
    /// <exception cref="ArgumentException">The secret cannot go in a header.</exception>
    public GrpcChannel(string host, int port, GrpcChannelOptions? options = null)
    {
        Options = options ?? new();
        if (Options.Secret?.AsSpan().ContainsAnyExceptInRange('!', '~') == true)
        {
            throw new ArgumentException("a secret is of printable ASCII, without blanks", nameof(options));
        }
        (_host, _port) = (host, port);
        _calls = Make(_tls = Options.Tls?.Newest);
    }

    internal GrpcChannelOptions Options { get; }

    // Other certificates are another channel of stock gRPC's. Calls that are under way go on where they are.
    private CallInvoker Calls
    {
        get
        {
            lock (_lock)
            {
                if (Options.Tls?.Newest is { } tls && !ReferenceEquals(tls, _tls) && !_isDisposed) { _calls = Make(_tls = tls); }
                return _calls;
            }
        }
    }

    private CallInvoker Make(GrpcTls? tls)
    {
        var http = new SocketsHttpHandler
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
            // With this, stock gRPC leaves connecting alone. Its own way waits a second and longer after a failure, and calls fail
            // meanwhile.
            ConnectCallback = ConnectAsync,
            KeepAlivePingPolicy = HttpKeepAlivePingPolicy.WithActiveRequests,
            KeepAlivePingDelay = Options.PingAfter,
            KeepAlivePingTimeout = Options.PingTimeout,
            SslOptions = tls?.ForClient(_host) ?? new SslClientAuthenticationOptions(),
        };
        var channel = Stock.GrpcChannel.ForAddress(
            new UriBuilder(tls is null ? Uri.UriSchemeHttp : Uri.UriSchemeHttps, _host, _port).Uri, new()
        {
            HttpHandler = http,
            DisposeHttpClient = true,
            MaxReceiveMessageSize = Options.MessageBytesMax + Checksum.Bytes,
            MaxSendMessageSize = null,
            CompressionProviders = [new LimitedGzip(Options.MessageBytesMax + Checksum.Bytes)],
        });
        _channels.Add(channel);
        return channel.CreateCallInvoker();
    }

    /// <summary>Begins a call of any number of requests and replies. To be disposed.</summary>
    public ClientCall<TRequest, TReply> Open<TRequest, TReply>(Method<TRequest, TReply> method, in CallOptions options = default)
        where TRequest : class where TReply : class =>
        new(Calls.AsyncDuplexStreamingCall(method, null, ToStock(options)), options);

    /// <summary>A call of one request and one reply.</summary>
    /// <exception cref="RpcException">It has not succeeded.</exception>
    public async Task<TReply> CallAsync<TRequest, TReply>(Method<TRequest, TReply> method, TRequest request, CallOptions options = default)
        where TRequest : class where TReply : class
    {
        long begun = Stopwatch.GetTimestamp();
        try
        {
            using AsyncUnaryCall<TReply> call = Calls.AsyncUnaryCall(method, null, ToStock(options), request);
            return await call.ResponseAsync.ConfigureAwait(false);
        }
        catch (Exception e) when (RpcException.IsOfCall(e) || e is InvalidDataException)
        {
            throw ClientCall<TRequest, TReply>.FailureOf(e, options, begun, isGivenUp: false);
        }
    }

    /// <summary>Ends all connections, and the calls on them.</summary>
    public void Dispose()
    {
        lock (_lock)
        {
            _isDisposed = true;
            foreach (Stock.GrpcChannel channel in _channels) { channel.Dispose(); }
        }
    }

    private static async ValueTask<Stream> ConnectAsync(SocketsHttpConnectionContext context, CancellationToken stop)
    {
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        try
        {
            await socket.ConnectAsync(context.DnsEndPoint, stop).ConfigureAwait(false);
            return new NetworkStream(socket, ownsSocket: true);
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    private global::Grpc.Core.CallOptions ToStock(in CallOptions options)
    {
        var headers = new Metadata();
        if (Options.Secret is { } secret) { headers.Add("authorization", "Bearer " + secret); }
        if (options.IsGzip) { headers.Add("grpc-internal-encoding-request", LimitedGzip.Name); }
        foreach (Metadata.Entry entry in options.Metadata ?? []) { headers.Add(entry); }
        DateTime? deadline = options.Timeout is { } timeout && timeout < TimeoutMax
            ? DateTime.UtcNow + (timeout > TimeSpan.Zero ? timeout : TimeSpan.Zero) : null;
        return new(headers, deadline, options.Cancellation);
    }
}
