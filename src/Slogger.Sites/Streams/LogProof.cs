// Shows that a stream's log can be recovered from: the newest checkpoint below a version, and every byte from there to the end of that
// version, are there and unchanged. It only reads.
using System.Diagnostics;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Streams;

internal static class LogProof
{
    /// <summary>Reads what a recovery to a version would need.</summary>
    /// <param name="log">The log.</param>
    /// <param name="checkpoints">What it rests on.</param>
    /// <param name="baseBelow">What of the store's own it rests on, at or below an offset; null: nothing.</param>
    /// <param name="to">The version.</param>
    /// <param name="stop">Gives up.</param>
    public static V1.VerifyReply Of(VersionLog log, CheckpointStore checkpoints, Func<long, long?> baseBelow, WorldPoint to,
        CancellationToken stop)
    {
        long began = Stopwatch.GetTimestamp();
        var reply = new V1.VerifyReply();
        try
        {
            reply.Flaw = Read(log, checkpoints, baseBelow, to, reply, stop) ?? "";
        }
        catch (LogException e)
        {
            reply.Flaw = e.Message;
        }
        reply.TookUs = (long)Stopwatch.GetElapsedTime(began).TotalMicroseconds;
        return reply;
    }

    /// <summary>Reads the rest of what a recovery would need from another log, of one version to a later one.</summary>
    public static void AddRest(V1.VerifyReply reply, VersionLog log, WorldPoint from, WorldPoint to, CancellationToken stop)
    {
        long began = Stopwatch.GetTimestamp();
        try
        {
            reply.Flaw = log.HeldCut < to ? $"the log holds {log.HeldCut} durably, and not {to}"
                : log.BoundaryAtOrBelow(from.Version) is not { } begin
                || log.BoundaryAtOrBelow(to.Version) is not { } end
                ? $"the log does not hold what lies between versions {from.Version} and {to.Version}"
                : ReadTo(log, begin.Offset, end, reply, stop) ?? "";
        }
        catch (LogException e)
        {
            reply.Flaw = e.Message;
        }
        reply.TookUs += (long)Stopwatch.GetElapsedTime(began).TotalMicroseconds;
    }

    private static string? Read(VersionLog log, CheckpointStore checkpoints, Func<long, long?> baseBelow, WorldPoint to,
        V1.VerifyReply reply, CancellationToken stop)
    {
        if (log.IsEmpty) { return "there is no log"; }
        if (log.HeldCut < to) { return $"the log holds {log.HeldCut} durably, and not {to}"; }
        if (log.BoundaryAtOrBelow(to.Version) is not { } end) { return $"the log does not hold the end of version {to.Version}"; }
        (reply.Time, reply.ToOffset) = (end.Time.Bits, end.Offset);
        if (baseBelow(end.Offset) is { } own) { reply.FromOffset = own; }
        else if (checkpoints.Latest(log, end.Offset) is { } checkpoint)
        {
            reply.FromOffset = checkpoint.Offset;
            checkpoints.Verify(checkpoint);
        }
        else { return $"there is no checkpoint that the log could be replayed from to version {to.Version}"; }
        return ReadTo(log, reply.FromOffset, end, reply, stop);
    }

    private static string? ReadTo(VersionLog log, long from, Boundary end, V1.VerifyReply reply, CancellationToken stop)
    {
        if (log.HasGap(from, end.Offset)) { return $"bytes are missing between offsets {from} and {end.Offset}"; }
        using LogReader reader = log.OpenReader(from, end.Offset);
        byte[] buffer = new byte[256 << 10];
        while (reader.Position < end.Offset)
        {
            stop.ThrowIfCancellationRequested();
            int count = reader.Read(buffer);
            if (count == 0) { return $"the log ends at offset {reader.Position}, and version {end.Version} at {end.Offset}"; }
            reply.Bytes += count;
        }
        return null;
    }
}
