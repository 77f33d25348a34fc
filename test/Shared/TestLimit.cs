// No test runs for ever. One that has run for longer than any test may ends its process, which then says its name: a test that hangs holds
// threads and servers that nobody could take from it.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Reflection;
using Slogger.TestSupport;
using Xunit.v3;

[assembly: TestLimit]

namespace Slogger.TestSupport;

/// <summary>Ends the process when one of its tests has run for too long.</summary>
[AttributeUsage(AttributeTargets.Assembly)]
internal sealed class TestLimitAttribute : BeforeAfterTestAttribute
{
    // Of long runs by hand, with options of their own, more.
    private const string Variable = "SLOGGER_TEST_LIMIT_SECONDS";
    private const int DefaultSeconds = 600, ExitCode = 3;
    private static readonly TimeSpan s_lookEvery = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(
        int.TryParse(Environment.GetEnvironmentVariable(Variable), NumberStyles.None, CultureInfo.InvariantCulture, out int given) ? given : DefaultSeconds);

    private static readonly ConcurrentDictionary<string, (string Name, long Since)> s_running = new();
    private static readonly Timer s_watch = new(static _ => Look(), null, s_lookEvery, s_lookEvery);

    /// <inheritdoc />
    public override void Before(MethodInfo methodUnderTest, IXunitTest test)
    {
        _ = s_watch;
        s_running[test.UniqueID] = (test.TestDisplayName, Stopwatch.GetTimestamp());
    }

    /// <inheritdoc />
    public override void After(MethodInfo methodUnderTest, IXunitTest test) => s_running.TryRemove(test.UniqueID, out _);

    private static void Look()
    {
        foreach ((string name, long since) in s_running.Values)
        {
            if (Stopwatch.GetElapsedTime(since) < s_limit) { continue; }
            Console.WriteLine($"{name} [FAIL]: it has run for {s_limit.TotalSeconds:0} s, the most that a test may ({Variable}). The process ends.");
            Console.Out.Flush();
            // Not Exit: it would wait for what hangs.
            Process.GetCurrentProcess().Kill();
        }
    }
}
