// Shows that a stream's log can be recovered from: the newest checkpoint below a version, and every byte from there to the end of that version, are there and unchanged. It only reads.
using System.Diagnostics;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Failovers;

internal static class LogProof
{
    /// <summary>Reads what a recovery to a version would need.</summary>
    /// <param name="log">The log.</param>
    /// <param name="checkpoints">What it rests on.</param>
    /// <param name="to">The version.</param>
    /// <param name="stop">Gives up.</param>
    public static V1.VerifyReply Of(VersionLog log, CheckpointStore checkpoints, WorldPoint to, CancellationToken stop)
    {
        long began = Stopwatch.GetTimestamp();
        var reply = new V1.VerifyReply();
        try
        {
            reply.Flaw = Read(log, checkpoints, to, reply, stop) ?? "";
        }
        catch (LogException e)
        {
            reply.Flaw = e.Message;
        }
        reply.TookUs = (long)Stopwatch.GetElapsedTime(began).TotalMicroseconds;
        return reply;
    }

    private static string? Read(VersionLog log, CheckpointStore checkpoints, WorldPoint to, V1.VerifyReply reply, CancellationToken stop)
    {
        if (log.IsEmpty) { return "there is no log"; }
        if (log.HeldCut < to) { return $"the log holds {log.HeldCut} durably, and not {to}"; }
        if (log.BoundaryAtOrBelow(to.Version) is not { } end) { return $"the log does not hold the end of version {to.Version}"; }
        (reply.Time, reply.ToOffset) = (end.Time.Bits, end.Offset);
        if (checkpoints.Latest(log, end.Offset) is not { } checkpoint) { return $"there is no checkpoint that the log could be replayed from to version {to.Version}"; }
        reply.FromOffset = checkpoint.Offset;
        checkpoints.Verify(checkpoint);
        if (log.HasGap(reply.FromOffset, end.Offset)) { return $"bytes are missing between offsets {reply.FromOffset} and {end.Offset}"; }
        using LogReader reader = log.OpenReader(reply.FromOffset, end.Offset);
        byte[] buffer = new byte[256 << 10];
        while (reader.Position < end.Offset)
        {
            stop.ThrowIfCancellationRequested();
            int count = reader.Read(buffer);
            if (count == 0) { return $"the log ends at offset {reader.Position}, and version {to.Version} at {end.Offset}"; }
            reply.Bytes += count;
        }
        return null;
    }
}
