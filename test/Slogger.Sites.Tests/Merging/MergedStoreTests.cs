// A shard that is put together from several streams, against a model of what each version holds: world-lines begin, streams are seeded
// anew, and the process dies at any operation of the disk that has the shard's log. SLOGGER_TEST_MERGES=n for a longer run; a failure
// prints its seed.
using System.Buffers;
using System.Buffers.Binary;
using System.Globalization;
using System.Text;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Tests.Simulation;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Drills;
using Slogger.Proxy.Ports;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;
using Slogger.Replication.Following;
using Slogger.Sites.Merging;

namespace Slogger.Sites.Tests.Merging;

public sealed class MergedStoreTests
{
    private static int Runs =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_MERGES"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int runs) ? runs : 8;

    [Theory]
    [InlineData(2, 1)]
    [InlineData(1, 2)]
    [InlineData(2, 3)]
    [InlineData(3, 2)]
    public async Task Versions_WithCrashesAtAnyOperation_AreThoseOfTheModel(int sources, int shards)
    {
        int crashes = 0, brought = 0;
        for (int seed = 1; seed <= Runs; seed++)
        {
            await using var world = new World(new(sources, shards), seed % shards, seed);
            try
            {
                await world.RunAsync(60);
            }
            catch (Exception e)
            {
                throw new InvalidOperationException($"seed {seed}: {e.Message}", e);
            }
            (crashes, brought) = (crashes + world.Crashes, brought + world.Brought);
        }
        Assert.True(crashes > 0 && brought > Runs, $"{crashes} crashes, {brought} times at a version");
    }

    private sealed class World : IAsyncDisposable, IFollowingShard
    {
        private readonly StreamLayout _layout;
        private readonly int _shard;
        private readonly Random _random;
        private readonly string _directory = Directory.CreateTempSubdirectory("slogger-merge").FullName;
        private readonly SimulatedDisk _disk;
        private readonly Source[] _sources;
        private readonly SortedDictionary<long, Dictionary<string, string>> _states = [];
        private readonly List<(WorldLine Line, long Version)> _lines = [(WorldLine.First, 0)];
        private MergedStore? _store;
        private long _version = 10, _told = 10, _generation, _epoch;
        private WorldPoint _applied;

        public World(StreamLayout layout, int shard, int seed)
        {
            (_layout, _shard, _random, _disk) = (layout, shard, new(seed), new(seed));
            _sources = [.. Enumerable.Range(0, layout.Sources).Select(s => new Source(SlotMap.EvenSlots(layout.Sources, s)))];
            Checkpoints = CheckpointStore.Open(Path.Combine(_directory, "checkpoints"));
            Log = null!;
        }

        public ICohortShard? Cohort => null;

        public bool StoreFollows => true;

        public int Crashes { get; private set; }

        public int Brought { get; private set; }

        public VersionLog Log { get; private set; }

        public CheckpointStore Checkpoints { get; private set; }

        public async Task RunAsync(int steps)
        {
            Open();
            for (int i = 0; i < 20; i++) { WriteVersion(attached: false); }
            Seed();
            for (int i = 0; i < steps; i++)
            {
                switch (_random.Next(10))
                {
                    case 0 when _version > _told: BeginWorldLine(); break;
                    case 1 when _random.Next(5) == 0: Seed(); break;
                    case < 5: WriteVersion(attached: true); break;
                    default: await TellAsync(); break;
                }
            }
            WriteVersion(attached: true);
            _disk.OperationsUntilCrash = -1;
            await BringAsync(_version);
            // The site takes over: more than one of the streams says so.
            WorldLine rule = new SiteEpoch(2).FirstWorldLine;
            foreach (MergedStream _ in _store!.Streams) { await _store.EnterAsync(rule, default); }
            Assert.Equal((new WorldPoint(rule, new(_version)), Log.EndOffset),
                (Log.LastBoundary!.Value.Point, Log.LastBoundary.Value.Offset));
        }

        private void Open()
        {
            _disk.OperationsUntilCrash = -1;
            var options = new VersionLogOptions { Directory = "/shard", Shard = new(_shard), Epoch = ++_epoch, Files = _disk,
                PrepareInBackground = false, SegmentBytes = 16 << 10, BlockBytes = 512, BufferBytes = 1024, TailBytes = 4096 };
            Log = VersionLog.Open(options);
            _store = MergedStore.Open(this, new(_shard), _epoch, _directory, _layout, NullLogger.Instance,
                new VersionLogOptions { Directory = "", Shard = default, PrepareInBackground = false, SegmentBytes = 64 << 10,
                    BlockBytes = 4096, BufferBytes = 32 << 10, TailBytes = _random.Next(2) * 4096 });
            foreach (MergedStream stream in _store.Streams) { _sources[stream.Source].Stream = stream; }
        }

        private void Crash()
        {
            Crashes++;
            // The streams' logs are on another disk, and end in order; the shard's is left as it is.
            _store!.Dispose();
            _disk.Crash();
            if (_random.Next(2) == 0) { _applied = default; }
            Open();
        }

        // Copies of all sources as they are just now, in the middle of a version.
        private void Seed()
        {
            _generation++;
            foreach (MergedStream stream in _store!.Streams)
            {
                Source source = _sources[stream.Source];
                byte[] copy = source.Copy();
                string file = Path.Combine(_directory, "copy");
                File.WriteAllBytes(file, copy);
                var seed = new Seed($"{stream.Source}-{_generation}", _generation, copy.Length, new("history", source.Offset),
                    new(_lines[^1].Line, source.Offset, new(_version)),
                        new(_lines[^1].Line, new(_version + 1))) { Checksum = CheckpointStore.ChecksumOf(file) };
                stream.Disk.Write(new(seed, 0, copy.Length), new ReadOnlySequence<byte>(copy));
                stream.Disk.Sync();
                Assert.True(((IFollowingStore)stream).RenewAsync(stream.Disk.Begin, default).GetAwaiter().GetResult());
            }
            // The first version that all can be brought to.
            WriteVersion(attached: true);
            _told = Math.Max(_told, _version - 1);
        }

        private void WriteVersion(bool attached)
        {
            _version++;
            foreach (Source source in _sources)
            {
                byte[] written = source.Write(_random);
                if (!attached || source.Stream is not { } stream || stream.Disk.Life is null) { continue; }
                stream.Log.Append(written);
                HybridTimestamp time = HybridTimestamp.Of(_version, 0);
                if (written.Length == 0 && stream.Log.LastBoundary is not null && _random.Next(2) == 0)
                {
                    stream.Log.AppendEmptyRun(new(_version), time);
                }
                else { stream.Log.AppendBoundary(new(stream.Log.WorldLine, new(_version), stream.Log.EndOffset, 0, time)); }
                stream.Log.Sync();
            }
            foreach (Source source in _sources) { source.Keep(_version); }
            SlotRange own = SlotMap.EvenSlots(_layout.Shards, _shard);
            _states[_version] = _sources.SelectMany(s => s.Content).Where(k => own.Contains(HashSlot.Of(Encoding.ASCII.GetBytes(k.Key))))
                .ToDictionary();
        }

        // No watermark is ever taken back.
        private void BeginWorldLine()
        {
            long branch = _random.NextInt64(_told, _version + 1);
            if (_store!.Streams.Any(s => s.Log.BoundaryAtOrBelow(new(branch)) is null)) { return; }
            WorldLine next = _lines[^1].Line.Next;
            _lines.Add((next, branch));
            foreach (Source source in _sources)
            {
                source.GoBack(branch);
                if (source.Stream is not { } stream) { continue; }
                Boundary at = stream.Log.BoundaryAtOrBelow(new(branch))!.Value;
                stream.Log.BeginWorldLine(next, at with { Version = new(branch) }, stream.Log.ReplicationId);
                source.Offset = stream.Log.EndOffset;
            }
            foreach (long void_ in _states.Keys.Where(v => v > branch).ToArray()) { _states.Remove(void_); }
            _version = branch;
        }

        private async Task TellAsync()
        {
            if (_version <= _told || _store!.Streams.Any(s => s.Disk.Life is null || s.Disk.Seed!.Floor.Version.Number > _version))
            {
                return;
            }
            long floor = _store.Streams.Max(s => s.Disk.Seed!.Floor.Version.Number);
            _told = Math.Max(floor, _random.NextInt64(_told + 1, _version + 1));
            if (_random.Next(2) == 0) { _disk.OperationsUntilCrash = _random.Next(40); }
            try
            {
                await BringAsync(_told);
            }
            catch (SimulatedCrashException)
            {
                Crash();
            }
            _disk.OperationsUntilCrash = -1;
        }

        private async Task BringAsync(long version)
        {
            WorldPoint to = new(_lines.Last(l => l.Version < version || l.Line == WorldLine.First).Line, new(version));
            using var stop = new CancellationTokenSource();
            Task[] bringing = [.. _store!.Streams.OrderBy(_ => _random.Next())
                .Select(s => Task.Run(() => ((IFollowingStore)s).BringToAsync(
                    s.Log.BoundaryAtOrBelow(to.Version)!.Value with { WorldLine = to.WorldLine, Version = to.Version }, stop.Token)))];
            while (!bringing.Any(b => b.IsFaulted) && bringing.Where(b => !b.IsCompleted).ToArray() is { Length: > 0 } left)
            {
                await Task.WhenAny(left);
            }
            // A process that dies takes with it whoever waits.
            await stop.CancelAsync();
            await Task.WhenAll(bringing).ContinueWith(static _ => { }, TaskScheduler.Default);
            if (bringing.FirstOrDefault(b => b.IsFaulted) is { } failed) { await failed; }
            Assert.Equal(to.Version, _applied.Version);
        }

        // ---- The shard ----

        WorldPoint IFollowingStore.Applied => _applied;

        ClusterSeat IFollowingShard.Seat => throw new NotSupportedException();

        StreamGuard? IFollowingShard.Guard => null;

        IPrimaryShard? IFollowingShard.Primary => null;

        Task<bool> IFollowingStore.RenewAsync(Func<bool> begin, CancellationToken stop)
        {
            bool hasBegun = begin();
            _applied = default;
            return Task.FromResult(hasBegun);
        }

        Task IFollowingStore.BringToAsync(Boundary end, CancellationToken stop)
        {
            Assert.True(Log.DurableOffset >= end.Offset, "the store is brought to what is not durable");
            Dictionary<string, string> expected = _states[end.Version.Number], found = Replayed(end.Offset);
            Assert.Equal(expected.OrderBy(k => k.Key, StringComparer.Ordinal), found.OrderBy(k => k.Key, StringComparer.Ordinal));
            Assert.True(end.Time >= HybridTimestamp.Of(end.Version.Number, 0) || expected.Count == 0);
            _applied = end.Point;
            Brought++;
            return Task.CompletedTask;
        }

        Task IFollowingStore.PromoteAsync(CancellationToken stop) => Task.CompletedTask;

        void IFollowingStore.TakeOver(SiteState site)
        {
        }

        Task<RestoreTrial> IFollowingShard.TryRestoreAsync(CancellationToken stop) => throw new NotSupportedException();

        void IFollowingShard.OnGrid(VersionGrid grid)
        {
        }

        void IFollowingShard.OnIntakeFailed(string why)
        {
        }

        // What a store makes of the newest checkpoint and the log up to there.
        private Dictionary<string, string> Replayed(long end)
        {
            Checkpoint from = Checkpoints.Latest(Log, end)!;
            Assert.Equal(RdbIntegrity.Good, RdbFile.Verify(Checkpoints.PathOf(from)));
            Dictionary<string, string> content = [];
            using (var cursor = new RdbCursor(Checkpoints.PathOf(from), 4096))
            {
                cursor.ReadHead();
                while (cursor.ReadEntry() is { } entry)
                {
                    byte[] value = new byte[entry.End - entry.ValueStart];
                    cursor.CopyAt(entry.ValueStart, value);
                    content.Add(Encoding.ASCII.GetString(entry.Key), Encoding.ASCII.GetString(value.AsSpan(1)));
                    cursor.Seek(entry.End);
                }
            }
            byte[] bytes = new byte[end - from.Offset];
            using LogReader reader = Log.OpenReader(from.Offset, end);
            for (int at = 0; at < bytes.Length;)
            {
                int count = reader.Read(bytes.AsSpan(at));
                Assert.True(count > 0);
                at += count;
            }
            var effect = new Effect();
            for (int at = 0; at < bytes.Length; at = effect.End)
            {
                Assert.True(effect.TryRead(bytes, at, bytes.Length), "the shard's log ends inside a command");
                Apply(content, [.. Enumerable.Range(0, effect.Count).Select(i => Encoding.ASCII.GetString(effect[i]))]);
            }
            return content;
        }

        public ValueTask DisposeAsync()
        {
            _store?.Dispose();
            Log?.Dispose();
            Directory.Delete(_directory, recursive: true);
            return ValueTask.CompletedTask;
        }
    }

    private static void Apply(Dictionary<string, string> content, string[] command)
    {
        switch (command[0])
        {
            case "SET": content[command[1]] = command[2]; break;
            case "APPEND": content[command[1]] = content.GetValueOrDefault(command[1], "") + command[2]; break;
            case "DEL":
                foreach (string key in command[1..]) { content.Remove(key); }
                break;
            case "MSET":
                for (int i = 1; i < command.Length; i += 2) { content[command[i]] = command[i + 1]; }
                break;
            case "MULTI" or "EXEC" or "SELECT" or "PING" or "SPUBLISH": break;
            default: Assert.Fail(command[0]); break;
        }
    }

    // A shard of the primary: what it holds, and what it held at the end of each version.
    private sealed class Source(SlotRange slots)
    {
        private readonly SortedDictionary<long, Dictionary<string, string>> _kept = [];

        public Dictionary<string, string> Content { get; private set; } = [];

        public MergedStream? Stream { get; set; }

        public long Offset { get; set; } = 1000;

        public void Keep(long version) => _kept[version] = new(Content);

        public void GoBack(long version)
        {
            Content = new(_kept[version]);
            foreach (long later in _kept.Keys.Where(v => v > version).ToArray()) { _kept.Remove(later); }
        }

        public byte[] Write(Random random)
        {
            var bytes = new List<byte>();
            // Now and then more than the buffers of the shard's log hold: a part of such a version may be on the disk when the process
            // dies.
            for (int i = random.Next(3) == 0 ? random.Next(120) : random.Next(8); i > 0; i--)
            {
                string value = new((char)('a' + random.Next(26)), random.Next(40));
                switch (random.Next(8))
                {
                    case 0: Do("DEL", Key(random), Key(random), Key(random)); break;
                    case 1: Do("MSET", Key(random), value, Key(random), value); break;
                    case 2:
                        Do("MULTI");
                        Do("SET", Key(random), value);
                        Do("SPUBLISH", "channel", value);
                        Do("DEL", Key(random));
                        Do("EXEC");
                        break;
                    case 3: Do("PING"); break;
                    case 4: Do("SPUBLISH", "marker", value); break;
                    // Not the same when it is done twice.
                    default:
                        string key = Key(random);
                        if (Content.GetValueOrDefault(key, "").Length < 20) { Do("APPEND", key, "x"); }
                        else { Do("SET", key, value); }
                        break;
                }
            }
            Offset += bytes.Count;
            return [.. bytes];

            void Do(params string[] command)
            {
                Apply(Content, command);
                bytes.AddRange(Encoding.ASCII.GetBytes(
                    $"*{command.Length}\r\n{string.Concat(command.Select(a => $"${a.Length}\r\n{a}\r\n"))}"));
            }
        }

        // An RDB file of strings that are shorter than 64 bytes.
        public byte[] Copy()
        {
            List<byte> bytes = [.. "REDIS0010"u8, 0xFE, 0];
            foreach ((string key, string value) in Content)
            {
                bytes.AddRange([0, (byte)key.Length, .. Encoding.ASCII.GetBytes(key), (byte)value.Length,
                    .. Encoding.ASCII.GetBytes(value)]);
            }
            bytes.Add(0xFF);
            byte[] sum = new byte[8];
            BinaryPrimitives.WriteUInt64LittleEndian(sum, Crc64.Append(0, bytes.ToArray()));
            return [.. bytes, .. sum];
        }

        private string Key(Random random)
        {
            while (true)
            {
                string key = $"key{random.Next(60)}";
                if (slots.Contains(HashSlot.Of(Encoding.ASCII.GetBytes(key)))) { return key; }
            }
        }
    }
}
