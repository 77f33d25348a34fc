// Finds the boundaries of replies in bytes from Redis, RESP2 and RESP3, resumable at any byte: a 512 MB value in the
// middle of a shared connection is passed on as it arrives. Nested replies need no stack: an aggregate of n is n more
// frames to read.
using System.Runtime.CompilerServices;

namespace Slogger.Resp;

/// <summary>Where a scan of replies stands between two chunks of bytes.</summary>
public struct ReplyState
{
    /// <summary>Frames still to read in the reply under way; 0 between two replies.</summary>
    internal long FramesLeft;

    /// <summary>Bytes still to pass over of a bulk string, its line end included.</summary>
    internal long BulkLeft;

    /// <summary>Inside a line whose content does not matter.</summary>
    internal bool InLine;

    /// <summary>Whether the scan stands between two replies.</summary>
    public readonly bool IsBetweenReplies => FramesLeft == 0;
}

/// <summary>Scans replies of the RESP protocol without copying.</summary>
public static unsafe class ReplyScanner
{
    /// <summary>Consumes up to <paramref name="remaining"/> replies, the last maybe in part.</summary>
    /// <param name="p">The first byte.</param>
    /// <param name="end">One past the last byte.</param>
    /// <param name="state">Where the scan stands; kept by the caller between chunks.</param>
    /// <param name="remaining">Replies still wanted; lowered by each reply that ends.</param>
    /// <returns>The first byte not consumed: at the end of the last reply wanted, or where a header line is not
    /// complete (fewer than 32 bytes are left then, to be presented again with what follows).</returns>
    /// <exception cref="InvalidDataException">The bytes are no reply.</exception>
    public static byte* Consume(byte* p, byte* end, ref ReplyState state, ref int remaining)
    {
        while (remaining > 0)
        {
            if (state.BulkLeft > 0)
            {
                long left = end - p;
                if (left < state.BulkLeft)
                {
                    state.BulkLeft -= left;
                    return end;
                }
                p += state.BulkLeft;
                state.BulkLeft = 0;
                if (--state.FramesLeft == 0) { remaining--; }
                continue;
            }
            if (state.InLine)
            {
                byte* newline = Find(p, end, (byte)'\n');
                if (newline == null) { return end; }
                p = newline + 1;
                state.InLine = false;
                if (--state.FramesLeft == 0) { remaining--; }
                continue;
            }
            if (p >= end) { return p; }
            switch (*p)
            {
                case (byte)'+' or (byte)'-' or (byte)':' or (byte)'_' or (byte)',' or (byte)'#' or (byte)'(':
                    if (state.FramesLeft == 0) { state.FramesLeft = 1; }
                    state.InLine = true;
                    p++;
                    break;
                case (byte)'$' or (byte)'=' or (byte)'!':
                {
                    byte* q = p + 1;
                    long length = CommandScanner.ReadLength(ref q, end);
                    if (length == CommandScanner.Incomplete) { return p; }
                    if (length < -1) { throw Bad(p); }
                    if (state.FramesLeft == 0) { state.FramesLeft = 1; }
                    p = q;
                    if (length >= 0)
                    {
                        state.BulkLeft = length + 2;
                    }
                    else if (--state.FramesLeft == 0)
                    {
                        remaining--;
                    }
                    break;
                }
                case (byte)'*' or (byte)'~' or (byte)'>' or (byte)'%' or (byte)'|':
                {
                    byte kind = *p;
                    byte* q = p + 1;
                    long count = CommandScanner.ReadLength(ref q, end);
                    if (count == CommandScanner.Incomplete) { return p; }
                    if (count < -1) { throw Bad(p); }
                    bool isFirst = state.FramesLeft == 0;
                    if (isFirst) { state.FramesLeft = 1; }
                    p = q;
                    if (count < 0) { count = 0; }
                    if (kind is (byte)'%' or (byte)'|') { count *= 2; }
                    // Attributes come before the frame that they describe, which is still to be read; so does a push inside
                    // a reply (a transaction that publishes to its own client), which is no element of it.
                    state.FramesLeft += kind == (byte)'|' || (kind == (byte)'>' && !isFirst) ? count : count - 1;
                    if (state.FramesLeft == 0) { remaining--; }
                    break;
                }
                default:
                    throw Bad(p);
            }
        }
        return p;
    }

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static byte* Find(byte* p, byte* end, byte value)
    {
        // Most lines are a handful of bytes: a plain loop beats a call for them.
        byte* near = end - p > 16 ? p + 16 : end;
        for (; p < near; p++)
        {
            if (*p == value) { return p; }
        }
        if (p == end) { return null; }
        int at = new ReadOnlySpan<byte>(p, (int)Math.Min(end - p, int.MaxValue)).IndexOf(value);
        return at < 0 ? null : p + at;
    }

    private static InvalidDataException Bad(byte* p) => new($"Redis sent byte 0x{*p:x2} where a reply must begin.");
}
