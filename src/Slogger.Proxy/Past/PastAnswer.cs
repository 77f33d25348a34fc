// Answers about the past, and what stands in their way.
using System.Text;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Slots;

namespace Slogger.Proxy.Past;

/// <summary>Makes replies.</summary>
internal static class PastAnswer
{
    /// <summary>What an answer is, or the error that came instead.</summary>
    public static async Task<byte[]> OfAsync(Func<Task<byte[]>> answer)
    {
        try
        {
            return await answer().ConfigureAwait(false);
        }
        catch (Exception e) when (WhyOf(e) is not null)
        {
            return Error($"{CodeOf(e)} {WhyOf(e)}");
        }
    }

    private static string CodeOf(Exception failure) => (failure as PastException)?.Problem switch
    {
        PastProblem.NotKept => "SLOGGER NOTKEPT",
        PastProblem.NotClosed => "SLOGGER NOTCLOSED",
        _ => "ERR SLOGGER",
    };

    /// <summary>What a failure means for whoever asks; null: it is none that is expected.</summary>
    public static string? WhyOf(Exception failure) => failure switch
    {
        LogHistoryChangedException => "the history has just changed, by a recovery or since it was trimmed: try again",
        OperationCanceledException or ObjectDisposedException => "the shard is about to end",
        PastException or MetadataException or RedisException or LogException or IOException or UnauthorizedAccessException
            or ArgumentOutOfRangeException or SlotEffectException => failure.Message,
        _ => null,
    };

    /// <summary>An error, as it stands on the wire.</summary>
    public static byte[] Error(string text) => Encoding.UTF8.GetBytes($"-{text.ReplaceLineEndings(" ")}\r\n");

    /// <summary>There is no program to show the past with.</summary>
    public static PastException NoServer() => new("the past is shown by a redis-server beside the shard's store, and this process knows no "
        + "program for it. If its Redis is run by others (--redis), use slogger restore with a copy of the data directory; if the store is "
        + "embedded, start with --commit faster --redis-server redis-server");
}
