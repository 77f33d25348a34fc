// One Redis with a proxy on each transport, shared by the tests of a class: the transports must not differ in anything that
// a client can see.
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Tests.Harness;

public sealed class BothTransports : IDisposable
{
    private readonly Lazy<RedisServer> _redis = new(() => new RedisServer());
    private readonly Lazy<TestProxy> _epoll, _sockets;

    public BothTransports()
    {
        _epoll = new(() => new TestProxy(Redis, TransportKind.Epoll));
        _sockets = new(() => new TestProxy(Redis, TransportKind.Sockets));
    }

    public static TheoryData<TransportKind> Transports => OperatingSystem.IsLinux() ? [TransportKind.Epoll, TransportKind.Sockets]
        : [TransportKind.Sockets];

    internal RedisServer Redis => _redis.Value;

    internal TestProxy Proxy(TransportKind transport) => transport == TransportKind.Epoll ? _epoll.Value : _sockets.Value;

    /// <summary>A client of the proxy; all data is gone.</summary>
    internal RespConnection Fresh(TransportKind transport)
    {
        using (RespConnection direct = Redis.Connect()) { Assert.Equal("+OK\r\n", direct.Call("FLUSHALL")); }
        return Proxy(transport).Connect();
    }

    public void Dispose()
    {
        if (_epoll.IsValueCreated) { _epoll.Value.Dispose(); }
        if (_sockets.IsValueCreated) { _sockets.Value.Dispose(); }
        if (_redis.IsValueCreated) { _redis.Value.Dispose(); }
    }
}
