// What a plan asks to find the log's commands on some keys: see TailIndex, and StretchIndex.
namespace Slogger.Redis.Rollback;

/// <summary>Finds commands by the keys that they name, in one history.</summary>
public interface IEffectIndex
{
    /// <summary>From where on it knows the commands.</summary>
    long Start { get; }

    /// <summary>Up to where it knows them.</summary>
    long Position { get; }

    /// <summary>Why it knows nothing; null if it does.</summary>
    string? Flaw { get; }

    /// <summary>The name of a command between two offsets that may change keys that it does not name; null if there is none.</summary>
    string? NotConfined(long from, long to);

    /// <summary>Where the last FLUSHALL between two offsets begins, if all that follows it is confined to keys: behind it nothing before
    /// matters. Null: there is none.</summary>
    long? EmptiedAt(long from, long to);

    /// <summary>Finds the commands between two offsets that may name keys with these hashes.</summary>
    /// <param name="hashes">The upper halves of the keys' hashes.</param>
    /// <param name="from">The first offset.</param>
    /// <param name="to">The offset behind the last.</param>
    /// <param name="most">How many are wanted at most.</param>
    /// <param name="found">Receives their offsets and databases, in order; a command may come several times.</param>
    /// <returns>False if there are more than wanted.</returns>
    bool Find(HashSet<uint> hashes, long from, long to, int most, List<(long Offset, int Database)> found);
}
