// A stream that is being seeded: what comes of the copy goes into a file, and is made durable as it grows. A disk that refuses is asked
// again with what is durable there.
using System.Diagnostics;
using Slogger.Core.Replication;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Replication.Seeding;

namespace Slogger.Replication.Receiving;

internal sealed partial class StreamReceiver
{
    private static readonly TimeSpan SayAgain = TimeSpan.FromSeconds(1);

    private Task _copying = Task.CompletedTask;
    private Progress? _progress;
    private long _saidAt, _refusedAt;

    private sealed record Progress(SeedProgress Of);

    /// <summary>How far the copy is that the stream is being seeded with; null: there is none (yet). For status.</summary>
    public SeedProgress? Seeding => Volatile.Read(ref _progress)?.Of;

    private void WriteCopy(in SeedChunk chunk)
    {
        try
        {
            _disk.Write(chunk, _message.Bytes);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or LogIOException { IsFatal: false })
        {
            OnCopyRefused(e);
        }
        ShowCopy();
    }

    private async Task SyncCopyAsync(Task before, SeedTicket ticket)
    {
        await before.ConfigureAwait(false);
        try
        {
            await Task.Run(_disk.Sync).ConfigureAwait(false);
            await PostAsync(() => _machine.CopySynced(ticket, _effects)).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // Stopping.
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            await Task.Delay(RetryDelay, _stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            try
            {
                await PostAsync(() => OnCopyRefused(e)).ConfigureAwait(false);
            }
            catch (OperationCanceledException)
            {
                // Stopping.
            }
        }
        catch (Exception e)
        {
            Fail(e);
        }
    }

    // Most often it is full. What is durable stays, and the rest is asked for again.
    private void OnCopyRefused(Exception e)
    {
        if (_refusedAt == 0 || Stopwatch.GetElapsedTime(_refusedAt) >= SayAgain)
        {
            _refusedAt = Stopwatch.GetTimestamp();
            _report.Error($"stream {_machine.Stream}: the copy that it is seeded with cannot be written, and is tried again "
                + $"(it needs {_machine.Copy?.Of.Bytes >> 20} MiB in the data directory): {e.Message}");
        }
        _disk.Rewind();
        _machine.CopyRefused(_disk.Part, _effects);
        ShowCopy();
    }

    private void ShowCopy()
    {
        if (_machine.Copy is not var (seed, hasBytes)) { return; }
        var progress = new SeedProgress(hasBytes, seed.Bytes);
        Volatile.Write(ref _progress, new(progress));
        if (_saidAt != 0 && Stopwatch.GetElapsedTime(_saidAt) < SayAgain && hasBytes < seed.Bytes) { return; }
        _saidAt = Stopwatch.GetTimestamp();
        _report.Info($"stream {_machine.Stream}: is being seeded: {progress}");
    }
}
