// Moments in which nothing is under way at the store: nothing is forwarded, and all that was has been answered. A backup applies a
// version in
// such a moment, so that each command sees the end of one.
namespace Slogger.FrontEnd;

/// <summary>Makes a moment in which nothing is under way at the store.</summary>
internal sealed class QuietMoment(FrontEndLoop loop)
{
    private const long SlowReaderMicroseconds = 1_000_000;
    private TaskCompletionSource? _asked;
    private long _slowAt;

    /// <summary>Whether somebody waits for such a moment. The loop's thread.</summary>
    public bool IsAwaited => _asked is not null;

    /// <summary>Stops forwarding, and completes when nothing is under way any more. What clients send waits. Any thread; by one caller at
    /// a time.</summary>
    public Task BeginAsync()
    {
        var quiet = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        loop.Post(() =>
        {
            loop.Boundary.Shut(true);
            (_asked, _slowAt) = (quiet, loop.Now + SlowReaderMicroseconds);
            Check();
        });
        return quiet.Task;
    }

    /// <summary>Goes on. Any thread.</summary>
    public void End() => loop.Post(() =>
    {
        _asked = null;
        loop.Boundary.Shut(false);
    });

    /// <summary>Looks whether the moment has come. The loop's thread.</summary>
    public void Check()
    {
        if (loop.Now >= _slowAt) { CloseSlowReaders(); }
        if (loop.AnythingInFlight) { return; }
        _asked!.TrySetResult();
        _asked = null;
    }

    // A client that does not read what it has asked for would hold up everybody.
    private void CloseSlowReaders()
    {
        _slowAt = loop.Now + SlowReaderMicroseconds;
        foreach (Client client in loop.Clients.ToArray())
        {
            if (client is not { Dedicated.ExactInFlight: > 0, IsOutputFull: true }) { continue; }
            loop.Shard.Warn($"client {client.Id} is closed: it does not read its replies, and the next version waits for that");
            client.Close();
        }
    }
}
