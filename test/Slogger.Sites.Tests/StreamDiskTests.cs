// A stream's disk under seeds and pieces of log, on a disk that tears and forgets, refuses, and stops the process at any operation: what
// was said to be durable is, a copy that is whole can be begun with, and a life
// that is on the disk has its copy and its log. SLOGGER_TEST_SEED to repeat one, SLOGGER_TEST_SEEDS=n for a longer run.
using System.Buffers;
using System.Globalization;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Tests.Simulation;
using Slogger.Replication.Seeding;

namespace Slogger.Sites.Tests;

public sealed class StreamDiskTests
{
    private const string Data = "/backup", Copies = "/primary";

    private static int Seeds => Number("SLOGGER_TEST_SEEDS") ?? 400;

    private static int? Number(string name) =>
        int.TryParse(Environment.GetEnvironmentVariable(name), NumberStyles.None, CultureInfo.InvariantCulture, out int number) ? number
            : null;

    [Fact]
    public void Stream_WithCrashesAndARefusingDisk_HasWhatItSaid()
    {
        int begun = 0, crashes = 0, refusals = 0;
        foreach (int seed in Number("SLOGGER_TEST_SEED") is { } one ? [one] : Enumerable.Range(1, Seeds))
        {
            var world = new World(seed, new SimulatedDisk(seed));
            try
            {
                world.Run(12);
            }
            catch (Exception e)
            {
                throw new InvalidOperationException($"seed {seed}: {e.Message}", e);
            }
            (begun, crashes, refusals) = (begun + world.Begun, crashes + world.Crashes, refusals + world.Refusals);
        }
        Assert.True(begun > 0 && crashes > 0 && refusals > 0, $"{begun} lives, {crashes} crashes, {refusals} refusals");
    }

    // What the rounds rely on: they notice a disk that does not sync.
    [Theory]
    [InlineData(true, false)]
    [InlineData(false, true)]
    public void Disk_DoesNotSync_IsNoticed(bool data, bool directories) => Assert.Contains(Enumerable.Range(1, 400), seed =>
    {
        try
        {
            new World(seed, new SimulatedDisk(seed) { IgnoresDataSync = data, IgnoresDirectorySync = directories }).Run(12);
            return false;
        }
        catch (Exception e) when (e is Xunit.Sdk.XunitException or LogException or InvalidOperationException or InvalidDataException)
        {
            return true;
        }
    });

    // A bit is turned behind what was synced: the copy is not begun with, and nothing of it is left.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Copy_DamagedOnTheDisk_IsNotUsed(bool isCut)
    {
        var disk = new SimulatedDisk(1);
        using VersionLog log = Open(disk);
        var looked = new List<string>();
        using StreamDisk stream = StreamDisk.Open(Data, log, CheckpointStore.Open(Data + "/checkpoints", disk), null, file =>
        {
            looked.Add(file);
            return 0;
        });
        byte[] content = new byte[5000];
        new Random(1).NextBytes(content);
        Seed seed = SeedOf(1, content);
        stream.Write(new(seed, 0, content.Length), new ReadOnlySequence<byte>(content));
        stream.Sync();
        string part = Data + "/stream/copy.part";
        if (isCut)
        {
            using ILogFile file = disk.Open(part, writable: true);
            file.SetLength(4000);
        }
        else { disk.Flip(part, 3000, 0x10); }
        Assert.False(stream.Begin());
        Assert.Empty(looked);
        Assert.Empty(stream.Checkpoints.All);
        Assert.Equal((null, null, 0L, true), (stream.Life, stream.Seed, stream.DurableBytes, log.IsEmpty));
        Assert.DoesNotContain(disk.Paths, p => p.Contains("/stream/", StringComparison.Ordinal)
            || p.EndsWith(".rdb", StringComparison.Ordinal));
        // The next one is.
        stream.Write(new(seed, 0, content.Length), new ReadOnlySequence<byte>(content));
        stream.Sync();
        Assert.True(stream.Begin());
        Assert.Equal(1, stream.Life);
        Assert.Single(looked);
    }

    private static VersionLog Open(SimulatedDisk disk) => VersionLog.Open(new()
    {
        Directory = Data + "/log", Shard = new(0), Files = disk, PrepareInBackground = false,
        SegmentBytes = 16 << 10, BlockBytes = 512, BufferBytes = 4096,
    });

    private static Seed SeedOf(long generation, byte[] content)
    {
        var disk = new SimulatedDisk(0);
        disk.CreateDirectory(Copies);
        string file = Copies + "/copy";
        using (ILogFile copy = disk.Create(file)) { copy.Write(content, 0); }
        long offset = 1000 * generation;
        return new Seed($"copy {generation}", generation, content.Length, new("history", offset),
            new(WorldLine.First, offset, new(generation)), new(WorldLine.First, new(generation + 1)))
        {
            Checksum = CheckpointStore.ChecksumOf(file, disk),
        };
    }

    private sealed class World(int number, SimulatedDisk disk)
    {
        private readonly Random _random = new(number);
        private VersionLog _log = null!;
        private StreamDisk _stream = null!;
        private byte[] _content = [];
        private Seed? _seed;        // the copy that is coming, or that the log began with
        private long _at;           // of it, what was written
        private long _durable;      // of it, what was said to be durable
        private long? _life;        // that was said to have begun
        private bool _isBeginning;
        private (Seed Seed, long Life, long Version, long Logged)? _before;     // until the first piece of another copy is written
        private long _generation;
        private long _logged;       // versions of the log that were said to be durable
        private long _version;

        public int Begun { get; private set; }

        public int Crashes { get; private set; }

        public int Refusals { get; private set; }

        public void Run(int lives)
        {
            for (int life = 0; life < lives; life++)
            {
                try
                {
                    Reopen();
                    Faults();
                    for (int i = 0; i < 60; i++) { Step(); }
                }
                catch (SimulatedCrashException)
                {
                    Crashes++;
                }
                End();
            }
            Reopen();
        }

        private void Faults()
        {
            disk.OperationsUntilCrash = _random.Next(4) == 0 ? -1 : _random.Next(150);
            int kind = _random.Next(5);
            disk.SyncFailureRate = kind == 1 ? 0.1 : 0;
            disk.WriteFailureRate = kind == 2 ? 0.1 : 0;
            disk.DirectorySyncFailureRate = kind == 3 ? 0.1 : 0;
        }

        private void End()
        {
            disk.SyncFailureRate = disk.WriteFailureRate = disk.DirectorySyncFailureRate = 0;
            if (_random.Next(4) == 0) { disk.Kill(); } else { disk.Crash(); }
        }

        private void Reopen()
        {
            _log = Open(disk);
            _stream = StreamDisk.Open(Data, _log, CheckpointStore.Open(Data + "/checkpoints", disk));
            if (_before is { } before && _stream.Life == before.Life)
            {
                (_seed, _life, _version, _logged, _isBeginning) = (before.Seed, before.Life, before.Version, before.Logged, false);
            }
            _before = null;
            if (_stream.Life is { } life)
            {
                bool isKnown = life == _life || (_isBeginning && life == _seed!.Generation);
                Assert.True(isKnown, $"life {life} is there, {_life?.ToString() ?? "none"} had begun");
                Began();
                Check();
            }
            else
            {
                Assert.Null(_life);
                if (_stream.Seed is not { } found || found.Id != _seed?.Id)
                {
                    Assert.True(_durable == 0, $"{_durable} bytes of a copy were durable, and it is gone");
                    _seed = null;
                    return;
                }
                Assert.InRange(_stream.DurableBytes, _durable, found.Bytes);
                _at = _durable = _stream.DurableBytes;
            }
        }

        private void Began()
        {
            if (_life != _seed!.Generation) { Begun++; }
            (_life, _isBeginning, _durable) = (_seed.Generation, false, 0);
        }

        // The copy, and the log behind it.
        private void Check()
        {
            Checkpoint copy = Assert.Single(_stream.Checkpoints.All);
            _stream.Checkpoints.Verify(copy);
            Assert.Equal((_seed!.Bytes, _seed.Checksum, _seed.Base.Offset), (copy.Bytes, copy.Checksum, copy.Offset));
            Assert.Equal(_seed.Base.Offset, _log.Origin.Offset);
            Assert.Equal(copy, _stream.Checkpoints.Latest(_log, _log.EndOffset));
            long closed = _log.DurableEnd.Closed.Number;
            Assert.InRange(closed, Math.Max(_logged, _seed.Base.Closed.Number), Math.Max(_version, _seed.Base.Closed.Number));
            (_version, _logged) = (closed, closed);
        }

        private void Step()
        {
            try
            {
                switch (_random.Next(12))
                {
                    case 0 when _random.Next(3) == 0: BeginCopy(); break;
                    case < 6: Write(); break;
                    case < 8: Sync(); break;
                    case 8: Begin(); break;
                    default: Append(); break;
                }
            }
            catch (Exception e) when (e is IOException or LogIOException { IsFatal: false })
            {
                // As the receiver does.
                Refusals++;
                _stream.Rewind();
                _at = _stream.Seed?.Id == _seed?.Id ? _stream.DurableBytes : 0;
            }
            catch (LogIOException)
            {
                // The process ends.
                throw new SimulatedCrashException();
            }
        }

        // Another life is wanted: the first piece of its copy voids the one before.
        private void BeginCopy()
        {
            _generation++;
            _content = new byte[_random.Next(1, 6000)];
            _random.NextBytes(_content);
            if (_life is { } life) { _before = (_seed!, life, _version, _logged); }
            (_seed, _at, _durable, _life, _isBeginning) = (SeedOf(_generation, _content), 0, 0, null, false);
            (_version, _logged) = (_generation, _generation);
            Write();
        }

        private void Write()
        {
            if (_seed is not { } seed || _life is not null || _isBeginning || _at == seed.Bytes) { return; }
            int bytes = (int)Math.Min(seed.Bytes - _at, _random.Next(1, 2000));
            long at = _at;
            // A crash in the middle may leave a part, and an earlier copy that is void is gone.
            _at += bytes;
            _stream.Write(new(seed, at, bytes), new ReadOnlySequence<byte>(_content, (int)at, bytes));
            _before = null;
        }

        private void Sync()
        {
            if (_seed is null || _life is not null) { return; }
            _stream.Sync();
            _durable = _stream.DurableBytes;
        }

        private void Begin()
        {
            if (_seed is not { } seed || _life is not null || !_stream.HasCopy(seed.Generation)) { return; }
            _isBeginning = true;
            Assert.True(_stream.Begin(), "a copy that was durable is damaged");
            Began();
            Check();
        }

        private void Append()
        {
            if (_life is null || _log.WorldLine != WorldLine.First) { return; }
            _log.Append(new byte[_random.Next(1, 300)]);
            _version++;
            _log.AppendBoundary(new(WorldLine.First, new(_version), _log.EndOffset, 0, HybridTimestamp.Of(_version, 0)));
            if (_random.Next(3) > 0) { return; }
            _log.Sync();
            _logged = _version;
        }
    }
}
