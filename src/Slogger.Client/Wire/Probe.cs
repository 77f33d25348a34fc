// What the client asks a shard on its own account: DPR.HELLO, and a batch of one PING in the client's own session, whose answer
// tells the shard's version, the committed one, and whether the world-line is still the same. The one place where a
// refusal is read.
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client.Wire;

/// <summary>A batch was refused. Nothing that was sent behind it on its connection was executed.</summary>
internal sealed class RefusedException : IOException
{
    private RefusedException(string message) : base(message)
    {
    }

    /// <summary>The world-line is over, and this is where the next one begins; null: refused for another reason.</summary>
    public Branch? Branch { get; private init; }

    /// <summary>Reads "ROLLBACK session=... abandoned=... worldline=... branch=...", or branches=...,..., or whatever else it is.</summary>
    public static RefusedException Of(string error)
    {
        if (!error.StartsWith("ROLLBACK ", StringComparison.Ordinal)) { return new($"the proxy refused a batch: {error}"); }
        return Branch.Parse(error) is { } branch ? new(error) { Branch = branch }
            : new($"the proxy sent a notice of rollback that this client cannot read: {error}");
    }
}

/// <summary>What a shard says of itself, and of a session.</summary>
/// <param name="Cluster">The cluster's name.</param>
/// <param name="Shard">Which shard it is.</param>
/// <param name="WorldLine">Its world-line.</param>
/// <param name="HasRanges">Whether keys are cut into ranges: DPR.PARTITIONS says where. If not, they are in hash slots.</param>
/// <param name="Executed">How far it knows to have executed the session's batches; null: it does not know.</param>
internal sealed record Hello(string Cluster, ShardId Shard, WorldLine WorldLine, bool HasRanges, Executed? Executed)
{
    public static async Task<Hello> AskAsync(RespChannel channel, SessionId session, CancellationToken cancellation)
    {
        Write(channel, session);
        await channel.SendAsync(cancellation).ConfigureAwait(false);
        return await ReadAsync(channel, cancellation).ConfigureAwait(false);
    }

    /// <summary>Writes the question, to be sent with what follows it.</summary>
    public static void Write(RespChannel channel, SessionId session) => channel.Write("DPR.HELLO", 1, session.ToString());

    /// <exception cref="HandshakeException">It is no proxy, or not one for sessions.</exception>
    public static async Task<Hello> ReadAsync(RespChannel channel, CancellationToken cancellation)
    {
        RespValue reply = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        if (reply.Kind != RespKind.Array) { throw new HandshakeException($"{channel.Address} is no proxy that speaks sessions: {reply}"); }
        var fields = new Dictionary<string, RespValue>(StringComparer.Ordinal);
        for (int i = 0; i + 1 < reply.Items.Length; i += 2) { fields[reply.Items[i].ToString()] = reply.Items[i + 1]; }
        try
        {
            int shard = checked((int)fields["shard"].AsInteger());
            if (shard is < 0 or >= ClientSession.ShardsMax)
            {
                throw new HandshakeException($"{channel.Address} says that it is shard {shard}; sessions know shards 0 to "
                    + $"{ClientSession.ShardsMax - 1}");
            }
            Executed? executed = fields.TryGetValue("last", out RespValue? last)
                ? new(new(last.AsInteger()), new(fields["last_version"].AsInteger())) : null;
            return new(fields["cluster"].ToString(), new(shard), new(fields["worldline"].AsInteger()),
                fields.TryGetValue("partitions", out RespValue? partitions) && partitions.ToString() == "range", executed);
        }
        catch (KeyNotFoundException e)
        {
            throw new InvalidDataException($"DPR.HELLO of {channel.Address} says too little: {reply}", e);
        }
    }
}

/// <summary>How far a shard has executed a session's batches.</summary>
/// <param name="Last">Every batch that was sent there up to this operation; none: not known.</param>
/// <param name="Latest">A version in which that had been done.</param>
internal readonly record struct Executed(SequenceNumber Last, VersionNumber Latest);

/// <summary>What a probe found.</summary>
/// <param name="Version">The version that the probe was executed in.</param>
/// <param name="Cut">What the shard knows as committed.</param>
internal readonly record struct ProbeAnswer(VersionNumber Version, WorldPoint Cut);

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
        channel.Write("DPR.BATCH", header.Session.ToString(), header.WorldLine.Number, header.AtLeast.Number, header.First.Number, 1)
            .Write("PING");

    /// <exception cref="RefusedException">It was refused, and what was sent behind it was dropped.</exception>
    public static async Task<ProbeAnswer> ReadAsync(RespChannel channel, CancellationToken cancellation)
    {
        RespValue verdict = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        if (verdict.Kind == RespKind.Error) { throw RefusedException.Of(verdict.ToString()); }
        _ = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        RespValue trailer = await channel.ReadAsync(cancellation).ConfigureAwait(false);
        if (trailer.Kind != RespKind.Array || trailer.Items.Length != 4)
        {
            throw new InvalidDataException($"the trailer of a probe is {trailer}");
        }
        return new(new(trailer.Items[3].Integer), new(new(trailer.Items[0].Integer), new(trailer.Items[1].Integer)));
    }
}
