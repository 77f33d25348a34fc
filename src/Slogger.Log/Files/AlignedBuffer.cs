// Memory that a file can take without copying it first.
using System.Runtime.CompilerServices;

namespace Slogger.Log.Files;

/// <summary>Memory for direct writes.</summary>
public static class AlignedBuffer
{
    /// <summary>What direct writes ask of memory, in bytes: a page, which is enough for every disk.</summary>
    public const int Alignment = 4096;

    /// <summary>Pinned memory that begins at a page, of any content.</summary>
    public static unsafe ArraySegment<byte> Allocate(int bytes)
    {
        byte[] memory = GC.AllocateUninitializedArray<byte>(bytes + Alignment - 1, pinned: true);
        nint address = (nint)Unsafe.AsPointer(ref memory[0]);
        return new ArraySegment<byte>(memory, (int)(-address & (Alignment - 1)), bytes);
    }
}
