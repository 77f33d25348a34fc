// One version that all shards have closed and kept, for whoever reads the past of a whole cluster: their states at its end are one state.
// A shard may not have closed a version by itself; asked for it, it names the last one before that it has. So the version falls until all
// name the same, and that ends.
//
// Contract with the caller
// - Next says whom to ask what, one question after the other, until that is nothing. Each answer is given to OnAnswer.
// - Then the last answer was about the version that is common to all.
namespace Slogger.Core.Versions;

/// <summary>A question to a shard: which version is the instant?</summary>
/// <param name="Shard">The shard's place among those that are asked.</param>
/// <param name="Version">The instant is the end of this version; null: it is the one that is looked for.</param>
public readonly record struct InstantQuestion(int Shard, VersionNumber? Version);

/// <summary>A rule that is left out, to prove that the tests find it.</summary>
internal enum CommonMutation
{
    None,

    /// <summary>A shard that names a lower version than it was asked for is taken to have that one.</summary>
    LowerIsNoMatter,
}

/// <summary>Finds a version that all shards have closed. Not thread-safe.</summary>
public sealed class CommonVersion
{
    // A shard that is always behind closes versions that no other does: then what is common is as good as it gets.
    private const int NowTriesMax = 100;

    private readonly int _shards;
    private readonly bool _isNow;
    private readonly CommonMutation _mutation;
    private VersionNumber? _asked;              // null: the instant itself
    private VersionNumber _newest, _oldest;     // of the answers to that
    private VersionNumber? _acknowledged;       // the newest of them in the first round
    private int _place, _agreed, _rounds;

    /// <summary>Begins.</summary>
    /// <param name="shards">How many shards there are.</param>
    /// <param name="isNow">The instant is now, with all that was acknowledged at whichever shard; else it is a time or a version.</param>
    public CommonVersion(int shards, bool isNow) : this(shards, isNow, CommonMutation.None)
    {
    }

    internal CommonVersion(int shards, bool isNow, CommonMutation mutation)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(shards, 1);
        (_shards, _isNow, _mutation) = (shards, isNow, mutation);
    }

    /// <summary>What to ask next; null: all shards have named the same version.</summary>
    public InstantQuestion? Next => _agreed == _shards ? null : new(_place, _asked);

    /// <summary>A shard has named a version.</summary>
    public void OnAnswer(VersionNumber version)
    {
        if (_asked is null) { OnInstant(version); }
        else if (version < _asked && _mutation != CommonMutation.LowerIsNoMatter) { (_asked, _agreed) = (version, 1); }
        else { _agreed++; }
        _place = (_place + 1) % _shards;
        // A later version will do, if one of the shards has not closed by itself what has all that was acknowledged.
        if (_isNow && _agreed == _shards && _asked < _acknowledged && _rounds < NowTriesMax) { (_asked, _place, _agreed) = (null, 0, 0); }
    }

    private void OnInstant(VersionNumber version)
    {
        // Of a time each shard would take its own clock's: one is asked for that. But each shard knows of its own what it has acknowledged.
        if (!_isNow)
        {
            (_asked, _agreed) = (version, 1);
            return;
        }
        _newest = _place == 0 ? version : VersionNumber.Max(_newest, version);
        _oldest = _place == 0 ? version : VersionNumber.Min(_oldest, version);
        if (_place < _shards - 1) { return; }
        _rounds++;
        _acknowledged ??= _newest;
        (_asked, _agreed) = (_newest, _newest == _oldest ? _shards : 0);
    }
}
