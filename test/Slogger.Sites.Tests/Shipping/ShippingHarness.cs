// The logs of a primary's shard and of its backup, real ones, with real SQL; who writes, recovers and ends, and how what is shipped is
// compared.
using System.Buffers;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;
using Slogger.Replication.Receiving;
using Slogger.Replication.Seeding;
using Slogger.Replication.Sending;

namespace Slogger.Sites.Tests.Shipping;

public abstract class ShippingHarness : IAsyncLifetime, IDisposable
{
    protected const string ReplicationId = "0123456789abcdef0123456789abcdef01234567";
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(30);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-shipping").FullName;
    private ShardShipper? _shipper;
    private long _processes;
    private long _time;

    private protected Listener Shard { get; } = new();

    private protected Owner Backup { get; } = new();

    private protected ShipperOptions Options { get; init; } = new() { PieceBytesMax = 3000, ResendUs = 20_000, HeartbeatUs = 5_000 };

    private protected IMetadataStore Metadata { get; private set; } = null!;

    private protected VersionLog PrimaryLog { get; private set; } = null!;

    private protected VersionLog BackupLog { get; private set; } = null!;

    private protected StreamDisk BackupDisk { get; private set; } = null!;

    private protected StreamReceiver? Receiver { get; set; }

    public async ValueTask InitializeAsync()
    {
        Metadata = MetadataStoreFactory.Create($"sqlite:{Path.Combine(_directory, "backup.db")}");
        await Metadata.InitializeAsync();
        await Metadata.GetOrCreateClusterAsync("c", new() { ShardCount = 1, Grid = [new(new(1), 1_700_000_000_000_000, 5000)] });
        await Metadata.ChangeSiteAsync("c", _ => new(SiteState.BackupOf(1, SiteEpoch.First), null));
        OpenPrimary();
        PrimaryLog.Begin(new(ReplicationId, 1000, 0), WorldLine.First, new(1));
        OpenBackup();
        // As when it has been seeded with an empty store.
        BackupDisk.BeginEmpty(new(ReplicationId, 1000), 1);
        await Metadata.ChangeSiteAsync("c", s => new(s.Seeded(new(0), 1), null));
    }

    public async ValueTask DisposeAsync()
    {
        if (Receiver is not null) { await Receiver.DisposeAsync(); }
        await Metadata.DisposeAsync();
        PrimaryLog.Dispose();
        BackupLog.Dispose();
        Dispose();
    }

    public void Dispose()
    {
        if (Directory.Exists(_directory)) { Directory.Delete(_directory, recursive: true); }
    }

    /// <summary>Writes, syncs, recoveries, and ends of processes at any moment; then calm, and the two logs are compared.</summary>
    private protected async Task CrashesAsync(int seed, Func<IShipConnector> way, Action<Random> onStep, Action onCalm)
    {
        Random random = new(seed);
        await StartReceiverAsync();
        ShardShipper shipper = NewShipper(way());
        for (int i = 0; i < 1500; i++)
        {
            onStep(random);
            switch (random.Next(150))
            {
                case 0:
                    // The primary's process ends: what it had not synced it never had.
                    await shipper.DisposeAsync();
                    PrimaryLog.Dispose();
                    OpenPrimary();
                    shipper = NewShipper(way());
                    break;
                case 1:
                    await Receiver!.DisposeAsync();
                    Receiver = null;
                    BackupLog.Dispose();
                    OpenBackup();
                    AssertBeginning();
                    await StartReceiverAsync();
                    break;
                case 2:
                    BeginWorldLine(random);
                    shipper.Wake();
                    break;
                case 3:
                    await Task.Delay(random.Next(30));
                    break;
                default:
                    Write(random, shipper);
                    break;
            }
        }
        onCalm();
        await CatchUpAsync(shipper);
        await shipper.DisposeAsync();
        Assert.Null(Backup.Failure);
        AssertSame();
        Assert.Equal(Shard.RecordedCut, BackupLog.HeldCut);
        await UntilAsync(() => Backup.AppliedTo == Shard.RecordedCut);
        Assert.Equal(StreamPhase.Counts, (await Metadata.SiteAsync("c")).Streams[0].Phase);
    }

    private protected void OpenPrimary()
    {
        _processes++;
        PrimaryLog = VersionLog.Open(
            new() { Directory = Path.Combine(_directory, "primary"), Shard = new(0), Epoch = _processes, SegmentBytes = 256 << 10,
                BlockBytes = 4096, BufferBytes = 1 << 20, TailBytes = 64 << 10 });
    }

    /// <summary>Makes the primary's oldest file one that cannot be read: but for its beginning it is other bytes.</summary>
    private protected void Damage()
    {
        string file = Directory.GetFiles(Path.Combine(_directory, "primary"), "*.slog").Order(StringComparer.Ordinal).First();
        using FileStream stream = new(file, FileMode.Open, FileAccess.Write, FileShare.ReadWrite);
        stream.Position = 8192;
        stream.Write(new byte[100_000].Select((_, i) => (byte)i).ToArray());
    }

    private protected void OpenBackup()
    {
        BackupLog = VersionLog.Open(
            new() { Directory = Path.Combine(_directory, "backup", "log"), Shard = new(0), SegmentBytes = 256 << 10, BlockBytes = 4096,
                BufferBytes = 1 << 20 });
        BackupDisk = SeedKit.OpenDisk(Path.Combine(_directory, "backup"), BackupLog);
    }

    private protected async Task StartReceiverAsync()
    {
        SiteState site = (await Metadata.ChangeSiteAsync("c", s => new(s.TakeStream(new(0), s.Streams[0].Owner + 1), null))).Site;
        var life = new StreamLife(new(0), site.Streams[0].Owner);
        ReceiverStart start = ((StreamStep.Receive)life.Next(site, BackupDisk.Find(null), Backup.AppliedTo)).Start;
        Receiver = new(BackupDisk, start, Metadata, "c", Backup, NullLogger.Instance);
        Backup.Receiver = Receiver;
    }

    private protected ShardShipper NewShipper(IShipConnector way, long? epoch = null)
    {
        return _shipper = new(PrimaryLog, new(0), new(SiteEpoch.First, epoch ?? Shard.NextEpoch(), 1), Options, way, Shard,
            NullLogger.Instance);
    }

    private protected void Append(long version, int bytes)
    {
        PrimaryLog.Append(new byte[bytes].Select((_, i) => (byte)(PrimaryLog.EndOffset + i)).ToArray());
        PrimaryLog.AppendBoundary(new(PrimaryLog.WorldLine, new(version), PrimaryLog.EndOffset, 0, HybridTimestamp.Of(++_time, 0)));
    }

    private protected void Write(Random random, ShardShipper shipper)
    {
        byte[] bytes = new byte[random.Next(20) == 0 ? random.Next(20_000) : random.Next(300)];
        random.NextBytes(bytes);
        PrimaryLog.Append(bytes);
        VersionNumber next = PrimaryLog.End.Closed.Next;
        switch (random.Next(8))
        {
            case < 4: PrimaryLog.AppendBoundary(
                new(PrimaryLog.WorldLine, next, PrimaryLog.EndOffset, 0, HybridTimestamp.Of(++_time, 0))); break;
            case 4: PrimaryLog.AppendEmptyRun(new(next.Number + random.Next(5)), HybridTimestamp.Of(++_time, 0)); break;
        }
        if (random.Next(6) == 0) { PrimaryLog.Sync(); }
        // The cut follows what is durable, some way behind.
        if (random.Next(4) == 0 && PrimaryLog.DurableBoundary is { } durable)
        {
            VersionNumber cut = new(Math.Max(Shard.RecordedCut.Version.Number, durable.Version.Number - random.Next(4)));
            if (new WorldPoint(PrimaryLog.WorldLine, cut) is var point && point > Shard.RecordedCut && cut <= durable.Version)
            {
                Shard.RecordedCut = point;
            }
        }
        shipper.Wake();
    }

    // A recovery goes back to some version that is durable, none below the recorded cut.
    private void BeginWorldLine(Random random)
    {
        PrimaryLog.Sync();
        VersionNumber at = new(random.NextInt64(Shard.RecordedCut.Version.Number, PrimaryLog.DurableEnd.Closed.Number + 1));
        // Before the first version has ended: to the beginning.
        Boundary branch = PrimaryLog.BoundaryAtOrBelow(at) ?? new(PrimaryLog.WorldLine, VersionNumber.Zero, 1000, 0, default);
        if (branch.Version < Shard.RecordedCut.Version) { return; }
        WorldLine next = PrimaryLog.WorldLine.Next;
        PrimaryLog.BeginWorldLine(next, branch, ReplicationId);
        Shard.RecordedCut = new(next, branch.Version);
    }

    private protected async Task CatchUpAsync(ShardShipper shipper)
    {
        PrimaryLog.Sync();
        if (PrimaryLog.DurableBoundary is { } last && last.Point > Shard.RecordedCut) { Shard.RecordedCut = last.Point; }
        shipper.Wake();
        await UntilAsync(() => BackupLog.DurableEnd == PrimaryLog.End && BackupLog.HeldCut == Shard.RecordedCut
            && shipper.Status.BackedUp == PrimaryLog.End);
    }

    private protected void AssertSame()
    {
        Assert.Equal(PrimaryLog.End, BackupLog.End);
        AssertBeginning();
        Assert.Equal(PrimaryLog.Boundaries.Select(b => b.Point).Last(), BackupLog.Boundaries.Select(b => b.Point).Last());
    }

    // Versions that are a run at one may be in a longer run at the other, so versions are looked up, not listed.
    private void AssertBeginning()
    {
        if (BackupLog.WorldLine < PrimaryLog.WorldLine) { return; }
        Assert.True(BackupLog.End <= PrimaryLog.End, $"{BackupLog.End} is beyond {PrimaryLog.End}");
        Assert.Equal(PrimaryLog.Branches, BackupLog.Branches);
        using LogReader at = PrimaryLog.OpenReader(1000), there = BackupLog.OpenReader(1000);
        byte[] a = new byte[4096], b = new byte[4096];
        while (there.Position < BackupLog.DurableOffset)
        {
            int got = there.Read(b);
            for (int i = 0; i < got;) { i += at.Read(a.AsSpan(i, got - i)); }
            Assert.Equal(a.AsSpan(0, got), b.AsSpan(0, got));
        }
        for (VersionNumber v = new(1); v <= BackupLog.DurableEnd.Closed; v = v.Next)
        {
            Assert.Equal(PrimaryLog.BoundaryAtOrBelow(v)?.Offset, BackupLog.BoundaryAtOrBelow(v)?.Offset);
        }
    }

    private protected async Task UntilAsync(Func<bool> condition)
    {
        DateTime end = DateTime.UtcNow + Limit;
        while (!condition())
        {
            Assert.True(Backup.Failure is null, Backup.Failure);
            Assert.True(Shard.Failure is null, Shard.Failure);
            Assert.True(DateTime.UtcNow < end,
                $"it does not come to that: primary {PrimaryLog.End}, backup {BackupLog.End}, held {BackupLog.HeldCut}, cut "
                    + $"{Shard.RecordedCut}, {_shipper?.Status}, {Shard.SeedWanted}");
            await Task.Delay(2);
        }
    }

    private protected sealed class Listener : IShipperListener
    {
        private readonly Lock _lock = new();
        private WorldPoint _cut;
        private long _epoch;

        public WorldPoint RecordedCut
        {
            get { lock (_lock) { return _cut; } }
            set { lock (_lock) { _cut = value; } }
        }

        public (Sender By, bool IsSite)? Deposed { get; set; }

        public long NextEpoch() => Interlocked.Increment(ref _epoch);

        public void HoldWrites(bool isHeld) => Assert.Fail("Nothing is held here.");

        public string SeedWanted { get; private set; } = "";

        public void OnSeedWanted(long generation, string why) => SeedWanted = why;

        public void OnShippingDeposed(Sender by, bool isSite) => Deposed = (by, isSite);

        public string? Failure { get; private set; }

        public void OnShippingFailed(Exception e) => Failure = e.ToString();

        public void OnWatermark(WorldPoint watermark)
        {
        }
    }

    private protected sealed class Owner : IStreamOwner
    {
        private volatile object? _failure;

        public WorldPoint Reported { get; private set; }

        public WorldPoint AppliedTo { get; private set; }

        public FinalReport? FinalOf { get; private set; }

        public SiteEpoch? Opened { get; private set; }

        public string? Failure => (string?)_failure;

        public StreamReceiver? Receiver { get; set; }

        // With one stream what it holds is the watermark.
        public void Report(WatermarkReport report)
        {
            Reported = report.Held;
            _ = Receiver?.WatermarkToldAsync(report.Held).AsTask();
        }

        public void Apply(WorldPoint to)
        {
            if (to < AppliedTo) { OnFailed($"I4: {to} is to be applied, and {AppliedTo} has been"); }
            AppliedTo = to;
            _ = Receiver?.AppliedAsync(to).AsTask();
        }

        public void Final(FinalReport report) => FinalOf = report;

        public void Open(SiteEpoch number) => Opened = number;

        public void OnReseed(string why) => OnFailed($"it is to be seeded anew: {why}");

        public void OnCopied() => OnFailed("nothing is copied here");

        public void OnFailed(string why) => _failure = why;
    }
}
