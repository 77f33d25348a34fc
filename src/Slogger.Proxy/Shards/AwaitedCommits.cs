// Who waits until versions are committed: clients of this shard, other parts of it, and other shards. While anybody does, each step of a
// commit is taken at once, and the loop does not rest.
using Slogger.Core.Shards;
using Slogger.Core.Versions;

namespace Slogger.Proxy.Shards;

/// <summary>The waits for commits of one shard. Under the machine's lock, if nothing else is said.</summary>
internal sealed class AwaitedCommits(VersionedShard shard)
{
    private VersionNumber _peersUntil;
    private long _othersUntil;              // any thread
    private VersionNumber _closesByItself;  // because somebody waits for it

    /// <summary>Whether somebody here waits. Any thread.</summary>
    public bool IsAwaitedHere => shard.HoldsAll || AwaitedHere.Number > shard.CommittedVersion;

    /// <summary>For which version somebody here waits. Any thread.</summary>
    public VersionNumber AwaitedHere => shard.HoldsAll ? new(shard.OpenVersion)
        : VersionNumber.Max(ByClients, new(Volatile.Read(ref _othersUntil)));

    /// <summary>For which version anybody waits.</summary>
    public VersionNumber Until => VersionNumber.Max(AwaitedHere, _peersUntil);

    /// <summary>The last version that a reply waits for.</summary>
    public VersionNumber ByReplies => new(shard.Access.Loop?.Replies.AwaitedVersion ?? 0);

    /// <summary>Whether a reply waits for a version that is not settled.</summary>
    public bool AreRepliesAwaited => ByReplies.Number > shard.SettledVersion;

    private VersionNumber ByClients => shard.Access.Loop is { } loop
        ? new(shard.Seat.HasPeers ? Math.Max(loop.AwaitedVersion, loop.Replies.AwaitedVersion) : loop.AwaitedVersion) : default;

    /// <summary>Whether anybody waits.</summary>
    public bool IsAwaited(ShardMachine machine) => IsAwaitedHere || machine.Committed.Version < _peersUntil
        || shard.Membership.IsJoining || shard.Membership.IsLeaving || shard.IsHandingOver;

    /// <summary>Clients of other shards wait for versions up to this one.</summary>
    public void ByPeers(VersionNumber until) => _peersUntil = VersionNumber.Max(_peersUntil, until);

    /// <summary>Another part of this shard waits for a version. Whether the one that is open is to be closed for that even if it is empty:
    /// not if it is earlier.</summary>
    public bool ByOthers(VersionNumber version, ShardMachine? machine)
    {
        Volatile.Write(ref _othersUntil, Math.Max(_othersUntil, version.Number));
        if (machine is null || machine.OpenVersion < version || _closesByItself >= version) { return false; }
        _closesByItself = machine.OpenVersion;
        return true;
    }
}
