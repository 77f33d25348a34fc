// What the replies of RESP2, which all links speak, are to the application: texts, numbers, pairs, entries of streams. They run where the
// link reads, so one that does not fit its command is an InvalidDataException: the connection it came over is given up.
using System.Buffers.Text;
using System.Collections.Immutable;
using System.Text;
using Slogger.Core.Keys;
using Slogger.Resp;

namespace Slogger.Client;

internal static class Replies
{
    public static readonly ReplyConverter<string?> Text = static (in WireReply r) => r.IsNull ? null : Encoding.UTF8.GetString(r.Payload);

    public static readonly ReplyConverter<string> Name = static (in WireReply r) => Encoding.UTF8.GetString(r.Payload);

    public static readonly ReplyConverter<byte[]?> Bytes = static (in WireReply r) => r.IsNull ? null : r.Payload.ToArray();

    public static readonly ReplyConverter<long> Integer = static (in WireReply r) => r.Integer;

    public static readonly ReplyConverter<long?> IntegerOrNone = static (in WireReply r) => r.IsNull ? null : r.Integer;

    public static readonly ReplyConverter<double> Number = static (in WireReply r) => NumberOf(r.Payload);

    public static readonly ReplyConverter<double?> NumberOrNone = static (in WireReply r) => r.IsNull ? null : NumberOf(r.Payload);

    public static readonly ReplyConverter<bool> IsOne = static (in WireReply r) => r.Integer == 1;

    /// <summary>Anything but null.</summary>
    public static readonly ReplyConverter<bool> IsDone = static (in WireReply r) => !r.IsNull;

    public static readonly ReplyConverter<RespValue> Value = static (in WireReply r) => RespValue.Read(r.Bytes);

    /// <summary>An array of texts; null is none.</summary>
    public static readonly ReplyConverter<string[]> Texts = static (in WireReply r) => [.. Items(r).Select(TextOf)];

    /// <summary>An array of texts, each of which may be missing.</summary>
    public static readonly ReplyConverter<string?[]> TextsOrNone = static (in WireReply r) => [.. Items(r).Select(i => i.AsText())];

    /// <summary>An array of names and values in turn.</summary>
    public static readonly ReplyConverter<KeyValuePair<string, string>[]> Pairs = static (in WireReply r) => PairsOf(Items(r));

    /// <summary>An array of members and scores in turn.</summary>
    public static readonly ReplyConverter<ScoredMember[]> Scored = static (in WireReply r) =>
        [.. InTwos(Items(r)).Select(two => new ScoredMember(TextOf(two.First), NumberOf(two.Second.Bytes.Span)))];

    /// <summary>An array of entries of one stream.</summary>
    public static readonly ReplyConverter<StreamEntry[]> Entries = static (in WireReply r) => EntriesOf(Items(r));

    /// <summary>What XREAD and XREADGROUP answer when they are asked for one stream: null, or an array of one pair, the stream's key and
    /// its entries.</summary>
    public static readonly ReplyConverter<StreamEntry[]> EntriesOfOneStream = static (in WireReply r) =>
        Items(r) is { Length: > 0 } streams ? EntriesOf(Items(Items(streams[0], 2)[1])) : [];

    /// <summary>XPENDING's summary: how many, the first and the last one, and an array of consumers, each with how many.</summary>
    public static readonly ReplyConverter<StreamPending> Pending = static (in WireReply r) =>
    {
        ImmutableArray<RespValue> summary = Items(RespValue.Read(r.Bytes), 4);
        return new(summary[0].Integer, summary[1].AsText(), summary[2].AsText(),
            [.. Items(summary[3]).Select(c => Items(c, 2)).Select(c => KeyValuePair.Create(TextOf(c[0]), IntegerOf(c[1])))]);
    };

    public static readonly ReplyConverter<KeyVersion> Version = static (in WireReply r) => VersionOf(r.Payload);

    /// <summary>An array of one pair: a value, which may be missing, and its version.</summary>
    public static readonly ReplyConverter<Versioned<string?>> VersionedText = static (in WireReply r) =>
        VersionedOf(r) is var (value, version) ? new(value.AsText(), version) : default;

    /// <summary>The same, as bytes.</summary>
    public static readonly ReplyConverter<Versioned<byte[]?>> VersionedBytes = static (in WireReply r) =>
        VersionedOf(r) is var (value, version) ? new(value.Kind == RespKind.Null ? null : value.Bytes.ToArray(), version) : default;

    /// <summary>A pair: 1 if it was done, else 0, and a version.</summary>
    public static readonly ReplyConverter<ConditionalOutcome> Outcome = static (in WireReply r) =>
        Items(RespValue.Read(r.Bytes), 2) is var pair ? new(IntegerOf(pair[0]) == 1, VersionOf(pair[1].Bytes.Span)) : default;

    private static (RespValue Value, KeyVersion Version) VersionedOf(in WireReply reply)
    {
        ImmutableArray<RespValue> pair = Items(Items(RespValue.Read(reply.Bytes), 1)[0], 2);
        return (pair[0], VersionOf(pair[1].Bytes.Span));
    }

    private static KeyVersion VersionOf(ReadOnlySpan<byte> text) => KeyVersion.TryParse(text, out KeyVersion version) ? version
        : throw new InvalidDataException("A reply holds a text where the version of a key was expected.");

    private static StreamEntry[] EntriesOf(ImmutableArray<RespValue> entries) =>
        [.. entries.Select(e => Items(e, 2)).Select(e => new StreamEntry(TextOf(e[0]), PairsOf(Items(e[1]))))];

    private static KeyValuePair<string, string>[] PairsOf(ImmutableArray<RespValue> items) =>
        [.. InTwos(items).Select(two => KeyValuePair.Create(TextOf(two.First), TextOf(two.Second)))];

    private static IEnumerable<(RespValue First, RespValue Second)> InTwos(ImmutableArray<RespValue> items)
    {
        if (items.Length % 2 != 0) { throw new InvalidDataException($"A reply has {items.Length} elements where pairs were expected."); }
        for (int i = 0; i < items.Length; i += 2) { yield return (items[i], items[i + 1]); }
    }

    private static ImmutableArray<RespValue> Items(in WireReply reply) => Items(RespValue.Read(reply.Bytes));

    private static ImmutableArray<RespValue> Items(RespValue value, int atLeast = 0) =>
        value.Kind is RespKind.Array or RespKind.Null && value.Items.Length >= atLeast ? value.Items
            : throw new InvalidDataException($"A reply holds {value} where an array was expected.");

    private static string TextOf(RespValue value) =>
        value.AsText() ?? throw new InvalidDataException("A reply holds nothing where a text was expected.");

    private static long IntegerOf(RespValue value) => value.Kind == RespKind.Integer ? value.Integer : WireReply.Number(value.Bytes.Span);

    private static double NumberOf(ReadOnlySpan<byte> text) =>
        Utf8Parser.TryParse(text, out double number, out int used) && used == text.Length ? number
        : text.SequenceEqual("inf"u8) ? double.PositiveInfinity
        : text.SequenceEqual("-inf"u8) ? double.NegativeInfinity
        : throw new InvalidDataException("A reply holds a text where a number was expected.");
}
