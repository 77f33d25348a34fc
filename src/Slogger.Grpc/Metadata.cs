// What travels with a call beside its messages: with the request, before the first reply, and with the status. Keys are
// lower-case; one that ends in "-bin" has bytes, which travel as base64.
using System.Buffers;
using System.Collections;
using System.Text;

namespace Slogger.Grpc;

/// <summary>Keys and values in order; a key may come more than once.</summary>
public sealed class Metadata : IEnumerable<KeyValuePair<string, string>>
{
    private static readonly SearchValues<char> KeyCharacters = SearchValues.Create("0123456789abcdefghijklmnopqrstuvwxyz_-.");
    private readonly List<KeyValuePair<string, string>> _entries = [];

    /// <summary>How many there are.</summary>
    public int Count => _entries.Count;

    /// <summary>Adds text.</summary>
    /// <param name="key">Lower-case letters, digits, and <c>_ - .</c>; not beginning with <c>grpc-</c>.</param>
    /// <param name="value">Printable ASCII; of a key that ends in <c>-bin</c>, base64.</param>
    /// <exception cref="ArgumentException">Something else.</exception>
    public void Add(string key, string value)
    {
        if (key.Length == 0 || key.AsSpan().ContainsAnyExcept(KeyCharacters)) { throw new ArgumentException($"'{key}' cannot be a key: lower-case letters, digits, '_', '-' and '.' can", nameof(key)); }
        if (IsReserved(key)) { throw new ArgumentException($"the key {key} is the protocol's own", nameof(key)); }
        if (value.AsSpan().ContainsAnyExceptInRange(' ', '~')) { throw new ArgumentException($"the value of {key} is not printable ASCII; bytes go under a key that ends in -bin", nameof(value)); }
        _entries.Add(new(key, value));
    }

    /// <summary>Adds bytes.</summary>
    /// <param name="key">As above, ending in <c>-bin</c>.</param>
    /// <exception cref="ArgumentException">It does not.</exception>
    public void Add(string key, ReadOnlySpan<byte> value)
    {
        if (!IsBinary(key)) { throw new ArgumentException($"bytes need a key that ends in -bin, unlike {key}", nameof(key)); }
        Add(key, Convert.ToBase64String(value).TrimEnd('='));
    }

    /// <summary>The first value of a key; null: there is none.</summary>
    public string? Text(string key)
    {
        foreach ((string name, string value) in _entries)
        {
            if (name == key) { return value; }
        }
        return null;
    }

    /// <summary>The bytes of a key's first value; null: there is none, or it is no base64.</summary>
    public byte[]? Bytes(string key)
    {
        if (Text(key) is not { } text) { return null; }
        byte[] bytes = new byte[text.Length];
        // With or without padding: peers do both.
        return Convert.TryFromBase64String(text.TrimEnd('=').PadRight((text.TrimEnd('=').Length + 3) / 4 * 4, '='), bytes, out int length) ? bytes[..length] : null;
    }

    /// <inheritdoc />
    public IEnumerator<KeyValuePair<string, string>> GetEnumerator() => _entries.GetEnumerator();

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    /// <inheritdoc />
    public override string ToString() => string.Join(", ", _entries.Select(e => $"{e.Key}: {e.Value}"));

    /// <summary>Takes over what a peer has sent, without what is the protocol's own. Values of one binary key may come in one header, parted by commas.</summary>
    internal void Receive(string key, IEnumerable<string?> values)
    {
        key = key.ToLowerInvariant();
        if (IsReserved(key)) { return; }
        foreach (string? value in values)
        {
            if (value is null) { continue; }
            if (!IsBinary(key)) { _entries.Add(new(key, value)); continue; }
            foreach (string part in value.Split(',', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)) { _entries.Add(new(key, part)); }
        }
    }

    private static bool IsBinary(string key) => key.EndsWith("-bin", StringComparison.Ordinal);

    private static bool IsReserved(string key) =>
        key.StartsWith("grpc-", StringComparison.Ordinal) || key.StartsWith(':') || key is "content-type" or "te" or "host" or "authorization" or "date" or "server" or "user-agent" or "content-length";
}
