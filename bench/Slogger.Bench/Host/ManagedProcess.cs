// One child process of the bench: started through a shell's `exec`, so that its pid is the program's own, its output
// goes to a file, and it can be pinned to a core. Stopped by pid, never by name.
using System.Diagnostics;

namespace Slogger.Bench.Host;

internal sealed class ManagedProcess
{
    private readonly Process _process;
    private bool _frozen;

    private ManagedProcess(string name, Process process, string logFile)
    {
        Name = name;
        _process = process;
        LogFile = logFile;
        Pid = process.Id;
    }

    public string Name { get; }

    public string LogFile { get; }

    public int Pid { get; }

    public bool HasExited => _process.HasExited;

    /// <summary>Starts a program; <paramref name="core"/> pins it (null: anywhere).</summary>
    public static ManagedProcess Start(string name, IReadOnlyList<string> command, string workingDirectory, int? core)
    {
        string logFile = Path.Combine(workingDirectory, name + ".log");
        var start = new ProcessStartInfo("/bin/sh") { WorkingDirectory = workingDirectory, UseShellExecute = false };
        start.ArgumentList.Add("-c");
        start.ArgumentList.Add("log=$1; shift; exec \"$@\" </dev/null >\"$log\" 2>&1");
        start.ArgumentList.Add("sh");
        start.ArgumentList.Add(logFile);
        foreach (string word in Pinned(command, core))
        {
            start.ArgumentList.Add(word);
        }

        start.Environment["DOTNET_CLI_TELEMETRY_OPTOUT"] = "1";
        ProcessRegistry.ThrowIfClosed();
        Process process = Process.Start(start) ?? throw new BenchException($"cannot start {name}");
        var child = new ManagedProcess(name, process, logFile);
        ProcessRegistry.Add(child);
        return child;
    }

    /// <summary>Runs a program to its end and returns what it wrote.</summary>
    public static (string Output, string Errors, int ExitCode) Run(IReadOnlyList<string> command, int? core, TimeSpan limit)
    {
        string[] words = [.. Pinned(command, core)];
        var start = new ProcessStartInfo(words[0])
        {
            UseShellExecute = false,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        foreach (string word in words.Skip(1))
        {
            start.ArgumentList.Add(word);
        }

        ProcessRegistry.ThrowIfClosed();
        using Process process = Process.Start(start) ?? throw new BenchException($"cannot start {words[0]}");
        ProcessRegistry.AddTransient(process.Id);
        try
        {
            Task<string> output = process.StandardOutput.ReadToEndAsync();
            Task<string> errors = process.StandardError.ReadToEndAsync();
            if (!process.WaitForExit(limit))
            {
                process.Kill();
                throw new BenchException($"no end after {limit.TotalSeconds:F0} s: {string.Join(' ', words)}");
            }

            process.WaitForExit();
            return (output.Result, errors.Result, process.ExitCode);
        }
        finally
        {
            ProcessRegistry.RemoveTransient(process.Id);
        }
    }

    /// <summary>Takes an idle contestant off the machine (SIGSTOP), so that its timers do not tick in other runs.</summary>
    public void Freeze()
    {
        if (!_frozen && !_process.HasExited)
        {
            _ = Native.Kill(Pid, Native.SigStop);
            _frozen = true;
        }
    }

    public void Thaw()
    {
        if (_frozen)
        {
            _ = Native.Kill(Pid, Native.SigCont);
            _frozen = false;
        }
    }

    public void Kill()
    {
        if (!_process.HasExited)
        {
            _ = Native.Kill(Pid, Native.SigKill);
            _process.WaitForExit(5000);
        }

        ProcessRegistry.Remove(this);
    }

    /// <summary>SIGTERM, and SIGKILL for one that has not ended in time.</summary>
    public void Stop(TimeSpan patience)
    {
        Thaw();
        if (!_process.HasExited)
        {
            _ = Native.Kill(Pid, Native.SigTerm);
            if (!_process.WaitForExit(patience))
            {
                _ = Native.Kill(Pid, Native.SigKill);
                _process.WaitForExit(5000);
            }
        }

        ProcessRegistry.Remove(this);
    }

    /// <summary>The end of what it wrote, for an error message.</summary>
    public string LogTail()
    {
        try
        {
            return string.Join('\n', File.ReadLines(LogFile).TakeLast(12));
        }
        catch (IOException e)
        {
            return $"({LogFile}: {e.Message})";
        }
    }

    private static IEnumerable<string> Pinned(IReadOnlyList<string> command, int? core) =>
        core is int c ? ["taskset", "-c", c.ToString(), .. command] : command;
}
