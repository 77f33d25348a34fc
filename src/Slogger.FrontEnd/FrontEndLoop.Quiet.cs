// Moments in which nothing is under way at the store: nothing is forwarded, and all that was has been answered. A backup applies a version in such a moment, so that each
// command sees the end of one.
namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    private const long SlowReaderMicroseconds = 1_000_000;
    private TaskCompletionSource? _quiet;
    private long _slowAt;

    /// <summary>Stops forwarding, and completes when nothing is under way any more. What clients send waits. Any thread; by one caller at a time.</summary>
    public Task HoldAsync()
    {
        var quiet = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        Post(() =>
        {
            Boundary.Shut(true);
            (_quiet, _slowAt) = (quiet, Now + SlowReaderMicroseconds);
            CheckQuiet();
        });
        return quiet.Task;
    }

    /// <summary>Goes on. Any thread.</summary>
    public void LetGo() => Post(() =>
    {
        _quiet = null;
        Boundary.Shut(false);
    });

    private void CheckQuiet()
    {
        if (Now >= _slowAt) { CloseSlowReaders(); }
        if (AnythingInFlight) { return; }
        _quiet!.TrySetResult();
        _quiet = null;
    }

    // Who does not read what he has asked for would hold up everybody.
    private void CloseSlowReaders()
    {
        _slowAt = Now + SlowReaderMicroseconds;
        foreach (Client client in Clients.ToArray())
        {
            if (client is not { Dedicated.ExactInFlight: > 0, IsOutputFull: true }) { continue; }
            Shard.Warn($"client {client.Id} is closed: it does not read its replies, and the next version waits for that");
            client.Close();
        }
    }
}
