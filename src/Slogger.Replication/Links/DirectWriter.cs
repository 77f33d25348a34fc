// What any thread has to say over one call, whose writes come one after the other. Who says something writes it, with what others say
// meanwhile: no other thread is woken, and nobody waits.
using System.Diagnostics.CodeAnalysis;

namespace Slogger.Replication.Links;

/// <summary>Writes messages in the order in which they come. Any thread.</summary>
/// <param name="keeps">How many wait at most: of more than that the oldest is dropped. So messages say all that there is to know.</param>
/// <param name="write">Writes one; the flag: nothing follows at once. When it throws the call is over, and nothing more is written.</param>
internal sealed class DirectWriter<T>(int keeps, Func<T, bool, ValueTask> write)
{
    private readonly Lock _lock = new();
    private readonly Queue<T> _waiting = new();
    private bool _isWriting;
    private TaskCompletionSource? _closed;

    /// <summary>Writes a message, now or later; never waits.</summary>
    public void Write(T message)
    {
        lock (_lock)
        {
            if (_closed is not null) { return; }
            if (_waiting.Count == keeps) { _waiting.Dequeue(); }
            _waiting.Enqueue(message);
            if (_isWriting) { return; }
            _isWriting = true;
        }
        _ = WriteAllAsync();
    }

    /// <summary>There are no more. Returns when those that there are have been written, or the call is over.</summary>
    public Task CloseAsync()
    {
        lock (_lock)
        {
            _closed ??= new(TaskCreationOptions.RunContinuationsAsynchronously);
            if (!_isWriting) { _closed.TrySetResult(); }
            return _closed.Task;
        }
    }

    private async Task WriteAllAsync()
    {
        try
        {
            while (TryTake(out T? message, out bool isLast)) { await write(message, isLast).ConfigureAwait(false); }
        }
        catch (Exception)
        {
            // The call is over: who reads it sees why.
            _ = CloseAsync();
            lock (_lock) { EndWriting(); }
        }
    }

    private bool TryTake([MaybeNullWhen(false)] out T message, out bool isLast)
    {
        lock (_lock)
        {
            bool isThere = _waiting.TryDequeue(out message);
            isLast = _waiting.Count == 0;
            if (!isThere) { EndWriting(); }
            return isThere;
        }
    }

    // Under the lock.
    private void EndWriting()
    {
        _isWriting = false;
        _closed?.TrySetResult();
    }
}
