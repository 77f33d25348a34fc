// What a request says that reads or writes keys by their versions: DPR.GETV and its like. See docs/reference/dpr-commands.md.
using System.Text;
using Slogger.Core.Keys;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>How the arguments of such a command are made: whole keys, or a key and then fields of its hash; each with or without a version
/// and a value.</summary>
/// <param name="Name">The command's name.</param>
/// <param name="IsHash">Whether it is of a hash's fields.</param>
/// <param name="HasVersion">Whether each has a version that is expected.</param>
/// <param name="HasValue">Whether each has a value.</param>
/// <param name="Deletes">Whether it deletes.</param>
internal sealed record KeyForm(string Name, bool IsHash, bool HasVersion, bool HasValue, bool Deletes)
{
    /// <summary>Whether it writes.</summary>
    public bool Writes => HasValue || Deletes;
}

/// <summary>A request that reads or writes keys by their versions.</summary>
internal sealed class KeyRequest
{
    private readonly List<byte[]> _names = [], _values = [];
    private readonly byte[] _hash = [];
    private readonly byte[][] _options = [];

    private KeyRequest(Client client, KeyForm form, int end)
    {
        Form = form;
        int at = 1;
        if (form.IsHash) { _hash = client.Argument(at++).ToArray(); }
        while (at < end)
        {
            _names.Add(client.Argument(at++).ToArray());
            if (form.HasVersion && KeyVersion.TryParse(client.Argument(at++), out KeyVersion version)) { Expected.Add(version); }
            if (form.HasValue) { _values.Add(client.Argument(at++).ToArray()); }
        }
        _options = new byte[client.ArgumentCount - end][];
        for (int i = 0; i < _options.Length; i++) { _options[i] = client.Argument(end + i).ToArray(); }
    }

    /// <summary>How it is made.</summary>
    public KeyForm Form { get; }

    /// <summary>Its keys.</summary>
    public IReadOnlyList<byte[]> Keys => Form.IsHash ? [_hash] : _names;

    /// <summary>How many keys, or fields, it is about.</summary>
    public int Count => _names.Count;

    /// <summary>The versions that are expected of them.</summary>
    public List<KeyVersion> Expected { get; } = [];

    /// <summary>The key of one.</summary>
    public byte[] KeyOf(int index) => Form.IsHash ? _hash : _names[index];

    /// <summary>The field of one; null: it is a whole key.</summary>
    public byte[]? FieldOf(int index) => Form.IsHash ? _names[index] : null;

    /// <summary>Reads the request at the head of a client's input.</summary>
    /// <param name="client">The client.</param>
    /// <param name="form">How the command's arguments are made.</param>
    /// <param name="why">The error; null if there is none.</param>
    public static KeyRequest? Read(Client client, KeyForm form, out string? why)
    {
        int first = form.IsHash ? 2 : 1, step = 1 + (form.HasVersion ? 1 : 0) + (form.HasValue ? 1 : 0);
        int end = client.ArgumentCount;
        // Only a conditional put of whole keys has options.
        if (form is { HasVersion: true, HasValue: true, IsHash: false })
        {
            int rest = (end - first) % step;
            bool isOption = rest == 0 || (rest == 1 && client.ArgumentIs(end - 1, "KEEPTTL"u8)) || (rest == 2
                && client.ArgumentIs(end - 2, "PX"u8));
            if (isOption) { end -= rest; }
            if (rest == 2 && isOption && !(client.ArgumentNumber(end + 1, out long milliseconds) && milliseconds > 0))
            {
                why = $"ERR invalid expire time in '{form.Name.ToLowerInvariant()}' command";
                return null;
            }
        }
        why = end <= first || (end - first) % step != 0
            ? $"ERR wrong number of arguments for '{form.Name.ToLowerInvariant()}' command" : null;
        for (int at = first + 1; form.HasVersion && why is null && at < end; at += step)
        {
            if (KeyVersion.TryParse(client.Argument(at), out _)) { continue; }
            ReadOnlySpan<byte> text = client.Argument(at)[..Math.Min(KeyVersion.TextBytesMax, client.Argument(at).Length)];
            why = $"ERR SLOGGER '{Encoding.Latin1.GetString(text).ReplaceLineEndings(" ")}' is no version of a key: it is what DPR.GETV "
                + "replies, as 1.4711, or 0 for a key that must not exist";
        }
        return why is null ? new(client, form, end) : null;
    }

    // ---- The requests that it is made of ----

    /// <summary>Watches the keys, has those deleted that have expired, tells which there are, and then where the stream stands.</summary>
    public void WriteWatch(RequestWriter to)
    {
        to.Clear();
        to.Begin(1 + Keys.Count).Add("wATCH"u8);
        foreach (byte[] key in Keys) { to.Add(key); }
        foreach (byte[] name in _names)
        {
            if (Form.IsHash) { to.Begin(3).Add("hEXISTS"u8).Add(_hash).Add(name); } else { to.Begin(2).Add("eXISTS"u8).Add(name); }
        }
        to.AddRaw(InternalRequest.Role);
    }

    /// <summary>What is done to the keys, as a transaction that tells first where the stream stands.</summary>
    public void WriteTransaction(RequestWriter to)
    {
        to.Clear();
        to.AddRaw(InternalRequest.MultiRole);
        if (Form.IsHash) { WriteHash(to); }
        else if (Form.Deletes) { WriteNames(to.Begin(1 + Count).Add("DEL"u8)); }
        else if (!Form.HasValue) { foreach (byte[] key in _names) { to.Begin(2).Add("GET"u8).Add(key); } }
        else if (_options.Length == 0 && Count > 1)
        {
            to.Begin(1 + (2 * Count)).Add("MSET"u8);
            for (int i = 0; i < Count; i++) { to.Add(_names[i]).Add(_values[i]); }
        }
        else
        {
            for (int i = 0; i < Count; i++)
            {
                to.Begin(3 + _options.Length).Add("SET"u8).Add(_names[i]).Add(_values[i]);
                foreach (byte[] option in _options) { to.Add(option); }
            }
        }
        to.AddRaw(InternalRequest.Exec);
    }

    /// <summary>How many requests the transaction has between ROLE and EXEC.</summary>
    public int TransactionCount => Form.IsHash || Form.Deletes || (Form.HasValue && _options.Length == 0) ? 1 : Count;

    private void WriteHash(RequestWriter to)
    {
        if (Form.HasValue)
        {
            to.Begin(2 + (2 * Count)).Add("HSET"u8).Add(_hash);
            for (int i = 0; i < Count; i++) { to.Add(_names[i]).Add(_values[i]); }
            return;
        }
        WriteNames(to.Begin(2 + Count).Add(Form.Deletes ? "HDEL"u8 : "HMGET"u8).Add(_hash));
    }

    private void WriteNames(RequestWriter to)
    {
        foreach (byte[] name in _names) { to.Add(name); }
    }
}
