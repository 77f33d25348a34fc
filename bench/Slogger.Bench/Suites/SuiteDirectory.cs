// Each suite gets an empty directory of its own under the run's.
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
