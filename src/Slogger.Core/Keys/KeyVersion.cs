// The version of a key: which effect in its shard's stream wrote it last. Every write counts, by whomever.
using System.Buffers.Text;
using System.Globalization;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Keys;

/// <summary>The version of a key, or of a hash's field. It says that the key has not been written since a place in its shard's stream.
/// Source: Spinnaker, section 3 (a column's version).</summary>
/// <param name="WorldLine">The timeline that the place is in.</param>
/// <param name="Offset">The place, in bytes of the shard's stream: one more than where the effect begins that wrote the key last.</param>
/// <param name="Shard">Whose stream.</param>
public readonly record struct KeyVersion(WorldLine WorldLine, long Offset, ShardId Shard = default)
{
    /// <summary>As long as the text of any version, in bytes.</summary>
    public const int TextBytesMax = 64;

    /// <summary>In place of a version: the key must not exist.</summary>
    public static KeyVersion Missing => default;

    /// <summary>Whether it stands for a key that must not exist.</summary>
    public bool IsMissing => this == Missing;

    /// <summary>Reads what <see cref="ToString"/> gives.</summary>
    /// <returns>Whether the text is a version.</returns>
    public static bool TryParse(ReadOnlySpan<byte> text, out KeyVersion version)
    {
        version = Missing;
        if (text.SequenceEqual("0"u8)) { return true; }
        bool isPlace = TryNumber(ref text, out long line) & line > 0 & TryPoint(ref text) & TryNumber(ref text, out long offset);
        long shard = 0;
        if (text.Length > 0) { isPlace &= TryPoint(ref text) & TryNumber(ref text, out shard) & shard is > 0 and <= int.MaxValue; }
        if (!isPlace || text.Length > 0) { return false; }
        version = new(new(line), offset, new((int)shard));
        return true;
    }

    /// <summary>Reads what <see cref="ToString"/> gives.</summary>
    /// <exception cref="FormatException">That is no version.</exception>
    public static KeyVersion Parse(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return TryParse(Encoding.UTF8.GetBytes(text), out KeyVersion version) ? version
            : throw new FormatException($"'{text}' is no version of a key: such are 1.4711, 1.4711.2 and 0.");
    }

    private static bool TryNumber(ref ReadOnlySpan<byte> text, out long number)
    {
        number = 0;
        if (text.IsEmpty || text[0] is < (byte)'0' or > (byte)'9' || !Utf8Parser.TryParse(text, out number, out int used)) { return false; }
        text = text[used..];
        return true;
    }

    private static bool TryPoint(ref ReadOnlySpan<byte> text)
    {
        if (text.IsEmpty || text[0] != (byte)'.') { return false; }
        text = text[1..];
        return true;
    }

    /// <summary>As it is on the wire: <c>world-line.offset</c>, with <c>.shard</c> behind it where that is not shard 0; <c>0</c> for
    /// <see cref="Missing"/>.</summary>
    public override string ToString() => IsMissing ? "0"
        : Shard.Number == 0 ? string.Create(CultureInfo.InvariantCulture, $"{WorldLine}.{Offset}")
        : string.Create(CultureInfo.InvariantCulture, $"{WorldLine}.{Offset}.{Shard}");
}
