// What the log should hold, kept in memory: every item appended in order, and how many of them must survive a crash.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;

namespace Slogger.Log.Tests.Simulation;

/// <param name="Boundary">The version closed.</param>
/// <param name="IsRun">Whether it was a run of empty versions.</param>
/// <param name="BytesBefore">The end of the stream when it was appended.</param>
internal readonly record struct ModelEntry(Boundary Boundary, bool IsRun, long BytesBefore)
{
    /// <summary>Whether it is what a rewind has left of a run: its time may be that of a longer one, which the run has become.</summary>
    public bool IsPart { get; init; }
}

internal sealed class LogModel
{
    public required StreamOrigin Origin { get; init; }
    public required WorldLine WorldLine { get; set; }
    public required VersionNumber FirstVersion { get; init; }
    public required Reign Reign { get; set; }
    public required Reign FirstReign { get; init; }
    public required WorldLine FirstWorldLine { get; init; }
    public required string ReplicationId { get; set; }
    public List<LogBranch> Branches { get; private init; } = [];
    public List<byte> Bytes { get; private init; } = [];
    public List<ModelEntry> Entries { get; private init; } = [];

    /// <summary>What must survive: bytes of the stream, and versions.</summary>
    public long DurableOffset { get; set; }
    public VersionNumber DurableVersion { get; set; }

    /// <summary>Cuts noted as held; the last of them, and the last that must survive.</summary>
    public List<WorldPoint> HeldCuts { get; private init; } = [default];
    public WorldPoint Held => HeldCuts[^1];
    public WorldPoint DurableHeld { get; set; }

    public long EndOffset => Origin.Offset + Bytes.Count;
    public VersionNumber LastVersion => Entries.Count > 0 ? Entries[^1].Boundary.Version : FirstVersion.Previous;
    public Boundary? LastBoundary => Entries.Count > 0 ? Entries[^1].Boundary with { WorldLine = LastWorldLine } : null;
    private WorldLine LastWorldLine => Entries[^1].Boundary.WorldLine;
    public LogIndex ClosedEnd => new(WorldLine, LastBoundary?.Offset ?? Origin.Offset, LastVersion) { Reign = Reign };

    /// <summary>Where each line begins whose beginning is not void.</summary>
    public List<LogBranch> Lines
    {
        get
        {
            List<LogBranch> lines = [new(FirstWorldLine, FirstVersion.Previous, Origin.Offset) { Reign = FirstReign }];
            foreach (LogBranch next in Branches)
            {
                lines.RemoveAll(l => l.Offset > next.Offset || l.Version > next.Version);
                lines.Add(next);
            }
            return lines;
        }
    }

    public static LogModel Begun(StreamOrigin origin, WorldLine worldLine, VersionNumber open, Reign reign) => new()
    {
        Origin = origin, WorldLine = worldLine, FirstWorldLine = worldLine, FirstVersion = open, ReplicationId = origin.ReplicationId,
        Reign = reign, FirstReign = reign, DurableOffset = origin.Offset, DurableVersion = open.Previous,
    };

    public LogModel Copy() => new()
    {
        Origin = Origin, WorldLine = WorldLine, FirstWorldLine = FirstWorldLine, FirstVersion = FirstVersion, ReplicationId = ReplicationId,
        Reign = Reign, FirstReign = FirstReign, Branches = [.. Branches],
        Bytes = [.. Bytes], Entries = [.. Entries], HeldCuts = [.. HeldCuts], DurableHeld = DurableHeld, DurableOffset = DurableOffset,
            DurableVersion = DurableVersion,
    };

    public void AppendRun(VersionNumber last, HybridTimestamp time)
    {
        Boundary before = LastBoundary ?? new Boundary(WorldLine, default, Origin.Offset, Origin.Database, default);
        Entries.Add(new(before with { WorldLine = WorldLine, Version = last, Time = time }, true, EndOffset));
    }

    public void AppendBoundary(Boundary boundary) => Entries.Add(new(boundary, false, EndOffset));

    public void MarkDurable()
    {
        DurableOffset = EndOffset;
        DurableVersion = LastVersion;
        DurableHeld = Held;
    }

    /// <summary>The end of the last version closed at or below a version.</summary>
    public (VersionNumber Version, long Offset)? BoundaryAtOrBelow(VersionNumber version)
    {
        (VersionNumber, long)? best = null;
        foreach (ModelEntry entry in Entries)
        {
            if (entry.Boundary.Version > version)
            {
                return entry.IsRun ? (version, entry.Boundary.Offset) : best;
            }
            best = (entry.Boundary.Version, entry.Boundary.Offset);
        }
        return best;
    }

    public void Branch(WorldLine next, Boundary branch, string replicationId)
    {
        Cut(branch.Version, branch.Offset);
        Entries.Add(new(branch with { WorldLine = next }, true, branch.Offset));
        WorldLine = next;
        ReplicationId = replicationId;
        Branches.Add(new LogBranch(next, branch.Version, branch.Offset) { Reign = Reign });
        MarkDurable();
    }

    public void BeginReign(Reign next)
    {
        Rewind();
        Reign = next;
        Branches.Add(new LogBranch(WorldLine, LastVersion, EndOffset) { Reign = next });
    }

    public void RewindTo(LogIndex to)
    {
        Entries.RemoveAll(e => e.Boundary.WorldLine > to.WorldLine);
        Cut(to.Closed, to.Offset);
        // The line ends where a later one began, above all that it closed itself.
        if (LastVersion < to.Closed)
        {
            Boundary last = LastBoundary ?? new Boundary(WorldLine, default, default, Origin.Database, default);
            Entries.Add(new(last with { WorldLine = to.WorldLine, Version = to.Closed, Offset = to.Offset }, true, to.Offset));
        }
        Branches.RemoveAll(b => b.Line > new LogLine(to.Reign, to.WorldLine));
        (Reign, WorldLine) = (to.Reign, to.WorldLine);
    }

    private void Cut(VersionNumber version, long offset)
    {
        int cut = Entries.FindIndex(e => e.Boundary.Version > version);
        ModelEntry next = cut < 0 ? default : Entries[cut];
        if (cut >= 0) { Entries.RemoveRange(cut, Entries.Count - cut); }
        // A part of a run is left.
        if (next.IsRun && LastVersion < version)
        {
            Entries.Add(next with { Boundary = next.Boundary with { Version = version }, IsPart = true });
        }
        else if (next.IsRun && Entries.Count > 0 && Entries[^1].IsRun) { Entries[^1] = Entries[^1] with { IsPart = true }; }
        Bytes.RemoveRange((int)(offset - Origin.Offset), (int)(EndOffset - offset));
        // A run may have been appended after bytes that are void now.
        for (int i = 0; i < Entries.Count; i++) { Entries[i] = Entries[i] with { BytesBefore = Math.Min(Entries[i].BytesBefore, offset) }; }
    }

    /// <summary>After it has gone back: what it is called, and the newest cut of those that it reaches that it still knows.</summary>
    public void Settle(VersionLog log)
    {
        ReplicationId = log.ReplicationId;
        HeldCuts.RemoveAll(c => c > log.HeldCut);
    }

    public void Rewind()
    {
        long end = LastBoundary?.Offset ?? Origin.Offset;
        Bytes.RemoveRange((int)(end - Origin.Offset), (int)(EndOffset - end));
        for (int i = 0; i < Entries.Count; i++) { Entries[i] = Entries[i] with { BytesBefore = Math.Min(Entries[i].BytesBefore, end) }; }
    }

    /// <summary>Whether a recovered log is this history up to some point at or above what is durable; null if so, or
    /// what is wrong. Below <paramref name="trimmedTo"/> boundaries may be gone.</summary>
    public string? Mismatch(VersionLog log, long trimmedTo)
    {
        if (log.IsEmpty)
        {
            return "the log is empty";
        }
        bool isNamed = log.ReplicationId == ReplicationId;
        if (log.Origin != Origin || log.WorldLine != WorldLine || log.Reign != Reign || log.FirstReign != FirstReign || !isNamed)
        {
            return $"history {log.Origin} {log.Reign}/{log.WorldLine} {log.ReplicationId} instead of {Origin} {Reign}/{WorldLine} " +
                $"{ReplicationId}";
        }
        if (!log.Branches.SequenceEqual(Branches) || !log.Lines.Begins.SequenceEqual(Lines))
        {
            return $"branches {string.Join(' ', log.Branches.Select(b => b.Index))} instead of " +
                $"{string.Join(' ', Branches.Select(b => b.Index))}; lines {string.Join(' ', log.Lines.Begins.Select(b => b.Index))}";
        }
        if (log.EndOffset < DurableOffset || log.EndOffset > EndOffset)
        {
            return $"it ends at {log.EndOffset}, durable was {DurableOffset}, appended {EndOffset}";
        }
        VersionNumber last = log.LastBoundary?.Version ?? FirstVersion.Previous;
        if (last < DurableVersion || last > LastVersion)
        {
            return $"its last version is {last}, durable was {DurableVersion}, appended {LastVersion}";
        }
        int known = Entries.FindIndex(e => e.Boundary.Version == last);
        if (known < 0 && last != FirstVersion.Previous)
        {
            return $"version {last} was never closed";
        }
        // A prefix: everything before the last entry is there, and nothing of what follows the next one.
        if (known >= 0 && log.EndOffset < Entries[known].BytesBefore)
        {
            return $"version {last} is there without the bytes before it";
        }
        int next = Entries.FindIndex(known + 1, e => !e.IsRun);
        if (next >= 0 && log.EndOffset > Entries[next].BytesBefore)
        {
            return $"bytes after version {Entries[next].Boundary.Version} are there without it";
        }
        if (log.HeldCut < DurableHeld || !HeldCuts.Contains(log.HeldCut) || log.HeldCut > log.End.Point)
        {
            return $"it holds the cut {log.HeldCut}, durable was {DurableHeld}, noted {Held}; it ends at {log.End}";
        }
        return MismatchOfBytes(log) ?? MismatchOfVersions(log, last, trimmedTo);
    }

    private string? MismatchOfBytes(VersionLog log)
    {
        using LogReader reader = log.OpenReader(log.StartOffset);
        byte[] buffer = new byte[777];
        int read;
        while ((read = reader.Read(buffer)) > 0)
        {
            int at = (int)(reader.Position - read - Origin.Offset);
            for (int i = 0; i < read; i++)
            {
                if (buffer[i] != Bytes[at + i])
                {
                    return $"byte {at + i + Origin.Offset} differs";
                }
            }
        }
        return reader.Position == log.DurableOffset ? null : $"reading stopped at {reader.Position} of {log.DurableOffset}";
    }

    private string? MismatchOfVersions(VersionLog log, VersionNumber last, long trimmedTo)
    {
        // A boundary exactly at the start may lie in the segment before, which may be gone only if it is below the trim.
        bool MayBeGone(long offset) => offset < log.StartOffset || (offset == log.StartOffset && offset < trimmedTo);
        var expected = Entries.Where(e => !e.IsRun && e.Boundary.Version <= last && !MayBeGone(e.Boundary.Offset))
            .Select(e => (e.Boundary.Version, e.Boundary.Offset));
        var present = log.Boundaries.Select(b => (b.Version, b.Offset)).ToHashSet();
        foreach ((VersionNumber, long) boundary in expected)
        {
            if (!present.Contains(boundary))
            {
                return $"boundary {boundary} is missing";
            }
        }
        for (long v = FirstVersion.Number; v <= last.Number; v += 1 + ((last.Number - FirstVersion.Number) / 20))
        {
            Boundary? found = log.BoundaryAtOrBelow(new VersionNumber(v));
            (VersionNumber Version, long Offset)? wanted = BoundaryAtOrBelow(new VersionNumber(v));
            bool isGone = wanted is { } point && MayBeGone(point.Offset);
            if (!(isGone && found is null) && (found?.Version, found?.Offset) != (wanted?.Version, wanted?.Offset))
            {
                return $"version {v} ends at {found}, not at {wanted}";
            }
            if (!log.BoundariesFrom(new VersionNumber(v)).SequenceEqual(log.Boundaries.Where(b => b.Version.Number >= v)))
            {
                return $"from version {v} on the boundaries are others";
            }
        }
        return null;
    }
}
