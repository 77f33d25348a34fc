// Which instants of the past there are: the ends of versions that are committed, as far back as the log and its checkpoints go.
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Redis.Past;

namespace Slogger.Proxy.Past;

/// <summary>The instants of a shard. Any thread.</summary>
/// <param name="log">Its log.</param>
/// <param name="checkpoints">The checkpoints of that.</param>
/// <param name="retention">How far back is promised; zero: nothing is.</param>
internal sealed class PastInstants(VersionLog log, CheckpointStore checkpoints, TimeSpan retention)
{
    private static readonly TimeSpan CommitMax = TimeSpan.FromSeconds(10), CommitPause = TimeSpan.FromMilliseconds(2);
    private static readonly TimeSpan HoldMax = TimeSpan.FromMinutes(1);

    private readonly PastWindow _window = new(log, checkpoints);
    private readonly PastHolds _holds = new((long)HoldMax.TotalMilliseconds);

    /// <summary>The recorded cut.</summary>
    public required Func<WorldPoint> Committed { get; init; }

    /// <summary>The cluster's clock grid.</summary>
    public required Func<VersionGrid> Grid { get; init; }

    /// <summary>The shard's clock, in microseconds since the Unix epoch.</summary>
    public required Func<long> NowUs { get; init; }

    /// <summary>Who owns which slots; null: a shard alone has all keys.</summary>
    public required Func<OwnershipTable?> Owners { get; init; }

    /// <summary>The oldest version that is promised to be kept; null: none is.</summary>
    public VersionNumber? Promised => retention == TimeSpan.Zero ? null
        : Grid().VersionAt(NowUs() - (retention.Ticks / TimeSpan.TicksPerMicrosecond)).Previous;

    /// <summary>The offset from which the log is needed here; <see cref="long.MaxValue"/>: nobody looks.</summary>
    public long HeldFrom => _holds.Lowest(Environment.TickCount64);

    /// <summary>Finds out how far back the past goes now, for <see cref="Status"/>. The control task.</summary>
    public void Keep()
    {
        try
        {
            _window.Find();
        }
        catch (Exception e) when (e is LogException or IOException)
        {
            // Whoever reads the past there is told.
        }
    }

    /// <summary>What DPR.INFO tells.</summary>
    public IEnumerable<(string Name, long Value)> Status()
    {
        Boundary? from = _window.Last;
        VersionNumber shown = from is { } oldest ? VersionNumber.Max(oldest.Version, Settled) : VersionNumber.Zero;
        yield return ("past_from_version", shown.Number);
        yield return ("past_from_unix_ms", from is null ? 0 : Grid().StartOf(shown.Next) / 1000);
        yield return ("retention_s", (long)retention.TotalSeconds);
        yield return ("retention_short", Promised is { } promised && from?.Version > promised && log.StartOffset > log.Origin.Offset
            ? 1 : 0);
    }

    /// <summary>The version of an instant, when it is committed.</summary>
    /// <exception cref="PastException">It is none, or not committed within 10 s.</exception>
    public async Task<VersionNumber> CommittedAsync(Instant at, CancellationToken stop)
    {
        if (Owners() is { Moves.Length: > 0 })
        {
            throw new PastException("slots move in this cluster: the past can be read when they have moved (slogger move --list)");
        }
        long nowUs = NowUs();
        VersionNumber wanted = at.By switch
        {
            InstantBy.Version => new(at.Number),
            InstantBy.Time => ClosedAt(UsOf(at.Number), nowUs),
            // What is acknowledged now is in the version that is open.
            _ when at.Number == 0 => Grid().VersionAt(nowUs),
            _ => ClosedAt(nowUs - UsOf(at.Number), nowUs),
        };
        long waitsUntil = Environment.TickCount64 + (long)CommitMax.TotalMilliseconds;
        bool isNow = at is { By: InstantBy.Ago, Number: 0 };
        VersionNumber committed;
        // What is acknowledged in a version that was not closed by itself is in the next one that was.
        while ((committed = Committed().Version) < wanted
            || (isNow && (committed = log.BoundaryAtOrBelow(committed)?.Version ?? VersionNumber.Zero) < wanted))
        {
            if (Environment.TickCount64 > waitsUntil)
            {
                throw new PastException(string.Create(CultureInfo.InvariantCulture,
                    $"version {wanted} is not committed: the newest that is, is {Committed().Version}, of {TimeOf(Committed().Version)}"),
                    PastProblem.NotClosed);
            }
            await Task.Delay(CommitPause, stop).ConfigureAwait(false);
        }
        return isNow ? committed : wanted;
    }

    /// <summary>Where a version ends, or the last before it that was closed by itself; and the checkpoint that it can be made from. Both
    /// stay for a minute.</summary>
    /// <exception cref="PastException">It is not kept.</exception>
    public (Boundary End, Checkpoint Base) Hold(VersionNumber version)
    {
        if (version < Settled)
        {
            throw NotKept(string.Create(CultureInfo.InvariantCulture, $"version {version} is not kept: slots have moved since, and which "
                + $"shard had a key then is not recorded. The past goes back to version {Settled}, of {TimeOf(Settled)}"));
        }
        if (log.BoundaryAtOrBelow(version) is not { } end || checkpoints.Latest(log, end.Offset) is not { } checkpoint)
        {
            throw NotKept($"version {version} is not kept: {WhatIsKept(version)}");
        }
        Renew(checkpoint.Offset);
        return (end, checkpoint);
    }

    /// <summary>The log from an offset on, and a checkpoint below, stay for another minute.</summary>
    public void Renew(long offset) => _holds.Renew(offset, Environment.TickCount64);

    /// <summary>From where on all commands are kept, without a gap: the end of a version, or the beginning of the history.</summary>
    /// <exception cref="PastException">Nothing is kept yet.</exception>
    public Boundary Beginning()
    {
        if (log.IsEmpty || checkpoints.Oldest(log) is not { } oldest) { throw NotKept("nothing is kept yet"); }
        Boundary first = _window.FirstAtOrAbove(Math.Max(oldest.Offset, log.ContiguousFrom(0)))
            ?? throw NotKept("nothing is kept yet");
        StreamOrigin origin = log.Origin;
        if (origin.Offset >= oldest.Offset && !log.HasGap(origin.Offset, first.Offset))
        {
            first = new Boundary(first.WorldLine, first.Version.Previous, origin.Offset, origin.Database, default);
        }
        if (first.Version >= Settled) { return first; }
        foreach (Boundary settled in log.BoundariesFrom(Settled)) { return settled; }
        throw NotKept("nothing is kept yet since slots have moved");
    }

    // Before, keys were at other shards, too.
    private VersionNumber Settled => Owners()?.Settled ?? VersionNumber.Zero;

    private VersionNumber ClosedAt(long timeUs, long nowUs)
    {
        VersionGrid grid = Grid();
        if (timeUs > nowUs)
        {
            throw new PastException($"{TextOf(timeUs)} is in the future: by the cluster's clock it is {TextOf(nowUs)}",
                PastProblem.NotClosed);
        }
        VersionNumber closed = grid.VersionAt(timeUs).Previous;
        return closed >= grid.Stretches[0].FirstVersion ? closed
            : throw NotKept($"{TextOf(timeUs)} is before the cluster began: that was {TextOf(grid.Stretches[0].StartUs)}");
    }

    private static PastException NotKept(string why) => new(why, PastProblem.NotKept);

    private string WhatIsKept(VersionNumber version) => _window.Find() switch
    {
        null => "nothing is kept yet",
        { } from when from.Version <= version => "writes that no log has lie between it and the checkpoint below",
        { } from => string.Create(CultureInfo.InvariantCulture, $"the log of this shard goes back to version {from.Version}, of "
            + $"{TimeOf(from.Version)} (--retention and --log-budget decide how far)"),
    };

    /// <summary>When a version ended, in microseconds since the Unix epoch: at all shards at the same time of the grid.</summary>
    public long TimeUsOf(in Boundary end) => Grid().StartOf(end.Version.Next);

    private string TimeOf(VersionNumber version) => TextOf(Grid().StartOf(version.Next));

    private static string TextOf(long timeUs) =>
        DateTimeOffset.FromUnixTimeMilliseconds(timeUs / 1000).UtcDateTime.ToString(
            "yyyy-MM-ddTHH:mm:ss.fffZ", CultureInfo.InvariantCulture);

    // Up to the year 9999.
    private static long UsOf(long milliseconds) => milliseconds <= 253_402_300_799_999 ? milliseconds * 1000
        : throw new PastException("a time is in milliseconds since 1970");
}
