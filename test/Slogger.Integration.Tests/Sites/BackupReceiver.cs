// The backup's end of one shard's stream, in the test's process: real SQL, a real log and its receiver, over gRPC. Its store is none: what the log holds is looked at.
using System.Globalization;
using System.Net;
using System.Text;
using Slogger.Core.Shards;
using Slogger.Core.Sites;
using Slogger.Core.Watermarks;
using Slogger.Core.WorldLines;
using Slogger.Grpc.Server;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Log;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Shipping;

namespace Slogger.Integration.Tests.Sites;

internal sealed class BackupReceiver : IStreamOwner, IAsyncDisposable
{
    private const string Cluster = "default";
    private readonly string _directory;
    private readonly IMetadataStore _metadata;
    private readonly int _port = Workspace.FreePort();
    private GrpcServer? _server;
    private WorldPoint _applied;

    private BackupReceiver(string directory, IMetadataStore metadata) => (_directory, _metadata) = (directory, metadata);

    /// <summary>The --backup of the primary.</summary>
    public string Address => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{_port}");

    public VersionLog Log { get; private set; } = null!;

    public StreamReceiver? Receiver { get; private set; }

    public string? Failure { get; private set; }

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

    /// <summary>Its log begins where that of a primary has begun, whose Redis was empty: as when it has been seeded.</summary>
    /// <param name="data">The primary's data directory.</param>
    /// <param name="redis">Its Redis.</param>
    public async Task BeginAsync(string data, EndPoint redis)
    {
        string checkpoint = Directory.GetFiles(Path.Combine(data, "checkpoints")).Select(f => Path.GetFileName(f)!).Order().First();
        long offset = long.Parse(new string([.. checkpoint.TakeWhile(char.IsAsciiDigit)]), CultureInfo.InvariantCulture);
        using RespClient client = await RespClient.ConnectAsync(redis);
        string info = (await client.DoAsync("INFO", "replication")).Text;
        string id = info.Split('\n').First(l => l.StartsWith("master_replid:", StringComparison.Ordinal))["master_replid:".Length..].Trim();
        OpenLog();
        Log.Begin(new(id, offset, 0), WorldLine.First, new(1));
        await _metadata.ChangeSiteAsync(Cluster, s => new(s.Seeded(new(0), 1), null));
    }

    /// <summary>Listens, and receives.</summary>
    public async Task StartAsync()
    {
        if (Log is null) { OpenLog(); }
        SiteState site = (await _metadata.ChangeSiteAsync(Cluster, s => new(s.TakeStream(new(0), s.Streams[0].Owner + 1), null))).Site;
        Receiver = new(Log!, new(0), default, _applied, site, _metadata, Cluster, this, Quiet.Instance);
        _server = new(new() { Listen = new(IPAddress.Loopback, _port) });
        new ShippingService(s => s.Number == 0 ? Receiver : null).AddTo(_server);
        await _server.StartAsync();
    }

    /// <summary>Is gone.</summary>
    public async Task StopAsync()
    {
        if (_server is { } server) { await server.DisposeAsync(); }
        if (Receiver is { } receiver) { await receiver.DisposeAsync(); }
        (_server, Receiver) = (null, null);
    }

    /// <summary>The site takes over: what is shipped is refused from now on.</summary>
    public async Task<SiteState> TakeOverAsync()
    {
        SiteState site = (await _metadata.ChangeSiteAsync(Cluster, s => s.Take([0]))).Site;
        if (Receiver is { } receiver) { await receiver.FreezeAsync(site.Epoch); }
        return site;
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
        Log?.Dispose();
        await _metadata.DisposeAsync();
    }

    // With one stream what it holds is the watermark.
    void IStreamOwner.Report(WatermarkReport report) => _ = Receiver?.WatermarkToldAsync(report.Held).AsTask();

    void IStreamOwner.Apply(WorldPoint to)
    {
        _applied = to;
        _ = Receiver?.AppliedAsync(to).AsTask();
    }

    void IStreamOwner.Final(FinalReport report)
    {
    }

    void IStreamOwner.Open(SiteEpoch number)
    {
    }

    void IStreamOwner.OnFailed(string why) => Failure = why;

    private void OpenLog() => Log = VersionLog.Open(new() { Directory = Path.Combine(_directory, "log"), Shard = new(0) });

    private sealed class Quiet : ILogSink
    {
        public static readonly Quiet Instance = new();

        public bool IsEnabled(LogLevel level) => false;

        public void Write(LogLevel level, string message)
        {
        }
    }
}
