// gRPC on Kestrel's HTTP/2: takes calls, says what becomes of them. Kestrel is taken out of its builder and run without the host around
// it: one endpoint, and every request comes to Answer. The status always goes in real trailers, behind headers of their own, also when there is no reply.
//
// Who has not shown who he is learns nothing but that: neither which methods there are nor that a limit is reached.
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.Server.Kestrel.Https;
using Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Grpc.Wire;

namespace Slogger.Grpc.Server;

/// <summary>A server of methods on an endpoint of its own.</summary>
public sealed partial class GrpcServer : IAsyncDisposable
{
    private const string RefusalKey = "slogger.refusal", OverLimitKey = "slogger.over-limit", Bearer = "Bearer ";
    private readonly GrpcServerOptions _options;
    private readonly ILogger _logger;
    private readonly WebApplication _builtIn;
    private readonly IServer _kestrel;
    private readonly Dictionary<string, Func<HttpContext, CallScope, Task>> _methods = new(StringComparer.Ordinal);
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
        builder.WebHost.UseKestrelCore().UseSockets(sockets => sockets.CreateBoundListenSocket = Bind).ConfigureKestrel(kestrel =>
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
    /// <param name="method">Its name and messages.</param>
    /// <param name="handler">Reads requests and writes replies, as many as it likes.</param>
    public GrpcServer Add<TRequest, TReply>(Method<TRequest, TReply> method, Func<ServerCall<TRequest, TReply>, Task> handler) where TRequest : class where TReply : class
    {
        _methods.Add(method.Path, async (http, scope) =>
        {
            var call = new ServerCall<TRequest, TReply>(http, method, _options.MessageBytesMax, scope);
            try
            {
                await handler(call).ConfigureAwait(false);
            }
            finally
            {
                call.Close();
            }
        });
        return this;
    }

    /// <summary>Adds a method of one request and one reply. Before the start.</summary>
    public GrpcServer AddUnary<TRequest, TReply>(Method<TRequest, TReply> method, Func<TRequest, ServerCall<TRequest, TReply>, Task<TReply>> handler) where TRequest : class where TReply : class =>
        Add(method, async call =>
        {
            TRequest request = await call.ReadAsync().ConfigureAwait(false) ?? throw new RpcException(StatusCode.Internal, "no request has come");
            TReply reply = await handler(request, call).ConfigureAwait(false);
            // The request may lie in the read's buffers, so not before.
            if (await call.ReadAsync().ConfigureAwait(false) is not null) { throw new RpcException(StatusCode.Internal, "more than one request has come"); }
            await call.WriteAsync(reply, flush: false).ConfigureAwait(false);
        });

    /// <summary>Listens.</summary>
    /// <exception cref="IOException">The address is taken.</exception>
    public Task StartAsync(CancellationToken stop = default) => _kestrel.StartAsync(new Application(this), stop);

    /// <summary>Takes no more calls, ends those under way with UNAVAILABLE, and waits for them.</summary>
    /// <param name="limit">Then connections are cut off.</param>
    public async Task StopAsync(CancellationToken limit)
    {
        await _stopping.CancelAsync().ConfigureAwait(false);
        EndListening();
        await _kestrel.StopAsync(limit).ConfigureAwait(false);
    }

    private Socket Bind(EndPoint address) => _socket = SocketTransportOptions.CreateDefaultBoundListenSocket(address);

    // Where a program is being started at that moment, its process has a copy of every socket until it begins: a listener that is only closed would go on listening there, and keep the address from whoever
    // takes it next.
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
        // Kestrel gives room back when half of it is used up: with twice a stream's window, one stream that nobody reads would hold up all others of its connection.
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
            OnConnection = context => ValueTask.FromResult(tls.ForServer(refusal => context.Connection.Items[RefusalKey] = refusal)),
        });
    }

    private async Task AnswerAsync(HttpContext http)
    {
        using var scope = new CallScope(http.RequestAborted, _stopping.Token);
        StatusCode code = StatusCode.OK;
        string detail = "";
        int calls = Interlocked.Increment(ref _calls);
        try
        {
            Admit(http, calls);
            if (!HttpMethods.IsPost(http.Request.Method) || !Headers.IsGrpc(http.Request.ContentType))
            {
                http.Response.StatusCode = HttpMethods.IsPost(http.Request.Method) ? StatusCodes.Status415UnsupportedMediaType : StatusCodes.Status405MethodNotAllowed;
                return;
            }
            scope.Read(http.Request.Headers);
            if (!_methods.TryGetValue(http.Request.Path.Value ?? "", out Func<HttpContext, CallScope, Task>? method)) { throw new RpcException(StatusCode.Unimplemented, "there is no such method here"); }
            Begin(http.Response);
            await method(http, scope).ConfigureAwait(false);
        }
        catch (Exception e)
        {
            (code, detail) = StatusOf(e, http, scope);
        }
        finally
        {
            Interlocked.Decrement(ref _calls);
        }
        if (!scope.IsAborted) { End(http.Response, code, detail, scope.Trailers); }
    }

    private void Admit(HttpContext http, int calls)
    {
        IDictionary<object, object?>? connection = http.Features.Get<IConnectionItemsFeature>()?.Items;
        if (connection?.TryGetValue(RefusalKey, out object? refusal) == true && refusal is string why) { throw new RpcException(StatusCode.Unauthenticated, why); }
        // No callback is made where the client shows nothing at all.
        if (_options.Tls is { IsPeerChecked: true } && connection?.ContainsKey(RefusalKey) != true) { throw new RpcException(StatusCode.Unauthenticated, "a certificate is needed"); }
        if (_secretHash is not null && !IsKnown(http.Request.Headers.Authorization.ToString())) { throw new RpcException(StatusCode.Unauthenticated, "the secret is missing or wrong"); }
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

    private (StatusCode Code, string Detail) StatusOf(Exception e, HttpContext http, CallScope scope)
    {
        if (e is RpcException rpc)
        {
            foreach ((string key, string value) in rpc.Trailers) { scope.Trailers.Add(key, value); }
            return (rpc.Code, rpc.Detail);
        }
        if (scope.IsLate) { return (StatusCode.DeadlineExceeded, "the time that the caller has set is over"); }
        if (scope.IsAborted) { return (StatusCode.Cancelled, "the caller is gone"); }
        if (e is OperationCanceledException) { return _stopping.IsCancellationRequested ? (StatusCode.Unavailable, "the server stops") : (StatusCode.Cancelled, "the handler has given the call up"); }
        LogFailure(http.Request.Path, e);
        return (StatusCode.Unknown, "the handler has failed");
    }

    private static void Begin(HttpResponse response)
    {
        response.ContentType = Headers.ContentType;
        response.Headers[Headers.AcceptEncoding] = Headers.Accepted;
    }

    private static void End(HttpResponse response, StatusCode code, string detail, Metadata trailers)
    {
        if (!response.HasStarted) { Begin(response); }
        response.AppendTrailer(Headers.Status, ((int)code).ToString(System.Globalization.CultureInfo.InvariantCulture));
        if (detail.Length > 0) { response.AppendTrailer(Headers.Message, Headers.EncodeMessage(detail)); }
        foreach (IGrouping<string, string> values in trailers.GroupBy(t => t.Key, t => t.Value)) { response.AppendTrailer(values.Key, values.ToArray()); }
    }

    [LoggerMessage(Level = LogLevel.Error, Message = "the handler of {Path} has failed")]
    private partial void LogFailure(string path, Exception e);

    private sealed class Application(GrpcServer server) : IHttpApplication<HttpContext>
    {
        public HttpContext CreateContext(IFeatureCollection features) => new DefaultHttpContext(features);

        public Task ProcessRequestAsync(HttpContext context) => server.AnswerAsync(context);

        public void DisposeContext(HttpContext context, Exception? exception) { }
    }
}
