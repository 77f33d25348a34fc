// Performs failovers in a process of the backup, for the command that asks: here all is compiled and connected already, and a command would
// be most of a failover's time starting. Each process of the backup can do it; the one that is asked first, that of the lowest shard, keeps
// the ways to the others open, and has rehearsed it.
using System.Diagnostics;
using System.Threading.Channels;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Resp;
using Slogger.Sites.Access;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Failovers;

/// <summary>Performs failovers.</summary>
internal sealed class FailoverRole : IAsyncDisposable
{
    private static readonly TimeSpan LookPeriod = TimeSpan.FromSeconds(1);

    private readonly IMetadataStore _metadata;
    private readonly string _cluster;
    private readonly ShardId _shard;
    private readonly SiteCredentials _credentials;
    private readonly ILogger _log;
    private readonly CancellationTokenSource _stop = new();
    private readonly Lock _lock = new();
    private readonly Dictionary<string, GrpcChannel> _channels = [];
    private readonly IRehearsal? _rehearsal;
    private readonly Task _preparing;

    /// <summary>Begins to prepare for it.</summary>
    /// <param name="metadata">The site's SQL.</param>
    /// <param name="cluster">The cluster.</param>
    /// <param name="shard">Of this process.</param>
    /// <param name="credentials">Between the processes.</param>
    /// <param name="log">For people.</param>
    /// <param name="rehearsal">Of this process; null: it has none.</param>
    public FailoverRole(IMetadataStore metadata, string cluster, ShardId shard, SiteCredentials credentials, ILogger log,
        IRehearsal? rehearsal = null)
    {
        (_metadata, _cluster, _shard, _credentials, _log, _rehearsal) = (metadata, cluster, shard, credentials, log, rehearsal);
        _preparing = PrepareAsync(_stop.Token);
    }

    /// <summary>Has a server answer.</summary>
    public void AddTo(GrpcServer server) => server.Add(SiteControlMethods.Failover, PerformAsync);

    /// <summary>Stops preparing; what is being performed goes on.</summary>
    public async Task EndAsync()
    {
        if (!_stop.IsCancellationRequested) { await _stop.CancelAsync().ConfigureAwait(false); }
        await _preparing.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    public async ValueTask DisposeAsync()
    {
        await EndAsync().ConfigureAwait(false);
        foreach (GrpcChannel channel in _channels.Values) { channel.Dispose(); }
        _stop.Dispose();
    }

    private async Task PerformAsync(ServerCall<V1.FailoverRequest, V1.FailoverNotice> call)
    {
        if (await call.ReadAsync().ConfigureAwait(false) is not { } request)
        {
            throw new RpcException(StatusCode.InvalidArgument, "nothing was asked for");
        }
        long arrived = Stopwatch.GetTimestamp();
        if (request.LeaseWaitUs < 0 && !request.Rehearse)
        {
            throw new RpcException(StatusCode.InvalidArgument, "the wait for the site lease is negative");
        }
        // Refused, or not: it can be made up for.
        _rehearsal?.End(forGood: false);
        var notices = Channel.CreateUnbounded<V1.FailoverNotice>(new() { SingleReader = true });
        FailoverManager? manager = null;
        void Tell(V1.FailoverNotice notice)
        {
            notice.ElapsedUs = (long)manager!.Elapsed.TotalMicroseconds;
            notices.Writer.TryWrite(notice);
        }
        // Written beside the failover, which does not wait for who reads.
        Task writing = WriteAsync(call, notices.Reader);
        try
        {
            manager = new FailoverManager(_metadata, _cluster, ProcessesAsync,
                request.LeaseWaitUs, new Steps(Tell), number => Tell(new() { Taken = number.Number }), arrived);
            if (request.Rehearse)
            {
                // Two notices, one after the other: who asks for them has the waiting for one compiled, too.
                Tell(new() { Text = "a rehearsal" });
                await manager.RehearseAsync(call.Cancellation).ConfigureAwait(false);
                Tell(new() { End = new() });
                return;
            }
            _log.Warn($"shard {_shard}: performs a failover, as it was asked to by {call.Peer}");
            FailoverOutcome outcome = await manager.RunAsync([.. request.Losing], call.Cancellation).ConfigureAwait(false);
            var end = new V1.FailoverEnd { Error = outcome.Error ?? "", FinalTime = outcome.FinalTime, Stages = manager.Stages };
            end.Silent.AddRange(outcome.Silent ?? []);
            Tell(new() { End = end });
            string how = outcome.Error is { } error ? $"was refused: {error}"
                : $"took {manager.Elapsed.TotalMilliseconds:0.0} ms ({manager.Stages})";
            _log.Info($"shard {_shard}: the failover {how}");
        }
        catch (MetadataException e)
        {
            throw new RpcException(StatusCode.Unavailable, $"this process cannot use the site's metadata: {e.Message}");
        }
        finally
        {
            notices.Writer.TryComplete();
            await writing.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    private static async Task WriteAsync(ServerCall<V1.FailoverRequest, V1.FailoverNotice> call, ChannelReader<V1.FailoverNotice> notices)
    {
        await foreach (V1.FailoverNotice notice in notices.ReadAllAsync(call.Cancellation).ConfigureAwait(false))
        {
            await call.WriteAsync(notice).ConfigureAwait(false);
        }
    }

    // As SQL has them now: one may have been started elsewhere.
    private async Task<IReadOnlyList<SitePeer>> ProcessesAsync(CancellationToken stop)
    {
        IReadOnlyDictionary<ShardId, string> addresses = await _metadata.SiteAddressesAsync(_cluster, stop).ConfigureAwait(false);
        lock (_lock)
        {
            List<SitePeer> peers = [];
            foreach (IGrouping<string, ShardId> one in addresses.GroupBy(a => a.Value, a => a.Key))
            {
                if (!ListenAddress.TryParse(one.Key, out ListenAddress? address, out _) || address.IsUnix) { continue; }
                if (!_channels.TryGetValue(one.Key, out GrpcChannel? channel))
                {
                    _channels[one.Key] = channel = _credentials.Open(address);
                }
                peers.Add(new([.. one], channel));
            }
            return peers;
        }
    }

    // Again when another process is there, which has yet to be connected and to have compiled what it needs, and when all streams can be
    // taken over.
    private async Task PrepareAsync(CancellationToken stop)
    {
        string rehearsed = "";
        while (true)
        {
            try
            {
                IReadOnlyDictionary<ShardId, string> addresses = await _metadata.SiteAddressesAsync(_cluster, stop).ConfigureAwait(false);
                SiteState site = await _metadata.SiteAsync(_cluster, stop).ConfigureAwait(false);
                // What is taken over is there: this does not delay it.
                if (site.Role == SiteRole.Backup && site.StreamsOf(_shard).All(s => site.Streams[s].Phase == StreamPhase.Counts))
                {
                    _rehearsal?.Begin();
                }
                else { _rehearsal?.End(forGood: false); }
                string all = $"{site.Streams.Count(s => s.Phase == StreamPhase.Counts)} of "
                    + $"{string.Join(' ', addresses.OrderBy(a => a.Key.Number).Select(a => a.Value))}";
                if (all != rehearsed && site.Role == SiteRole.Backup && addresses.Count > 0
                    && addresses.Keys.Min(s => s.Number) == _shard.Number)
                {
                    var manager = new FailoverManager(_metadata, _cluster, ProcessesAsync, 0, new Steps(_ => { }));
                    await manager.RehearseAsync(stop).ConfigureAwait(false);
                    rehearsed = all;
                }
            }
            catch (MetadataException)
            {
                // Then it is slower.
            }
            await Task.Delay(LookPeriod, stop).ConfigureAwait(false);
        }
    }

    private sealed class Steps(Action<V1.FailoverNotice> tell) : LineLogger(LogLevel.Information)
    {
        protected override void Write(LogLevel level, string message) =>
            tell(new() { Text = message, IsWarning = level > LogLevel.Information });
    }
}
