// A whole backup site, but for its Redis servers: three streams in two processes, a watermark service, SQL and connections that break;
// primaries that write and record cuts all the time. A failover at any moment finds all of them at one recorded cut, and nothing that was a
// watermark is missing.
using System.Net;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Grpc.Shipping;
using Slogger.Grpc.Tests.Support;
using Slogger.Log;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Following;
using Slogger.Replication.Seeding;
using Slogger.Replication.Sending;
using Slogger.Sites.Access;
using Slogger.Sites.Failovers;
using Slogger.Sites.Shipping;
using Slogger.Sites.Streams;
using Slogger.Sites.Watermarks;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Tests;

public sealed partial class BackupSiteTests : IAsyncLifetime
{
    private const int Streams = 3;
    private const string Secret = "between-two-sites", ReplicationId = "0123456789abcdef0123456789abcdef01234567";
    private static readonly GrpcChannelOptions s_channel = new() { Secret = Secret };
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-site").FullName;
    private readonly Primary[] _primaries = new Primary[Streams];
    private readonly BackupProcess?[] _processes = new BackupProcess?[2];
    private readonly Cuts _cuts = new();
    private readonly Store?[] _stores = new Store?[Streams];
    private IMetadataStore _metadata = null!;
    private TimeSpan _lease;
    private int? _watermarkPort;

    public async ValueTask InitializeAsync()
    {
        _metadata = MetadataStoreFactory.Create(Spec);
        await _metadata.InitializeAsync();
        await _metadata.GetOrCreateClusterAsync("c", new() { ShardCount = Streams, Grid = [new(new(1), 1_700_000_000_000_000, 5000)] });
        await _metadata.ChangeSiteAsync("c", _ => new(SiteState.BackupOf(Streams, SiteEpoch.First), null));
        for (int s = 0; s < Streams; s++)
        {
            // As when they have been seeded with empty stores.
            using VersionLog log = OpenBackup(s);
            using StreamDisk disk = SeedKit.OpenDisk(BackupDirectory(s), log);
            disk.BeginEmpty(new(ReplicationId, 1000), 1);
            await _metadata.ChangeSiteAsync("c", site => new(site.Seeded(new(s), 1), null));
        }
        for (int p = 0; p < _processes.Length; p++) { await StartAsync(p); }
        for (int s = 0; s < Streams; s++) { _primaries[s] = new(this, s); }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (GrpcServer control in _controls) { await control.DisposeAsync(); }
        foreach (Primary primary in _primaries) { await primary.DisposeAsync(); }
        foreach (BackupProcess? process in _processes)
        {
            if (process is not null) { await process.DisposeAsync(); }
        }
        await _metadata.DisposeAsync();
        Directory.Delete(_directory, recursive: true);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public async Task Failover_AtAnyMoment_FindsAllStreamsAtOneRecordedCut(int seed)
    {
        Random random = new(seed);
        await WriteAsync(random, 400);
        Assert.True(_processes.All(p => p!.Watermark > default(WorldPoint)));
        WorldPoint told = _processes.Max(p => p!.Watermark), recorded = _cuts.Recorded;
        SiteState site = await FailOverAsync();
        AssertTakenOver(site, told, recorded);
    }

    // What a command asks for right before: it leaves the backup as it is, which goes on.
    [Fact]
    public async Task Failover_Rehearsed_ChangesNothing()
    {
        await WriteAsync(new Random(31), 100);
        SiteState before = await _metadata.SiteAsync("c");
        using var channel = new GrpcChannel("127.0.0.1", _processes.Single(p => p!.Performs)!.Port, s_channel);
        V1.FailoverEnd end = Assert.IsType<V1.FailoverEnd>(await AskAsync(new() { Rehearse = true, LeaseWaitUs = -1 }));
        Assert.Equal(("", "", 0UL), (end.Error, end.Stages, end.FinalTime));
        RpcException refused = await Assert.ThrowsAsync<RpcException>(() => AskAsync(new() { LeaseWaitUs = -1 }));
        Assert.Equal(StatusCode.InvalidArgument, refused.Code);
        SiteState after = await _metadata.SiteAsync("c");
        Assert.Equal(before with { Streams = [] }, after with { Streams = [] });
        Assert.Equal(before.Streams.Select(s => (s.Phase, s.Owner, s.IsLost, s.IsOpen)),
            after.Streams.Select(s => (s.Phase, s.Owner, s.IsLost, s.IsOpen)));
        WorldPoint then = _processes.Max(p => p!.Watermark);
        await WriteAsync(new Random(32), 100);
        Assert.True(_processes.Max(p => p!.Watermark) > then);

        async Task<V1.FailoverEnd?> AskAsync(V1.FailoverRequest request)
        {
            await using ClientCall<V1.FailoverRequest, V1.FailoverNotice> call =
                channel.Open(SiteControlMethods.Failover, new CallOptions { Timeout = Limit });
            if (await call.WriteAsync(request)) { await call.CompleteAsync(); }
            V1.FailoverEnd? end = null;
            while (await call.ReadAsync() is { } notice) { end = notice.End ?? end; }
            return end;
        }
    }

    // Managers and processes die on the way: whoever comes next goes on.
    [Theory]
    [InlineData(4)]
    [InlineData(5)]
    public async Task Failover_CutShortAtAnyStep_IsGoneOnWithByTheNext(int seed)
    {
        Random random = new(seed);
        await WriteAsync(random, 300);
        WorldPoint told = _processes.Max(p => p!.Watermark);
        for (int i = 0; i < 6; i++)
        {
            using var cutShort = new CancellationTokenSource(TimeSpan.FromMilliseconds(random.Next(1, 30)));
            try
            {
                await NewManager(out List<GrpcChannel> channels).RunAsync([], cutShort.Token);
                channels.ForEach(c => c.Dispose());
            }
            catch (OperationCanceledException)
            {
                // As meant.
            }
            int p = random.Next(_processes.Length);
            await _processes[p]!.DisposeAsync();
            await StartAsync(p);
        }
        AssertTakenOver(await FailOverAsync(), told, _cuts.Recorded);
    }

    [Fact]
    public async Task Failover_OfASiteThatIsBeingSeeded_IsRefusedAndTheBackupGoesOn()
    {
        await WriteAsync(new Random(6), 100);
        await _metadata.ChangeSiteAsync("c", s => s.Reseed(new(1), 1));
        FailoverOutcome refused = await NewManager(out List<GrpcChannel> channels).RunAsync([], CancellationToken.None);
        channels.ForEach(c => c.Dispose());
        Assert.Contains("being seeded", refused.Error, StringComparison.Ordinal);
        Assert.Equal(SiteRole.Backup, (await _metadata.SiteAsync("c")).Role);
    }

    // Of shard 0 the process has yet to finish what it writes; of shard 2 there is none, or one that is slow, or that does not let us in.
    [Theory]
    [InlineData("down", "does not run, or its machine is not reached. Start it; only if its disk is gone for good, give it up: ")]
    [InlineData("silent", "has not answered within 2 s: it is busy or stopped, or its machine is not reached. slogger status "
        + "--site tells which")]
    [InlineData("secret", "does not let us in: ")]
    [InlineData("starting", "cannot say it yet: its database is down")]
    public async Task Failover_AProcessDoesNotSayWhatItHolds_NamesItsShardAndAdvisesALossOnlyWhereNobodyIs(string how, string said)
    {
        await WriteAsync(new Random(8), 20);
        await using var unfinished = new GrpcServer(new() { Listen = new(IPAddress.Loopback, 0), Secret = Secret });
        unfinished.AddUnary(SiteControlMethods.Freeze, (_, _) => Task.FromResult(new V1.FreezeReply()));
        await unfinished.StartAsync();
        string secret = how == "secret" ? "another-secret" : Secret;
        await using var other = new GrpcServer(new() { Listen = new(IPAddress.Loopback, 0), Secret = secret });
        other.AddUnary(SiteControlMethods.Freeze, (_, _) => throw new RpcException(StatusCode.Unavailable, "its database is down"));
        await other.StartAsync();
        using var listener = new System.Net.Sockets.TcpListener(IPAddress.Loopback, 0);
        if (how == "silent") { listener.Start(); }
        int port = how switch { "down" => FreePort(), "silent" => ((IPEndPoint)listener.LocalEndpoint).Port, _ => other.EndPoint.Port };
        using GrpcChannel first = new("127.0.0.1", unfinished.EndPoint.Port, s_channel), second = new("127.0.0.1", port, s_channel);
        var log = new Lines();
        using var stop = new CancellationTokenSource();
        IReadOnlyList<SitePeer> peers = [new(ShardsOf(0), first), new(ShardsOf(1), second)];
        Task<FailoverOutcome> running = new FailoverManager(
            _metadata, "c", _ => Task.FromResult(peers), leaseWaitUs: 0, log).RunAsync([], stop.Token);
        await UntilAsync(() => running.IsCompleted || log.All.Any(l => l.Contains("is asked again", StringComparison.Ordinal)));
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
        string line = log.All.First(l => l.Contains("is asked again", StringComparison.Ordinal));
        Assert.StartsWith($"shard 0, 1, 2 has not said what it holds, and is asked again: the process of shard 2 {said}", line,
            StringComparison.Ordinal);
        Assert.Equal(how == "down", line.EndsWith("slogger failover --lose-shard 2", StringComparison.Ordinal));
    }

    // Its machine is gone, and another process has taken the streams at another address.
    [Fact]
    public async Task Failover_AProcessIsReplacedMeanwhile_TheOneInItsPlaceIsAsked()
    {
        await WriteAsync(new Random(8), 20);
        using var stop = new CancellationTokenSource();
        int asked = 0;
        await using var replacement = new GrpcServer(new() { Listen = new(IPAddress.Loopback, 0), Secret = Secret });
        replacement.AddUnary(SiteControlMethods.Freeze, (_, _) =>
        {
            Interlocked.Increment(ref asked);
            return Task.FromResult(new V1.FreezeReply());
        });
        await replacement.StartAsync();
        using GrpcChannel gone = new("127.0.0.1", FreePort(), s_channel), there = new("127.0.0.1", replacement.EndPoint.Port, s_channel);
        var log = new Lines();
        Task<IReadOnlyList<SitePeer>> FindAsync(CancellationToken stop) => Task.FromResult<IReadOnlyList<SitePeer>>(
            [new(ShardsOf(0), log.All.Any(l => l.Contains("is asked again", StringComparison.Ordinal)) ? there : gone)]);
        Task<FailoverOutcome> running = new FailoverManager(_metadata, "c", FindAsync, leaseWaitUs: 0, log).RunAsync([], stop.Token);
        await UntilAsync(() => running.IsCompleted || Volatile.Read(ref asked) > 0);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => running);
        Assert.True(asked > 0);
    }

    // Nothing is begun yet: whoever rehearses has a limit of its own.
    [Fact]
    public async Task Rehearsal_TheDatabaseIsDown_SaysSoInsteadOfTryingForEver()
    {
        await WriteAsync(new Random(9), 20);
        using System.Diagnostics.Process holder = HoldDatabase();
        try
        {
            FailoverManager manager = NewManager(out List<GrpcChannel> channels);
            await Assert.ThrowsAsync<MetadataUnavailableException>(() => manager.RehearseAsync(CancellationToken.None).WaitAsync(Limit));
            channels.ForEach(c => c.Dispose());
        }
        finally
        {
            holder.Kill();
        }
    }

    // Its streams would count among this one's, and its stores would go to another cluster's versions.
    [Fact]
    public async Task Watermark_OfAnotherCluster_IsRefusedOnEitherSide()
    {
        await WriteAsync(new Random(8), 100);
        using var channel = new GrpcChannel("127.0.0.1", _ports[0], s_channel);
        await using (ClientCall<V1.WatermarkReport, V1.WatermarkNotice> call =
            channel.Open(WatermarkMethods.Follow, new CallOptions { Timeout = Limit }))
        {
            await call.WriteAsync(new V1.WatermarkReport { Cluster = "another", Shard = 0, Generation = 1,
                Held = ShipWire.ToWire(new WorldPoint(new(9), new(9))) });
            RpcException refused = await Assert.ThrowsAsync<RpcException>(async () =>
            {
                while (await call.ReadAsync() is not null) { }
            });
            Assert.Equal(StatusCode.FailedPrecondition, refused.Code);
        }

        var told = new List<WorldPoint>();
        var said = new TaskCompletionSource<string>(TaskCreationOptions.RunContinuationsAsynchronously);
        await using var follower = new WatermarkFollower("127.0.0.1", _ports[0], s_channel, "another", told.Add, new WarnedLog(said));
        Assert.Contains("it is of cluster \"c\"", await said.Task.WaitAsync(Limit), StringComparison.Ordinal);
        Assert.Empty(told);
    }

    private sealed class WarnedLog(TaskCompletionSource<string> warned) : LineLogger(LogLevel.Warning)
    {
        protected override void Write(LogLevel level, string message) => warned.TrySetResult(message);
    }

    // A message that is late, or comes from anybody else, stops no backup: what counts is in SQL.
    [Fact]
    public async Task Freeze_OfAFailoverThatIsNotUnderWay_IsRefusedAndTheStreamsGoOn()
    {
        await WriteAsync(new Random(9), 100);
        SiteState site = await _metadata.SiteAsync("c");
        foreach (BackupProcess? process in _processes)
        {
            using var channel = new GrpcChannel("127.0.0.1", process!.Port, s_channel);
            foreach (long number in (long[])[site.Epoch.Number, site.Epoch.Number + 1])
            {
                RpcException refused = await Assert.ThrowsAsync<RpcException>(
                    () => channel.CallAsync(SiteControlMethods.Freeze, new V1.FreezeRequest { SiteEpoch = number, Shards = { 0, 1, 2 } }));
                Assert.Equal(StatusCode.FailedPrecondition, refused.Code);
            }
        }
        await WriteAsync(new Random(10), 100);
        await UntilAsync(() => _processes.All(p => p!.Watermark == _cuts.Recorded));
    }

    // What it had told before is known again from what the streams say, and the stores go on from there.
    [Fact]
    public async Task WatermarkService_Restarted_GoesOn()
    {
        Random random = new(7);
        await WriteAsync(random, 100);
        WorldPoint before = _processes[1]!.Watermark;
        await _processes[0]!.DisposeAsync();
        await StartAsync(0);
        await WriteAsync(random, 100);
        await UntilAsync(() => _processes.All(p => p!.Watermark == _cuts.Recorded && p.Stores.All(s => s.At == _cuts.Recorded)));
        Assert.True(_cuts.Recorded > before);
    }

    private string Spec => $"sqlite:{Path.Combine(_directory, "backup.db")}";

    private string BackupDirectory(int stream) => Path.Combine(_directory, $"backup{stream}");

    private VersionLog OpenBackup(int stream) =>
        VersionLog.Open(new() { Directory = Path.Combine(BackupDirectory(stream), "log"), Shard = new(stream), SegmentBytes = 256 << 10,
            BlockBytes = 4096, BufferBytes = 1 << 20 });

    // The first process has the watermark service. Its port stays when it is started again.
    private async Task StartAsync(int process)
    {
        int[] streams = [.. ShardsOf(process).Select(s => s.Number)];
        _processes[process] = await BackupProcess.StartAsync(this, process, streams, _ports[process], _watermarkPort ?? _ports[0]);
        _ports[process] = _processes[process]!.Port;
    }

    private static ShardId[] ShardsOf(int process) => process == 0 ? [new(0), new(1)] : [new(2)];

    private readonly int[] _ports = new int[2];

    private async Task WriteAsync(Random random, int steps)
    {
        for (int i = 0; i < steps; i++)
        {
            Primary primary = _primaries[random.Next(Streams)];
            switch (random.Next(60))
            {
                case 0: primary.Relay.Cut(); break;
                case < 4: await Task.Delay(1); break;
                default: primary.Write(random); break;
            }
            if (random.Next(3) == 0) { RecordCut(); }
        }
        foreach (Primary primary in _primaries) { primary.Log.Sync(); }
        RecordCut();
        await UntilAsync(() => _processes.All(p => p!.Watermark > default(WorldPoint))
            && _primaries.All(p => p.Shipper.Status.BackedUp == p.Log.End));
        // Each stream says in SQL that it counts when a watermark has come to it.
        while (!(await _metadata.SiteAsync("c")).Streams.All(s => s.Phase == StreamPhase.Counts)) { await Task.Delay(2); }
    }

    // Every shard closes every version: the cut is what all have durable.
    private void RecordCut()
    {
        VersionNumber cut = _primaries.Min(p => p.Log.DurableEnd.Closed)!;
        if (cut > _cuts.Recorded.Version && cut > VersionNumber.Zero) { _cuts.Recorded = new(WorldLine.First, cut); }
        foreach (Primary primary in _primaries) { primary.Shipper.Wake(); }
    }

    private FailoverManager NewManager(out List<GrpcChannel> channels)
    {
        channels = [.. _processes.Select(p => new GrpcChannel("127.0.0.1", p!.Port, s_channel))];
        IReadOnlyList<SitePeer> peers = [.. channels.Select((c, p) => new SitePeer(ShardsOf(p), c))];
        return new(_metadata, "c", _ => Task.FromResult(peers), leaseWaitUs: 0, NullLogger.Instance);
    }

    private async Task<SiteState> FailOverAsync()
    {
        using var limit = new CancellationTokenSource(Limit);
        FailoverOutcome outcome = await NewManager(out List<GrpcChannel> channels).RunAsync([], limit.Token);
        channels.ForEach(c => c.Dispose());
        Assert.Null(outcome.Error);
        return outcome.Site!;
    }

    private void AssertTakenOver(SiteState site, WorldPoint told, WorldPoint recorded)
    {
        Assert.Equal((new SiteEpoch(1), SiteRole.Primary), (site.Epoch, site.Role));
        WorldPoint final = site.Final!.Value;
        Assert.True(final >= told && final <= recorded, $"{final} is not between the watermark {told} and the recorded cut {recorded}");
        foreach (BackupProcess process in _processes.OfType<BackupProcess>())
        {
            foreach ((int stream, VersionLog log) in process.Logs)
            {
                Boundary end = _primaries[stream].Log.BoundaryAtOrBelow(final.Version)!.Value;
                Assert.Equal((site.Epoch.FirstWorldLine, final.Version, end.Offset), (log.WorldLine, log.DurableEnd.Closed, log.EndOffset));
                byte[] there = new byte[end.Offset - 1000], here = new byte[there.Length];
                Read(_primaries[stream].Log, there);
                Read(log, here);
                Assert.Equal(there, here);
            }
            Assert.All(process.Stores, s => Assert.Equal(final, s.At));
        }

        static void Read(VersionLog log, byte[] bytes)
        {
            using LogReader reader = log.OpenReader(1000);
            for (int at = 0; at < bytes.Length;) { at += reader.Read(bytes.AsSpan(at)); }
        }
    }

    private static async Task UntilAsync(Func<bool> condition)
    {
        DateTime end = DateTime.UtcNow + Limit;
        while (!condition())
        {
            Assert.True(DateTime.UtcNow < end, "it does not come to that");
            await Task.Delay(2);
        }
    }

    private sealed class Lines() : LineLogger(Microsoft.Extensions.Logging.LogLevel.Information)
    {
        private readonly System.Collections.Concurrent.ConcurrentQueue<string> _lines = new();

        public IReadOnlyCollection<string> All => _lines;

        protected override void Write(Microsoft.Extensions.Logging.LogLevel level, string message) => _lines.Enqueue(message);
    }

    private sealed class Cuts
    {
        private readonly Lock _lock = new();
        private WorldPoint _recorded;

        public WorldPoint Recorded
        {
            get { lock (_lock) { return _recorded; } }
            set { lock (_lock) { _recorded = value; } }
        }
    }

    /// <summary>A shard of the primary.</summary>
    private sealed partial class Primary : IShipperListener, IAsyncDisposable
    {
        private readonly BackupSiteTests _site;
        private readonly GrpcShipConnector _way;
        private long _time;

        public Primary(BackupSiteTests site, int shard)
        {
            _site = site;
            Log = VersionLog.Open(new() { Directory = Path.Combine(site._directory, $"primary{shard}"), Shard = new(shard),
                SegmentBytes = 256 << 10, BlockBytes = 4096, BufferBytes = 1 << 20, TailBytes = 64 << 10 });
            Log.Begin(new(ReplicationId, 1000, 0), WorldLine.First, new(1));
            Relay = new(site._processes[shard == 2 ? 1 : 0]!.Port);
            _way = new(new GrpcChannel("127.0.0.1", Relay.Port, s_channel), $"127.0.0.1:{Relay.Port}", new("c", site._lease), isGzip: false);
            Shipper = new(Log, new(shard), new(SiteEpoch.First, 1, 1),
                new() { PieceBytesMax = 3000, ResendUs = 20_000, HeartbeatUs = 5_000 }, _way, this, NullLogger.Instance);
        }

        public VersionLog Log { get; }

        public Relay Relay { get; }

        public ShardShipper Shipper { get; }

        public WorldPoint RecordedCut => _site._cuts.Recorded;

        public void Write(Random random)
        {
            byte[] bytes = new byte[random.Next(400)];
            random.NextBytes(bytes);
            Log.Append(bytes);
            if (random.Next(3) > 0)
            {
                Log.AppendBoundary(new(Log.WorldLine, Log.End.Closed.Next, Log.EndOffset, 0, HybridTimestamp.Of(_time += 1000, 0)));
            }
            if (random.Next(3) == 0) { Log.Sync(); }
            Shipper.Wake();
        }

        public void HoldWrites(bool isHeld)
        {
        }

        public void OnSeedWanted(long generation, string why)
        {
        }

        public void OnShippingDeposed(Sender by, bool isSite)
        {
        }

        public void OnShippingFailed(Exception e) => Assert.Fail(e.ToString());

        public void OnWatermark(WorldPoint watermark)
        {
        }

        public async ValueTask DisposeAsync()
        {
            await Shipper.DisposeAsync();
            Relay.Dispose();
            _way.Dispose();
            Log.Dispose();
        }
    }

    /// <summary>A process of the backup.</summary>
    private sealed class BackupProcess : IAsyncDisposable
    {
        private readonly List<BackupStream> _streams = [];
        private readonly IMetadataStore _metadata;
        private GrpcServer _server = null!;
        private WatermarkRole? _role;
        private FailoverRole? _failovers;
        private WatermarkFollower _follower = null!;
        private readonly Cuts _watermark = new();

        private BackupProcess(IMetadataStore metadata) => _metadata = metadata;

        public int Port => _server.EndPoint.Port;

        /// <summary>Whether it performs failovers.</summary>
        public bool Performs => _failovers is not null;

        public WorldPoint Watermark => _watermark.Recorded;

        public List<(int Stream, VersionLog Log)> Logs { get; } = [];

        public List<Store> Stores { get; } = [];

        public static async Task<BackupProcess> StartAsync(BackupSiteTests site, int number, int[] streams, int port, int watermarkPort)
        {
            var process = new BackupProcess(MetadataStoreFactory.Create(site.Spec));
            await process._metadata.InitializeAsync();
            SiteState state = await process._metadata.SiteAsync("c");
            process._server = new(new() { Listen = new(IPAddress.Loopback, port), Secret = Secret });
            new ShippingService(s => process._streams.Find(x => x.Stream == s)?.Receiver, new("c", site._lease), () => null).AddTo(
                process._server);
            new SiteControlService(process._metadata, "c", () => process._streams,
                serving: () => [.. process._streams.Zip(process.Stores, (stream, store) => (stream.Stream, store.Served))],
                    lease: site._lease).AddTo(process._server);
            if (number == 0)
            {
                process._role = new(process._metadata, "c", state);
                process._role.AddTo(process._server);
            }
            // Of the others a command is told that they do not perform it.
            if (streams.Contains(Streams - 1))
            {
                process._failovers = new(process._metadata, "c", new(streams[0]),
                    SiteCredentials.Load(site.SecretFile, null, null, null).Credentials!, NullLogger.Instance);
                process._failovers.AddTo(process._server);
            }
            await process._server.StartAsync();
            process._follower = new("127.0.0.1", watermarkPort == 0 ? process.Port : watermarkPort, s_channel, "c", process.OnWatermark,
                NullLogger.Instance);
            foreach (int s in streams)
            {
                VersionLog log = site.OpenBackup(s);
                state = (await process._metadata.ChangeSiteAsync("c", x => new(x.TakeStream(new(s), x.Streams[s].Owner + 1), null))).Site;
                await process._metadata.NoteSiteAddressAsync("c", new(s), $"127.0.0.1:{process.Port}");
                Store store = site._stores[s] ??= new();
                store.Log = log;
                process.Logs.Add((s, log));
                process.Stores.Add(store);
                process._streams.Add(new(SeedKit.OpenDisk(site.BackupDirectory(s), log), new(s), store, state, process._metadata, "c",
                    process._follower.Report, NullLogger.Instance));
            }
            return process;
        }

        public async ValueTask DisposeAsync()
        {
            await _server.DisposeAsync();
            await _follower.DisposeAsync();
            if (_failovers is not null) { await _failovers.DisposeAsync(); }
            if (_role is not null) { await _role.DisposeAsync(); }
            foreach (BackupStream stream in _streams)
            {
                Assert.Null(stream.Failure);
                await stream.DisposeAsync();
            }
            foreach ((_, VersionLog log) in Logs) { log.Dispose(); }
            await _metadata.DisposeAsync();
        }

        private void OnWatermark(WorldPoint watermark)
        {
            if (watermark > _watermark.Recorded) { _watermark.Recorded = watermark; }
            foreach (BackupStream stream in _streams.ToArray()) { stream.WatermarkTold(watermark); }
        }
    }

    /// <summary>A store that is only told where to go. It lives on when its process ends, as a Redis does.</summary>
    private sealed class Store : IFollowingStore
    {
        private readonly Cuts _at = new();
        private readonly TaskCompletionSource _served = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public VersionLog? Log { get; set; }

        public Task Served => _served.Task;

        public WorldPoint At => _at.Recorded;

        public WorldPoint Applied => At;

        public Task<bool> RenewAsync(Func<bool> begin, CancellationToken stop) => Task.FromResult(begin());

        public Task BringToAsync(Boundary end, CancellationToken stop)
        {
            Assert.True(end.Point >= At, $"I4: {end.Point} is to be applied, and {At} has been");
            Assert.True(end.Point <= Log!.HeldCut, $"I4: {end.Point} is to be applied, and the log holds {Log.HeldCut}");
            _at.Recorded = end.Point;
            return Task.CompletedTask;
        }

        public Task PromoteAsync(CancellationToken stop) => Task.CompletedTask;

        public void TakeOver(SiteState site) => _served.TrySetResult();
    }
}
