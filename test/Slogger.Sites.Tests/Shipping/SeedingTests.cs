// A stream that is seeded over a bad link, while either process ends at any moment, copies are lost or damaged, the primary recovers behind
// what was copied, and its log begins anew: in the end the backup has a whole copy and the log from there on, byte for byte, and never
// anything else.
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Following;
using Slogger.Replication.Seeding;
using Slogger.Replication.Sending;
using Slogger.Sites.Streams;

namespace Slogger.Sites.Tests.Shipping;

public sealed class SeedingTests : IAsyncLifetime
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-seeding").FullName;
    private readonly Store _store = new();
    private IMetadataStore _metadata = null!;
    private Shard _primary = null!;
    private ShardShipper? _shipper;
    private VersionLog _log = null!;
    private StreamDisk _disk = null!;
    private BackupStream? _stream;
    private BadWay _way = null!;
    private long _epoch;

    public async ValueTask InitializeAsync()
    {
        _metadata = MetadataStoreFactory.Create($"sqlite:{Path.Combine(_directory, "backup.db")}");
        await _metadata.InitializeAsync();
        await _metadata.GetOrCreateClusterAsync("c", new() { ShardCount = 1, Grid = [new(new(1), 1_700_000_000_000_000, 5000)] });
        await _metadata.ChangeSiteAsync("c", _ => new(SiteState.BackupOf(1, SiteEpoch.First), null));
        _primary = new(Path.Combine(_directory, "primary"));
    }

    public async ValueTask DisposeAsync()
    {
        if (_shipper is not null) { await _shipper.DisposeAsync(); }
        if (_stream is not null) { await StopBackupAsync(); }
        _primary.Dispose();
        await _metadata.DisposeAsync();
        Directory.Delete(_directory, recursive: true);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    public async Task Stream_SeededThroughWhateverHappens_HasACopyAndTheLogBehindIt(int seed)
    {
        Random random = new(seed);
        _way = new(seed, () => _stream?.Receiver);
        await StartBackupAsync();
        NewShipper();
        for (int i = 0; i < 1500; i++)
        {
            switch (random.Next(170))
            {
                case 0: await RestartPrimaryAsync(); break;
                case 1:
                    await StopBackupAsync();
                    await StartBackupAsync();
                    break;
                case 2 when random.Next(4) == 0: await BeginAnewAsync(random); break;
                case 3: _primary.BeginWorldLine(random); break;
                case 4: _primary.Damage(random); break;
                case 5: _primary.LoseCopy(); break;
                case 6 when random.Next(4) == 0: await _metadata.ChangeSiteAsync(
                    "c", s => s.Reseed(new(0), s.Streams[0].Generation)); break;
                case < 12: await Task.Delay(random.Next(10)); break;
                default: _primary.Write(random); break;
            }
            _primary.CopyIfWanted(random);
            _shipper!.Wake();
        }
        _way.IsGood = true;
        await FollowedAsync(random);
        AssertSame();
        Assert.Equal(_primary.RecordedCut, _store.Applied);
    }

    // Whoever has the stream next, with a disk of its own, has nothing of it.
    [Fact]
    public async Task Stream_TakenByAProcessWithAnEmptyDisk_IsSeededAnew()
    {
        Random random = new(5);
        _way = new(5, () => _stream?.Receiver, isGood: true);
        await StartBackupAsync();
        NewShipper();
        await FollowedAsync(random);
        await StopBackupAsync();
        Directory.Delete(BackupDirectory, recursive: true);
        await StartBackupAsync();
        await FollowedAsync(random);
        Assert.Equal(2, (await _metadata.SiteAsync("c")).Streams[0].Generation);
        AssertSame();
    }

    // The same disk: it goes on, and nothing is copied.
    [Fact]
    public async Task Stream_OfAProcessThatIsStartedAgain_GoesOnWithItsLog()
    {
        Random random = new(6);
        _way = new(6, () => _stream?.Receiver, isGood: true);
        await StartBackupAsync();
        NewShipper();
        await FollowedAsync(random);
        await StopBackupAsync();
        await StartBackupAsync();
        for (int i = 0; i < 50; i++) { _primary.Write(random); }
        await FollowedAsync(random);
        Assert.Equal(1, (await _metadata.SiteAsync("c")).Streams[0].Generation);
        AssertSame();
    }

    // Given up, and wanted again: what lies between is gone.
    [Fact]
    public async Task Backup_GivenUpAndAttached_IsSeededAnew()
    {
        Random random = new(7);
        _way = new(7, () => _stream?.Receiver, isGood: true);
        await StartBackupAsync();
        NewShipper(new() { PieceBytesMax = 3000, ResendUs = 20_000, HeartbeatUs = 5_000, BudgetBytes = 200_000,
            AtBudget = BudgetChoice.Detach });
        await FollowedAsync(random);
        await StopBackupAsync();
        while (_shipper!.Status.State != ShipperState.Detached)
        {
            _primary.Write(random);
            _shipper.Wake();
            await Task.Delay(1);
        }
        for (int i = 0; i < 50; i++) { _primary.Write(random); }
        await StartBackupAsync();
        Assert.Equal(ShipperState.Detached, _shipper.Status.State);
        Assert.True(_shipper.Attach());
        await FollowedAsync(random);
        Assert.Equal(2, (await _metadata.SiteAsync("c")).Streams[0].Generation);
        AssertSame();
    }

    private string BackupDirectory => Path.Combine(_directory, "backup");

    private async Task StartBackupAsync()
    {
        _log = VersionLog.Open(new() { Directory = Path.Combine(BackupDirectory, "log"), Shard = new(0), SegmentBytes = 256 << 10,
            BlockBytes = 4096, BufferBytes = 1 << 20 });
        _disk = SeedKit.OpenDisk(BackupDirectory, _log);
        SiteState site = (await _metadata.ChangeSiteAsync("c", s => new(s.TakeStream(new(0), s.Streams[0].Owner + 1), null))).Site;
        if (!_disk.Holds(site.Streams[0].Generation)) { _store.Applied = default; }
        _stream = new(_disk, new(0), _store, site, _metadata, "c", report => _stream?.WatermarkTold(report.Held), NullLogger.Instance);
    }

    private async Task StopBackupAsync()
    {
        Assert.Null(_stream!.Failure);
        await _stream.DisposeAsync();
        _stream = null;
        _disk.Dispose();
        _log.Dispose();
    }

    private void NewShipper(ShipperOptions? options = null) => _shipper = new(
        _primary.Log, new(0), new(SiteEpoch.First, ++_epoch, 1), options
            ?? new() { PieceBytesMax = 3000, WindowBytes = 20_000, ResendUs = 20_000, HeartbeatUs = 5_000 }, _way, _primary,
            NullLogger.Instance);

    private async Task RestartPrimaryAsync()
    {
        await _shipper!.DisposeAsync();
        _primary.Restart();
        NewShipper();
    }

    private async Task BeginAnewAsync(Random random)
    {
        await _shipper!.DisposeAsync();
        _primary.BeginAnew(random);
        NewShipper();
    }

    private async Task FollowedAsync(Random random)
    {
        DateTime end = DateTime.UtcNow + Limit;
        while (true)
        {
            _primary.Write(random);
            _primary.CopyIfWanted(random);
            _primary.CommitAll();
            _shipper!.Wake();
            for (int looks = 0; looks < 20; looks++)
            {
                bool isThere = _log.IsEmpty == false && _stream!.Receiver is { IsSeeded: true } && _log.DurableEnd == _primary.Log.End
                    && _log.HeldCut == _primary.RecordedCut
                    && _store.Applied == _primary.RecordedCut && _shipper.Status.State == ShipperState.Shipping;
                if (isThere && (await _metadata.SiteAsync("c")).Streams[0].Phase == StreamPhase.Counts) { return; }
                await Task.Delay(2);
            }
            Assert.Null(_stream!.Failure);
            Assert.Null(_primary.Failure);
            Assert.True(DateTime.UtcNow < end,
                $"it does not come to that: {_shipper.Status}, {_stream.Seeding}, primary {_primary.Log.End}, backup "
                    + $"{(_log.IsEmpty ? "empty" : _log.End)}, {_primary.RecordedCut}");
        }
    }

    private void AssertSame()
    {
        Seed seed = _disk.Seed!;
        Checkpoint copy = Assert.Single(_disk.Checkpoints.All);
        Assert.Equal(_primary.Contents[seed.Id], File.ReadAllBytes(_disk.Checkpoints.PathOf(copy)));
        Assert.Equal((seed.Base.Offset, seed.Base.Offset), (copy.Offset, _log.Origin.Offset));
        using LogReader at = _primary.Log.OpenReader(seed.Base.Offset), there = _log.OpenReader(seed.Base.Offset);
        byte[] a = new byte[4096], b = new byte[4096];
        while (there.Position < _log.DurableOffset)
        {
            int got = there.Read(b);
            for (int i = 0; i < got;) { i += at.Read(a.AsSpan(i, got - i)); }
            Assert.Equal(a.AsSpan(0, got), b.AsSpan(0, got));
        }
        for (VersionNumber v = seed.Floor.Version; v <= _log.DurableEnd.Closed; v = v.Next)
        {
            Assert.Equal(_primary.Log.BoundaryAtOrBelow(v)?.Offset, _log.BoundaryAtOrBelow(v)?.Offset);
        }
    }

    /// <summary>The primary's shard: its log, and copies of a store that is anything.</summary>
    private sealed class Shard : IShipperListener, IDisposable
    {
        private readonly string _directory;
        private readonly Lock _lock = new();
        private WorldPoint _cut = new(WorldLine.First, VersionNumber.Zero);
        private SeedCopy? _copy;
        private long _wanted;
        private long _time;
        private int _begun;

        public Shard(string directory)
        {
            _directory = directory;
            Log = Open();
            Log.Begin(new(Id, 1000, 0), WorldLine.First, new(1));
        }

        public VersionLog Log { get; private set; }

        public Dictionary<string, byte[]> Contents { get; } = [];

        public string? Failure { get; private set; }

        public WorldPoint RecordedCut
        {
            get { lock (_lock) { return _cut; } }
            private set { lock (_lock) { _cut = value; } }
        }

        private string Id => $"{_begun:D40}";

        private VersionLog Open() =>
            VersionLog.Open(new() { Directory = _directory, Shard = new(0), Epoch = ++_epochs, SegmentBytes = 256 << 10, BlockBytes = 4096,
                BufferBytes = 1 << 20, TailBytes = 64 << 10 });

        private long _epochs;

        public void Restart()
        {
            Log.Dispose();
            Log = Open();
            LoseCopy();
        }

        public void BeginAnew(Random random)
        {
            CommitAll();
            _begun++;
            WorldLine next = Log.WorldLine.Next;
            VersionNumber cut = RecordedCut.Version;
            Log.Begin(new(Id, random.Next(100, 5000), 0), next, cut.Next);
            RecordedCut = new(next, cut);
        }

        public void BeginWorldLine(Random random)
        {
            Log.Sync();
            VersionNumber at = new(random.NextInt64(RecordedCut.Version.Number, Log.DurableEnd.Closed.Number + 1));
            if (Log.BoundaryAtOrBelow(at) is not { } branch || branch.Version < RecordedCut.Version) { return; }
            WorldLine next = Log.WorldLine.Next;
            Log.BeginWorldLine(next, branch, Id);
            RecordedCut = new(next, branch.Version);
        }

        public void Write(Random random)
        {
            byte[] bytes = new byte[random.Next(300)];
            random.NextBytes(bytes);
            Log.Append(bytes);
            switch (random.Next(8))
            {
                case < 4: Close(); break;
                case 4: Log.AppendEmptyRun(new(Log.End.Closed.Number + 1 + random.Next(5)), HybridTimestamp.Of(++_time, 0)); break;
            }
            if (random.Next(6) == 0) { Log.Sync(); }
            if (random.Next(30) == 0 && Log.DurableBoundary is { } durable && new WorldPoint(Log.WorldLine, durable.Version) is var point
                && point > RecordedCut)
            {
                RecordedCut = point;
            }
        }

        public void CommitAll()
        {
            Log.Sync();
            if (Log.DurableEnd.Point > RecordedCut) { RecordedCut = Log.DurableEnd.Point; }
        }

        // As the shard's control task does: the store is somewhere in the stream, inside a version perhaps.
        public void CopyIfWanted(Random random)
        {
            lock (_lock)
            {
                if (_wanted == 0 || _copy?.Seed.Generation == _wanted) { return; }
            }
            LogIndex before = Log.End;
            Log.Append(new byte[random.Next(50)]);
            long offset = Log.EndOffset;
            Log.Append(new byte[random.Next(50)]);
            Close();
            Log.Sync();
            (VersionNumber closed, VersionNumber floor) = Log.FloorAt(offset, before.Closed)!.Value;
            byte[] content = new byte[random.Next(60_000)];
            random.NextBytes(content);
            string id = Guid.NewGuid().ToString("N"), file = Path.Combine(_directory, id);
            File.WriteAllBytes(file, content);
            Contents[id] = content;
            lock (_lock)
            {
                _copy = new(new(id, _wanted, content.Length, Log.History, new(before.WorldLine, offset, closed),
                    new(before.WorldLine, floor)) { Checksum = CheckpointStore.ChecksumOf(file) }, file);
                _wanted = 0;
            }
        }

        public void LoseCopy()
        {
            lock (_lock)
            {
                if (_copy is { } copy) { File.Delete(copy.File); }
                _copy = null;
            }
        }

        public void Damage(Random random)
        {
            lock (_lock)
            {
                if (_copy is not { Seed.Bytes: > 0 } copy) { return; }
                using FileStream file = new(copy.File, FileMode.Open, FileAccess.Write, FileShare.ReadWrite);
                file.Position = random.NextInt64(copy.Seed.Bytes);
                byte was = Contents[copy.Seed.Id][file.Position];
                file.WriteByte((byte)(was ^ 1));
            }
        }

        public SeedCopy? CopyOf(long generation)
        {
            lock (_lock) { return _copy?.Seed.Generation == generation ? _copy : null; }
        }

        public void OnSeedWanted(long generation, string why)
        {
            lock (_lock)
            {
                if (_copy?.Seed.Generation == generation) { _copy = null; }
                _wanted = generation;
            }
        }

        public void HoldWrites(bool isHeld)
        {
        }

        public void OnShippingDeposed(Sender by, bool isSite) => Failure = $"deposed by {by}";

        public void OnShippingFailed(Exception e) => Failure = e.ToString();

        public void OnWatermark(WorldPoint watermark)
        {
        }

        public void Dispose() => Log.Dispose();

        private void Close() => Log.AppendBoundary(
            new(Log.WorldLine, Log.End.Closed.Next, Log.EndOffset, 0, HybridTimestamp.Of(++_time, 0)));
    }

    private sealed class Store : IFollowingStore
    {
        private readonly Lock _lock = new();
        private WorldPoint _at;

        public WorldPoint Applied
        {
            get { lock (_lock) { return _at; } }
            set { lock (_lock) { _at = value; } }
        }

        public Task<bool> RenewAsync(Func<bool> begin, CancellationToken stop)
        {
            bool hasBegun = begin();
            if (hasBegun) { Applied = default; }
            return Task.FromResult(hasBegun);
        }

        public Task BringToAsync(Boundary end, CancellationToken stop)
        {
            Assert.True(end.Point >= Applied, $"I4: {end.Point} is to be applied, and {Applied} has been");
            Applied = end.Point;
            return Task.CompletedTask;
        }

        public Task PromoteAsync(CancellationToken stop) => Task.CompletedTask;

        public void TakeOver(SiteState site)
        {
        }
    }
}
