// What a session does without a batch: its application shares its process with a shard (Slogger.Hosting), and executes operations there at
// once. The session takes them in whenever it has its lock and something depends on them: before anything else begins, is answered, rolled
// back or looked at.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Client;

/// <summary>Operations that were executed one after the other in one version.</summary>
internal readonly record struct LocalRun(long Count, VersionNumber Version);

/// <summary>Works on a shard in this process. All calls are under the session's lock.</summary>
internal interface ILocalWork
{
    /// <summary>Where.</summary>
    ShardId Shard { get; }

    /// <summary>What was executed since this was asked last; not one operation is under way meanwhile.</summary>
    /// <param name="line">In which world-line.</param>
    /// <returns>In order. Valid until this is asked again.</returns>
    ReadOnlySpan<LocalRun> Take(out WorldLine line);

    /// <summary>From now on operations are of this world-line; null: nothing may be done any more.</summary>
    void GoOn(WorldLine? line);
}
