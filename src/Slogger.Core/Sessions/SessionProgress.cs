// What one connection has done and how far it is committed: maps operation numbers to versions, by run-length entries.
// Used by the front-end loop at the rate of batches: no allocation in the steady state, a few hundred bytes when idle,
// bounded whatever happens. (DPR, sections 2 and 3: sessions, DPR-guarantee; 4.2: the surviving prefix.)
//
// An operation has a lower and an upper version: it was executed no earlier than in `lower` and no later than in `upper`.
// - On the shared upstream, and on a drained dedicated one, both are the version open when it was forwarded.
// - On a dedicated upstream behind a blocked command, `lower` is known when it is forwarded, `upper` when it is answered.
// A recovery to version v keeps what has upper <= v, loses what has lower > v, and cannot tell for the rest: *uncertain*.
// Both bounds never decrease along a session, so the three are consecutive ranges.
//
// If more entries pile up than fit (SQL down for long, thousands of versions without commit), the oldest are merged two and
// two: they commit a little later and would be listed as uncertain if a recovery fell between them; never wrongly as safe.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sessions;

/// <summary>What a recovery did to a session. The four ranges cover all operations up to the last forwarded, in this order.</summary>
/// <param name="Survived">The last operation of the surviving prefix; what an earlier report listed as lost or uncertain
/// stays so.</param>
/// <param name="Uncertain">Operations whose fate cannot be told.</param>
/// <param name="Lost">Operations that are undone, or were never executed.</param>
public readonly record struct RollbackOutcome(SequenceNumber Survived, SequenceRange Uncertain, SequenceRange Lost);

/// <summary>An operation range that is not part of the committed prefix although the prefix passes over it.</summary>
/// <param name="Range">The operations.</param>
/// <param name="IsLost">True: surely undone or not executed. False: uncertain.</param>
public readonly record struct SessionException(SequenceRange Range, bool IsLost);

/// <summary>Progress of one connection's operations. Single-threaded.</summary>
public sealed class SessionProgress
{
    /// <summary>The upper bound of what is not answered yet.</summary>
    private static readonly VersionNumber Unknown = new(long.MaxValue);

    /// <summary>How many exceptions are remembered one by one; older ones are merged.</summary>
    public const int ExceptionsMax = 16;

    private const int CapacityMin = 4;
    private const int CapacityKept = 64;

    private readonly int _entriesMax;
    private readonly SessionMutation _mutation;
    private Entry[] _ring = new Entry[CapacityMin];
    private int _head;
    private int _count;
    private int _openEnded;               // how many entries at the tail side may have an unknown upper bound; see OnAnswered
    private SessionException[] _exceptions = [];
    private int _exceptionCount;

    /// <summary>A session without operations.</summary>
    /// <param name="worldLine">The shard's world-line.</param>
    /// <param name="entriesMax">How many runs of versions are kept apart, at least 8: 24 bytes each.</param>
    public SessionProgress(WorldLine worldLine, int entriesMax = 1024)
        : this(worldLine, entriesMax, SessionMutation.None)
    {
    }

    internal SessionProgress(WorldLine worldLine, int entriesMax, SessionMutation mutation)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(entriesMax, 8);
        WorldLine = worldLine;
        _entriesMax = entriesMax;
        _mutation = mutation;
    }

    /// <summary>The world-line that the operations belong to.</summary>
    public WorldLine WorldLine { get; private set; }

    /// <summary>The last operation forwarded.</summary>
    public SequenceNumber Forwarded { get; private set; }

    /// <summary>The last operation answered; answers come in order.</summary>
    public SequenceNumber Answered { get; private set; }

    /// <summary>Every operation up to here is committed, except what <see cref="Exceptions"/> lists.</summary>
    public SequenceNumber Committed { get; private set; }

    /// <summary>What was lost or left uncertain so far; oldest first, at most <see cref="ExceptionsMax"/> (when there are
    /// more, the oldest are merged into wider uncertain ranges).</summary>
    public ReadOnlySpan<SessionException> Exceptions => _exceptions.AsSpan(0, _exceptionCount);

    /// <summary>How many entries are in use.</summary>
    public int EntryCount => _count;

    /// <summary>Operations were forwarded that will be executed in exactly this version.</summary>
    /// <param name="count">How many; at least 1.</param>
    /// <param name="version">The shard's open version; never less than before.</param>
    /// <returns>The number of the last of them.</returns>
    public SequenceNumber OnForwarded(int count, VersionNumber version) => Append(count, version, version);

    /// <summary>Operations were forwarded whose version is known only when they are answered (blocked, or behind a
    /// blocked one).</summary>
    /// <param name="count">How many; at least 1.</param>
    /// <param name="lower">The shard's lowest version.</param>
    /// <returns>The number of the last of them.</returns>
    public SequenceNumber OnForwardedOpenEnded(int count, VersionNumber lower) => Append(count, lower, Unknown);

    /// <summary>The next operations were answered, in order.</summary>
    /// <param name="count">How many.</param>
    /// <param name="upper">The shard's open version now; only used for operations forwarded open-ended.</param>
    /// <exception cref="InvalidOperationException">More answers than operations: the pairing is broken.</exception>
    public void OnAnswered(int count, VersionNumber upper)
    {
        SequenceNumber upTo = new(Answered.Number + count);
        if (count < 0 || upTo > Forwarded)
            throw new InvalidOperationException($"Operation {upTo} was answered, but only {Forwarded} were forwarded.");
        if (_openEnded > 0) Resolve(upTo, upper);
        Answered = upTo;
    }

    /// <summary>Operations forwarded as exact were not answered before a boundary had to be made: from here on the
    /// unanswered ones are open-ended.</summary>
    public void OnExactnessLost()
    {
        for (int i = 0; i < _count; i++)
        {
            if (At(i).Last <= Answered || At(i).Upper == Unknown) continue;
            if (FirstOf(i) <= Answered)
            {
                if (_count == _ring.Length)
                {
                    MakeRoom();
                    i = -1; // the entries have moved: find the place again
                    continue;
                }

                _count++;
                for (int j = _count - 1; j > i; j--) At(j) = At(j - 1);
                At(i).Last = Answered;
                continue;
            }

            At(i).Upper = Unknown;
            _openEnded++;
        }
    }

    /// <summary>The upstream died with operations unanswered: whether they were executed will never be known. They are
    /// taken out as exceptions; the connection may go on with new ones.</summary>
    /// <returns>The uncertain operations.</returns>
    public SequenceRange OnUpstreamLost()
    {
        SequenceRange lost = new(new(Answered.Number + 1), Forwarded);
        if (lost.IsEmpty) return lost;
        AddException(lost, isLost: false);
        // The entries stay, with a version that lets the committed prefix pass over them once all before is committed.
        while (_count > 0 && At(_count - 1).Last > Answered)
        {
            ref Entry tail = ref At(_count - 1);
            SequenceNumber first = FirstOf(_count - 1);
            if (first <= Answered)
            {
                tail.Last = Answered;
                break;
            }

            _count--;
        }

        _openEnded = 0;
        if (_count > 0) At(_count - 1).Last = Forwarded;
        else Committed = Forwarded;
        Answered = Forwarded;
        return lost;
    }

    /// <summary>The shard committed up to a point. Points of another world-line are ignored.</summary>
    /// <returns>The committed prefix.</returns>
    public SequenceNumber OnCommitted(WorldPoint point)
    {
        if (point.WorldLine != WorldLine && _mutation != SessionMutation.AnyWorldLineCommits) return Committed;
        while (_count > 0)
        {
            ref Entry head = ref At(0);
            VersionNumber needed = _mutation == SessionMutation.LowerBoundCommits ? head.Lower : head.Upper;
            // Committed means answered too: the marker's answer came behind all answers of its version.
            if (needed > point.Version || head.Last > Answered) break;
            Committed = head.Last;
            if (head.Upper == Unknown) _openEnded--;
            _head = (_head + 1) & (_ring.Length - 1);
            _count--;
        }

        // After a long time without commits: give the memory back.
        if (_count == 0 && _ring.Length > CapacityKept) _ring = new Entry[CapacityMin];
        if (_count == 0) _head = 0;
        return Committed;
    }

    /// <summary>Which version has to be committed for everything up to an operation to be committed.</summary>
    /// <returns>False if it is not known yet: an operation among them is not answered and open-ended.</returns>
    public bool TryVersionNeededFor(SequenceNumber sequence, out VersionNumber version)
    {
        version = VersionNumber.Zero;
        for (int i = 0; i < _count && FirstOf(i) <= sequence; i++) version = VersionNumber.Max(version, At(i).Upper);
        return version != Unknown;
    }

    /// <summary>A new world-line started: says what became of every operation, and goes on in it.</summary>
    /// <param name="next">The new world-line; branches of several may be folded into the lowest branch.</param>
    /// <param name="branch">The version that the store went back to.</param>
    public RollbackOutcome OnRollback(WorldLine next, VersionNumber branch)
    {
        if (next <= WorldLine) throw new ArgumentOutOfRangeException(nameof(next), $"World-line {next} does not follow {WorldLine}.");
        SequenceNumber survived = Committed, maybe = Committed;
        bool prefix = true;
        for (int i = 0; i < _count; i++)
        {
            ref Entry e = ref At(i);
            if (e.Lower > branch) break;
            maybe = e.Last;
            prefix &= e.Upper <= branch || _mutation == SessionMutation.LowerBoundSurvives;
            if (prefix) survived = e.Last;
        }

        // An answer is the only proof that an operation of a closed version was executed at all.
        if (survived > Answered && _mutation != SessionMutation.UnansweredSurvives) survived = Answered;
        RollbackOutcome outcome = new(
            survived, new(new(survived.Number + 1), maybe), new(new(maybe.Number + 1), Forwarded));
        AddException(outcome.Uncertain, isLost: false);
        AddException(outcome.Lost, isLost: true);
        WorldLine = next;
        _count = _head = _openEnded = 0;
        Committed = Answered = Forwarded;
        return outcome;
    }

    private SequenceNumber Append(int count, VersionNumber lower, VersionNumber upper)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(count, 1);
        SequenceNumber last = new(Forwarded.Number + count);
        if (_count > 0)
        {
            ref Entry tail = ref At(_count - 1);
            if (lower < tail.Lower)
            {
                // A session's operations are executed in order: none earlier than the one before it.
                if (upper != Unknown) throw new ArgumentOutOfRangeException(
                    nameof(lower), $"Version {lower} after {tail.Lower}: exact versions of a session never decrease.");
                lower = tail.Lower;
            }

            bool same = lower == tail.Lower
                || (_mutation == SessionMutation.RunsMerge && lower.Number == tail.Lower.Number + 1 && upper != Unknown);
            if (same && (upper == tail.Upper || (_mutation == SessionMutation.RunsMerge && upper != Unknown && tail.Upper != Unknown)))
            {
                tail.Last = Forwarded = last;
                return last;
            }
        }

        if (_count == _ring.Length) MakeRoom();
        _count++;
        At(_count - 1) = new() { Last = last, Lower = lower, Upper = upper };
        if (upper == Unknown) _openEnded++;
        Forwarded = last;
        return last;
    }

    /// <summary>Gives the open-ended operations up to a number their upper bound, splitting the entry that it falls into.</summary>
    private void Resolve(SequenceNumber upTo, VersionNumber upper)
    {
        for (int i = 0; i < _count; i++)
        {
            if (At(i).Last <= Answered || At(i).Upper != Unknown) continue;
            SequenceNumber first = FirstOf(i);
            if (first > upTo) break;
            if (At(i).Last <= upTo)
            {
                At(i).Upper = VersionNumber.Max(upper, At(i).Lower);
                _openEnded--;
                if (i > 0 && At(i - 1).Lower == At(i).Lower && At(i - 1).Upper == At(i).Upper)
                {
                    At(i - 1).Last = At(i).Last;
                    for (int j = i; j < _count - 1; j++) At(j) = At(j + 1);
                    _count--;
                    i--;
                }

                continue;
            }

            if (i > 0 && At(i - 1).Lower == At(i).Lower && At(i - 1).Upper == upper)
            {
                // Answers trickle in one by one within a version: lengthen the resolved entry before.
                At(i - 1).Last = upTo;
                break;
            }

            if (_count == _ring.Length)
            {
                int before = _count;
                MakeRoom();
                if (_count != before)
                {
                    i = -1; // entries were merged: find the place again
                    continue;
                }
            }

            Entry resolved = new() { Last = upTo, Lower = At(i).Lower, Upper = VersionNumber.Max(upper, At(i).Lower) };
            _count++;
            for (int j = _count - 1; j > i; j--) At(j) = At(j - 1);
            At(i) = resolved;
            break;
        }
    }

    private void MakeRoom()
    {
        if (_ring.Length < _entriesMax)
        {
            Entry[] larger = new Entry[_ring.Length * 2];
            for (int i = 0; i < _count; i++) larger[i] = At(i);
            _ring = larger;
            _head = 0;
            return;
        }

        // Merge the older half two and two. The newest keep their resolution: a recovery is most likely to fall there.
        int half = _count / 2 & ~1, to = 0;
        for (int i = 0; i < half; i += 2)
        {
            Entry a = At(i), b = At(i + 1);
            if (a.Upper == Unknown && b.Upper == Unknown) _openEnded--;
            VersionNumber upper = _mutation == SessionMutation.CoarseEarly ? a.Upper : VersionNumber.Max(a.Upper, b.Upper);
            At(to++) = new() { Last = b.Last, Lower = a.Lower, Upper = upper };
        }

        for (int i = half; i < _count; i++) At(to++) = At(i);
        _count = to;
    }

    private void AddException(SequenceRange range, bool isLost)
    {
        if (range.IsEmpty) return;
        if (_exceptions.Length == 0) _exceptions = new SessionException[ExceptionsMax];
        if (_exceptionCount == ExceptionsMax)
        {
            // The two oldest become one wide uncertain range: less precise, never wrongly safe.
            _exceptions[0] = new(new(_exceptions[0].Range.First, _exceptions[1].Range.Last), false);
            Array.Copy(_exceptions, 2, _exceptions, 1, ExceptionsMax - 2);
            _exceptionCount--;
        }

        _exceptions[_exceptionCount++] = new(range, isLost);
    }

    private SequenceNumber FirstOf(int i) => new((i == 0 ? Committed.Number : At(i - 1).Last.Number) + 1);

    private ref Entry At(int i) => ref _ring[(_head + i) & (_ring.Length - 1)];

    private struct Entry
    {
        public SequenceNumber Last;
        public VersionNumber Lower;
        public VersionNumber Upper;
    }
}

/// <summary>Deliberate faults for the tests of the tests; see ShardMutation.</summary>
internal enum SessionMutation
{
    None,

    /// <summary>An open-ended operation commits at its lower bound.</summary>
    LowerBoundCommits,

    /// <summary>An open-ended operation survives at its lower bound.</summary>
    LowerBoundSurvives,

    /// <summary>Operations of neighbouring versions share an entry.</summary>
    RunsMerge,

    /// <summary>Operations never answered are said to survive.</summary>
    UnansweredSurvives,

    /// <summary>Points of other world-lines commit.</summary>
    AnyWorldLineCommits,

    /// <summary>A merged entry takes the earlier version.</summary>
    CoarseEarly,
}
