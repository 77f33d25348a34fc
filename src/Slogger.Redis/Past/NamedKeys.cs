// Which keys the commands of some versions name: all that can have changed in them.
using System.Text;
using Slogger.Core.Versions;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>Collects keys, a version at a time, until there are enough. Not thread-safe.</summary>
/// <param name="database">The database whose keys are wanted.</param>
/// <param name="from">The version before the first that is read.</param>
/// <param name="enough">How many keys are enough.</param>
/// <param name="most">How many there may be, with those of the version that has the last of them.</param>
public sealed class NamedKeys(int database, VersionNumber from, int enough, int most)
{
    // Of names: as many bytes are enough, and as many may there be.
    private const long BytesEnough = 4 << 20, BytesMost = 128 << 20;

    private readonly HashSet<StoreKey> _keys = [];
    private VersionNumber _version = from;
    private long _bytes;

    /// <summary>The keys, each once.</summary>
    public IReadOnlyCollection<StoreKey> Keys => _keys;

    /// <summary>Takes a command's keys.</summary>
    /// <param name="read">The command.</param>
    /// <param name="version">The version that it is in.</param>
    /// <param name="isWanted">Whether a key is; null: all are.</param>
    /// <returns>The version before, if with that there are enough: nothing was taken. Else null.</returns>
    /// <exception cref="PastException">Which keys it changes cannot be told, or they are too many.</exception>
    public VersionNumber? Note(EffectReader read, VersionNumber version, Func<StoreKey, bool>? isWanted = null)
    {
        ArgumentNullException.ThrowIfNull(read);
        if (version != _version && (_keys.Count >= enough || _bytes >= BytesEnough)) { return version.Previous; }
        _version = version;
        if (read.Reach == EffectReach.Anything)
        {
            string name = Encoding.Latin1.GetString(read.Effect[0]).ToUpperInvariant();
            throw new PastException($"{name} in version {version} is not confined to keys that it names: which keys differ is not known "
                + "across it; ask for a time before or behind it");
        }
        foreach (EffectKey named in read.Keys)
        {
            var key = new StoreKey(named.Database, read.Effect[named.Argument].ToArray());
            if (named.Database == database && (isWanted?.Invoke(key) ?? true) && _keys.Add(key)) { _bytes += key.Name.Length; }
        }
        return _keys.Count <= most && _bytes <= BytesMost ? null
            : throw new PastException($"more than {most} keys, or {BytesMost >> 20} MB of names, are named in version {version}: ask for a "
                + "time before or behind it");
    }
}
