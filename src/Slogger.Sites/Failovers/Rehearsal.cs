// What is done for the first time takes the runtime long: a failover calls some thousand methods that nothing has called before, in every process at once, and most of it would be their compiling. So a process
// of a backup performs one beforehand, with the code that it will run: two sites in small, of two shards each, in this process, with redis-servers and databases of their own, which are then deleted. Nobody
// else hears of it.
using System.Diagnostics;
using System.Globalization;
using Slogger.Core.Shards;
using Slogger.Core.Sites;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Following;
using Slogger.Proxy.Shards;
using Slogger.Redis.Connections;
using Slogger.Redis.Supervision;
using Slogger.Sites.Backup;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Failovers;

/// <summary>Rehearses a failover.</summary>
internal static class Rehearsal
{
    private const string Folder = "rehearsal", Cluster = "rehearsal";
    private const int LogSegmentBytes = 4 << 20;
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(1), LookPause = TimeSpan.FromMilliseconds(20);

    // One of either shard, by their slots.
    private static readonly string[] s_keys = ["b", "a"];

    /// <summary>Performs one, and leaves nothing behind. It is done when it is over, or cannot be: then the first failover takes longer.</summary>
    /// <param name="options">Of this process; with a redis-server program.</param>
    /// <param name="log">For people.</param>
    /// <param name="stop">Gives up.</param>
    public static async Task RunAsync(ServeOptions options, ILogSink log, CancellationToken stop)
    {
        string directory = Path.Combine(options.DataDirectory, Folder);
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(Limit);
        long began = Stopwatch.GetTimestamp();
        try
        {
            await ClearAsync(directory, options).ConfigureAwait(false);
            string stages = await PerformAsync(directory, options, new Aside(log), limit.Token).ConfigureAwait(false);
            log.Info($"shard {options.Shard}: a failover was rehearsed, in {Stopwatch.GetElapsedTime(began).TotalSeconds:0.0} s ({stages})");
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            // What it was for has come, or the process ends.
        }
        catch (Exception e)
        {
            // Nothing depends on it.
            log.Warn($"shard {options.Shard}: a failover could not be rehearsed, and the first one takes longer: {(e is OperationCanceledException ? $"it was not over in {Limit.TotalSeconds} s" : e.Message)}");
        }
        finally
        {
            // A primary that was deposed leaves its Redis running, too.
            await ClearAsync(directory, options).ConfigureAwait(false);
        }
    }

    private static async Task<string> PerformAsync(string directory, ServeOptions options, ILogSink log, CancellationToken stop)
    {
        Directory.CreateDirectory(directory);
        MetadataSpec primary = MetadataSpec.SqliteFile(Path.Combine(directory, "primary.db")), backup = MetadataSpec.SqliteFile(Path.Combine(directory, "backup.db"));
        List<Host> hosts = [];
        try
        {
            for (int s = 0; s < s_keys.Length; s++) { hosts.Add(new(In("backup", s, backup, null), BackupHost.RunUnrehearsedAsync, log)); }
            await using IMetadataStore metadata = MetadataStoreFactory.Create(backup.Text);
            IReadOnlyDictionary<ShardId, string> at = await UntilAsync(async () => await metadata.SiteAddressesAsync(Cluster, stop).ConfigureAwait(false) is { } found && found.Count == s_keys.Length ? found : null, hosts, stop).ConfigureAwait(false);
            for (int s = 0; s < s_keys.Length; s++) { hosts.Add(new(In("primary", s, primary, at[new(s)]), PrimaryHost.RunAsync, log)); }
            for (int s = 0; s < s_keys.Length; s++) { await WriteAsync(hosts[s_keys.Length + s], s, hosts, stop).ConfigureAwait(false); }
            _ = await UntilAsync(async () => (await metadata.SiteAsync(Cluster, stop).ConfigureAwait(false)) is { } site && site.Streams.All(t => t.Phase == StreamPhase.Counts) ? site : null, hosts, stop).ConfigureAwait(false);
            for (int s = 0; s < s_keys.Length; s++) { await WriteAsync(hosts[s_keys.Length + s], s, hosts, stop).ConfigureAwait(false); }
            string stages = await FailOverAsync(options, at[new(0)], stop).ConfigureAwait(false);
            for (int s = 0; s < s_keys.Length; s++) { await WriteAsync(hosts[s], s, hosts, stop).ConfigureAwait(false); }
            return stages;
        }
        finally
        {
            await Task.WhenAll(hosts.Select(h => h.StopAsync())).ConfigureAwait(false);
        }

        // As this process is, but for what belongs to its data and to its machine.
        ServeOptions In(string site, int shard, MetadataSpec metadata, string? to) => new()
        {
            Listen = [ListenAddress.Tcp("127.0.0.1", 0)],
            RedisServerPath = options.RedisServerPath,
            DataDirectory = Path.Combine(directory, string.Create(CultureInfo.InvariantCulture, $"{site}{shard}")),
            Metadata = metadata,
            Cluster = Cluster,
            Shard = new(shard),
            Shards = s_keys.Length,
            Transport = options.Transport,
            LogSegmentBytes = LogSegmentBytes,
            Site = new()
            {
                Listen = ListenAddress.Tcp("127.0.0.1", 0),
                SecretFile = options.Site.SecretFile,
                Backup = to is not null && ListenAddress.TryParse(to, out ListenAddress? address, out _) ? address : null,
            },
        };
    }

    // Waited for, so that all that a commit does is done once.
    private static async Task WriteAsync(Host host, int shard, IReadOnlyList<Host> hosts, CancellationToken stop)
    {
        string at = await UntilAsync(() => Task.FromResult(ProxyRecord.Read(host.Directory)?.Listen[0]), hosts, stop).ConfigureAwait(false);
        _ = ListenAddress.TryParse(at, out ListenAddress? address, out _);
        await using RedisConnection client = await RedisConnection.ConnectAsync(RedisEndpoint.Tcp(address!.Host!, address.Port), cancellation: stop).ConfigureAwait(false);
        await client.ExpectAsync(["SET", s_keys[shard], "1"], stop).ConfigureAwait(false);
        await client.ExpectAsync(["GET", s_keys[shard]], stop).ConfigureAwait(false);
        await client.ExpectAsync(["DPR.WAIT", "*", "2000"], stop).ConfigureAwait(false);
    }

    private static async Task<string> FailOverAsync(ServeOptions options, string at, CancellationToken stop)
    {
        (SiteCredentials? credentials, ProxyExit? failed) = SiteCredentials.Load(options.Site.SecretFile, null, null, null);
        if (failed is not null) { throw new InvalidOperationException(failed.Problem); }
        _ = ListenAddress.TryParse(at, out ListenAddress? address, out _);
        using GrpcChannel channel = credentials!.Open(address!);
        await using ClientCall<V1.FailoverRequest, V1.FailoverNotice> call = channel.Open(SiteControlMethods.Failover, new CallOptions { Cancellation = stop });
        if (await call.WriteAsync(new()).ConfigureAwait(false)) { await call.CompleteAsync().ConfigureAwait(false); }
        while (await call.ReadAsync().ConfigureAwait(false) is { } notice)
        {
            if (notice.End is { } end) { return end.Error.Length == 0 ? end.Stages : throw new InvalidOperationException(end.Error); }
        }
        throw new InvalidOperationException("the failover did not end");
    }

    private static async Task<T> UntilAsync<T>(Func<Task<T?>> look, IReadOnlyList<Host> hosts, CancellationToken stop)
        where T : class
    {
        while (true)
        {
            try
            {
                if (await look().ConfigureAwait(false) is { } found) { return found; }
            }
            catch (MetadataException)
            {
                // It is being made.
            }
            if (hosts.FirstOrDefault(h => h.Ended.IsCompleted) is { } ended) { throw new InvalidOperationException((await ended.Ended.ConfigureAwait(false)).Problem ?? "one of its processes has ended"); }
            await Task.Delay(LookPause, stop).ConfigureAwait(false);
        }
    }

    // A process that was killed in it has left servers running.
    private static async Task ClearAsync(string directory, ServeOptions options)
    {
        if (!Directory.Exists(directory)) { return; }
        try
        {
            foreach (string data in Directory.GetDirectories(directory))
            {
                RedisSupervisorOptions how = SupervisedStore.ServerIn("redis", options with { DataDirectory = data, RedisConfigFile = null, RedisDirectives = [], RedisPasswordFile = null, RedisUser = null });
                // Those that were stopped in order have none.
                if (!File.Exists(Path.Combine(how.Directory, "redis.pid"))) { continue; }
                await using var server = new RedisSupervisor(how);
                await server.StartOrAdoptAsync(CancellationToken.None).ConfigureAwait(false);
                await server.KillAsync(CancellationToken.None).ConfigureAwait(false);
            }
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or RedisException)
        {
            // What cannot be ended has ended, or belongs to nobody here.
        }
        Delete(directory);
    }

    private static void Delete(string directory)
    {
        try
        {
            if (Directory.Exists(directory)) { Directory.Delete(directory, recursive: true); }
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // The next start deletes it.
        }
    }

    /// <summary>A process of the sites in small, in this one.</summary>
    private sealed class Host
    {
        private readonly CancellationTokenSource _stop = new();

        public Host(ServeOptions options, Func<ServeOptions, ILogSink, CancellationToken, Task<ProxyExit>> run, ILogSink log)
        {
            Directory = options.DataDirectory;
            Ended = Task.Run(async () =>
            {
                using DataDirectory data = DataDirectory.OpenForServe(options).Opened ?? throw new IOException($"{options.DataDirectory} cannot be used");
                return await run(options, log, _stop.Token).ConfigureAwait(false);
            });
        }

        public string Directory { get; }

        public Task<ProxyExit> Ended { get; }

        public async Task StopAsync()
        {
            await _stop.CancelAsync().ConfigureAwait(false);
            await ((Task)Ended).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            _stop.Dispose();
        }
    }

    // What happens there is no news.
    private sealed class Aside(ILogSink log) : ILogSink
    {
        public bool IsEnabled(LogLevel level) => log.IsEnabled(LogLevel.Debug);

        public void Write(LogLevel level, string message) => log.Write(LogLevel.Debug, $"rehearsal: {message}");
    }
}
