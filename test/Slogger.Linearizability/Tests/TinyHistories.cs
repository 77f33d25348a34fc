// A few operations with results that are right, nearly right, or anything: small enough for every order to be tried.
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Tests;

internal static class TinyHistories
{
    public static IReadOnlyList<Operation> Registers(int seed)
    {
        var random = new Random(seed);
        var right = SimulatedStore.Registers(seed, new(Clients: 3, Operations: random.Next(4, 8), Keys: 1, Unknown: 0.2, Failed: 0.05));
        long?[] values = [null, .. right.Where(o => o.Step.Kind != StepKind.Read).Select(o => o.Step.Value)];
        return
        [
            .. right.Select(o => o.Outcome != Outcome.Done || random.Next(4) > 0 ? o : o.Step.Kind switch
            {
                StepKind.Read => o with { Steps = [o.Step with { Value = values[random.Next(values.Length)] }] },
                StepKind.CompareAndSet => o with
                {
                    Steps = [o.Step with { Expected = values[random.Next(values.Length)], Succeeded = random.Next(2) == 0 }],
                },
                _ => o,
            }),
        ];
    }

    public static IReadOnlyList<Operation> Lists(int seed)
    {
        var random = new Random(seed);
        var right = SimulatedStore.Lists(seed, new(Clients: 3, Operations: random.Next(4, 8), Keys: 2, Unknown: 0.2, Failed: 0.05));
        return
        [
            .. right.Select(o => o.Outcome != Outcome.Done || random.Next(3) > 0 ? o : o with
            {
                Steps = [.. o.Steps.Select(s => s.List is { } list ? s with { List = Changed(list, right, s.Key, random) } : s)],
            }),
        ];
    }

    private static long[] Changed(long[] list, IReadOnlyList<Operation> history, string key, Random random)
    {
        long[] all = [.. history.SelectMany(o => o.Steps).Where(s => s.Kind == StepKind.Append && s.Key == key)
            .Select(s => s.Value!.Value)];
        return random.Next(4) switch
        {
            0 => list[..random.Next(list.Length + 1)],
            1 => [.. list, .. all.Except(list).Take(1)],
            2 => [.. list.Where(_ => random.Next(4) > 0)],
            _ => [.. list.OrderBy(_ => random.Next())],
        };
    }
}
