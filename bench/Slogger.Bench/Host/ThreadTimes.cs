// What the threads of processes have run, by their names: the kernel's own nanoseconds, and how often each went to sleep.
using System.Globalization;

namespace Slogger.Bench.Host;

/// <summary>Of several processes together. Differences of two readings count; a thread that has ended between them is left out.</summary>
internal sealed class ThreadTimes
{
    private readonly Dictionary<(int Process, int Thread), (string Name, double CpuUs, long Wakes)> _threads = [];

    /// <summary>CPU microseconds.</summary>
    public double CpuUs => _threads.Values.Sum(t => t.CpuUs);

    /// <summary>How often a thread slept, and was woken.</summary>
    public long Wakes => _threads.Values.Sum(t => t.Wakes);

    /// <summary>CPU microseconds of threads with the same name.</summary>
    public IReadOnlyDictionary<string, double> CpuUsByName =>
        _threads.Values.GroupBy(t => t.Name).ToDictionary(g => g.Key, g => g.Sum(t => t.CpuUs));

    /// <summary>Reads them.</summary>
    public static ThreadTimes Of(IEnumerable<int> processes)
    {
        var read = new ThreadTimes();
        foreach (int process in processes)
        {
            try
            {
                foreach (string thread in Directory.GetDirectories($"/proc/{process}/task")) { read.Add(process, thread); }
            }
            catch (DirectoryNotFoundException)
            {
                // The process has ended.
            }
        }
        return read;
    }

    /// <summary>What has come since an earlier reading.</summary>
    public ThreadTimes Less(ThreadTimes earlier)
    {
        var since = new ThreadTimes();
        foreach ((var key, var now) in _threads)
        {
            (string Name, double CpuUs, long Wakes) before = earlier._threads.GetValueOrDefault(key);
            since._threads[key] = (now.Name, now.CpuUs - before.CpuUs, now.Wakes - before.Wakes);
        }
        return since;
    }

    private void Add(int process, string thread)
    {
        try
        {
            string name = File.ReadAllText(Path.Combine(thread, "comm")).Trim();
            double cpuUs = double.Parse(File.ReadAllText(Path.Combine(thread, "schedstat")).Split(' ')[0], CultureInfo.InvariantCulture) / 1e3;
            string slept = File.ReadLines(Path.Combine(thread, "status"))
                .First(l => l.StartsWith("voluntary_ctxt_switches:", StringComparison.Ordinal));
            _threads[(process, int.Parse(Path.GetFileName(thread), CultureInfo.InvariantCulture))] =
                (name, cpuUs, long.Parse(slept.Split(':')[1], CultureInfo.InvariantCulture));
        }
        catch (IOException)
        {
            // The thread has ended.
        }
    }
}
