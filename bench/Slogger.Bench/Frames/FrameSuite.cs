// What the wire between sites costs: frames in this process, of three sizes, each answered before the next and one after the other. Others
// on the machine change how long a frame takes, but not what it allocates, and hardly its CPU time.
using Slogger.Bench.Report;

namespace Slogger.Bench.Frames;

internal sealed class FrameSuite(BenchOptions options, Results results)
{
    private const string Suite = "grpc";

    // What a frame allocated that was answered, with the wire that was written by hand and that stock gRPC has followed.
    private static readonly Dictionary<int, double> s_goals = new() { [200] = 2_638, [64 << 10] = 3_487, [256 << 10] = 5_329 };

    public void Run() => RunAsync().GetAwaiter().GetResult();

    private async Task RunAsync()
    {
        int rounds = options.Rounds ?? 5;
        FrameLoad load = await FrameLoad.StartAsync().ConfigureAwait(false);
        await using (load.ConfigureAwait(false))
        {
            results.Add(Figure.Information(Suite, "start of the server, CPU", load.StartCpu.TotalMilliseconds, "ms", "once in a process"));
            results.Add(Figure.Information(Suite, "first frame until it is answered, CPU",
                load.FirstCpu.TotalMilliseconds, "ms", "once in a process"));
            List<string> lines = ["| frame | | allocated bytes | CPU us | frames/s | MB/s |", "| ---: | --- | ---: | ---: | ---: | ---: |"];
            foreach (bool isOneWay in (bool[])[false, true])
            {
                foreach (int size in options.Sizes ?? [200, 64 << 10, 256 << 10])
                {
                    lines.Add(await MeasureAsync(load, size, isOneWay, rounds).ConfigureAwait(false));
                }
            }
            results.AddTable($"{Suite}: cost of a frame, both sides together, medians of {rounds} rounds", lines);
        }
    }

    private async Task<string> MeasureAsync(FrameLoad load, int size, bool isOneWay, int rounds)
    {
        int frames = FrameLoad.FramesOf(size, isOneWay);
        // The first two: the code is compiled anew meanwhile, and pools are filled.
        for (int i = 0; i < 2; i++) { await load.MeasureAsync(size, frames, isOneWay).ConfigureAwait(false); }
        var costs = new List<FrameCost>();
        for (int i = 0; i < rounds; i++) { costs.Add(await load.MeasureAsync(size, frames, isOneWay).ConfigureAwait(false)); }
        double bytes = Statistics.Median(costs.Select(c => c.AllocatedBytes)), rate = Statistics.Median(costs.Select(c => c.PerSecond));
        string name = $"allocated, {size} B, {Way(isOneWay)}";
        string range = $"{costs.Min(c => c.AllocatedBytes):0} to {costs.Max(c => c.AllocatedBytes):0}";
        results.Add(!isOneWay && s_goals.TryGetValue(size, out double goal)
            ? Figure.AtMost(Suite, name, bytes, "bytes", goal, range) : Figure.Information(Suite, name, bytes, "bytes", range));
        double cpuUs = Statistics.Median(costs.Select(c => c.CpuUs));
        return $"| {size} B | {Way(isOneWay)} | {bytes:0} | {cpuUs:0.0} | {rate:0} | {rate * size / 1e6:0.0} |";
    }

    private static string Way(bool isOneWay) => isOneWay ? "one way" : "answered";
}
