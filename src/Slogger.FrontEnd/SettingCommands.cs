// Commands about the store itself: its settings, users, modules and process. The proxy refuses such as would take the store away from it,
// or
// change data or history behind the version log's back.
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Handlers of CONFIG, ACL, MODULE, DEBUG and of what would take the store away.</summary>
internal static class SettingCommands
{
    private static readonly HashSet<string> FollowingSettings = new(StringComparer.OrdinalIgnoreCase)
    {
        "replica-read-only", "slave-read-only", "replica-ignore-maxmemory", "slave-ignore-maxmemory", "repl-timeout",
            "notify-keyspace-events",
        "tls-replication", "replica-serve-stale-data", "slave-serve-stale-data",
    };

    private static readonly HashSet<string> OwnedSettings = new(StringComparer.OrdinalIgnoreCase)
    {
        "masterauth", "masteruser", "repl-diskless-load", "replica-serve-stale-data", "slave-serve-stale-data",
    };

    private static LockOut LockOutOf(Client client) => new(client.Loop.Store, client.Loop.Probe.NeedsPassword, client.Facts);

    // ---- CONFIG ----

    public static bool Config(Client client)
    {
        if (client.ArgumentIs(1, "RESETSTAT"u8)) { return StatisticsCommands.Reset(client); }
        List<(string Name, string Value)> settings = KnownSettings(client);
        if (ChangesPassword(client)) { return ChangeRights(client, settings); }
        return settings.Count == 0
            ? client.Forward(needsDedicated: true)
            : client.Forward(needsDedicated: true, barrier: true, then: (c, _, failed, reply) =>
            {
                if (!failed) { Learn(c, settings); }
                c.Answer(reply);
            });
    }

    public static bool QueueConfig(Client client)
    {
        if (ChangesPassword(client)) { client.Transaction.QueueChange(rights: true); }
        return client.Forward(needsDedicated: true);
    }

    private static bool ChangesPassword(Client client) => client.ArgumentIs(1, "SET"u8) && client.HasArgument("requirepass"u8);

    // Of a CONFIG SET that goes on to Redis: what the front end must know when it has succeeded.
    private static List<(string Name, string Value)> KnownSettings(Client client)
    {
        List<(string Name, string Value)> settings = [];
        if (!client.ArgumentIs(1, "SET"u8)) { return settings; }
        for (int i = 2; i + 1 < client.ArgumentCount; i += 2)
        {
            if (client.ArgumentIs(i, "timeout"u8) || client.ArgumentIs(i, "slowlog-max-len"u8))
            {
                settings.Add((Encoding.Latin1.GetString(client.Argument(i)), Encoding.Latin1.GetString(client.Argument(i + 1))));
            }
        }
        return settings;
    }

    private static void Learn(Client client, List<(string Name, string Value)> settings)
    {
        foreach ((string name, string value) in settings) { client.Loop.Settings.OnSetting(name, value); }
    }

    public static string? RefuseConfig(Client client)
    {
        if (!client.ArgumentIs(1, "SET"u8)) { return null; }
        for (int i = 2; i < client.ArgumentCount; i += 2)
        {
            string name = Encoding.ASCII.GetString(client.Argument(i));
            bool cutsLink = name.Equals("client-output-buffer-limit", StringComparison.OrdinalIgnoreCase) && i + 1 < client.ArgumentCount
                && Encoding.ASCII.GetString(client.Argument(i + 1)) is { } limits
                && (limits.Contains("replica", StringComparison.OrdinalIgnoreCase)
                || limits.Contains("slave", StringComparison.OrdinalIgnoreCase));
            if (cutsLink)
            {
                return "ERR SLOGGER a limit for replicas would cut the proxy's replication link: set limits for normal and pubsub only";
            }
            if (OwnedSettings.Contains(name))
            {
                return $"ERR SLOGGER '{name}' is set by the proxy, which needs it to restore this Redis";
            }
            if (i + 1 < client.ArgumentCount && LockOutOf(client)
                .OfSetting(name, client.TextOf(i + 1), client.Loop.Upstreams.Count) is { } lockOut)
            {
                return lockOut;
            }
        }
        return LockOutOf(client).OfProtection(LastOf(client, "protected-mode"u8), LastOf(client, "requirepass"u8));
    }

    // The value of a setting that CONFIG SET names; null: it does not.
    private static string? LastOf(Client client, ReadOnlySpan<byte> setting)
    {
        for (int i = client.ArgumentCount - 2; i >= 2; i--)
        {
            if (i % 2 == 0 && client.ArgumentIs(i, setting)) { return client.TextOf(i + 1); }
        }
        return null;
    }

    public static bool ConfigNeedsFacts(Client client) => client.ArgumentIs(1, "SET"u8)
        && (client.HasArgument("maxclients"u8) || client.HasArgument("protected-mode"u8) || client.HasArgument("requirepass"u8));

    public static string? ConfigAtBackup(Client client) => client.ArgumentIs(1, "SET"u8) ? BackupSetting(client) : null;

    private static string? BackupSetting(Client client)
    {
        for (int i = 2; i < client.ArgumentCount; i += 2)
        {
            string name = Encoding.ASCII.GetString(client.Argument(i));
            if (FollowingSettings.Contains(name))
            {
                return $"ERR SLOGGER '{name}' is set by the proxy while this Redis follows the primary's log";
            }
        }
        return null;
    }

    // ---- ACL ----

    public static bool Acl(Client client) => ChangesUsers(client) ? ChangeRights(client, []) : client.Forward(needsDedicated: true);

    public static bool QueueAcl(Client client)
    {
        if (ChangesUsers(client)) { client.Transaction.QueueChange(rights: true); }
        return client.Forward(needsDedicated: true);
    }

    private static bool ChangesUsers(Client client) =>
        client.ArgumentIs(1, "SETUSER"u8) || client.ArgumentIs(1, "DELUSER"u8) || client.ArgumentIs(1, "LOAD"u8);

    public static string? RefuseAcl(Client client)
    {
        LockOut lockOut = LockOutOf(client);
        if (client.ArgumentIs(1, "SETUSER"u8) && client.ArgumentCount > 3)
        {
            string user = client.TextOf(2);
            string[] rules = [.. Enumerable.Range(3, client.ArgumentCount - 3).Select(client.TextOf)];
            return rules.Select(rule => lockOut.OfRule(user, rule)).FirstOrDefault(why => why is not null)
                ?? lockOut.OfOpening(user, rules);
        }
        if (client.ArgumentIs(1, "DELUSER"u8))
        {
            return Enumerable.Range(2, client.ArgumentCount - 2).Select(i => lockOut.OfRemoval(client.TextOf(i)))
                .FirstOrDefault(why => why is not null);
        }
        return client.ArgumentIs(1, "LOAD"u8) ? lockOut.OfLoading() : null;
    }

    public static bool AclNeedsFacts(Client client) =>
        client.ArgumentIs(1, "SETUSER"u8) && client.ArgumentCount > 3 && client.TextOf(2) == FrontEndLoop.DefaultUser;

    // Nobody is to be asked about sharing from the moment on that this is on its way; before, the client itself may
    // have to wait for an answer.
    private static bool ChangeRights(Client client, List<(string Name, string Value)> settings)
    {
        Upstream? upstream = client.Route(needsDedicated: true);
        if (upstream is null) { return false; }
        client.Loop.Probe.Suspend();
        client.SendRequest(upstream);
        client.ForwardWritten(upstream, barrier: true, then: (c, _, failed, reply) =>
        {
            if (!failed) { Learn(c, settings); }
            c.Answer(reply);
            c.Loop.Probe.Check();
        });
        return false;
    }

    // ---- MODULE, and what runs on a connection of the client's own ----

    public static bool Module(Client client) => client.Forward(needsDedicated: true, OnModule, barrier: true);

    private static void OnModule(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (!failed) { client.Loop.Catalog.Learn(); }
        client.Answer(reply);
    }

    // SCRIPT KILL and FUNCTION KILL must work while nothing else does.
    public static bool Dedicated(Client client) => client.Forward(needsDedicated: true, viewMatters: !client.ArgumentIs(1, "KILL"u8));

    public static string RefuseTakeover(Client client) => (client.Pins & Pins.Multi) != 0 && client.ArgumentIs(0, "SHUTDOWN"u8)
        ? "ERR Command not allowed inside a transaction"
        : $"ERR SLOGGER '{Encoding.ASCII.GetString(client.Argument(0)).ToUpperInvariant()}' would take the store away from the proxy: "
        + "stop or move the shard with the slogger command";

    // ---- DEBUG ----
    //
    // Some of it changes data in a way that Redis does not tell its replicas, and so not the version log: nothing is committed
    // until a checkpoint holds the change. The reply comes after that checkpoint: a client that sends the next such command, or a
    // BGREWRITEAOF, on the reply would find Redis's one child process busy with it, as it never is on a Redis of one's own.

    public static bool Debug(Client client)
    {
        if (!client.Loop.Gate.IsVersioned || !IsUnlogged(client)) { return Dedicated(client); }
        return UnloggedChange.Forward(client);
    }

    // (RELOAD alone saves first: the data stays.)
    private static bool IsUnlogged(Client client) =>
        client.ArgumentIs(1, "POPULATE"u8) || client.ArgumentIs(1, "LOADAOF"u8) || (client.ArgumentIs(1, "RELOAD"u8)
            && client.ArgumentCount > 2);

    public static string? RefuseDebug(Client client)
    {
        if (client.ArgumentIs(1, "CHANGE-REPL-ID"u8) || client.ArgumentIs(1, "REPLICATE"u8))
        {
            return "ERR SLOGGER this DEBUG command changes the history that the version log keeps: start the proxy with "
                + "--commit none for it";
        }
        return (client.Pins & Pins.Multi) != 0 && IsUnlogged(client)
            ? "ERR SLOGGER this DEBUG command changes data in a way that the version log cannot replay: it cannot be part of a transaction"
            : null;
    }

    // ---- Names that no command has ----

    private const int ErrorArgumentsBytes = 128;

    public static bool RefuseUnknown(Client client) => client.RefuseCommand(UnknownCommandError(client));

    // Redis's words for a command that it does not know, for one that it must not be asked about.
    public static string UnknownCommandError(Client client)
    {
        if (client.Loop.Store.MissingError(client.Argument(0)) is { } why) { return why; }
        var text = new StringBuilder("ERR unknown command '");
        AppendShort(text, client.Argument(0), ErrorArgumentsBytes);
        text.Append("', with args beginning with: ");
        int start = text.Length;
        for (int i = 1; i < client.ArgumentCount && text.Length - start < ErrorArgumentsBytes; i++)
        {
            text.Append('\'');
            AppendShort(text, client.Argument(i), ErrorArgumentsBytes - (text.Length - start - 1));
            text.Append("' ");
        }
        return text.ToString();
    }

    // As C prints it: up to a zero byte. Line ends would break the protocol.
    private static void AppendShort(StringBuilder text, ReadOnlySpan<byte> bytes, int most)
    {
        foreach (byte b in bytes[..Math.Min(bytes.Length, most)])
        {
            if (b == 0) { return; }
            text.Append(b is (byte)'\r' or (byte)'\n' ? ' ' : (char)b);
        }
    }
}
