// The commands of a long stretch of history by the keys that they name: from the indexes of its segments where there are some, and from
// what is read here where there are none.
using Slogger.Redis.Feeding;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>A part of the history, from one command boundary to another.</summary>
/// <param name="From">The first.</param>
/// <param name="To">The second; <see cref="long.MaxValue"/>: as far as the history goes.</param>
/// <param name="Database">The database selected at the first.</param>
/// <param name="Index">What finds its commands; null: nothing does. Whoever gets the stretch disposes it.</param>
public sealed record EffectStretch(long From, long To, int Database, KeyIndex? Index);

/// <summary>Finds commands in stretches that follow each other. Not thread-safe.</summary>
/// <param name="history">The bytes.</param>
/// <param name="stretches">The stretches, in order; their indexes are disposed with this.</param>
/// <param name="commandsMax">How many commands are indexed at most in each stretch that has no index: 8 bytes each.</param>
public sealed class StretchIndex(IHistorySource history, IEnumerable<EffectStretch> stretches, int commandsMax) : IEffectIndex, IDisposable
{
    private sealed class Part(EffectStretch stretch)
    {
        public EffectStretch Stretch = stretch;
        public TailIndex? Read;     // of one that has no index
    }

    private readonly Part[] _parts = [.. stretches.Select(s => new Part(s))];

    /// <inheritdoc />
    public long Start => _parts[0].Stretch.From;

    /// <inheritdoc />
    public long Position
    {
        get
        {
            long position = Start;
            foreach (Part part in _parts)
            {
                position = part.Stretch.Index is not null ? part.Stretch.To : part.Read?.Position ?? position;
                if (position < part.Stretch.To) { break; }
            }
            return position;
        }
    }

    /// <inheritdoc />
    public string? Flaw => _parts.Select(p => p.Read?.Flaw).FirstOrDefault(f => f is not null);

    /// <summary>Reads what has no index, up to a limit or to where the history has no more.</summary>
    /// <exception cref="Connections.RedisException">The bytes are no replication stream (Protocol).</exception>
    public void ReadTo(long limit)
    {
        foreach (Part part in _parts)
        {
            if (part.Stretch.From >= limit) { break; }
            if (part.Stretch.Index is null) { Read(part, limit); }
        }
    }

    /// <inheritdoc />
    public string? NotConfined(long from, long to)
    {
        foreach (Part part in _parts)
        {
            (long first, long last) = Within(part, from, to);
            string? name = part.Stretch.Index is { } index
                ? index.Unconfined.FirstOrDefault(u => u.Offset >= first && u.Offset < last).Name : part.Read?.NotConfined(first, last);
            if (name is not null) { return name; }
        }
        return null;
    }

    /// <inheritdoc />
    public long? EmptiedAt(long from, long to)
    {
        foreach (Part part in _parts.Reverse())
        {
            (long first, long last) = Within(part, from, to);
            if (part.Stretch.Index is { } index)
            {
                UnconfinedCommand found = index.Unconfined.LastOrDefault(u => u.Offset >= first && u.Offset < last);
                if (found.Name is null) { continue; }
                return found.Name.Equals("FLUSHALL", StringComparison.OrdinalIgnoreCase) ? found.Offset : null;
            }
            if (part.Read?.NotConfined(first, last) is not null) { return part.Read.EmptiedAt(first, last); }
        }
        return null;
    }

    /// <inheritdoc />
    public bool Find(HashSet<uint> hashes, long from, long to, int most, List<(long Offset, int Database)> found)
    {
        ArgumentNullException.ThrowIfNull(hashes);
        ArgumentNullException.ThrowIfNull(found);
        foreach (Part part in _parts)
        {
            (long first, long last) = Within(part, from, to);
            if (first >= last) { continue; }
            if (part.Stretch.Index is { } index)
            {
                if (Find(index, hashes, first, last, most, found) is { } isAll)
                {
                    if (!isAll) { return false; }
                    continue;
                }
                // It is damaged.
                index.Dispose();
                part.Stretch = part.Stretch with { Index = null };
                Read(part, part.Stretch.To);
                if (part.Read is not { Flaw: null } read || read.Position < last)
                {
                    throw new PastException("an index of the log is damaged, and what it is about cannot be indexed again"
                        + (part.Read?.Flaw is { } flaw ? $": {flaw}" : "") + "; ask for a version behind the next checkpoint");
                }
            }
            if (part.Read?.Find(hashes, first, last, most, found) is false) { return false; }
        }
        return true;
    }

    /// <inheritdoc />
    public void Dispose()
    {
        foreach (Part part in _parts) { part.Stretch.Index?.Dispose(); }
    }

    private void Read(Part part, long limit)
    {
        if (part.Read is null)
        {
            part.Read = new TailIndex(commandsMax);
            part.Read.Restart(part.Stretch.From, part.Stretch.Database);
        }
        part.Read.ReadTo(history, Math.Min(limit, part.Stretch.To));
    }

    private static (long From, long To) Within(Part part, long from, long to) =>
        (Math.Max(from, part.Stretch.From), Math.Min(to, part.Stretch.To));

    // Null: the file is damaged.
    private static bool? Find(KeyIndex index, HashSet<uint> hashes, long from, long to, int most, List<(long Offset, int Database)> found)
    {
        int before = found.Count;
        foreach (uint hash in hashes)
        {
            if (index.Find(hash) is not { } offsets)
            {
                found.RemoveRange(before, found.Count - before);
                return null;
            }
            foreach (long offset in offsets)
            {
                if (offset < from || offset >= to) { continue; }
                if (found.Count == most) { return false; }
                found.Add((offset, index.DatabaseAt(offset)));
            }
        }
        if (hashes.Count > 1) { found.Sort(before, found.Count - before, null); }
        return true;
    }
}
