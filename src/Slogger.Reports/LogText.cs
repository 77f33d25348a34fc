// The bound of a line of the log. What a line tells of (a key, a list of shards, an exception) may be of any length; whoever reads logs
// takes lines of some length only.
using System.Globalization;

namespace Slogger.Reports;

/// <summary>Lines of the log.</summary>
public static class LogText
{
    /// <summary>Characters of a message that are written at most; what says how many more there were comes on top.</summary>
    public const int CharsMax = 4000;

    /// <summary>A message as it is written.</summary>
    public static string Bounded(string message)
    {
        ArgumentNullException.ThrowIfNull(message);
        if (message.Length <= CharsMax) { return message; }
        // Half a character is none.
        int kept = char.IsHighSurrogate(message[CharsMax - 1]) ? CharsMax - 1 : CharsMax;
        return string.Create(CultureInfo.InvariantCulture,
            $"{message.AsSpan(0, kept)}... ({message.Length - kept} more characters were cut)");
    }
}
