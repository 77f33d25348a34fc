// Commits and rollbacks of a store run one after the other: each takes the turn, and gives it back when it has ended.
namespace Slogger.Faster;

/// <summary>Whose turn it is. Any thread.</summary>
internal sealed class CommitTurn
{
    private static readonly TimeSpan s_closePause = TimeSpan.FromMilliseconds(20);
    private readonly SemaphoreSlim _turn = new(1, 1);
    private volatile bool _isClosed;

    /// <summary>Whether the store has ended.</summary>
    public bool IsClosed => _isClosed;

    /// <summary>Whether nobody has it.</summary>
    public bool IsFree => _turn.CurrentCount > 0;

    public bool TryTake() => !_isClosed && _turn.Wait(0);

    /// <exception cref="ObjectDisposedException">The store has ended, before or meanwhile.</exception>
    public async Task TakeAsync(CancellationToken cancellation)
    {
        ObjectDisposedException.ThrowIf(_isClosed, typeof(FasterStore));
        await _turn.WaitAsync(cancellation).ConfigureAwait(false);
        if (!_isClosed) return;
        _turn.Release();
        throw new ObjectDisposedException(nameof(FasterStore));
    }

    public void Give() => _turn.Release();

    /// <summary>Nobody takes it any more. Waits until it is free.</summary>
    /// <param name="isGivenUp">Whether whoever has it is not waited for.</param>
    /// <returns>Whether it was taken: it is to be given back when the store has ended, for those who wait.</returns>
    public bool Close(Func<bool> isGivenUp)
    {
        bool isTaken;
        while (!(isTaken = _turn.Wait(s_closePause)) && !isGivenUp())
        {
        }

        _isClosed = true;
        return isTaken;
    }
}
