// Threads that change records at random, and remember each change with its version: what the store has to hold at any version.
using System.Globalization;
using System.Text;
using Slogger.Faster.Records;

namespace Slogger.Faster.Tests;

internal sealed class Load(int seed)
{
    private const int Shared = 300, Own = 1500;
    private readonly List<(long Version, string Key, string? Value)> _changes = [];
    private readonly List<string> _wrong = [];
    private readonly Lock _gate = new();
    private Dictionary<string, string> _now = [];
    private volatile bool _stop;

    /// <summary>Keys that all threads change, and keys of one thread each.</summary>
    public static IEnumerable<string> Keys { get; } =
        [.. Enumerable.Range(0, Shared).Select(i => $"shared:{i}"),
            .. Enumerable.Range(0, 2).SelectMany(t => Enumerable.Range(0, Own).Select(i => $"own:{t}:{i}"))];

    public Task Start(FasterStore store, int threads) =>
        Task.WhenAll(Enumerable.Range(0, threads).Select(t => Task.Factory.StartNew(() => Run(store, t), TaskCreationOptions.LongRunning)));

    public async Task StopAsync(Task running)
    {
        _stop = true;
        await running;
        Assert.Empty(_wrong);
    }

    /// <summary>The last change of each key in the versions after one, up to another.</summary>
    public Dictionary<string, string?> ChangesBetween(long after, long upTo)
    {
        lock (_gate)
        {
            var found = new Dictionary<string, string?>();
            foreach ((long version, string key, string? value) in _changes) if (version > after && version <= upTo) found[key] = value;
            return found;
        }
    }

    public Dictionary<string, string> StateAt(long version)
    {
        var state = new Dictionary<string, string>();
        foreach ((string key, string? value) in ChangesBetween(0, version)) if (value is not null) state.Add(key, value);
        return state;
    }

    /// <summary>Takes all later changes back. No key's lock is free meanwhile.</summary>
    public void Forget(long after)
    {
        lock (_gate)
        {
            _changes.RemoveAll(c => c.Version > after);
            _now = StateAt(after);
        }
    }

    private void Run(FasterStore store, int thread)
    {
        using FasterWorker worker = store.NewWorker();
        var random = new Random((seed * 100) + thread);
        var buffer = new ValueBuffer();
        for (long n = 0; !_stop; n++)
        {
            store.Throttle();
            if (store.IsOutOfMemory) continue;
            int kind = random.Next(10);
            string key = kind < 4 ? $"shared:{(int)(Shared * Math.Pow(random.NextDouble(), 3))}" : $"own:{thread}:{random.Next(Own)}";
            byte[] name = Encoding.ASCII.GetBytes(key);
            int stripe = worker.Enter(name);
            try
            {
                string? was = worker.TryRead(name, buffer, out _, out _) ? Encoding.ASCII.GetString(buffer.Bytes) : null;
                // A counter of any number of digits, so that values grow; or anything; or nothing.
                string? value = kind < 4
                    ? (long.Parse(was ?? "0", CultureInfo.InvariantCulture) + random.Next(1, 1000)).ToString(CultureInfo.InvariantCulture)
                    : kind == 9 ? null : $"{n}" + new string('x', random.Next(64));
                if (value is null) worker.Remove(name);
                else worker.Write(name, Encoding.ASCII.GetBytes(value), 0);
                lock (_gate)
                {
                    string? wanted = _now.GetValueOrDefault(key);
                    if (was != wanted) _wrong.Add($"version {store.Open}, {key}: read {was ?? "none"}, should be {wanted ?? "none"}");
                    _changes.Add((store.Open.Number, key, value));
                    if (value is null) _now.Remove(key);
                    else _now[key] = value;
                }
            }
            finally
            {
                worker.Exit(stripe);
            }
        }
    }
}
