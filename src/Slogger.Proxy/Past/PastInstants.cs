// Which instants of the past there are: the ends of versions that are committed, as far back as the log and its checkpoints go.
using System.Globalization;
using Slogger.Core.Retention;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Log.Reduced;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Past;

namespace Slogger.Proxy.Past;

/// <summary>The instants of a shard. Any thread.</summary>
/// <param name="log">Its log.</param>
/// <param name="checkpoints">The checkpoints of that.</param>
/// <param name="options">How far back is promised, and how far in detail.</param>
internal sealed class PastInstants(VersionLog log, CheckpointStore checkpoints, ServeOptions options)
{
    private static readonly TimeSpan CommitMax = TimeSpan.FromSeconds(10), CommitPause = TimeSpan.FromMilliseconds(2);
    private static readonly TimeSpan HoldMax = TimeSpan.FromMinutes(1);

    private readonly PastWindow _window = new(log, checkpoints);
    private readonly PastHolds _holds = new((long)HoldMax.TotalMilliseconds);
    private Tuple<ReducedStretch, IReadOnlyList<ReducedFileWindow>>? _windows;     // of the file that was asked for last

    /// <summary>The recorded cut; of a store that follows, the end of the version at which it stands.</summary>
    public required Func<WorldPoint> Committed { get; init; }

    /// <summary>The end of the newest version of that; null: none is closed yet.</summary>
    public Boundary? LastCommitted => log.BoundaryAtOrBelow(Committed().Version);

    /// <summary>The clock grids by which the versions went; null: whom the shard follows has not told them yet.</summary>
    public required Func<VersionGrid?> Grid { get; init; }

    /// <summary>Whether the shard follows another's log.</summary>
    public required Func<bool> Follows { get; init; }

    /// <summary>The shard's clock, in microseconds since the Unix epoch.</summary>
    public required Func<long> NowUs { get; init; }

    /// <summary>Has a version committed soon, and closed by itself even if it is empty: somebody waits for it.</summary>
    public required Action<VersionNumber> Await { get; init; }

    /// <summary>Who had which slots.</summary>
    public required PastOwners Owners { get; init; }

    /// <summary>Held while something of the log is deleted, from the look at <see cref="HeldFrom"/> on.</summary>
    public required Lock Keeping { get; init; }

    private VersionGrid KnownGrid => Grid() ?? throw new PastException("whom this shard follows has not said yet how its versions lie in "
        + "time: let it be reached once, with a proxy of this release");

    /// <summary>The oldest version that is promised to be kept; null: none is.</summary>
    public VersionNumber? Promised => ClosedBefore(options.Retention);

    /// <summary>The oldest version from which on each is to be kept, and not only one of many; null: all are.</summary>
    public VersionNumber? PromisedDetail => ClosedBefore(options.RetentionDetail);

    /// <summary>Of so many versions one is kept behind that: a power of two, as strides are.</summary>
    public long VersionsOfStep =>
        StretchWindows.GroupOf(options.RetentionStep.Ticks / TimeSpan.TicksPerMicrosecond, KnownGrid.IntervalUsAt(NowUs()));

    /// <summary>The offset from which the log is needed here; <see cref="long.MaxValue"/>: nobody looks.</summary>
    public long HeldFrom
    {
        get
        {
            lock (_holds) { return _holds.Lowest(Environment.TickCount64); }
        }
    }

    /// <summary>Finds out how far back the past goes now, for <see cref="Status"/>. The control task.</summary>
    public void Keep()
    {
        try
        {
            _window.Find(Committed().Version);
        }
        catch (Exception e) when (e is LogException or IOException)
        {
            // Whoever reads the past there is told.
        }
    }

    /// <summary>What DPR.INFO tells.</summary>
    public IEnumerable<(string Name, long Value)> Status()
    {
        PastReach? reach = Grid() is null ? null : _window.Last;
        VersionNumber shown = reach is { } oldest ? VersionNumber.Max(oldest.From, KnownFrom) : VersionNumber.Zero;
        yield return ("past_from_version", shown.Number);
        yield return ("past_from_unix_ms", reach is null ? 0 : TimeUsOf(shown) / 1000);
        yield return ("retention_s", (long)options.Retention.TotalSeconds);
        yield return ("retention_short", Promised is { } promised && reach?.From > promised && reach is { IsWhole: false } ? 1 : 0);
        VersionNumber detail = reach is { } detailed ? VersionNumber.Max(detailed.Detail, KnownFrom) : VersionNumber.Zero;
        yield return ("past_detail_from_version", detail.Number);
        yield return ("past_detail_from_unix_ms", reach is null ? 0 : TimeUsOf(detail) / 1000);
        if (options.RetentionDetail == TimeSpan.Zero) { yield break; }
        yield return ("retention_detail_s", (long)options.RetentionDetail.TotalSeconds);
        yield return ("retention_step_ms", (long)options.RetentionStep.TotalMilliseconds);
    }

    /// <summary>The version of an instant, when it is committed. Now is, of a store that follows, the newest that it has.</summary>
    /// <exception cref="PastException">It is none, or not committed within 10 s.</exception>
    public async Task<VersionNumber> CommittedAsync(Instant at, CancellationToken stop)
    {
        bool isNow = at is { By: InstantBy.Ago, Number: 0 };
        if (isNow && Follows())
        {
            VersionNumber newest = Committed().Version;
            await Owners.LookAsync(follows: true, stop).ConfigureAwait(false);
            return newest;
        }
        long nowUs = NowUs();
        VersionNumber wanted = at.By switch
        {
            InstantBy.Version => new(at.Number),
            InstantBy.Time => ClosedAt(UsOf(at.Number), nowUs),
            // What is acknowledged now is in the version that is open.
            _ when at.Number == 0 => KnownGrid.VersionAt(nowUs),
            _ => ClosedAt(nowUs - UsOf(at.Number), nowUs),
        };
        long waitsUntil = Environment.TickCount64 + (long)CommitMax.TotalMilliseconds;
        VersionNumber? committed;
        while ((committed = PastInstant.Committed(wanted, isNow, Committed().Version,
            cut => log.BoundaryAtOrBelow(cut)?.Version ?? VersionNumber.Zero)) is null)
        {
            // Again and again: the one that is open here may be an earlier one still.
            Await(VersionNumber.Min(wanted, KnownGrid.VersionAt(nowUs)));
            if (Environment.TickCount64 > waitsUntil)
            {
                throw new PastException(string.Create(CultureInfo.InvariantCulture,
                    $"version {wanted} is not committed: the newest that is, is {Committed().Version}, of {TimeOf(Committed().Version)}"),
                    PastProblem.NotClosed);
            }
            await Task.Delay(CommitPause, stop).ConfigureAwait(false);
        }
        await Owners.LookAsync(Follows(), stop).ConfigureAwait(false);
        return committed.Value;
    }

    /// <summary>Where a version ends, or the last before it that was closed by itself, or that is kept; and from what it can be made. All
    /// of it stays for a minute.</summary>
    /// <exception cref="PastException">It is not kept.</exception>
    /// <exception cref="LogException">It cannot be read.</exception>
    public PastPoint Hold(VersionNumber version)
    {
        RequireKnown(version);
        PastPoint point = Held(() => InDetail(version) ?? Reduced(version)) ?? throw NotKept(
            $"version {version} is not kept: {WhatIsKept(version)}");
        RequireKnown(point.End.Version);
        return point;
    }

    /// <summary>As <see cref="Hold"/>, and no state of an earlier version, unless that was the last one closed by itself.</summary>
    /// <exception cref="PastException">It is not kept.</exception>
    /// <exception cref="LogException">It cannot be read.</exception>
    public PastPoint HoldExactly(VersionNumber version)
    {
        PastPoint point = Hold(version);
        // Since the version was found it may have been reduced to an earlier one.
        return (point.ReducedBytes is null && !point.IsEarlier) || point.End.Version == version ? point
            : throw NotKept($"version {version} is not kept any more: the last before it that is, is {point.End.Version}");
    }

    /// <summary>As <see cref="Hold"/>, where the log has each command that follows.</summary>
    /// <exception cref="PastException">It is not kept so.</exception>
    public Boundary HoldDetail(VersionNumber version)
    {
        RequireKnown(version);
        PastPoint? found = Held(() => InDetail(version));
        if (found is { } point && point.End.Offset >= WindowsEnd) { return point.End; }
        VersionNumber detail = _window.Find(Committed().Version)?.Detail ?? version;
        string before = found is null ? "" : "; before, this site was far behind another";
        throw NotKept((found ?? Reduced(version)) is null ? $"version {version} is not kept: {WhatIsKept(version)}"
            : $"version {version} is kept as a state only, and not each command since: these are kept from version {detail}, of "
            + $"{TimeOf(detail)}, on (--retention-detail decides how far{before})");
    }

    /// <summary>What is left of the log from an offset on, and of checkpoints there, stays for another minute.</summary>
    public void HoldFrom(long offset)
    {
        if (TryRenew(offset)) { return; }
        // Of what is gone there is nothing to be held: others would take it for theirs.
        lock (Keeping) { Take(Math.Max(offset, log.StartOffset)); }
    }

    /// <summary>From where on all commands are kept, without a gap: the end of a version, or the beginning of the history.</summary>
    /// <exception cref="PastException">Nothing is kept yet.</exception>
    public Boundary Beginning()
    {
        if (log.IsEmpty || checkpoints.Oldest(log) is not { } oldest) { throw NotKept("nothing is kept yet"); }
        long windows = WindowsEnd;
        Boundary first = _window.FirstAtOrAbove(Math.Max(Math.Max(oldest.Offset, windows), log.ContiguousFrom(0)))
            ?? throw NotKept("nothing is kept yet");
        StreamOrigin origin = log.Origin;
        if (origin.Offset >= Math.Max(oldest.Offset, windows) && !log.HasGap(origin.Offset, first.Offset))
        {
            first = new Boundary(first.WorldLine, first.Version.Previous, origin.Offset, origin.Database, default);
        }
        if (first.Version >= KnownFrom) { return first; }
        foreach (Boundary known in log.BoundariesFrom(KnownFrom)) { return known; }
        throw NotKept("nothing is kept yet since it is known which shard has had a key");
    }

    // Below that a store that follows may have been sent no more than states.
    private long WindowsEnd => log.Windows.LastIn(Committed().Version).Offset;

    private VersionNumber KnownFrom => Owners.Table?.KnownFrom ?? VersionNumber.Zero;

    /// <summary>Sees to it that it is known which shard had which key at the end of a version.</summary>
    /// <exception cref="PastException">It is not.</exception>
    public void RequireKnown(VersionNumber version)
    {
        if (PastInstant.IsSettled(version, KnownFrom)) { return; }
        throw NotKept(string.Create(CultureInfo.InvariantCulture, $"version {version} is not kept: slots have moved since, and which "
            + $"shard had a key then is not recorded. The past goes back to version {KnownFrom}, of {TimeOf(KnownFrom)}"));
    }

    /// <summary>Where the commands of a version end that this shard did for clients on a key.</summary>
    /// <param name="version">The version: a committed one, in which it had the key.</param>
    /// <param name="isLast">Whether it had it no longer: what it has not closed by itself is in a later one here.</param>
    /// <exception cref="PastException">It is not kept so.</exception>
    public Boundary HoldLast(VersionNumber version, bool isLast)
    {
        Boundary end = HoldDetail(version);
        if (!isLast || end.Version == version) { return end; }
        Boundary? next = log.BoundariesFrom(version).Select(b => (Boundary?)b).FirstOrDefault();
        return next is { } later && later.Version <= Committed().Version ? later with { Version = version } : end;
    }

    private VersionNumber? ClosedBefore(TimeSpan ago) => ago == TimeSpan.Zero || Grid() is not { } grid ? null
        : PastInstant.ClosedAt(grid, NowUs() - (ago.Ticks / TimeSpan.TicksPerMicrosecond));

    // The log from the base of what is found on stays for another minute.
    private PastPoint? Held(Func<PastPoint?> find)
    {
        if (find() is not { } point) { return null; }
        if (TryRenew(point.Base.Offset)) { return point; }
        // Whoever deletes may have looked at the holds before, and what was found may be gone.
        lock (Keeping)
        {
            PastPoint? kept = find();
            if (kept is { } still) { Take(still.Base.Offset); }
            return kept;
        }
    }

    private bool TryRenew(long offset)
    {
        lock (_holds) { return _holds.TryRenew(offset, Environment.TickCount64); }
    }

    private void Take(long offset)
    {
        lock (_holds) { _holds.Take(offset, Environment.TickCount64); }
    }

    private PastPoint? InDetail(VersionNumber version) =>
        log.BoundaryAtOrBelow(version) is { } end && !IsInGap(version, end) && checkpoints.Latest(log, end.Offset) is { } checkpoint
            ? new(end, checkpoint, null, version != end.Version && log.IsInWindow(version)) : null;

    // What was done between the last end before it and the first behind it is not in the log.
    private bool IsInGap(VersionNumber version, in Boundary end)
    {
        if (version == end.Version || !log.HasGap(end.Offset, long.MaxValue)) { return false; }
        foreach (Boundary next in log.BoundariesFrom(version.Next)) { return log.HasGap(end.Offset, next.Offset); }
        return true;
    }

    // Below what is kept in detail: the last window at or below the version.
    private PastPoint? Reduced(VersionNumber version)
    {
        if (_window.Find(Committed().Version) is not { } reach) { return null; }
        IReadOnlyList<Tile> tiles = checkpoints.Tiles(log);
        if (PastTiles.ReducedAt(reach, [.. tiles.Select(PastWindow.SpanOf)], version) is not { } at) { return null; }
        IReadOnlyList<ReducedFileWindow> windows = WindowsOf(tiles[at].Base, tiles[at].Reduced!);
        (int place, VersionNumber served) =
            PastTiles.WindowAt(windows.Count, i => new(windows[i].End.Version, windows[i].Through), version);
        return new(windows[place].End with { Version = served }, tiles[at].Base, windows[place].DataEnd);
    }

    private IReadOnlyList<ReducedFileWindow> WindowsOf(Checkpoint checkpoint, ReducedStretch stretch)
    {
        if (Volatile.Read(ref _windows) is { } known && known.Item1 == stretch) { return known.Item2; }
        using ReducedFile file = ReducedFile.Open(log.Files, checkpoints.ReducedPathOf(checkpoint));
        Volatile.Write(ref _windows, new(stretch, file.Windows));
        return file.Windows;
    }

    private VersionNumber ClosedAt(long timeUs, long nowUs)
    {
        VersionGrid grid = KnownGrid;
        if (timeUs > nowUs)
        {
            throw new PastException($"{TextOf(timeUs)} is in the future: by the cluster's clock it is {TextOf(nowUs)}",
                PastProblem.NotClosed);
        }
        VersionNumber closed = PastInstant.ClosedAt(grid, timeUs);
        return closed >= grid.Stretches[0].FirstVersion ? closed
            : throw NotKept($"{TextOf(timeUs)} is before the cluster began: that was {TextOf(grid.Stretches[0].StartUs)}");
    }

    private static PastException NotKept(string why) => new(why, PastProblem.NotKept);

    private string WhatIsKept(VersionNumber version) => _window.Find(Committed().Version) switch
    {
        null => "nothing is kept yet",
        { } reach when reach.From <= version => "writes that no log has lie between it and the last version before that is kept",
        { } reach => string.Create(CultureInfo.InvariantCulture, $"the log of this shard goes back to version {reach.From}, of "
            + $"{TimeOf(reach.From)} (--retention and --log-budget decide how far)"),
    };

    /// <summary>When a version ended, in microseconds since the Unix epoch: at all shards at the same time of the grid.</summary>
    public long TimeUsOf(VersionNumber version) => KnownGrid.StartOf(version.Next);

    private string TimeOf(VersionNumber version) => TextOf(TimeUsOf(version));

    private static string TextOf(long timeUs) =>
        DateTimeOffset.FromUnixTimeMilliseconds(timeUs / 1000).UtcDateTime.ToString(
            "yyyy-MM-ddTHH:mm:ss.fffZ", CultureInfo.InvariantCulture);

    // Up to the year 9999.
    private static long UsOf(long milliseconds) => milliseconds <= 253_402_300_799_999 ? milliseconds * 1000
        : throw new PastException("a time is in milliseconds since 1970");
}
