// What the client asks a shard on its own account: DPR.HELLO, and a batch of one PING in the client's own session, whose answer
// tells the shard's version, the committed one, and whether the world-line is still the same. The one place where a
// refusal is read.
using System.Globalization;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Client.Wire;

/// <summary>A batch was refused. Nothing that was sent behind it on its connection was executed.</summary>
internal sealed class RefusedException : SloggerException
{
    private RefusedException(string message) : base(message)
    {
    }

    /// <summary>The world-line that is over, if that is why.</summary>
    public WorldLine Abandoned { get; private init; }

    /// <summary>The new world-line, and the version that every shard went back to; null: refused for another reason.</summary>
    public WorldPoint? Branch { get; private init; }

    /// <summary>Reads "ROLLBACK session=... abandoned=... worldline=... branch=...", or whatever else it is.</summary>
    public static RefusedException Of(string error)
    {
        if (!error.StartsWith("ROLLBACK ", StringComparison.Ordinal)) { return new($"the proxy refused a batch: {error}"); }
        long? abandoned = null, line = null, branch = null;
        foreach (string word in error.Split(' '))
        {
            string[] pair = word.Split('=', 2);
            if (pair.Length != 2 || !long.TryParse(pair[1], NumberStyles.None, CultureInfo.InvariantCulture, out long number)) { continue; }
            if (pair[0] == "abandoned") { abandoned = number; }
            if (pair[0] == "worldline") { line = number; }
            if (pair[0] == "branch") { branch = number; }
        }

        return abandoned is { } a && line is { } l && branch is { } b
            ? new(error) { Abandoned = new(a), Branch = new WorldPoint(new(l), new(b)) }
            : new($"the proxy sent a notice of rollback that this client cannot read: {error}");
    }
}

/// <summary>What a shard says of itself.</summary>
internal sealed record Hello(string Cluster, ShardId Shard, WorldLine WorldLine)
{
    public static async Task<Hello> AskAsync(RespChannel channel, SessionId session, CancellationToken cancellation)
    {
        RespValue reply = await channel.CallAsync(cancellation, "DPR.HELLO", 1, session.ToString()).ConfigureAwait(false);
        if (reply.Kind != RespKind.Array) { throw new SloggerException($"{channel.Address} is no proxy that speaks sessions: {reply}"); }
        var fields = new Dictionary<string, RespValue>(StringComparer.Ordinal);
        for (int i = 0; i + 1 < reply.Items.Length; i += 2) { fields[reply.Items[i].ToString()] = reply.Items[i + 1]; }
        try
        {
            int shard = checked((int)fields["shard"].AsInteger());
            if (shard is < 0 or >= ClientSession.ShardsMax) { throw new SloggerException($"{channel.Address} says that it is shard {shard}; sessions know shards 0 to {ClientSession.ShardsMax - 1}"); }
            return new(fields["cluster"].ToString(), new(shard), new(fields["worldline"].AsInteger()));
        }
        catch (KeyNotFoundException e)
        {
            throw new InvalidDataException($"DPR.HELLO of {channel.Address} says too little: {reply}", e);
        }
    }
}

/// <summary>What a probe found.</summary>
/// <param name="Version">The version that the probe was executed in.</param>
/// <param name="Cut">What the shard knows as committed.</param>
internal readonly record struct ProbeAnswer(Version Version, WorldPoint Cut);

internal static class Probe
{
    /// <exception cref="RefusedException">It was refused.</exception>
    public static async Task<ProbeAnswer> SendAsync(RespChannel channel, BatchHeader header, CancellationToken cancellation)
    {
        Write(channel, header);
        await channel.SendAsync(cancellation).ConfigureAwait(false);
        return await ReadAsync(channel, cancellation).ConfigureAwait(false);
    }

    /// <summary>Writes one, to be sent with what follows it.</summary>
    public static void Write(RespChannel channel, in BatchHeader header) =>
        channel.Write("DPR.BATCH", header.Session.ToString(), header.WorldLine.Number, header.AtLeast.Number, header.First.Number, 1).Write("PING");

    /// <exception cref="RefusedException">It was refused, and what was sent behind it was dropped.</exception>
    public static async Task<ProbeAnswer> ReadAsync(RespChannel channel, CancellationToken cancellation)
    {
        RespValue verdict = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        if (verdict.Kind == RespKind.Error) { throw RefusedException.Of(verdict.ToString()); }
        _ = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        RespValue trailer = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        if (trailer.Kind != RespKind.Array || trailer.Items.Length != 4) { throw new InvalidDataException($"the trailer of a probe is {trailer}"); }
        return new(new(trailer.Items[3].Integer), new(new(trailer.Items[0].Integer), new(trailer.Items[1].Integer)));
    }
}
