// How many system calls processes make, counted by `perf stat`; nothing where that is not installed, or not allowed.
using System.ComponentModel;
using System.Diagnostics;
using System.Globalization;

namespace Slogger.Bench.Host;

internal sealed class SystemCalls : IDisposable
{
    private const int SigInt = 2;
    private readonly List<(int Process, Process Counter)> _counters = [];

    /// <summary>Begins to count.</summary>
    public SystemCalls(IEnumerable<int> processes)
    {
        foreach (int process in processes)
        {
            try
            {
                _counters.Add((process, Process.Start(new ProcessStartInfo("perf",
                    ["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", process.ToString(CultureInfo.InvariantCulture)])
                { RedirectStandardError = true, RedirectStandardOutput = true })!));
            }
            catch (Win32Exception)
            {
                return;
            }
        }
    }

    /// <summary>What was counted, by process.</summary>
    public IReadOnlyDictionary<int, long> End()
    {
        var counted = new Dictionary<int, long>();
        foreach ((int process, Process counter) in _counters)
        {
            _ = Native.Kill(counter.Id, SigInt);
            string said = counter.StandardError.ReadToEnd();
            counter.WaitForExit();
            if (said.Split('\n').FirstOrDefault(l => l.Contains("sys_enter", StringComparison.Ordinal)) is { } line
                && long.TryParse(line.Split(',')[0], NumberStyles.None, CultureInfo.InvariantCulture, out long calls))
            {
                counted[process] = calls;
            }
        }
        return counted;
    }

    public void Dispose()
    {
        foreach ((int _, Process counter) in _counters)
        {
            if (!counter.HasExited) { counter.Kill(); }
            counter.Dispose();
        }
    }
}
