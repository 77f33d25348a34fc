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
        console.Profile.Width = host.Width;
        console.Profile.Capabilities.Unicode = true;
        return console;
    }

    /// <summary>Bytes in the largest fitting unit, with one decimal.</summary>
    internal static string Bytes(string text)
    {
        if (!long.TryParse(text, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out long bytes) || bytes < 0)
        {
            return text;
        }

        string[] units = ["bytes", "KB", "MB", "GB", "TB", "PB"];
        double value = bytes;
        int unit = 0;
        while (value >= 1024 && unit < units.Length - 1)
        {
            (value, unit) = (value / 1024, unit + 1);
        }

        return value.ToString(unit == 0 ? "0" : "0.0", CultureInfo.InvariantCulture) + " " + units[unit];
    }

    /// <summary>Seconds as 5 s, 3 min 10 s, 2 h 5 min, 4 d 3 h.</summary>
    internal static string Age(string secondsText)
    {
        if (!decimal.TryParse(secondsText, NumberStyles.AllowLeadingSign | NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture, out decimal number))
        {
            return secondsText;
        }

        long seconds = (long)Math.Clamp(number, 0, long.MaxValue / 2);
        return seconds switch
        {
            < 60 => string.Create(CultureInfo.InvariantCulture, $"{seconds} s"),
            < 3600 => string.Create(CultureInfo.InvariantCulture, $"{seconds / 60} min {seconds % 60} s"),
            < 86_400 => string.Create(CultureInfo.InvariantCulture, $"{seconds / 3600} h {seconds % 3600 / 60} min"),
            _ => string.Create(CultureInfo.InvariantCulture, $"{seconds / 86_400} d {seconds % 86_400 / 3600} h"),
        };
    }
}
