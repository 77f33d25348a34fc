// Right histories by seed: a store that does each operation at one moment between its invocation and its return, clients that wait for
// each answer, and answers that are lost. What is lost may be done much later, or never.
using Slogger.Linearizability.Histories;

namespace Slogger.Linearizability.Tests;

/// <summary>How large, and how unlucky.</summary>
internal sealed record SimulatedSize(int Clients = 5, int Operations = 120, int Keys = 2, double Unknown = 0.08, double Failed = 0.04);

internal sealed class SimulatedStore
{
    private readonly Random _random;
    private readonly SimulatedSize _size;
    private readonly bool _isOfLists;
    private readonly PriorityQueue<Action, (long, int)> _events = new();
    private readonly Dictionary<string, long> _registers = [];
    private readonly Dictionary<string, List<long>> _lists = [];
    private readonly List<Operation> _history = [];
    private readonly Dictionary<(int Client, string Key), long?> _known = [];
    private int _begun, _planned;
    private long _nextValue;

    private SimulatedStore(int seed, bool isOfLists, SimulatedSize size)
    {
        _random = new(seed);
        _isOfLists = isOfLists;
        _size = size;
    }

    public static IReadOnlyList<Operation> Registers(int seed, SimulatedSize? size = null) =>
        new SimulatedStore(seed, false, size ?? new()).Run();

    public static IReadOnlyList<Operation> Lists(int seed, SimulatedSize? size = null) =>
        new SimulatedStore(seed, true, size ?? new()).Run();

    private IReadOnlyList<Operation> Run()
    {
        for (int i = 0; i < _size.Clients; i++)
        {
            (int client, long start) = (i, _random.Next(50));
            At(start, () => Begin(client, start));
        }

        while (_events.TryDequeue(out var action, out _)) { action(); }
        return [.. _history.OrderBy(o => o.InvokedUs)];
    }

    private void At(long time, Action action) => _events.Enqueue(action, (time, _planned++));

    private void Begin(int client, long now)
    {
        if (_begun == _size.Operations) { return; }
        int id = _begun++;
        long point = now + _random.Next(30), end = point + _random.Next(30);
        double luck = _random.NextDouble();
        var outcome = luck < _size.Unknown ? Outcome.Unknown : luck < _size.Unknown + _size.Failed ? Outcome.Failed : Outcome.Done;
        if (outcome == Outcome.Unknown && _random.Next(2) == 0) { point += _random.Next(1000); }
        var steps = _isOfLists ? ListSteps() : [RegisterStep(client)];
        bool isExecuted = outcome == Outcome.Done || (outcome == Outcome.Unknown && _random.Next(3) > 0);
        At(point, () =>
        {
            var done = isExecuted ? [.. steps.Select(Execute)] : steps;
            if (outcome == Outcome.Done && done[0] is { Kind: StepKind.Read } read) { _known[(client, read.Key)] = read.Value; }
            _history.Add(new(id, client, outcome == Outcome.Done ? done : steps, outcome, now, outcome == Outcome.Done ? end : now));
        });
        long next = end + _random.Next(20);
        At(next, () => Begin(client, next));
    }

    private string Key() => "k" + _random.Next(_size.Keys);

    private Step RegisterStep(int client)
    {
        string key = Key();
        return _random.Next(10) switch
        {
            < 4 => Step.Read(key, null),
            < 7 => Step.Write(key, ++_nextValue),
            // From what it has read itself, or by a guess that is right at this moment, though maybe nobody has seen it yet.
            < 9 => Step.CompareAndSet(key, _known.GetValueOrDefault((client, key)), ++_nextValue, null),
            _ => Step.CompareAndSet(key, Held(key), ++_nextValue, null),
        };
    }

    private Step[] ListSteps() =>
        [.. Enumerable.Range(0, _random.Next(3) == 0 ? _random.Next(2, 5) : 1)
            .Select(_ => _random.Next(2) == 0 ? Step.Append(Key(), ++_nextValue) : Step.ReadList(Key(), null))];

    private Step Execute(Step step)
    {
        switch (step.Kind)
        {
            case StepKind.Read:
                return step with { Value = Held(step.Key) };
            case StepKind.Write:
                _registers[step.Key] = step.Value!.Value;
                return step;
            case StepKind.CompareAndSet:
                bool succeeded = Held(step.Key) == step.Expected;
                if (succeeded) { _registers[step.Key] = step.Value!.Value; }
                return step with { Succeeded = succeeded };
            case StepKind.Append:
                List(step.Key).Add(step.Value!.Value);
                return step;
            default:
                return step with { List = [.. List(step.Key)] };
        }
    }

    private long? Held(string key) => _registers.TryGetValue(key, out long value) ? value : null;

    private List<long> List(string key) => _lists.TryGetValue(key, out var list) ? list : _lists[key] = [];
}
