// Scripts in a lens. A script may name any key in its text, and only those that it has declared are there: so it runs as a user of the
// lens's Redis who may read these keys and no others. What it reads besides is an error of Redis, and never a value that was not.
//
// Commands that tell what is otherwise in a lens are not allowed to it: expiries, which the lens has moved away, and names of keys.
using System.Text;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Past;

/// <summary>Runs scripts. One caller at a time.</summary>
internal sealed class LensScripts(RedisEndpoint endpoint, TimeSpan answerMax) : IAsyncDisposable
{
    private const string User = "slogger-script", AnyPassword = "-";

    private static readonly string[] s_never = ["-ttl", "-pttl", "-expiretime", "-pexpiretime", "-object", "-keys", "-scan", "-dbsize",
        "-randomkey"];

    private RedisPipeline? _connection;
    private int _database, _protocol = 2;

    /// <summary>The command that gives the user the rights to one script.</summary>
    /// <param name="rules">Which commands whoever asks may run, as ACL SETUSER takes it.</param>
    /// <param name="keys">The keys that it has declared.</param>
    /// <exception cref="PastException">Redis cannot be told of such a key.</exception>
    public static byte[][] Allow(IReadOnlyList<string> rules, IReadOnlyList<byte[]> keys)
    {
        string[] begin = ["ACL", "SETUSER", User, "reset", "on", "nopass", .. rules, .. s_never];
        return [.. begin.Select(Encoding.Latin1.GetBytes), .. keys.Select(PatternOf)];
    }

    /// <summary>Runs one.</summary>
    /// <param name="database">The database that is selected.</param>
    /// <param name="protocol">Of the reply: 2 or 3.</param>
    /// <param name="words">The command.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>The reply, as it stands on the wire.</returns>
    /// <exception cref="RedisException">The connection failed.</exception>
    public async Task<byte[]> RunAsync(int database, int protocol, IReadOnlyList<byte[]> words, CancellationToken stop)
    {
        _connection ??= await RedisPipeline.ConnectAsync(endpoint with { User = User, Password = AnyPassword }, answerMax, stop)
            .ConfigureAwait(false);
        var batch = new RedisBatch();
        if (protocol != _protocol) { batch.Add("HELLO"u8.ToArray(), Encoding.ASCII.GetBytes($"{protocol}")); }
        if (database != _database) { batch.Add("SELECT"u8.ToArray(), Encoding.ASCII.GetBytes($"{database}")); }
        (_protocol, _database) = (protocol, database);
        return (await _connection.RunOnWireAsync(batch.Add([.. words]), stop).ConfigureAwait(false))[^1];
    }

    public ValueTask DisposeAsync() => _connection?.DisposeAsync() ?? ValueTask.CompletedTask;

    // That fits this key alone.
    private static byte[] PatternOf(byte[] key)
    {
        if (key.Any(b => b == 0 || char.IsWhiteSpace((char)b)))
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
