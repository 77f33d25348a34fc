// When may a lease be taken from its holder (design, section 7)? Only by one who has itself seen it unchanged for a whole
// term, by its own monotonic clock, and could have seen a change all that time: the metadata answered throughout. So a holder is not
// deposed because the taker slept, or because nobody could reach the metadata. Safety does not rest on this: every write of a holder
// compares its epoch, so that one deposed too early loses its role, never an operation.
namespace Slogger.Core.Leases;

/// <summary>A lease as the metadata has it: who holds it, and how often that one has renewed it.</summary>
/// <param name="Epoch">The holder's; 0 if nobody ever held it.</param>
/// <param name="Renewals">Counted since it was taken.</param>
public readonly record struct LeaseState(long Epoch, long Renewals);

/// <summary>One observer's view of a lease. Not thread-safe.</summary>
public sealed class LeaseWatch
{
    private readonly long _termUs;
    private readonly LeaseMutation _mutation;
    private LeaseState? _seen;
    private long _sinceUs;
    private long _lastUs;

    /// <summary>Begins to watch.</summary>
    /// <param name="termUs">How long a lease holds without being renewed. Microseconds.</param>
    public LeaseWatch(long termUs)
        : this(termUs, LeaseMutation.None)
    {
    }

    internal LeaseWatch(long termUs, LeaseMutation mutation)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(termUs, 1);
        (_termUs, _mutation) = (termUs, mutation);
    }

    /// <summary>The lease as last seen; null before the first look.</summary>
    public LeaseState? Seen => _seen;

    /// <summary>When it was first found to be as it is now: it was renewed no later than that. Microseconds.</summary>
    public long UnchangedSinceUs => _sinceUs;

    /// <summary>The metadata was looked at.</summary>
    /// <param name="state">What it said.</param>
    /// <param name="askedUs">When it was asked, by the observer's monotonic clock. Microseconds.</param>
    /// <param name="answeredUs">When the answer came.</param>
    /// <returns>Whether the lease has run out: it may be taken if it is still in this state.</returns>
    public bool Look(LeaseState state, long askedUs, long answeredUs)
    {
        // It was as it is at some moment between the two: counted from the later one of the first look to the earlier one of this.
        // The metadata was there at some moment between a question and its answer. From one such moment to the next nobody knows: where
        // that could be so long, a renewal could have failed for the same reason.
        bool hasGap = answeredUs - _lastUs > _termUs / 2 && _mutation != LeaseMutation.GapIsNoReason;
        if (_seen != state || hasGap) (_seen, _sinceUs) = (state, answeredUs);
        _lastUs = Math.Max(askedUs, _sinceUs);
        return askedUs - _sinceUs >= (_mutation == LeaseMutation.HalfATerm ? _termUs / 2 : _termUs);
    }

    /// <summary>The metadata could not be asked, or gave no answer: its holder may have fared no better.</summary>
    public void Missed()
    {
        if (_mutation != LeaseMutation.OutageCounts) _seen = null;
    }
}

/// <summary>Deliberate faults for the tests of the tests; see ShardMutation.</summary>
internal enum LeaseMutation
{
    None,

    /// <summary>It is taken when half of its term is over.</summary>
    HalfATerm,

    /// <summary>A taker that has slept counts the time.</summary>
    GapIsNoReason,

    /// <summary>Time without the metadata counts.</summary>
    OutageCounts,
}
