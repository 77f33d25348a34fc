// What a reset (ShardReset) needs of a shard with an embedded store. What is committed counts once the history beside the store has it:
// what is to be undone is read there.
using System.Text;
using Slogger.Faster.Commands;
using Slogger.Proxy.Past;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;

namespace Slogger.Proxy.Shards;

internal partial class FasterShard : IResetStore
{
    internal override Task EndResetAsync() => _reset.OnStoreLostAsync();

    // Nobody holds its sessions back.
    string? IResetStore.WhyNot => !AdmitsLocal ? null : "the shard runs in an application, whose own sessions cannot be made to wait: take "
        + "a snapshot of that instant (slogger snapshot), and put it into another cluster (slogger load)";

    ShardPast IResetStore.Past => Reads ?? throw new PastException(NoPast);

    // In the store and in the history.
    IReadOnlyList<(string Directory, double Times)> IResetStore.Room => [(_options.DataDirectory, 2)];

    // A process that dies loses what was in memory. It starts with a commit, and no version is committed with a part of a reset.
    void IResetStore.NoteReset()
    {
    }

    void IResetStore.ForgetReset()
    {
    }

    bool IResetStore.GoesBackInPlace() => true;

    // On the loop's thread, as what clients send. One that waits there when a recovery begins finds that nothing may be written any more.
    async Task IResetStore.WriteAsync(IEnumerable<RedisBatch> batches, Action check, CancellationToken stop)
    {
        foreach (RedisBatch batch in batches)
        {
            var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            Access.Post(() =>
            {
                try
                {
                    stop.ThrowIfCancellationRequested();
                    check();
                    Write(batch);
                    done.SetResult();
                }
                catch (Exception e)
                {
                    done.SetException(e);
                }
            });
            await done.Task.WaitAsync(stop).ConfigureAwait(false);
        }
    }

    private unsafe void Write(RedisBatch batch)
    {
        using CommandConnection connection = _engine!.Connect();
        using var replies = new ReplyBuffer();
        fixed (byte* commands = batch.Written.Span)
        {
            for (nint done = 0; done < batch.Bytes;)
            {
                done += connection.Execute(commands + done, batch.Bytes - (int)done, replies);
                // Each is one line.
                string text = Encoding.UTF8.GetString(replies.Start, (int)replies.Count);
                if (text.Split("\r\n").FirstOrDefault(l => l.StartsWith('-')) is { } error)
                {
                    throw new RedisException(RedisProblem.Protocol, $"the store answered {error[1..]}");
                }
                replies.Consume(replies.Count);
            }
        }
    }
}
