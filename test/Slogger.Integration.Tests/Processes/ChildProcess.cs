// A process of the test's own: started with its output captured, killed by its id only. Whoever fails prints Tail().
using System.Diagnostics;
using System.Runtime.InteropServices;

namespace Slogger.Integration.Tests.Processes;

internal sealed partial class ChildProcess : IDisposable
{
    private const int LinesKept = 4000;
    private const int SigTerm = 15, SigCont = 18, SigStop = 19;

    private static readonly TimeSpan SuspendMax = TimeSpan.FromSeconds(10);

    private readonly Process _process;
    private readonly Queue<string> _lines = new();
    private readonly TaskCompletionSource _exited = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly List<(Func<string, bool> Test, TaskCompletionSource<string> Seen)> _watchers = [];

    private ChildProcess(string name, Process process)
    {
        Name = name;
        _process = process;
    }

    public string Name { get; }

    public int Id { get; private set; }

    public bool HasExited
    {
        get
        {
            try
            {
                return _process.HasExited;
            }
            catch (InvalidOperationException)
            {
                // Disposed of by another thread, which has seen to its end.
                return true;
            }
        }
    }

    /// <summary>The exit code; 128 + signal if killed. Only after the exit.</summary>
    public int ExitCode => _process.ExitCode;

    /// <summary>Completes when the process has gone (not when its output has ended: a grandchild may hold the pipes).</summary>
    public Task Exited => _exited.Task;

    public static ChildProcess Start(string name, string file, IEnumerable<string> arguments,
        IReadOnlyDictionary<string, string>? environment = null, bool hasInput = false)
    {
        var info = new ProcessStartInfo(file, arguments) { RedirectStandardError = true, RedirectStandardOutput = true,
            RedirectStandardInput = hasInput };
        foreach (string inherited in info.Environment.Keys.Where(k => k.StartsWith("SLOGGER_", StringComparison.Ordinal)).ToArray())
        {
            info.Environment.Remove(inherited);
        }

        foreach (var (key, value) in environment ?? new Dictionary<string, string>())
        {
            info.Environment[key] = value;
        }

        var process = new Process { StartInfo = info, EnableRaisingEvents = true };
        var child = new ChildProcess(name, process);
        process.Exited += (_, _) => child._exited.TrySetResult();
        process.OutputDataReceived += (_, e) => child.OnLine(e.Data);
        process.ErrorDataReceived += (_, e) => child.OnLine(e.Data);
        process.Start();
        child.Id = process.Id;
        process.BeginErrorReadLine();
        process.BeginOutputReadLine();
        return child;
    }

    /// <summary>Runs a tool to its end and returns its exit code and output.</summary>
    public static async Task<(int ExitCode, string Output)> RunAsync(string file, IEnumerable<string> arguments, TimeSpan? limit = null)
    {
        using var child = Start(Path.GetFileName(file), file, arguments);
        if (!await child.WaitForExitAsync(limit ?? TimeSpan.FromSeconds(60)))
        {
            child.KillHard();
            throw new TimeoutException($"{file} did not end in time\n{child.Tail()}");
        }

        await child.LastWordsAsync();
        return (child.ExitCode, child.Tail());
    }

    /// <summary>Waits for the output's end after the process's, since the last lines may still be on their way; not for ever: a process
    /// that it has left running may hold the pipes open.</summary>
    public Task LastWordsAsync() => Task.WhenAny(_process.WaitForExitAsync(), Task.Delay(TimeSpan.FromSeconds(2)));

    /// <summary>Writes a line to its input, which it was given.</summary>
    public async Task WriteLineAsync(string line)
    {
        await _process.StandardInput.WriteLineAsync(line);
        await _process.StandardInput.FlushAsync();
    }

    /// <summary>Waits for a line of output (also one already seen) that satisfies the test.</summary>
    /// <exception cref="InvalidOperationException">The process ended first.</exception>
    public async Task<string> WaitForLineAsync(Func<string, bool> test, TimeSpan limit)
    {
        var seen = new TaskCompletionSource<string>(TaskCreationOptions.RunContinuationsAsynchronously);
        lock (_lines)
        {
            if (_lines.FirstOrDefault(test) is { } already)
            {
                return already;
            }

            _watchers.Add((test, seen));
        }

        var first = await Task.WhenAny(seen.Task, Exited, Task.Delay(limit));
        if (first == seen.Task)
        {
            return await seen.Task;
        }

        string why = first == Exited ? $"ended with exit code {ExitCode}" : $"said nothing expected in {limit.TotalSeconds:0} s";
        throw new InvalidOperationException($"{Name} {why}\n{Tail()}");
    }

    public async Task<bool> WaitForExitAsync(TimeSpan limit) => await Task.WhenAny(Exited, Task.Delay(limit)) == Exited;

    /// <summary>SIGKILL, and waits until the process is gone.</summary>
    public void KillHard()
    {
        try
        {
            _process.Kill();
        }
        catch (InvalidOperationException)
        {
            // Already gone.
        }

        _exited.Task.Wait(TimeSpan.FromSeconds(10));
    }

    public void Terminate() => Signal(Id, SigTerm);

    /// <summary>Sends a signal to a process by id; false if there is none.</summary>
    public static bool Signal(int processId, int signal) => Kill(processId, signal) == 0;

    /// <summary>Suspends a process. On a busy machine some of its threads go on for a while behind the signal, and answer what they are
    /// asked: this returns when none of them runs any more.</summary>
    public static void Suspend(int processId)
    {
        long began = Stopwatch.GetTimestamp();
        do
        {
            if (!Signal(processId, SigStop) || Stopwatch.GetElapsedTime(began) > SuspendMax)
            {
                throw new InvalidOperationException($"process {processId} could not be suspended");
            }

            Thread.Sleep(1);
        }
        while (!IsStopped(processId));
    }

    /// <summary>Lets a suspended process go on.</summary>
    public static void Resume(int processId) => Signal(processId, SigCont);

    private static bool IsStopped(int processId)
    {
        try
        {
            // The state stands behind the name, which is in parentheses.
            return Directory.GetDirectories($"/proc/{processId}/task").Select(t => File.ReadAllText(Path.Combine(t, "stat")))
                .All(s => s[s.LastIndexOf(')') + 2] == 'T');
        }
        catch (IOException)
        {
            // A thread that has just ended.
            return false;
        }
    }

    /// <summary>The last lines of output.</summary>
    public string Tail()
    {
        lock (_lines)
        {
            return $"--- {Name} (pid {Id}) ---\n" + string.Join('\n', _lines) + "\n";
        }
    }

    public void Dispose()
    {
        KillHard();
        _process.Dispose();
    }

    private void OnLine(string? line)
    {
        if (line is null)
        {
            return;
        }

        lock (_lines)
        {
            _lines.Enqueue(line);
            if (_lines.Count > LinesKept)
            {
                _lines.Dequeue();
            }

            foreach (var (_, seen) in _watchers.Where(w => w.Test(line)))
            {
                seen.TrySetResult(line);
            }
        }
    }

    [LibraryImport("libc", EntryPoint = "kill", SetLastError = true)]
    private static partial int Kill(int processId, int signal);
}
