// Operations that need no batch: the session's caller shares its process with the shard (DPR, section 5: co-location), and has executed
// them at once. They are told of afterwards, many at a time. So what was answered meanwhile by others, on another thread, is not what they
// had to follow: that the shard's version was no earlier than what their caller had seen is checked where they are executed.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Sessions;

public sealed partial class ClientSession
{
    /// <summary>Counts what the session learns: it rises whenever an answer is of a later version than those of its shard before.</summary>
    public long Learned => _learned;

    /// <summary>Numbers operations that were executed already, and counts them as answered. To be told before anything else begins or is
    /// answered, so that what begins later depends on them.</summary>
    /// <param name="shard">Where.</param>
    /// <param name="line">In which world-line: the session's.</param>
    /// <param name="count">How many; at least 1.</param>
    /// <param name="version">In which version.</param>
    /// <exception cref="BrokenInvariantException">The session is in another world-line.</exception>
    public void OnExecutedHere(ShardId shard, WorldLine line, long count, VersionNumber version)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(count, 1);
        if (line != WorldLine || version <= VersionNumber.Zero)
            throw new BrokenInvariantException(
                $"I5: session {Id}, in world-line {WorldLine}, has executed operations in version {version} of world-line {line}.");
        ViewOf(shard).IsUsed = true;
        SequenceNumber first = new(Begun.Number + 1);
        Begun = new(Begun.Number + count);
        // They are done, so they are kept in any case; there is one run more for each version of the shard at most.
        if (RunCount >= _options.RunsMax) MergeRuns();
        InsertRun(new() { First = first, Last = Begun, Lower = version, Upper = version, Shard = shard.Number });
        Saw(shard.Number, version);
        if (version <= CutOf(shard.Number)) MovePrefix();
    }

    /// <summary>What the session has seen at other shards, as the dependencies of a header: to be told to the shard at once, before the
    /// next operation is executed there. What batches on their way to it say does not count, since they may come later.</summary>
    /// <param name="shard">Where.</param>
    /// <param name="learned">What <see cref="Learned"/> was when the shard was told last; 0: never.</param>
    public ReadOnlyMemory<Dependency> DependenciesSince(ShardId shard, long learned)
    {
        ViewOf(shard);
        return DependenciesOf(shard.Number, learned);
    }
}
