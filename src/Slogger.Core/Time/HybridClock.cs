// The hybrid logical clock. It runs on the monotonic clock and is slewed towards wall time, so that a wall clock set back
// neither stops nor reverses it; causality that passes through the system moves it forward; a peer further ahead than the
// bound is refused, so that one broken clock cannot drag a cluster along (Retroscope, section 3.1; design, section 3).
//
// The reading is base + lead. `base` follows this machine's clocks only. `lead` is how far remote timestamps have pushed
// the clock ahead of it: at most the bound, and given back at the slew rate. A wall clock that jumps far ahead (a suspended
// machine wakes, a wrong boot time is corrected) is followed at once: versions may skip, they may not go back.
//
// The two clocks of a machine cannot be read at once. A thread that loses its processor between the two has a wall time that
// looks wrong by as long as it was away; were that corrected, the clocks of two processes on one machine, who count on having
// one clock, would drift apart by milliseconds when it is busy. So a reading says how far it is spread, and only what is wrong
// whenever within it the wall clock was read is corrected.
namespace Slogger.Core.Time;

/// <summary>Settings of a <see cref="HybridClock"/>.</summary>
public sealed record HybridClockOptions
{
    /// <summary>How fast the clock is corrected towards wall time, in parts per million: at most this much quicker or
    /// slower than the monotonic clock. Default 5 %; below 100 %, or the clock could stop.</summary>
    public int SlewPartsPerMillion { get; init; } = 50_000;

    /// <summary>A wall clock ahead by more than this, in microseconds, is followed at once.</summary>
    public long StepForwardUs { get; init; } = 1_000_000;

    /// <summary>A remote timestamp ahead of this machine's own time by more than this, in microseconds, is refused.</summary>
    public long RemoteAheadMaxUs { get; init; } = 500_000;
}

/// <summary>Both clocks of a machine, the wall clock read first: it said <paramref name="WallUs"/> when the monotonic one stood at
/// <paramref name="MonotonicUs"/>, or at most <paramref name="SpreadUs"/> before.</summary>
/// <param name="MonotonicUs">The monotonic clock, microseconds since any origin.</param>
/// <param name="WallUs">The wall clock, microseconds since the Unix epoch.</param>
/// <param name="SpreadUs">Microseconds.</param>
public readonly record struct ClockReading(long MonotonicUs, long WallUs, long SpreadUs = 0);

/// <summary>The clock of one process; every reading is later than the one before. Not thread-safe.</summary>
public sealed class HybridClock
{
    private readonly HybridClockOptions _options;
    private long _monotonicUs;
    private long _baseUs;
    private long _leadUs;
    private HybridTimestamp _last;

    /// <summary>Starts at wall time.</summary>
    /// <param name="reading">The machine's clocks: the closer together they were read, the better, since the clock is behind by the spread
    /// at first.</param>
    /// <param name="options">Settings.</param>
    public HybridClock(in ClockReading reading, HybridClockOptions? options = null)
    {
        _options = options ?? new();
        ArgumentOutOfRangeException.ThrowIfLessThan(_options.SlewPartsPerMillion, 1, nameof(options));
        ArgumentOutOfRangeException.ThrowIfGreaterThanOrEqual(_options.SlewPartsPerMillion, 1_000_000, nameof(options));
        ArgumentOutOfRangeException.ThrowIfNegative(reading.WallUs, nameof(reading));
        _monotonicUs = reading.MonotonicUs;
        _baseUs = reading.WallUs;
        _last = HybridTimestamp.Of(reading.WallUs, 0);
    }

    /// <summary>The last timestamp handed out or observed.</summary>
    public HybridTimestamp Last => _last;

    /// <summary>How far this clock is ahead of wall time, as of the last reading, in microseconds; negative if behind.</summary>
    public long AheadOfWallUs { get; private set; }

    /// <summary>The next timestamp: later than every one before, and than every one observed.</summary>
    public HybridTimestamp Now(in ClockReading reading)
    {
        Advance(reading);
        return _last = After(_last, _baseUs + _leadUs);
    }

    /// <summary>Takes in a timestamp from elsewhere (a peer, the log, the metadata): later readings are later than it.</summary>
    /// <returns>False if it is too far ahead of this machine's own time: it was not taken in, and its sender must not be
    /// trusted with versions.</returns>
    public bool TryObserve(HybridTimestamp remote, in ClockReading reading)
    {
        Advance(reading);
        if (remote.Microseconds - _baseUs > _options.RemoteAheadMaxUs) return false;
        if (remote > _last) _last = remote;
        _leadUs = Math.Max(_leadUs, remote.Microseconds - _baseUs);
        return true;
    }

    /// <summary>Takes in a timestamp that this shard itself has given out in an earlier life, whatever its distance: time
    /// must not repeat even if the machine's clock was set back meanwhile.</summary>
    public void Resume(HybridTimestamp own, in ClockReading reading)
    {
        // First: what passed since the last reading is part of the own timestamp already, and must not be added to it.
        Advance(reading);
        if (own <= _last) return;
        _last = own;
        _baseUs = Math.Max(_baseUs, own.Microseconds);
    }

    private static HybridTimestamp After(HybridTimestamp last, long physicalUs) =>
        physicalUs > last.Microseconds ? HybridTimestamp.Of(physicalUs, 0)
        : last.Counter < HybridTimestamp.CounterMax ? new(last.Bits + 1)
        : HybridTimestamp.Of(last.Microseconds + 1, 0);

    private void Advance(in ClockReading reading)
    {
        long elapsedUs = Math.Max(0, reading.MonotonicUs - _monotonicUs);
        if (reading.MonotonicUs > _monotonicUs) _monotonicUs = reading.MonotonicUs;
        _baseUs += elapsedUs;

        // How far wall time is ahead of the base: at least, and at most.
        long least = reading.WallUs - _baseUs, most = least + reading.SpreadUs;
        long errorUs = least > 0 ? least : Math.Min(most, 0);
        // Rounded up, so that frequent readings are corrected too; never more than the time that passed, so never back.
        long slewUs = Math.Min(elapsedUs, (long)((((Int128)elapsedUs * _options.SlewPartsPerMillion) + 999_999) / 1_000_000));
        if (errorUs > _options.StepForwardUs) _baseUs = reading.WallUs;
        else _baseUs += Math.Clamp(errorUs, -slewUs, slewUs);
        _leadUs = Math.Max(0, _leadUs - slewUs);
        AheadOfWallUs = _baseUs + _leadUs - reading.WallUs;
    }
}
