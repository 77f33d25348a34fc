// Scripts in a lens. A script may name any key in its text, and only those that it has declared are there: so it runs as a user of the
// lens's Redis who may read these keys and no others. What it reads besides is an error of Redis, and never a value that was not.
//
// Commands that tell what is otherwise in a lens are not allowed to it: other databases, expiries, which the lens has moved away, and names
// of keys. Where all keys are, only expiries are otherwise.
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>Runs scripts. One caller at a time.</summary>
internal sealed class LensScripts(RedisEndpoint endpoint, TimeSpan answerMax) : IAsyncDisposable
{
    private const string User = "slogger-script", AnyPassword = "-";

    /// <summary>Commands that tell expiries, which are moved away, as rules that forbid them.</summary>
    public static IReadOnlyList<string> Never => s_never;

    private static readonly string[] s_never = ["-ttl", "-pttl", "-expiretime", "-pexpiretime", "-object"];
    private static readonly string[] s_notOfSome = ["-select", "-keys", "-scan", "-dbsize", "-randomkey"];

    private RedisPipeline? _connection;
    private (int Database, int Protocol) _is = (0, 2);

    /// <summary>Runs one.</summary>
    /// <param name="tell">Sends a command to the lens's Redis as its own user, and returns the reply.</param>
    /// <param name="database">The database that is selected.</param>
    /// <param name="protocol">Of the reply: 2 or 3.</param>
    /// <param name="rules">Which commands whoever asks may run, as ACL SETUSER takes it.</param>
    /// <param name="keys">The keys that it has declared; null: it may read all, and all are there.</param>
    /// <param name="words">The command.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The reply, as it stands on the wire.</returns>
    /// <exception cref="PastException">Redis cannot be told of such a key, or of such rights.</exception>
    /// <exception cref="RedisException">The connection failed.</exception>
    public async Task<byte[]> RunAsync(Func<byte[][], Task<byte[]>> tell, int database, int protocol, IReadOnlyList<string> rules,
        IReadOnlyList<byte[]>? keys, IReadOnlyList<byte[]> words, CancellationToken stop)
    {
        byte[][] reach = keys is null ? ["allkeys"u8.ToArray()]
            : [.. s_notOfSome.Select(Encoding.ASCII.GetBytes), .. keys.Select(PatternOf)];
        if (_connection is null || _is != (database, protocol))
        {
            // The script's own rights need not allow this.
            Expect(await tell(UserWith("+select", "+hello")).ConfigureAwait(false));
            _connection ??= await RedisPipeline.ConnectAsync(endpoint with { User = User, Password = AnyPassword }, answerMax, stop)
                .ConfigureAwait(false);
            _is = (-1, -1);
            RedisBatch batch = new RedisBatch().Add("HELLO"u8.ToArray(), EffectReplay.Number(protocol))
                .Add("SELECT"u8.ToArray(), EffectReplay.Number(database));
            foreach (byte[] reply in await _connection.RunOnWireAsync(batch, stop).ConfigureAwait(false)) { Expect(reply); }
            _is = (database, protocol);
        }
        Expect(await tell([.. UserWith([.. rules, .. s_never]), .. reach]).ConfigureAwait(false));
        return (await _connection.RunOnWireAsync(new RedisBatch().Add([.. words]), stop).ConfigureAwait(false))[0];
    }

    public ValueTask DisposeAsync() => _connection?.DisposeAsync() ?? ValueTask.CompletedTask;

    private static byte[][] UserWith(params IReadOnlyList<string> rules)
    {
        string[] words = ["ACL", "SETUSER", User, "reset", "on", "nopass", .. rules];
        return [.. words.Select(Encoding.Latin1.GetBytes)];
    }

    private static void Expect(byte[] reply)
    {
        if (reply[0] != (byte)'-') { return; }
        throw new PastException($"the script cannot be given its rights: Redis answered {Encoding.UTF8.GetString(reply).TrimEnd()}");
    }

    // That fits this key alone.
    private static byte[] PatternOf(byte[] key)
    {
        if (key.Any(b => b is 0 or (byte)' ' or (>= 9 and <= 13)))
        {
            throw new PastException("a script of the past cannot read a key with a space or a zero byte in its name");
        }
        var pattern = new List<byte> { (byte)'~' };
        foreach (byte b in key)
        {
            if (b is (byte)'*' or (byte)'?' or (byte)'[' or (byte)']' or (byte)'\\') { pattern.Add((byte)'\\'); }
            pattern.Add(b);
        }
        return [.. pattern];
    }
}
