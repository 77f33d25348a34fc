// A site, as the commands reach it: its SQL, and through that its processes.
using System.Net.Sockets;
using System.Security.Authentication;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Resp;
using Slogger.Sites.Access;
using Slogger.Sites.Failovers;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>A process of a site.</summary>
/// <param name="Address">Where it listens.</param>
/// <param name="Shards">Those that SQL says are there.</param>
/// <param name="Channel">The way to it.</param>
internal sealed record SiteProcess(string Address, IReadOnlyList<ShardId> Shards, GrpcChannel Channel)
{
    /// <summary>For who performs a failover.</summary>
    public SitePeer Peer => new(Shards, Channel);

    /// <summary>For people.</summary>
    public override string ToString() => $"the process of shard {string.Join(", ", Shards)} ({Address})";
}

/// <summary>Why a process has not answered.</summary>
internal enum Silence
{
    /// <summary>It has.</summary>
    None,

    /// <summary>Nothing listens at its address.</summary>
    NotRunning,

    /// <summary>No connection to its machine was made, or it broke.</summary>
    NotReached,

    /// <summary>Its machine takes connections, and it has not answered in time.</summary>
    Slow,

    /// <summary>It says itself that it cannot answer yet.</summary>
    Starting,

    /// <summary>It does not take our secret, or our certificate, or we do not take its.</summary>
    LocksOut,

    /// <summary>It has answered something else.</summary>
    Refuses,
}

/// <summary>What a process has answered.</summary>
/// <param name="Process">Which.</param>
/// <param name="Reply">Null: it does not answer.</param>
/// <param name="Problem">Why.</param>
/// <param name="Silence">The kind of that.</param>
/// <param name="Remedy">What a person can do about it.</param>
internal readonly record struct Answered<T>(SiteProcess Process, T? Reply, string Problem, Silence Silence = Silence.None,
    string Remedy = "")
{
    /// <summary>Whether it may answer soon: it is busy, starts, or its database does.</summary>
    public bool MayPass => Silence is Silence.NotReached or Silence.Slow or Silence.Starting;

    /// <summary>Whether there is a process, whatever it says.</summary>
    public bool IsThere => Reply is not null || Silence is Silence.Slow or Silence.Starting or Silence.LocksOut or Silence.Refuses;
}

/// <summary>A database has no such site. It may come to have it: the first process that starts makes it.</summary>
internal sealed class NoSiteException(string message) : MetadataException(message);

/// <summary>One site.</summary>
internal sealed class SiteAccess : IAsyncDisposable
{
    private static readonly TimeSpan AskLimit = TimeSpan.FromSeconds(2);
    private readonly SiteCredentials _credentials;
    private readonly Dictionary<string, GrpcChannel> _channels = [];

    private SiteAccess(IMetadataStore metadata, string cluster, SiteCredentials credentials) =>
        (Metadata, Cluster, _credentials) = (metadata, cluster, credentials);

    public IMetadataStore Metadata { get; }

    public string Cluster { get; }

    /// <exception cref="NoSiteException">There is no such database, or it has no such cluster.</exception>
    /// <exception cref="MetadataException">The database cannot be used.</exception>
    public static async Task<SiteAccess> OpenAsync(MetadataSpec spec, string cluster, SiteCredentials credentials, CancellationToken stop)
    {
        if (spec.Kind == MetadataKind.Sqlite && !File.Exists(spec.Target)) { throw new NoSiteException($"{spec.Target} does not exist."); }
        IMetadataStore metadata = MetadataStoreFactory.Create(spec.Text);
        try
        {
            await metadata.InitializeAsync(stop).ConfigureAwait(false);
            return await metadata.FindClusterAsync(cluster, stop).ConfigureAwait(false) is null
                ? throw new NoSiteException($"The metadata {spec} knows no cluster \"{cluster}\".")
                : new(metadata, cluster, credentials);
        }
        catch
        {
            await metadata.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    public Task<SiteState> StateAsync(CancellationToken stop) => Metadata.SiteAsync(Cluster, stop);

    public Task<SiteAnswer> ChangeAsync(Func<SiteState, SiteChange> change, CancellationToken stop) =>
        Metadata.ChangeSiteAsync(Cluster, change, stop);

    /// <summary>Its processes, as SQL knows them now.</summary>
    public async Task<IReadOnlyList<SiteProcess>> ProcessesAsync(CancellationToken stop)
    {
        IReadOnlyDictionary<ShardId, string> addresses = await Metadata.SiteAddressesAsync(Cluster, stop).ConfigureAwait(false);
        List<SiteProcess> processes = [];
        foreach (IGrouping<string, ShardId> one in addresses.GroupBy(a => a.Value, a => a.Key).OrderBy(g => g.Min(s => s.Number)))
        {
            if (!ListenAddress.TryParse(one.Key, out ListenAddress? address, out _) || address.IsUnix) { continue; }
            if (!_channels.TryGetValue(one.Key, out GrpcChannel? channel)) { _channels[one.Key] = channel = _credentials.Open(address); }
            processes.Add(new(one.Key, [.. one.OrderBy(s => s.Number)], channel));
        }
        return processes;
    }

    /// <summary>The same, for who manages a failover.</summary>
    public async Task<IReadOnlyList<SitePeer>> PeersAsync(CancellationToken stop) =>
        [.. (await ProcessesAsync(stop).ConfigureAwait(false)).Select(p => p.Peer)];

    /// <summary>How all of its processes are.</summary>
    public async Task<IReadOnlyList<Answered<V1.StatusReply>>> StatusesAsync(CancellationToken stop) =>
        await AskAllAsync(await ProcessesAsync(stop).ConfigureAwait(false), SiteControlMethods.Status, new V1.StatusRequest(),
            stop).ConfigureAwait(false);

    /// <summary>Asks all at once.</summary>
    public static Task<Answered<TReply>[]> AskAllAsync<TRequest, TReply>(
        IEnumerable<SiteProcess> processes, global::Grpc.Core.Method<TRequest, TReply> method, TRequest request, CancellationToken stop,
            TimeSpan? limit = null)
        where TRequest : class
        where TReply : class => Task.WhenAll(processes.Select(p => AskAsync(p, method, request, stop, limit)));

    /// <summary>Asks one.</summary>
    public static async Task<Answered<TReply>> AskAsync<TRequest, TReply>(
        SiteProcess process, global::Grpc.Core.Method<TRequest, TReply> method, TRequest request, CancellationToken stop,
            TimeSpan? limit = null)
        where TRequest : class
        where TReply : class
    {
        try
        {
            return new(process, await process.Channel.CallAsync(
                method, request, new CallOptions { Timeout = limit ?? AskLimit, Cancellation = stop }).ConfigureAwait(false), "");
        }
        catch (RpcException e)
        {
            stop.ThrowIfCancellationRequested();
            return await UnansweredAsync<TReply>(process, e, limit ?? AskLimit, stop).ConfigureAwait(false);
        }
    }

    // Each kind has its own name and its own remedy: whoever takes a busy process for a lost disk gives up what it holds.
    private static async Task<Answered<TReply>> UnansweredAsync<TReply>(SiteProcess process, RpcException e, TimeSpan limit,
        CancellationToken stop) where TReply : class
    {
        const string start = "start it, and give the command again when its log says that it is ready";
        const string reach = "make its machine reachable, or start it; then give the command again";
        Answered<TReply> Silent(Silence kind, string problem, string remedy) => new(process, null, problem, kind, remedy);
        if (e.Code == StatusCode.Unauthenticated)
        {
            return Silent(Silence.LocksOut, $"it does not let us in: {e.Detail}",
                "give --site-secret-file, and the certificates (--site-cert-file, --site-ca-file), as the process has them");
        }
        if (Causes(e).OfType<AuthenticationException>().FirstOrDefault() is { } tls)
        {
            return Silent(Silence.LocksOut, $"no TLS connection comes about: {tls.Message}",
                "give --site-ca-file and --site-cert-file as the process has them");
        }
        if (e.Code == StatusCode.DeadlineExceeded)
        {
            return await TakesConnectionsAsync(process, stop).ConfigureAwait(false)
                ? Silent(Silence.Slow, $"it has not answered within {limit.TotalSeconds:0} s, though it is there: it is busy, or "
                + "has been stopped", "look at its log; where the machine is busy give a longer --timeout")
                : Silent(Silence.NotReached,
                $"no connection is made within {limit.TotalSeconds:0} s: its machine is off, or the network to it is cut", reach);
        }
        if (e.Code == StatusCode.Unavailable)
        {
            return Causes(e).OfType<SocketException>().FirstOrDefault() is { } socket
                    ? socket.SocketErrorCode == SocketError.ConnectionRefused
                    ? Silent(Silence.NotRunning, "nothing listens there: it does not run, or has only just been started", start)
                        : Silent(Silence.NotReached, socket.Message, reach)
                : e.InnerException is null ? Silent(Silence.Starting, $"it is there, and cannot answer yet: {e.Detail}", "wait until its "
                + "log says that it is ready; if its database is down start that")
                : Silent(Silence.NotReached, Causes(e).Any(c => c is OperationCanceledException) ? "the connection to it was ended "
                + "while it was asked" : e.Detail, reach);
        }
        return Silent(Silence.Refuses, e.Message, "look at its log; are the command and the process of the same release?");
    }

    private static IEnumerable<Exception> Causes(Exception e)
    {
        for (Exception? cause = e.InnerException; cause is not null; cause = cause.InnerException) { yield return cause; }
    }

    // A process that is stopped is connected to all the same.
    private static async Task<bool> TakesConnectionsAsync(SiteProcess process, CancellationToken stop)
    {
        if (!ListenAddress.TryParse(process.Address, out ListenAddress? address, out _)) { return false; }
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(AskLimit);
        using var socket = new Socket(SocketType.Stream, ProtocolType.Tcp);
        try
        {
            await socket.ConnectAsync(address.Host!, address.Port, limit.Token).ConfigureAwait(false);
            return true;
        }
        catch (Exception e) when (e is SocketException or OperationCanceledException)
        {
            stop.ThrowIfCancellationRequested();
            return false;
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (GrpcChannel channel in _channels.Values) { channel.Dispose(); }
        await Metadata.DisposeAsync().ConfigureAwait(false);
    }
}
