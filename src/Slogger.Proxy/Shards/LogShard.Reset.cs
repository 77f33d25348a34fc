// What a reset (ShardReset) needs of a shard with a version log.
using System.Text;
using Slogger.Log.Files;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Past;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard : IResetStore
{
    private static readonly TimeSpan s_resetAnswerMax = TimeSpan.FromSeconds(30);

    // So much the store may be ahead of the log, in memory.
    private const long ResetUnreadMax = 64 << 20;

    string? IResetStore.WhyNot => null;

    ShardPast IResetStore.Past => _past!;

    // Each segment of the log has a file in each directory.
    IReadOnlyList<(string Directory, double Times)> IResetStore.Room =>
        [.. _options.LogDirectories.Prepend(_options.DataDirectory).Select(d => (d, 1.0 / (_options.LogDirectories.Length + 1)))];

    bool IResetStore.GoesBackInPlace()
    {
        if (_options.Rollback != RollbackMethod.InPlace) { return true; }
        _indexes.Start();
        return _indexes.IsReady;
    }

    async Task IResetStore.WriteAsync(IEnumerable<RedisBatch> batches, Action check, CancellationToken stop)
    {
        await using RedisPipeline live = await RedisPipeline.ConnectAsync(_fence.Endpoint, s_resetAnswerMax, stop).ConfigureAwait(false);
        long unread = 0;
        foreach (RedisBatch batch in batches)
        {
            check();
            if ((unread += batch.Bytes) > ResetUnreadMax)
            {
                await StreamReadAsync(stop).ConfigureAwait(false);
                unread = 0;
            }
            foreach (RedisReply reply in await live.RunAsync(batch, stop).ConfigureAwait(false))
            {
                if (reply.IsError) { throw new RedisException(RedisProblem.Protocol, $"Redis answered {reply.Text}"); }
            }
        }
    }

    // The store holds a part of a reset, or all of it. Whether the cluster has it is decided by the cut: the store goes to where a world-line
    // branches there, and is not continued before.
    private string ResetNote => Path.Combine(_options.DataDirectory, "reset-on-its-way");

    void IResetStore.NoteReset() => DurableFile.Write(_files, ResetNote, Encoding.ASCII.GetBytes(OwnReplicationId!));

    void IResetStore.ForgetReset() => ForgetReset();

    // Not synced: a note that a crash brings back costs a restore.
    private void ForgetReset() => _files.Delete(ResetNote);
}
