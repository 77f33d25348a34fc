// Indexes of a log's segments, through all that happens to a log, against a scan of it: appends, world-lines that void what is indexed
// already, rewinds, gaps, trims, restarts, and files that are lost, torn or of an older state.
using System.Text;
using Microsoft.Extensions.Logging.Abstractions;
using Slogger.Core.Identities;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Proxy.Past;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Tests.Past;

public sealed class KeyIndexesTests(ITestOutputHelper output) : IDisposable
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(1);

    private readonly string _directory = Directory.CreateTempSubdirectory("key-indexes").FullName;
    private long _version = 10;
    private long _line = 1;
    private int _database;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    private VersionLog Open() => VersionLog.Open(new VersionLogOptions
    {
        Directory = _directory, Shard = new ShardId(1), PrepareInBackground = false, ZeroFill = false,
        SegmentBytes = 16 << 10, BlockBytes = 1 << 10, BufferBytes = 8 << 10,
    });

    [Fact]
    public void RandomLog_WhatTheIndexesFindIsWhatAScanFinds()
    {
        int seed = Random.Shared.Next();
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        VersionLog log = Open();
        log.Begin(new StreamOrigin(new string('a', 40), 1000, 0), WorldLine.First, new VersionNumber(_version));
        var indexes = new KeyIndexes(log, NullLogger.Instance, "shard 1");
        int used = 0;
        try
        {
            for (int round = 0; round < 12; round++)
            {
                Write(log, random);
                Complete(log, indexes);
                used += Check(log, indexes, random);
                Change(ref log, ref indexes, random);
                used += Check(log, indexes, random);
            }
        }
        finally
        {
            indexes.Dispose();
            log.Dispose();
        }
        Assert.True(used > 50, $"only {used} indexes were looked into");
    }

    // Whatever a crash or a disk has left in place of an index.
    [Fact]
    public void FilesThatAreNoIndexes_AreMadeAgain()
    {
        using VersionLog log = Open();
        log.Begin(new StreamOrigin(new string('a', 40), 1000, 0), WorldLine.First, new VersionNumber(_version));
        var random = new Random(1);
        Write(log, random);
        string[] paths = [.. log.SealedSegments.Select(s => s.IndexPath)];
        Assert.True(paths.Length > 3);
        File.WriteAllText(paths[0], "no index");
        using (var first = new KeyIndexes(log, NullLogger.Instance, "shard 1"))
        {
            Complete(log, first);
            Check(log, first, random);
            // Of another segment; torn; damaged where only a reader sees it.
            File.Copy(paths[1], paths[0], overwrite: true);
            using (FileStream torn = File.OpenWrite(paths[1])) { torn.SetLength(torn.Length - 1); }
            using (FileStream damaged = File.OpenWrite(paths[2]))
            {
                damaged.Position = damaged.Length - 4000;
                damaged.WriteByte(0x5A);
            }
            Check(log, first, random);
            // Which finds that the damaged one is gone.
            Check(log, first, random);
            Complete(log, first);
            Check(log, first, random);
        }
        using var again = new KeyIndexes(log, NullLogger.Instance, "shard 1");
        Complete(log, again);
        Assert.Empty(Directory.EnumerateFiles(_directory, "*.tmp"));
    }

    private void Write(VersionLog log, Random random)
    {
        for (int i = 0, versions = random.Next(30, 80); i < versions; i++)
        {
            using var bytes = new MemoryStream();
            for (int n = random.Next(8); n > 0; n--) { bytes.Write(Command(random)); }
            log.Append(bytes.ToArray());
            log.AppendBoundary(new(log.WorldLine, new VersionNumber(_version), log.EndOffset, _database, HybridTimestamp.Of(_version, 0)));
            _version++;
            if (random.Next(4) == 0) { log.Sync(); }
            if (random.Next(20) == 0) { log.AppendEmptyRun(new VersionNumber(_version += 3), HybridTimestamp.Of(_version++, 0)); }
        }
        // Not a version yet: a command may have its end in another segment.
        if (random.Next(2) == 0) { log.Append(Command(random)); }
        log.Sync();
    }

    private byte[] Command(Random random)
    {
        string Key() => "key:" + random.Next(40);
        string[] words = random.Next(30) switch
        {
            0 => ["SELECT", $"{_database = random.Next(3)}"],
            1 => ["FLUSHALL"],
            2 => ["MODULE.COMMAND", Key()],
            3 => ["RENAME", Key(), Key()],
            4 => ["MOVE", Key(), $"{random.Next(3)}"],
            5 => ["SET", Key(), new string('x', random.Next(20_000))],
            _ => ["SET", Key(), new string('x', random.Next(200))],
        };
        return Encoding.ASCII.GetBytes($"*{words.Length}\r\n" + string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n")));
    }

    private void Change(ref VersionLog log, ref KeyIndexes indexes, Random random)
    {
        Boundary[] ends = [.. log.Boundaries];
        // Below segments that are indexed, too.
        Boundary to = ends[random.Next(ends.Length / 2, ends.Length)];
        switch (random.Next(6))
        {
            case 0 or 1:
                log.BeginWorldLine(new WorldLine(++_line), to, new string('b', 40));
                break;
            case 2:
                log.RewindTo(log.DurableClosed);
                to = log.DurableBoundary!.Value;
                break;
            case 3:
                log.Rewind();
                log.BeginGap(log.EndOffset + random.Next(1, 5000));
                to = to with { Version = log.LastBoundary!.Value.Version };
                break;
            case 4:
                log.Rewind();
                log.TrimBefore(ends[random.Next(ends.Length)].Offset);
                to = log.DurableBoundary!.Value;
                Assert.Subset(Names(".slog"), Names(".kix"));
                break;
            default:
                log.Rewind();
                indexes.Dispose();
                log.Dispose();
                log = Open();
                indexes = new KeyIndexes(log, NullLogger.Instance, "shard 1");
                to = log.DurableBoundary!.Value;
                break;
        }
        _version = Math.Max(log.LastBoundary!.Value.Version.Number, to.Version.Number) + 1;
        _database = log.LastBoundary!.Value.Database;
    }

    private HashSet<string> Names(string extension) =>
        [.. Directory.EnumerateFiles(_directory, "*" + extension).Select(f => Path.GetFileNameWithoutExtension(f)!)];

    private static void Complete(VersionLog log, KeyIndexes indexes)
    {
        long until = Environment.TickCount64 + (long)s_limit.TotalMilliseconds;
        // All but those behind gaps, and those whose last command has not ended.
        while (log.SealedSegments.SkipLast(1).Any(s => s.Before is not null
            && KeyIndex.Open(s.IndexPath, new(s.Sequence, s.Salt)) is var index && Closed(index) is null))
        {
            Assert.True(Environment.TickCount64 < until, "the indexes are not made");
            indexes.Keep();
            Thread.Sleep(10);
        }
    }

    private static KeyIndex? Closed(KeyIndex? index)
    {
        index?.Dispose();
        return index;
    }

    // How many indexes there were.
    private static int Check(VersionLog log, KeyIndexes indexes, Random random)
    {
        Boundary[] ends = [.. log.Boundaries.Where(b => b.Offset >= log.ContiguousFrom(log.StartOffset))];
        int used = 0;
        for (int i = 0; i < 2 && ends.Length > 0; i++)
        {
            (Boundary from, Boundary to) = (ends[i == 0 ? 0 : random.Next(ends.Length)], ends[^1]);
            if (from.Offset >= to.Offset) { continue; }
            using var scanned = new LogHistory(log);
            using var history = new LogHistory(log);
            var all = new TailIndex();
            all.Restart(from.Offset, from.Database);
            all.ReadTo(scanned, to.Offset);
            List<EffectStretch> stretches = [.. indexes.Stretches(from.Offset, from.Database, to.Offset)];
            used += stretches.Count(s => s.Index is not null);
            Assert.Equal(from.Offset, stretches[0].From);
            Assert.All(stretches.Zip(stretches.Skip(1)), pair => Assert.Equal(pair.First.To, pair.Second.From));
            using var stretch = new StretchIndex(history, stretches, 1 << 20);
            stretch.ReadTo(to.Offset);
            Assert.Equal(all.NotConfined(from.Offset, to.Offset), stretch.NotConfined(from.Offset, to.Offset));
            Assert.Equal(all.EmptiedAt(from.Offset, to.Offset), stretch.EmptiedAt(from.Offset, to.Offset));
            for (int database = 0; database < 3; database++)
            {
                for (int key = 0; key < 40; key++)
                {
                    var store = new StoreKey(database, Encoding.ASCII.GetBytes($"key:{key}"));
                    List<(long, int)> expected = [], found = [];
                    Assert.True(all.Find([(uint)(store.Hash >> 32)], from.Offset, to.Offset, int.MaxValue, expected));
                    Assert.True(stretch.Find([(uint)(store.Hash >> 32)], from.Offset, to.Offset, int.MaxValue, found));
                    Assert.Equal(expected.Distinct(), found.Distinct());
                }
            }
        }
        return used;
    }
}
