// The documents, and the sources that they speak of, as the tests of this folder read them.
using System.Runtime.CompilerServices;
using System.Text.RegularExpressions;

namespace Slogger.Cli.Tests.Documents;

/// <summary>Reads them.</summary>
internal static partial class Pages
{
    private static readonly Lazy<string> AllSources = new(() => string.Join('\n',
        Directory.EnumerateFiles(At("src"), "*.cs", SearchOption.AllDirectories).Where(f => !IsBuilt(f)).Select(File.ReadAllText)));

    /// <summary>Whole texts: literals that are broken over lines stand together.</summary>
    private static readonly Lazy<string> AllTexts = new(() => SeamPattern().Replace(AllSources.Value, ""));

    /// <summary>A path of the repository.</summary>
    public static string At(string path) => Path.Combine(Root(), path);

    /// <summary>What is for those who use the program: all but docs/internals.</summary>
    public static IEnumerable<string> ForUsers() =>
        All().Where(page => !page.StartsWith("docs/internals/", StringComparison.Ordinal));

    /// <summary>All of docs, as paths of the repository.</summary>
    public static IEnumerable<string> All() => Directory.EnumerateFiles(At("docs"), "*.md", SearchOption.AllDirectories)
        .Select(file => Path.GetRelativePath(Root(), file)).Order(StringComparer.Ordinal);

    public static string Read(string page) => File.ReadAllText(At(page));

    /// <summary>The part of a page below a heading, up to the next one of its level.</summary>
    public static string Section(string page, string heading)
    {
        string[] lines = [.. File.ReadLines(At(page)).SkipWhile(line => line != heading)];
        Assert.True(lines.Length > 0, $"{page} has no heading \"{heading}\"");
        string level = heading[..(heading.IndexOf(' ', StringComparison.Ordinal) + 1)];
        return string.Join('\n', lines.Skip(1).TakeWhile(line => !line.StartsWith(level, StringComparison.Ordinal)));
    }

    /// <summary>The items of lists that begin with an option; several may share one, with commas between.</summary>
    public static IEnumerable<(IReadOnlyList<string> Options, string Text)> OptionItems(string text)
    {
        foreach (Match item in ItemPattern().Matches(text))
        {
            string whole = string.Join(' ', item.Value.Split('\n', StringSplitOptions.TrimEntries));
            yield return ([.. HeadPattern().Match(whole).Groups[1].Captures.Select(c => c.Value)], whole);
        }
    }

    /// <summary>Whether a text stands in the sources; "..." stands for what differs.</summary>
    public static bool IsInSources(string text) => text.Split("...", StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)
        .All(part => AllTexts.Value.Contains(part.Replace("\"", "\\\"", StringComparison.Ordinal), StringComparison.Ordinal));

    /// <summary>All of the sources.</summary>
    public static string Sources => AllSources.Value;

    private static bool IsBuilt(string file) => file.Contains("/obj/", StringComparison.Ordinal) || file.Contains("/bin/",
        StringComparison.Ordinal);

    private static string Root([CallerFilePath] string here = "") =>
        Path.GetFullPath(Path.Combine(Path.GetDirectoryName(here)!, "..", "..", ".."));

    [GeneratedRegex("\"\\s*\\+\\s*\\$?\"")]
    private static partial Regex SeamPattern();

    [GeneratedRegex(@"^- `--.*(\n  \S.*)*", RegexOptions.Multiline)]
    private static partial Regex ItemPattern();

    [GeneratedRegex("^- (?:`--([a-z-]+)[^`]*`(?:, )?)+")]
    private static partial Regex HeadPattern();
}
