// A log that is shipped while it is written, over a bad link, from processes and to processes that end at any moment and forget what they had not synced: what the
// backup's log holds is at any time a beginning of the primary's, and the cuts that it notes are those that were recorded.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.Shipping;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.Watermarks;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Shipping;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Tests.Shipping;

public sealed class ShippingTests : IAsyncLifetime, IDisposable
{
    private const string ReplicationId = "0123456789abcdef0123456789abcdef01234567";
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(30);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-shipping").FullName;
    private readonly Listener _listener = new();
    private readonly Owner _owner = new();
    private IMetadataStore _metadata = null!;
    private VersionLog _primary = null!;
    private VersionLog _backup = null!;
    private StreamReceiver? _receiver;
    private ShardShipper? _shipper;
    private long _epoch;
    private long _time;

    public async ValueTask InitializeAsync()
    {
        _metadata = MetadataStoreFactory.Create($"sqlite:{Path.Combine(_directory, "backup.db")}");
        await _metadata.InitializeAsync();
        await _metadata.GetOrCreateClusterAsync("c", new() { ShardCount = 1, Grid = [new(new(1), 1_700_000_000_000_000, 5000)] });
        await _metadata.ChangeSiteAsync("c", _ => new(SiteState.BackupOf(1, SiteEpoch.First), null));
        OpenPrimary();
        _primary.Begin(new(ReplicationId, 1000, 0), WorldLine.First, new(1));
        OpenBackup();
        // As when it has been seeded with an empty store.
        _backup.Begin(new(ReplicationId, 1000, 0), WorldLine.First, new(1));
        await _metadata.ChangeSiteAsync("c", s => new(s.Seeded(new(0), 1), null));
    }

    public async ValueTask DisposeAsync()
    {
        if (_receiver is not null) { await _receiver.DisposeAsync(); }
        await _metadata.DisposeAsync();
        _primary.Dispose();
        _backup.Dispose();
        Dispose();
    }

    public void Dispose()
    {
        if (Directory.Exists(_directory)) { Directory.Delete(_directory, recursive: true); }
    }

    [Fact]
    public async Task Log_Shipped_IsAtTheBackupWithItsCuts()
    {
        await StartReceiverAsync();
        await using (ShardShipper shipper = NewShipper(new BadWay(1, () => _receiver, isGood: true)))
        {
            Random random = new(1);
            for (int i = 0; i < 300; i++) { Write(random, shipper); }
            await CatchUpAsync(shipper);
            Assert.Equal(ShipperState.Shipping, shipper.Status.State);
            Assert.Equal(_primary.End.Point, shipper.Status.BackedUp.Point);
        }
        AssertSame();
        Assert.Equal(_owner.Reported, _backup.HeldCut);
    }

    // What the primary has not synced is shipped, and is in nobody's log.
    [Fact]
    public async Task Log_NotDurableAtThePrimary_IsShippedAndNotAppended()
    {
        await StartReceiverAsync();
        await using ShardShipper shipper = NewShipper(new BadWay(1, () => _receiver, isGood: true));
        Append(1, 500);
        shipper.Wake();
        await UntilAsync(() => shipper.Status.Received == _primary.End);
        Assert.Equal(1000, _backup.EndOffset);
        _primary.Sync();
        shipper.Wake();
        await UntilAsync(() => _backup.End == _primary.End);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    public async Task Log_OverABadLinkAndThroughCrashesOfEither_IsTheSame(int seed)
    {
        Random random = new(seed);
        var way = new BadWay(seed, () => _receiver);
        await StartReceiverAsync();
        ShardShipper shipper = NewShipper(way);
        for (int i = 0; i < 1500; i++)
        {
            switch (random.Next(150))
            {
                case 0:
                    // The primary's process ends: what it had not synced it never had.
                    await shipper.DisposeAsync();
                    _primary.Dispose();
                    OpenPrimary();
                    shipper = NewShipper(way);
                    break;
                case 1:
                    await _receiver!.DisposeAsync();
                    _receiver = null;
                    _backup.Dispose();
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
        way.IsGood = true;
        await CatchUpAsync(shipper);
        await shipper.DisposeAsync();
        Assert.Null(_owner.Failure);
        AssertSame();
        Assert.Equal(_listener.RecordedCut, _backup.HeldCut);
        await UntilAsync(() => _owner.AppliedTo == _listener.RecordedCut);
        Assert.Equal(StreamPhase.Counts, (await _metadata.SiteAsync("c")).Streams[0].Phase);
    }

    // Another process owns the shard by then: one that wakes up ships nothing any more, and hears of it.
    [Fact]
    public async Task Shipper_OfAnOlderProcess_IsDeposed()
    {
        await StartReceiverAsync();
        var way = new BadWay(1, () => _receiver, isGood: true);
        await using ShardShipper old = NewShipper(way);
        await UntilAsync(() => old.Status.State == ShipperState.Shipping);
        await using ShardShipper young = NewShipper(way);
        await UntilAsync(() => young.Status.State == ShipperState.Shipping);
        Append(1, 100);
        _primary.Sync();
        old.Wake();
        await UntilAsync(() => _listener.Deposed is not null);
        Assert.Equal((2L, false), (_listener.Deposed!.Value.By.Epoch, _listener.Deposed.Value.IsSite));
        young.Wake();
        await UntilAsync(() => _backup.End == _primary.End);

        // For good: a receiver that starts knows it from SQL.
        await _receiver!.DisposeAsync();
        _receiver = null;
        await StartReceiverAsync();
        _epoch = 0;
        _listener.Deposed = null;
        await using ShardShipper again = NewShipper(way);
        await UntilAsync(() => again.Status.State == ShipperState.Deposed);
        Assert.NotNull(_listener.Deposed);
    }

    [Fact]
    public async Task Failover_Frozen_NothingIsTakenAndTheLogEndsAtTheFinalWatermark()
    {
        await StartReceiverAsync();
        await using ShardShipper shipper = NewShipper(new BadWay(1, () => _receiver, isGood: true));
        for (int v = 1; v <= 20; v++) { Append(v, 50); }
        _primary.Sync();
        _listener.RecordedCut = new(WorldLine.First, new(15));
        shipper.Wake();
        await UntilAsync(() => _backup.HeldCut == _listener.RecordedCut && _backup.DurableEnd == _primary.End);
        await UntilAsync(() => _metadata.SiteAsync("c").GetAwaiter().GetResult().Streams[0].Phase == StreamPhase.Counts);
        SiteEpoch number = (await _metadata.ChangeSiteAsync("c", s => s.Take([]))).Site.Epoch;
        await _receiver!.FreezeAsync(number);
        await UntilAsync(() => _owner.FinalOf is not null);
        Assert.Equal(new FinalReport(number, new(0), 1, 1, _listener.RecordedCut), _owner.FinalOf);
        Append(21, 50);
        _primary.Sync();
        shipper.Wake();
        await UntilAsync(() => _listener.Deposed is { IsSite: true });
        WorldPoint final = _owner.FinalOf!.Value.Held;
        await _metadata.DecideFailoverAsync("c", number, final, []);
        await _receiver.DecidedAsync(number, final);
        await UntilAsync(() => _owner.Opened == number);
        Assert.Equal(final, _owner.AppliedTo);
        Assert.Equal((number.FirstWorldLine, new Version(15), 1000 + (15 * 50)), (_backup.WorldLine, _backup.DurableBoundary!.Value.Version, _backup.EndOffset));
    }

    [Fact]
    public void Message_ThatContradictsItself_IsFlawed()
    {
        LogIndex from = new(WorldLine.First, 1000, new(5)), to = new(WorldLine.First, 1010, new(7));
        ShipRequest.Piece piece = new(new(0), default, from, to, from, default, 1);
        VersionEnd End(long version, long offset, bool isRun = false) => new(new(WorldLine.First, new(version), offset, 0, default), isRun);
        Assert.Null(new ShipMessage(piece, new byte[10], [End(6, 1005), End(7, 1005, isRun: true)]).Flaw);
        ShipMessage[] flawed =
        [
            new(piece, new byte[9], [End(6, 1005), End(7, 1010)]),
            new(piece, new byte[10], [End(6, 1005)]),
            new(piece, new byte[10], [End(7, 1005), End(6, 1006)]),
            new(piece, new byte[10], [End(6, 1006), End(7, 1005)]),
            new(piece, new byte[10], [End(6, 999), End(7, 1005)]),
            new(piece, new byte[10], [End(6, 1005), End(7, 1011)]),
            new(piece with { To = from, From = to }, default, []),
            new(piece with { To = from }, new byte[1], []),
            new(new ShipRequest.Hello(new(0), default, new(ReplicationId, 1000)), new byte[1], []),
        ];
        Assert.All(flawed, m => Assert.NotNull(m.Flaw));
    }

    private void OpenPrimary()
    {
        _epoch++;
        _primary = VersionLog.Open(new() { Directory = Path.Combine(_directory, "primary"), Shard = new(0), Epoch = _epoch, SegmentBytes = 256 << 10, BlockBytes = 4096, BufferBytes = 1 << 20, TailBytes = 64 << 10 });
    }

    private void OpenBackup() =>
        _backup = VersionLog.Open(new() { Directory = Path.Combine(_directory, "backup"), Shard = new(0), SegmentBytes = 256 << 10, BlockBytes = 4096, BufferBytes = 1 << 20 });

    private async Task StartReceiverAsync()
    {
        SiteState site = (await _metadata.ChangeSiteAsync("c", s => new(s.TakeStream(new(0), s.Streams[0].Owner + 1), null))).Site;
        _receiver = new(_backup, new(0), default, _owner.AppliedTo, site, _metadata, "c", _owner, NoLog.Instance);
        _owner.Receiver = _receiver;
    }

    private ShardShipper NewShipper(IShipConnector way)
    {
        ShipperOptions options = new() { PieceBytesMax = 3000, ResendUs = 20_000, HeartbeatUs = 5_000 };
        return _shipper = new(_primary, new(0), new(SiteEpoch.First, _epoch == 0 ? 1 : _listener.NextEpoch(), 1), options, way, _listener, NoLog.Instance);
    }

    private void Append(long version, int bytes)
    {
        _primary.Append(new byte[bytes].Select((_, i) => (byte)(_primary.EndOffset + i)).ToArray());
        _primary.AppendBoundary(new(_primary.WorldLine, new(version), _primary.EndOffset, 0, HybridTimestamp.Of(++_time, 0)));
    }

    private void Write(Random random, ShardShipper shipper)
    {
        byte[] bytes = new byte[random.Next(20) == 0 ? random.Next(20_000) : random.Next(300)];
        random.NextBytes(bytes);
        _primary.Append(bytes);
        Version next = _primary.End.Closed.Next;
        switch (random.Next(8))
        {
            case < 4: _primary.AppendBoundary(new(_primary.WorldLine, next, _primary.EndOffset, 0, HybridTimestamp.Of(++_time, 0))); break;
            case 4: _primary.AppendEmptyRun(new(next.Number + random.Next(5)), HybridTimestamp.Of(++_time, 0)); break;
        }
        if (random.Next(6) == 0) { _primary.Sync(); }
        // The cut follows what is durable, some way behind.
        if (random.Next(4) == 0 && _primary.DurableBoundary is { } durable)
        {
            Version cut = new(Math.Max(_listener.RecordedCut.Version.Number, durable.Version.Number - random.Next(4)));
            if (new WorldPoint(_primary.WorldLine, cut) is var point && point > _listener.RecordedCut && cut <= durable.Version) { _listener.RecordedCut = point; }
        }
        shipper.Wake();
    }

    // A recovery goes back to some version that is durable, none below the recorded cut.
    private void BeginWorldLine(Random random)
    {
        _primary.Sync();
        if (_primary.DurableBoundary is not { } last) { return; }
        Version at = new(random.NextInt64(_listener.RecordedCut.Version.Number, last.Version.Number + 1));
        if (_primary.BoundaryAtOrBelow(at) is not { } branch || branch.Version < _listener.RecordedCut.Version) { return; }
        WorldLine next = _primary.WorldLine.Next;
        _primary.BeginWorldLine(next, branch, ReplicationId);
        _listener.RecordedCut = new(next, branch.Version);
    }

    private async Task CatchUpAsync(ShardShipper shipper)
    {
        _primary.Sync();
        if (_primary.DurableBoundary is { } last && last.Point > _listener.RecordedCut) { _listener.RecordedCut = last.Point; }
        shipper.Wake();
        await UntilAsync(() => _backup.DurableEnd == _primary.End && _backup.HeldCut == _listener.RecordedCut && shipper.Status.BackedUp == _primary.End);
    }

    private void AssertSame()
    {
        Assert.Equal(_primary.End, _backup.End);
        AssertBeginning();
        Assert.Equal(_primary.Boundaries.Select(b => b.Point).Last(), _backup.Boundaries.Select(b => b.Point).Last());
    }

    // Versions that are a run at one may be in a longer run at the other, so versions are looked up, not listed.
    private void AssertBeginning()
    {
        if (_backup.WorldLine < _primary.WorldLine) { return; }
        Assert.True(_backup.End <= _primary.End, $"{_backup.End} is beyond {_primary.End}");
        Assert.Equal(_primary.Branches, _backup.Branches);
        using LogReader at = _primary.OpenReader(1000), there = _backup.OpenReader(1000);
        byte[] a = new byte[4096], b = new byte[4096];
        while (there.Position < _backup.DurableOffset)
        {
            int got = there.Read(b);
            for (int i = 0; i < got;) { i += at.Read(a.AsSpan(i, got - i)); }
            Assert.Equal(a.AsSpan(0, got), b.AsSpan(0, got));
        }
        for (Version v = new(1); v <= _backup.DurableEnd.Closed; v = v.Next)
        {
            Assert.Equal(_primary.BoundaryAtOrBelow(v)?.Offset, _backup.BoundaryAtOrBelow(v)?.Offset);
        }
    }

    private async Task UntilAsync(Func<bool> condition)
    {
        DateTime end = DateTime.UtcNow + Limit;
        while (!condition())
        {
            Assert.Null(_owner.Failure);
            Assert.True(_listener.Failure is null, _listener.Failure);
            Assert.True(DateTime.UtcNow < end, $"it does not come to that: primary {_primary.End}, backup {_backup.End}, held {_backup.HeldCut}, cut {_listener.RecordedCut}, {_shipper?.Status}, {_listener.SeedWanted}");
            await Task.Delay(2);
        }
    }

    private sealed class Listener : IShipperListener
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

        public void OnShippingFailed(string why) => Failure = why;

        public void OnWatermark(WorldPoint watermark)
        {
        }
    }

    private sealed class Owner : IStreamOwner
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

        public void OnFailed(string why) => _failure = why;
    }

    private sealed class NoLog : ILogSink
    {
        public static readonly NoLog Instance = new();

        public bool IsEnabled(LogLevel level) => false;

        public void Write(LogLevel level, string message)
        {
        }
    }
}
