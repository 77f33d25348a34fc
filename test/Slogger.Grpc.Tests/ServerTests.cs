// What a server does beside its calls: starts and stops, what it says in logs, what calls leave behind that their callers have left.
using System.Collections.Concurrent;
using System.Net;
using Google.Protobuf;
using Microsoft.Extensions.Logging;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Tests.Support;
using Slogger.Grpc.Tests.V1;

namespace Slogger.Grpc.Tests;

public sealed class ServerTests
{
    private static readonly global::Grpc.Core.Method<Message, Message> Fails = EchoServer.Named("Fails"), Reads = EchoServer.Named("Reads");

    [Fact]
    public async Task Start_AddressIsTaken_IsAnIOException()
    {
        await using EchoServer server = await EchoServer.StartAsync();
        await using var other = new GrpcServer(EchoServer.Local with { Listen = new(IPAddress.Loopback, server.Port) });
        await Assert.ThrowsAsync<IOException>(() => other.StartAsync());
    }

    [Fact]
    public async Task Dispose_NeverStarted_DoesNothing()
    {
        var server = new GrpcServer(EchoServer.Local);
        await server.DisposeAsync();
    }

    [Fact]
    public async Task Log_HasHandlersThatFailAndNothingElse()
    {
        using var log = new Log();
        await using (var server = new GrpcServer(EchoServer.Local, log))
        {
            server.AddUnary(EchoServer.Unary, (request, _) => request.FailWith == 0 ? Task.FromResult(request)
                : throw new RpcException((StatusCode)request.FailWith, ""));
            server.AddUnary(Fails, (_, _) => throw new InvalidOperationException("as it should"));
            server.Add(Reads, async call => { while (await call.ReadAsync() is not null) { } });
            await server.StartAsync();
            using (var channel = new GrpcChannel("127.0.0.1", server.EndPoint.Port))
            {
                await channel.CallAsync(EchoServer.Unary, new());
                await Assert.ThrowsAsync<RpcException>(() => channel.CallAsync(EchoServer.Unary, new() { FailWith = 5 }));
                await Assert.ThrowsAsync<RpcException>(() => channel.CallAsync(EchoServer.Named("Nowhere"), new()));
                for (int i = 0; i < 100; i++)
                {
                    await using var left = channel.Open(Reads);
                    Assert.True(await left.WriteAsync(new()));
                }
                await Assert.ThrowsAsync<RpcException>(() => channel.CallAsync(Fails, new()));
            }
            using var guard = new CancellationTokenSource(EchoServer.Guard);
            while (server.Calls > 0) { await Task.Delay(1, guard.Token); }
        }
        string line = Assert.Single(log.Lines);
        Assert.StartsWith("Error Slogger.Grpc.Server.GrpcServer the handler of /slogger.test.v1.Echo/Fails has failed", line,
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task Read_CallerHasLeft_IsCancelledAndTheTokenSaysSo()
    {
        var ends = new ConcurrentBag<string>();
        const int count = 300;
        var server = new GrpcServer(EchoServer.Local);
        await using (server)
        {
            server.Add(Reads, async call =>
            {
                try
                {
                    await call.SendHeadersAsync();
                    while (await call.ReadAsync() is not null) { }
                    ends.Add("end");
                }
                catch (Exception e)
                {
                    ends.Add($"{e.GetType().Name} {call.Cancellation.IsCancellationRequested}");
                    throw;
                }
            });
            await server.StartAsync();
            using var channel = new GrpcChannel("127.0.0.1", server.EndPoint.Port);
            for (int i = 0; i < count; i++)
            {
                await using var call = channel.Open(Reads);
                await call.HeadersAsync();
            }
            using var guard = new CancellationTokenSource(EchoServer.Guard);
            while (ends.Count < count) { await Task.Delay(1, guard.Token); }
        }
        Assert.Equal(["OperationCanceledException True"], ends.Distinct());
    }

    [Fact]
    public async Task Replies_NobodyHasRead_LeaveTheConnectionItsRoom()
    {
        // Together more than HttpClient lets a server send on one connection.
        const int calls = 500;
        var message = new Message { Payload = UnsafeByteOperations.UnsafeWrap(new byte[64 << 10]) };
        await using EchoServer server = await EchoServer.StartAsync(more: s => s.Add(Reads, async call =>
        {
            while (true) { await call.WriteAsync(message); }
        }));
        using GrpcChannel channel = server.Channel(new() { WindowBytes = 256 << 10 });
        for (int i = 0; i < calls; i++)
        {
            await using var call = channel.Open(Reads);
            Assert.NotNull(await call.ReadAsync().AsTask().WaitAsync(EchoServer.Guard));
        }
        Assert.Equal(1, (await channel.CallAsync(EchoServer.Unary, new() { Number = 1 }).WaitAsync(EchoServer.Guard)).Number);
    }

    private sealed class Log : ILoggerFactory
    {
        public ConcurrentQueue<string> Lines { get; } = new();

        public ILogger CreateLogger(string categoryName) => new Writer(this, categoryName);

        public void AddProvider(ILoggerProvider provider) { }

        public void Dispose() { }

        private sealed class Writer(Log log, string category) : ILogger
        {
            public IDisposable? BeginScope<TState>(TState state) where TState : notnull => null;

            public bool IsEnabled(LogLevel logLevel) => true;

            public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception,
                Func<TState, Exception?, string> formatter) =>
                log.Lines.Enqueue($"{logLevel} {category} {formatter(state, exception)} {exception}");
        }
    }
}
