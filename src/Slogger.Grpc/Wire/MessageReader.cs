// Takes messages off a stream: a flag (compressed), the length as four bytes, big end first, the message. A message lies in the
// buffers in which it arrived, until the next one is asked for. What is read gives the peer room to send more; so it is given
// back in pieces, not when all that has arrived is used up: a peer far away would be idle for a round trip.
using System.Buffers;
using System.Buffers.Binary;
using System.IO.Compression;
using System.IO.Pipelines;

namespace Slogger.Grpc.Wire;

/// <summary>The messages of one direction. One caller at a time.</summary>
/// <param name="pipe">Where the bytes come from.</param>
/// <param name="marshaller">How a message is read.</param>
/// <param name="bytesMax">A larger one is refused, before and after it is taken apart. Unit: bytes.</param>
/// <param name="isGzip">Whether messages may be compressed.</param>
internal sealed class MessageReader<T>(PipeReader pipe, Marshaller<T> marshaller, int bytesMax, bool isGzip) where T : class
{
    public const int PrefixBytes = 5;
    private const long HeldBytesMax = 256 << 10;
    private const int GzipBytesMin = 18;
    private ReadOnlySequence<byte> _rest;
    private long _taken;
    private bool _isHeld, _isLast;
    private PooledBytes? _inflated;

    /// <summary>The next message; null: the stream has ended.</summary>
    /// <exception cref="RpcException">What comes is no message, or too large.</exception>
    public async ValueTask<T?> ReadAsync(CancellationToken stop)
    {
        while (true)
        {
            if (_isHeld)
            {
                if (TryTake(out bool isCompressed, out ReadOnlySequence<byte> body)) { return Parse(isCompressed && body.Length > 0 ? Inflate(body) : body); }
                if (_isLast && _rest.IsEmpty) { return null; }
                if (_isLast) { throw new RpcException(StatusCode.Internal, "the stream ends within a message"); }
                // Not if all has just been given back.
                if (_isHeld) { GiveBack(_rest.End); }
            }
            ReadResult read = await pipe.ReadAsync(stop).ConfigureAwait(false);
            (_rest, _isLast, _isHeld) = (read.Buffer, read.IsCompleted, true);
        }
    }

    /// <summary>After the last read. The pipe is its owner's.</summary>
    public void Close()
    {
        if (_isHeld) { GiveBack(_rest.Start); }
        _inflated?.Dispose();
    }

    private bool TryTake(out bool isCompressed, out ReadOnlySequence<byte> body)
    {
        (isCompressed, body) = (false, default);
        if (_taken > HeldBytesMax && !_isLast)
        {
            GiveBack(_rest.Start);
            if (!pipe.TryRead(out ReadResult read)) { return false; }
            (_rest, _isLast, _isHeld) = (read.Buffer, read.IsCompleted, true);
        }
        if (_rest.Length < PrefixBytes) { return false; }
        Span<byte> prefix = stackalloc byte[PrefixBytes];
        _rest.Slice(0, PrefixBytes).CopyTo(prefix);
        uint length = BinaryPrimitives.ReadUInt32BigEndian(prefix[1..]);
        if (prefix[0] > 1) { throw new RpcException(StatusCode.Internal, $"a message begins with {prefix[0]}, not with 0 or 1"); }
        if (prefix[0] == 1 && !isGzip) { throw new RpcException(StatusCode.Internal, "a compressed message on a stream that has not named an encoding"); }
        if (length > bytesMax) { throw new RpcException(StatusCode.ResourceExhausted, $"a message of {length} bytes is larger than the limit, {bytesMax}"); }
        if (_rest.Length < PrefixBytes + length) { return false; }
        isCompressed = prefix[0] == 1;
        body = _rest.Slice(PrefixBytes, length);
        _rest = _rest.Slice(PrefixBytes + length);
        _taken += PrefixBytes + length;
        return true;
    }

    private void GiveBack(SequencePosition examined)
    {
        pipe.AdvanceTo(_rest.Start, examined);
        (_rest, _taken, _isHeld) = (default, 0, false);
    }

    private T Parse(ReadOnlySequence<byte> body)
    {
        try
        {
            return marshaller.Parse(body);
        }
        // Protobuf's own exception is an IOException.
        catch (Exception e) when (e is InvalidDataException or IOException)
        {
            throw new RpcException(StatusCode.Internal, $"what came is no {typeof(T).Name}", e);
        }
    }

    private ReadOnlySequence<byte> Inflate(ReadOnlySequence<byte> body)
    {
        _inflated ??= new();
        _inflated.Clear();
        byte[] packed = ArrayPool<byte>.Shared.Rent((int)body.Length);
        try
        {
            body.CopyTo(packed);
            using var gzip = new GZipStream(new MemoryStream(packed, 0, (int)body.Length, writable: false), CompressionMode.Decompress);
            while (true)
            {
                int count = gzip.Read(_inflated.GetSpan());
                if (count == 0) { break; }
                _inflated.Advance(count);
                // A few bytes may stand for gigabytes.
                if (_inflated.Length > bytesMax) { throw new RpcException(StatusCode.ResourceExhausted, $"a message is larger than the limit, {bytesMax} bytes, when it is not compressed any more"); }
            }
            // GZipStream takes what breaks off for the end: the size at the end says whether it is.
            int sizeAt = (int)body.Length - 4;
            if (sizeAt < GzipBytesMin - 4 || BinaryPrimitives.ReadUInt32LittleEndian(packed.AsSpan(sizeAt)) != _inflated.Length) { throw new InvalidDataException("it breaks off"); }
            return new(_inflated.Written);
        }
        catch (InvalidDataException e)
        {
            throw new RpcException(StatusCode.Internal, "a message is no gzip", e);
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(packed);
        }
    }
}
