// One round: a system starts, eight clients work, one or two faults come and are mended, everything is read once more, and the checkers
// look at what the clients heard.
using System.Globalization;
using Slogger.Linearizability.Checking;
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Rounds;

/// <summary>How a round went.</summary>
/// <param name="Faults">What was done to the system, in words.</param>
/// <param name="History">What clients did and heard.</param>
/// <param name="Found">What is wrong with it.</param>
/// <param name="IsServed">Whether all could be read at the end.</param>
/// <param name="ServedAfter">From the end of the last fault until a write was acknowledged that began behind it; null: none.</param>
/// <param name="Logs">What the processes have said.</param>
internal sealed record RoundResult(string Faults, IReadOnlyList<Operation> History, IReadOnlyList<Anomaly> Found, bool IsServed,
    TimeSpan? ServedAfter, string Logs);

internal static class Round
{
    private const int Clients = 8;
    private static readonly TimeSpan s_lookEvery = TimeSpan.FromMilliseconds(10);
    private static readonly TimeSpan s_servedWithin = TimeSpan.FromSeconds(30);

    /// <param name="system">Not started yet.</param>
    /// <param name="network">With as many nodes.</param>
    /// <param name="seed">Chooses operations, faults and their moments.</param>
    /// <param name="faultsWithin">All faults are mended by then.</param>
    /// <param name="calm">How long clients work on behind that.</param>
    public static async Task<RoundResult> RunAsync(NodeSystem system, Network network, int seed, TimeSpan faultsWithin, TimeSpan calm)
    {
        var random = new Random(seed);
        await system.StartAsync();
        var workload = new Workload();
        using var stop = new CancellationTokenSource();
        WorkloadClient[] clients = [.. Enumerable.Range(0, Clients)
            .Select(c => ClientOf(system, c))];
        Task[] working = [.. clients.Select(c => (Client: c, Random: new Random(random.Next())))
            .Select(c => Task.Run(() => workload.RunAsync(c.Client, c.Random, stop.Token)))];
        var (texts, mendedUs) = await PlayAsync(Fault.Choose(system, random, faultsWithin), system, network, workload);
        // Served again, too: so that it is known when.
        long endUs = (long)(faultsWithin + calm).TotalMicroseconds;
        while (workload.NowUs < endUs
            || (workload.AcknowledgedUs < mendedUs && workload.NowUs < mendedUs + (long)s_servedWithin.TotalMicroseconds))
        {
            await Task.Delay(s_lookEvery);
        }

        await stop.CancelAsync();
        await Task.WhenAll(working);
        foreach (var client in clients) { client.Dispose(); }
        bool isServed = true;
        for (int shard = 0; shard < system.Shards.Count; shard++)
        {
            using var last = ClientOf(system, Clients + shard);
            isServed &= await workload.ReadAllAsync(last, s_servedWithin);
        }

        var history = workload.History;
        long served = history.Where(o => o.IsAcknowledgedWrite && o.InvokedUs >= mendedUs).Select(o => o.ReturnedUs)
            .DefaultIfEmpty(-1).Min();
        return new(string.Join(", ", texts), history, HistoryChecker.Check(history), isServed,
            served < 0 ? null : TimeSpan.FromMicroseconds(served - mendedUs), system.Logs());
    }

    private static WorkloadClient ClientOf(NodeSystem system, int number) =>
        new(number, system.FinderOf(number), system.Shards[number % system.Shards.Count], system.Confirmation,
            // Of each shard half of the clients.
            system.HasVersions && number / system.Shards.Count % 2 == 1);

    // Begins and mends each fault in its time. A fault that was late lasts its whole length.
    private static async Task<(List<string> Texts, long MendedUs)> PlayAsync(IReadOnlyList<Fault> faults, NodeSystem system,
        Network network, Workload workload)
    {
        List<string> texts = [];
        var waiting = faults.OrderBy(f => f.Begins).ToList();
        List<(long DueUs, Func<Task> Mend)> begun = [];
        long mendedUs = 0;
        while (waiting.Count + begun.Count > 0)
        {
            if (waiting.Count > 0 && workload.NowUs >= waiting[0].Begins.TotalMicroseconds)
            {
                var (text, mend) = await waiting[0].BeginAsync(system, network);
                texts.Add(string.Create(CultureInfo.InvariantCulture, $"at {waiting[0].Begins.TotalSeconds:0.0} s {text}"));
                begun.Add((workload.NowUs + (long)waiting[0].Lasts.TotalMicroseconds, mend));
                waiting.RemoveAt(0);
            }

            foreach (var due in begun.Where(b => workload.NowUs >= b.DueUs).ToArray())
            {
                await due.Mend();
                mendedUs = workload.NowUs;
                begun.Remove(due);
            }

            await Task.Delay(s_lookEvery);
        }

        return (texts, mendedUs);
    }
}
