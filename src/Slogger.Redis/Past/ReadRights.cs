// Whether a user may read what it asks of the past: the live Redis knows, by its rules of today.
using System.Buffers;
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>Asks a Redis who may read what.</summary>
public static class ReadRights
{
    /// <summary>Asks whether a user may run a command (<c>ACL DRYRUN</c>, Redis 7.0 or later); nothing of it is run.</summary>
    /// <param name="live">The Redis, as a user who may ask.</param>
    /// <param name="user">The user.</param>
    /// <param name="words">The command.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The error that Redis would answer, without '-' and line end; null: the user may.</returns>
    /// <exception cref="RedisException">Redis could not be asked.</exception>
    public static async Task<string?> RefusalAsync(RedisEndpoint live, string user, IReadOnlyList<byte[]> words, CancellationToken stop)
    {
        var sent = new ArrayBufferWriter<byte>();
        EffectReplay.Write(sent, ["ACL"u8.ToArray(), "DRYRUN"u8.ToArray(), Encoding.Latin1.GetBytes(user), .. words]);
        await using RedisConnection connection = await RedisConnection.ConnectAsync(live, cancellation: stop).ConfigureAwait(false);
        RedisReply reply = (await connection.PipelineAsync(sent.WrittenMemory, 1, stop).ConfigureAwait(false))[0];
        return reply switch
        {
            { Kind: RedisReplyKind.Status, Text: "OK" } => null,
            { IsError: true } => $"ERR SLOGGER it cannot be asked whether {user} may read this: Redis answered {reply.Text}",
            _ => $"NOPERM {reply.Text}",
        };
    }
}
