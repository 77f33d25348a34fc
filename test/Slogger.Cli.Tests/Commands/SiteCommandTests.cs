// The commands of two sites and of cohorts: their help. What they do is tested where there are sites: Slogger.Sites.Tests.
using Slogger.Cli.Cohorts;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Tests.Commands;

public sealed class SiteCommandTests
{
    [Fact]
    public async Task Help_OfEachCommand_HasAllOptionsAndExitCodes()
    {
        string list = (await AppRun.Of(["--help"])).Output;
        foreach (ListedCommand command in ListedCommands.All)
        {
            Assert.Matches($"  slogger {command.Name} +{command.Description}", list);
            AppRun run = await AppRun.Of([.. command.Name.Split(' '), "--help"]);
            Assert.Equal(0, run.ExitCode);
            Assert.All(command.Options, option => Assert.Contains(option.Switch, run.Output, StringComparison.Ordinal));
            Assert.All(run.Output.Split('\n').Where(l => !l.StartsWith("  slogger", StringComparison.Ordinal)),
                line => Assert.True(line.Length <= 101, line));
            Assert.Contains("Exit codes: ", run.Output, StringComparison.Ordinal);
            // What is named in an example is an option; behind -- come words.
            foreach (string word in command.Examples.SelectMany(e => e.Split(" -- ")[0].Split(' '))
                .Where(w => w.StartsWith("--", StringComparison.Ordinal)))
            {
                Assert.Contains(command.Options, o => o.Switch == word);
            }
        }
    }

    [Fact]
    public async Task Option_UnknownOrMistyped_NamesTheNearest()
    {
        AppRun run = await AppRun.Of(["failover", "--loose-shard", "2"]);
        Assert.Equal(2, run.ExitCode);
        Assert.Contains("did you mean --lose-shard?", run.Error, StringComparison.Ordinal);
    }
}
