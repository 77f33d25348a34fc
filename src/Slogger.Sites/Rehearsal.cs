// What is done for the first time takes the runtime long: a failover calls some thousand methods that nothing has called before, in every
// process at once, and most of it would be their compiling. So a process of a backup performs one beforehand, with the code that it will
// run: two sites in small, of two shards each, in this process, with redis-servers and databases of their own, which are then deleted.
// Nobody else hears of it.
using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using System.Security.Cryptography;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Grpc.Client;
using Slogger.Grpc.Shipping;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Redis.Supervision;
using Slogger.Resp;
using Slogger.Sites.Access;
using Slogger.Sites.Failovers;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites;

/// <summary>The rehearsal of a failover in a process of a backup. Any thread.</summary>
/// <param name="options">Of the process; with a redis-server program.</param>
/// <param name="ready">What is compiled ahead: it comes first, so that nothing is compiled twice.</param>
/// <param name="log">For people.</param>
internal sealed class Rehearsal(ServeOptions options, Task ready, ILogger log) : IRehearsal, IAsyncDisposable
{
    private const string Folder = "rehearsal", Cluster = "rehearsal";
    private const int LogSegmentBytes = 4 << 20;

    // It takes a twentieth of that. What the process is there for has the first claim on its disk.
    private const long RoomBytes = 1L << 30;
    private const double IdleShare = 0.2;

    // One at a time on a machine: the name is free again when its process has ended, however it does.
    private const string Turn = "\0slogger-rehearsal";

    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(1), TurnLimit = TimeSpan.FromMinutes(3), IdlePeriod =
        TimeSpan.FromSeconds(3), LookPause = TimeSpan.FromMilliseconds(20);

    // One of either shard, by their slots.
    private static readonly string[] s_keys = ["b", "a"];

    private readonly Lock _lock = new();
    private CancellationTokenSource? _stop;     // of the one that is waited for, or under way; under _lock, as all below
    private Task _running = Task.CompletedTask;
    private bool _isOver;

    public string State { get; private set; } = "due";

    public void Begin()
    {
        lock (_lock)
        {
            if (_isOver || _stop is not null) { return; }
            CancellationTokenSource stop = _stop = new();
            _running = Task.Run(() => RunAsync(stop));
        }
    }

    public void End(bool forGood)
    {
        lock (_lock)
        {
            _isOver |= forGood;
            _ = _stop?.CancelAsync();
        }
    }

    public async ValueTask DisposeAsync()
    {
        End(forGood: true);
        await _running.ConfigureAwait(false);
    }

    /// <summary>Takes away what a process has left behind that was killed in one.</summary>
    /// <param name="options">Of the process that has its data directory now.</param>
    public static async Task ClearAsync(ServeOptions options)
    {
        string directory = Path.Combine(options.DataDirectory, Folder);
        if (!Directory.Exists(directory)) { return; }
        try
        {
            foreach (string data in Directory.GetDirectories(directory))
            {
                await using var server = new RedisSupervisor(new() { Directory = Path.Combine(data, SupervisedStore.Folder) });
                await server.EndLeftBehindAsync().ConfigureAwait(false);
            }
            Directory.Delete(directory, recursive: true);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // The next start tries again.
        }
    }

    private async Task RunAsync(CancellationTokenSource stop)
    {
        try
        {
            using IDisposable? turn = await TurnAsync(stop.Token).ConfigureAwait(false);
            State = "under way";
            await RunAsync(stop.Token).ConfigureAwait(false);
        }
        catch (Exception) when (stop.IsCancellationRequested)
        {
            // Whatever was in the middle of something says so in its own way.
            State = "due";
        }
        finally
        {
            lock (_lock) { _stop = null; }
            stop.Dispose();
        }
    }

    // When there is little else to do in this process, and no other of this machine is at it. In the end all the same: the first failover
    // is to find it done.
    private async Task<IDisposable?> TurnAsync(CancellationToken stop)
    {
        await ready.WaitAsync(stop).ConfigureAwait(false);
        long began = Stopwatch.GetTimestamp();
        while (true)
        {
            TimeSpan before = Environment.CpuUsage.TotalTime;
            await Task.Delay(IdlePeriod, stop).ConfigureAwait(false);
            TimeSpan waited = Stopwatch.GetElapsedTime(began);
            if (Environment.CpuUsage.TotalTime - before > IdlePeriod * IdleShare && waited < TurnLimit) { continue; }
            if (TakeTurn() is var turn && (turn is not null || waited > 2 * TurnLimit)) { return turn; }
        }
    }

    // Null: another process has it. Elsewhere than on Linux nobody is asked.
    private static Socket? TakeTurn()
    {
        var socket = new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        try
        {
            if (OperatingSystem.IsLinux()) { socket.Bind(new UnixDomainSocketEndPoint(Turn)); }
            return socket;
        }
        catch (SocketException)
        {
            socket.Dispose();
            return null;
        }
    }

    private async Task RunAsync(CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(Limit);
        long began = Stopwatch.GetTimestamp();
        try
        {
            await ClearAsync(options).ConfigureAwait(false);
            if (new DriveInfo(options.DataDirectory).AvailableFreeSpace < RoomBytes)
            {
                throw new IOException($"less than {RoomBytes >> 20} MiB are free on the disk of {options.DataDirectory}");
            }
            string stages = await PerformAsync(limit.Token).ConfigureAwait(false);
            Over("done");
            log.Info($"shard {options.Shard}: a failover was rehearsed, in {Stopwatch.GetElapsedTime(began).TotalSeconds:0.0} s "
                + $"({stages})");
        }
        catch (Exception e) when (!stop.IsCancellationRequested)
        {
            // Nothing depends on it.
            Over("failed");
            log.Warn($"shard {options.Shard}: a failover could not be rehearsed, and the first one takes longer: "
                + $"{(e is OperationCanceledException ? $"it was not over in {Limit.TotalSeconds} s" : e.Message)}");
        }
        finally
        {
            // A primary that was deposed leaves its Redis running, too.
            await ClearAsync(options).ConfigureAwait(false);
        }
    }

    private void Over(string state)
    {
        lock (_lock) { _isOver = true; }
        State = state;
    }

    private async Task<string> PerformAsync(CancellationToken stop)
    {
        string directory = Path.Combine(options.DataDirectory, Folder), secret = Path.Combine(directory, "secret");
        if (OperatingSystem.IsWindows()) { Directory.CreateDirectory(directory); }
        else { Directory.CreateDirectory(directory, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute); }
        // Whoever is on this machine reaches its ports, and is not to get in.
        await File.WriteAllTextAsync(secret, RandomNumberGenerator.GetHexString(32), stop).ConfigureAwait(false);
        var aside = new Aside(log);
        MetadataSpec primary = MetadataSpec.SqliteFile(Path.Combine(directory, "primary.db")), backup =
            MetadataSpec.SqliteFile(Path.Combine(directory, "backup.db"));
        List<Host> hosts = [];
        try
        {
            for (int s = 0; s < s_keys.Length; s++) { hosts.Add(new(In("backup", s, backup, null), BackupHost.RunAsync, aside)); }
            await using IMetadataStore metadata = MetadataStoreFactory.Create(backup.Text);
            IReadOnlyDictionary<ShardId, string> at = await UntilAsync(
                async () => await metadata.SiteAddressesAsync(Cluster, stop).ConfigureAwait(false) is { } found
                    && found.Count == s_keys.Length ? found : null, hosts, stop).ConfigureAwait(false);
            for (int s = 0; s < s_keys.Length; s++) { hosts.Add(new(In("primary", s, primary, at[new(s)]), PrimaryHost.RunAsync, aside)); }
            for (int s = 0; s < s_keys.Length; s++) { await WriteAsync(hosts[s_keys.Length + s], s).ConfigureAwait(false); }
            _ = await UntilAsync(async () => (await metadata.SiteAsync(Cluster, stop).ConfigureAwait(false)) is { } site
                && site.Streams.All(t => t.Phase == StreamPhase.Counts) ? site : null, hosts, stop).ConfigureAwait(false);
            for (int s = 0; s < s_keys.Length; s++) { await WriteAsync(hosts[s_keys.Length + s], s).ConfigureAwait(false); }
            string stages = await FailOverAsync(secret, at[new(0)], stop).ConfigureAwait(false);
            for (int s = 0; s < s_keys.Length; s++) { await WriteAsync(hosts[s], s).ConfigureAwait(false); }
            return stages;
        }
        finally
        {
            await Task.WhenAll(hosts.Select(h => h.StopAsync())).ConfigureAwait(false);
        }

        // Waited for, so that all that a commit does is done once.
        async Task WriteAsync(Host host, int shard)
        {
            string at = await UntilAsync(() => Task.FromResult(ProxyRecord.Read(host.Directory)?.Listen[0]), hosts,
                stop).ConfigureAwait(false);
            _ = ListenAddress.TryParse(at, out ListenAddress? address, out _);
            await using RedisConnection client = await RedisConnection.ConnectAsync(
                RedisEndpoint.Tcp(address!.Host!, address.Port, StoreEndpoint.PasswordIn(secret)),
                    cancellation: stop).ConfigureAwait(false);
            await client.ExpectAsync(["SET", s_keys[shard], "1"], stop).ConfigureAwait(false);
            await client.ExpectAsync(["GET", s_keys[shard]], stop).ConfigureAwait(false);
            await client.ExpectAsync(["DPR.WAIT", "*", "2000"], stop).ConfigureAwait(false);
        }

        // As this process is, but for what belongs to its data and to its machine.
        ServeOptions In(string site, int shard, MetadataSpec metadata, string? to) => new()
        {
            Listen = [ListenAddress.Tcp("127.0.0.1", 0)],
            RedisServerPath = options.RedisServerPath,
            RedisPasswordFile = secret,
            DataDirectory = Path.Combine(directory, string.Create(CultureInfo.InvariantCulture, $"{site}{shard}")),
            Metadata = metadata,
            Cluster = Cluster,
            Shard = new(shard),
            Shards = s_keys.Length,
            Transport = options.Transport,
            LogSegmentBytes = LogSegmentBytes,
            IsRehearsal = true,
            Site = new()
            {
                Listen = ListenAddress.Tcp("127.0.0.1", 0),
                SecretFile = secret,
                Rehearses = false,
                Backups = to is not null && ListenAddress.TryParse(to, out ListenAddress? address, out _) ? [address] : [],
            },
        };
    }

    private static async Task<string> FailOverAsync(string secret, string at, CancellationToken stop)
    {
        (SiteCredentials? credentials, ProxyExit? failed) = SiteCredentials.Load(secret, null, null, null);
        if (failed is not null) { throw new InvalidOperationException(failed.Problem); }
        _ = ListenAddress.TryParse(at, out ListenAddress? address, out _);
        using GrpcChannel channel = credentials!.Open(address!);
        await using ClientCall<V1.FailoverRequest, V1.FailoverNotice> call =
            channel.Open(SiteControlMethods.Failover, new CallOptions { Cancellation = stop });
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
            if (hosts.FirstOrDefault(h => h.Ended.IsCompleted) is { } ended)
            {
                throw new InvalidOperationException((await ended.Ended.ConfigureAwait(false)).Problem ?? "one of its processes has ended");
            }
            await Task.Delay(LookPause, stop).ConfigureAwait(false);
        }
    }

    /// <summary>A process of the sites in small, in this one.</summary>
    private sealed class Host
    {
        private readonly CancellationTokenSource _stop = new();

        public Host(ServeOptions options, Func<ServeOptions, ILogger, CancellationToken, Task<ProxyExit>> run, ILogger log)
        {
            Directory = options.DataDirectory;
            Ended = Task.Run(async () =>
            {
                using DataDirectory data = DataDirectory.OpenForServe(options).Opened
                    ?? throw new IOException($"{options.DataDirectory} cannot be used");
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
    private sealed class Aside(ILogger log) : LineLogger(LogLevel.Trace)
    {
        public override bool IsEnabled(LogLevel logLevel) => log.IsEnabled(LogLevel.Debug);

        // Past the shorthands: the message is bounded already, and its end says what was cut.
        protected override void Write(LogLevel level, string message) =>
            log.Log(LogLevel.Debug, default, $"rehearsal: {message}", null, static (text, _) => text);
    }
}
