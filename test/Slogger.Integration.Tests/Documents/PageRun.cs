// Runs the commands of a page as a reader does: all blocks marked `sh` one after the other in one bash, and compares what a block marked
// `text` says comes of them. Each page has a home and a network of its own, so that the ports that pages name are free.
using System.Diagnostics;
using System.Text;
using System.Text.RegularExpressions;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Documents;

/// <summary>One run of one page.</summary>
internal sealed partial class PageRun : IDisposable
{
    private const string HomeVariable = "SLOGGER_PAGE_HOME";
    private const string Failed = "@@ failed with";
    private readonly string _home = Directory.CreateTempSubdirectory("slogger-page-").FullName;
    private readonly StringBuilder _output = new();
    private readonly StringBuilder _all = new();
    private readonly Process _shell;
    private readonly CancellationToken _limit;
    private string? _network;
    private int _marks;

    /// <param name="root">The repository.</param>
    /// <param name="needsNetwork">Whether it fetches packages.</param>
    /// <param name="limit">How long all of it may take.</param>
    public PageRun(string root, bool needsNetwork, CancellationToken limit)
    {
        _limit = limit;
        // The executable as `dotnet publish` would have put it there.
        string bin = Directory.CreateDirectory(Path.Combine(_home, "slogger")).FullName;
        WriteProgram(Path.Combine(bin, "slogger"), $"#!/bin/sh\nexec dotnet \"{ProxyProcess.Executable}\" \"$@\"\n");
        // Its compilers go before what mostly waits, where that is allowed: else they would take longer than a test may.
        string[] under = (needsNetwork, Environment.IsPrivilegedProcess) switch
        {
            (true, true) => ["nice", "-n", "-5"],
            (true, false) => [],
            (false, true) => ["unshare", "-n"],
            (false, false) => ["unshare", "-r", "-n"],
        };
        string[] words = [.. under, "bash", "-c", (needsNetwork ? "" : "ip link set lo up; ") + "exec bash --norc 2>&1"];
        var start = new ProcessStartInfo(words[0], words[1..])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            WorkingDirectory = _home,
        };
        foreach (string name in start.Environment.Keys.Where(n => n.StartsWith("SLOGGER_", StringComparison.Ordinal)).ToArray())
        {
            start.Environment.Remove(name);
        }
        string packages = Environment.GetEnvironmentVariable("NUGET_PACKAGES")
            ?? Path.Combine(Environment.GetFolderPath(Environment.SpecialFolder.UserProfile), ".nuget", "packages");
        start.Environment["NUGET_PACKAGES"] = packages;
        // A page that packs ours gets them as they are now, not as an earlier run of it has left them there.
        if (needsNetwork && Directory.Exists(packages))
        {
            foreach (string old in Directory.EnumerateDirectories(packages, "slogger.*")) { Directory.Delete(old, recursive: true); }
        }
        start.Environment["DOTNET_CLI_TELEMETRY_OPTOUT"] = start.Environment["DOTNET_NOLOGO"] = "1";
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        start.Environment["HOME"] = start.Environment[HomeVariable] = _home;
        start.Environment["PATH"] = bin + ":" + Environment.GetEnvironmentVariable("PATH");
        start.Environment["REPO"] = root;
        // redis-cli writes as it does to a terminal.
        start.Environment["FAKETTY"] = "1";
        _shell = Process.Start(start)!;
        _shell.OutputDataReceived += (_, line) =>
        {
            lock (_output) { _output.Append(line.Data).Append('\n'); }
        };
        _shell.BeginOutputReadLine();
        // Who reads the page sees a command fail; so does this.
        _shell.StandardInput.Write($"trap 'echo \"{Failed} $?: $BASH_COMMAND\"' ERR\n");
    }

    /// <summary>The blocks of a page, in their order.</summary>
    public static IEnumerable<(string Mark, int Line, string Text)> BlocksOf(string page)
    {
        string? mark = null;
        var text = new StringBuilder();
        int number = 0, began = 0;
        foreach (string line in page.Split('\n'))
        {
            number++;
            Match fence = FencePattern().Match(line);
            if (!fence.Success)
            {
                if (mark is not null) { text.Append(line).Append('\n'); }
            }
            else if (mark is null) { (mark, began) = (fence.Groups[1].Value, number); }
            else
            {
                yield return (mark, began, text.ToString());
                mark = null;
                text.Clear();
            }
        }
    }

    /// <summary>Runs all of a page.</summary>
    /// <returns>What was not as it says; empty: all was.</returns>
    public async Task<string> RunAsync(string page)
    {
        string? last = null;
        int ended = 0, ran = 0;
        try
        {
            foreach ((string mark, int line, string text) in BlocksOf(page))
            {
                bool isCompared = mark == "text" && last is not null && line == ended;
                // A page shows commands that fail, too, with what they print.
                if (!isCompared && FailureOf(last) is { } failure) { return $"line {ran}: {failure}\n{_all}"; }
                if (mark == "sh") { (last, ran) = (await DoAsync(text, line), line); }
                else if (isCompared && Missing(text, last!) is { } missing)
                {
                    return $"line {line}: \"{missing}\" is not in the output\n{_all}";
                }
                // A block directly behind the other begins on the next line.
                ended = line + text.Count(c => c == '\n') + 2;
                if (mark != "sh") { last = null; }
            }
            return FailureOf(last) is { } atEnd ? $"line {ran}: {atEnd}\n{_all}" : "";
        }
        catch (OperationCanceledException)
        {
            lock (_output) { return $"it takes too long\n{_all}\n{_output}"; }
        }
    }

    public void Dispose()
    {
        // What it has left running; and what that has started meanwhile.
        for (int i = 0; i < 100 && LeftRunning() is { Length: > 0 } left; i++)
        {
            foreach (int id in left)
            {
                try
                {
                    using var process = Process.GetProcessById(id);
                    process.Kill();
                }
                catch (Exception e) when (e is ArgumentException or InvalidOperationException)
                {
                    // It has ended.
                }
            }
            Thread.Sleep(20);
        }
        _shell.Dispose();
        Directory.Delete(_home, recursive: true);
    }

    private async Task<string> DoAsync(string commands, int line)
    {
        // The executable is built already.
        string mark = $"@@ block {++_marks} is done @@";
        await _shell.StandardInput.WriteAsync(PublishPattern().Replace(commands, "") + $"\necho '{mark}'\n");
        await _shell.StandardInput.FlushAsync(_limit);
        while (true)
        {
            lock (_output)
            {
                string output = _output.ToString();
                int end = output.IndexOf(mark, StringComparison.Ordinal);
                if (end >= 0)
                {
                    _output.Clear();
                    // It is in its network now, and was not yet when it was started. All the machine's must never be taken for its own.
                    string? network = NetworkOf(_shell.Id);
                    if (network != NetworkOf(Environment.ProcessId)) { _network ??= network; }
                    _all.Append($"--- line {line}\n{commands}>>>\n{output[..end]}");
                    return output[..end];
                }
            }
            if (_shell.HasExited) { throw new InvalidOperationException($"the shell has ended at line {line}\n{_all}\n{_output}"); }
            await Task.Delay(20, _limit);
        }
    }

    private int[] LeftRunning() => [.. Directory.EnumerateDirectories("/proc").Select(d => Path.GetFileName(d))
        .Where(n => n.All(char.IsAsciiDigit)).Select(n => int.Parse(n, System.Globalization.CultureInfo.InvariantCulture))
        .Where(IsOfThisPage)];

    private bool IsOfThisPage(int id)
    {
        try
        {
            // A redis-server writes its title over its environment.
            return (_network is not null && NetworkOf(id) == _network)
                || File.ReadAllText($"/proc/{id}/environ").Split('\0').Contains($"{HomeVariable}={_home}")
                || new FileInfo($"/proc/{id}/cwd").LinkTarget?.StartsWith(_home, StringComparison.Ordinal) == true;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return false;
        }
    }

    private static string? NetworkOf(int id) => new FileInfo($"/proc/{id}/ns/net").LinkTarget;

    private static string? FailureOf(string? output) =>
        output?.Split('\n').FirstOrDefault(l => l.StartsWith(Failed, StringComparison.Ordinal));

    // The first line of a text that is not found in its order; "..." stands for anything.
    private static string? Missing(string text, string output)
    {
        // How wide a column is hangs on what is in it.
        string[] lines = [.. LinesOf(output)];
        int at = 0;
        foreach (string line in LinesOf(text).Where(l => l.Length > 0 && l != "..."))
        {
            var pattern = new Regex("^" + string.Join(".*?", line.Split("...").Select(Regex.Escape)) + "$");
            while (at < lines.Length && !pattern.IsMatch(lines[at])) { at++; }
            if (at++ == lines.Length) { return line; }
        }
        return null;
    }

    private static IEnumerable<string> LinesOf(string text) => text.Split('\n').Select(l => SpacesPattern().Replace(l, " ").Trim());

    private static void WriteProgram(string path, string text)
    {
        File.WriteAllText(path, text);
        if (OperatingSystem.IsWindows()) { return; }
        File.SetUnixFileMode(path, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
    }

    [GeneratedRegex("^ *```(.*)$")]
    private static partial Regex FencePattern();

    [GeneratedRegex(" +")]
    private static partial Regex SpacesPattern();

    [GeneratedRegex("^dotnet publish src/Slogger.Cli .*$", RegexOptions.Multiline)]
    private static partial Regex PublishPattern();
}
