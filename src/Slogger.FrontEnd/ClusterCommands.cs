// CLUSTER, READONLY, READWRITE and ASKING, in a cluster of several shards and with a cohort; what a node of a cluster refuses, and what it
// says of itself.
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Handlers of CLUSTER and its like, and Redis Cluster's refusals.</summary>
internal static class ClusterCommands
{
    // Redis, which is no node of a cluster, is asked all the same: it knows how many arguments there must be, and what the client
    // may do. Whatever it says else than that it is no cluster is the answer.
    public static bool Handle(Client client)
    {
        SlotSearch? search = null;
        byte[]? answer = client.ArgumentIs(0, "CLUSTER"u8) ? AnswerOf(client, out search) : "+OK\r\n"u8.ToArray();
        bool? reads = client.ArgumentIs(0, "READONLY"u8) ? true : client.ArgumentIs(0, "READWRITE"u8) ? false : null;
        if (client.Loop.Cohort is not null && !client.Loop.Shard.IsOpen && answer is not null && client.ArgumentCount > 1)
        {
            return CohortCommands.Ask(client, _ => answer);
        }
        return client.Forward(needsDedicated: answer is null, barrier: true, then: (c, upstream, _, reply) =>
        {
            if (!reply.StartsWith("-ERR This instance has cluster support disabled"u8)) { c.Answer(reply); }
            else if (answer is not null)
            {
                c.ReadsHere = reads ?? c.ReadsHere;
                c.Answer(answer);
            }
            else { search!.Step(c, upstream, "0"u8); }
        });
    }

    // Null: the keys of a slot have to be searched for.
    private static byte[]? AnswerOf(Client client, out SlotSearch? search)
    {
        search = null;
        if (client.Loop.ClusterReplies is not { } replies) { return ClusterReplies.NotServed.ToArray(); }
        if (client.ArgumentIs(1, "SLOTS"u8)) { return replies.Slots(client.Protocol); }
        if (client.ArgumentIs(1, "SHARDS"u8)) { return replies.Shards(client.Protocol); }
        if (client.ArgumentIs(1, "NODES"u8)) { return replies.Nodes(client.Protocol); }
        if (client.ArgumentIs(1, "INFO"u8)) { return replies.Info(client.Protocol); }
        if (client.ArgumentIs(1, "MYID"u8)) { return replies.MyId(); }
        if (client.ArgumentIs(1, "KEYSLOT"u8) && client.ArgumentCount == 3) { return replies.KeySlot(client.Argument(2)); }
        bool counts = client.ArgumentIs(1, "COUNTKEYSINSLOT"u8) && client.ArgumentCount == 3;
        if (!counts && !(client.ArgumentIs(1, "GETKEYSINSLOT"u8) && client.ArgumentCount == 4))
        {
            return ("-ERR SLOGGER this CLUSTER command is not for clients: "u8
                + "shards and slots are what the metadata of the cluster says\r\n"u8).ToArray();
        }
        long most = SlotSearch.CountOnly;
        if (!client.ArgumentNumber(2, out long slot) || (!counts && !client.ArgumentNumber(3, out most)))
        {
            return "-ERR value is not an integer or out of range\r\n"u8.ToArray();
        }
        bool isSlot = slot >= 0 && slot < PartitionsOf(client).Count;
        if (counts && !isSlot) { return ClusterReplies.InvalidSlot.ToArray(); }
        if (!counts && (!isSlot || most < 0)) { return "-ERR Invalid slot or number of keys\r\n"u8.ToArray(); }
        search = new((int)slot, most);
        return null;
    }

    /// <summary>Why none of them is part of a transaction.</summary>
    public static string NotQueued(Client client) =>
        $"ERR SLOGGER {Encoding.Latin1.GetString(client.Argument(0)).ToUpperInvariant()} cannot be queued in a transaction";

    /// <summary>Which slot a key is in.</summary>
    public static Partitioning PartitionsOf(Client client) => client.Loop.Slots?.Partitions ?? Partitioning.Hash;

    /// <summary>Why a command is refused among several shards, in Redis's words for what a node of a cluster does not do;
    /// <c>null</c> if it is not.</summary>
    public static string? Refusal(Client client, CommandKind kind)
    {
        switch (kind)
        {
            case CommandKind.Select when client.ArgumentCount == 2 && client.ArgumentNumber(1, out long db) && db != 0:
                return "ERR SELECT is not allowed in cluster mode";
            case CommandKind.Cluster when (client.Pins & Pins.Multi) != 0:
                return NotQueued(client);
            case CommandKind.Reaching when client.ArgumentCount == 3
                && (client.ArgumentIs(0, "MOVE"u8) || client.ArgumentIs(0, "SWAPDB"u8)):
                return $"ERR {Encoding.Latin1.GetString(client.Argument(0)).ToUpperInvariant()} is not allowed in cluster mode";
            case CommandKind.Reaching when client.ArgumentIs(0, "COPY"u8):
                for (int i = 3; i + 1 < client.ArgumentCount; i++)
                {
                    if (client.ArgumentIs(i, "DB"u8) && client.ArgumentNumber(i + 1, out long other) && other != 0)
                    {
                        return "ERR Copying to another database is not allowed in cluster mode";
                    }
                }
                return null;
            case CommandKind.Reaching when client.ArgumentIs(0, "SORT"u8) || client.ArgumentIs(0, "SORT_RO"u8):
                return RefusalOfSort(client);
            default:
                return null;
        }
    }

    // Patterns of SORT name keys that nobody has looked at.
    private static string? RefusalOfSort(Client client)
    {
        for (int i = 2; i < client.ArgumentCount; i++)
        {
            if (client.ArgumentIs(i, "LIMIT"u8)) { i += 2; }
            else if (client.ArgumentIs(i, "STORE"u8)) { i++; }
            else if (client.ArgumentIs(i, "GET"u8) && i + 1 < client.ArgumentCount)
            {
                return "ERR GET option of SORT denied in Cluster mode.";
            }
            else if (client.ArgumentIs(i, "BY"u8) && i + 1 < client.ArgumentCount)
            {
                ReadOnlySpan<byte> pattern = client.Argument(++i);
                int zero = pattern.IndexOf((byte)0);
                if ((zero < 0 ? pattern : pattern[..zero]).Contains((byte)'*')) { return "ERR BY option of SORT denied in Cluster mode."; }
            }
        }
        return null;
    }

    /// <summary>The reply to HELLO, with the mode of a node of a cluster.</summary>
    public static ReadOnlySpan<byte> WithMode(Client client, ReadOnlySpan<byte> hello)
    {
        ReadOnlySpan<byte> alone = "$4\r\nmode\r\n$10\r\nstandalone\r\n"u8;
        int at = client.Loop.Slots is null && client.Loop.Cohort is null ? -1 : hello.IndexOf(alone);
        return at < 0 ? hello : (byte[])[.. hello[..at], .. "$4\r\nmode\r\n$7\r\ncluster\r\n"u8, .. hello[(at + alone.Length)..]];
    }

    /// <summary>The text of INFO, with the fields of a node of a cluster.</summary>
    public static string WithFields(string info) => info
        .Replace("redis_mode:standalone\r\n", "redis_mode:cluster\r\n", StringComparison.Ordinal)
        .Replace("cluster_enabled:0\r\n", "cluster_enabled:1\r\n", StringComparison.Ordinal);
}

/// <summary>A search for the keys of a slot, some at a time: COUNTKEYSINSLOT, GETKEYSINSLOT.</summary>
/// <param name="slot">The slot.</param>
/// <param name="most">How many keys are wanted at most; <see cref="CountOnly"/>: only their count.</param>
internal sealed unsafe class SlotSearch(int slot, long most)
{
    public const long CountOnly = -1;
    private readonly HashSet<string> _found = [];

    /// <summary>Has some keys looked at: Redis keeps no list of a slot's keys.</summary>
    public void Step(Client client, Upstream upstream, ReadOnlySpan<byte> cursor)
    {
        RespText.WriteRequest(upstream, "sCAN"u8, cursor.ToArray(), "COUNT"u8.ToArray(), "1000"u8.ToArray());
        upstream.Expect(client, OnKeys, ReplyKind.Uncounted);
        client.Loop.CountInternal("scan");
    }

    // An array of the next cursor and an array of keys, which reads like a request.
    private void OnKeys(Client client, Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (failed)
        {
            client.Answer(reply);
            return;
        }
        fixed (byte* start = reply)
        {
            byte* end = start + reply.Length;
            byte* cursor = start + reply.IndexOf((byte)'\n') + 1;
            int at = (int)(cursor - start);
            int line = reply[at..].IndexOf((byte)'\n') + 1;
            int length = reply[(at + line)..].IndexOf((byte)'\r');
            ReadOnlySpan<byte> next = reply.Slice(at + line, length);
            byte* keys = cursor + line + length + 2;
            CommandScanner.ReadArguments(keys, end, client.Loop.Arguments);
            foreach ((int offset, int bytes) in client.Loop.Arguments)
            {
                var key = new ReadOnlySpan<byte>(keys + offset, bytes);
                if (ClusterCommands.PartitionsOf(client).Of(key).Number == slot) { _found.Add(Encoding.Latin1.GetString(key)); }
            }
            bool enough = most != CountOnly && _found.Count >= most;
            if (!enough && !next.SequenceEqual("0"u8))
            {
                Step(client, upstream, next);
                return;
            }
        }
        if (most == CountOnly)
        {
            client.Answer(ClusterReplies.Number(_found.Count));
            return;
        }
        var bytesOut = new List<byte>();
        string[] shown = [.. _found.Take((int)Math.Min(most, int.MaxValue))];
        RespText.AppendHeader(bytesOut, '*', shown.Length);
        foreach (string key in shown) { RespText.AppendBulk(bytesOut, Encoding.Latin1.GetBytes(key)); }
        client.Answer(bytesOut.ToArray());
    }
}
