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
    private readonly string _home = Directory.CreateTempSubdirectory("slogger-page-").FullName;
    private readonly StringBuilder _output = new();
    private readonly StringBuilder _all = new();
    private readonly Process _shell;
    private readonly CancellationToken _limit;
    private int _marks;

    /// <param name="root">The repository.</param>
    /// <param name="isHere">Whether the page is read in the directory of the repository; else in the home.</param>
    /// <param name="needsNetwork">Whether it fetches packages.</param>
    /// <param name="limit">How long all of it may take.</param>
    public PageRun(string root, bool isHere, bool needsNetwork, CancellationToken limit)
    {
        _limit = limit;
        // The executable as `dotnet publish` would have put it there.
        string bin = Directory.CreateDirectory(Path.Combine(_home, "slogger")).FullName;
        WriteProgram(Path.Combine(bin, "slogger"), $"#!/bin/sh\nexec dotnet \"{ProxyProcess.Executable}\" \"$@\"\n");
        string[] network = needsNetwork ? [] : Environment.IsPrivilegedProcess ? ["unshare", "-n"] : ["unshare", "-r", "-n"];
        string[] words = [.. network, "bash", "-c", (needsNetwork ? "" : "ip link set lo up; ") + "exec bash --norc 2>&1"];
        var start = new ProcessStartInfo(words[0], words[1..])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            WorkingDirectory = isHere ? root : _home,
        };
        foreach (string name in start.Environment.Keys.Where(n => n.StartsWith("SLOGGER_", StringComparison.Ordinal)).ToArray())
        {
            start.Environment.Remove(name);
        }
        start.Environment["NUGET_PACKAGES"] = Environment.GetEnvironmentVariable("NUGET_PACKAGES")
            ?? Path.Combine(Environment.GetFolderPath(Environment.SpecialFolder.UserProfile), ".nuget", "packages");
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
        int ended = 0;
        try
        {
            foreach ((string mark, int line, string text) in BlocksOf(page))
            {
                if (mark == "sh") { last = await DoAsync(text, line); }
                else if (mark == "text" && last is not null && line == ended && Missing(text, last) is { } missing)
                {
                    return $"line {line}: \"{missing}\" is not in the output\n{_all}";
                }
                // A block directly behind the other begins on the next line.
                ended = line + text.Count(c => c == '\n') + 2;
                if (mark != "sh") { last = null; }
            }
            return "";
        }
        catch (OperationCanceledException)
        {
            lock (_output) { return $"it takes too long\n{_all}\n{_output}"; }
        }
    }

    public void Dispose()
    {
        // What it has left running, by what it was started with; their children too.
        foreach (int id in Directory.EnumerateDirectories("/proc").Select(d => Path.GetFileName(d)).Where(n => n.All(char.IsAsciiDigit))
            .Select(n => int.Parse(n, System.Globalization.CultureInfo.InvariantCulture)).Where(IsOfThisPage).ToArray())
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
                    _all.Append($"--- line {line}\n{commands}>>>\n{output[..end]}");
                    return output[..end];
                }
            }
            if (_shell.HasExited) { throw new InvalidOperationException($"the shell has ended at line {line}\n{_all}\n{_output}"); }
            await Task.Delay(20, _limit);
        }
    }

    private bool IsOfThisPage(int id)
    {
        try
        {
            // A redis-server writes its title over its environment, and works in its data directory.
            return File.ReadAllText($"/proc/{id}/environ").Split('\0').Contains($"{HomeVariable}={_home}")
                || new FileInfo($"/proc/{id}/cwd").LinkTarget?.StartsWith(_home, StringComparison.Ordinal) == true;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return false;
        }
    }

    // The first line of a text that is not found in its order; "..." stands for anything.
    private static string? Missing(string text, string output)
    {
        string[] lines = [.. output.Split('\n').Select(l => l.Trim())];
        int at = 0;
        foreach (string line in text.Split('\n').Select(l => l.Trim()).Where(l => l.Length > 0 && l.Trim() != "..."))
        {
            var pattern = new Regex("^" + string.Join(".*?", line.Split("...").Select(Regex.Escape)) + "$");
            while (at < lines.Length && !pattern.IsMatch(lines[at])) { at++; }
            if (at++ == lines.Length) { return line; }
        }
        return null;
    }

    private static void WriteProgram(string path, string text)
    {
        File.WriteAllText(path, text);
        if (OperatingSystem.IsWindows()) { return; }
        File.SetUnixFileMode(path, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
    }

    [GeneratedRegex("^```(\\w*)$")]
    private static partial Regex FencePattern();

    [GeneratedRegex("^dotnet publish src/Slogger.Cli .*$", RegexOptions.Multiline)]
    private static partial Regex PublishPattern();
}
