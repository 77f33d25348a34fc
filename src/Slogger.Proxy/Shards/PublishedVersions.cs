// What a shard says of its versions to whoever asks, without the machine's lock: the front end asks with each request. Each value is whole by
// itself; only the recorded cut is a pair that belongs together.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Proxy.Shards;

/// <summary>The world-line, the recorded cut, and what is durable. Any thread; written under the machine's lock, or before there is a
/// machine.</summary>
internal sealed class PublishedVersions
{
    private readonly Lock _lock = new();
    private WorldPoint _cut;            // under the lock
    private long _worldLine;
    private long _committed;
    private long _durable;

    /// <summary>The current world-line.</summary>
    public long WorldLine => Volatile.Read(ref _worldLine);

    /// <summary>The last version that is committed.</summary>
    public long CommittedVersion => Volatile.Read(ref _committed);

    /// <summary>The last version that is durable here.</summary>
    public long DurableVersion => Volatile.Read(ref _durable);

    /// <summary>The recorded cut; of a store that follows, the end of the version at which it stands.</summary>
    public WorldPoint RecordedCut
    {
        get
        {
            lock (_lock) { return _cut; }
        }
    }

    /// <summary>The shard is in this world-line, and has no cut yet.</summary>
    public void Enter(WorldLine line) => Volatile.Write(ref _worldLine, line.Number);

    /// <summary>This is the recorded cut now.</summary>
    public void Commit(WorldPoint cut)
    {
        lock (_lock) { _cut = cut; }
        Volatile.Write(ref _worldLine, cut.WorldLine.Number);
        Volatile.Write(ref _committed, cut.Version.Number);
    }

    /// <summary>This version is durable here now.</summary>
    public void Keep(VersionNumber version) => Volatile.Write(ref _durable, version.Number);
}
