// Blocks of the documents that are for other machines (console) are not run. Each command of ours in them is given to the program all the
// same, with entry points that do nothing: what it refuses, a reader cannot use.
using System.Text.RegularExpressions;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Documents;

public sealed partial class ConsoleBlockTests : IDisposable
{
    private readonly TempDirectory _temp = new();

    public static TheoryData<string> Commands => [.. Pages.All().SelectMany(page => CommandsOf(Pages.Read(page))).Distinct()];

    public void Dispose() => _temp.Dispose();

    [Theory]
    [MemberData(nameof(Commands))]
    public async Task Command_OfAConsoleBlock_IsOneThatTheProgramTakes(string command)
    {
        // "..." stands for more options: then what is there is looked at by itself.
        bool isWhole = !WordPattern().Matches(command).Any(m => m.Value == "...");
        string[] args = [.. WordPattern().Matches(command).Select(m => Unquoted(m.Value)).TakeWhile(w => w != "|")
            .Where(w => w != "...").Skip(1)];
        using var stop = new CancellationTokenSource();
        await stop.CancelAsync();
        StringWriter error = new();
        var host = new AppHost
        {
            Output = new StringWriter(), Error = TextWriter.Synchronized(error), Stop = stop.Token,
            Environment = new Dictionary<string, string> { ["SLOGGER_METADATA"] = "postgres:Host=127.0.0.1;Port=1;Database=slogger" },
            Serve = (_, _, _, _) => Task.FromResult(ProxyExit.Done), Backup = (_, _, _, _) => Task.FromResult(ProxyExit.Done),
            Restore = (_, _, _) => Task.FromResult(ProxyExit.Done), Recover = (_, _, _) => Task.FromResult(ProxyExit.Done),
            Leave = (_, _, _) => Task.FromResult(ProxyExit.Done),
        };
        int code = await SloggerApp.RunAsync(args, host);
        string[] problems = [.. error.ToString().Split('\n').Where(l => l.StartsWith("slogger: ", StringComparison.Ordinal))
            // Files that the page has had a reader make.
            .Where(l => !l.Contains(_temp.Path, StringComparison.Ordinal))];
        if (!isWhole) { problems = [.. problems.Where(IsOfSyntax)]; }
        Assert.True(code != ExitCodes.BadOptions || problems.Length == 0, $"{command}\n{error}");
    }

    [Theory]
    [InlineData("slogger serve --no-such-option 1 ...")]
    [InlineData("slogger serve --version-interval often")]
    [InlineData("slogger nonsense")]
    public async Task Command_ThatTheProgramRefuses_Fails(string command) =>
        await Assert.ThrowsAnyAsync<Xunit.Sdk.XunitException>(() => Command_OfAConsoleBlock_IsOneThatTheProgramTakes(command));

    private static bool IsOfSyntax(string problem) =>
        new[] { "is not an option", "is not a command", "one word too many" }.Any(p => problem.Contains(p, StringComparison.Ordinal));

    // Nothing is written, or read, at the places that the pages name.
    private string Unquoted(string word)
    {
        (string Written, string Meant)[] places = [("/etc/slogger", _temp.Path), ("/var/lib/slogger", _temp.Below("data")),
            ("./data", _temp.Below("data")), ("$SLOGGER_METADATA", "postgres:Host=127.0.0.1;Port=1"), (";...", ""), ("$before", "17")];
        return places.Aggregate(word.Trim('"', '\''), (w, p) => w.Replace(p.Written, p.Meant, StringComparison.Ordinal));
    }

    private static IEnumerable<string> CommandsOf(string page) =>
        BlockPattern().Matches(page)
            .SelectMany(block => block.Groups[1].Value.Replace("\\\n", " ", StringComparison.Ordinal).Split('\n'))
            .Select(line => CommentPattern().Replace(line, "").Trim())
            .Where(line => line.StartsWith("slogger ", StringComparison.Ordinal));

    [GeneratedRegex(@"^```console\n(.*?)^```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex BlockPattern();

    [GeneratedRegex(@"\s#\s.*$")]
    private static partial Regex CommentPattern();

    [GeneratedRegex("""(?:"[^"]*"|'[^']*'|[^\s"'])+""")]
    private static partial Regex WordPattern();
}
