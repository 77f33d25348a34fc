// The client's options from an application's configuration. By hand: the options are immutable, and what is misspelt there must not pass
// for a default.
using System.Globalization;
using Microsoft.Extensions.Configuration;

namespace Slogger.Client;

internal static class ConfiguredOptions
{
    private static readonly Dictionary<string, Func<SloggerClientOptions, IConfigurationSection, SloggerClientOptions>> s_settings =
        new(StringComparer.OrdinalIgnoreCase)
        {
            [nameof(SloggerClientOptions.Endpoints)] = static (o, s) => o with { Endpoints = Endpoints(s) },
            [nameof(SloggerClientOptions.ReadsBackup)] = static (o, s) => o with { ReadsBackup = Flag(s) },
            [nameof(SloggerClientOptions.User)] = static (o, s) => o with { User = Text(s) },
            [nameof(SloggerClientOptions.Password)] = static (o, s) => o with { Password = Text(s) },
            [nameof(SloggerClientOptions.Tls)] = static (o, s) => o with { Tls = Flag(s) ? new() : null },
            [nameof(SloggerClientOptions.ConnectTimeout)] = static (o, s) => o with { ConnectTimeout = Time(s) },
            [nameof(SloggerClientOptions.ReconnectDelayMin)] = static (o, s) => o with { ReconnectDelayMin = Time(s) },
            [nameof(SloggerClientOptions.ReconnectDelayMax)] = static (o, s) => o with { ReconnectDelayMax = Time(s) },
            [nameof(SloggerClientOptions.GiveUpAfter)] = static (o, s) => o with { GiveUpAfter = Time(s) },
            [nameof(SloggerClientOptions.RedirectionsMax)] = static (o, s) => o with { RedirectionsMax = Number(s) },
        };

    /// <summary>Reads and checks them.</summary>
    /// <param name="section">Where they stand.</param>
    /// <param name="with">What else is to be set, before they are checked.</param>
    /// <exception cref="SloggerException">A key is none of the client's, or a value is not what it has to be. The message names
    /// it.</exception>
    public static SloggerClientOptions Read(IConfiguration section, Func<SloggerClientOptions, SloggerClientOptions>? with)
    {
        var options = new SloggerClientOptions { Endpoints = [] };
        foreach (IConfigurationSection setting in section.GetChildren())
        {
            if (!s_settings.TryGetValue(setting.Key, out var set))
            {
                throw new SloggerException($"The configuration has {setting.Path}, which is no setting of the client. There are "
                    + $"{string.Join(", ", s_settings.Keys)}.");
            }
            // null in a file: it is not set.
            if (setting.Value is not null || setting.GetChildren().Any()) { options = set(options, setting); }
        }

        if (with is not null) { options = with(options); }
        try
        {
            options.Check();
            return options;
        }
        catch (ArgumentException e)
        {
            string path = section is IConfigurationSection named ? named.Path : "(root)";
            throw new SloggerException($"The client cannot be used as the configuration says in {path}: {e.Message}", e);
        }
    }

    // A list, or one text with commas, as it fits into a variable of the environment.
    private static string[] Endpoints(IConfigurationSection setting) => setting.Value is { } text
        ? text.Split(',', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)
        : [.. setting.GetChildren().Select(Text)];

    private static string Text(IConfigurationSection setting) => setting.Value ?? throw Wrong(setting, "one text");

    private static bool Flag(IConfigurationSection setting) =>
        bool.TryParse(setting.Value, out bool flag) ? flag : throw Wrong(setting, "true or false");

    private static int Number(IConfigurationSection setting) =>
        int.TryParse(setting.Value, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out int number) ? number
            : throw Wrong(setting, "a whole number");

    // "5" would be five days.
    private static TimeSpan Time(IConfigurationSection setting) =>
        setting.Value is { } text && text.Contains(':', StringComparison.Ordinal)
            && TimeSpan.TryParse(text, CultureInfo.InvariantCulture, out TimeSpan time) ? time
            : throw Wrong(setting, "a time as HH:MM:SS, such as 00:00:05 or 00:00:00.250");

    private static SloggerException Wrong(IConfigurationSection setting, string expected) =>
        new($"The configuration's {setting.Path} is {(setting.Value is { } text ? $"'{text}'" : "a section")}: it has to be {expected}.");
}
