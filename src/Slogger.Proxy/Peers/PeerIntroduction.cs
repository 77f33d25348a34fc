// How one proxy of a cluster introduces itself to another: as a client that sends, as the first request of its connection,
//
//   DPR.PEER <kind> <protocol> <secret> <to> <from> <epoch>
//
// After +OK the connection is theirs alone (PeerChannel). The kind says what is talked about; "to" is the shard that is meant, or * for
// whichever is at that address; "epoch" is that with which the caller owns its shard.
using System.Globalization;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Proxy.Cluster;

namespace Slogger.Proxy.Peers;

/// <summary>What a connection between proxies is about.</summary>
internal enum PeerKind
{
    /// <summary>What shards have durable, and the cuts of the coordinator (Coordination).</summary>
    Cuts,

    /// <summary>The keys of slots that move (Moves).</summary>
    Keys,

    /// <summary>Published messages (PeerMessages).</summary>
    Messages,

    /// <summary>What was there before slots moved (PastPeers).</summary>
    Past,
}

/// <summary>One proxy to another.</summary>
/// <param name="Kind">What it is about.</param>
/// <param name="To">The shard it is for; null: whichever it is.</param>
/// <param name="From">The shard of the caller.</param>
/// <param name="Epoch">With which the caller owns it.</param>
internal sealed record PeerIntroduction(PeerKind Kind, ShardId? To, ShardId From, long Epoch)
{
    /// <summary>Which conversations there are, and their frames.</summary>
    public const string Protocol = "2";

    private const string Whichever = "*";
    private static readonly string[] s_kinds = ["cuts", "keys", "messages", "past"];

    /// <summary>The request.</summary>
    public byte[] Request(PeerSecret secret)
    {
        string[] words = ["DPR.PEER", s_kinds[(int)Kind], Protocol, secret.Text, To?.ToString()
            ?? Whichever, From.ToString(), Epoch.ToString(CultureInfo.InvariantCulture)];
        return Encoding.ASCII.GetBytes($"*{words.Length}\r\n{string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n"))}");
    }

    /// <summary>Reads what stands behind the command's name. Who does not know the secret learns nothing else.</summary>
    /// <returns>Null if it is refused.</returns>
    public static PeerIntroduction? Read(IReadOnlyList<byte[]> words, PeerSecret secret, ShardId self, int shardCount, out string refusal)
    {
        refusal = "ERR SLOGGER DPR.PEER is for proxies of the same cluster";
        if (words.Count != 6 || !secret.IsKnownBy(words[2])) { return null; }
        refusal = "ERR SLOGGER DPR.PEER: another version of Slogger: start the same one everywhere";
        int kind = Array.IndexOf(s_kinds, Text(words[0]));
        if (Text(words[1]) != Protocol || kind < 0) { return null; }
        refusal = $"ERR SLOGGER DPR.PEER: this is shard {self}, and has no such neighbour";
        ShardId? to = Text(words[3]) == Whichever ? null : self;
        if (to is not null && Text(words[3]) != self.ToString()) { return null; }
        if (!long.TryParse(words[4], NumberStyles.None, CultureInfo.InvariantCulture, out long from) || from >= shardCount) { return null; }
        if (!long.TryParse(words[5], NumberStyles.None, CultureInfo.InvariantCulture, out long epoch)) { return null; }
        refusal = "";
        return new((PeerKind)kind, to, new((int)from), epoch);
    }

    private static string Text(byte[] bytes) => Encoding.Latin1.GetString(bytes);
}
