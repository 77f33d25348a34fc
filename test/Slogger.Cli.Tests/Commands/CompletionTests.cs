// Completion as a shell has it: bash runs the script, and the executable beside these tests says what may come next.
using System.Diagnostics;

namespace Slogger.Cli.Tests.Commands;

public sealed class CompletionTests
{
    [Theory]
    [InlineData("slogger st", "status")]
    [InlineData("slogger ", "serve backup status restore move recover leave interval init completion failover switchover drill seed "
        + "watermark")]
    [InlineData("slogger serve --comm", "--commit")]
    [InlineData("slogger serve --commit b", "bgsave")]
    [InlineData("slogger serve --commit log --tls-c", "--tls-cert --tls-client-ca")]
    [InlineData("slogger serve --redis-tls --listen a --listen b --tls-c", "--tls-cert --tls-client-ca")]
    [InlineData("slogger serve --on-rollback close --on-rollback e", "error")]
    [InlineData("slogger failover --js", "--json")]
    [InlineData("slogger completion ", "bash zsh fish")]
    [InlineData("slogger completion f", "fish")]
    [InlineData("slogger nonsense --x", "")]
    public async Task Bash_CompletesCommandsOptionsAndWords(string line, string expected)
    {
        string[] found = (await BashAsync(line)).Split('\n', StringSplitOptions.RemoveEmptyEntries);
        foreach (string word in expected.Split(' ', StringSplitOptions.RemoveEmptyEntries)) { Assert.Contains(word, found); }
        string last = line[(line.LastIndexOf(' ') + 1)..];
        Assert.All(found, word => Assert.StartsWith(last, word, StringComparison.Ordinal));
        if (expected.Length == 0) { Assert.Empty(found); }
    }

    [Fact]
    public async Task Bash_NothingMayCome_LeavesItToFiles()
    {
        Assert.Equal("", await BashAsync("slogger serve --data /t"));
        Assert.DoesNotContain("/", await BashAsync("slogger completion "), StringComparison.Ordinal);
    }

    // What stands behind the cursor is not looked at, and the command may be a path.
    [Fact]
    public async Task Bash_CursorInTheMiddle_CompletesWhatIsBeforeIt()
    {
        Assert.Equal("--commit\n", await BashAsync("slogger serve --comm|"));
        Assert.Equal("--commit\n", await BashAsync("slogger serve --comm| --data x"));
    }

    [Theory]
    [InlineData("bash", "complete -o default -F _slogger slogger")]
    [InlineData("zsh", "compdef _slogger slogger")]
    [InlineData("fish", "complete -c slogger")]
    public async Task Script_OfEachShell_IsPrinted(string shell, string expected)
    {
        AppRun run = await AppRun.Of(["completion", shell]);
        Assert.Equal((0, ""), (run.ExitCode, run.Error));
        Assert.Contains(expected, run.Output, StringComparison.Ordinal);
        Assert.Contains("[suggest:", run.Output, StringComparison.Ordinal);
    }

    // Where the shell is here, it says what it thinks of the script.
    [Theory]
    [InlineData("bash", "-n")]
    [InlineData("zsh", "-n")]
    [InlineData("fish", "--no-execute")]
    public async Task Script_OfEachShell_IsInItsLanguage(string shell, string check)
    {
        Assert.SkipUnless((Environment.GetEnvironmentVariable("PATH") ?? "").Split(':').Any(p => File.Exists(Path.Combine(p, shell))),
            $"there is no {shell} here");
        using TempDirectory temp = new();
        string script = temp.File("script", (await AppRun.Of(["completion", shell])).Output);
        Assert.Equal("", await RunAsync(shell, [check, script]));
    }

    [Theory]
    [InlineData("completion")]
    [InlineData("completion", "tcsh")]
    [InlineData("completion", "bash", "zsh")]
    public async Task Shell_NoneUnknownOrTwo_ExitsWithTwo(params string[] args)
    {
        AppRun run = await AppRun.Of(args);
        Assert.Equal(2, run.ExitCode);
        Assert.Equal("", run.Output);
        Assert.Contains("slogger: ", run.Error, StringComparison.Ordinal);
    }

    // As bash calls it: the line, the cursor (|, or the end), the command, and the word that is completed.
    private static async Task<string> BashAsync(string line)
    {
        int cursor = line.IndexOf('|', StringComparison.Ordinal);
        if (cursor >= 0) { line = line.Remove(cursor, 1); }
        else { cursor = line.Length; }
        string before = line[..cursor], word = before[(before.LastIndexOf(' ') + 1)..];
        string script = (await AppRun.Of(["completion", "bash"])).Output;
        return await RunAsync("bash", ["-c", $$"""
            slogger() { dotnet "{{Path.Combine(AppContext.BaseDirectory, "slogger.dll")}}" "$@"; }
            {{script}}
            COMP_LINE='{{line}}' COMP_POINT={{cursor}}
            _slogger slogger '{{word}}' ''
            (( ${#COMPREPLY[@]} )) && printf '%s\n' "${COMPREPLY[@]}"
            true
            """]);
    }

    private static async Task<string> RunAsync(string program, string[] arguments)
    {
        ProcessStartInfo info = new(program, arguments) { RedirectStandardOutput = true, RedirectStandardError = true };
        using Process process = Process.Start(info)!;
        Task<string> output = process.StandardOutput.ReadToEndAsync(), error = process.StandardError.ReadToEndAsync();
        await process.WaitForExitAsync();
        Assert.True(process.ExitCode == 0, await error);
        Assert.Equal("", await error);
        return await output;
    }
}
