// Which requests the proxy refuses itself, and what it says: such as would take the store away from it, or change data or
// history behind the version log's back.
using System.Text;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private string? RefusalOf(CommandKind kind)
    {
        switch (kind)
        {
            case CommandKind.Replication:
                return "ERR SLOGGER the replication stream of this Redis belongs to the proxy: attach replicas to Redis itself, or start the proxy with --commit none";
            case CommandKind.Takeover when (_pins & Pins.Multi) != 0 && ArgumentIs(0, "SHUTDOWN"u8):
                return "ERR Command not allowed inside a transaction";
            case CommandKind.Takeover:
                return $"ERR SLOGGER '{Encoding.ASCII.GetString(Argument(0)).ToUpperInvariant()}' would take the store away from the proxy: stop or move the shard with the slogger command";
            case CommandKind.Debug when ArgumentIs(1, "CHANGE-REPL-ID"u8) || ArgumentIs(1, "REPLICATE"u8):
                return "ERR SLOGGER this DEBUG command changes the history that the version log keeps: start the proxy with --commit none for it";
            case CommandKind.Debug when (_pins & Pins.Multi) != 0 && IsUnlogged:
                return "ERR SLOGGER this DEBUG command changes data in a way that the version log cannot replay: it cannot be part of a transaction";
            case CommandKind.Config when ArgumentIs(1, "SET"u8):
                for (int i = 2; i < ArgumentCount; i += 2)
                {
                    string name = Encoding.ASCII.GetString(Argument(i));
                    bool cutsLink = name.Equals("client-output-buffer-limit", StringComparison.OrdinalIgnoreCase) && i + 1 < ArgumentCount
                        && Encoding.ASCII.GetString(Argument(i + 1)) is { } limits
                        && (limits.Contains("replica", StringComparison.OrdinalIgnoreCase) || limits.Contains("slave", StringComparison.OrdinalIgnoreCase));
                    if (cutsLink)
                    {
                        return "ERR SLOGGER a limit for replicas would cut the proxy's replication link: set limits for normal and pubsub only";
                    }
                    if (OwnedSettings.Contains(name))
                    {
                        return $"ERR SLOGGER '{name}' is set by the proxy, which needs it to restore this Redis";
                    }
                    if (i + 1 < ArgumentCount && Way.OfSetting(name, TextOf(i + 1), _loop.UpstreamCount) is { } lockOut) { return lockOut; }
                }
                return Way.OfProtection(LastOf("protected-mode"u8), LastOf("requirepass"u8));
            case CommandKind.Acl when ArgumentIs(1, "SETUSER"u8) && ArgumentCount > 3:
                string user = TextOf(2);
                string[] rules = [.. Enumerable.Range(3, ArgumentCount - 3).Select(TextOf)];
                return rules.Select(rule => Way.OfRule(user, rule)).FirstOrDefault(why => why is not null) ?? Way.OfOpening(user, rules);
            case CommandKind.Acl when ArgumentIs(1, "DELUSER"u8):
                return Enumerable.Range(2, ArgumentCount - 2).Select(i => Way.OfRemoval(TextOf(i))).FirstOrDefault(why => why is not null);
            case CommandKind.Acl when ArgumentIs(1, "LOAD"u8):
                return Way.OfLoading();
            default:
                return null;
        }
    }

    private LockOut Way => new(_loop.Store, _loop.Probe.NeedsPassword, _facts ?? StoreFacts.Unknown);

    private StoreFacts? _facts;     // asked for this request

    // Whether this request is judged by what Redis says, which is to be asked first.
    private bool NeedsFacts(CommandKind kind) => _facts is null && _loop.Store.Address is not null && kind switch
    {
        CommandKind.Config => ArgumentIs(1, "SET"u8) && (HasArgument("maxclients"u8) || HasArgument("protected-mode"u8) || HasArgument("requirepass"u8)),
        CommandKind.Acl => ArgumentIs(1, "SETUSER"u8) && ArgumentCount > 3 && TextOf(2) == FrontEndLoop.DefaultUser,
        _ => false,
    };

    /// <summary>Redis has answered, or cannot.</summary>
    public void OnFacts(StoreFacts facts)
    {
        if (IsClosed || _waiting != Waiting.Facts) { return; }
        _facts = facts;
        EndWait();
    }

    // The value of a setting that CONFIG SET names; null: it does not.
    private string? LastOf(ReadOnlySpan<byte> setting)
    {
        for (int i = ArgumentCount - 2; i >= 2; i--)
        {
            if (i % 2 == 0 && ArgumentIs(i, setting)) { return TextOf(i + 1); }
        }
        return null;
    }

    private string TextOf(int index) => Encoding.UTF8.GetString(Argument(index));

    // A backup's store is read at the ends of versions: whoever waits there, or holds it up, would keep it from the next one.
    private string? BackupRefusalOf(CommandKind kind) => kind switch
    {
        CommandKind.Blocking => "READONLY You can't write against a read only replica.",
        CommandKind.BlockingStream when HasArgument("BLOCK"u8) => "ERR SLOGGER nobody waits for new entries at a backup, which would hold up the next version: read without BLOCK, or wait at the primary",
        CommandKind.Batch => "ERR SLOGGER this site is a backup: sessions work at the primary",
        CommandKind.Peer => "ERR SLOGGER this site is a backup, and has no coordinator of cuts",
        CommandKind.Dpr when ArgumentIs(0, "DPR.WAIT"u8) || ArgumentIs(0, "DPR.COMMITTED"u8) || ArgumentIs(0, "DPR.HELLO"u8) =>
            "ERR SLOGGER this site is a backup, where nothing is committed: ask the primary",
        CommandKind.WaitAof => "ERR SLOGGER this site is a backup, where nothing is committed: ask the primary",
        CommandKind.Debug => "ERR SLOGGER DEBUG is not for a backup's Redis, which follows the primary's log",
        CommandKind.Client when ArgumentIs(1, "PAUSE"u8) => "ERR SLOGGER a pause would hold up the versions that this backup follows: pause clients at the primary",
        CommandKind.Config when ArgumentIs(1, "SET"u8) => BackupSetting(),
        _ => null,
    };

    private string? BackupSetting()
    {
        for (int i = 2; i < ArgumentCount; i += 2)
        {
            string name = Encoding.ASCII.GetString(Argument(i));
            if (FollowingSettings.Contains(name)) { return $"ERR SLOGGER '{name}' is set by the proxy while this Redis follows the primary's log"; }
        }
        return null;
    }

    private static readonly HashSet<string> FollowingSettings = new(StringComparer.OrdinalIgnoreCase)
    {
        "replica-read-only", "slave-read-only", "replica-ignore-maxmemory", "slave-ignore-maxmemory", "repl-timeout", "notify-keyspace-events", "tls-replication", "replica-serve-stale-data", "slave-serve-stale-data",
    };

    private static readonly HashSet<string> OwnedSettings = new(StringComparer.OrdinalIgnoreCase)
    {
        "masterauth", "masteruser", "repl-diskless-load", "replica-serve-stale-data", "slave-serve-stale-data",
    };

    // In a transaction Redis must know that something was refused, so that EXEC fails.
    private bool RefuseCommand(string why)
    {
        if ((_pins & Pins.Multi) == 0)
        {
            if (!Refuse(why)) { return false; }
            _input.Consume((nint)_requestBytes);
            return true;
        }
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        _refusal = why;
        upstream.Write("*1\r\n$15\r\nSLOGGER.REFUSED\r\n"u8);
        ForwardWritten(upstream, ReplyKind.Refused, barrier: true);
        return false;
    }
}
