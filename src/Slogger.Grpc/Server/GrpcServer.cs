// Stock gRPC on Kestrel's HTTP/2, for whoever is let in. Kestrel is taken out of its builder and run without the host around it, and
// methods are found without routing: a backup that takes over begins to listen while clients wait.
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Grpc.Core;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Routing;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.Server.Kestrel.Https;
using Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace Slogger.Grpc.Server;

/// <summary>A server of methods on an endpoint of its own.</summary>
public sealed partial class GrpcServer : IAsyncDisposable
{
    private const string RefusalKey = "slogger.refusal", OverLimitKey = "slogger.over-limit", Bearer = "Bearer ";
    private readonly GrpcServerOptions _options;
    private readonly ILogger _logger;
    private readonly WebApplication _builtIn;
    private readonly IServer _kestrel;
    private readonly ServerServiceDefinition.Builder _services = ServerServiceDefinition.CreateBuilder();
    private readonly Dictionary<string, RequestDelegate> _methods = new(StringComparer.Ordinal);
    private readonly CancellationTokenSource _stopping = new();
    private readonly byte[]? _secretHash;
    private ListenOptions? _listen;
    private Socket? _socket;
    private int _calls, _connections;

    /// <summary>Makes a server that does not listen yet.</summary>
    /// <param name="options">Its options.</param>
    /// <param name="loggers">Is told of handlers that fail; null: nobody is.</param>
    public GrpcServer(GrpcServerOptions options, ILoggerFactory? loggers = null)
    {
        _options = options;
        _logger = (loggers ?? NullLoggerFactory.Instance).CreateLogger<GrpcServer>();
        _secretHash = options.Secret is { } secret ? SHA256.HashData(Encoding.UTF8.GetBytes(secret)) : null;
        WebApplicationBuilder builder = WebApplication.CreateEmptyBuilder(new());
        // It has a line for each call that ends before all of its requests were read.
        builder.Services.AddSingleton<ILoggerFactory>(NullLoggerFactory.Instance);
        builder.Services.AddGrpc(grpc =>
        {
            grpc.MaxReceiveMessageSize = options.MessageBytesMax + Checksum.Bytes;
            grpc.MaxSendMessageSize = null;
            grpc.CompressionProviders = [new LimitedGzip(options.MessageBytesMax + Checksum.Bytes)];
        });
        builder.WebHost.UseKestrelCore().UseSockets(sockets =>
        {
            sockets.CreateBoundListenSocket = Bind;
            // What arrives is parsed by the thread that reads it: another one woken for that costs more than the parsing.
            sockets.UnsafePreferInlineScheduling = true;
        }).ConfigureKestrel(kestrel =>
        {
            kestrel.AddServerHeader = false;
            SetLimits(kestrel.Limits);
            kestrel.Listen(options.Listen, Configure);
        });
        _builtIn = builder.Build();
        _kestrel = _builtIn.Services.GetRequiredService<IServer>();
    }

    /// <summary>Where it listens, once it does.</summary>
    public IPEndPoint EndPoint => _listen?.IPEndPoint ?? _options.Listen;

    /// <summary>Calls under way.</summary>
    public int Calls => Volatile.Read(ref _calls);

    /// <summary>Adds a method. Before the start.</summary>
    /// <param name="method">Its name and messages. Whether it streams is up to those who use it: on the wire there is no
    /// difference.</param>
    /// <param name="handler">Reads requests and writes replies, as many as it likes.</param>
    public GrpcServer Add<TRequest, TReply>(Method<TRequest, TReply> method, Func<ServerCall<TRequest, TReply>, Task> handler)
        where TRequest : class where TReply : class
    {
        _services.AddMethod(method, async (requests, replies, context) =>
        {
            using var over = CancellationTokenSource.CreateLinkedTokenSource(context.CancellationToken, _stopping.Token);
            var call = new ServerCall<TRequest, TReply>(requests, replies, context, over);
            try
            {
                await handler(call).ConfigureAwait(false);
            }
            catch (Exception e)
            {
                throw StatusOf(e, context, call.Cancellation).ToStock();
            }
            finally
            {
                call.LetGo();
            }
        });
        return this;
    }

    /// <summary>Adds a method of one request and one reply. Before the start.</summary>
    public GrpcServer AddUnary<TRequest, TReply>(Method<TRequest, TReply> method,
        Func<TRequest, ServerCall<TRequest, TReply>, Task<TReply>> handler) where TRequest : class where TReply : class =>
        Add(method, async call =>
        {
            TRequest request = await call.ReadAsync().ConfigureAwait(false)
                ?? throw new RpcException(StatusCode.Internal, "no request has come");
            TReply reply = await handler(request, call).ConfigureAwait(false);
            // The request may lie in the read's buffers, so not before.
            if (await call.ReadAsync().ConfigureAwait(false) is not null)
            {
                throw new RpcException(StatusCode.Internal, "more than one request has come");
            }
            await call.WriteAsync(reply, flush: false).ConfigureAwait(false);
        });

    /// <summary>Listens.</summary>
    /// <exception cref="IOException">The address is taken.</exception>
    public Task StartAsync(CancellationToken stop = default)
    {
        _builtIn.MapGrpcService(_services.Build());
        // By their paths, of which there are a few: ASP.NET's routing would be built at each start, and asked for each call.
        foreach (RouteEndpoint endpoint in ((IEndpointRouteBuilder)_builtIn).DataSources.SelectMany(s => s.Endpoints)
            .OfType<RouteEndpoint>())
        {
            _methods[endpoint.RoutePattern.RawText!] = endpoint.RequestDelegate!;
        }
        return _kestrel.StartAsync(new Application(this), stop);
    }

    /// <summary>Takes no more calls, ends those under way with UNAVAILABLE, and waits for them.</summary>
    /// <param name="limit">Then connections are cut off.</param>
    public async Task StopAsync(CancellationToken limit)
    {
        await _stopping.CancelAsync().ConfigureAwait(false);
        EndListening();
        await _kestrel.StopAsync(limit).ConfigureAwait(false);
    }

    private Socket Bind(EndPoint address) => _socket = SocketTransportOptions.CreateDefaultBoundListenSocket(address);

    // Where a program is being started at that moment, its process has a copy of every socket until it begins: a listener that is only
    // closed would go on listening there, and keep the address from whoever takes it next.
    private void EndListening()
    {
        try
        {
            _socket?.Shutdown(SocketShutdown.Both);
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // It has ended.
        }
    }

    /// <summary>Stops, if that has not been done; calls have 2 s.</summary>
    public async ValueTask DisposeAsync()
    {
        using (var limit = new CancellationTokenSource(TimeSpan.FromSeconds(2))) { await StopAsync(limit.Token).ConfigureAwait(false); }
        await _builtIn.DisposeAsync().ConfigureAwait(false);
        _stopping.Dispose();
    }

    private void SetLimits(KestrelServerLimits limits)
    {
        // A stream may be quiet, or slow, for as long as it likes.
        limits.MinRequestBodyDataRate = null;
        limits.MinResponseDataRate = null;
        limits.MaxRequestBodySize = null;
        limits.MaxConcurrentConnections = 2L * _options.ConnectionsMax;
        // One call too many is to get a status, not to wait.
        limits.Http2.MaxStreamsPerConnection = _options.CallsMax + 16;
        limits.Http2.InitialStreamWindowSize = _options.WindowBytes;
        // Kestrel gives room back when half of it is used up: with twice a stream's window, one stream that nobody reads would hold up all
        // others of its connection.
        limits.Http2.InitialConnectionWindowSize = (int)Math.Min(4L * _options.WindowBytes, int.MaxValue);
        limits.Http2.KeepAlivePingDelay = _options.PingAfter;
        limits.Http2.KeepAlivePingTimeout = _options.PingTimeout;
    }

    private void Configure(ListenOptions listen)
    {
        _listen = listen;
        listen.Protocols = HttpProtocols.Http2;
        listen.Use(next => async connection =>
        {
            try
            {
                if (Interlocked.Increment(ref _connections) > _options.ConnectionsMax) { connection.Items[OverLimitKey] = true; }
                await next(connection).ConfigureAwait(false);
            }
            finally
            {
                Interlocked.Decrement(ref _connections);
            }
        });
        if (_options.Tls is not { } tls) { return; }
        listen.UseHttps(new TlsHandshakeCallbackOptions
        {
            OnConnection = context => ValueTask.FromResult(tls.Newest.ForServer(refusal => context.Connection.Items[RefusalKey] = refusal)),
        });
    }

    // Who is let in is stock gRPC's. Who has not shown who he is learns nothing but that: neither which methods there are nor that a limit
    // is reached.
    private async Task AnswerAsync(HttpContext http)
    {
        int calls = Interlocked.Increment(ref _calls);
        try
        {
            Admit(http, calls);
            if (!HttpMethods.IsPost(http.Request.Method))
            {
                http.Response.StatusCode = StatusCodes.Status405MethodNotAllowed;
                return;
            }
            if (!_methods.TryGetValue(http.Request.Path.Value ?? "", out RequestDelegate? method))
            {
                throw new RpcException(StatusCode.Unimplemented, "there is no such method here");
            }
            await method(http).ConfigureAwait(false);
        }
        catch (RpcException e)
        {
            End(http.Response, e);
        }
        finally
        {
            Interlocked.Decrement(ref _calls);
        }
    }

    private void Admit(HttpContext http, int calls)
    {
        IDictionary<object, object?>? connection = http.Features.Get<IConnectionItemsFeature>()?.Items;
        if (connection?.TryGetValue(RefusalKey, out object? refusal) == true && refusal is string why)
        {
            throw new RpcException(StatusCode.Unauthenticated, why);
        }
        // No callback is made where the client shows nothing at all.
        if (_options.Tls?.Newest is { IsPeerChecked: true } && connection?.ContainsKey(RefusalKey) != true)
        {
            throw new RpcException(StatusCode.Unauthenticated, "a certificate is needed");
        }
        if (_secretHash is not null && !IsKnown(http.Request.Headers.Authorization.ToString()))
        {
            throw new RpcException(StatusCode.Unauthenticated, "the secret is missing or wrong");
        }
        // Handlers are given the headers.
        http.Request.Headers.Authorization = default;
        if (connection?.ContainsKey(OverLimitKey) == true)
        {
            // Else its caller would keep it, when there is room for another one.
            http.Features.Get<IConnectionLifetimeNotificationFeature>()?.RequestClose();
            throw new RpcException(StatusCode.ResourceExhausted, $"more than {_options.ConnectionsMax} connections");
        }
        if (calls > _options.CallsMax) { throw new RpcException(StatusCode.ResourceExhausted, $"more than {_options.CallsMax} calls"); }
        if (_stopping.IsCancellationRequested) { throw new RpcException(StatusCode.Unavailable, "the server stops"); }
    }

    // Of hashes, so that the time tells nothing of the length either.
    private bool IsKnown(string authorization) => authorization.StartsWith(Bearer, StringComparison.Ordinal)
        && CryptographicOperations.FixedTimeEquals(SHA256.HashData(Encoding.UTF8.GetBytes(authorization[Bearer.Length..])), _secretHash);

    private RpcException StatusOf(Exception e, ServerCallContext context, CancellationToken over)
    {
        if (e is RpcException rpc) { return rpc; }
        if (_stopping.IsCancellationRequested && e is OperationCanceledException)
        {
            return new(StatusCode.Unavailable, "the server stops");
        }
        // Nobody hears it.
        if (over.IsCancellationRequested) { return new(StatusCode.Cancelled, "the caller is gone"); }
        if (e is OperationCanceledException) { return new(StatusCode.Cancelled, "the handler has given the call up"); }
        LogFailure(context.Method, e);
        return new(StatusCode.Unknown, "the handler has failed");
    }

    private static void End(HttpResponse response, RpcException status)
    {
        response.ContentType = "application/grpc";
        response.AppendTrailer("grpc-status", ((int)status.Code).ToString(System.Globalization.CultureInfo.InvariantCulture));
        // Our own words: printable, without '%'.
        response.AppendTrailer("grpc-message", status.Detail);
    }

    [LoggerMessage(Level = LogLevel.Error, Message = "the handler of {Path} has failed")]
    private partial void LogFailure(string path, Exception e);

    private sealed class Application(GrpcServer server) : IHttpApplication<HttpContext>
    {
        public HttpContext CreateContext(IFeatureCollection features) =>
            new DefaultHttpContext(features) { RequestServices = server._builtIn.Services };

        public Task ProcessRequestAsync(HttpContext context) => server.AnswerAsync(context);

        public void DisposeContext(HttpContext context, Exception? exception) { }
    }
}
