// What sessions do in the tests of co-location, in the shard's process and over the network alike: the n-th step of a worker follows from n
// alone. So whatever a crash leaves of a session can be compared with what its first steps make: a prefix, and of the step behind it the
// first half.
//
// A step changes one of the worker's keys, then raises the worker's counter to n; now and then it reads the counter of another session, and
// writes what it saw; at its end it raises a counter that all share.
using System.Globalization;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Embedded;

internal enum StepKind
{
    Set,
    SetForATime,
    Delete,
    Increment,
    Expire,
    Persist,
}

/// <summary>The change that a step begins with.</summary>
internal readonly record struct Step(StepKind Kind, int Key, string Value, long By);

internal static class HostingWorkload
{
    public const int Keys = 48;
    public const string Shared = "shared";

    /// <summary>How long keys live that expire: longer than any test.</summary>
    public static readonly TimeSpan Life = TimeSpan.FromHours(3);

    public static string Counter(string worker) => worker + ":count";

    public static string Saw(string worker) => worker + ":saw";

    public static string Key(string worker, int key) => string.Create(CultureInfo.InvariantCulture, $"{worker}:key{key}");

    /// <summary>Whether a step looks at another session's counter.</summary>
    public static bool Looks(long n) => n % 8 == 0;

    public static Step StepOf(string worker, long n)
    {
        ulong bits = Mix((ulong)n ^ Mix(worker.Aggregate(0ul, static (h, c) => h * 31 + c)));
        string text = n.ToString(CultureInfo.InvariantCulture);
        int key = (int)(bits % Keys), form = (int)((bits >> 16) % 16);
        return form switch
        {
            < 4 => new(StepKind.Set, key, text, 0),
            < 7 => new(StepKind.Set, key, text + new string('x', 1 + (int)((bits >> 24) % 200)), 0),
            < 8 => new(StepKind.SetForATime, key, text, 0),
            < 10 => new(StepKind.Delete, key, "", 0),
            < 13 => new(StepKind.Increment, key, "", (long)((bits >> 32) % 1000) - 500),
            < 15 => new(StepKind.Expire, key, "", 0),
            _ => new(StepKind.Persist, key, "", 0),
        };
    }

    private static ulong Mix(ulong x)
    {
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        return x ^ (x >> 31);
    }
}

/// <summary>What a worker's keys are after its first steps.</summary>
internal sealed class HostingModel(string worker)
{
    private readonly Dictionary<int, (string Value, bool Expires)> _keys = [];

    /// <summary>How many steps have been taken.</summary>
    public long Steps { get; private set; }

    /// <summary>Its keys that are there.</summary>
    public IEnumerable<string> Keys => _keys.Keys.Select(k => HostingWorkload.Key(worker, k));

    public void GoTo(long steps)
    {
        if (steps < Steps) { throw new InvalidOperationException($"{worker} has taken {Steps} steps, and not {steps}"); }
        while (Steps < steps) { Apply(HostingWorkload.StepOf(worker, ++Steps)); }
    }

    /// <summary>The keys that differ from what a store holds.</summary>
    public async Task<string[]> DifferencesAsync(RespClient client)
    {
        var differences = new List<string>();
        for (int key = 0; key < HostingWorkload.Keys; key++)
        {
            string name = HostingWorkload.Key(worker, key), found = (await client.CallAsync("GET", name)).Compact, ttl =
                (await client.CallAsync("TTL", name)).Compact;
            string value = _keys.TryGetValue(key, out var known) ? "$" + known.Value : "_";
            bool expires = long.Parse(ttl[1..], CultureInfo.InvariantCulture) >= 0;
            if (found != value || expires != known.Expires)
            {
                differences.Add($"{name}: {value}{(known.Expires ? " for a time" : "")} was expected, {found} is there, TTL {ttl}");
            }
        }

        return [.. differences];
    }

    /// <summary>Takes the first half of the next step: its counter is not raised.</summary>
    public void Anticipate() => Apply(HostingWorkload.StepOf(worker, Steps + 1));

    private void Apply(in Step step)
    {
        (string Value, bool Expires)? before = _keys.TryGetValue(step.Key, out var found) ? found : null;
        switch (step.Kind)
        {
            case StepKind.Set or StepKind.SetForATime:
                _keys[step.Key] = (step.Value, step.Kind == StepKind.SetForATime);
                break;
            case StepKind.Delete:
                _keys.Remove(step.Key);
                break;
            case StepKind.Increment:
                // What is no number stays as it is.
                if (!long.TryParse(before?.Value ?? "0", NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out long number))
                {
                    break;
                }
                _keys[step.Key] = ((number + step.By).ToString(CultureInfo.InvariantCulture), before?.Expires ?? false);
                break;
            default:
                if (before is { } there) { _keys[step.Key] = (there.Value, step.Kind == StepKind.Expire); }
                break;
        }
    }
}
