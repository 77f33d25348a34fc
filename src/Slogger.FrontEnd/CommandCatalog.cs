// Which commands the store has. It is asked before anybody shares a connection to it, when a module is loaded through the
// proxy, and, since one may be loaded at Redis directly, at a slow pace when their number has changed. It is not asked again where a
// shard goes on with the same run of its store: the answer costs Redis, and the proxy that reads it, milliseconds.
using System.Buffers.Text;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>What the front end knows of the store's commands. The loop's thread.</summary>
internal sealed class CommandCatalog(FrontEndLoop loop)
{
    // As many as the table of names has room for.
    public const int UnknownMax = 600;
    private static readonly string[] NotToBeShared = [.. CommandKinds.NotToBeShared];
    private StoreCommands _commands = StoreCommands.None;
    private string _storeRun = "", _commandsOf = "";

    /// <summary>The names at which a scan of ordinary commands stops.</summary>
    public SpecialNames Special { get; private set; } = loop.Cohort is null ? CommandKinds.Special : CommandKinds.InCohort;

    /// <summary>Where commands have their keys, as far as the store has told.</summary>
    public KeyFinder Keys => _commands.Keys;

    /// <summary>Whether the store has told its commands, and has not changed since.</summary>
    public bool IsKnown { get; private set; }

    /// <summary>Whether the store has commands that the proxy cannot tell from ordinary ones: then nobody shares.</summary>
    public bool HidesCommands { get; private set; }

    /// <summary>The store can be used.</summary>
    /// <param name="run">Which run of the store's program it is; empty: not known.</param>
    public void OnStoreOpens(string run)
    {
        IsKnown |= run.Length > 0 && run == _commandsOf;
        _storeRun = run;
    }

    /// <summary>What is known may be of another store than the one that comes next.</summary>
    public void Forget() => IsKnown = false;

    /// <summary>Asks which commands there are, since that may have changed.</summary>
    public void Learn()
    {
        if (loop.Shared is { IsClosed: false } shared) { Ask(shared); } else { IsKnown = false; }
    }

    /// <summary>Asks which commands there are.</summary>
    public void Ask(Upstream upstream)
    {
        loop.CountInternal("command");
        loop.CountInternal("command|info");
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
        if (_commands.ByName.Count > 0) { loop.UseCommands(_commands); }
    }

    /// <summary>Those of the commands that must not be shared which are there under their own names.</summary>
    public void OnNames(ReadOnlySpan<byte> reply)
    {
        if (_commands.ByName.Count == 0 || reply[0] == (byte)'-') { return; }
        (IsKnown, _commandsOf) = (true, _storeRun);
        List<KeyValuePair<string, CommandKind>> unknown = _commands.Unknown();
        List<string> renamed = _commands.Renamed(NotToBeShared, reply);
        bool hides = renamed.Count > 0 || unknown.Count > UnknownMax;
        Special = CommandKinds.With(unknown.Count > UnknownMax ? [] : unknown, loop.Replies.IsOn ? _commands.Keys.Reads : [],
            loop.Cohort is not null);
        if (hides && !HidesCommands)
        {
            string why = renamed.Count > 0 ? $"Redis has {string.Join(", ", renamed)} under another name"
                : $"Redis has {unknown.Count} commands of modules";
            loop.Shard.Warn($"{why}, which the proxy cannot tell from ordinary commands: every client gets a connection of its own");
        }
        HidesCommands = hides;
        if (hides && loop.Shared is not null) { loop.Sharing.Retire(); }
    }

    /// <summary>Asks how many commands there are.</summary>
    public void CheckCount(Upstream upstream)
    {
        if (!IsKnown) { return; }
        loop.CountInternal("command|count");
        upstream.Write("*2\r\n$7\r\ncOMMAND\r\n$5\r\nCOUNT\r\n"u8);
        upstream.Expect(null, 1, ReplyKind.CommandCount);
    }

    /// <summary>How many commands there are.</summary>
    public void OnCount(ReadOnlySpan<byte> reply)
    {
        if (reply[0] == (byte)':' && Utf8Parser.TryParse(reply[1..], out int count, out _) && count != _commands.ByName.Count) { Learn(); }
    }

    /// <summary>Whether a command may write, by what the store says of it: also what it sends to replicas without changing
    /// anything.</summary>
    public bool MayWrite(ReadOnlySpan<byte> name)
    {
        // Queued, and done by EXEC.
        if (Ascii.EqualsIgnoreCase(name, "EXEC"u8)) { return true; }
        return _commands.ByName.TryGetValue(Encoding.Latin1.GetString(name).ToUpperInvariant(), out HashSet<string>? flags)
            ? flags.Contains("write") || flags.Contains("may_replicate")
            // Unknown to the store it is refused there; unless that has told nothing, or has given commands other names.
            : _commands.ByName.Count == 0 || HidesCommands;
    }
}
