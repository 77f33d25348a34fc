// What clients of a cohort's node are told of it: ROLE, SENTINEL, INFO's part about replication. And where a follower sends them: reads
// and writes go to the leader, unless the connection has said READONLY. Only with a cohort.
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Handlers for a cohort's node. The loop's thread.</summary>
internal static class CohortCommands
{
    // Clients that know Redis Cluster ask again when they hear this.
    private const string NoLeader = "CLUSTERDOWN no leader: the nodes of this shard are about to elect one";

    // What a client may ask of any node before the store has told its commands.
    private static readonly string[] OfConnection = ["PING", "ECHO", "COMMAND", "TIME"];

    // ---- A follower ----

    /// <summary>What a follower does with the request at the head of the input, whose arguments have been read.</summary>
    /// <returns><c>null</c>: it is answered here. Else it has been answered, or is about to be: what the caller then returns.</returns>
    public static bool? SendOn(Client client, CommandKind kind)
    {
        if (!IsForLeader(client, kind, out HashSlot slot, out bool mayWrite)) { return null; }
        FrontEndLoop loop = client.Loop;
        if (loop.Slots is { } slots && !slots.Table.Owns(slot)) { return client.RefuseCommand(slots.Redirection(slot)); }
        ICohortPort cohort = loop.Cohort!;
        bool isRead = !mayWrite && client.ReadsHere;
        if (isRead && IsFresh(cohort)) { return null; }
        if (cohort.View.Leader is not { } leader)
        {
            return client.RefuseCommand(!isRead ? NoLeader : string.Create(CultureInfo.InvariantCulture,
                $"SLOGGER STALE age={(cohort.AgeUs is { } us ? $"{us / 1000}ms" : "unknown")}: what this node has is older than "
                + $"--reads-stale-max allows, and no node leads"));
        }
        if (cohort.View.Leads)
        {
            // It has been elected, and serves in a moment: the store is opened anew.
            client.Wait(Waiting.Store);
            return false;
        }
        return client.RefuseMoved(string.Create(CultureInfo.InvariantCulture, $"MOVED {slot.Number} {leader.Host}:{leader.Port}"));
    }

    /// <summary>Whether a follower's store is new enough to be read.</summary>
    public static bool IsFresh(ICohortPort cohort) =>
        cohort.ReadsStaleMax == TimeSpan.Zero || (cohort.AgeUs is { } us && us <= cohort.ReadsStaleMax.TotalMicroseconds);

    // Whether a request is about the data, or about what is committed. Else each node answers it.
    private static bool IsForLeader(Client client, CommandKind kind, out HashSlot slot, out bool mayWrite)
    {
        (slot, mayWrite) = (OwnSlot(client.Loop), true);
        switch (kind)
        {
            case CommandKind.Ordinary or CommandKind.Dedicated or CommandKind.Blocking or CommandKind.BlockingStream or CommandKind.Watch
                or CommandKind.Reaching:
                return IsOfData(client, ref slot, out mayWrite);
            case CommandKind.Keys:
                if (client.ArgumentCount > 1) { slot = ClusterCommands.PartitionsOf(client).Of(client.Argument(1)); }
                return true;
            case CommandKind.Dpr:
                return client.ArgumentIs(0, "DPR.RESUME"u8) || CommitCommands.AskAtBackup(client) is not null;
            case CommandKind.Past:
                return PastCommand.RefusalAtBackup(client) is not null;
            case CommandKind.Wait or CommandKind.WaitAof or CommandKind.Batch:
                return true;
            default:
                return false;
        }
    }

    private static bool IsOfData(Client client, ref HashSlot slot, out bool mayWrite)
    {
        KeyFinder finder = client.Loop.Slots?.Keys ?? client.Loop.Catalog.Keys;
        mayWrite = true;
        if (!finder.Knows(client.Argument(0)))
        {
            // Of the proxy's own, or of nobody's: the store says so. Unless it has not said yet what it has: then the key is where most
            // commands have it.
            if (finder.Count == 0 && client.ArgumentCount > 1) { slot = ClusterCommands.PartitionsOf(client).Of(client.Argument(1)); }
            return finder.Count == 0
                && !OfConnection.Contains(Encoding.Latin1.GetString(client.Argument(0)), StringComparer.OrdinalIgnoreCase);
        }
        bool hasKeys = finder.TryFind(client.Request, System.Runtime.InteropServices.CollectionsMarshal.AsSpan(client.Loop.Arguments),
            out KeyPlaces keys, out DataUse use) && keys.Total > 0;
        if (hasKeys) { slot = ClusterCommands.PartitionsOf(client).Of(client.Argument(keys[0])); }
        // Messages are the leader's to send on: what is published here nobody else would hear.
        bool publishes = client.ArgumentIs(0, "PUBLISH"u8) || client.ArgumentIs(0, "SPUBLISH"u8);
        mayWrite = use == DataUse.Writes || publishes;
        return hasKeys || use != DataUse.None || publishes;
    }

    // For what has no key: a slot of this shard's.
    private static HashSlot OwnSlot(FrontEndLoop loop)
    {
        int slot = 0;
        if (loop.Slots is { } slots)
        {
            while (slot < slots.Partitions.Count && !slots.Table.Owns(new(slot))) { slot++; }
        }
        return new(loop.Slots is { } all && slot == all.Partitions.Count ? 0 : slot);
    }

    // ---- What any node tells ----

    /// <summary>Answers a question about the cohort, if the client may ask. While the store is away nobody's rights can be asked for, and
    /// clients need to know where to go.</summary>
    public static bool Ask(Client client, Func<Client, byte[]> answer)
    {
        IShardPort shard = client.Loop.Shard;
        if (!shard.IsOpen && shard.MaySpeak && !client.Loop.Probe.NeedsPassword && client.IsDrained)
        {
            byte[] reply = answer(client);
            client.ConsumeRequest();
            client.Answer(reply);
            return true;
        }
        return client.ForwardProbe((c, _, failed, reply) =>
        {
            if (failed) { c.Answer(reply); } else { c.Answer(answer(c)); }
        });
    }

    /// <summary>Whether this node leads, and serves.</summary>
    public static bool Leads(FrontEndLoop loop) => loop.Cohort!.View.Leads && !loop.Shard.IsFollowing;

    /// <summary>ROLE.</summary>
    public static byte[] Role(Client client)
    {
        CohortView view = client.Loop.Cohort!.View;
        var reply = new List<byte>();
        if (Leads(client.Loop))
        {
            CohortSeat[] replicas = [.. ReplicasOf(view)];
            RespText.AppendHeader(reply, '*', 3);
            RespText.AppendBulk(reply, "master"u8);
            RespText.AppendHeader(reply, ':', 0);
            RespText.AppendHeader(reply, '*', replicas.Length);
            foreach (CohortSeat replica in replicas)
            {
                RespText.AppendHeader(reply, '*', 3);
                AppendTexts(reply, replica.Host, Text(replica.Port), "0");
            }
            return [.. reply];
        }
        RespText.AppendHeader(reply, '*', 5);
        AppendTexts(reply, "slave", view.Leader?.Host ?? "");
        RespText.AppendHeader(reply, ':', view.Leader?.Port ?? 0);
        AppendTexts(reply, view.Leader is null ? "connect" : "connected");
        RespText.AppendHeader(reply, ':', 0);
        return [.. reply];
    }

    // Followers that follow.
    private static IEnumerable<CohortSeat> ReplicasOf(CohortView view) =>
        view.Nodes.Where(n => n.Node != view.Leader?.Node && n.Follows);

    /// <summary>The text of INFO, with what it says about replication: of the cohort, not of the proxy's own connections.</summary>
    public static string WithReplication(FrontEndLoop loop, string text)
    {
        const string Head = "# Replication\r\n";
        int at = text.IndexOf(Head, StringComparison.Ordinal);
        if (at < 0) { return text; }
        int from = at + Head.Length;
        int to = text.IndexOf("\r\n\r\n", from, StringComparison.Ordinal) is >= 0 and var end ? end + 2 : text.Length;
        IEnumerable<string> rest = text[from..to].Split(RespText.NewLine, StringSplitOptions.RemoveEmptyEntries).Where(line =>
            !line.StartsWith("role:", StringComparison.Ordinal) && !line.StartsWith("master_host:", StringComparison.Ordinal)
            && !line.StartsWith("master_port:", StringComparison.Ordinal)
            && !line.StartsWith("connected_slaves:", StringComparison.Ordinal)
            && !(line.StartsWith("slave", StringComparison.Ordinal) && line.Length > 5 && char.IsAsciiDigit(line[5])));
        return string.Concat(text.AsSpan(0, from), string.Concat(LinesOf(loop).Concat(rest).Select(l => l + RespText.NewLine)),
            text.AsSpan(to));
    }

    private static IEnumerable<string> LinesOf(FrontEndLoop loop)
    {
        CohortView view = loop.Cohort!.View;
        if (!Leads(loop))
        {
            return ["role:slave", $"master_host:{view.Leader?.Host}", $"master_port:{Text(view.Leader?.Port ?? 0)}", "connected_slaves:0"];
        }
        CohortSeat[] replicas = [.. ReplicasOf(view)];
        return ["role:master", $"connected_slaves:{Text(replicas.Length)}",
            .. replicas.Select((r, i) => $"slave{Text(i)}:ip={r.Host},port={Text(r.Port)},state=online,offset=0,lag=0")];
    }

    /// <summary>The reply to HELLO, with the node's role.</summary>
    public static ReadOnlySpan<byte> WithRole(FrontEndLoop loop, ReadOnlySpan<byte> hello)
    {
        ReadOnlySpan<byte> name = "$4\r\nrole\r\n"u8;
        int at = loop.Cohort is null ? -1 : hello.IndexOf(name);
        if (at < 0) { return hello; }
        int from = at + name.Length, length = hello[from..].IndexOf((byte)'\n') + 1;
        int to = from + length + hello[(from + length)..].IndexOf((byte)'\n') + 1;
        return (byte[])[.. hello[..from], .. Leads(loop) ? "$6\r\nmaster\r\n"u8 : "$7\r\nreplica\r\n"u8, .. hello[to..]];
    }

    // ---- SENTINEL ----

    /// <summary>SENTINEL: every node answers as a Sentinel does that watches the cohort.</summary>
    public static bool Sentinel(Client client)
    {
        if (client.ArgumentCount < 2) { return client.RefuseCommand("ERR wrong number of arguments for 'sentinel' command"); }
        bool ofOne = client.ArgumentIs(1, "GET-MASTER-ADDR-BY-NAME"u8) || client.ArgumentIs(1, "MASTER"u8)
            || client.ArgumentIs(1, "REPLICAS"u8) || client.ArgumentIs(1, "SLAVES"u8) || client.ArgumentIs(1, "SENTINELS"u8);
        if (!ofOne && !client.ArgumentIs(1, "MASTERS"u8) && !client.ArgumentIs(1, "MYID"u8))
        {
            return client.RefuseCommand("ERR SLOGGER this SENTINEL command is not answered: the nodes of a cohort look after themselves");
        }
        if (client.ArgumentCount != (ofOne ? 3 : 2))
        {
            string name = Encoding.Latin1.GetString(client.Argument(1)).ToLowerInvariant();
            return client.RefuseCommand($"ERR wrong number of arguments for 'sentinel|{name}' command");
        }
        byte[] reply = SentinelReply(client, ofOne && client.TextOf(2) != client.Loop.Cohort!.MasterName);
        return Ask(client, _ => reply);
    }

    private static byte[] SentinelReply(Client client, bool isUnknown)
    {
        ICohortPort cohort = client.Loop.Cohort!;
        CohortView view = cohort.View;
        var reply = new List<byte>();
        if (client.ArgumentIs(1, "MYID"u8)) { return RespText.Bulk(Encoding.ASCII.GetBytes(IdOf(cohort, view.Self))); }
        if (client.ArgumentIs(1, "GET-MASTER-ADDR-BY-NAME"u8))
        {
            if (isUnknown || view.Leader is not { } leader) { return client.Protocol == 3 ? "_\r\n"u8.ToArray() : "*-1\r\n"u8.ToArray(); }
            RespText.AppendHeader(reply, '*', 2);
            AppendTexts(reply, leader.Host, Text(leader.Port));
            return [.. reply];
        }
        if (isUnknown) { return "-ERR No such master with that name\r\n"u8.ToArray(); }
        if (client.ArgumentIs(1, "MASTER"u8))
        {
            AppendMap(reply, client.Protocol, MasterOf(cohort));
            return [.. reply];
        }
        (string, string)[][] all = client.ArgumentIs(1, "MASTERS"u8) ? [MasterOf(cohort)]
            : client.ArgumentIs(1, "SENTINELS"u8) ? [.. view.Nodes.Where(n => n.Node != view.Self).Select(n => SentinelOf(cohort, n))]
            : [.. view.Nodes.Where(n => n.Node != view.Leader?.Node).Select(n => ReplicaOf(cohort, n))];
        RespText.AppendHeader(reply, '*', all.Length);
        foreach ((string, string)[] fields in all) { AppendMap(reply, client.Protocol, fields); }
        return [.. reply];
    }

    // Without a leader: one that is down.
    private static (string Name, string Value)[] MasterOf(ICohortPort cohort)
    {
        CohortView view = cohort.View;
        CohortSeat? leader = view.Leader ?? view.Nodes.FirstOrDefault();
        return
        [
            ("name", cohort.MasterName), ("ip", leader?.Host ?? ""), ("port", Text(leader?.Port ?? 0)),
            ("runid", leader is null ? "" : IdOf(cohort, leader.Node)),
            ("flags", view.Leader is null ? "s_down,o_down,master" : "master"), ("link-pending-commands", "0"), ("link-refcount", "1"),
            ("last-ping-sent", "0"), ("last-ok-ping-reply", "0"), ("last-ping-reply", "0"), ("down-after-milliseconds", "1000"),
            ("info-refresh", "0"), ("role-reported", "master"), ("role-reported-time", "0"), ("config-epoch", Text(view.Reign)),
            ("num-slaves", Text(Math.Max(0, view.Nodes.Length - 1))), ("num-other-sentinels", Text(Math.Max(0, view.Nodes.Length - 1))),
            ("quorum", Text((view.Nodes.Length / 2) + 1)), ("failover-timeout", "1000"), ("parallel-syncs", "1"),
        ];
    }

    private static (string Name, string Value)[] ReplicaOf(ICohortPort cohort, CohortSeat node)
    {
        CohortSeat? leader = cohort.View.Leader;
        return
        [
            ("name", $"{node.Host}:{Text(node.Port)}"), ("ip", node.Host), ("port", Text(node.Port)), ("runid", IdOf(cohort, node.Node)),
            ("flags", node.Follows ? "slave" : "s_down,slave,disconnected"), ("link-pending-commands", "0"), ("link-refcount", "1"),
            ("last-ping-sent", "0"), ("last-ok-ping-reply", "0"), ("last-ping-reply", "0"), ("down-after-milliseconds", "1000"),
            ("info-refresh", "0"), ("role-reported", "slave"), ("role-reported-time", "0"), ("master-link-down-time", "0"),
            ("master-link-status", leader is null || !node.Follows ? "err" : "ok"), ("master-host", leader?.Host ?? "?"),
            ("master-port", Text(leader?.Port ?? 0)), ("slave-priority", "100"), ("slave-repl-offset", "0"), ("replica-announced", "1"),
        ];
    }

    private static (string Name, string Value)[] SentinelOf(ICohortPort cohort, CohortSeat node)
    {
        string id = IdOf(cohort, node.Node);
        return
        [
            ("name", id), ("ip", node.Host), ("port", Text(node.Port)), ("runid", id), ("flags", "sentinel"),
            ("link-pending-commands", "0"), ("link-refcount", "1"), ("last-ping-sent", "0"), ("last-ok-ping-reply", "0"),
            ("last-ping-reply", "0"), ("down-after-milliseconds", "1000"), ("last-hello-message", "0"), ("voted-leader", "?"),
            ("voted-leader-epoch", "0"),
        ];
    }

    private static string IdOf(ICohortPort cohort, string node) => ClusterReplies.NodeId(cohort.Cluster, cohort.Shard, node);

    private static void AppendMap(List<byte> reply, int protocol, (string Name, string Value)[] fields)
    {
        RespText.AppendHeader(reply, protocol == 3 ? '%' : '*', protocol == 3 ? fields.Length : fields.Length * 2);
        foreach ((string name, string value) in fields) { AppendTexts(reply, name, value); }
    }

    private static void AppendTexts(List<byte> reply, params ReadOnlySpan<string> texts)
    {
        foreach (string text in texts) { RespText.AppendBulk(reply, Encoding.UTF8.GetBytes(text)); }
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
