// Who may read a backup's store, and when it may be fed: it is read at the ends of versions only, though a version is executed there command by
// command. The paper, section 5.4; design, section 10.
//
// Neither starves. While a version waits for the reads that are under way nobody new is let in, and when it is applied all who wait are: so
// who waits, waits for one version at most. A version waits so long and no longer: what is read then is void, and is not answered.
// The caller performs it: it starts what is let in, feeds, and asks again when a time has come.
using Slogger.Core.Sessions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Watermarks;

/// <summary>A reader that was let in.</summary>
/// <param name="At">The end of the version that it reads.</param>
/// <param name="Turn">Between which two versions that is.</param>
public readonly record struct ReadPass(WorldPoint At, long Turn);

/// <summary>What the end of a read means.</summary>
/// <param name="Holds">What was read is the state at the end of one version; else it may be of two, and must not be answered.</param>
/// <param name="FeedMayBegin">It was the last one that a version waited for: <see cref="ReadGate.TryFeed"/> says yes now.</param>
public readonly record struct ReadEnd(bool Holds, bool FeedMayBegin);

/// <summary>Lets readers and the feed to one store. Not thread-safe.</summary>
public sealed class ReadGate
{
    private readonly long _feedWaitUsMax;
    private readonly ReadGateMutation _mutation;
    private long _turn;
    private int _reading;
    private int _waiting;
    private bool _isFeeding;
    private long? _feedDueUs;

    /// <summary>Begins with a store that stands at the end of a version.</summary>
    /// <param name="at">Of which.</param>
    /// <param name="feedWaitUsMax">How long a version waits for reads that are under way, in microseconds. Longer reads are in vain while versions come;
    /// so late is the backup at most for the sake of its readers.</param>
    public ReadGate(WorldPoint at, long feedWaitUsMax)
        : this(at, feedWaitUsMax, ReadGateMutation.None)
    {
    }

    internal ReadGate(WorldPoint at, long feedWaitUsMax, ReadGateMutation mutation)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(feedWaitUsMax);
        (At, _feedWaitUsMax, _mutation) = (at, feedWaitUsMax, mutation);
    }

    /// <summary>The end of the version that is read, or was read before the one that is applied now.</summary>
    public WorldPoint At { get; private set; }

    /// <summary>When <see cref="TryFeed"/> will say yes at the latest, in microseconds; null: no version waits.</summary>
    public long? FeedDueUs => _isFeeding ? null : _feedDueUs;

    /// <summary>A reader comes. Null: it waits, and is let in with all others that wait by <see cref="Fed"/>.</summary>
    public ReadPass? Enter()
    {
        if (_isFeeding || (_feedDueUs is not null && _mutation != ReadGateMutation.NewcomersPass))
        {
            _waiting++;
            return null;
        }

        _reading++;
        return new ReadPass(At, _turn);
    }

    /// <summary>A reader that waits has gone.</summary>
    public void GiveUp()
    {
        if (--_waiting < 0) throw new BrokenInvariantException("nobody waits to read");
    }

    /// <summary>A read has ended: each pass comes back once.</summary>
    public ReadEnd Leave(ReadPass pass)
    {
        // Those of a version before were given up when the feed began.
        if (pass.Turn != _turn) return new ReadEnd(_mutation == ReadGateMutation.VoidIsAnswered, false);
        if (--_reading < 0) throw new BrokenInvariantException("a read ended twice");
        return new ReadEnd(true, _reading == 0 && _feedDueUs is not null);
    }

    /// <summary>A version is to be applied. True: now, and <see cref="Fed"/> follows. False: ask again when <see cref="Leave"/> says so, or at
    /// <see cref="FeedDueUs"/>.</summary>
    public bool TryFeed(long nowUs)
    {
        if (_isFeeding) throw new BrokenInvariantException("a version is being applied");
        _feedDueUs ??= nowUs + _feedWaitUsMax;
        bool isDue = nowUs >= _feedDueUs && _mutation != ReadGateMutation.FeedWaitsForEver;
        if (_reading > 0 && !isDue && _mutation != ReadGateMutation.FeedDoesNotWait) return false;
        _isFeeding = true;
        _turn++;
        _reading = 0;
        return true;
    }

    /// <summary>The store stands at the end of a version: not before, whatever feeding meets on the way. Returns all who waited, how many they are and with
    /// which pass: each of them reads now.</summary>
    public (int Count, ReadPass Pass) Fed(WorldPoint at)
    {
        if (!_isFeeding || at < At) throw new BrokenInvariantException($"no version is being applied that ends at {at}");
        (At, _isFeeding, _feedDueUs) = (at, false, null);
        int count = _mutation == ReadGateMutation.OneIsLetIn ? Math.Min(_waiting, 1) : _waiting;
        _reading = count;
        _waiting -= count;
        return (count, new ReadPass(at, _turn));
    }
}
