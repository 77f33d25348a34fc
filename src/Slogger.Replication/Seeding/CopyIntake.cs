// What comes of a copy goes into a file, and is made durable as it grows. A disk that refuses is asked again with what is durable there.
using System.Buffers;
using System.Diagnostics;
using Slogger.Core.Replication;
using Slogger.Log.Format;

namespace Slogger.Replication.Seeding;

/// <summary>The copy that a machine is given, on its disk. Where its machine is driven, if nothing else is said.</summary>
/// <param name="disk">Where it goes.</param>
/// <param name="machine">The machine that asks for it, as it is now.</param>
/// <param name="whose">Begins what is said of it: "stream 0".</param>
/// <param name="report">For people.</param>
/// <param name="post">Has something done where the machine is driven, with the effects that it is to add to. Throws
/// OperationCanceledException when that has ended.</param>
internal sealed class CopyIntake(StreamDisk disk, Func<ICopyReceiver> machine, string whose, ILogger report,
    Func<Action<List<ReceiverEffect>>, ValueTask> post)
{
    private static readonly TimeSpan SayAgain = TimeSpan.FromSeconds(1), RetryDelay = TimeSpan.FromMilliseconds(200);
    private Task _syncing = Task.CompletedTask;
    private Shown? _progress;
    private long _saidAt, _refusedAt;

    private sealed record Shown(SeedProgress Of);

    /// <summary>How far it is; null: there is none (yet). Any thread.</summary>
    public SeedProgress? Progress => Volatile.Read(ref _progress)?.Of;

    /// <summary>A piece of it has come.</summary>
    /// <param name="chunk">Which.</param>
    /// <param name="bytes">Its bytes.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Write(in SeedChunk chunk, in ReadOnlySequence<byte> bytes, List<ReceiverEffect> effects)
    {
        try
        {
            disk.Write(chunk, bytes);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or LogIOException { IsFatal: false })
        {
            OnRefused(e, effects);
        }
        Show();
    }

    /// <summary>Makes durable what was written. Returns at once.</summary>
    /// <param name="ticket">What that is.</param>
    /// <param name="stop">Gives up waiting for a disk that has refused.</param>
    /// <param name="failed">Is told of an error that is none of the disk's.</param>
    public void Sync(SeedTicket ticket, Action<Exception> failed, CancellationToken stop) =>
        _syncing = SyncAsync(_syncing, ticket, failed, stop);

    /// <summary>Completes when nothing is being synced.</summary>
    public Task EndAsync() => _syncing;

    /// <summary>Tells how far it is, now and then.</summary>
    public void Show()
    {
        if (machine().Copy is not var (seed, hasBytes)) { return; }
        var progress = new SeedProgress(hasBytes, seed.Bytes);
        Volatile.Write(ref _progress, new(progress));
        if (_saidAt != 0 && Stopwatch.GetElapsedTime(_saidAt) < SayAgain && hasBytes < seed.Bytes) { return; }
        _saidAt = Stopwatch.GetTimestamp();
        report.Info($"{whose}: is being seeded: {progress}");
    }

    private async Task SyncAsync(Task before, SeedTicket ticket, Action<Exception> failed, CancellationToken stop)
    {
        await before.ConfigureAwait(false);
        try
        {
            try
            {
                await Task.Run(disk.Sync, CancellationToken.None).ConfigureAwait(false);
                await post(effects => machine().CopySynced(ticket, effects)).ConfigureAwait(false);
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException)
            {
                await Task.Delay(RetryDelay, stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
                await post(effects => OnRefused(e, effects)).ConfigureAwait(false);
            }
        }
        catch (OperationCanceledException)
        {
            // Stopping.
        }
        catch (Exception e)
        {
            failed(e);
        }
    }

    // Most often it is full. What is durable stays, and the rest is asked for again.
    private void OnRefused(Exception e, List<ReceiverEffect> effects)
    {
        if (_refusedAt == 0 || Stopwatch.GetElapsedTime(_refusedAt) >= SayAgain)
        {
            _refusedAt = Stopwatch.GetTimestamp();
            report.Error($"{whose}: the copy that it is seeded with cannot be written, and is tried again "
                + $"(it needs {machine().Copy?.Of.Bytes >> 20} MiB in the data directory): {e.Message}");
        }
        disk.Rewind();
        machine().CopyRefused(disk.Part, effects);
        Show();
    }
}
