// The clock of a shard: hybrid, so that it never goes back, and noted for the next process on this machine, which must not open versions
// again that replies have told of (ClockMemory).
using Slogger.Core.Time;
using Slogger.Proxy.Stores;

namespace Slogger.Proxy.Shards;

/// <summary>The clock. Any thread.</summary>
/// <param name="dataDirectory">Where it is noted.</param>
/// <param name="time">The machine's clocks.</param>
internal sealed class ShardClock(string dataDirectory, TimeProvider time)
{
    private const int CloseReadings = 1000;
    private const long NotePeriodUs = 1_000_000;

    // More than this no process takes to start after another.
    private const long StartUsMin = 10_000;
    private readonly Lock _lock = new();        // taken last: nothing else is called under it but the file
    private readonly HybridClock _clock = new(ReadClosely(time));
    private readonly ClockMemory _memory = new(dataDirectory);
    private HybridTimestamp _noted;
    private long _noteDue = long.MinValue;

    /// <summary>The machine's own clock, for what no test schedules.</summary>
    public static long MonotonicUs() => MonotonicUs(TimeProvider.System);

    /// <summary>The machine's own clock.</summary>
    public static long MonotonicUs(TimeProvider time) => (long)(time.GetTimestamp() * (1_000_000.0 / time.TimestampFrequency));

    /// <summary>The time of day, since the Unix epoch.</summary>
    public static long WallUs(TimeProvider time) =>
        ((time.GetUtcNow().UtcDateTime - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond) + FailPoint.ClockOffsetUs;

    /// <summary>Reads the machine's clocks.</summary>
    public ClockReading Read() => Read(time);

    private static ClockReading Read(TimeProvider time)
    {
        long before = MonotonicUs(time), wall = WallUs(time), after = MonotonicUs(time);
        return new ClockReading(after, wall, after - before);
    }

    /// <summary>What it says now.</summary>
    public HybridTimestamp Now()
    {
        lock (_lock) { return _clock.Now(Read()); }
    }

    /// <summary>What it says at a reading.</summary>
    public HybridTimestamp Now(in ClockReading reading)
    {
        lock (_lock) { return _clock.Now(reading); }
    }

    /// <summary>The machine's own clock, of the clocks that it was given.</summary>
    public long MonotonicMicroseconds() => MonotonicUs(time);

    /// <summary>A version was closed at that time: it goes on from there.</summary>
    public void Resume(HybridTimestamp closed)
    {
        lock (_lock) { _clock.Resume(closed, Read()); }
    }

    /// <summary>Goes on from what an earlier process has noted, and notes that.</summary>
    public void ResumeNoted()
    {
        lock (_lock)
        {
            // A file is read in between: what was noted has come to this, at the time of the reading.
            ClockReading reading = Read();
            if (_memory.Recall(reading.MonotonicUs) is { } noted) { _clock.Resume(noted, reading); }
        }
        NoteIfDue();
    }

    /// <summary>Goes along to the time at which a version opens ahead of it. False: it is too far behind.</summary>
    public bool TryObserve(HybridTimestamp opens)
    {
        lock (_lock)
        {
            if (!_clock.TryObserve(opens, Read())) { return false; }
            // By more than any process takes to start after another, and it is noted at once.
            long expected = _noted.Microseconds + MonotonicUs(time) - (_noteDue - NotePeriodUs);
            if (opens.Microseconds > expected + StartUsMin) { Note(); }
            return true;
        }
    }

    /// <summary>Notes it, at most about once a second.</summary>
    public void NoteIfDue()
    {
        lock (_lock)
        {
            if (MonotonicUs(time) >= _noteDue) { Note(); }
        }
    }

    private void Note()
    {
        // Both of one reading: what lies between two would be added to the clock of the next process.
        ClockReading reading = Read();
        _noteDue = reading.MonotonicUs + NotePeriodUs;
        _memory.Note(_noted = _clock.Now(reading), reading.MonotonicUs);
    }

    // The first readings wait for the compiler.
    private static ClockReading ReadClosely(TimeProvider time)
    {
        ClockReading best = Read(time);
        for (int i = 0; i < CloseReadings && best.SpreadUs > 1; i++)
        {
            ClockReading reading = Read(time);
            if (reading.SpreadUs < best.SpreadUs) { best = reading; }
        }
        return best;
    }
}
