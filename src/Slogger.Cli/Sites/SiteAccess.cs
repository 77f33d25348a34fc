// A site, as the commands reach it: its SQL, and through that its processes.
using System.Net.Sockets;
using Slogger.Core.Shards;
using Slogger.Core.Sites;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Cli.Sites;

/// <summary>A process of a site.</summary>
/// <param name="Address">Where it listens.</param>
/// <param name="Shards">Those that SQL says are there.</param>
/// <param name="Channel">The way to it.</param>
internal sealed record SiteProcess(string Address, IReadOnlyList<ShardId> Shards, GrpcChannel Channel)
{
    /// <summary>For people.</summary>
    public override string ToString() => $"the process of shard {string.Join(", ", Shards)} ({Address})";
}

/// <summary>What a process has answered.</summary>
/// <param name="Process">Which.</param>
/// <param name="Reply">Null: it does not answer.</param>
/// <param name="Problem">Why.</param>
/// <param name="MayPass">Whether it is there, and may answer soon: it is busy, or its database starts.</param>
internal readonly record struct Answered<T>(SiteProcess Process, T? Reply, string Problem, bool MayPass = false);

/// <summary>One site.</summary>
internal sealed class SiteAccess : IAsyncDisposable
{
    private static readonly TimeSpan AskLimit = TimeSpan.FromSeconds(2);
    private readonly SiteCredentials _credentials;
    private readonly Dictionary<string, GrpcChannel> _channels = [];

    private SiteAccess(IMetadataStore metadata, string cluster, SiteCredentials credentials) => (Metadata, Cluster, _credentials) = (metadata, cluster, credentials);

    public IMetadataStore Metadata { get; }

    public string Cluster { get; }

    /// <exception cref="MetadataException">The database cannot be used, or has no such cluster.</exception>
    public static async Task<SiteAccess> OpenAsync(MetadataSpec spec, string cluster, SiteCredentials credentials, CancellationToken stop)
    {
        IMetadataStore metadata = MetadataStoreFactory.Create(spec.Text);
        try
        {
            await metadata.InitializeAsync(stop).ConfigureAwait(false);
            return await metadata.FindClusterAsync(cluster, stop).ConfigureAwait(false) is null
                ? throw new MetadataException($"The metadata {spec} knows no cluster \"{cluster}\".")
                : new(metadata, cluster, credentials);
        }
        catch
        {
            await metadata.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    public Task<SiteState> StateAsync(CancellationToken stop) => Metadata.SiteAsync(Cluster, stop);

    public Task<SiteAnswer> ChangeAsync(Func<SiteState, SiteChange> change, CancellationToken stop) => Metadata.ChangeSiteAsync(Cluster, change, stop);

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

    /// <summary>How all of its processes are.</summary>
    public async Task<IReadOnlyList<Answered<V1.StatusReply>>> StatusesAsync(CancellationToken stop) =>
        await AskAllAsync(await ProcessesAsync(stop).ConfigureAwait(false), SiteControlMethods.Status, new V1.StatusRequest(), stop).ConfigureAwait(false);

    /// <summary>Asks all at once.</summary>
    public static Task<Answered<TReply>[]> AskAllAsync<TRequest, TReply>(
        IEnumerable<SiteProcess> processes, global::Grpc.Core.Method<TRequest, TReply> method, TRequest request, CancellationToken stop, TimeSpan? limit = null)
        where TRequest : class
        where TReply : class => Task.WhenAll(processes.Select(p => AskAsync(p, method, request, stop, limit)));

    /// <summary>Asks one.</summary>
    public static async Task<Answered<TReply>> AskAsync<TRequest, TReply>(
        SiteProcess process, global::Grpc.Core.Method<TRequest, TReply> method, TRequest request, CancellationToken stop, TimeSpan? limit = null)
        where TRequest : class
        where TReply : class
    {
        try
        {
            return new(process, await process.Channel.CallAsync(method, request, new CallOptions { Timeout = limit ?? AskLimit, Cancellation = stop }).ConfigureAwait(false), "");
        }
        catch (RpcException e)
        {
            stop.ThrowIfCancellationRequested();
            return new(process, null, e.Code == StatusCode.Unauthenticated ? "it does not let us in: give --site-secret-file, or the certificates, as it has them" : e.Message,
                e.Code is StatusCode.DeadlineExceeded or StatusCode.Unavailable && e.GetBaseException() is not SocketException { SocketErrorCode: SocketError.ConnectionRefused });
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (GrpcChannel channel in _channels.Values) { channel.Dispose(); }
        await Metadata.DisposeAsync().ConfigureAwait(false);
    }
}
