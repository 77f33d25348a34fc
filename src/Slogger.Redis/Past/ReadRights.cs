// Whether a user may read what it asks of the past: the live Redis knows, by its rules of today.
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Redis.Past;

/// <summary>Asks a Redis who may read what, over one connection. Any thread.</summary>
public sealed class ReadRights : IAsyncDisposable
{
    private readonly RedisConnection _live;

    private ReadRights(RedisConnection live) => _live = live;

    /// <summary>Connects.</summary>
    /// <param name="live">The Redis, as a user who may ask.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="RedisException">It cannot be reached.</exception>
    public static async Task<ReadRights> OpenAsync(RedisEndpoint live, CancellationToken stop) =>
        new(await RedisConnection.ConnectAsync(live, cancellation: stop).ConfigureAwait(false));

    /// <summary>Asks whether a user may run a command (<c>ACL DRYRUN</c>, Redis 7.0 or later); nothing of it is run.</summary>
    /// <param name="user">The user.</param>
    /// <param name="words">The command.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The error that Redis would answer, without '-' and line end; null: the user may.</returns>
    /// <exception cref="RedisException">Redis could not be asked.</exception>
    public async Task<string?> RefusalAsync(string user, IReadOnlyList<byte[]> words, CancellationToken stop)
    {
        RedisBatch asked = new RedisBatch().Add(["ACL"u8.ToArray(), "DRYRUN"u8.ToArray(), Encoding.Latin1.GetBytes(user), .. words]);
        using CommandCounts.Sending? counted = _live.Endpoint.Counts?.Send("ACL", "DRYRUN");
        RedisReply reply = (await _live.PipelineAsync(asked.Written, asked.Count, stop).ConfigureAwait(false))[0];
        return reply switch
        {
            { Kind: RedisReplyKind.Status, Text: "OK" } => null,
            { IsError: true } => $"ERR SLOGGER it cannot be asked whether {user} may read this: Redis answered {reply.Text}",
            _ => $"NOPERM {reply.Text}",
        };
    }

    /// <inheritdoc />
    public ValueTask DisposeAsync() => _live.DisposeAsync();
}
