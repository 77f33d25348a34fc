// Each suite gets an empty directory of its own under the run's.
using Slogger.Bench.Host;

namespace Slogger.Bench.Suites;

internal static class SuiteDirectory
{
    private static readonly HashSet<string> s_made = [];

    public static string Create(BenchOptions options, string suite)
    {
        // The pid keeps two runs apart, and nothing that was there before is ever deleted.
        string directory = Path.Combine(Path.GetFullPath(options.Directory), $"slogger-bench-{Environment.ProcessId}-{suite}");
        Directory.CreateDirectory(directory);
        lock (s_made)
        {
            s_made.Add(directory);
        }

        return directory;
    }

    /// <summary>At the end of the run, when its own processes have ended. Nothing works there any more: a redis-server outlives the proxy
    /// that has started it, and the bench may have been stopped before it knew of that one.</summary>
    public static void EndWhatWorksThere()
    {
        string[] made;
        lock (s_made) { made = [.. s_made]; }
        foreach (string process in Directory.EnumerateDirectories("/proc").Where(p => char.IsAsciiDigit(Path.GetFileName(p)[0])))
        {
            try
            {
                if (new DirectoryInfo(Path.Combine(process, "cwd")).LinkTarget is { } place
                    && made.Any(d => place == d || place.StartsWith(d + "/", StringComparison.Ordinal)))
                {
                    _ = Native.Kill(int.Parse(Path.GetFileName(process)), Native.SigKill);
                }
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException)
            {
                // It has ended, or is somebody else's.
            }
        }
    }

    /// <summary>At the end of the run.</summary>
    public static void DeleteAll(BenchOptions options)
    {
        lock (s_made)
        {
            foreach (string directory in options.Keep ? [] : s_made.Where(Directory.Exists))
            {
                try
                {
                    Directory.Delete(directory, recursive: true);
                }
                catch (IOException e)
                {
                    // A file of a process that is just ending: nothing that a result depends on.
                    Console.Error.WriteLine($"{directory} was not deleted: {e.Message}");
                }
            }
        }
    }
}
