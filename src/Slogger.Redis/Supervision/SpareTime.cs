// Has a process run in the time that the machine has to spare. The lowest priority is not enough: whoever is woken while another process
// has the processor waits for it, and where all processors are busy the slowest replies of clients take half as long again. So where no
// processor is free the process runs in turns, and stands still in between.
using System.Globalization;

namespace Slogger.Redis.Supervision;

/// <summary>Turns of a process that nobody waits for. Where the system does not tell how busy it is, there are none.</summary>
internal static class SpareTime
{
    // Long turns: each wakes up others at the wrong moment, and does so once.
    private static readonly TimeSpan s_turn = TimeSpan.FromMilliseconds(100), s_pause = TimeSpan.FromMilliseconds(1900);
    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(50);

    // By its priority it gets hardly any time where others only compute. Then it does not stand still as well.
    private static readonly TimeSpan s_usedMin = TimeSpan.FromMilliseconds(20);

    // Of one processor. While the process runs it has one itself, so somebody else finds one if this much of another is idle.
    private const double FreeBesideIt = 0.5, FreeWithoutIt = 1;

    /// <summary>Until it is given up; then the process runs again.</summary>
    /// <param name="processId">The process.</param>
    /// <param name="stop">Gives up.</param>
    public static async Task RunAsync(int processId, CancellationToken stop)
    {
        while (true)
        {
            var before = IdleTime.Now();
            TimeSpan had = ProcessorTimeOf(processId);
            if (!await PassAsync(s_turn, stop).ConfigureAwait(false)) { return; }
            bool hasUsed = ProcessorTimeOf(processId) - had >= s_usedMin;
            if (before is null || before.ProcessorsUntilNow() >= FreeBesideIt || !hasUsed) { continue; }
            ProcessWatch.Pause(processId);
            try
            {
                for (TimeSpan left = s_pause; left > TimeSpan.Zero; left -= s_look)
                {
                    before = IdleTime.Now();
                    if (!await PassAsync(s_look, stop).ConfigureAwait(false)) { return; }
                    if (before?.ProcessorsUntilNow() >= FreeWithoutIt) { break; }
                }
            }
            finally
            {
                ProcessWatch.Resume(processId);
            }
        }
    }

    private static async Task<bool> PassAsync(TimeSpan time, CancellationToken stop)
    {
        await Task.Delay(time, stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return !stop.IsCancellationRequested;
    }

    // Of its first thread, which does the work.
    private static TimeSpan ProcessorTimeOf(int processId)
    {
        try
        {
            string text = File.ReadAllText(string.Create(CultureInfo.InvariantCulture, $"/proc/{processId}/schedstat"));
            return TimeSpan.FromMicroseconds(long.Parse(text.Split(' ')[0], CultureInfo.InvariantCulture) / 1000);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return TimeSpan.Zero;
        }
    }

    // How long all processors together have been idle, and by which clock.
    private sealed record IdleTime(double Seconds, long At)
    {
        private const double TicksPerSecond = 100;   // USER_HZ

        public static IdleTime? Now()
        {
            try
            {
                // "cpu  user nice system idle iowait ..."
                string[] fields = File.ReadLines("/proc/stat").First().Split(' ', StringSplitOptions.RemoveEmptyEntries);
                return new((Ticks(fields[4]) + Ticks(fields[5])) / TicksPerSecond, Environment.TickCount64);
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException)
            {
                return null;
            }
        }

        public double ProcessorsUntilNow() => Now() is not { } now ? double.MaxValue
            : (now.Seconds - Seconds) * 1000 / Math.Max(1, now.At - At);

        private static double Ticks(string field) => double.Parse(field, CultureInfo.InvariantCulture);
    }
}
