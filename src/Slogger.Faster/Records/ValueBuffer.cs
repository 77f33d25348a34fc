// Bytes of a value, copied out of the log while it is protected.
namespace Slogger.Faster.Records;

/// <summary>A buffer that is used again and again. Not thread-safe.</summary>
public sealed class ValueBuffer
{
    private byte[] _bytes = new byte[256];
    private int _length;

    /// <summary>What was read last.</summary>
    public ReadOnlySpan<byte> Bytes => _bytes.AsSpan(0, _length);

    internal void Set(ReadOnlySpan<byte> bytes)
    {
        if (bytes.Length > _bytes.Length) _bytes = new byte[Math.Max(bytes.Length, Math.Min(_bytes.Length * 2L, Array.MaxLength))];
        bytes.CopyTo(_bytes);
        _length = bytes.Length;
    }
}
