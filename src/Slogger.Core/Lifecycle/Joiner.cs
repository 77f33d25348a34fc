// What a shard that joins asks to be admitted with. It begins with an empty store at a version that the cluster cannot go back behind, lets
// nobody in, and asks with each version that SQL has recorded of it. Whatever goes wrong before it is admitted, it begins anew. The
// recovery begins, and suspends; the recorder asks. The driver keeps them apart.
using Slogger.Core.Membership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Lifecycle;

/// <summary>A shard that joins its cluster, or has joined.</summary>
public sealed class Joiner
{
    private readonly LifecycleMutation _mutation;
    private volatile bool _isJoining;
    private volatile bool _mayBeAdmitted;
    private VersionNumber? _begunAt;

    internal Joiner(LifecycleMutation mutation) => _mutation = mutation;

    /// <summary>It serves nobody yet, and no cut counts it. Any thread.</summary>
    public bool IsJoining => _isJoining;

    /// <summary>It has asked, and nobody knows whether it was admitted.</summary>
    public bool MayBeAdmitted => _mayBeAdmitted;

    /// <summary>SQL says where the shard stands.</summary>
    public void Seen(MemberState state) => _isJoining = state == MemberState.Joining;

    /// <summary>Nothing is claimed for what is over while the recovery looks where the shard stands.</summary>
    public void Suspend() => _begunAt = null;

    /// <summary>It has begun at this version. What lies below was said by an earlier beginning.</summary>
    public void Begun(VersionNumber at) => _begunAt = at;

    /// <summary>Whether it may ask now.</summary>
    /// <param name="recorded">What SQL has just recorded of it.</param>
    /// <param name="line">The world-line of its machine.</param>
    public bool MayAsk(WorldPoint recorded, WorldLine line) => _begunAt is { } at && line == recorded.WorldLine && recorded.Version >= at;

    /// <summary>What SQL has answered.</summary>
    /// <param name="isAdmitted">Null: nothing. It may be admitted, or be admitted yet.</param>
    /// <param name="durable">What it has asked with.</param>
    /// <param name="cut">The recorded cut.</param>
    /// <returns>The version to open at once, if it comes too late otherwise.</returns>
    public VersionNumber? Answered(bool? isAdmitted, WorldPoint durable, WorldPoint cut)
    {
        if (isAdmitted is null) { _mayBeAdmitted = true; }
        if (isAdmitted == true) { _isJoining = false; }
        return isAdmitted == false && _mutation != LifecycleMutation.JoinerNotHurried ? Members.CatchesUpAt(cut, durable) : null;
    }
}
