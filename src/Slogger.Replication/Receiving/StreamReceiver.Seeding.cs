// A stream that is being seeded: what comes of the copy goes into a file, and is made durable as it grows; each reply says what is lacking. A disk that refuses is asked again
// with what is durable there.
using System.Diagnostics;
using Slogger.Core.Replication;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Replication.Seeding;

namespace Slogger.Replication.Receiving;

internal sealed partial class StreamReceiver
{
    // What is lost of it when this process dies, and has to come again over a far link.
    private const long SyncEveryBytes = 4L << 20;
    private static readonly TimeSpan SayAgain = TimeSpan.FromSeconds(1);

    private readonly string? _badCopy;
    private SeedSink? _sink;
    private Task _copying = Task.CompletedTask;
    private Progress? _progress;
    private long _saidAt, _refusedAt;
    private bool _isCopied;

    private sealed record Progress(SeedProgress Of);

    /// <summary>How far the copy is that the stream is being seeded with; null: there is none (yet). For status.</summary>
    public SeedProgress? Seeding => Volatile.Read(ref _progress)?.Of;

    private SeedAsk Lacking => _sink!.Ask with { Bad = _badCopy };

    private void BeginSeeding(long generation)
    {
        _disk.Rewind();
        _sink = new(generation, _disk.Seed, _disk.DurableBytes);
        Show();
        SyncCopyIfDue();
    }

    private void Copy(in SeedChunk chunk)
    {
        if (_sink is not { IsComplete: false } sink || chunk.Seed.Id == _badCopy) { return; }
        bool isNew = sink.Seed?.Id != chunk.Seed.Id;
        bool isTaken = sink.Take(chunk);
        if (!isTaken && !(isNew && sink.Seed == chunk.Seed)) { return; }
        try
        {
            _disk.Write(chunk, _message.Bytes);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or LogIOException { IsFatal: false })
        {
            Refused(e);
            return;
        }
        Show();
        SyncCopyIfDue();
    }

    private void SyncCopyIfDue()
    {
        if (_sink is not { Seed: not null } sink || !_copying.IsCompleted || _isCopied) { return; }
        if (sink.IsComplete || sink.HasBytes - _disk.DurableBytes >= SyncEveryBytes) { _copying = SyncCopyAsync(sink); }
    }

    private async Task SyncCopyAsync(SeedSink sink)
    {
        try
        {
            await Task.Run(_disk.Sync).ConfigureAwait(false);
            await PostAsync(() =>
            {
                if (_sink != sink || _isCopied) { return; }
                _isCopied = sink.IsComplete && _disk.HasCopy(Generation);
                if (_isCopied) { _owner.OnCopied(); }
                else if (sink.IsComplete) { _copying = SyncCopyAsync(sink); }
            }).ConfigureAwait(false);
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
                await PostAsync(() => Refused(e)).ConfigureAwait(false);
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
    private void Refused(Exception e)
    {
        if (_refusedAt == 0 || Stopwatch.GetElapsedTime(_refusedAt) >= SayAgain)
        {
            _refusedAt = Stopwatch.GetTimestamp();
            _report.Error($"stream {_machine.Stream}: the copy that it is seeded with cannot be written, and is tried again (it needs {_sink?.Seed?.Bytes >> 20} MiB in the data directory): {e.Message}");
        }
        _disk.Rewind();
        _sink = new(Generation, _disk.Seed, _disk.DurableBytes);
        Show();
    }

    private long Generation => _machine.Generation;

    private void Show()
    {
        if (_sink!.Seed is not { } seed) { return; }
        var progress = new SeedProgress(_sink.HasBytes, seed.Bytes);
        Volatile.Write(ref _progress, new(progress));
        if (_saidAt != 0 && Stopwatch.GetElapsedTime(_saidAt) < SayAgain && !_sink.IsComplete) { return; }
        _saidAt = Stopwatch.GetTimestamp();
        _report.Info($"stream {_machine.Stream}: is being seeded: {progress}");
    }
}
