// Keys that were copied out of the directory.
namespace Slogger.Faster.Keys;

/// <summary>A list that is used again and again. Not thread-safe.</summary>
internal sealed class KeyList
{
    private readonly List<int> _ends = [];
    private byte[] _bytes = new byte[1024];

    public int Count => _ends.Count;

    public ReadOnlySpan<byte> this[int index]
    {
        get
        {
            int from = index == 0 ? 0 : _ends[index - 1];
            return _bytes.AsSpan(from, _ends[index] - from);
        }
    }

    public void Add(ReadOnlySpan<byte> key)
    {
        int from = _ends.Count == 0 ? 0 : _ends[^1];
        if (_bytes.Length - from < key.Length) Array.Resize(ref _bytes, Math.Max(from + key.Length, _bytes.Length * 2));
        key.CopyTo(_bytes.AsSpan(from));
        _ends.Add(from + key.Length);
    }

    public void Clear() => _ends.Clear();
}
