// What a recovery took back: the commands that the log has behind the branch of a world-line, as the line before went on there.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Redis.Past;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Past;

/// <summary>Reads what is void.</summary>
internal static class LostEffects
{
    // Of one reply.
    private const int BytesMax = 4 << 20;

    /// <summary>Commands that were taken back, in order.</summary>
    /// <param name="lost">The stretch.</param>
    /// <param name="asked">From which place on they are wanted, and how many.</param>
    /// <param name="timeUs">When a version ended, in microseconds since the Unix epoch.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The reply.</returns>
    /// <exception cref="LogException">They cannot be read.</exception>
    /// <exception cref="PastException">They cannot be read; the text says why.</exception>
    public static byte[] Read(LostStretch lost, PastLost asked, Func<VersionNumber, long> timeUs, CancellationToken stop)
    {
        using var history = new LogHistory(lost.OpenReader);
        var reader = new EffectReader(history, lost.Branch.Offset, lost.End, lost.Branch.Database);
        using IEnumerator<Boundary> ends = lost.Boundaries.GetEnumerator();
        bool isClosed = ends.MoveNext();
        List<byte> commands = [];
        int count = 0;
        long next = 0;
        while (reader.Next(stop))
        {
            if (reader.Start < asked.From) { continue; }
            if (count == asked.Count || (count > 0 && commands.Count > BytesMax))
            {
                next = reader.Start;
                break;
            }
            while (isClosed && ends.Current.Offset < reader.End) { isClosed = ends.MoveNext(); }
            Append(commands, reader, isClosed ? ends.Current : null);
            count++;
        }
        List<byte> reply = [];
        RespText.AppendHeader(reply, '*', 4);
        RespText.AppendHeader(reply, ':', lost.Branch.Version.Number);
        RespText.AppendHeader(reply, ':', timeUs(lost.Branch.Version));
        RespText.AppendHeader(reply, ':', next);
        RespText.AppendHeader(reply, '*', count);
        return [.. reply, .. commands];
    }

    // The version is 0, and its time, if it was not closed any more.
    private static void Append(List<byte> reply, EffectReader reader, Boundary? end)
    {
        RespText.AppendHeader(reply, '*', 4);
        RespText.AppendHeader(reply, ':', end?.Version.Number ?? 0);
        RespText.AppendHeader(reply, ':', end?.Time.Microseconds ?? 0);
        RespText.AppendHeader(reply, ':', reader.Database);
        RespText.AppendHeader(reply, '*', reader.Effect.Count);
        for (int i = 0; i < reader.Effect.Count; i++) { RespText.AppendBulk(reply, reader.Effect[i]); }
    }
}
