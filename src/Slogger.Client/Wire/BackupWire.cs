// What is said to a backup's shard in place of DPR.HELLO and DPR.BATCH, which need versions of its own. Before the requests of a batch
// DPR.REACH waits until the shard stands at what the session has seen. Behind them DPR.CUT tells at which version it stands then: none of
// them read a later one.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client.Wire;

internal static class BackupWire
{
    // They change or end the connection, which all sessions of the client share. A primary's proxy refuses them in a batch.
    private static readonly HashSet<string> s_refused = new(StringComparer.OrdinalIgnoreCase)
    {
        "ASKING", "AUTH", "CLIENT", "DISCARD", "EXEC", "HELLO", "MONITOR", "MULTI", "PSUBSCRIBE", "PSYNC", "PUNSUBSCRIBE", "QUIT",
            "READONLY", "READWRITE", "REPLCONF", "RESET", "SELECT",
        "SSUBSCRIBE", "SUBSCRIBE", "SUNSUBSCRIBE", "SYNC", "UNSUBSCRIBE", "UNWATCH", "WAIT", "WAITAOF", "WATCH",
    };

    /// <summary>Why a command cannot be part of a session at a backup; null: it can.</summary>
    public static string? RefusalOf(string command) =>
        !s_refused.Contains(command) && !command.StartsWith("DPR.", StringComparison.OrdinalIgnoreCase) ? null
        : $"'{command.ToUpperInvariant()}' cannot be used in a session that reads at a backup: it is of a connection, and this one is "
            + "shared.";

    /// <summary>What the shard says of itself. Answered when its store can be read.</summary>
    /// <exception cref="HandshakeException">It is no backup's.</exception>
    public static async Task<Hello> AskAsync(RespChannel channel, CancellationToken cancellation)
    {
        await channel.Write("DPR.REACH", 0, 0).Write("DPR.INFO").Write("DPR.PARTITIONS").SendAsync(cancellation).ConfigureAwait(false);
        RespValue stands = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        if (stands.Kind != RespKind.Array || stands.Items.Length < 2)
        {
            throw new HandshakeException($"{channel.Address} is no process of a backup: {stands}");
        }
        RespValue info = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        RespValue partitions = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        var fields = new Dictionary<string, string>(StringComparer.Ordinal);
        foreach (string line in info.ToString().Split("\r\n"))
        {
            int colon = line.IndexOf(':', StringComparison.Ordinal);
            if (colon > 0) { fields[line[..colon]] = line[(colon + 1)..]; }
        }

        if (!fields.TryGetValue("cluster", out string? cluster) || !int.TryParse(fields.GetValueOrDefault("shard"), out int shard)
            || partitions.Kind != RespKind.Array || partitions.Items.Length < 1)
        {
            throw new InvalidDataException($"DPR.INFO or DPR.PARTITIONS of {channel.Address} says too little");
        }

        return new(cluster, new(shard), new(stands.Items[0].AsInteger()), partitions.Items[0].ToString() == "range", null);
    }

    /// <summary>Before the requests of a batch: they wait until the shard stands at this version, or at a later one.</summary>
    public static void WriteHeader(RequestWriter to, VersionNumber atLeast) => to.Begin(3).Add("DPR.REACH"u8).Add(atLeast.Number).Add(0);

    /// <summary>Behind the requests of a batch.</summary>
    public static void WriteTrailer(RequestWriter to) => to.Begin(1).Add("DPR.CUT"u8);

    /// <summary>Where the shard stands: of the reply to the header, or to the trailer.</summary>
    /// <exception cref="InvalidDataException">The reply is none to these.</exception>
    public static WorldPoint ReadPoint(in WireReply reply)
    {
        RespValue value = RespValue.Read(reply.Bytes);
        return value.Kind == RespKind.Array && value.Items.Length >= 2
            ? new(new(value.Items[0].AsInteger()), new(value.Items[1].AsInteger()))
            : throw new InvalidDataException($"a backup that was asked where it stands says {value}");
    }
}
