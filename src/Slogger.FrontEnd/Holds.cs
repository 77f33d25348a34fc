// Requests that are held: writes, while the log kept for a backup is at its budget; all, while the site is handed over. The shard says
// which (IShardPort.Hold). A client whose next request is held is
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

/// <summary>Clients whose next request is held. The loop's thread.</summary>
internal sealed class HeldClients(FrontEndLoop loop)
{
    private const int CheckedAbove = 64;
    private readonly List<Client> _held = [];

    /// <summary>A client's next request is held.</summary>
    public void Add(Client client)
    {
        // It may take hours, in which many come and go.
        if (_held.Count > CheckedAbove + (2 * loop.Clients.Count)) { _held.RemoveAll(static c => c.IsClosed); }
        _held.Add(client);
    }

    /// <summary>Less is held than before: each looks at its next request again.</summary>
    public void Release()
    {
        Client[] held = [.. _held];
        _held.Clear();
        foreach (Client client in held) { client.OnHoldEnded(); }
    }

    private static ReadOnlySpan<byte> QuestionPrefix => "DPR."u8;

    /// <summary>Whether the request that begins here is held: known when its name has come.</summary>
    public unsafe bool IsHeld(byte* p, byte* end)
    {
        var bytes = new ReadOnlySpan<byte>(p, (int)Math.Min(end - p, 1024));
        int at = bytes.IndexOf((byte)'$');
        if (bytes[0] != (byte)'*' || at < 0) { return false; }
        ReadOnlySpan<byte> line = bytes[(at + 1)..];
        int newline = line.IndexOf((byte)'\n');
        if (newline < 1 || !System.Buffers.Text.Utf8Parser.TryParse(line, out int length, out int digits) || digits != newline - 1
            || length <= 0 || line.Length < newline + 1 + length)
        {
            return false;
        }
        ReadOnlySpan<byte> name = line.Slice(newline + 1, length);
        return loop.Shard.Hold switch
        {
            Hold.Writes => loop.Catalog.MayWrite(name) || KeyCommands.MayWrite(name),
            Hold.All => KeyCommands.Has(name)
                || !(name.Length > QuestionPrefix.Length && Ascii.EqualsIgnoreCase(name[..QuestionPrefix.Length], QuestionPrefix))
                || Ascii.EqualsIgnoreCase(name, "DPR.BATCH"u8),
            _ => false,
        };
    }
}
