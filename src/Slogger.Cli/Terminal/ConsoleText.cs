// How all commands show sizes and times, and where they draw.
using System.Globalization;
using Spectre.Console;

namespace Slogger.Cli.Terminal;

/// <summary>Amounts as a person reads them.</summary>
internal static class ConsoleText
{
    /// <summary>Draws on the command's output.</summary>
    internal static IAnsiConsole ConsoleOf(AppHost host)
    {
        IAnsiConsole console = AnsiConsole.Create(new AnsiConsoleSettings
        {
            Ansi = host.Colours ? AnsiSupport.Detect : AnsiSupport.No,
            ColorSystem = host.Colours ? ColorSystemSupport.Detect : ColorSystemSupport.NoColors,
            Interactive = InteractionSupport.No,
            Out = new AnsiConsoleOutput(host.Output),
        });
        console.Profile.Width = host.TableWidth;
        console.Profile.Capabilities.Unicode = true;
        return console;
    }

    /// <summary>Bytes in the largest fitting unit, with one decimal. What is no such number stays as it is.</summary>
    internal static string Bytes(string text) =>
        long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long bytes) ? Bytes(bytes) : text;

    /// <inheritdoc cref="Bytes(string)" />
    internal static string Bytes(long bytes)
    {
        string[] units = ["bytes", "KB", "MB", "GB", "TB", "PB"];
        double value = bytes;
        int unit = 0;
        while (value >= 1024 && unit < units.Length - 1)
        {
            (value, unit) = (value / 1024, unit + 1);
        }

        return value.ToString(unit == 0 ? "0" : "0.0", CultureInfo.InvariantCulture) + " " + units[unit];
    }

    /// <summary>Seconds as 5 s, 3 min 10 s, 2 h 5 min, 4 d 3 h. What is no number stays as it is.</summary>
    internal static string Age(string secondsText) =>
        decimal.TryParse(secondsText, NumberStyles.AllowLeadingSign | NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture,
            out decimal number)
            ? Age((long)Math.Clamp(number, 0, long.MaxValue / 2)) : secondsText;

    /// <inheritdoc cref="Age(string)" />
    internal static string Age(long seconds) => Math.Max(0, seconds) switch
    {
        < 60 and var s => FormattableString.Invariant($"{s} s"),
        < 3600 and var s => FormattableString.Invariant($"{s / 60} min {s % 60} s"),
        < 86_400 and var s => FormattableString.Invariant($"{s / 3600} h {s % 3600 / 60} min"),
        var s => FormattableString.Invariant($"{s / 86_400} d {s % 86_400 / 3600} h"),
    };
}
