// The past of an embedded store that follows (--retention): what has been shipped lies in the stream anyway. It is kept as far as is
// promised, with checkpoints that are written from the store's commits. When the store is a primary's, the stream becomes its history.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Past;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

/// <summary>The past of a stream. The control task.</summary>
internal sealed class FollowedPast : ICheckpointSource
{
    private readonly FollowedStream _stream;
    private readonly Func<FollowedFaster> _followed;
    private readonly SemaphoreSlim _turn;
    private readonly EmbeddedPast _past;

    /// <summary>Of an open stream.</summary>
    /// <param name="shard">The shard.</param>
    /// <param name="options">Its options.</param>
    /// <param name="report">For people.</param>
    /// <param name="stream">The stream.</param>
    /// <param name="followed">What follows it.</param>
    /// <param name="grid">By which its versions went.</param>
    /// <param name="turn">Held by who deletes commits, or needs that they stay.</param>
    /// <param name="reset">Sets the store back.</param>
    public FollowedPast(VersionedShard shard, ServeOptions options, ILogger report, FollowedStream stream, Func<FollowedFaster> followed,
        Func<VersionGrid?> grid, SemaphoreSlim turn, IPastReset reset)
    {
        (_stream, _followed, _turn) = (stream, followed, turn);
        _past = new(shard, options, report, stream.Log, stream.Checkpoints, this, new Lock(), follows: true, reset)
        {
            Committed = () => CommittedOf(shard.RecordedCut),
            Grid = grid,
            MayDelete = () => true,
            NeededFrom = () => followed().NeededFrom,
        };
    }

    /// <summary>Reads it. Any thread.</summary>
    public ShardPast Reads => _past.Reads;

    /// <inheritdoc cref="EmbeddedPast.Keep"/>
    public void Keep()
    {
        _past.Keep();
        _past.TakeIfDue();
    }

    /// <inheritdoc cref="EmbeddedPast.Status"/>
    public IEnumerable<(string Name, long Value)> Status() => _past.Status();

    /// <inheritdoc cref="EmbeddedPast.EndAsync"/>
    public Task EndAsync() => _past.EndAsync();

    // What a primary's store has done since it has taken over is not in the stream.
    private WorldPoint CommittedOf(WorldPoint cut) =>
        new(cut.WorldLine, _stream.Log.IsEmpty ? VersionNumber.Zero : VersionNumber.Min(cut.Version, _stream.Log.DurableClosed.Closed));

    // The commits stay meanwhile.
    Task ICheckpointSource.TurnAsync(CancellationToken stop) => _turn.WaitAsync(stop);

    void ICheckpointSource.EndTurn() => _turn.Release();

    string ICheckpointSource.NewFile() => _stream.Checkpoints.NewTemporaryPath();

    async Task<CheckpointResult> ICheckpointSource.FetchAsync(string file, CancellationToken stop, Action? taken)
    {
        try
        {
            return await _followed().CopyAsync(file, taken, stop).ConfigureAwait(false) is var (note, bytes)
                ? new CheckpointResult.Fetched(note.Life, note.Offset, bytes)
                : new CheckpointResult.Failed(RedisProblem.HistoryGone, "the store has made no commit of the stream yet");
        }
        catch (InvalidOperationException e)
        {
            return new CheckpointResult.Failed(RedisProblem.HistoryGone, $"the store needs the memory: {e.Message}");
        }
    }
}
