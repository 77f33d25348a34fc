// When an embedded store may begin its next commit: not at once after one that has failed, and each failure in a row makes the pause
// longer. And when it is worth a warning that none can begin.
namespace Slogger.Proxy.Shards;

/// <summary>The commits of one store that fail, or cannot begin. The keeper, if nothing else is said.</summary>
internal sealed class CommitPacing
{
    private const long RefusedUsMax = 10_000_000;
    private static readonly TimeSpan PauseMin = TimeSpan.FromMilliseconds(200);
    private static readonly TimeSpan PauseMax = TimeSpan.FromSeconds(10);
    private long _failed;
    private long _mayBeginAt;
    private long _refusedSince;     // 0: not refused
    private bool _isTold;

    /// <summary>After how long the next try is made that follows a failure.</summary>
    public TimeSpan Pause { get; private set; } = PauseMin;

    /// <summary>How many have failed. Any thread.</summary>
    public long Failed => Volatile.Read(ref _failed);

    /// <summary>Whether the last one has failed just now. Any thread.</summary>
    public bool IsPaused => ShardClock.MonotonicUs() < Volatile.Read(ref _mayBeginAt);

    /// <summary>One has succeeded.</summary>
    public void OnSucceeded()
    {
        Pause = PauseMin;
        OnPossible();
    }

    /// <summary>One has failed.</summary>
    public void OnFailed()
    {
        Volatile.Write(ref _failed, _failed + 1);
        Volatile.Write(ref _mayBeginAt, ShardClock.MonotonicUs() + (long)Pause.TotalMicroseconds);
        if (Pause < PauseMax) { Pause *= 2; }
    }

    /// <summary>One could begin now.</summary>
    public void OnPossible()
    {
        _refusedSince = 0;
        _isTold = false;
    }

    /// <summary>None could begin now.</summary>
    /// <returns>For how long it has been so, if a person is to be told: once.</returns>
    public TimeSpan? OnRefused()
    {
        long now = ShardClock.MonotonicUs();
        if (_refusedSince == 0) { _refusedSince = now; }
        if (_isTold || now - _refusedSince < RefusedUsMax) { return null; }
        _isTold = true;
        return TimeSpan.FromMicroseconds(RefusedUsMax);
    }
}
