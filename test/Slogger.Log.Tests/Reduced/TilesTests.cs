// The past of a shard stays without a hole while it is reduced, trimmed and pruned, and the process or the machine dies at any operation.
using Slogger.Core.Retention;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Reduced;
using Slogger.Log.Tests.Simulation;

namespace Slogger.Log.Tests.Reduced;

public sealed class TilesTests
{
    private const string Directory = "/checkpoints";

    [Fact]
    public void CrashAtAnyOperation_EveryVersionStaysReadable()
    {
        int reduced = 0, dropped = 0;
        for (int seed = 0; seed < 60; seed++)
        {
            var past = new Past(seed, new SimulatedDisk(seed));
            string? wrong = past.Run();
            Assert.True(wrong is null, $"seed {seed}: {wrong}");
            reduced += past.ReadReduced;
            dropped += past.Dropped;
        }
        Assert.True(dropped > 0, "no checkpoint was without versions");
        Assert.True(reduced > 200, $"{reduced} versions were read from reduced files only");
    }

    [Fact]
    public void RawIsDeletedBeforeTheReducedFileIsDurable_IsNoticed() => Assert.Contains(Enumerable.Range(0, 300),
        seed => new Past(seed, new SimulatedDisk(seed)) { TrimsFirst = true }.Run() is not null);

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void DiskDoesNotSync_IsNoticed(bool ofData) => Assert.Contains(Enumerable.Range(0, 300), seed => new Past(
        seed, new SimulatedDisk(seed) { IgnoresDataSync = ofData, IgnoresDirectorySync = !ofData }).Run() is not null);

    [Fact]
    public void CheckpointsHaveChangedMeanwhile_TheFileIsDeleted()
    {
        SimulatedDisk disk = LogFixture.NewDisk();
        using VersionLog log = Written(disk);
        CheckpointStore store = CheckpointStore.Open(Directory, disk);
        Checkpoint[] all = [.. ((long[])[1000, 1100, 1200]).Select(o => Past.Add(store, disk, log, o))];
        Past.WriteReduced(store, disk, all[0], "another.rdb", [Boundary(10, 1050)]);
        Assert.All(CheckpointStore.Open(Directory, disk).Tiles(log), t => Assert.Null(t.Reduced));
        Assert.False(store.AddReduced(log, all[0]));
        Assert.DoesNotContain(disk.List(Directory), n => n.EndsWith(".rlog", StringComparison.Ordinal));
        Assert.All(store.Tiles(log), t => Assert.Null(t.Reduced));
    }

    [Fact]
    public void ReducedFile_GoesWithItsCheckpoint()
    {
        SimulatedDisk disk = LogFixture.NewDisk();
        using VersionLog log = Written(disk);
        CheckpointStore store = CheckpointStore.Open(Directory, disk);
        Checkpoint[] all = [.. ((long[])[1000, 1100, 1200, 1300]).Select(o => Past.Add(store, disk, log, o))];
        foreach (int i in (int[])[0, 1])
        {
            Past.WriteReduced(store, disk, all[i], all[i + 1].FileName, [Boundary(10 + i, all[i].Offset + 50)]);
            Assert.True(store.AddReduced(log, all[i]));
        }
        // The two that it lies between stay, though they lie close together.
        Assert.Equal(1000, store.Prune(log, keep: 1, offset: 1000, apart: 1_000_000));
        Assert.Equal([1000, 1100, 1200, 1300], store.All.Select(c => c.Offset));
        Assert.Equal(1100, store.Prune(log, keep: 1, offset: 1150, apart: 1_000_000));
        Assert.Equal([1100, 1200, 1300], store.Tiles(log).Select(t => t.Base.Offset));
        Assert.Single(disk.List(Directory), n => n.EndsWith(".rlog", StringComparison.Ordinal));
        // One whose checkpoint is gone is a leftover.
        using (ILogFile file = disk.Create($"{Directory}/0000000000000007-00000007.rlog")) { file.Write("left"u8, 0); }
        store = CheckpointStore.Open(Directory, disk);
        Assert.Single(disk.List(Directory), n => n.EndsWith(".rlog", StringComparison.Ordinal));
        Assert.Equal(all[2].FileName, store.Tiles(log)[0].Reduced!.Next);
        store.Clear();
        Assert.Empty(disk.List(Directory));
    }

    // No recovery reads them: a shard starts without.
    [Fact]
    public void ReducedFileIsDamaged_TheOthersAreThere_AndItIsSaid()
    {
        SimulatedDisk disk = LogFixture.NewDisk();
        using VersionLog log = Written(disk);
        CheckpointStore store = CheckpointStore.Open(Directory, disk);
        Checkpoint[] all = [.. ((long[])[1000, 1100, 1200]).Select(o => Past.Add(store, disk, log, o))];
        foreach (int i in (int[])[0, 1])
        {
            Past.WriteReduced(store, disk, all[i], all[i + 1].FileName, [Boundary(10 + i, all[i].Offset + 50)]);
            Assert.True(store.AddReduced(log, all[i]));
        }
        disk.Flip(store.ReducedPathOf(all[0]), 20, 1);
        CheckpointStore again = CheckpointStore.Open(Directory, disk);
        Assert.Single(again.Damaged);
        Assert.Equal([false, true, false], again.Tiles(log).Select(t => t.Reduced is not null));
        // One that cannot be read back is not left for the next start to count on.
        Assert.Throws<LogCorruptException>(() => store.AddReduced(log, all[0]));
        Assert.Empty(CheckpointStore.Open(Directory, disk).Damaged);
    }

    private static VersionLog Written(SimulatedDisk disk)
    {
        VersionLog log = LogFixture.Begun(disk);
        LogFixture.Write(log, 300, 10);
        log.Sync();
        return log;
    }

    private static Boundary Boundary(long version, long offset) =>
        new(WorldLine.First, new VersionNumber(version), offset, 2, default);

    // A log with checkpoints on one disk, and which versions it has to have.
    private sealed class Past(int seed, SimulatedDisk disk)
    {
        private const int Step = 3, Kept = 2;

        private readonly Random _random = new(seed);
        private readonly List<Boundary> _ends = [];
        private VersionLog _log = null!;
        private CheckpointStore _store = null!;
        private long _cut, _trimmedTo, _oldest, _durable, _next = 10;
        private (WorldLine Line, Boundary Branch)? _branching;

        public bool TrimsFirst { get; init; }

        public int ReadReduced { get; private set; }

        public int Dropped { get; private set; }

        public string? Run()
        {
            disk.CreateDirectory(Directory);
            for (int life = 0; life < 12; life++)
            {
                try
                {
                    if (Reopen() is { } wrong) { return $"life {life}: {wrong}"; }
                    disk.OperationsUntilCrash = _random.Next(4) > 0 ? _random.Next(250) : -1;
                    for (int i = _random.Next(20, 60); i > 0; i--) { Do(); }
                }
                catch (SimulatedCrashException)
                {
                }
                disk.OperationsUntilCrash = -1;
                if (_random.Next(3) == 0) { disk.Kill(); }
                else { disk.Crash(); }
            }
            return Reopen();
        }

        private string? Reopen()
        {
            while (true)
            {
                disk.OperationsUntilCrash = _random.Next(3) == 0 ? _random.Next(15) : -1;
                try
                {
                    _log = VersionLog.Open(LogFixture.Options(disk));
                    _store = CheckpointStore.Open(Directory, disk);
                    if (_store.Damaged.Count > 0) { return _store.Damaged[0]; }
                    break;
                }
                catch (SimulatedCrashException)
                {
                    disk.Crash();
                }
                catch (LogCorruptException e)
                {
                    return e.Message;
                }
            }
            disk.OperationsUntilCrash = -1;
            if (_log.IsEmpty)
            {
                _log.Begin(LogFixture.Origin, WorldLine.First, new VersionNumber(10));
                (_cut, _oldest, _durable) = (LogFixture.Origin.Offset, LogFixture.Origin.Offset, LogFixture.Origin.Offset);
                Add(_store, disk, _log, _log.EndOffset);
            }
            if (_branching is { } begun && _log.WorldLine == begun.Line) { Branched(begun.Branch); }
            _branching = null;
            if (_log.DurableOffset < _durable) { return $"the log ends at {_log.DurableOffset}, durable was {_durable}"; }
            _ends.RemoveAll(e => e.Version > (_log.LastBoundary?.Version ?? VersionNumber.Zero));
            return Wrong();
        }

        private void Do()
        {
            switch (_random.Next(12))
            {
                case < 5:
                    _ends.Add(LogFixture.Write(_log, _random.Next(100, 1500), _next++));
                    if (_random.Next(3) == 0) { _log.Append(LogFixture.Stream(_log.EndOffset, 70)); }
                    Sync();
                    break;
                case 5:
                    if (_ends.Count > 0) { _cut = Math.Max(_cut, _ends[_random.Next(_ends.Count)].Offset); }
                    break;
                case 6:
                    // It may lie within a version.
                    Add(_store, disk, _log, _log.EndOffset);
                    break;
                case 7:
                    Prune();
                    break;
                case 8 when _random.Next(3) == 0:
                    Branch();
                    break;
                default:
                    Reduce();
                    break;
            }
        }

        private void Sync()
        {
            _log.Sync();
            _durable = _log.DurableOffset;
        }

        private void Prune()
        {
            long below = _random.Next(4) > 0 ? _log.Origin.Offset : _random.NextInt64(_log.Origin.Offset, _cut + 1);
            Tile[] free = [.. _store.Tiles(_log).Where(t => t.Base.Offset <= below)];
            if (free.Length >= Kept) { _oldest = Math.Max(_oldest, free[^Kept].Base.Offset); }
            _store.Prune(_log, Kept, below, apart: 2000);
            Trim();
        }

        private void Branch()
        {
            // Nothing goes back below the cut.
            if (_ends.FindLast(e => e.Offset >= _cut) is not { Offset: > 0 } branch) { return; }
            branch = _ends[_random.Next(_ends.FindIndex(e => e.Offset >= _cut), _ends.Count)];
            _branching = (_log.WorldLine.Next, branch);
            _durable = Math.Min(_durable, branch.Offset);
            _log.BeginWorldLine(_log.WorldLine.Next, branch, LogFixture.ReplicationId);
            Branched(branch);
            _branching = null;
            _store.CarryForward(_log);
        }

        private void Branched(Boundary branch)
        {
            _ends.RemoveAll(e => e.Version > branch.Version);
            _durable = Math.Min(_durable, branch.Offset);
        }

        private TilePlan? Plan()
        {
            TileBase[] bases = [.. _store.Tiles(_log).Select(t => new TileBase(t.Base.Offset, t.Reduced is not null))];
            return bases.Length == 0 ? null : TilePlan.Of(bases, new()
            {
                Cut = _cut, Detail = long.MaxValue, Held = long.MaxValue, Needed = long.MaxValue,
            }, Kept);
        }

        private void Reduce()
        {
            if (Plan() is { } plan)
            {
                IReadOnlyList<Tile> tiles = _store.Tiles(_log);
                Boundary[] EndsOf(Checkpoint from, Checkpoint to) =>
                    [.. _log.Boundaries.Where(b => b.Offset >= from.Offset && b.Offset < to.Offset)];
                (IReadOnlyList<int> between, IReadOnlyList<int> idle) =
                    plan.Next(i => i + 1 < tiles.Count && EndsOf(tiles[i].Base, tiles[i + 1].Base).Length == 0);
                foreach (int at in idle)
                {
                    _store.Drop(tiles[at].Base);
                    Dropped++;
                }
                if (between.Count > 1 && EndsOf(tiles[between[0]].Base, tiles[between[1]].Base) is { Length: > 0 } ends)
                {
                    (Checkpoint from, Checkpoint to) = (tiles[between[0]].Base, tiles[between[1]].Base);
                    if (TrimsFirst) { _log.TrimBefore(_trimmedTo = Math.Max(_trimmedTo, to.Offset)); }
                    WriteReduced(_store, disk, from, to.FileName, ends);
                    _store.AddReduced(_log, from);
                }
            }
            Trim();
        }

        private void Trim()
        {
            if (Plan() is not { } plan) { return; }
            _trimmedTo = Math.Max(_trimmedTo, plan.RawFrom);
            _log.TrimBefore(plan.RawFrom);
        }

        // Each window has the numbers of its versions.
        public static void WriteReduced(CheckpointStore store, SimulatedDisk disk, Checkpoint from, string to, Boundary[] ends)
        {
            using var writer = new ReducedFileWriter(disk, store.ReducedPathOf(from));
            var lines = new List<WorldPoint>();
            Boundary first = default;
            for (int i = 0; i < ends.Length; i++)
            {
                writer.Append(BitConverter.GetBytes(ends[i].Version.Number));
                if (i % Step != Step - 1 && i < ends.Length - 1) { continue; }
                if (lines.Count == 0) { first = ends[i]; }
                if (lines.Count == 0 || lines[^1].WorldLine != ends[i].WorldLine) { lines.Add(ends[i].Point); }
                writer.EndWindow(ends[i], ends[i].Version);
            }
            writer.Finish(new()
            {
                FirstOffset = from.Offset, LastOffset = ends[^1].Offset, FirstDatabase = 0, First = first.Version, Last = ends[^1].Version,
                EndsAtGap = false, CommandsBefore = 0, CommandsAfter = 0, Next = to, Lines = lines,
            });
        }

        public static Checkpoint Add(CheckpointStore store, SimulatedDisk disk, VersionLog log, long offset)
        {
            string path = store.NewTemporaryPath();
            using (ILogFile file = disk.Create(path)) { file.Write("data"u8, 0); }
            return store.Add(path, new Checkpoint
            {
                Origin = log.Origin, ReplicationId = log.ReplicationId, Offset = offset, Database = 0, WorldLine = log.WorldLine.Number,
                CreatedAt = DateTimeOffset.UnixEpoch,
            });
        }

        private string? Wrong()
        {
            IReadOnlyList<Tile> tiles = _store.Tiles(_log);
            if (tiles.Count == 0 || tiles[0].Base.Offset > _oldest) { return $"no tile begins at or below {_oldest}"; }
            if (_log.StartOffset > Math.Max(_trimmedTo, _log.Origin.Offset)) { return $"the log begins at {_log.StartOffset}"; }
            if (TilePlan.HoleIn([.. tiles.Select(t => new TileBase(t.Base.Offset, t.Reduced is not null))], _log.StartOffset) is { } hole)
            {
                return $"there is a hole behind {hole}";
            }
            foreach (Boundary end in _ends.Where(e => e.Offset >= _oldest))
            {
                if (Unreadable(end, tiles) is { } why) { return $"version {end.Version} at {end.Offset}: {why}"; }
            }
            return null;
        }

        private string? Unreadable(Boundary end, IReadOnlyList<Tile> tiles)
        {
            if (_log.BoundaryAtOrBelow(end.Version) is { } raw && _store.Latest(_log, raw.Offset) is { } below)
            {
                using LogReader reader = _log.OpenReader(below.Offset, end.Offset);
                byte[] bytes = new byte[end.Offset - below.Offset];
                for (int at = 0, read; at < bytes.Length; at += read)
                {
                    if ((read = reader.Read(bytes.AsSpan(at))) == 0) { return "the log ends before it"; }
                }
                return bytes.AsSpan().SequenceEqual(LogFixture.Stream(below.Offset, bytes.Length)) ? null : "the log has other bytes";
            }
            Tile tile = tiles.LastOrDefault(t => t.Base.Offset <= end.Offset);
            if (tile.Reduced is null) { return "its tile is not reduced"; }
            using ReducedFile file = ReducedFile.Open(disk, _store.ReducedPathOf(tile.Base));
            ReadReduced++;
            Boundary[] had = [.. _ends.Where(e => e.Offset >= tile.Base.Offset && e.Offset <= file.Windows[^1].End.Offset)];
            byte[] numbers = new byte[file.DataBytes];
            for (int at = 0, read; (read = file.Read(at, numbers.AsSpan(at))) > 0; at += read) { }
            if (!numbers.AsSpan().SequenceEqual(had.SelectMany(e => BitConverter.GetBytes(e.Version.Number)).ToArray()))
            {
                return "the reduced file has other versions";
            }
            if (had.Length == 0 || had[^1].Version < end.Version) { return "the reduced file ends before it"; }
            int place = Array.IndexOf(had, had.First(h => h.Version == end.Version));
            VersionNumber earliest = place < Step - 1 ? VersionNumber.Zero : had[place - (Step - 1)].Version;
            return earliest > VersionNumber.Zero && !file.Windows.Any(w => w.End.Version <= end.Version && w.End.Version >= earliest)
                ? "no window ends shortly before it" : null;
        }
    }
}
