// The texts of option values: durations, sizes, flags, choices, names. One reader per shape, used for the command line, the
// environment and the configuration file alike. Each says what is wrong and what is expected; the caller adds where it stood.
using System.Globalization;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

/// <summary>Reads one text; false with a problem that completes the sentence "VALUE ...".</summary>
public delegate bool OptionTextParser<T>(string text, out T value, out string problem);

/// <summary>Readers of option values.</summary>
public static class OptionText
{
    private static readonly (string Suffix, long Microseconds)[] DurationUnits =
        [("us", 1), ("ms", 1_000), ("min", 60_000_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000),
            ("d", 86_400_000_000)];

    // As in redis.conf: k, m, g are powers of 1000 and kb, mb, gb powers of 1024.
    private static readonly (string Suffix, long Bytes)[] SizeUnits =
    [
        ("kib", 1L << 10), ("mib", 1L << 20), ("gib", 1L << 30), ("tib", 1L << 40),
        ("kb", 1L << 10), ("mb", 1L << 20), ("gb", 1L << 30), ("tb", 1L << 40),
        ("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000), ("b", 1), ("", 1),
    ];

    /// <summary>A reader of durations such as 1ms, 2.5s, 10m (whole microseconds) within bounds, both included.</summary>
    public static OptionTextParser<TimeSpan> Duration(TimeSpan min, TimeSpan max) =>
        (string text, out TimeSpan value, out string problem) =>
    {
        value = default;
        problem = "";
        foreach ((string suffix, long unit) in DurationUnits)
        {
            if (!text.EndsWith(suffix, StringComparison.OrdinalIgnoreCase)
                || !TryNumber(text.AsSpan(0, text.Length - suffix.Length), out decimal number))
            {
                continue;
            }

            if (number > decimal.MaxValue / unit || number * unit > (decimal)max.TotalMicroseconds
                || number * unit < (decimal)min.TotalMicroseconds)
            {
                problem = $"is out of range; it can be {FormatDuration(min)} to {FormatDuration(max)}";
                return false;
            }

            decimal microseconds = number * unit;
            if (microseconds != decimal.Truncate(microseconds))
            {
                problem = "is finer than a microsecond";
                return false;
            }

            value = TimeSpan.FromTicks((long)microseconds * TimeSpan.TicksPerMicrosecond);
            return true;
        }

        problem = TryNumber(text, out _)
            ? $"has no unit; write {text}ms, {text}s or {text}m"
            : "is not a duration; write for example 5ms, 2s or 10m";
        return false;
    };

    /// <summary>A reader of sizes such as 576mb or 1gb (bytes if there is no unit) within bounds, both included.</summary>
    public static OptionTextParser<long> Size(long minBytes, long maxBytes) => (string text, out long value, out string problem) =>
    {
        value = 0;
        problem = "";
        foreach ((string suffix, long unit) in SizeUnits)
        {
            if (!text.EndsWith(suffix, StringComparison.OrdinalIgnoreCase)
                || !TryNumber(text.AsSpan(0, text.Length - suffix.Length), out decimal number))
            {
                continue;
            }

            if (number > (decimal)maxBytes / unit || number < (decimal)minBytes / unit)
            {
                problem = $"is out of range; it can be {FormatSize(minBytes)} to {FormatSize(maxBytes)}";
                return false;
            }

            value = (long)(number * unit);
            return true;
        }

        problem = "is not a size; write for example 64mb or 1gb, or a number of bytes";
        return false;
    };

    /// <summary>A reader of whole numbers within bounds, both included.</summary>
    public static OptionTextParser<int> Number(int min, int max) => (string text, out int value, out string problem) =>
    {
        problem = "";
        if (int.TryParse(text, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out value) && value >= min && value <= max)
        {
            return true;
        }

        problem = string.Create(CultureInfo.InvariantCulture, $"is not a whole number from {min} to {max}");
        return false;
    };

    /// <summary>A reader of one of several words.</summary>
    public static OptionTextParser<T> Choice<T>(params (string Word, T Value)[] choices) =>
        (string text, out T value, out string problem) =>
    {
        foreach ((string word, T choice) in choices)
        {
            if (word.Equals(text, StringComparison.OrdinalIgnoreCase))
            {
                value = choice;
                problem = "";
                return true;
            }
        }

        value = default!;
        problem = "is not one of " + string.Join(", ", choices.Select(choice => choice.Word));
        if (NearestName.Find(text, choices.Select(choice => choice.Word)) is { } nearest)
        {
            problem += $"; did you mean {nearest}?";
        }

        return false;
    };

    /// <summary>Reads a flag: true, yes, on, 1 or false, no, off, 0.</summary>
    public static bool Flag(string text, out bool value, out string problem)
    {
        value = text.ToUpperInvariant() is "TRUE" or "YES" or "ON" or "1";
        bool known = value || text.ToUpperInvariant() is "FALSE" or "NO" or "OFF" or "0";
        problem = known ? "" : "is neither true nor false";
        return known;
    }

    /// <summary>Reads an address.</summary>
    public static bool Address(string text, out ListenAddress value, out string problem)
    {
        bool ok = ListenAddress.TryParse(text, out ListenAddress? address, out string? why);
        (value, problem) = (address!, why ?? "");
        return ok;
    }

    /// <summary>Reads the address of a server to connect to: an address whose port is not 0.</summary>
    public static bool ServerAddress(string text, out ListenAddress value, out string problem)
    {
        bool ok = Address(text, out value, out problem);
        if (ok && !value.IsUnix && value.Port == 0)
        {
            problem = "has port 0; name the port that Redis listens on";
            return false;
        }

        return ok;
    }

    /// <summary>Reads a metadata specification.</summary>
    public static bool Metadata(string text, out MetadataSpec value, out string problem)
    {
        bool ok = MetadataSpec.TryParse(text, out MetadataSpec? spec, out string? why);
        (value, problem) = (spec!, why ?? "");
        return ok;
    }

    /// <summary>Reads how keys fall into partitions: hash, range:KEY,KEY,... or range:@FILE.</summary>
    public static bool Partitions(string text, out Partitioning value, out string problem)
    {
        const string FromFile = "range:@";
        if (!text.StartsWith(FromFile, StringComparison.OrdinalIgnoreCase)) { return Partitioning.TryParse(text, out value, out problem); }
        value = Partitioning.Hash;
        if (!ExistingFile(text[FromFile.Length..], out string file, out problem)) { return false; }
        try
        {
            return Partitioning.TryReadLines(File.ReadLines(file), out value, out problem);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            problem = $"cannot be read: {e.Message}";
            return false;
        }
    }

    /// <summary>Reads a name of 1 to 64 letters, digits, '-', '_' and '.'.</summary>
    public static bool Name(string text, out string value, out string problem)
    {
        value = text;
        bool ok = text.Length is >= 1 and <= 64 && text.All(c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_' or '.');
        problem = ok ? "" : "is not a name of 1 to 64 letters, digits, '-', '_' or '.'";
        return ok;
    }

    /// <summary>Reads the name of an ACL user: anything without white space.</summary>
    public static bool UserName(string text, out string value, out string problem)
    {
        value = text;
        problem = text.Length > 0 && !text.Any(c => char.IsWhiteSpace(c) || c == '\0') ? "" : "is not a user name";
        return problem.Length == 0;
    }

    /// <summary>Reads the path of a file that must exist; the value is absolute.</summary>
    public static bool ExistingFile(string text, out string value, out string problem)
    {
        value = text.Length == 0 ? "" : Path.GetFullPath(text);
        problem = text.Length == 0 ? "names no file" : Directory.Exists(value) ? "is a directory, not a file"
            : !File.Exists(value) ? "does not exist or cannot be read" : "";
        return problem.Length == 0;
    }

    /// <summary>Reads the path of a directory that may not exist yet; the value is absolute.</summary>
    public static bool DirectoryPath(string text, out string value, out string problem)
    {
        value = text.Length == 0 ? "" : Path.GetFullPath(text);
        problem = text.Length == 0 ? "names no directory" : File.Exists(value) ? "is a file, not a directory" : "";
        return problem.Length == 0;
    }

    /// <summary>Reads the path of a program; a bare name is looked for on PATH. The value is absolute.</summary>
    public static bool Program(string text, out string value, out string problem)
    {
        value = "";
        if (text.Length > 0 && !text.Contains('/'))
        {
            IEnumerable<string> folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(
                Path.PathSeparator, StringSplitOptions.RemoveEmptyEntries);
            value = folders.Select(folder => Path.Combine(folder, text)).FirstOrDefault(IsExecutable) ?? "";
            problem = value.Length > 0 ? ""
                : "is not on the PATH; give its whole path, or install it (Debian: apt-get install redis-server)";
            return problem.Length == 0;
        }

        if (!ExistingFile(text, out value, out problem))
        {
            return false;
        }

        problem = IsExecutable(value) ? "" : "is not executable";
        return problem.Length == 0;
    }

    /// <summary>A duration as <see cref="Duration"/> reads it, in the largest unit that leaves it whole.</summary>
    public static string FormatDuration(TimeSpan duration)
    {
        long microseconds = duration.Ticks / TimeSpan.TicksPerMicrosecond;
        (string suffix, long unit) = microseconds switch
        {
            0 => ("ms", 1),
            _ when microseconds % 3_600_000_000 == 0 => ("h", 3_600_000_000L),
            _ when microseconds % 60_000_000 == 0 => ("m", 60_000_000),
            _ when microseconds % 1_000_000 == 0 => ("s", 1_000_000),
            _ when microseconds % 1_000 == 0 => ("ms", 1_000),
            _ => ("us", 1),
        };
        return (microseconds / unit).ToString(CultureInfo.InvariantCulture) + suffix;
    }

    /// <summary>A size as <see cref="Size"/> reads it, in the largest unit that leaves it whole.</summary>
    public static string FormatSize(long bytes)
    {
        foreach ((string suffix, long unit) in new[] { ("tb", 1L << 40), ("gb", 1L << 30), ("mb", 1L << 20), ("kb", 1L << 10) })
        {
            if (bytes != 0 && bytes % unit == 0)
            {
                return (bytes / unit).ToString(CultureInfo.InvariantCulture) + suffix;
            }
        }

        return bytes.ToString(CultureInfo.InvariantCulture);
    }

    private static bool TryNumber(ReadOnlySpan<char> text, out decimal number)
        => decimal.TryParse(text, NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture, out number);

    private static bool IsExecutable(string path)
    {
        const UnixFileMode anyExecute = UnixFileMode.UserExecute | UnixFileMode.GroupExecute | UnixFileMode.OtherExecute;
        return File.Exists(path) && (OperatingSystem.IsWindows() || (File.GetUnixFileMode(path) & anyExecute) != 0);
    }
}
