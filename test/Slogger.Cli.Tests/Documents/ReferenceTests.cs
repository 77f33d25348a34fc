// What docs/reference lists is what the program has: every option with its default, every command, field, table and message, and none more.
using System.Text.RegularExpressions;
using Slogger.Cli.Cohorts;
using Slogger.Cli.Past;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Documents;

public partial class ReferenceTests
{
    private const string OptionsPage = "docs/reference/options.md", CommandsPage = "docs/reference/commands.md",
        OfSites = "## Of `slogger status --site --json`", OfCohorts = "## Of `slogger cohort status --json`";

    [Fact]
    public void Options_OfTheCatalog_AreAllOnTheirPageAndNoOthers()
    {
        IEnumerable<string> known = OptionCatalog.All.Concat(OptionCatalog.RestoreOnly).Select(o => o.Name);
        Assert.Equal(known.Order(), Pages.OptionItems(Pages.Read(OptionsPage)).SelectMany(i => i.Options).Order());
    }

    [Fact]
    public void Options_OfTheCatalog_HaveTheirValueAndTheirDefaultOnTheirPage()
    {
        List<string> wrong = [];
        foreach ((IReadOnlyList<string> options, string text) in Pages.OptionItems(Pages.Read(OptionsPage)))
        {
            OptionDefinition option = OptionCatalog.Find(options[0]) ?? OptionCatalog.RestoreOnly.Single(o => o.Name == options[0]);
            string begins = $"- `{$"{option.Switch} {option.ValueName}".TrimEnd()}`: ";
            if (!text.StartsWith(begins, StringComparison.Ordinal)) { wrong.Add($"{option.Switch} does not begin with {begins}"); }
            if (option.IsLive != text.StartsWith($"{begins}(live) ", StringComparison.Ordinal)) { wrong.Add($"{option.Switch}: live?"); }
            // "none" is a value of this one.
            bool hasDefault = option.Default is not ("none" or "false" or "") || option.Name == "backup-compression";
            if (hasDefault ? !text.EndsWith($" Default: {option.Default}.", StringComparison.Ordinal)
                : text.Contains("Default: ", StringComparison.Ordinal))
            {
                wrong.Add($"{option.Switch}: the default is {(hasDefault ? option.Default : "not to be told")}: {text}");
            }
        }
        Assert.Empty(wrong);
    }

    public static TheoryData<string> CommandsWithOptionsOfTheirOwn =>
        [StatusCommand.Name, MoveCommand.Name, IntervalCommand.Name, InitCommand.Name,
            .. ListedCommands.All.Select(c => c.Name)];

    [Theory]
    [MemberData(nameof(CommandsWithOptionsOfTheirOwn))]
    public void Commands_TheirOptions_AreInTheirSectionsAndNoOthers(string name)
    {
        ListedCommand? ofSites = SiteCommands.All.FirstOrDefault(c => c.Name == name);
        IEnumerable<OptionDefinition> options = ListedCommands.Find(name)?.Options ?? name switch
        {
            StatusCommand.Name => StatusOptions.All,
            MoveCommand.Name => MoveOptions.All,
            InitCommand.Name => InitCommand.Options,
            _ => IntervalCommand.Options,
        };
        string text = Pages.Section(CommandsPage, $"## `slogger {name}`");
        if (ofSites is not null)
        {
            const string common = "## Options of all commands of two sites";
            bool hasTimeout = options.Any(o => o.Name == "timeout");
            text += "\n" + Pages.Section(CommandsPage, common).Split("`--timeout")[0].TrimEnd(' ', '-')
                + (hasTimeout ? "\n- `--timeout DURATION`:" : "");
        }
        Assert.Equal(options.Select(o => o.Name).Order(), Pages.OptionItems(text).SelectMany(i => i.Options).Order());
    }

    [Fact]
    public void Commands_OfHelp_AllHaveASection()
    {
        using StringWriter help = new();
        HelpText.Write(help, null, 100);
        string[] names = [.. CommandPattern().Matches(help.ToString()).Select(m => m.Groups[1].Value)];
        Assert.Contains("serve", names);
        IEnumerable<string> sections = SectionPattern().Matches(Pages.Read(CommandsPage)).Select(m => m.Groups[1].Value);
        Assert.Equal(names.Order(), sections.Order());
    }

    [Fact]
    public void Fields_ThatAShardTells_AreAllOnTheirPage()
    {
        string page = Pages.Read("docs/reference/fields.md");
        string[] told = [.. FieldPattern().Matches(Pages.Sources).Select(m => m.Groups[1].Value + m.Groups[2].Value).Distinct()];
        Assert.Contains("lag_commit_ms", told);
        Assert.Contains("failover_rehearsal", told);
        Assert.Contains("rollback_ready", told);
        string[] missing = [.. told.Where(name => !page.Contains($"`{name}`", StringComparison.Ordinal))];
        Assert.Empty(missing);
    }

    [Fact]
    public void Fields_OfThePage_AreAllToldBySomebody()
    {
        string page = Pages.Read("docs/reference/fields.md");
        string[] names = [.. FirstColumnPattern().Matches(page[..page.IndexOf(OfSites, StringComparison.Ordinal)]).SelectMany(
            row => CodePattern().Matches(row.Groups[1].Value).Select(m => m.Groups[1].Value))];
        Assert.True(names.Length > 80);
        string[] unknown = [.. names.Where(name => !char.IsUpper(name[^1])       // shardN
            && !Pages.Sources.Contains($"\"{name}\"", StringComparison.Ordinal)
            && !Pages.Sources.Contains($"\"{name}:", StringComparison.Ordinal))];
        Assert.Empty(unknown);
    }

    [Fact]
    public void Fields_OfASite_AreAllInTheirSection()
    {
        string section = Pages.Section("docs/reference/fields.md", OfSites);
        string[] names = [.. NamePattern().Matches(Report.NamesOf(SiteReportJson.Default.SiteReport)).Select(m => m.Value).Distinct()];
        Assert.Contains("watermark_age_ms", names);
        string[] missing = [.. names.Where(name => !section.Contains($"`{name}`", StringComparison.Ordinal))];
        Assert.Empty(missing);
    }

    [Fact]
    public void Fields_OfACohort_AreAllInTheirSection()
    {
        string section = Pages.Section("docs/reference/fields.md", OfCohorts);
        string[] names = [.. NamePattern().Matches(Report.NamesOf(CohortReportJson.Default.CohortReport)).Select(m => m.Value).Distinct()];
        Assert.Contains("behind_versions", names);
        string[] missing = [.. names.Where(name => !section.Contains($"`{name}`", StringComparison.Ordinal))];
        Assert.Empty(missing);
    }

    [Fact]
    public void DprCommands_OfThePages_AreThoseOfTheFrontEnd()
    {
        string[] told = [.. Pages.ForUsers().SelectMany(p => DprPattern().Matches(Pages.Read(p)).Select(m => m.Value)).Distinct()];
        string[] known = [.. DprPattern().Matches(string.Join('\n',
            Directory.EnumerateFiles(Pages.At("src/Slogger.FrontEnd"), "*.cs").Select(File.ReadAllText))).Select(m => m.Value).Distinct()];
        Assert.Contains("DPR.REACH", told);
        Assert.Equal(known.Order(), told.Order());
    }

    [Fact]
    public void Tables_OfTheMetadata_AreAllOnTheirPageAndNoOthers()
    {
        IEnumerable<string> made = TablePattern().Matches(Pages.Sources).Select(m => m.Groups[1].Value).Distinct();
        IEnumerable<string> told = FirstColumnPattern().Matches(Pages.Read("docs/reference/metadata.md"))
            .SelectMany(row => CodePattern().Matches(row.Groups[1].Value).Select(m => m.Groups[1].Value));
        Assert.Equal(made.Order(), told.Order());
    }

    [Theory]
    [InlineData("docs/operate/troubleshoot.md", 85)]
    [InlineData("docs/reference/errors.md", 40)]
    public void Messages_ThatAPageExplains_AreThoseOfTheProgram(string page, int atLeast)
    {
        string text = Pages.Read(page).Replace("\n  ", " ", StringComparison.Ordinal).Replace("`**,\n**`", "`**, **`",
            StringComparison.Ordinal);
        string[] messages = [.. MessagePattern().Matches(text).Select(m => m.Groups[1].Value)
            .Where(m => m.Contains(' ', StringComparison.Ordinal)).Select(m => m.Replace("-ERR SLOGGER ", "", StringComparison.Ordinal))
            .Select(m => m.Replace("-ERR ", "", StringComparison.Ordinal).TrimStart('-'))];
        Assert.True(messages.Length >= atLeast, $"{messages.Length} messages");
        string[] unknown = [.. messages.Where(m => !Pages.IsInSources(m))];
        Assert.Empty(unknown);
    }

    [GeneratedRegex("^  slogger ((?:cohort )?[a-z]+)", RegexOptions.Multiline)]
    private static partial Regex CommandPattern();

    [GeneratedRegex("^## `slogger ([a-z ]+)`", RegexOptions.Multiline)]
    private static partial Regex SectionPattern();

    // As a shard, its store and a stream's receiver write them.
    [GeneratedRegex("(?:\\b[Ll]ine\\(|yield return \\()\"([a-z][a-z0-9_]*)\"|\\$\"([a-z_]+):\\{(?=loop|_rate|options\\.[CS])")]
    private static partial Regex FieldPattern();

    [GeneratedRegex("^\\| (`[^|]+) \\|", RegexOptions.Multiline)]
    private static partial Regex FirstColumnPattern();

    [GeneratedRegex("`([A-Za-z0-9_]+)`")]
    private static partial Regex CodePattern();

    [GeneratedRegex("[a-z_]+")]
    private static partial Regex NamePattern();

    [GeneratedRegex("DPR\\.[A-Z]{2,}")]
    private static partial Regex DprPattern();

    [GeneratedRegex("CREATE TABLE (slogger_[a-z_]+)")]
    private static partial Regex TablePattern();

    [GeneratedRegex("\\*\\*`([^`]+)`\\*\\*")]
    private static partial Regex MessagePattern();
}
