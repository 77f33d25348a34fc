// No test runs for ever. The process ends, and says which test was running, when a test has run for longer than any test may, or when
// nothing has begun or ended for as long: then a set-up, a disposal or a fixture hangs. A test that hangs holds threads and servers
// that nobody could take from it, so nothing less than the end of the process helps.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Reflection;
using Slogger.TestSupport;
using Xunit.v3;

[assembly: TestLimit]
[assembly: AssemblyFixture(typeof(TestLimitAttribute.Watch))]

namespace Slogger.TestSupport;

/// <summary>Ends the process when one of its tests has run for too long.</summary>
[AttributeUsage(AttributeTargets.Assembly)]
internal sealed class TestLimitAttribute : BeforeAfterTestAttribute
{
    /// <summary>The variable with the limit, in seconds. Long runs by hand have options of their own, and need more.</summary>
    public const string Variable = "SLOGGER_TEST_LIMIT_SECONDS";

    private const int DefaultSeconds = 600;
    private static readonly TimeSpan s_lookEvery = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(
        int.TryParse(Environment.GetEnvironmentVariable(Variable), NumberStyles.None, CultureInfo.InvariantCulture, out int given)
            ? given : DefaultSeconds);

    private static readonly ConcurrentDictionary<string, (string Name, long Since)> s_running = new();
    private static long s_lastEvent = Stopwatch.GetTimestamp();
    private static string s_lastName = "the first test";

    /// <inheritdoc />
    public override void Before(MethodInfo methodUnderTest, IXunitTest test)
    {
        s_running[test.UniqueID] = (test.TestDisplayName, Stopwatch.GetTimestamp());
        Note($"the beginning of {test.TestDisplayName}");
    }

    /// <inheritdoc />
    public override void After(MethodInfo methodUnderTest, IXunitTest test)
    {
        s_running.TryRemove(test.UniqueID, out _);
        Note($"the end of {test.TestDisplayName}");
    }

    private static void Note(string what)
    {
        Volatile.Write(ref s_lastName, what);
        Volatile.Write(ref s_lastEvent, Stopwatch.GetTimestamp());
    }

    private static void Look()
    {
        foreach ((string name, long since) in s_running.Values)
        {
            if (Stopwatch.GetElapsedTime(since) >= s_limit) { End($"{name} [FAIL]: it has run for {s_limit.TotalSeconds:0} s"); }
        }

        if (Stopwatch.GetElapsedTime(Volatile.Read(ref s_lastEvent)) < s_limit) { return; }
        End($"a set-up, a disposal or a fixture [FAIL]: for {s_limit.TotalSeconds:0} s nothing has come behind "
            + $"{Volatile.Read(ref s_lastName)}");
    }

    private static void End(string why)
    {
        Console.WriteLine($"{why}, the most that a test may ({Variable}). The process ends.");
        Console.Out.Flush();
        // Not Exit: it would wait for what hangs.
        Process.GetCurrentProcess().Kill();
    }

    /// <summary>Looks at the limits from before the first test until behind the last one.</summary>
    public sealed class Watch : IDisposable
    {
        private readonly Timer _timer;

        /// <summary>Begins to look.</summary>
        public Watch()
        {
            Note("the start");
            _timer = new(static _ => Look(), null, s_lookEvery, s_lookEvery);
        }

        /// <inheritdoc />
        public void Dispose() => _timer.Dispose();
    }
}
