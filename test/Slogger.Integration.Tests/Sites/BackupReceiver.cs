// The backup's end of one shard's stream, in the test's process: real SQL, a real log that is seeded and received over gRPC. Its store is
// none: what the log holds is looked at.
using System.Globalization;
using System.Net;
using System.Text;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Grpc.Server;
using Slogger.Integration.Tests.Processes;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Following;
using Slogger.Replication.Seeding;
using Slogger.Sites.Shipping;
using Slogger.Sites.Streams;

namespace Slogger.Integration.Tests.Sites;

internal sealed class BackupReceiver : IFollowingStore, IAsyncDisposable
{
    private const string Cluster = "default";
    private static readonly ShardId Stream = new(0);
    private readonly string _directory;
    private readonly IMetadataStore _metadata;
    private readonly int _port = Workspace.FreePort();
    private readonly CheckpointStore _checkpoints;
    private readonly Lock _lock = new();
    private StreamDisk? _disk;
    private GrpcServer? _server;
    private BackupStream? _stream;
    private WorldPoint _applied;

    private BackupReceiver(string directory, IMetadataStore metadata)
    {
        (_directory, _metadata) = (directory, metadata);
        Log = VersionLog.Open(new() { Directory = Path.Combine(directory, "log"), Shard = Stream });
        _checkpoints = CheckpointStore.Open(Path.Combine(directory, "checkpoints"));
    }

    /// <summary>The --backup of the primary.</summary>
    public string Address => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{_port}");

    public VersionLog Log { get; }

    /// <summary>The life of the stream that its log is of; 0: none yet.</summary>
    public long Life => _disk is { Seed: { } seed } disk && disk.Holds(seed.Generation) ? seed.Generation : 0;

    /// <summary>A backup that nothing was ever shipped to.</summary>
    public static async Task<BackupReceiver> CreateAsync(Workspace workspace)
    {
        string directory = workspace.Folder("backup");
        IMetadataStore metadata = MetadataStoreFactory.Create($"sqlite:{Path.Combine(directory, "metadata.db")}");
        await metadata.InitializeAsync();
        await metadata.GetOrCreateClusterAsync(Cluster, new() { ShardCount = 1, Grid = [new(new(1), 1_700_000_000_000_000, 5000)] });
        await metadata.ChangeSiteAsync(Cluster, _ => new(SiteState.BackupOf(1, SiteEpoch.First), null));
        return new(directory, metadata);
    }

    /// <summary>As the primary has it; read when it begins to listen.</summary>
    public TimeSpan Lease { get; set; }

    /// <summary>Listens, and receives.</summary>
    public async Task StartAsync()
    {
        SiteState site = (await _metadata.ChangeSiteAsync(Cluster, s => new(s.TakeStream(Stream, s.Streams[0].Owner + 1), null))).Site;
        _disk = StreamDisk.Open(_directory, Log, _checkpoints);
        BackupStream stream = new(_disk, Stream, this, site, _metadata, Cluster, OnHeld, NullLogger.Instance);
        lock (_lock) { _stream = stream; }
        _server = new(new() { Listen = new(IPAddress.Loopback, _port) });
        new ShippingService(s => s == Stream ? _stream?.Receiver : null, new(Cluster, Lease), () => null).AddTo(_server);
        await _server.StartAsync();
    }

    /// <summary>Is gone.</summary>
    public async Task StopAsync()
    {
        if (_server is { } server) { await server.DisposeAsync(); }
        if (_stream is { } stream) { await stream.DisposeAsync(); }
        _disk?.Dispose();
        lock (_lock) { (_server, _stream, _disk) = (null, null, null); }
    }

    /// <summary>The site takes over: what is shipped is refused from now on.</summary>
    public async Task TakeOverAsync()
    {
        SiteState site = (await _metadata.ChangeSiteAsync(Cluster, s => s.Take([0]))).Site;
        await _stream!.FreezeAsync(site.Epoch, CancellationToken.None);
    }

    /// <summary>Whether its log holds a text, durably.</summary>
    public bool Holds(string text)
    {
        using LogReader reader = Log.OpenReader(Log.StartOffset);
        using var all = new MemoryStream();
        byte[] buffer = new byte[1 << 16];
        for (int got; reader.Position < Log.DurableOffset && (got = reader.Read(buffer)) > 0;) { all.Write(buffer, 0, got); }
        return Encoding.Latin1.GetString(all.GetBuffer(), 0, (int)all.Length).Contains(text, StringComparison.Ordinal);
    }

    public async ValueTask DisposeAsync()
    {
        await StopAsync();
        Log.Dispose();
        await _metadata.DisposeAsync();
    }

    // With one stream what it holds is the watermark, if it can be brought to that.
    private void OnHeld(WatermarkReport report)
    {
        lock (_lock)
        {
            if (report.Held >= report.Floor) { _stream?.WatermarkTold(report.Held); }
        }
    }

    WorldPoint IFollowingStore.Applied => _applied;

    Task<bool> IFollowingStore.RenewAsync(Func<bool> begin, CancellationToken stop)
    {
        _applied = default;
        return Task.FromResult(begin());
    }

    Task IFollowingStore.BringToAsync(Boundary end, CancellationToken stop)
    {
        _applied = end.Point;
        return Task.CompletedTask;
    }

    Task IFollowingStore.PromoteAsync(CancellationToken stop) => Task.CompletedTask;

    void IFollowingStore.TakeOver(SiteState site)
    {
    }
}
