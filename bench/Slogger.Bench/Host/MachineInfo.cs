// The machine and the versions under test: the heading of every report.
using System.Runtime.InteropServices;

namespace Slogger.Bench.Host;

/// <summary>What a figure must be read with.</summary>
internal sealed record MachineInfo(
    string Date, string Cpu, int Cores, string MemoryGb, string Kernel, IReadOnlyDictionary<string, string> Versions)
{
    public static MachineInfo Read(string proxyPath)
    {
        string cpu = FirstValue("/proc/cpuinfo", "model name") ?? RuntimeInformation.ProcessArchitecture.ToString();
        string memoryKb = (FirstValue("/proc/meminfo", "MemTotal") ?? "0 kB").Split(' ')[0];
        var versions = new SortedDictionary<string, string>(StringComparer.Ordinal)
        {
            ["redis-server"] = FirstLine("redis-server", "--version"),
            ["haproxy"] = FirstLine("haproxy", "-v"),
            ["nutcracker"] = FirstLine("nutcracker", "--version"),
            [".NET"] = RuntimeInformation.FrameworkDescription,
            ["slogger"] = File.Exists(proxyPath) ? $"built {File.GetLastWriteTimeUtc(proxyPath):yyyy-MM-dd HH:mm} UTC" : "not built",
            ["source"] = FirstLine("git", "rev-parse", "--short", "HEAD"),
        };
        return new MachineInfo(
            DateTime.UtcNow.ToString("yyyy-MM-dd HH:mm 'UTC'"), cpu, Environment.ProcessorCount,
            (long.Parse(memoryKb) / 1048576.0).ToString("F0"), File.ReadAllText("/proc/sys/kernel/osrelease").Trim(), versions);
    }

    private static string? FirstValue(string file, string key) =>
        File.ReadLines(file).FirstOrDefault(l => l.StartsWith(key, StringComparison.Ordinal))?.Split(':', 2)[1].Trim();

    private static string FirstLine(params string[] command)
    {
        try
        {
            (string output, string errors, _) = ManagedProcess.Run(command, null, TimeSpan.FromSeconds(10));
            string line = (output + errors).Split('\n')[0].Trim();
            // "Redis server v=7.0.15 sha=... malloc=..." and "HAProxy version 2.6.12-... date - link" say too much.
            int cut = line.IndexOf(" sha=", StringComparison.Ordinal);
            line = cut > 0 ? line[..cut] : line;
            return line.StartsWith("HAProxy", StringComparison.Ordinal) ? string.Join(' ', line.Split(' ').Take(3)) : line;
        }
        catch (System.ComponentModel.Win32Exception)
        {
            return "not installed";
        }
    }
}
