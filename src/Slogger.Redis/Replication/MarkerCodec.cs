// The marker that closes a version, as it stands in the replication stream: SPUBLISH <channel> <payload>. The channel has
// a secret nonce, so that scripts and clients cannot forge one. The payload is
// "<world-line>:<closed version>:<next open version>:<hlc bits>", decimal ASCII.
using System.Buffers.Text;
using System.Globalization;
using System.Text;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Redis.Replication;

/// <summary>What a marker says.</summary>
/// <param name="WorldLine">The world-line it was sent in.</param>
/// <param name="Closed">The version that ends at the marker.</param>
/// <param name="NextOpen">The version that begins behind it.</param>
/// <param name="Time">The sender's clock.</param>
public readonly record struct MarkerPayload(WorldLine WorldLine, VersionNumber Closed, VersionNumber NextOpen, HybridTimestamp Time);

/// <summary>A marker read in the stream.</summary>
/// <param name="Payload">What it says.</param>
/// <param name="OffsetAfter">Bytes of history up to and including the marker.</param>
/// <param name="Database">The database selected in the stream there.</param>
public readonly record struct StreamMarker(MarkerPayload Payload, long OffsetAfter, int Database);

/// <summary>Writes and reads markers for one nonce.</summary>
public sealed class MarkerCodec
{
    /// <summary>What every marker channel begins with.</summary>
    public const string ChannelPrefix = "__slogger:";

    private readonly byte[] _channel;

    /// <param name="nonce">32 hex characters, secret to the proxy.</param>
    /// <exception cref="ArgumentException">It is something else.</exception>
    public MarkerCodec(string nonce)
    {
        ArgumentNullException.ThrowIfNull(nonce);
        if (nonce.Length != 32 || !nonce.All(char.IsAsciiHexDigit))
            throw new ArgumentException("The nonce must be 32 hex characters.", nameof(nonce));
        Channel = ChannelPrefix + nonce;
        _channel = Encoding.ASCII.GetBytes(Channel);
    }

    /// <summary>The channel's name.</summary>
    public string Channel { get; }

    /// <summary>The payload as text.</summary>
    public static string Format(in MarkerPayload payload) => string.Create(CultureInfo.InvariantCulture,
        $"{payload.WorldLine.Number}:{payload.Closed.Number}:{payload.NextOpen.Number}:{payload.Time.Bits}");

    /// <summary>Whether a channel is ours.</summary>
    public bool IsChannel(ReadOnlySpan<byte> channel) => channel.SequenceEqual(_channel);

    /// <summary>Reads a marker; false if it is not ours or not whole.</summary>
    public bool TryRead(ReadOnlySpan<byte> channel, ReadOnlySpan<byte> payload, out MarkerPayload marker)
    {
        marker = default;
        if (!IsChannel(channel)
            || !TryNumber(ref payload, out long worldLine) || !TryNumber(ref payload, out long closed)
            || !TryNumber(ref payload, out long next)
            || !Utf8Parser.TryParse(payload, out ulong bits, out int used) || used != payload.Length)
            return false;
        marker = new MarkerPayload(new WorldLine(worldLine), new VersionNumber(closed), new VersionNumber(next), new HybridTimestamp(bits));
        return true;
    }

    private static bool TryNumber(ref ReadOnlySpan<byte> text, out long value)
    {
        if (!Utf8Parser.TryParse(text, out value, out int used) || used >= text.Length || text[used] != ':')
            return false;
        text = text[(used + 1)..];
        return true;
    }
}
