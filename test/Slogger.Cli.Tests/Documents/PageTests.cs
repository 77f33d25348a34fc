// The form of the documents: links lead somewhere, lines are short, and what they name is there.
using System.Text.RegularExpressions;
using Slogger.Cli.Cohorts;
using Slogger.Cli.Past;
using Slogger.Cli.Sites;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Documents;

public partial class PageTests
{
    private const int LineMax = 140;

    // Options of other programs.
    private static readonly string[] s_ofOthers =
        ["raw", "pipe", "save", "dir", "dbfilename", "port", "daemonize", "pidfile", "owner", "system", "home-dir", "now", "signal",
            "kill-whom"];

    [Fact]
    public void Links_OfAllPages_LeadToAFileAndAHeading()
    {
        List<string> broken = [];
        int count = 0;
        foreach (string page in Pages.All())
        {
            foreach (string target in LinkPattern().Matches(WithoutBlocks(Pages.Read(page))).Select(m => m.Groups[1].Value))
            {
                if (target.Contains("://", StringComparison.Ordinal)) { continue; }
                count++;
                string[] parts = target.Split('#');
                string file = parts[0].Length == 0 ? Pages.At(page)
                    : Path.GetFullPath(Path.Combine(Path.GetDirectoryName(Pages.At(page))!, parts[0]));
                if (!File.Exists(file) && !Directory.Exists(file)) { broken.Add($"{page}: {target}: there is no such file"); }
                else if (parts.Length > 1 && !Anchors(file).Contains(parts[1]))
                {
                    broken.Add($"{page}: {target}: there is no such heading");
                }
            }
        }
        Assert.True(count > 100, $"{count} links");
        Assert.Empty(broken);
    }

    [Fact]
    public void Lines_OfPagesForUsers_AreShort() => Assert.Empty(Pages.ForUsers().SelectMany(page => Pages.Read(page).Split('\n')
        .Where(line => line.Length > LineMax).Select(line => $"{page}: {line}")));

    [Fact]
    public void Options_ThatOperateAndReferenceName_AreThere()
    {
        HashSet<string> known = [.. OptionCatalog.All.Concat(OptionCatalog.RestoreOnly).Concat(StatusOptions.All).Concat(MoveOptions.All)
            .Concat(IntervalCommand.Options).Concat(InitCommand.Options)
            .Concat(ListedCommands.All.SelectMany(c => c.Options))
            .Select(o => o.Name),
            "help", "version", .. s_ofOthers];
        IEnumerable<string> pages = Pages.All().Where(page => page.StartsWith("docs/operate/", StringComparison.Ordinal)
            || page.StartsWith("docs/reference/", StringComparison.Ordinal));
        Assert.Empty(pages.SelectMany(page => SwitchPattern().Matches(Pages.Read(page))
            .Where(m => !known.Contains(m.Groups[1].Value)).Select(m => $"{page}: {m.Value}")).Distinct());
    }

    [Fact]
    public void Blocks_OfPagesForUsers_SayWhatTheyAre() => Assert.Empty(Pages.ForUsers().SelectMany(page =>
    {
        string[] fences = [.. FencePattern().Matches(Pages.Read(page)).Select(m => m.Groups[1].Value)];
        return fences.Where((kind, i) => i % 2 == 1 ? kind.Length > 0 : kind.Length == 0).Select(kind => $"{page}: \"{kind}\"");
    }));

    private static string WithoutBlocks(string text) => BlockPattern().Replace(text, "");

    // As GitHub makes them.
    private static HashSet<string> Anchors(string file) => [.. HeadingPattern().Matches(WithoutBlocks(File.ReadAllText(file)))
        .Select(m => NoAnchorPattern().Replace(m.Groups[1].Value.ToLowerInvariant(), "").Replace(' ', '-'))];

    [GeneratedRegex("\\]\\(([^)\\s]+)\\)")]
    private static partial Regex LinkPattern();

    [GeneratedRegex("(?<![-\\w])--([a-z][a-z-]*[a-z])")]
    private static partial Regex SwitchPattern();

    [GeneratedRegex("^ *```(.*)$", RegexOptions.Multiline)]
    private static partial Regex FencePattern();

    [GeneratedRegex("^ *```.*?^ *```$", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex BlockPattern();

    [GeneratedRegex("^#+ (.*)$", RegexOptions.Multiline)]
    private static partial Regex HeadingPattern();

    [GeneratedRegex("[^\\w\\- ]")]
    private static partial Regex NoAnchorPattern();
}
