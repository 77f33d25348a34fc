// Whether the log has come to one of the limits of its budget. Asked before each write, so an answer is one look at a flag.
namespace Slogger.Faster.Memory;

/// <summary>Which limits have been reached. Any thread.</summary>
internal sealed class LogLimits(LogBudget budget)
{
    private long _alarm = long.MaxValue;   // the address from which on writers are slowed down
    private volatile bool _isPressed, _isOutOfMemory, _isFull;

    /// <summary>Whether writers should wait a little.</summary>
    public bool IsPressed => _isPressed;

    /// <summary>Whether applications may write no more.</summary>
    public bool IsOutOfMemory => _isOutOfMemory;

    /// <summary>Whether nothing at all may be written.</summary>
    public bool IsFull => _isFull;

    /// <summary>Whether the log's end has come to an address at which <see cref="Warn"/> has to be told.</summary>
    public bool IsAlarming(long address) => address >= Volatile.Read(ref _alarm);

    /// <summary>A write has made the log longer. Only what is reached is noted: that it is over is for <see cref="Judge"/> to
    /// see.</summary>
    /// <param name="used">How long the log is.</param>
    /// <returns>Whether writers are to be slowed down from now on: compaction has to begin.</returns>
    public bool Warn(long used)
    {
        if (used >= budget.Wall && !_isFull) _isFull = true;
        if (used >= budget.Full && !_isOutOfMemory) _isOutOfMemory = true;
        if (_isPressed) return false;
        return _isPressed = true;
    }

    /// <summary>Sees where the log stands.</summary>
    /// <param name="live">How many of its bytes are in use.</param>
    /// <param name="first">Where the page begins that it begins in.</param>
    /// <param name="tail">Where it ends.</param>
    public void Judge(long live, long first, long tail)
    {
        long used = tail - first;
        Volatile.Write(ref _alarm, first + budget.Pressed);
        _isPressed = used >= budget.Pressed;
        _isFull = used >= budget.Wall;
        _isOutOfMemory = used >= budget.Full || live >= budget.LiveMax;
    }
}
