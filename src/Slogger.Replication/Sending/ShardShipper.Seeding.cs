// Seeding: the receiver asks for what it lacks of a copy, and gets it over the same link, read from the copy's file. All of it on the task
// that sends; the shard makes the copy.
using System.Buffers;
using Microsoft.Win32.SafeHandles;
using Slogger.Core.Replication;
using Slogger.Replication.Links;
using Slogger.Replication.Seeding;

namespace Slogger.Replication.Sending;

internal sealed partial class ShardShipper
{
    // Then the link's other duties come again.
    private const int ChunksAtOnce = 16;
    private const long SayAgainUs = 1_000_000;

    private readonly SeedFlow _flow;
    private SeedCopy? _copy;
    private SafeFileHandle? _copyFile;
    private Progress? _seeding;
    private long _saidUs;
    private string _saidWhy = "";

    private sealed record Progress(SeedProgress Of);

    private void Asked(SeedAsk ask)
    {
        SeedCopy? copy = _listener.CopyOf(ask.Generation);
        string? why = SeedOffer.WhyNot(ask, copy?.Seed, copy?.IsPartOf(_log) == true);
        if (why is not null) { copy = null; }
        if (copy?.File != _copy?.File) { PauseCopy(); }
        _copy = copy;
        _flow.Asked(ask, copy?.Seed, NowUs);
        Volatile.Write(ref _seeding, copy is null ? null : new(new(_flow.HasBytes, copy.Seed.Bytes)));
        if (copy is null)
        {
            SayWhy(why!);
            _listener.OnSeedWanted(ask.Generation, why!);
        }
        else if (IsToBeSaid())
        {
            _report.Info($"shard {_stream}: {Receiver} is being seeded: it has {_seeding!.Of}");
        }
    }

    // Null: there was nothing to send.
    private async ValueTask<bool?> SendCopyAsync(IShipLink link, CancellationToken ended)
    {
        bool? isOpen = null;
        for (int n = 0; n < ChunksAtOnce && isOpen != false && !ended.IsCancellationRequested && State == ShipperState.AwaitsSeed
            && _flow.Next() is { } chunk; n++)
        {
            byte[] bytes = ArrayPool<byte>.Shared.Rent(Math.Max(1, chunk.Bytes));
            if (!await ReadCopyAsync(chunk, bytes.AsMemory(0, chunk.Bytes)).ConfigureAwait(false)) { break; }
            Volatile.Write(ref _bytesSent, _bytesSent + chunk.Bytes);
            isOpen = await TakenAsync(
                link.SendAsync(new(new ShipRequest.Copied(_stream, _self, chunk), new(bytes, 0, chunk.Bytes), []),
                    isLast: true)).ConfigureAwait(false);
            // Not if the link is over: somebody may be sending them yet.
            if (isOpen == true) { ArrayPool<byte>.Shared.Return(bytes); }
        }
        return isOpen;
    }

    private async ValueTask<bool> ReadCopyAsync(SeedChunk chunk, Memory<byte> bytes)
    {
        try
        {
            _copyFile ??= File.OpenHandle(_copy!.File, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete,
                FileOptions.Asynchronous);
            for (int got = 0; got < bytes.Length;)
            {
                int read = await RandomAccess.ReadAsync(_copyFile, bytes[got..], chunk.At + got,
                    CancellationToken.None).ConfigureAwait(false);
                if (read == 0) { throw new IOException($"it ends at byte {chunk.At + got}, and should have {chunk.Seed.Bytes}"); }
                got += read;
            }
            return true;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            string why = $"the copy {_copy!.File} cannot be read: {e.Message}";
            SayWhy(why);
            PauseCopy();
            _copy = null;
            _listener.OnSeedWanted(chunk.Seed.Generation, why);
            return false;
        }
    }

    // Whatever the receiver says next, it says what it has.
    private void PauseCopy()
    {
        _copyFile?.Dispose();
        _copyFile = null;
        _flow.Asked(default, null, NowUs);
        Volatile.Write(ref _seeding, null);
    }

    private void SayWhy(string why)
    {
        if (why == _saidWhy) { return; }
        _saidWhy = why;
        // Without a copy it is a backup's first seeding, or one that somebody has asked for.
        _report.Write(why == SeedOffer.NoCopy ? LogLevel.Information : LogLevel.Warning,
            $"shard {_stream}: {Receiver} has to be seeded: {why}");
    }

    private bool IsToBeSaid()
    {
        if (NowUs - _saidUs < SayAgainUs) { return false; }
        _saidUs = NowUs;
        return true;
    }
}
