// Which commands the store has is asked for before anybody shares a connection to it, when a module is loaded through the
// proxy, and, since one may be loaded at Redis directly, at a slow pace when their number has changed. Not again where a
// shard goes on with the same run of its store: the answer costs Redis, and who reads it, milliseconds.
using System.Buffers.Text;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    // As many as the table of names has room for.
    public const int UnknownCommandsMax = 600;
    private static readonly string[] NotToBeShared = [.. CommandKinds.NotToBeShared];
    private StoreCommands _commands = StoreCommands.None;
    private bool _areCommandsKnown;
    private string _storeRun = "", _commandsOf = "";
    private bool _hidesCommands;

    /// <summary>The names at which a scan of ordinary commands stops.</summary>
    public SpecialNames Special { get; private set; } = CommandKinds.Special;

    /// <summary>Asks which commands there are.</summary>
    public void LearnCommands()
    {
        if (Shared is { IsClosed: false } shared) { AskCommands(shared); } else { _areCommandsKnown = false; }
    }

    private void AskCommands(Upstream upstream)
    {
        CountInternal("command");
        CountInternal("command|info");
        var bytes = new StringBuilder($"*1\r\n$7\r\ncOMMAND\r\n*{NotToBeShared.Length + 2}\r\n$7\r\ncOMMAND\r\n$4\r\nINFO\r\n");
        foreach (string name in NotToBeShared) { bytes.Append('$').Append(name.Length).Append("\r\n").Append(name).Append("\r\n"); }
        upstream.Write(Encoding.ASCII.GetBytes(bytes.ToString()));
        upstream.Expect(null, 1, ReplyKind.Commands);
        upstream.Expect(null, 1, ReplyKind.CommandNames);
    }

    /// <summary>All commands; or an error, if a new connection may not know.</summary>
    public void OnCommands(ReadOnlySpan<byte> reply)
    {
        _commands = reply[0] == (byte)'-' ? StoreCommands.None : StoreCommands.Of(reply);
        if (_commands.ByName.Count > 0) { Slots = Slots?.WithCommands(_commands); }
    }

    /// <summary>Those of the commands that must not be shared which are there under their own names.</summary>
    public void OnCommandNames(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        LearnNames(reply);
        if (upstream == _probe) { OnGreeting(upstream, "+OK\r\n"u8); }
    }

    private void LearnNames(ReadOnlySpan<byte> reply)
    {
        if (_commands.ByName.Count == 0 || reply[0] == (byte)'-') { return; }
        (_areCommandsKnown, _commandsOf) = (true, _storeRun);
        List<KeyValuePair<string, CommandKind>> unknown = _commands.Unknown();
        List<string> renamed = _commands.Renamed(NotToBeShared, reply);
        bool hides = renamed.Count > 0 || unknown.Count > UnknownCommandsMax;
        Special = unknown.Count is 0 or > UnknownCommandsMax ? CommandKinds.Special : CommandKinds.With(unknown);
        if (hides && !_hidesCommands)
        {
            string why = renamed.Count > 0 ? $"Redis has {string.Join(", ", renamed)} under another name" : $"Redis has {unknown.Count} commands of modules";
            Shard.Warn($"{why}, which the proxy cannot tell from ordinary commands: every client gets a connection of its own");
        }
        _hidesCommands = hides;
        if (hides && Shared is not null) { RetireShared(); }
    }

    private void AskCommandCount(Upstream upstream)
    {
        CountInternal("command|count");
        upstream.Write("*2\r\n$7\r\ncOMMAND\r\n$5\r\nCOUNT\r\n"u8);
        upstream.Expect(null, 1, ReplyKind.CommandCount);
    }

    /// <summary>How many commands there are.</summary>
    public void OnCommandCount(ReadOnlySpan<byte> reply)
    {
        if (reply[0] == (byte)':' && Utf8Parser.TryParse(reply[1..], out int count, out _) && count != _commands.ByName.Count) { LearnCommands(); }
    }
}
