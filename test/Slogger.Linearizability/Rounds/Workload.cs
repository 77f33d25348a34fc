// Clients that read and write registers and lists, and note what they did and heard. Each finds for itself who leads. A client that has
// no answer in time gives its connection up, and goes on elsewhere: what it had asked for may have been done.
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Rounds;

internal sealed class Workload
{
    private const int Registers = 5, ListsAtATime = 4;
    // Lists are read whole, so they are given up before they are long.
    private static readonly TimeSpan s_listsLast = TimeSpan.FromSeconds(1);

    private readonly ConcurrentQueue<Operation> _history = new();
    private readonly long _start = Stopwatch.GetTimestamp();
    private long _lastValue;
    private int _lastId;
    private long _acknowledgedUs;

    /// <summary>When the latest operation began that was a write and was acknowledged.</summary>
    public long AcknowledgedUs => Volatile.Read(ref _acknowledgedUs);

    /// <summary>What has been done so far.</summary>
    public IReadOnlyList<Operation> History => [.. _history];

    /// <summary>Microseconds since the clients began.</summary>
    public long NowUs => (long)Stopwatch.GetElapsedTime(_start).TotalMicroseconds;

    /// <summary>One client, until it is told to stop.</summary>
    public async Task RunAsync(WorkloadClient client, Random random, CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            if (await client.TryConnectAsync()) { await OneAsync(client, random); }
            await Task.Delay(random.Next(8), CancellationToken.None);
        }
    }

    /// <summary>Reads everything of a client's shard once; false if that could not be done in time.</summary>
    public async Task<bool> ReadAllAsync(WorkloadClient client, TimeSpan within)
    {
        long began = Stopwatch.GetTimestamp();
        var keys = _history.SelectMany(o => o.Steps).Where(s => s.Key.StartsWith(client.Keys, StringComparison.Ordinal))
            .Select(s => (s.Key, s.IsOfList)).ToHashSet();
        foreach (var (key, isOfList) in keys)
        {
            Operation? read = null;
            while (read is not { Outcome: Outcome.Done })
            {
                if (Stopwatch.GetElapsedTime(began) > within) { return false; }
                if (!await client.TryConnectAsync())
                {
                    await Task.Delay(20);
                    continue;
                }

                read = await DoAsync(client, isOfList ? Step.ReadList(key, null) : Step.Read(key, null));
            }
        }

        return true;
    }

    private async Task OneAsync(WorkloadClient client, Random random)
    {
        string register = client.Keys + "r" + random.Next(Registers).ToString(CultureInfo.InvariantCulture);
        switch (random.Next(20))
        {
            case < 3:
                await DoAsync(client, Step.Read(register, null));
                break;
            case < 6:
                await DoAsync(client, Step.Write(register, NewValue()));
                break;
            case < 10:
                var read = await DoAsync(client, Step.Read(register, null));
                if (read.Outcome != Outcome.Done || !client.IsConnected) { break; }
                await DoAsync(client, Step.CompareAndSet(register, read.Step.Value, NewValue(), null));
                break;
            case < 13:
                await DoAsync(client, Step.Append(List(client, random), NewValue()));
                break;
            case < 16:
                await DoAsync(client, Step.ReadList(List(client, random), null));
                break;
            default:
                await DoAsync(client, [.. Enumerable.Range(0, random.Next(2, 4)).Select(_ => random.Next(5) < 3
                    ? Step.Append(List(client, random), NewValue()) : Step.ReadList(List(client, random), null))]);
                break;
        }
    }

    // Sometimes one that nobody appends to any more.
    private string List(WorkloadClient client, Random random)
    {
        int now = (int)(NowUs / s_listsLast.TotalMicroseconds);
        int age = random.Next(10) == 0 ? random.Next(now + 1) : now;
        return string.Create(CultureInfo.InvariantCulture, $"{client.Keys}l{age}.{random.Next(ListsAtATime)}");
    }

    private long NewValue() => Interlocked.Increment(ref _lastValue);

    private async Task<Operation> DoAsync(WorkloadClient client, params Step[] steps)
    {
        long invoked = NowUs;
        var (outcome, done) = await client.DoAsync(steps);
        var operation = new Operation(Interlocked.Increment(ref _lastId), client.Number, done, outcome, invoked, NowUs);
        _history.Enqueue(operation);
        if (operation.IsAcknowledgedWrite) { Volatile.Write(ref _acknowledgedUs, invoked); }
        return operation;
    }
}
