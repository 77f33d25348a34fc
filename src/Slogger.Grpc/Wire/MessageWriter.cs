// Puts messages on a stream. A message is written straight into the buffers that are sent; its tail, where it has a large one, is
// sent from where it lies.
using System.Buffers;
using System.Buffers.Binary;
using System.IO.Compression;
using System.IO.Pipelines;

namespace Slogger.Grpc.Wire;

/// <summary>The messages of one direction. One caller at a time.</summary>
/// <param name="pipe">Where the bytes go.</param>
/// <param name="marshaller">How a message is written.</param>
/// <param name="isGzip">Whether messages are compressed.</param>
internal sealed class MessageWriter<T>(PipeWriter pipe, Marshaller<T> marshaller, bool isGzip) where T : class
{
    private const int UnflushedBytesMax = 64 << 10;

    /// <summary>Below it a copy costs less than a write of its own.</summary>
    private const int TailBytesMin = 16 << 10;

    /// <summary>Writes a message. What is not flushed goes with what comes behind it, or when much has gathered.</summary>
    /// <returns>Whether somebody takes it.</returns>
    public async ValueTask<bool> WriteAsync(T message, bool flush, CancellationToken stop)
    {
        ReadOnlySequence<byte> tail = WriteHead(message);
        if (tail.Length < TailBytesMin)
        {
            foreach (ReadOnlyMemory<byte> piece in tail) { pipe.Write(piece.Span); }
        }
        else
        {
            foreach (ReadOnlyMemory<byte> piece in tail)
            {
                if (piece.Length > 0 && IsOver(await pipe.WriteAsync(piece, stop).ConfigureAwait(false))) { return false; }
            }
        }
        // Behind a tail there is nothing left.
        return pipe.UnflushedBytes < (flush ? 1 : UnflushedBytesMax) || await FlushAsync(stop).ConfigureAwait(false);
    }

    /// <summary>Sends what is written, headers first.</summary>
    /// <returns>Whether somebody takes it.</returns>
    public async ValueTask<bool> FlushAsync(CancellationToken stop) =>
        !IsOver(await pipe.FlushAsync(stop).ConfigureAwait(false));

    private static bool IsOver(FlushResult result) => result.IsCompleted || result.IsCanceled;

    /// <returns>The tail, still to be written.</returns>
    private ReadOnlySequence<byte> WriteHead(T message)
    {
        int size = marshaller.Size(message);
        ReadOnlySequence<byte> tail = marshaller.Tail is { } tailOf ? tailOf(message) : default;
        // Of nothing GZipStream makes nothing, which is no gzip.
        if (isGzip && size > 0)
        {
            WritePacked(message, size, tail);
            return default;
        }
        WritePrefix(0, size);
        long before = pipe.UnflushedBytes;
        marshaller.Write(message, pipe);
        Require(pipe.UnflushedBytes - before, tail, size);
        return tail;
    }

    private void WritePacked(T message, int size, ReadOnlySequence<byte> tail)
    {
        using var plain = new PooledBytes();
        using var packed = new PooledBytes();
        marshaller.Write(message, plain);
        Require(plain.Length, tail, size);
        foreach (ReadOnlyMemory<byte> piece in tail) { plain.Write(piece.Span); }
        using (var gzip = new GZipStream(packed, CompressionLevel.Fastest, leaveOpen: true)) { gzip.Write(plain.Written.Span); }
        WritePrefix(1, (int)packed.Length);
        pipe.Write(packed.Written.Span);
    }

    private void WritePrefix(byte flag, int length)
    {
        Span<byte> prefix = pipe.GetSpan(MessageReader<T>.PrefixBytes);
        prefix[0] = flag;
        BinaryPrimitives.WriteUInt32BigEndian(prefix[1..], (uint)length);
        pipe.Advance(MessageReader<T>.PrefixBytes);
    }

    // What follows on the stream would be read as something else.
    private static void Require(long written, ReadOnlySequence<byte> tail, int size)
    {
        if (written + tail.Length != size) { throw new InvalidOperationException($"a {typeof(T).Name} of {size} bytes was written as {written} and {tail.Length}"); }
    }
}
