// Requests that are held: writes, while the log kept for a backup is at its budget; all, while the site is handed over. The shard says which (IShardPort.Hold). A client whose next request is held is
// not read any more, as for back-pressure, so nothing of it overtakes; nothing else is looked at one by one but while something is held.
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Which requests of clients are held.</summary>
internal enum Hold : byte
{
    /// <summary>None.</summary>
    None,

    /// <summary>Those that may put something into the store's replication stream.</summary>
    Writes,

    /// <summary>All, but questions to the proxy itself.</summary>
    All,
}

internal sealed unsafe partial class FrontEndLoop
{
    private readonly List<Client> _held = [];

    /// <summary>A client's next request is held.</summary>
    public void WaitForHold(Client client)
    {
        // It may take hours, in which many come and go.
        if (_held.Count > 64 + (2 * Clients.Count)) { _held.RemoveAll(c => c.IsClosed); }
        _held.Add(client);
    }

    /// <summary>Less is held than before: each looks at its next request again.</summary>
    public void OnHoldEnded()
    {
        Client[] held = [.. _held];
        _held.Clear();
        foreach (Client client in held) { client.OnHoldEnded(); }
    }

    /// <summary>Awaits all that was forwarded before. What blocks with nothing behind it is not awaited: it does nothing while all others are held.</summary>
    public void AwaitForwarded(Withholding withholding)
    {
        if (Shared is { } shared) { withholding.Await(shared); }
        if (_retiring is { } retiring) { withholding.Await(retiring); }
        foreach (Upstream lingering in Lingering) { withholding.AwaitEnd(lingering); }
        foreach (Client client in Clients)
        {
            if (!client.HoldsUp(Slots, out bool mustEnd)) { continue; }
            withholding.Await(client.Dedicated!);
            if (mustEnd) { withholding.MustEnd.Add(client); }
        }
        _withholdings.Add(withholding);
    }

    /// <summary>Whether a command may write, by what the store says of it: also what it sends to replicas without changing anything.</summary>
    public bool MayWrite(ReadOnlySpan<byte> name)
    {
        // Queued, and done by EXEC.
        if (Ascii.EqualsIgnoreCase(name, "EXEC"u8)) { return true; }
        return _commands.ByName.TryGetValue(Encoding.Latin1.GetString(name).ToUpperInvariant(), out HashSet<string>? flags)
            ? flags.Contains("write") || flags.Contains("may_replicate")
            // Unknown to the store it is refused there; unless that has told nothing, or has given commands other names.
            : _commands.ByName.Count == 0 || _hidesCommands;
    }
}

internal sealed unsafe partial class Client
{
    private static ReadOnlySpan<byte> QuestionPrefix => "DPR."u8;

    // Whether the request that begins here is held: known when its name has come.
    private bool IsHeld(byte* p, byte* end)
    {
        var bytes = new ReadOnlySpan<byte>(p, (int)Math.Min(end - p, 1024));
        int at = bytes.IndexOf((byte)'$');
        if (bytes[0] != (byte)'*' || at < 0) { return false; }
        ReadOnlySpan<byte> line = bytes[(at + 1)..];
        int newline = line.IndexOf((byte)'\n');
        if (newline < 1 || !System.Buffers.Text.Utf8Parser.TryParse(line, out int length, out int digits) || digits != newline - 1 || length <= 0 || line.Length < newline + 1 + length) { return false; }
        ReadOnlySpan<byte> name = line.Slice(newline + 1, length);
        return _loop.Shard.Hold switch
        {
            Hold.Writes => _loop.MayWrite(name),
            Hold.All => !(name.Length > QuestionPrefix.Length && Ascii.EqualsIgnoreCase(name[..QuestionPrefix.Length], QuestionPrefix)) || Ascii.EqualsIgnoreCase(name, "DPR.BATCH"u8),
            _ => false,
        };
    }

    /// <summary>Less is held than before.</summary>
    public void OnHoldEnded()
    {
        if (!IsClosed && _waiting == Waiting.Held) { EndWait(); }
    }
}
