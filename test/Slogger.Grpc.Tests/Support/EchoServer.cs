// A server of the echo service on a free port, and what its tests need to see of it.
using System.Net;
using Grpc.Core;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Tests.V1;

namespace Slogger.Grpc.Tests.Support;

public sealed class EchoServer : IAsyncDisposable
{
    public static readonly Method<Message, Message> Unary = Named("Unary");
    public static readonly Method<Message, Message> Chat = Named("Chat");

    /// <summary>A guard: nothing is decided by it but that a test which hangs ends.</summary>
    public static readonly TimeSpan Guard = TimeSpan.FromSeconds(60);

    private readonly TaskCompletionSource _firstEnded = new(TaskCreationOptions.RunContinuationsAsynchronously);

    private EchoServer(GrpcServerOptions options, Action<GrpcServer>? more)
    {
        Server = new(options);
        Server.AddUnary(Unary, AnswerAsync);
        Server.Add(Chat, ChatAsync);
        more?.Invoke(Server);
    }

    public GrpcServer Server { get; }

    /// <summary>Chats and waits have begun, and were seen to end by their token.</summary>
    public int Begun, Cancelled;

    /// <summary>The first call that was given up has ended at the server.</summary>
    public Task FirstCancelled => _firstEnded.Task.WaitAsync(Guard);

    public int Port => Server.EndPoint.Port;

    public static GrpcServerOptions Local => new() { Listen = new(IPAddress.Loopback, 0) };

    /// <summary>A method of the service, or of another.</summary>
    public static Method<Message, Message> Named(string name, string service = "slogger.test.v1.Echo") =>
        new(MethodType.DuplexStreaming, service, name, Messages.Of(Message.Parser), Messages.Of(Message.Parser));

    public static async Task<EchoServer> StartAsync(GrpcServerOptions? options = null, Action<GrpcServer>? more = null)
    {
        var server = new EchoServer(options ?? Local, more);
        await server.Server.StartAsync();
        return server;
    }

    public GrpcChannel Channel(GrpcChannelOptions? options = null) => new("127.0.0.1", Port, options);

    public async ValueTask DisposeAsync() => await Server.DisposeAsync();

    private async Task<Message> AnswerAsync(Message request, ServerCall<Message, Message> call)
    {
        Greet(call);
        if (request.Wait) { await UntilOverAsync(call.Cancellation); }
        return request.FailWith == 0 ? request
            : throw new Grpc.RpcException((StatusCode)request.FailWith, request.Text) { Trailers = new() { { "failed", "yes" } } };
    }

    private async Task ChatAsync(ServerCall<Message, Message> call)
    {
        Greet(call);
        Interlocked.Increment(ref Begun);
        try
        {
            await call.SendHeadersAsync();
            while (await call.ReadAsync() is { } request)
            {
                if (request.FailWith != 0) { throw new Grpc.RpcException((StatusCode)request.FailWith, request.Text); }
                for (int i = 0; i < request.Replies; i++)
                {
                    await call.WriteAsync(new() { Number = i, Payload = request.Payload }, flush: i == request.Replies - 1);
                }
                if (request.Wait) { await UntilOverAsync(call.Cancellation); }
                if (request.Replies == 0) { await call.WriteAsync(request); }
            }
        }
        catch (Exception) when (call.Cancellation.IsCancellationRequested)
        {
            Interlocked.Increment(ref Cancelled);
            _firstEnded.TrySetResult();
            throw;
        }
    }

    // What is asked for by metadata: they come back.
    private static void Greet(ServerCall<Message, Message> call)
    {
        if (call.Metadata.Get("want-gzip") is not null) { call.Headers.Add("grpc-internal-encoding-request", "gzip"); }
        foreach (Metadata.Entry entry in call.Metadata)
        {
            if (entry.Key.StartsWith("head-", StringComparison.Ordinal)) { call.Headers.Add(entry); }
            if (entry.Key.StartsWith("tail-", StringComparison.Ordinal)) { call.Trailers.Add(entry); }
        }
    }

    private static async Task UntilOverAsync(CancellationToken over) => await Task.Delay(Timeout.Infinite, over);
}
