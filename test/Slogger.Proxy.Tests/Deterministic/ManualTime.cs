// Time that passes when the schedule says so.
namespace Slogger.Proxy.Tests.Deterministic;

/// <summary>Both clocks of a machine, and its timers. The schedule's thread has it pass; anybody may read.</summary>
internal sealed class ManualTime : TimeProvider
{
    /// <summary>The time of day at the beginning, in microseconds since the Unix epoch.</summary>
    public const long StartUs = 1_767_225_600_000_000;

    private const long TicksPerUs = 10;
    private readonly Lock _lock = new();
    private readonly List<Alarm> _alarms = [];
    private long _passedUs;

    public override long TimestampFrequency => 1_000_000 * TicksPerUs;

    // The machine has run for some seconds.
    public override long GetTimestamp() => (10_000_000 + Interlocked.Read(ref _passedUs)) * TicksPerUs;

    public override DateTimeOffset GetUtcNow() =>
        DateTimeOffset.UnixEpoch.AddTicks((StartUs + Interlocked.Read(ref _passedUs)) * TicksPerUs);

    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
    {
        var alarm = new Alarm(this, callback, state);
        alarm.Change(dueTime, period);
        return alarm;
    }

    /// <summary>Has time pass, and rings what is due.</summary>
    public void Pass(long us)
    {
        long until = _passedUs + us;
        while (Next(until) is { } alarm) { alarm.Ring(); }
        Interlocked.Exchange(ref _passedUs, until);
    }

    /// <summary>Has time pass until the first timer is due. False: there is none.</summary>
    public bool PassToNext()
    {
        if (Next(long.MaxValue) is not { } alarm) { return false; }
        alarm.Ring();
        return true;
    }

    private Alarm? Next(long until)
    {
        lock (_lock)
        {
            if (_alarms.Where(a => a.DueUs <= until).MinBy(a => a.DueUs) is not { } alarm) { return null; }
            _alarms.Remove(alarm);
            Interlocked.Exchange(ref _passedUs, Math.Max(_passedUs, alarm.DueUs));
            return alarm;
        }
    }

    private sealed class Alarm(ManualTime time, TimerCallback callback, object? state) : ITimer
    {
        public long DueUs { get; private set; }

        public void Ring() => callback(state);

        // Nobody here has one that rings again.
        public bool Change(TimeSpan dueTime, TimeSpan period)
        {
            Assert.Equal(Timeout.InfiniteTimeSpan, period);
            lock (time._lock)
            {
                time._alarms.Remove(this);
                if (dueTime == Timeout.InfiniteTimeSpan) { return true; }
                DueUs = time._passedUs + (long)Math.Ceiling(dueTime.TotalMicroseconds);
                time._alarms.Add(this);
            }
            return true;
        }

        public void Dispose()
        {
            lock (time._lock) { time._alarms.Remove(this); }
        }

        public ValueTask DisposeAsync()
        {
            Dispose();
            return ValueTask.CompletedTask;
        }
    }
}
