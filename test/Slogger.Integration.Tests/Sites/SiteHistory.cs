// What clients did at the primary, when, and what of it is there after a failover. What is there has to be a prefix of a linearizable
// history across all shards, in real time (I4, I6): so nothing that is there may have begun after something had ended that is not. Reads
// narrow down when a write took effect: what was seen had happened, what was not seen had not (the paper's figure 3, b).
//
// Each writer pushes numbers to a list of its own at each shard, one after the other: what is there of a list is how far it has come.
using System.Globalization;

namespace Slogger.Integration.Tests.Sites;

internal sealed class SiteHistory
{
    private readonly Lock _lock = new();
    private readonly Dictionary<string, List<Push>> _lists = [];

    /// <summary>One write.</summary>
    /// <param name="From">It did not take effect before.</param>
    /// <param name="Until">Nor after; <see cref="long.MaxValue"/>: nobody knows.</param>
    /// <param name="IsKept">It was answered that the backup holds it.</param>
    public sealed record Push(long From, long Until, bool IsKept);

    /// <summary>Writes that were begun.</summary>
    public int Count
    {
        get
        {
            lock (_lock) { return _lists.Values.Sum(l => l.Count); }
        }
    }

    public IReadOnlyList<string> Lists
    {
        get
        {
            lock (_lock) { return [.. _lists.Keys]; }
        }
    }

    /// <summary>A write begins, to a list that nobody else writes to.</summary>
    /// <returns>Its number: what is pushed.</returns>
    public int Begin(string list, long now)
    {
        lock (_lock)
        {
            if (!_lists.TryGetValue(list, out List<Push>? pushes)) { _lists[list] = pushes = []; }
            pushes.Add(new(now, long.MaxValue, false));
            return pushes.Count - 1;
        }
    }

    /// <summary>It was answered.</summary>
    public void End(string list, int number, long now) => Change(list, number, p => p with { Until = Math.Min(p.Until, now) });

    /// <summary>It was not, and was not executed either, nor ever will be.</summary>
    public void Forget(string list, int number)
    {
        lock (_lock)
        {
            if (_lists[list].Count != number + 1) { throw new InvalidOperationException("there are later ones"); }
            _lists[list].RemoveAt(number);
        }
    }

    /// <summary>The backup holds all that a list held.</summary>
    public void Keep(string list, int number) => Change(list, number, p => p with { IsKept = true });

    /// <summary>A read of the primary has found that many.</summary>
    public void Saw(string list, int count, long from, long until)
    {
        lock (_lock)
        {
            if (!_lists.TryGetValue(list, out List<Push>? pushes)) { return; }
            for (int i = 0; i < pushes.Count; i++)
            {
                Push p = pushes[i];
                pushes[i] = i < count ? p with { Until = Math.Min(p.Until, until) } : p with { From = Math.Max(p.From, from) };
            }
        }
    }

    /// <summary>What is wrong with what is there; null: nothing.</summary>
    /// <param name="there">For each list what it holds.</param>
    /// <param name="seenAtBackup">For each list how much of it was read at the backup before.</param>
    public string? Flaw(IReadOnlyDictionary<string, IReadOnlyList<int>> there, IReadOnlyDictionary<string, int> seenAtBackup)
    {
        lock (_lock)
        {
            (string Name, long From) last = ("nothing", long.MinValue);
            (string Name, long Until) lost = ("nothing", long.MaxValue);
            foreach ((string list, List<Push> pushes) in _lists)
            {
                IReadOnlyList<int> held = there.GetValueOrDefault(list) ?? [];
                if (!held.SequenceEqual(Enumerable.Range(0, held.Count)) || held.Count > pushes.Count)
                {
                    return $"list {list} holds {Shown(held)}, and {pushes.Count} were pushed";
                }
                if (seenAtBackup.GetValueOrDefault(list) is var seen && seen > held.Count)
                {
                    return $"list {list} had {seen} at the backup before the failover, and has {held.Count} after it (I7)";
                }
                if (pushes.FindLastIndex(p => p.IsKept) is var kept && kept >= held.Count)
                {
                    return $"push {kept} of list {list} was said to be held by the backup, and is not there (I7)";
                }
                for (int i = 0; i < pushes.Count; i++)
                {
                    if (i < held.Count && pushes[i].From > last.From) { last = ($"push {i} of {list}", pushes[i].From); }
                    if (i >= held.Count && pushes[i].Until < lost.Until) { lost = ($"push {i} of {list}", pushes[i].Until); }
                }
            }
            return lost.Until < last.From ? $"{lost.Name} had ended {(last.From - lost.Until) / 1000} us before {last.Name} began, and "
                + "only the latter is there (I4, I6)" : null;
        }
    }

    /// <summary>How many writes are not there.</summary>
    public int Lost(IReadOnlyDictionary<string, IReadOnlyList<int>> there)
    {
        lock (_lock)
        {
            return _lists.Sum(l => l.Value.Count(p => p.Until != long.MaxValue) - Math.Min(
                l.Value.Count(p => p.Until != long.MaxValue), (there.GetValueOrDefault(l.Key) ?? []).Count));
        }
    }

    private void Change(string list, int number, Func<Push, Push> change)
    {
        lock (_lock) { _lists[list][number] = change(_lists[list][number]); }
    }

    private static string Shown(IReadOnlyList<int> numbers)
    {
        int wrong = Enumerable.Range(0, numbers.Count).FirstOrDefault(i => numbers[i] != i, numbers.Count);
        return string.Create(CultureInfo.InvariantCulture,
            $"{numbers.Count} numbers, of which number {wrong} is {(wrong < numbers.Count ? numbers[wrong] : -1)}");
    }
}
