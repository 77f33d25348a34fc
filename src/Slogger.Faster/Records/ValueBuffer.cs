// Bytes of a value, copied out of the log while it is protected.
namespace Slogger.Faster.Records;

/// <summary>Where the value that is read goes.</summary>
public abstract class ValueSink
{
    /// <summary>Takes a value; what was taken before it is forgotten.</summary>
    internal abstract void Set(ReadOnlySpan<byte> bytes);
}

/// <summary>A buffer that is used again and again. Not thread-safe.</summary>
public sealed class ValueBuffer : ValueSink
{
    private byte[] _bytes = new byte[256];
    private int _length;

    /// <summary>What was read last.</summary>
    public ReadOnlySpan<byte> Bytes => _bytes.AsSpan(0, _length);

    internal override void Set(ReadOnlySpan<byte> bytes)
    {
        SetLength(bytes.Length, keep: false);
        bytes.CopyTo(_bytes);
    }

    /// <summary>Makes what was read longer, with zeros behind it, or shorter.</summary>
    /// <returns>What can be changed.</returns>
    internal Span<byte> Resize(int length)
    {
        int before = _length;
        SetLength(length, keep: true);
        if (length > before) _bytes.AsSpan(before, length - before).Clear();
        return _bytes.AsSpan(0, length);
    }

    /// <summary>Gives memory back that was needed for a large value.</summary>
    internal void Trim(int bytesMax)
    {
        if (_bytes.Length <= bytesMax) return;
        (_bytes, _length) = (new byte[256], 0);
    }

    private void SetLength(int length, bool keep)
    {
        if (length > _bytes.Length)
        {
            byte[] larger = new byte[Math.Max(length, Math.Min(_bytes.Length * 2L, Array.MaxLength))];
            if (keep) _bytes.AsSpan(0, _length).CopyTo(larger);
            _bytes = larger;
        }

        _length = length;
    }
}
