// The last command of a client, for CLIENT LIST. The hot path keeps the first bytes; they are read when somebody asks.
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Runtime.Intrinsics;
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>The beginning of the request that a client sent last.</summary>
internal unsafe struct LastRequest
{
    private Vector256<byte> _bytes;

    /// <summary>Keeps the beginning of a request; the buffer must hold 32 bytes from there, whatever they are.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void Keep(byte* request) => _bytes = Unsafe.ReadUnaligned<Vector256<byte>>(request);

    /// <summary>Keeps the beginning of a request of so many bytes.</summary>
    public void Keep(byte* request, long bytes)
    {
        byte* copy = stackalloc byte[Vector256<byte>.Count];
        Unsafe.InitBlock(copy, 0, (uint)Vector256<byte>.Count);
        Unsafe.CopyBlock(copy, request, (uint)Math.Min(bytes, Vector256<byte>.Count));
        Keep(copy);
    }

    /// <summary>Its name as Redis would write it.</summary>
    public readonly string Command
    {
        get
        {
            Span<byte> bytes = stackalloc byte[Vector256<byte>.Count];
            _bytes.CopyTo(bytes);
            string[] parts = Encoding.Latin1.GetString(bytes).ToLowerInvariant().Split(RespText.NewLine);
            if (parts.Length < 3 || !parts[0].StartsWith('*') || !parts[1].StartsWith('$')) { return "NULL"; }
            if (!int.TryParse(parts[1].AsSpan(1), NumberStyles.None, CultureInfo.InvariantCulture, out int length)
                || length != parts[2].Length)
            {
                return "NULL";
            }
            bool isContainer = parts[2] is "client" or "object" or "xgroup" or "xinfo" or "pubsub" or "command" or "memory" or "slowlog";
            bool hasSub = isContainer && parts.Length > 4 && parts[3] == $"${parts[4].Length}";
            return hasSub ? $"{parts[2]}|{parts[4]}" : parts[2];
        }
    }
}
