// The history of an embedded store says of each version of the cut what the store held, whatever ends between two steps.
using System.Globalization;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commits;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Embedded;
using Slogger.Proxy.Shards;
using Slogger.Redis.Past;
using Slogger.Redis.Rdb;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Tests.Embedded;

public sealed class EmbeddedHistoryTests : IDisposable
{
    private static readonly WorldLine One = new(1), Two = new(2);
    private static readonly VersionNumber Ever = new(long.MaxValue);
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(1);

    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-past-").FullName;
    private readonly Dictionary<string, string> _now = [];

    // What the store held at the end of a version.
    private readonly Dictionary<long, Dictionary<string, string>> _held = [];
    private FasterStore _store;
    private VersionLog _log = null!;
    private CheckpointStore _checkpoints = null!;
    private CommitHistory _states = null!;
    private EmbeddedHistory _history = null!;
    private VersionNumber _branch = Ever;
    private long _epoch;

    public EmbeddedHistoryTests()
    {
        _store = FasterStore.OpenAt(Options);
        OpenHistory();
    }

    public void Dispose()
    {
        _log.Dispose();
        _store.Dispose();
        Directory.Delete(_directory, recursive: true);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public async Task RandomWrites_EachCommitOfTheCut_IsThereAsItWas(int seed)
    {
        var random = new Random(seed);
        int begun = 0, taken = 0;
        for (int i = 0; i < 60; i++)
        {
            for (int n = random.Next(30); n > 0; n--)
            {
                string key = $"k{random.Next(40)}";
                if (random.Next(4) == 0) { Remove(key); }
                else
                {
                    Set(key, new string((char)('a' + random.Next(26)), random.Next(2000)), random.Next(2) == 0 ? 0 : 1_900_000_000_000 + i);
                }
            }
            VersionNumber version = await CommitAsync(random.Next(1, 4));
            // Some versions behind it pass empty.
            if (random.Next(3) == 0) { version = Pass(version, random.Next(1, 5)); }
            // Several commits at once, or one.
            if (random.Next(3) > 0 && Follow(version) is not null) { begun++; }
            if (random.Next(8) == 0 && TakeCheckpoint() is not null) { taken++; }
            if (random.Next(8) == 0) { ReopenHistory(); }
        }
        Follow(Pass(_store.Open.Previous, 1));
        Assert.Equal(1, begun);
        Assert.True(taken > 0, "no checkpoint was taken");
        foreach (long version in _held.Keys.Where(v => v >= _log.FirstVersion.Number)) { AssertHeld(version); }
        Assert.True(_held.Keys.Count(v => v >= _log.FirstVersion.Number) > 50);
    }

    // A process was killed while it appended: the commit's first changes are in the log, and no end.
    [Fact]
    public async Task PartOfACommit_IsMadeVoid_AndItIsAppendedAgain()
    {
        Set("a", "1");
        Follow(await CommitAsync());
        Set("a", "2");
        Set("b", "2");
        VersionNumber second = await CommitAsync();
        _log.Append("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$5\r\nwrong\r\n*2\r\n$3\r\nDE"u8);
        _log.Sync();
        ReopenHistory();
        Assert.Null(Follow(second));
        AssertHeld(second.Number);
        Assert.Single(_log.BoundariesFrom(second));
    }

    [Fact]
    public async Task CommitsThatWereNotKept_LeaveAGap_ThatIsTold()
    {
        Set("a", "before");
        VersionNumber before = await CommitAsync();
        Assert.Null(Follow(before)!.Value.Before);
        Set("a", "unknown");
        VersionNumber unknown = await CommitAsync();
        Set("b", "after");
        VersionNumber after = await CommitAsync();
        _store.Keep(new(One, after));
        await UntilOnlyAsync(after);
        BegunStretch begun = Follow(after)!.Value;
        Assert.Equal((after, (VersionNumber?)before, 2L), (begun.First, begun.Before, begun.Keys));
        AssertHeld(before.Number);
        AssertHeld(after.Number);
        Assert.True(_log.HasGap(_log.BoundaryAtOrBelow(unknown)!.Value.Offset, _log.BoundaryAtOrBelow(after)!.Value.Offset));
        // And it goes on, also for the next process.
        ReopenHistory();
        Set("a", "later");
        VersionNumber later = await CommitAsync();
        Assert.Null(Follow(later));
        AssertHeld(later.Number);
    }

    [Fact]
    public async Task Needed_HoldsWhatTheHistoryDoesNotHave()
    {
        Assert.Equal(default, _history.Needed);
        Set("a", "1");
        VersionNumber first = await CommitAsync();
        Follow(first);
        Assert.Equal(new(One, first), _history.Needed);
        Set("a", "2");
        VersionNumber second = await CommitAsync();
        // Not in the cut yet.
        Assert.Null(Follow(first));
        Assert.Equal(new(One, first), _history.Needed);
        WorldPoint? whileCopied = null;
        TakeCheckpoint(() =>
        {
            Follow(second);
            whileCopied = _history.Needed;
        });
        Assert.Equal(new WorldPoint(One, first), whileCopied);
        Assert.Equal(new(One, second), _history.Needed);
        AssertHeld(first.Number);
        AssertHeld(second.Number);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Rollback_WhatWasTakenBack_IsInNoVersion(bool isOpenedAgain)
    {
        Set("a", "1");
        Follow(await CommitAsync());
        Set("b", "1");
        // Durable, and not in the cut when the other shard is lost.
        VersionNumber kept = await CommitAsync();
        Dictionary<string, string> held = new(_now);
        Set("a", "taken back");
        Set("c", "taken back");
        VersionNumber lost = await CommitAsync();
        _states.Enter(Two, kept, new(One, kept));
        if (isOpenedAgain)
        {
            _store.Dispose();
            _store = FasterStore.OpenAt(Options, new WorldPoint(One, kept), lost.Next);
            ReopenHistory();
        }
        else { Assert.True(await _store.RollbackAsync(new WorldPoint(One, kept), () => { })); }
        _branch = kept;
        _now.Clear();
        foreach ((string key, string value) in held) { _now[key] = value; }
        _held.Remove(lost.Number);
        Set("d", "of the second line");
        VersionNumber next = await CommitAsync(line: Two);
        Assert.Null(Follow(next, Two));
        AssertHeld(kept.Number);
        AssertHeld(next.Number);
        Assert.DoesNotContain(lost, _log.Boundaries.Select(b => b.Version));
        Assert.Equal(Two, _log.WorldLine);
        ReopenHistory();
        Set("a", "3");
        VersionNumber last = await CommitAsync(line: Two);
        Assert.Null(Follow(last, Two));
        AssertHeld(last.Number);
    }

    // The content of an older version stands for a later one: no change says so.
    [Fact]
    public async Task BrokenOff_AnOlderContent_IsTheBeginningOfAnotherStretch()
    {
        Set("a", "older");
        VersionNumber older = await CommitAsync();
        Follow(older);
        Set("a", "newer");
        Set("b", "newer");
        VersionNumber newer = await CommitAsync();
        Follow(newer);
        _history.BreakOff();
        // A process that is killed here, or does it twice.
        ReopenHistory();
        _history.BreakOff();
        _store.Dispose();
        _states.Enter(Two, newer.Next, new(One, older));
        _store = FasterStore.OpenAt(Options, new WorldPoint(One, older), newer.Next.Next);
        _branch = newer.Next;
        _held[newer.Next.Number] = _held[older.Number];
        Assert.Equal((newer.Next, (VersionNumber?)newer), (Follow(newer.Next, Two)!.Value.First, newer));
        foreach (VersionNumber version in (VersionNumber[])[older, newer, newer.Next]) { AssertHeld(version.Number); }
    }

    // By a process without a history, which does not say so in the log. The history may not have had all.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task OlderContent_WhileNobodyKeptThePast_IsTheBeginningOfAnotherStretch(bool isBehind)
    {
        (VersionNumber older, VersionNumber newer) = await WriteTwiceAsync(isBehind ? 1 : 2);
        ReopenHistory();
        Restore(older, newer);
        if (!isBehind) { Assert.Null(Follow(newer, Two)); }
        await AssertNextBeginsAsync(isBehind ? older : newer, older);
    }

    // The checkpoint was kept, and the world-line entered: in the log nothing says any more that it was broken off.
    [Fact]
    public async Task KilledBeforeTheGapOfANewStretch_ItBeginsAgain()
    {
        (VersionNumber older, VersionNumber newer) = await WriteTwiceAsync(2);
        _history.BreakOff();
        string file = _checkpoints.NewTemporaryPath();
        await File.WriteAllTextAsync(file, "all records");
        _checkpoints.Add(file, new Checkpoint
        {
            Origin = _log.Origin, ReplicationId = _log.ReplicationId, Offset = _log.EndOffset + 1, Database = 0, WorldLine = Two.Number,
            CreatedAt = DateTimeOffset.UnixEpoch,
        });
        _log.BeginWorldLine(Two, _log.LastBoundary!.Value, _log.ReplicationId);
        Assert.False(_log.HasGap(_log.ClosedEnd.Offset, _log.EndOffset));
        ReopenHistory();
        Restore(older, newer);
        await AssertNextBeginsAsync(newer, older);
    }

    [Fact]
    public async Task AllRecordsCannotBeWritten_NoFileIsLeft()
    {
        Set("a", "1");
        VersionNumber version = await CommitAsync();
        Assert.Throws<OperationCanceledException>(() => _history.Follow(_store, _states.InHistory(One, _ => Ever, version),
            new(One, version), new CancellationToken(canceled: true)));
        Assert.Empty(Directory.GetFiles(Path.Combine(_directory, "checkpoints")));
        Assert.False(_history.KnowsEnd);
        Follow(version);
        Assert.True(_history.KnowsEnd);
        AssertHeld(version.Number);
    }

    // A commit every 40 ms; the history has a part of that.
    [Theory]
    [InlineData(1.0)]
    [InlineData(0.5)]
    [InlineData(0.0)]
    public void Lag_IsThatOfTheOldestCommitThatIsLacking(double pace)
    {
        var lag = new HistoryLag();
        const int Commits = 3000;
        long behindMs = 0;
        for (int i = 1; i <= Commits; i++)
        {
            long had = (long)((i - 1) * pace);
            behindMs = lag.Ms(new(One, new(had)), new(One, new(i)), i * 40L);
            // Commit had + 1 is the oldest one that is lacking.
            Assert.Equal((i - had - 1) * 40L, behindMs);
        }
        Assert.Equal(pace < 1, behindMs > 30_000);
        Assert.Equal(0, lag.Ms(new(One, new(Commits)), new(One, new(Commits)), Commits * 40L));
    }

    [Fact]
    public async Task EmptyStore_HasAHistory()
    {
        _store.Dispose();
        _store = FasterStore.OpenAt(Options, null, VersionNumber.Zero);
        await _store.CommitAsync(One, new(1));
        _states.Extend(One, new(7));
        Follow(new(7));
        _held[7] = [];
        AssertHeld(7);
        ReopenHistory();
        _states.Extend(One, new(9));
        Assert.Null(Follow(new(9)));
        Set("a", "1");
        VersionNumber first = await CommitAsync(10);
        Assert.Null(Follow(first));
        AssertHeld(first.Number);
    }

    // ---- The store, and what it held ----

    private FasterOptions Options => new()
    {
        Directory = Path.Combine(_directory, "store"), IndexBytes = 1 << 20, MemoryBytes = 64 << 20, PageBits = 20, SegmentBits = 24,
    };

    private async Task<VersionNumber> CommitAsync(int versions = 1, WorldLine? line = null)
    {
        CommitRecord commit = await _store.CommitAsync(line ?? One, new(_store.Open.Number + versions));
        _held[commit.Point.Version.Number] = new(_now);
        return commit.Point.Version;
    }

    // Versions behind a commit in which nothing was done.
    private VersionNumber Pass(VersionNumber version, int count)
    {
        VersionNumber last = new(version.Number + count);
        _store.PassVersions(_ => last.Next);
        _states.Extend(One, last);
        _held[last.Number] = new(_now);
        return last;
    }

    // Of the two commits the history has the first ones.
    private async Task<(VersionNumber Older, VersionNumber Newer)> WriteTwiceAsync(int followed)
    {
        Set("a", "older");
        VersionNumber older = await CommitAsync();
        Follow(older);
        Set("a", "newer");
        Set("b", "newer");
        VersionNumber newer = await CommitAsync();
        if (followed > 1) { Follow(newer); }
        return (older, newer);
    }

    // From the newer version on the store has the content of the older one, in another world-line.
    private void Restore(VersionNumber older, VersionNumber newer)
    {
        _store.Dispose();
        _states.Enter(Two, newer, new(One, older));
        _store = FasterStore.OpenAt(Options, new WorldPoint(One, older), newer.Next);
        _branch = newer;
        _now.Clear();
        _now["a"] = "older 0";
    }

    private async Task AssertNextBeginsAsync(VersionNumber before, VersionNumber older)
    {
        Set("c", "afterwards");
        VersionNumber next = await CommitAsync(line: Two);
        BegunStretch? begun = Follow(next, Two);
        Assert.NotNull(begun);
        Assert.Equal((next, (VersionNumber?)before, 2L), (begun.Value.First, begun.Value.Before, begun.Value.Keys));
        foreach (VersionNumber version in (VersionNumber[])[older, before, next]) { AssertHeld(version.Number); }
        Assert.True(_log.HasGap(_log.BoundaryAtOrBelow(before)!.Value.Offset, _log.BoundaryAtOrBelow(next)!.Value.Offset));
        // And it goes on, also for the next process.
        ReopenHistory();
        Set("a", "later");
        VersionNumber later = await CommitAsync(line: Two);
        Assert.Null(Follow(later, Two));
        AssertHeld(later.Number);
    }

    private void Set(string key, string value, long expiryMs = 0)
    {
        using FasterWorker worker = _store.NewWorker();
        byte[] name = Encoding.ASCII.GetBytes(key);
        int entered = worker.Enter(name);
        worker.Write(name, Encoding.ASCII.GetBytes(value), expiryMs);
        worker.Exit(entered);
        _now[key] = $"{value} {expiryMs}";
    }

    private void Remove(string key)
    {
        using FasterWorker worker = _store.NewWorker();
        byte[] name = Encoding.ASCII.GetBytes(key);
        int entered = worker.Enter(name);
        worker.Remove(name);
        worker.Exit(entered);
        _now.Remove(key);
    }

    private async Task UntilOnlyAsync(VersionNumber version)
    {
        long until = Environment.TickCount64 + (long)s_limit.TotalMilliseconds;
        while (_store.CommitCount > 1)
        {
            Assert.True(Environment.TickCount64 < until, "older commits are not deleted");
            await Task.Delay(5);
        }
        Assert.Equal(version, _store.Commits[0].Point.Version);
    }

    // ---- The history ----

    private void OpenHistory()
    {
        _log = VersionLog.Open(new()
        {
            Directory = Path.Combine(_directory, "log"), Shard = new ShardId(0), Epoch = ++_epoch, SegmentBytes = 1 << 20,
            BlockBytes = 1 << 16,
        });
        _checkpoints = CheckpointStore.Open(Path.Combine(_directory, "checkpoints"));
        _states = new CommitHistory(Options.Directory, () => _store.Commits);
        _history = new EmbeddedHistory(_log, _checkpoints, new Lock(), version => HybridTimestamp.Of(version.Number * 1000, 0));
    }

    private void ReopenHistory()
    {
        _log.Dispose();
        OpenHistory();
    }

    private BegunStretch? Follow(VersionNumber version, WorldLine? line = null) => _history.Follow(_store,
        _states.InHistory(line ?? One, _ => _branch, version), new(line ?? One, version), CancellationToken.None);

    private Checkpoint? TakeCheckpoint(Action? begun = null)
    {
        string file = _checkpoints.NewTemporaryPath();
        if (_history.Copy(_store, file, begun, CancellationToken.None) is not var (offset, bytes)) { return null; }
        Assert.Equal(bytes, new FileInfo(file).Length);
        return _checkpoints.Add(file, new Checkpoint
        {
            Origin = _log.Origin, ReplicationId = _log.ReplicationId, Offset = offset, Database = 0, WorldLine = _log.WorldLine.Number,
            CreatedAt = DateTimeOffset.UnixEpoch,
        });
    }

    private void AssertHeld(long version)
    {
        Boundary end = _log.BoundaryAtOrBelow(new(version))!.Value;
        Checkpoint from = _checkpoints.Latest(_log, end.Offset)!;
        var found = new Dictionary<string, string>();
        using (var rdb = new RdbCursor(_checkpoints.PathOf(from), 1 << 20))
        {
            rdb.ReadHead();
            while (rdb.ReadEntry() is { } entry)
            {
                found.Add(Encoding.ASCII.GetString(entry.Key), $"{Encoding.ASCII.GetString(rdb.ReadString(entry))} {entry.ExpiresAtMs}");
            }
        }
        using var history = new LogHistory(_log);
        var effects = new EffectReader(history, from.Offset, end.Offset, 0);
        while (effects.Next(CancellationToken.None))
        {
            string[] words = [.. Enumerable.Range(0, effects.Effect.Count).Select(i => Encoding.ASCII.GetString(effects.Effect[i]))];
            if (words is ["DEL", var gone]) { found.Remove(gone); }
            else { found[words[1]] = $"{words[2]} {(words.Length > 3 ? words[4] : "0")}"; }
        }
        string told = string.Create(CultureInfo.InvariantCulture, $"version {version}");
        Assert.Equal((told, _held[version].OrderBy(p => p.Key, StringComparer.Ordinal)), (told, found.OrderBy(p => p.Key,
            StringComparer.Ordinal)), (a, b) => a.Item1 == b.Item1 && a.Item2.SequenceEqual(b.Item2));
    }
}
