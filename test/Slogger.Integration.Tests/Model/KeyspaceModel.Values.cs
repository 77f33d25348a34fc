// The commands of the model, by type of value. Each returns null if the command is not of its type, "" if the reply is
// not foretold.
using System.Globalization;

namespace Slogger.Integration.Tests.Model;

internal sealed partial class KeyspaceModel
{
    private string? Strings(string name, IReadOnlyList<string> a)
    {
        switch (name)
        {
            case "SET":
                _entries[Key(a[1])] = new StringEntry(a[2]) { ExpiresAtMs = a.Count > 4 && a[3] == "PXAT" ? Parse(a[4]) : 0 };
                return "+OK";
            case "MSET":
                for (int i = 1; i < a.Count; i += 2)
                {
                    _entries[Key(a[i])] = new StringEntry(a[i + 1]);
                }

                return "+OK";
            case "GET":
                return Bulk(Find<StringEntry>(a[1])?.Value);
            case "STRLEN":
                return Integer(Find<StringEntry>(a[1])?.Value.Length ?? 0);
            case "GETDEL":
                string? deleted = Find<StringEntry>(a[1])?.Value;
                _entries.Remove(Key(a[1]));
                return Bulk(deleted);
            case "GETSET":
                string? old = Find<StringEntry>(a[1])?.Value;
                _entries[Key(a[1])] = new StringEntry(a[2]);
                return Bulk(old);
            case "APPEND":
                var grown = GetString(a[1]);
                grown.Value += a[2];
                return Integer(grown.Value.Length);
            case "SETRANGE":
                var ranged = GetString(a[1]);
                int offset = (int)Parse(a[2]);
                string padded = ranged.Value.PadRight(offset + a[3].Length, '\0');
                ranged.Value = padded[..offset] + a[3] + padded[(offset + a[3].Length)..];
                return Integer(ranged.Value.Length);
            case "INCRBY":
                var counter = GetString(a[1]);
                counter.Value = ((counter.Value.Length == 0 ? 0 : Parse(counter.Value)) + Parse(a[2])).ToString(
                    CultureInfo.InvariantCulture);
                return ":" + counter.Value;
            case "INCRBYFLOAT":
                var real = GetString(a[1]);
                decimal sum = (real.Value.Length == 0 ? 0 : decimal.Parse(real.Value, CultureInfo.InvariantCulture))
                    + decimal.Parse(a[2], CultureInfo.InvariantCulture);
                real.Value = (sum / 1.000000000000000000m).ToString("0.#########", CultureInfo.InvariantCulture);
                return "$" + real.Value;
            default:
                return null;
        }
    }

    private StringEntry GetString(string name)
    {
        if (Find<StringEntry>(name) is { } found)
        {
            return found;
        }

        var made = new StringEntry("");
        _entries[Key(name)] = made;
        return made;
    }

    private string? Keys(string name, IReadOnlyList<string> a)
    {
        switch (name)
        {
            case "DEL":
                int removed = a.Skip(1).Count(k => _entries.Remove(Key(k)));
                return Integer(removed);
            case "EXISTS":
                return Integer(_entries.ContainsKey(Key(a[1])) ? 1 : 0);
            case "RENAME":
                if (!_entries.Remove(Key(a[1]), out var renamed))
                {
                    return "-ERR no such key";
                }

                _entries[Key(a[2])] = renamed;
                return "+OK";
            case "COPY":
                if (!_entries.TryGetValue(Key(a[1]), out var source) || (a.Count < 4 && _entries.ContainsKey(Key(a[2]))))
                {
                    return ":0";
                }

                _entries[Key(a[2])] = source.Clone();
                return ":1";
            case "MOVE":
                var target = new DatabaseKey((int)Parse(a[2]), a[1]);
                if (!_entries.TryGetValue(Key(a[1]), out var moved) || _entries.ContainsKey(target))
                {
                    return ":0";
                }

                _entries.Remove(Key(a[1]));
                _entries[target] = moved;
                return ":1";
            case "PEXPIREAT":
                if (!_entries.TryGetValue(Key(a[1]), out var expiring))
                {
                    return ":0";
                }

                expiring.ExpiresAtMs = Parse(a[2]);
                return ":1";
            case "PERSIST":
                if (!_entries.TryGetValue(Key(a[1]), out var persistent) || persistent.ExpiresAtMs == 0)
                {
                    return ":0";
                }

                persistent.ExpiresAtMs = 0;
                return ":1";
            default:
                return null;
        }
    }

    private string? Lists(string name, IReadOnlyList<string> a)
    {
        switch (name)
        {
            case "RPUSH":
                var right = Get<ListEntry>(a[1]).Items;
                right.AddRange(a.Skip(2));
                return Integer(right.Count);
            case "LPUSH":
                var left = Get<ListEntry>(a[1]).Items;
                foreach (string item in a.Skip(2))
                {
                    left.Insert(0, item);
                }

                return Integer(left.Count);
            case "LPOP":
                return Bulk(Pop(a[1], fromLeft: true));
            case "RPOP":
                return Bulk(Pop(a[1], fromLeft: false));
            case "LMOVE":
                string? moved = Pop(a[1], fromLeft: a[3] == "LEFT");
                if (moved is not null)
                {
                    var target = Get<ListEntry>(a[2]).Items;
                    target.Insert(a[4] == "LEFT" ? 0 : target.Count, moved);
                }

                return Bulk(moved);
            case "LTRIM":
                if (Find<ListEntry>(a[1]) is { } trimmed)
                {
                    int first = (int)Parse(a[2]);
                    int last = Math.Min((int)Parse(a[3]), trimmed.Items.Count - 1);
                    var kept = first <= last ? trimmed.Items.GetRange(first, last - first + 1) : [];
                    trimmed.Items.Clear();
                    trimmed.Items.AddRange(kept);
                }

                return "+OK";
            case "LSET":
                if (Find<ListEntry>(a[1]) is not { } set)
                {
                    return "-ERR no such key";
                }

                // On a state that a rollback has shortened the index may be beyond the end.
                if (Parse(a[2]) >= set.Items.Count)
                {
                    return "-ERR index out of range";
                }

                set.Items[(int)Parse(a[2])] = a[3];
                return "+OK";
            case "LLEN":
                return Integer(Find<ListEntry>(a[1])?.Items.Count ?? 0);
            case "LRANGE":
                return Array(Find<ListEntry>(a[1])?.Items ?? []);
            default:
                return null;
        }
    }

    private string? Pop(string key, bool fromLeft)
    {
        if (Find<ListEntry>(key) is not { IsEmpty: false } list)
        {
            return null;
        }

        int at = fromLeft ? 0 : list.Items.Count - 1;
        string item = list.Items[at];
        list.Items.RemoveAt(at);
        return item;
    }

    private string? Sets(string name, IReadOnlyList<string> a)
    {
        switch (name)
        {
            case "SADD":
                var set = Get<SetEntry>(a[1]).Members;
                int added = a.Skip(2).Count(set.Add);
                return Integer(added);
            case "SREM":
                int removed = Find<SetEntry>(a[1]) is { } from ? a.Skip(2).Count(from.Members.Remove) : 0;
                return Integer(removed);
            case "SMOVE":
                if (Find<SetEntry>(a[1]) is not { } source || !source.Members.Remove(a[3]))
                {
                    return ":0";
                }

                Get<SetEntry>(a[2]).Members.Add(a[3]);
                return ":1";
            case "SUNIONSTORE":
                var union = a.Skip(2).SelectMany(k => Find<SetEntry>(k)?.Members ?? []).ToArray();
                _entries.Remove(Key(a[1]));
                Get<SetEntry>(a[1]).Members.UnionWith(union);
                return Integer(Get<SetEntry>(a[1]).Members.Count);
            case "SPOP":
                // Always asked for more members than there are: which ones go is then no choice of the server's.
                _entries.Remove(Key(a[1]));
                return "";
            case "SCARD":
                return Integer(Find<SetEntry>(a[1])?.Members.Count ?? 0);
            default:
                return null;
        }
    }

    private string? Hashes(string name, IReadOnlyList<string> a)
    {
        switch (name)
        {
            case "HSET":
                var fields = Get<HashEntry>(a[1]).Fields;
                int added = 0;
                for (int i = 2; i < a.Count; i += 2)
                {
                    added += fields.ContainsKey(a[i]) ? 0 : 1;
                    fields[a[i]] = a[i + 1];
                }

                return Integer(added);
            case "HDEL":
                int removed = Find<HashEntry>(a[1]) is { } from ? a.Skip(2).Count(from.Fields.Remove) : 0;
                return Integer(removed);
            case "HINCRBY":
                var counters = Get<HashEntry>(a[1]).Fields;
                long sum = (counters.TryGetValue(a[2], out string? old) ? Parse(old) : 0) + Parse(a[3]);
                counters[a[2]] = sum.ToString(CultureInfo.InvariantCulture);
                return Integer(sum);
            case "HGET":
                return Bulk(Find<HashEntry>(a[1])?.Fields.GetValueOrDefault(a[2]));
            case "HLEN":
                return Integer(Find<HashEntry>(a[1])?.Fields.Count ?? 0);
            default:
                return null;
        }
    }

    private string? SortedSets(string name, IReadOnlyList<string> a)
    {
        switch (name)
        {
            case "ZADD":
                var scores = Get<SortedSetEntry>(a[1]).Scores;
                bool isNew = !scores.TryGetValue(a[3], out long before);
                scores[a[3]] = Parse(a[2]);
                return Integer(isNew ? 1 : 0);
            case "ZINCRBY":
                var ranked = Get<SortedSetEntry>(a[1]).Scores;
                ranked[a[3]] = ranked.GetValueOrDefault(a[3]) + Parse(a[2]);
                return Bulk(ranked[a[3]].ToString(CultureInfo.InvariantCulture));
            case "ZREM":
                int removed = Find<SortedSetEntry>(a[1]) is { } from ? a.Skip(2).Count(from.Scores.Remove) : 0;
                return Integer(removed);
            case "ZPOPMIN":
                if (Find<SortedSetEntry>(a[1]) is not { } popped)
                {
                    return "[]";
                }

                var lowest = popped.Ranked.First();
                popped.Scores.Remove(lowest.Key);
                return Array([lowest.Key, lowest.Value.ToString(CultureInfo.InvariantCulture)]);
            case "ZREMRANGEBYRANK":
                var doomed = Find<SortedSetEntry>(a[1])?.Ranked.Take((int)Parse(a[3]) + 1).Select(s => s.Key).ToArray() ?? [];
                foreach (string member in doomed)
                {
                    Find<SortedSetEntry>(a[1])!.Scores.Remove(member);
                }

                return Integer(doomed.Length);
            case "ZCARD":
                return Integer(Find<SortedSetEntry>(a[1])?.Scores.Count ?? 0);
            default:
                return null;
        }
    }

    private string? Streams(string name, IReadOnlyList<string> a)
    {
        switch (name)
        {
            case "XADD":
                Get<StreamEntry>(a[1]).Entries.Add((a[2], a[3], a[4]));
                return Bulk(a[2]);
            case "XTRIM":
                if (Find<StreamEntry>(a[1]) is not { } trimmed)
                {
                    return ":0";
                }

                int excess = Math.Max(0, trimmed.Entries.Count - (int)Parse(a[4]));
                trimmed.Entries.RemoveRange(0, excess);
                return Integer(excess);
            case "XDEL":
                int deleted = Find<StreamEntry>(a[1])?.Entries.RemoveAll(e => e.Id == a[2]) ?? 0;
                return Integer(deleted);
            case "XLEN":
                return Integer(Find<StreamEntry>(a[1])?.Entries.Count ?? 0);
            default:
                return null;
        }
    }
}
