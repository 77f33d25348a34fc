// The secret by which the proxies of a cluster know each other: drawn once, kept in the metadata, compared in constant time.
using System.Security.Cryptography;
using System.Text;

namespace Slogger.Proxy.Cluster;

/// <summary>The secret of a cluster's proxies.</summary>
/// <param name="text">As the metadata has it.</param>
internal sealed class PeerSecret(string text)
{
    private readonly byte[] _bytes = Encoding.ASCII.GetBytes(text);

    /// <summary>For a handshake.</summary>
    public string Text => text;

    /// <summary>Whether somebody knows it.</summary>
    public bool IsKnownBy(ReadOnlySpan<byte> shown) => CryptographicOperations.FixedTimeEquals(shown, _bytes);

    /// <summary>Without the secret.</summary>
    public override string ToString() => nameof(PeerSecret);
}
