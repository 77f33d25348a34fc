// The entry point of `slogger serve`: puts the parts together, and takes them apart in order.
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using Slogger.Core.Shards;
using Slogger.FrontEnd;
using Slogger.FrontEnd.Transports;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Embedded;
using Slogger.Proxy.Ports;
using Slogger.Proxy.Shards;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Proxy;

/// <summary>Runs a proxy for one shard.</summary>
public static class ProxyHost
{
    private const int Backlog = 1024;

    /// <summary>
    /// Serves until cancelled, then stops in order. The caller holds the <see cref="DataDirectory"/>; this calls
    /// <see cref="ProxyRecord.Publish"/> once it listens. Expected failures are returned, not thrown.
    /// </summary>
    public static Task<ProxyExit> RunAsync(ServeOptions options, ILogger log, CancellationToken stop) =>
        RunAsync(options, log, null, stop);

    /// <summary>The same, for a process that works on its shard by itself: <paramref name="listening"/> is given the way to it, and the
    /// addresses that it has, when it listens. Its store is embedded. <paramref name="other"/> may make another shard than the options ask
    /// for: tests have such. <paramref name="site"/> is what it takes for two sites. By <paramref name="live"/> come limits and
    /// certificates that change meanwhile.</summary>
    internal static async Task<ProxyExit> RunAsync(ServeOptions options, ILogger log,
        Action<ILocalPort, IReadOnlyList<ListenAddress>>? listening, CancellationToken stop,
            Func<ServeOptions, VersionedShard?>? other = null, SitePorts? site = null, LiveOptions? live = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(log);
        var sockets = new List<Socket>();
        StoreConnector Connector(RedisEndpoint endpoint) => new(
            endpoint.UnixSocketPath is { } path ? ListenAddress.Unix(path) : ListenAddress.Tcp(endpoint.Host, endpoint.Port),
            options.RedisTls is { } tls ? TlsBridge.ClientOptions(tls, options.Redis!.Host ?? "localhost") : null,
            log.Warn)
        { Login = StoreEndpoint.LoginOf(endpoint), LoginUser = endpoint.User ?? FrontEndLoop.DefaultUser, Password = endpoint.Password };
        try
        {
            var bound = new List<ListenAddress>();
            foreach (ListenAddress address in options.Listen)
            {
                (Socket? socket, ProxyExit? failed) = Bind(address);
                if (failed is not null) { return failed; }
                sockets.Add(socket!);
                bound.Add(socket!.LocalEndPoint is IPEndPoint ip ? ListenAddress.Tcp(address.Host!, ip.Port) : address);
            }
            SslServerAuthenticationOptions? tls = options.ClientTls is { } clientTls ? TlsBridge.ServerOptions(clientTls) : null;
            var tlsSockets = new List<Socket>();
            var tlsBound = new List<ListenAddress>();
            foreach (ListenAddress address in options.ClientTls?.Listen ?? [])
            {
                (Socket? socket, ProxyExit? failed) = Bind(address);
                if (failed is not null) { return failed; }
                sockets.Add(socket!);
                tlsSockets.Add(socket!);
                tlsBound.Add(socket!.LocalEndPoint is IPEndPoint ip ? ListenAddress.Tcp(address.Host!, ip.Port) : address);
            }
            options = options with { Announce = options.Announce ?? bound.Concat(tlsBound).FirstOrDefault(a => !a.IsUnix) };
            IPoller poller = options.Transport == TransportKind.Sockets
                || (options.Transport == TransportKind.Auto && !OperatingSystem.IsLinux())
                ? new SocketPoller()
                : new EpollPoller();
            IRedisStore Redis() => options.RedisServerPath is null
                ? new AttachedStore(StoreEndpoint.Of(options.Redis!, options.RedisUser, options.RedisPasswordFile, options.RedisTls))
                : new SupervisedStore(options, log);
            VersionedShard? versioned = null;
            IRedisStore? passedTo = null;
            IShardPort shard;
            if (options.Commit == CommitMode.None)
            {
                IRedisStore store = passedTo = Redis();
                await store.EnsureRunningAsync(stop).ConfigureAwait(false);
                ProbeResult probe = await RedisProbe.InspectAsync(store.Endpoint, cancellation: stop).ConfigureAwait(false);
                if (!probe.IsUsable) { return ProxyExit.Failed(probe.Message, probe.Problem.Remedy()); }
                shard = new PassThroughShard(options, log);
            }
            else
            {
                shard = versioned = other?.Invoke(options) ?? options.Commit switch
                {
                    CommitMode.Faster => new FasterShard(options, log) { AdmitsLocal = listening is not null, Intake = site?.Intake },
                    CommitMode.Bgsave => new BgsaveShard(options, log, Redis(), Connector),
                    _ => new LogShard(options, log, Redis(), Connector) { Backups = site?.Backups ?? [], Intake = site?.Intake,
                        Cohort = site?.Intake as ICohort },
                };
                if (await versioned.StartAsync(stop).ConfigureAwait(false) is { } failed) { return failed; }
            }
            await using IAsyncDisposable? control = await ServeSiteAsync().ConfigureAwait(false);
            using var loop = new FrontEndLoop(
                poller, versioned?.Connector ?? Connector(passedTo!.Endpoint), shard, LimitsOf(options));
            var ended = new TaskCompletionSource<ProxyExit>(TaskCreationOptions.RunContinuationsAsynchronously);
            var thread = new Thread(() =>
            {
                try
                {
                    loop.Run();
                    ended.TrySetResult(ProxyExit.Done);
                }
                catch (Exception e)
                {
                    log.Error($"the front end's loop ended: {e}");
                    ended.TrySetResult(ProxyExit.Failed("the front end's loop ended by an error of its own", "report the log line above"));
                }
            })
            { Name = "front end", IsBackground = true };
            loop.Post(() =>
            {
                foreach (Socket socket in sockets.Except(tlsSockets)) { loop.Listen(socket); }
                if (versioned is null) { loop.OpenStore(); }
            });
            thread.Start();
            await using var running = new RunningLoop(loop, ended.Task);
            versioned?.Attach(loop);
            await using TlsListener? tlsListener = tls is not null
                ? new TlsListener(tlsSockets, tls, options.MaxClients,
                (clear, told, peer, local) => loop.Post(() => loop.Clients.Admit(clear, told, peer, local)),
                    options.Site.Lease is null ? null : () => versioned?.MayTell != false, log.Warn)
                : null;
            using IDisposable? changes = live?.Add(TakeUp);
            ProxyRecord.Publish(options.DataDirectory, bound, tlsBound);
            log.Info($"ready: listening on {string.Join(", ", bound.Select(a => a.ToString()).Concat(tlsBound.Select(a => $"{a} (TLS)")))}"
                + $" ({poller.Name})");
            if (versioned is FasterShard faster) { listening?.Invoke(faster, bound); }
            var asked = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            await using (stop.Register(() => asked.TrySetResult()).ConfigureAwait(false))
            {
                Task failure = versioned?.Failure ?? Task.Delay(Timeout.Infinite, CancellationToken.None);
                await Task.WhenAny(asked.Task, ended.Task, failure, versioned?.MayLeave ?? failure).ConfigureAwait(false);
            }
            // In order: no more requests, the last version committed, then the connections.
            if (versioned is not null) { await versioned.StopAsync().ConfigureAwait(false); }
            else { await passedTo!.EndAsync(isKept: false).ConfigureAwait(false); }
            loop.Stop();
            ProxyExit exit = await ended.Task.ConfigureAwait(false);
            return versioned is { Failure.IsCompleted: true } ? await versioned.Failure.ConfigureAwait(false) : exit;

            // Certificates first: where one cannot be used nothing is changed.
            string? TakeUp(ServeOptions again)
            {
                try
                {
                    SslServerAuthenticationOptions? served = tlsListener is null || again.ClientTls is not { } clients ? null
                        : TlsBridge.ServerOptions(clients);
                    IStoreConnector? store = options.RedisTls is null ? null : versioned?.Connector ?? Connector(passedTo!.Endpoint);
                    if (served is not null) { tlsListener!.Renew(served, again.MaxClients); }
                    FrontEndLimits changed = LimitsOf(again);
                    loop.Post(() =>
                    {
                        loop.Limits = changed;
                        if (store is not null) { loop.Store = store; }
                    });
                    return null;
                }
                catch (UnusableCertificateException e)
                {
                    return e.Message;
                }
            }

            // The process may go on after it: what has started is not left behind.
            async Task<IAsyncDisposable?> ServeSiteAsync()
            {
                if (versioned is null || site?.Serve is not { } serve) { return null; }
                try
                {
                    return await serve(versioned.Site, versioned.Metadata, stop).ConfigureAwait(false);
                }
                catch
                {
                    await versioned.StopAsync().ConfigureAwait(false);
                    throw;
                }
            }
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            return ProxyExit.Done;
        }
        catch (SiteException e)
        {
            return e.Exit;
        }
        catch (RecoveryRefusedException e)
        {
            return ProxyExit.Failed(e.Message);
        }
        catch (UnusableCertificateException e)
        {
            return ProxyExit.Failed(e.Message, "give PEM files that belong together and can be read");
        }
        finally
        {
            foreach (Socket socket in sockets)
            {
                socket.EndListening();
                socket.Dispose();
            }
            foreach (ListenAddress address in options.Listen.AddRange(options.ClientTls?.Listen ?? []))
            {
                if (address.UnixPath is { } path && sockets.Count > 0) { File.Delete(path); }
            }
        }
    }

    private static FrontEndLimits LimitsOf(ServeOptions options) => new()
    {
        MaxClients = options.MaxClients,
        ClientOutputBytes = options.ClientOutputLimitBytes,
        TotalOutputBytes = options.OutputMemoryLimitBytes,
    };

    // However this ends, nothing of the loop is given back while its thread may still use it: that is native memory, and the process may go
    // on.
    private sealed class RunningLoop(FrontEndLoop loop, Task ended) : IAsyncDisposable
    {
        public async ValueTask DisposeAsync()
        {
            loop.Stop();
            await ended.ConfigureAwait(false);
        }
    }

    private static (Socket? Socket, ProxyExit? Failed) Bind(ListenAddress address)
    {
        Socket? socket = null;
        try
        {
            if (address.UnixPath is { } path)
            {
                socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
                if (File.Exists(path) && IsDead(path)) { File.Delete(path); }
                socket.Bind(new UnixDomainSocketEndPoint(path));
                FileModes.OpenToClients(path);
            }
            else
            {
                IPAddress ip = IPAddress.TryParse(address.Host, out IPAddress? parsed) ? parsed : Dns.GetHostAddresses(address.Host!)[0];
                socket = new Socket(ip.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
                socket.Bind(new IPEndPoint(ip, address.Port));
            }
            socket.Listen(Backlog);
            return (socket, null);
        }
        catch (SocketException e)
        {
            socket?.Dispose();
            string why = e.SocketErrorCode == SocketError.AddressAlreadyInUse ? "the address is in use" : e.Message;
            return (null, ProxyExit.Failed($"cannot listen on {address}: {why}", "stop what uses it, or give another address "
                + "with --listen"));
        }
    }

    // A socket file that nobody listens on is what a killed proxy left behind.
    private static bool IsDead(string path)
    {
        using var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        try
        {
            socket.Connect(new UnixDomainSocketEndPoint(path));
            return false;
        }
        catch (SocketException)
        {
            return true;
        }
    }
}
