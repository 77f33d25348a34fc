// Measures what a piece of work cost whom: CPU of proxy and Redis, and of everybody who has no part in it. Repeats
// work that was disturbed, within bounds.
using System.Diagnostics;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;

namespace Slogger.Bench.Suites;

/// <param name="ProxyCpuSeconds">Of the proxy or the drain; 0 without one.</param>
/// <param name="NoiseCores">Cores used by others, what the hypervisor took included.</param>
internal readonly record struct RunCost(double Seconds, double ProxyCpuSeconds, double RedisCpuSeconds, double NoiseCores);

internal sealed class RunMeter(BenchOptions options)
{
    private readonly NoiseMeter _noise = new(options.NoiseCores, options.QuietPatience);
    private bool _saidNeverQuiet;

    /// <summary>Runs <paramref name="work"/> on a quiet machine, again when it was disturbed; the least disturbed result counts.</summary>
    public (T Result, RunCost Cost, bool Noisy) Measure<T>(RunningCase on, Func<T> work)
    {
        (T Result, RunCost Cost)? best = null;
        for (int attempt = 0; attempt <= options.Retries; attempt++)
        {
            if (!_noise.WaitForQuiet() && !_saidNeverQuiet)
            {
                _saidNeverQuiet = true;
                Console.WriteLine($"  (the machine does not become quiet within {options.QuietPatience.TotalSeconds:0} s: going on, "
                    + "figures are marked)");
            }

            (T result, RunCost cost) = Once(on, work);
            if (best is null || cost.NoiseCores < best.Value.Cost.NoiseCores)
            {
                best = (result, cost);
            }

            if (cost.NoiseCores <= options.NoiseCores)
            {
                break;
            }
        }

        return (best!.Value.Result, best.Value.Cost, best.Value.Cost.NoiseCores > options.NoiseCores);
    }

    private static (T Result, RunCost Cost) Once<T>(RunningCase on, Func<T> work)
    {
        int proxyPid = on.Proxy?.Pid ?? 0;
        double proxyBefore = proxyPid == 0 ? 0 : ProcFs.CpuSeconds(proxyPid);
        double redisBefore = ProcFs.CpuSeconds(on.Redis.Pid);
        double oursBefore = ProcFs.SelfAndReapedChildrenCpuSeconds();
        MachineCpu machineBefore = ProcFs.Machine();
        long start = Stopwatch.GetTimestamp();
        T result = work();
        double seconds = Stopwatch.GetElapsedTime(start).TotalSeconds;
        MachineCpu machine = ProcFs.Machine();
        double ours = ProcFs.SelfAndReapedChildrenCpuSeconds() - oursBefore;
        double redis = ProcFs.CpuSeconds(on.Redis.Pid) - redisBefore;
        double proxy = proxyPid == 0 ? 0 : ProcFs.CpuSeconds(proxyPid) - proxyBefore;
        if (on.Failure is { } failure)
        {
            throw new BenchException(failure);
        }

        double foreign = machine.BusySeconds - machineBefore.BusySeconds - ours - redis - proxy
            + machine.StolenSeconds - machineBefore.StolenSeconds;
        return (result, new RunCost(seconds, proxy, redis, Math.Max(0, foreign / seconds)));
    }
}
