// Scripts. Redis knows those that it has run, until it is started anew: so a script is named first, and sent if it is not known.
using System.Diagnostics.CodeAnalysis;
using System.Security.Cryptography;
using System.Text;
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>Scripts in Lua.</summary>
public static class ScriptCommands
{
    /// <summary>Runs a script. Redis's EVALSHA; if Redis does not know the script, then EVAL, as another operation. That one is executed
    /// behind what was started meanwhile: where such an order matters, await the script before starting more. All of it is of one version,
    /// and all of its keys must be in one partition. Exceptions as for <see cref="SloggerSession.GetAsync"/>.</summary>
    /// <param name="session">The session.</param>
    /// <param name="script">Its text.</param>
    /// <param name="keys">All keys that it uses: KEYS.</param>
    /// <param name="arguments">What it is given besides: ARGV.</param>
    /// <param name="flags">What is asked for besides. A script that may run twice can be <see cref="OperationFlags.Idempotent"/>.</param>
    /// <param name="cancellation">Ends the wait for the answer; the script may be executed all the same.</param>
    /// <returns>What the script returns.</returns>
    public static async ValueTask<Result<RespValue>> ScriptEvaluateAsync(this SloggerSession session, string script,
        IReadOnlyCollection<Argument>? keys = null, IReadOnlyCollection<Argument>? arguments = null,
        OperationFlags flags = OperationFlags.None, CancellationToken cancellation = default)
    {
        ArgumentNullException.ThrowIfNull(session);
        ArgumentNullException.ThrowIfNull(script);
        Argument[] rest = [keys?.Count ?? 0, .. keys ?? [], .. arguments ?? []];
        try
        {
            return await session.OnKeys(Replies.Value, flags, cancellation, "EVALSHA", [NameOf(script), .. rest]).ConfigureAwait(false);
        }
        catch (RedisErrorException e) when (e.Message.StartsWith("NOSCRIPT", StringComparison.Ordinal))
        {
            return await session.OnKeys(Replies.Value, flags, cancellation, "EVAL", [script, .. rest]).ConfigureAwait(false);
        }
    }

    [SuppressMessage("Security", "CA5350", Justification = "Redis names scripts so.")]
    private static string NameOf(string script) => Convert.ToHexStringLower(SHA1.HashData(Encoding.UTF8.GetBytes(script)));
}
