// The commands of a window in their order, dead or alive. A command of several keys that dies key by key has one entry for each: they stand
// side by side.
namespace Slogger.Redis.Reduction;

/// <summary>A command of a window, or the part of it that one key has.</summary>
internal struct ReducedEntry
{
    /// <summary>Where the command is in the bytes.</summary>
    public int Start, End;

    /// <summary>The database that was selected.</summary>
    public int Database;

    /// <summary>The one before it in the chain of its key; -1: none.</summary>
    public int Previous;

    /// <summary>Which argument its key is.</summary>
    public int Argument;

    /// <summary>The run that it is the place of; -1: none.</summary>
    public int Run;

    /// <summary>Its rule.</summary>
    public EffectKind Kind;

    /// <summary>It is to be written.</summary>
    public bool IsAlive;

    /// <summary>A command on several keys has read what it did.</summary>
    public bool IsPinned;
}

/// <summary>The entries of a window. Not thread-safe.</summary>
internal sealed class ReducedEntries
{
    private ReducedEntry[] _entries = new ReducedEntry[256];

    /// <summary>How many there are.</summary>
    public int Count { get; private set; }

    /// <summary>An entry.</summary>
    public ref ReducedEntry this[int at] => ref _entries[at];

    /// <summary>Forgets all.</summary>
    public void Clear() => Count = 0;

    /// <summary>Adds one. Returns its place.</summary>
    public int Add(in ReducedEntry entry)
    {
        if (Count == _entries.Length) { Array.Resize(ref _entries, 2 * _entries.Length); }
        _entries[Count] = entry;
        return Count++;
    }

    /// <summary>Behind the parts of the command that an entry is of.</summary>
    public int EndOfParts(int at)
    {
        int start = _entries[at].Start;
        while (at < Count && _entries[at].Start == start) { at++; }
        return at;
    }
}
