// Keys belong to shards: what is not for this one is answered as a node of Redis Cluster answers it, in its words and at its
// place. Only requests that the scan does not pass come here; a shard alone has none of it.
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private string CrossSlot => Encoding.ASCII.GetString(_loop.Slots!.Replies.CrossSlot[1..^2]);

    // The whole ordinary request at the head of the input, which the scan did not pass.
    private bool HandleKeys()
    {
        _requestBytes = ScanOne();
        if (AnswerWithNotice((nint)_requestBytes, CommandKind.Ordinary)) { return true; }
        return IsServed(CommandKind.Ordinary) is { } done ? done : Forward(needsDedicated: false);
    }

    // Whether this shard serves the keys of the request at the head of the input, whose arguments have been read: null. If not
    // it has been answered, or is about to be: what the caller then returns.
    private bool? IsServed(CommandKind kind)
    {
        ShardSlots slots = _loop.Slots!;
        var request = new ReadOnlySpan<byte>(_input.Head, (int)_requestBytes);
        switch (slots.Keys.FindSlot(request, CollectionsMarshal.AsSpan(_loop.Arguments), slots.Partitions, out HashSlot slot))
        {
            case SlotScope.NoKey:
                return null;
            case SlotScope.SeveralSlots:
                return RefuseCommand(CrossSlot);
            case SlotScope.Unknown when kind != CommandKind.Ordinary && !slots.Keys.Knows(Argument(0)):
                // Of the proxy's own, or of a store that does not have it.
                return null;
            case SlotScope.Unknown when slots.Keys.Knows(Argument(0)):
                return RefuseCommand($"ERR SLOGGER it is not known where '{Encoding.Latin1.GetString(Argument(0))}' has its keys: it "
                    + "cannot be used in a cluster of several shards");
            case SlotScope.Unknown:
                return RefuseCommand(SettingCommands.UnknownCommandError(this));
        }
        if (slots.IsWithheld(slot))
        {
            Wait(Waiting.Slot);
            return false;
        }
        if (!slots.Table.Owns(slot)) { return RefuseCommand(slots.Redirection(slot)); }
        if (kind != CommandKind.Watch) { NoteQueued(slot); }
        NoteServed(kind, slot);
        return null;
    }

    // What is different among several shards: null if nothing is.
    private bool? HandleAmongShards(CommandKind kind)
    {
        if (IsServed(kind) is { } done) { return done; }
        if (RefusalAmongShards(kind) is { } why) { return RefuseCommand(why); }
        switch (kind)
        {
            case CommandKind.Exec when (_pins & Pins.Multi) != 0 && ArgumentCount == 1:
                if (_transaction.Slot >= 0 && _loop.Slots!.IsWithheld(new HashSlot(_transaction.Slot)))
                {
                    Wait(Waiting.Slot);
                    return false;
                }
                if (_isWatchBroken && _transaction.Slot != Transaction.SeveralSlots) { return DiscardInstead(NoReplyToExec); }
                string? misplaced = _transaction.Slot switch
                {
                    SlotTable.None => null,
                    Transaction.SeveralSlots => CrossSlot,
                    int slot => _loop.Slots!.Table.Owns(new HashSlot(slot)) ? null : _loop.Slots.Redirection(new HashSlot(slot)),
                };
                return misplaced is null ? null : DiscardInstead(misplaced);
            default:
                return null;
        }
    }

    // Redis's words for what a node of a cluster does not do.
    private string? RefusalAmongShards(CommandKind kind)
    {
        switch (kind)
        {
            case CommandKind.Select when ArgumentCount == 2 && ArgumentNumber(1, out long db) && db != 0:
                return "ERR SELECT is not allowed in cluster mode";
            case CommandKind.Cluster when (_pins & Pins.Multi) != 0:
                return $"ERR SLOGGER {Encoding.Latin1.GetString(Argument(0)).ToUpperInvariant()} cannot be queued in a transaction";
            case CommandKind.Reaching when ArgumentCount == 3 && (ArgumentIs(0, "MOVE"u8) || ArgumentIs(0, "SWAPDB"u8)):
                return $"ERR {Encoding.Latin1.GetString(Argument(0)).ToUpperInvariant()} is not allowed in cluster mode";
            case CommandKind.Reaching when ArgumentIs(0, "COPY"u8):
                for (int i = 3; i + 1 < ArgumentCount; i++)
                {
                    if (ArgumentIs(i, "DB"u8) && ArgumentNumber(i + 1, out long other) && other != 0)
                    {
                        return "ERR Copying to another database is not allowed in cluster mode";
                    }
                }
                return null;
            case CommandKind.Reaching when ArgumentIs(0, "SORT"u8) || ArgumentIs(0, "SORT_RO"u8):
                return RefusalOfSort();
            default:
                return null;
        }
    }

    // Patterns of SORT name keys that nobody has looked at.
    private string? RefusalOfSort()
    {
        for (int i = 2; i < ArgumentCount; i++)
        {
            if (ArgumentIs(i, "LIMIT"u8)) { i += 2; }
            else if (ArgumentIs(i, "STORE"u8)) { i++; }
            else if (ArgumentIs(i, "GET"u8) && i + 1 < ArgumentCount) { return "ERR GET option of SORT denied in Cluster mode."; }
            else if (ArgumentIs(i, "BY"u8) && i + 1 < ArgumentCount)
            {
                ReadOnlySpan<byte> pattern = Argument(++i);
                int zero = pattern.IndexOf((byte)0);
                if ((zero < 0 ? pattern : pattern[..zero]).Contains((byte)'*')) { return "ERR BY option of SORT denied in Cluster mode."; }
            }
        }
        return null;
    }

    // A request too large to be kept is streamed as soon as its keys are known to be this shard's: null. What has keys further
    // on, and what is for others, is waited for.
    private bool? HandleLargeKeys()
    {
        if (_loop.Slots is not { } slots) { return null; }
        _requestBytes = CommandScanner.ReadArguments(_input.Head, _input.Tail, _loop.Arguments);
        // Malformed further on: Redis says what is wrong with it.
        if (_requestBytes < 0) { return null; }
        if (_requestBytes > 0) { return IsServed(CommandKind.Ordinary); }
        if (ArgumentCount >= 2 && slots.Keys.HasOneKey(Argument(0)) && slots.Partitions.Of(Argument(1)) is var slot
            && slots.Table.Owns(slot))
        {
            NoteQueued(slot);
            return null;
        }
        return _input.Count > SpecialRequestBytes
            && Refuse("ERR Protocol error: request too large for a shard that may not have its keys", thenClose: true);
    }

    private void NoteQueued(HashSlot slot)
    {
        if ((_pins & Pins.Multi) == 0) { return; }
        _transaction.Queue(slot);
    }

    // ---- CLUSTER ----

    private byte[]? _clusterAnswer;
    private int _searchedSlot;
    private long _searchedMax;
    private HashSet<string>? _found;

    // Redis, which is no node of a cluster, is asked all the same: it knows how many arguments there must be, and what the client
    // may do. Whatever it says else than that it is no cluster is the answer.
    public bool HandleCluster()
    {
        _clusterAnswer = ArgumentIs(0, "CLUSTER"u8) ? AnswerOfCluster() : "+OK\r\n"u8.ToArray();
        return Forward(needsDedicated: _clusterAnswer is null, static (client, upstream, _, reply) => client.OnCluster(upstream, reply),
            barrier: true);
    }

    // Null: the keys of a slot have to be searched for.
    private byte[]? AnswerOfCluster()
    {
        ClusterReplies replies = _loop.Slots!.Replies;
        if (ArgumentIs(1, "SLOTS"u8)) { return replies.Slots(Protocol); }
        if (ArgumentIs(1, "SHARDS"u8)) { return replies.Shards(Protocol); }
        if (ArgumentIs(1, "NODES"u8)) { return replies.Nodes(Protocol); }
        if (ArgumentIs(1, "INFO"u8)) { return replies.Info(Protocol); }
        if (ArgumentIs(1, "MYID"u8)) { return replies.MyId(); }
        if (ArgumentIs(1, "KEYSLOT"u8) && ArgumentCount == 3) { return replies.KeySlot(Argument(2)); }
        bool counts = ArgumentIs(1, "COUNTKEYSINSLOT"u8) && ArgumentCount == 3;
        if (!counts && !(ArgumentIs(1, "GETKEYSINSLOT"u8) && ArgumentCount == 4))
        {
            return "-ERR SLOGGER this CLUSTER command is not for clients: shards and slots are what the metadata of the cluster says\r\n"u8.ToArray();
        }
        _searchedMax = CountOnly;
        if (!ArgumentNumber(2, out long slot) || (!counts && !ArgumentNumber(3, out _searchedMax)))
        {
            return "-ERR value is not an integer or out of range\r\n"u8.ToArray();
        }
        bool isSlot = slot >= 0 && slot < _loop.Slots.Partitions.Count;
        if (counts && !isSlot) { return ClusterReplies.InvalidSlot.ToArray(); }
        if (!counts && (!isSlot || _searchedMax < 0)) { return "-ERR Invalid slot or number of keys\r\n"u8.ToArray(); }
        _searchedSlot = (int)slot;
        return null;
    }

    private const long CountOnly = -1;

    private void OnCluster(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        if (!reply.StartsWith("-ERR This instance has cluster support disabled"u8))
        {
            Answer(reply);
            return;
        }
        if (_clusterAnswer is not null)
        {
            Answer(_clusterAnswer);
            return;
        }
        _found = [];
        Search(upstream, "0"u8);
    }

    // Redis keeps no list of a slot's keys: all are looked at, some at a time.
    private void Search(Upstream upstream, ReadOnlySpan<byte> cursor)
    {
        RespText.WriteRequest(upstream, "sCAN"u8, cursor.ToArray(), "COUNT"u8.ToArray(), "1000"u8.ToArray());
        upstream.Expect(this, static (client, itself, failed, reply) => client.OnKeysOfSlot(itself, failed, reply), ReplyKind.Uncounted);
        _loop.CountInternal("scan");
    }

    // An array of the next cursor and an array of keys, which reads like a request.
    private void OnKeysOfSlot(Upstream upstream, bool failed, ReadOnlySpan<byte> reply)
    {
        if (failed)
        {
            Answer(reply);
            return;
        }
        HashSet<string> found = _found!;
        fixed (byte* start = reply)
        {
            byte* end = start + reply.Length;
            byte* cursor = start + reply.IndexOf((byte)'\n') + 1;
            int at = (int)(cursor - start);
            int line = reply[at..].IndexOf((byte)'\n') + 1;
            int length = reply[(at + line)..].IndexOf((byte)'\r');
            ReadOnlySpan<byte> next = reply.Slice(at + line, length);
            byte* keys = cursor + line + length + 2;
            CommandScanner.ReadArguments(keys, end, _loop.Arguments);
            foreach ((int offset, int bytes) in _loop.Arguments)
            {
                var key = new ReadOnlySpan<byte>(keys + offset, bytes);
                if (_loop.Slots!.Partitions.Of(key).Number == _searchedSlot) { found.Add(Encoding.Latin1.GetString(key)); }
            }
            bool enough = _searchedMax != CountOnly && found.Count >= _searchedMax;
            if (!enough && !next.SequenceEqual("0"u8))
            {
                Search(upstream, next);
                return;
            }
        }
        _found = null;
        if (_searchedMax == CountOnly)
        {
            Answer(ClusterReplies.Number(found.Count));
            return;
        }
        var bytesOut = new List<byte>();
        string[] shown = [.. found.Take((int)Math.Min(_searchedMax, int.MaxValue))];
        RespText.AppendHeader(bytesOut, '*', shown.Length);
        foreach (string key in shown) { RespText.AppendBulk(bytesOut, Encoding.Latin1.GetBytes(key)); }
        Answer(bytesOut.ToArray());
    }

    // ---- What Redis says of itself ----

    public ReadOnlySpan<byte> WithClusterMode(ReadOnlySpan<byte> hello)
    {
        ReadOnlySpan<byte> alone = "$4\r\nmode\r\n$10\r\nstandalone\r\n"u8;
        int at = _loop.Slots is null ? -1 : hello.IndexOf(alone);
        return at < 0 ? hello : (byte[])[.. hello[..at], .. "$4\r\nmode\r\n$7\r\ncluster\r\n"u8, .. hello[(at + alone.Length)..]];
    }

    public static string WithClusterFields(string info) => info
        .Replace("redis_mode:standalone\r\n", "redis_mode:cluster\r\n", StringComparison.Ordinal)
        .Replace("cluster_enabled:0\r\n", "cluster_enabled:1\r\n", StringComparison.Ordinal);
}
