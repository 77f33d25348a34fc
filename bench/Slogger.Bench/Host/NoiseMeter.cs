// How much of the machine others use. Before a run: wait, bounded, until it is quiet. After a run: what was used by
// neither the contestants nor the load, plus what the hypervisor took; such a run can be repeated.
using System.Diagnostics;

namespace Slogger.Bench.Host;

internal sealed class NoiseMeter(double limitCores, TimeSpan patience)
{
    /// <summary>A run with more than this many cores of foreign work counts as noisy.</summary>
    public double LimitCores { get; } = limitCores;

    /// <summary>Waits until less than the limit is in use; false when patience ran out.</summary>
    public bool WaitForQuiet()
    {
        long start = Stopwatch.GetTimestamp();
        while (true)
        {
            MachineCpu before = ProcFs.Machine();
            long t0 = Stopwatch.GetTimestamp();
            Thread.Sleep(150);
            MachineCpu after = ProcFs.Machine();
            double seconds = Stopwatch.GetElapsedTime(t0).TotalSeconds;
            double cores = (after.BusySeconds - before.BusySeconds + after.StolenSeconds - before.StolenSeconds) / seconds;
            // One tick in 150 ms is 0.07 cores: do not ask for less than the meter can show.
            if (cores <= Math.Max(LimitCores, 0.2))
            {
                return true;
            }

            if (Stopwatch.GetElapsedTime(start) > patience)
            {
                return false;
            }

            Thread.Sleep(250);
        }
    }
}
