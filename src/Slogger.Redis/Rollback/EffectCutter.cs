// Cuts a replication stream into its commands, however its bytes come.
using Slogger.Redis.Connections;

namespace Slogger.Redis.Rollback;

/// <summary>Is given a stream piece by piece, and gives its commands one by one. Not thread-safe.</summary>
public sealed class EffectCutter
{
    private const int BufferBytes = 64 << 10, BufferKeptMax = 4 << 20;
    private byte[] _bytes = new byte[BufferBytes];
    private int _begin, _end;

    /// <summary>The command that was found last; until the next piece is given.</summary>
    public Effect Effect { get; } = new();

    /// <summary>Bytes given that are of no whole command yet.</summary>
    public int Rest => _end - _begin;

    /// <summary>Gives the next bytes, cut anywhere. What was given before was gone through to its end.</summary>
    /// <param name="bytes">The bytes; copied.</param>
    public void Give(ReadOnlySpan<byte> bytes)
    {
        int left = _end - _begin;
        // A large command was the exception.
        if (left == 0 && _bytes.Length > BufferKeptMax) { _bytes = new byte[BufferBytes]; }
        if (left + bytes.Length > _bytes.Length)
        {
            Array.Resize(ref _bytes, (int)Math.Min(Array.MaxLength, Math.Max(2L * _bytes.Length, (long)left + bytes.Length)));
        }
        if (_begin > 0) { _bytes.AsSpan(_begin, left).CopyTo(_bytes); }
        bytes.CopyTo(_bytes.AsSpan(left));
        (_begin, _end) = (0, left + bytes.Length);
    }

    /// <summary>Leaves bytes out.</summary>
    /// <param name="count">How many of <see cref="Rest"/>, up to a command boundary.</param>
    public void Skip(int count)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThan((uint)count, (uint)Rest);
        _begin += count;
    }

    /// <summary>Goes to the next command.</summary>
    /// <returns>False: its end has not come yet.</returns>
    /// <exception cref="RedisException">The bytes are no replication stream (Protocol).</exception>
    public bool Next()
    {
        if (_begin < _end && Effect.TryRead(_bytes, _begin, _end))
        {
            _begin = Effect.End;
            return true;
        }
        // Of empty lines alone nothing is left.
        while (_begin < _end && _bytes[_begin] == '\n') { _begin++; }
        return false;
    }
}
