// Drives a log through random work on a simulated disk, life after life of the process, and compares what each life recovers with
// the model. All randomness comes from the seed.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;

namespace Slogger.Log.Tests.Simulation;

internal sealed class LogDriver
{
    public const string Directory = "/log";

    private readonly Random _random;
    private readonly SimulatedDisk _disk;
    private readonly int _directories;
    private VersionLogOptions _options;

    // What the log may hold now: one history, or two in the middle of a change; null stands for an empty log.
    private List<LogModel?> _possible = [null];
    private VersionLog _log = null!;
    private long _trimmedTo;
    private LogIndex _shipped;
    private long _time;

    /// <param name="seed">Of all that is random.</param>
    /// <param name="directories">How many the log lies in, or comes to.</param>
    /// <param name="disk">The disk, of a seed; null: one that keeps what it is told to.</param>
    public LogDriver(int seed, int directories = 1, Func<int, SimulatedDisk>? disk = null)
    {
        _random = new Random(seed);
        _directories = directories;
        _disk = disk?.Invoke(_random.Next()) ?? new SimulatedDisk(_random.Next()) { HasDisksOfDirectories = directories > 1 };
        int block = 256 << _random.Next(4);
        _options = new VersionLogOptions
        {
            Directory = Directory, Shard = new ShardId(3), Files = _disk, PrepareInBackground = false,
            SegmentBytes = directories * (16 << 10), BlockBytes = block, BufferBytes = block * (2 + _random.Next(3)) * directories,
            ZeroFill = _random.Next(2) == 0,
            TailBytes = _random.Next(3) switch { 0 => 0, 1 => 300, _ => 8 << 10 },
        };
        FaultKind = _random.Next(4);
        if (directories > 1) { TakeDirectories(_random.Next(1, directories)); }
    }

    private void TakeDirectories(int more) =>
        _options = _options with { MoreDirectories = [.. Enumerable.Range(1, more).Select(i => $"{Directory}{i}")] };

    public int FaultKind { get; }

    /// <summary>Null if every life recovered what it had to; otherwise what was wrong.</summary>
    public string? Run(int lives)
    {
        for (int life = 0; life < lives; life++)
        {
            try
            {
                if (Reopen() is { } wrong)
                {
                    return $"life {life}: {wrong}";
                }
                SetFaults();
                int steps = _random.Next(10, 80);
                for (int i = 0; i < steps && Step(); i++)
                {
                }
            }
            catch (SimulatedCrashException)
            {
                // The life ends here.
            }
            EndLife();
        }
        return Reopen();
    }

    private LogModel Model => _possible[^1]!;

    private string? Reopen()
    {
        int more = _options.MoreDirectories?.Count ?? 0;
        if (more < _directories - 1 && _random.Next(3) == 0) { TakeDirectories(more + 1); }
        while (true)
        {
            // A crash while opening changes nothing of what must be there.
            _disk.OperationsUntilCrash = _random.Next(4) == 0 ? _random.Next(12) : -1;
            try
            {
                _log = VersionLog.Open(_options);
                break;
            }
            catch (SimulatedCrashException)
            {
                _disk.Crash();
            }
            catch (LogException e) when (e is LogCorruptException or LogDirectoriesException)
            {
                return e.Message;
            }
        }
        _disk.OperationsUntilCrash = -1;
        _shipped = default;
        List<string> wrong = [];
        foreach (LogModel? model in _possible)
        {
            string? mismatch = model is null ? (_log.IsEmpty ? null : "the log is not empty") : model.Mismatch(_log, _trimmedTo);
            if (mismatch is null)
            {
                _possible = [model is null ? null : Recovered(model)];
                return model is not null && _log.StartOffset > Math.Max(model.Origin.Offset, _trimmedTo)
                    ? $"it starts at {_log.StartOffset}, trimmed to {_trimmedTo}" : null;
            }
            wrong.Add(mismatch);
        }
        return string.Join("; or ", wrong);
    }

    private LogModel Recovered(LogModel model)
    {
        model.Bytes.RemoveRange((int)(_log.EndOffset - model.Origin.Offset), (int)(model.EndOffset - _log.EndOffset));
        model.Entries.RemoveAll(e => _log.LastBoundary is not { } last || e.Boundary.Version > last.Version);
        model.Settle(_log);
        model.MarkDurable();
        return model;
    }

    private void SetFaults()
    {
        if (_random.Next(4) > 0)
        {
            _disk.OperationsUntilCrash = _random.Next(150);
        }
        _disk.SyncFailureRate = FaultKind == 1 ? 0.05 : 0;
        _disk.WriteFailureRate = FaultKind == 2 ? 0.1 : 0;
        _disk.CapacityBytes = FaultKind == 3 ? _random.Next(16 << 10, 100 << 10) : long.MaxValue;
    }

    private void EndLife()
    {
        _disk.SyncFailureRate = _disk.WriteFailureRate = 0;
        _disk.CapacityBytes = long.MaxValue;
        if (_disk.OperationsUntilCrash != 0 && _random.Next(3) == 0)
        {
            _disk.OperationsUntilCrash = -1;
            _log.Dispose();
        }
        if (_random.Next(4) == 0)
        {
            _disk.Kill();
        }
        else
        {
            _disk.Crash();
        }
    }

    /// <summary>One random operation; false if the log must be reopened.</summary>
    private bool Step()
    {
        try
        {
            if (_possible[^1] is null)
            {
                Begin();
                return true;
            }
            if (_directories > 1 && _random.Next(5) == 0)
            {
                SyncTogether();
                return true;
            }
            switch (_random.Next(52))
            {
                case < 14: Append(); break;
                case < 22: AppendBoundary(); break;
                case < 27: AppendRun(); break;
                case < 35: Sync(); break;
                case 35: Change(m => m.ReplicationId = NewReplicationId(), m => _log.SetReplicationId(m.ReplicationId)); break;
                case 36: BeginWorldLine(); break;
                case 37: Trim(); break;
                case > 50: RewindTo(); break;
                case > 49: BeginReign(); break;
                case > 48: ShipOlderLine(); break;
                case > 43: Ship(); break;
                case > 39: AppendHeldCut(); break;
                case 38 when _random.Next(4) == 0: Begin(); break;
                case 39: Rewind(); break;
                default: Append(); break;
            }
            return true;
        }
        catch (LogIOException e)
        {
            return !e.IsFatal;
        }
    }

    private void Append()
    {
        byte[] bytes = new byte[_random.Next(8) == 0 ? _random.Next(5000) : _random.Next(200)];
        if (_random.Next(4) > 0)
        {
            _random.NextBytes(bytes);
        }
        long before = _log.EndOffset;
        // Noted first: a crash in the middle may leave a part of it.
        Model.Bytes.AddRange(bytes);
        try
        {
            _log.Append(bytes);
        }
        catch (LogIOException)
        {
            long end = _log.EndOffset;
            Model.Bytes.RemoveRange((int)(end - Model.Origin.Offset), (int)(before + bytes.Length - end));
            throw;
        }
    }

    private void AppendBoundary()
    {
        var boundary = new Boundary(
            Model.WorldLine, new VersionNumber(Model.LastVersion.Number + _random.Next(1, 3)), _log.EndOffset, _random.Next(16), Now());
        AppendEntry(() => Model.AppendBoundary(boundary), () => _log.AppendBoundary(boundary));
    }

    private void AppendRun()
    {
        var last = new VersionNumber(Model.LastVersion.Number + _random.Next(1, 5));
        HybridTimestamp time = Now();
        AppendEntry(() => Model.AppendRun(last, time), () => _log.AppendEmptyRun(last, time));
    }

    private void AppendEntry(Action note, Action append)
    {
        note();
        try
        {
            append();
        }
        catch (LogIOException)
        {
            Model.Entries.RemoveAt(Model.Entries.Count - 1);
            throw;
        }
    }

    private void AppendHeldCut()
    {
        var last = new WorldPoint(Model.WorldLine, Model.LastVersion);
        var cut = new WorldPoint(new WorldLine(_random.NextInt64(1, Model.WorldLine.Number + 1)),
            new VersionNumber(_random.NextInt64(1, Model.LastVersion.Number + 2)));
        if (cut <= Model.Held || cut > last)
        {
            Assert.Throws<ArgumentException>(() => _log.AppendHeldCut(cut));
            return;
        }
        Model.HeldCuts.Add(cut);
        try
        {
            _log.AppendHeldCut(cut);
        }
        catch (LogIOException)
        {
            Model.HeldCuts.RemoveAt(Model.HeldCuts.Count - 1);
            throw;
        }
    }

    // As a shipper reads it: from some end of a version on, or from where it has come, up to the end as far as that is there.
    private void Ship()
    {
        LogBranch line = Model.Lines[^1];
        ModelEntry[] ends = [.. Model.Entries.Where(e => e.Boundary.Version >= line.Version && e.BytesBefore >= line.Offset
            && e.Boundary.Offset >= Math.Max(_log.StartOffset, _trimmedTo))];
        if (ends.Length == 0) { return; }
        ModelEntry begin = ends[_random.Next(ends.Length)];
        LogIndex at = _shipped.WorldLine == Model.WorldLine && _shipped.Reign == Model.Reign
            && _shipped.Offset >= Math.Max(_log.StartOffset, _trimmedTo)
            && _shipped <= _log.End && _random.Next(2) == 0
            ? _shipped : new LogIndex(Model.WorldLine, begin.BytesBefore, begin.Boundary.Version) { Reign = Model.Reign };
        using var pieces = new LogPieces(_log);
        LogIndex limit = _log.End;
        at = Ship(pieces, at, limit);
        Assert.True(at >= _log.DurableEnd, $"shipped up to {at}, durable is {_log.DurableEnd}");
        if (_options.TailBytes > 0 && Model.EndOffset - at.Offset < _options.TailBytes) { Assert.Equal(limit, at); }
        _shipped = at;
    }

    // From its beginning to its end, of what is left of it.
    private void ShipOlderLine()
    {
        List<LogBranch> lines = Model.Lines;
        if (lines.Count < 2) { return; }
        int line = _random.Next(lines.Count - 1);
        LogIndex start = lines[line].Index, limit = start with { Offset = lines[line + 1].Offset, Closed = lines[line + 1].Version };
        if (start.Offset < Math.Max(_log.StartOffset, _trimmedTo)) { return; }
        using var pieces = new LogPieces(_log);
        LogIndex at = Ship(pieces, start, limit);
        Assert.Equal(limit.Offset, at.Offset);
        Assert.True(at.Closed >= Model.Entries.Where(e => !e.IsRun && e.Boundary.Version <= limit.Closed)
            .Select(e => e.Boundary.Version).Append(start.Closed).Max(), $"shipped up to {at}, the line ended at {limit}");
    }

    private LogIndex Ship(LogPieces pieces, LogIndex at, LogIndex limit)
    {
        while (pieces.EndOfPiece(at, limit, _random.Next(1, 3000)) is { } to && to != at)
        {
            Assert.True(to > at && to <= limit);
            byte[] bytes = new byte[to.Offset - at.Offset];
            List<VersionEnd> found = [];
            Assert.True(pieces.Read(at, to, bytes, found));
            Assert.Equal(Model.Bytes.Skip((int)(at.Offset - Model.Origin.Offset)).Take(bytes.Length), bytes);
            // A log that ends there may be one that this one was, or will be again after a crash: else who ships what is not durable could
            // not say what of it has become so.
            Assert.True(to.Closed <= _log.DurableEnd.Closed || Model.Entries.First(
                e => e.Boundary.Version == to.Closed).BytesBefore <= to.Offset, $"the log was never at {to}");
            ModelEntry[] between = [.. Model.Entries.Where(e => e.Boundary.Version > at.Closed && e.Boundary.Version <= to.Closed)];
            Assert.Equal(between.Where(e => !e.IsRun).Select(e => e.Boundary), found.Where(e => !e.IsEmptyRun).Select(e => e.Boundary));
            Assert.All(found.Where(e => e.IsEmptyRun), run =>
                Assert.Contains(run.Boundary, between.Where(e => e.IsRun).Select(
                    e => e.IsPart ? e.Boundary with { Time = run.Boundary.Time } : e.Boundary)));
            Assert.All(found.Zip(found.Skip(1)), e => Assert.True(e.First.Boundary.Version < e.Second.Boundary.Version));
            Assert.Equal(to.Closed, found.Count > 0 ? found[^1].Boundary.Version : at.Closed);
            Assert.All(found, e => Assert.InRange(e.Boundary.Offset, e.IsEmptyRun ? 0 : at.Offset, to.Offset));
            at = to;
        }
        return at;
    }

    private void Sync()
    {
        long durable = _log.Sync();
        Assert.Equal(_log.EndOffset, durable);
        Assert.Equal(Model.EndOffset, durable);
        Assert.Equal(Model.LastBoundary?.Version, _log.DurableBoundary?.Version);
        Model.MarkDurable();
    }

    // Several writers have blocks at a time, and are done in any order. R7: what is durable goes up to the first that is not done.
    private void SyncTogether()
    {
        List<DealtBlocks> inOrder = [.. _log.Dealt];
        foreach (LogWriter writer in Shuffled(_log.Writers))
        {
            if (writer.Unfinished is null && _log.Deal(writer, withCurrent: true, out _) is { } dealt) { inOrder.Add(dealt); }
        }
        DealtBlocks[] waiting = [.. inOrder.Where(d => !d.IsSynced)];
        foreach (DealtBlocks dealt in Shuffled(waiting)) { _log.Write(dealt); }
        // Some may never come to it before the next step, which has to make up for that.
        foreach (DealtBlocks dealt in Shuffled(waiting).Take(_random.Next(waiting.Length + 1)))
        {
            _log.Sync(dealt);
            int synced = inOrder.FindIndex(d => !d.IsSynced) is var first and >= 0 ? first : inOrder.Count;
            if (synced > 0) { Assert.Equal(inOrder[synced - 1].Written.Offset, _log.DurableOffset); }
            Assert.True(synced == inOrder.Count || _log.DurableOffset <= inOrder[synced].Written.Offset);
            Assert.True(_log.DurableOffset >= Model.DurableOffset);
            Model.DurableOffset = _log.DurableOffset;
            Model.DurableVersion = _log.DurableBoundary?.Version ?? Model.DurableVersion;
            Model.DurableHeld = _log.HeldCut;
        }
    }

    private T[] Shuffled<T>(IReadOnlyList<T> items)
    {
        T[] shuffled = [.. items];
        _random.Shuffle(shuffled);
        return shuffled;
    }

    private void Begin()
    {
        var origin = new StreamOrigin(NewReplicationId(), _random.Next(10_000), _random.Next(16));
        LogModel begun = LogModel.Begun(
            origin, new WorldLine(_random.Next(1, 5)), new VersionNumber(_random.Next(1, 100)), new Reign(_random.Next(3)));
        _possible = [_possible[^1], begun];
        _shipped = default;
        Attempt(() => _log.Begin(origin, begun.WorldLine, begun.FirstVersion, begun.Reign));
        _trimmedTo = 0;
    }

    private void BeginWorldLine()
    {
        Sync();
        long below = _random.NextInt64(Model.FirstVersion.Number - 1, Model.LastVersion.Number + 1);
        // No cut that was ever recorded is gone back behind.
        if (_log.BoundaryAtOrBelow(new VersionNumber(below)) is { } branch && branch.Version >= Model.Held.Version)
        {
            // The cut may be at an empty or void version above the boundary.
            VersionNumber cut = branch.Version.Number < below && _random.Next(2) == 0 ? new VersionNumber(below) : branch.Version;
            branch = branch with { Version = cut };
            WorldLine next = Model.WorldLine.Next;
            Change(m => m.Branch(next, branch, NewReplicationId()), m => _log.BeginWorldLine(next, branch, m.ReplicationId));
            Assert.Equal(branch.Offset, _log.EndOffset);
            Assert.Equal(new WorldPoint(next, cut), _log.DurableBoundary?.Point);
        }
    }

    // Not while it is shipped.
    private void Rewind()
    {
        Change(m => m.Rewind(), _ => _log.Rewind());
        _shipped = default;
    }

    private void BeginReign()
    {
        var next = new Reign(Model.Reign.Number + _random.Next(1, 3));
        LogIndex end = Model.ClosedEnd with { Reign = next };
        Change(m => m.BeginReign(next), _ => _log.BeginReign(next));
        Assert.Equal((end, end), (_log.End, _log.DurableEnd));
        Assert.Equal(end, _log.Lines.End);
    }

    // To the end of a version, in any of the lines that have it; or to a part of a run.
    private void RewindTo()
    {
        List<LogBranch> lines = Model.Lines;
        int line = Math.Max(0, lines.Count - 1 - _random.Next(3));
        LogIndex begin = lines[line].Index, end = line == lines.Count - 1 ? Model.ClosedEnd
            : begin with { Offset = lines[line + 1].Offset, Closed = lines[line + 1].Version };
        List<LogIndex> ends = [begin, end];
        VersionNumber before = Model.FirstVersion.Previous;
        foreach (ModelEntry entry in Model.Entries)
        {
            long part = entry.IsRun && entry.Boundary.Version > before.Next
                ? _random.NextInt64(before.Number + 1, entry.Boundary.Version.Number + 1) : entry.Boundary.Version.Number;
            ends.Add(begin with { Offset = entry.Boundary.Offset, Closed = new VersionNumber(part) });
            before = entry.Boundary.Version;
        }
        ends.RemoveAll(e => e.Offset < begin.Offset || e.Closed < begin.Closed || e.Offset > end.Offset || e.Closed > end.Closed
            || e.Offset < _log.StartOffset || (e.Offset == _log.StartOffset && e.Offset < _trimmedTo));
        if (ends.Count == 0) { return; }
        LogIndex to = ends[_random.Next(ends.Count)];
        Refuse(to with { Offset = to.Offset + 1 });
        Refuse(to with { Reign = new Reign(to.Reign.Number + 100) });
        long rewinds = _log.Rewinds;
        bool isVoiding = _log.End != to;
        WorldPoint durableHeld = Model.Held > to.Point ? default : Model.Held;
        Change(m => m.RewindTo(to), _ => _log.RewindTo(to), m =>
        {
            m.HeldCuts.RemoveAll(c => c > to.Point);
            m.DurableHeld = durableHeld;
        });
        Assert.Equal((to, to, to), (_log.End, _log.DurableEnd, _log.Lines.End));
        Assert.Equal(rewinds + (isVoiding ? 1 : 0), _log.Rewinds);
        string? wrong = Model.Mismatch(_log, _trimmedTo);
        Assert.True(wrong is null, $"back at {to}: {wrong}");
        Model.Settle(_log);
        Model.MarkDurable();
        _shipped = default;
    }

    private void Refuse(LogIndex noEnd)
    {
        LogIndex end = _log.End;
        try
        {
            _log.RewindTo(noEnd);
            Assert.Fail($"It went back to {noEnd}.");
        }
        catch (ArgumentException)
        {
            Assert.Equal(end, _log.End);
        }
    }

    private void Trim()
    {
        long offset = _random.NextInt64(Model.Origin.Offset, Model.DurableOffset + 1);
        _trimmedTo = Math.Max(_trimmedTo, offset);
        _log.TrimBefore(offset);
    }

    private void Change(Action<LogModel> change, Action<LogModel> perform, Action<LogModel>? forget = null)
    {
        LogModel after = Model.Copy();
        change(after);
        after.MarkDurable();
        forget?.Invoke(after);
        _possible = [Model, after];
        Attempt(() => perform(after));
    }

    /// <summary>Performs a change of history: done, or not done, or, if the process stops, either.</summary>
    private void Attempt(Action perform)
    {
        try
        {
            perform();
            _possible = [_possible[1]];
        }
        catch (LogIOException e) when (!e.IsFatal)
        {
            _possible = [_possible[0]];
            throw;
        }
    }

    private string NewReplicationId() => $"{_random.NextInt64():x16}{_random.NextInt64():x16}{_random.Next():x8}";

    private HybridTimestamp Now() => HybridTimestamp.Of(++_time, 0);
}
