// What Linux tells about processes and the machine under /proc. Callers take differences of two readings.
// Everything is in CPU seconds or bytes; the kernel's clock tick (10 ms) is the resolution of CPU times.
namespace Slogger.Bench.Host;

/// <summary>CPU seconds of the whole machine since boot.</summary>
/// <param name="BusySeconds">User, nice, system and interrupt time over all cores.</param>
/// <param name="StolenSeconds">Time the hypervisor gave to others while we wanted to run.</param>
internal readonly record struct MachineCpu(double BusySeconds, double StolenSeconds);

internal static class ProcFs
{
    // USER_HZ is 100 on every Linux that .NET runs on.
    private const double TicksPerSecond = 100;

    /// <summary>User and system CPU seconds of a process with all its threads; 0 when it is gone.</summary>
    public static double CpuSeconds(int pid)
    {
        string[]? f = StatFields(pid);
        return f is null ? 0 : (double.Parse(f[11]) + double.Parse(f[12])) / TicksPerSecond;
    }

    /// <summary>CPU seconds of this process and of the children it has already reaped.</summary>
    public static double SelfAndReapedChildrenCpuSeconds()
    {
        string[] f = StatFields(Environment.ProcessId)!;
        return (double.Parse(f[11]) + double.Parse(f[12]) + double.Parse(f[13]) + double.Parse(f[14])) / TicksPerSecond;
    }

    /// <summary>Resident bytes of a process; 0 when it is gone.</summary>
    public static long ResidentBytes(int pid)
    {
        try
        {
            foreach (string line in File.ReadLines($"/proc/{pid}/status"))
            {
                if (line.StartsWith("VmRSS:", StringComparison.Ordinal))
                {
                    return long.Parse(line["VmRSS:".Length..].Replace("kB", "", StringComparison.Ordinal).Trim()) * 1024;
                }
            }
        }
        catch (IOException)
        {
            // The process ended between the question and the answer.
        }

        return 0;
    }

    /// <summary>The processes that a process has started and that run.</summary>
    public static int[] Children(int pid)
    {
        try
        {
            return [.. File.ReadAllText($"/proc/{pid}/task/{pid}/children").Split(' ', StringSplitOptions.RemoveEmptyEntries)
                .Select(int.Parse)];
        }
        catch (IOException)
        {
            return [];
        }
    }

    public static MachineCpu Machine()
    {
        string line = File.ReadLines("/proc/stat").First();
        double[] f = [.. line.Split(' ', StringSplitOptions.RemoveEmptyEntries).Skip(1).Take(8).Select(double.Parse)];
        return new MachineCpu((f[0] + f[1] + f[2] + f[5] + f[6]) / TicksPerSecond, f[7] / TicksPerSecond);
    }

    // The fields after the command's name, which may itself hold spaces and brackets; index 0 is the state.
    private static string[]? StatFields(int pid)
    {
        try
        {
            string text = File.ReadAllText($"/proc/{pid}/stat");
            return text[(text.LastIndexOf(')') + 2)..].Split(' ');
        }
        catch (IOException)
        {
            return null;
        }
    }
}
