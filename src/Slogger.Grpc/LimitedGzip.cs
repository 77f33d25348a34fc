// gzip whose messages stay within the limit when they are unpacked: a few bytes may stand for gigabytes. Stock gRPC looks at the packed
// size.
using System.Buffers.Binary;
using System.IO.Compression;
using Grpc.Core;
using Grpc.Net.Compression;

namespace Slogger.Grpc;

/// <summary>The compression of both sides.</summary>
/// <param name="bytesMax">What a message may become. Unit: bytes.</param>
internal sealed class LimitedGzip(int bytesMax) : ICompressionProvider
{
    public const string Name = "gzip";

    public string EncodingName => Name;

    public Stream CreateCompressionStream(Stream stream, CompressionLevel? compressionLevel) =>
        new Packing(stream);

    public Stream CreateDecompressionStream(Stream stream) => new Unpacking(stream, bytesMax);

    // Of nothing GZipStream makes nothing, which is no gzip.
    private sealed class Packing(Stream to) : GZipStream(to, CompressionLevel.Fastest, leaveOpen: true)
    {
        private readonly Stream _to = to;
        private bool _isEmpty = true;

        private static ReadOnlySpan<byte> Nothing => [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

        public override void Write(ReadOnlySpan<byte> buffer)
        {
            _isEmpty &= buffer.IsEmpty;
            base.Write(buffer);
        }

        protected override void Dispose(bool disposing)
        {
            base.Dispose(disposing);
            if (disposing && _isEmpty)
            {
                _isEmpty = false;
                _to.Write(Nothing);
            }
        }
    }

    private sealed class Unpacking(Stream packed, int bytesMax) : Stream
    {
        private const int SizeBytes = 4, GzipBytesMin = 18;
        private readonly GZipStream _plain = new(packed, CompressionMode.Decompress, leaveOpen: true);
        private long _length;

        public override bool CanRead => true;

        public override bool CanSeek => false;

        public override bool CanWrite => false;

        public override long Length => throw new NotSupportedException();

        public override long Position { get => _length; set => throw new NotSupportedException(); }

        public override int Read(Span<byte> buffer)
        {
            try
            {
                int count = _plain.Read(buffer);
                _length += count;
                if (count == 0 && !buffer.IsEmpty) { RequireWhole(); }
                return _length <= bytesMax ? count
                    : throw new global::Grpc.Core.RpcException(new Status(StatusCode.ResourceExhausted, $"a message is larger "
                    + $"than the limit, {bytesMax} bytes, when it is unpacked"));
            }
            catch (InvalidDataException e)
            {
                throw new global::Grpc.Core.RpcException(new Status(StatusCode.Internal, "a message is no gzip", e));
            }
        }

        // GZipStream takes what breaks off for the end: the size at the end says whether it is.
        private void RequireWhole()
        {
            Span<byte> size = stackalloc byte[SizeBytes];
            if (packed.Length == 0) { return; }
            if (packed.Length < GzipBytesMin) { throw new InvalidDataException("it breaks off"); }
            packed.Position = packed.Length - SizeBytes;
            packed.ReadExactly(size);
            if (BinaryPrimitives.ReadUInt32LittleEndian(size) != _length) { throw new InvalidDataException("it breaks off"); }
        }

        public override int Read(byte[] buffer, int offset, int count) => Read(buffer.AsSpan(offset, count));

        public override void Flush() { }

        public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

        public override void SetLength(long value) => throw new NotSupportedException();

        public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

        protected override void Dispose(bool disposing)
        {
            if (disposing) { _plain.Dispose(); }
            base.Dispose(disposing);
        }
    }
}
