// What the commands that show the past have in common: how an instant is named, and the proxy that is asked.
using System.Globalization;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>The options.</summary>
internal static class PastArguments
{
    private const string When = "Which instant (one of them)", Where = "Which proxy", Origin = "the command line";
    private const string TimeForm = "write --at 14:03:07.120, --at 2026-11-29T14:03:07.120Z, or --ago 10m";
    private static readonly TimeSpan s_agoMax = TimeSpan.FromDays(3650);

    /// <summary>The options that name a proxy.</summary>
    public static readonly IReadOnlyList<OptionDefinition> Access =
    [
        new("address", Where, "HOST:PORT", "A proxy, of whichever shard; or a Unix socket.", "none", ""),
        .. ProxyAccess.Options(Where),
        Report.Json(Where),
    ];

    /// <summary>The options that name an instant.</summary>
    public static readonly IReadOnlyList<OptionDefinition> Instant =
    [
        new("at", When, "TIME", "A time: 14:03:07.120 is of the last 24 hours, in UTC; 2026-11-29T14:03:07.120Z, also with another zone.",
            "none", ""),
        new("ago", When, "DURATION", "So long ago. 0s: now, with all that was acknowledged.", "none", ""),
        new("version", When, "V", "The end of a version.", "none", ""),
    ];

    /// <summary>The options of a command that shows one instant.</summary>
    public static readonly IReadOnlyList<OptionDefinition> Options = [.. Instant, .. Access];

    /// <summary>An instant as the value of one option; null: an error was added.</summary>
    /// <param name="option">The option's name.</param>
    /// <param name="text">The value: a time, how long ago, or a version.</param>
    /// <param name="errors">Receives what is wrong.</param>
    /// <returns>As DPR.ASOF has it.</returns>
    public static string[]? InstantOf(string option, string text, List<OptionError> errors)
    {
        if (VersionOf(text) is { } version) { return version; }
        if (AgoOf(text, out _) is { } ago) { return ago; }
        if (TimeOf(text, DateTimeOffset.UtcNow) is { } time) { return time; }
        errors.Add(new OptionError($"--{option} \"{text}\" is no time, no duration and no version", Origin,
            $"write --{option} 14:03:07.120, --{option} 2026-11-29T14:03:07.120Z, --{option} 10m (ago), or --{option} 123456 (a version)"));
        return null;
    }

    /// <summary>Opens the past at the instant that the options name, and does something with it.</summary>
    public static Task<CommandResult> RunAsync(OptionLayer texts, AppHost host, List<OptionError> errors,
        Func<PastCluster, PastInstant, Task<Report>> use)
    {
        string[]? instant = ReadInstant(texts, errors);
        return RunAsync(texts, host, errors, async past =>
            await use(past, await past.FindAsync(instant!).ConfigureAwait(false)).ConfigureAwait(false));
    }

    /// <summary>Opens the past, and does something with it.</summary>
    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host, List<OptionError> errors,
        Func<PastCluster, Task<Report>> use)
    {
        ProxyAccess? access = ProxyAccess.Read(texts, texts.One("address", errors), errors);
        if (errors.Count > 0) { return CommandResult.BadOptions(errors); }
        if (access!.Find(host) is { } failure) { return failure; }
        try
        {
            await using PastCluster past = await PastCluster.OpenAsync(access).ConfigureAwait(false);
            (await use(past).ConfigureAwait(false)).Write(host, texts.Values.ContainsKey(Report.Option));
            return CommandResult.Done;
        }
        catch (ProxyUnreachableException e)
        {
            return CommandResult.Failed(e.Message + access.Found, e.Remedy);
        }
    }

    /// <summary>The instant that the options name, as DPR.ASOF has it; null: an error was added.</summary>
    /// <param name="texts">The options.</param>
    /// <param name="errors">Receives what is wrong.</param>
    /// <param name="fallback">The instant if none is named; null: one is needed.</param>
    public static string[]? ReadInstant(OptionLayer texts, List<OptionError> errors, string[]? fallback = null)
    {
        string? at = texts.One("at", errors), ago = texts.One("ago", errors), version = texts.One("version", errors);
        if (fallback is not null && at is null && ago is null && version is null) { return fallback; }
        if (new[] { at, ago, version }.Count(t => t is not null) != 1)
        {
            errors.Add(new OptionError("the instant is named by one of --at, --ago and --version", Origin, TimeForm));
            return null;
        }
        if (version is not null)
        {
            if (VersionOf(version) is { } number) { return number; }
            errors.Add(new OptionError($"--version \"{version}\" is no number", Origin, "slogger status shows the newest"));
            return null;
        }
        if (ago is not null)
        {
            if (AgoOf(ago, out string problem) is { } span) { return span; }
            errors.Add(new OptionError($"--ago \"{ago}\" {problem}", Origin, "write --ago 10m"));
            return null;
        }
        if (TimeOf(at!, DateTimeOffset.UtcNow) is { } time) { return time; }
        errors.Add(new OptionError($"--at \"{at}\" is no time", Origin, TimeForm));
        return null;
    }

    private static string[]? VersionOf(string text) =>
        long.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out long number) ? ["VERSION", Text(number)] : null;

    private static string[]? AgoOf(string text, out string problem) =>
        OptionText.Duration(TimeSpan.Zero, s_agoMax)(text, out TimeSpan span, out problem) ? ["AGO", Text((long)span.TotalMilliseconds)]
            : null;

    private static string[]? TimeOf(string text, DateTimeOffset now)
    {
        if (TimeOnly.TryParse(text, CultureInfo.InvariantCulture, out TimeOnly ofDay))
        {
            var today = new DateTimeOffset(DateOnly.FromDateTime(now.UtcDateTime).ToDateTime(ofDay), TimeSpan.Zero);
            return TimeOf(today <= now ? today : today.AddDays(-1));
        }
        return DateTimeOffset.TryParse(text, CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out DateTimeOffset time)
            ? TimeOf(time) : null;
    }

    private static string[] TimeOf(DateTimeOffset time) => ["TIME", Text(time.ToUnixTimeMilliseconds())];

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
