// What a reset (ShardReset) needs of a shard's store: its past, and a way to write what undoes it.
using Slogger.Proxy.Past;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;

namespace Slogger.Proxy.Shards;

/// <summary>The store of a shard that is set back. Any thread.</summary>
internal interface IResetStore
{
    /// <summary>Why it cannot be set back at all; null: it can.</summary>
    string? WhyNot { get; }

    /// <summary>What was then. What is committed counts as far as this has it.</summary>
    /// <exception cref="PastException">It is not open now.</exception>
    ShardPast Past { get; }

    /// <summary>The directories on whose disks what is written needs room, and how often it does there. The first is the shard's data
    /// directory.</summary>
    IReadOnlyList<(string Directory, double Times)> Room { get; }

    /// <summary>Notes durably that the store holds a part of a reset: no start may go on with it.</summary>
    void NoteReset();

    /// <summary>What was noted is of no account: all of the reset is committed, and no world-line begins.</summary>
    void ForgetReset();

    /// <summary>Whether the store would go to a branch in place now, and not by loading all of it. Sees to it that it will.</summary>
    bool GoesBackInPlace();

    /// <summary>Writes to it.</summary>
    /// <param name="batches">The commands.</param>
    /// <param name="check">Is called before each batch, and throws if nothing may be written any more.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="RedisException">It was not written, or not to its end.</exception>
    Task WriteAsync(IEnumerable<RedisBatch> batches, Action check, CancellationToken stop);
}
