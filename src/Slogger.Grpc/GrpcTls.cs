// Who we are on a TLS connection, and whom we take the other side for. Nothing here asks anybody over the network: no revocation
// lists, no certificates that are not at hand.
using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Slogger.Grpc;

/// <summary>TLS of one side. What is given of <see cref="Authorities"/> and <see cref="Thumbprints"/> must hold for the peer's certificate,
/// and its time.</summary>
public sealed record GrpcTls
{
    private const string ServerUse = "1.3.6.1.5.5.7.3.1", ClientUse = "1.3.6.1.5.5.7.3.2";

    /// <summary>Our own certificate with its key. A server needs one; a client without one shows none.</summary>
    public X509Certificate2? Certificate { get; init; }

    /// <summary>What leads from it to an authority that the peer knows: shown with it. Default: none.</summary>
    public IReadOnlyList<X509Certificate2> Chain { get; init; } = [];

    /// <summary>Who may have issued the peer's certificate. Default: none given.</summary>
    public IReadOnlyList<X509Certificate2> Authorities { get; init; } = [];

    /// <summary>The peer's certificate is one of these: SHA-256 in hexadecimal digits, colons allowed. Default: none given.</summary>
    public IReadOnlyList<string> Thumbprints { get; init; } = [];

    /// <summary>What goes in its place by now; itself, if nothing does.</summary>
    internal GrpcTls Newest => _successor?.Newest ?? this;

    /// <summary>Has every server and channel that goes by this go by another from the next connection on.</summary>
    public void Replace(GrpcTls by)
    {
        ArgumentNullException.ThrowIfNull(by);
        GrpcTls newest = Newest;
        if (!ReferenceEquals(by.Newest, newest)) { newest._successor = by; }
    }

    /// <summary>Whether a server wants a certificate of its clients: where it has something to hold it against.</summary>
    internal bool IsPeerChecked => Authorities.Count > 0 || Thumbprints.Count > 0;

    /// <summary>Reads PEM files.</summary>
    /// <param name="certificateFile">Our certificate, and what leads from it to its authority; null: none.</param>
    /// <param name="keyFile">Its key; null: in the same file.</param>
    /// <param name="authoritiesFile">Certificates of authorities; null: none.</param>
    /// <exception cref="CryptographicException">One of them is not what it should be.</exception>
    /// <exception cref="IOException">One of them cannot be read.</exception>
    public static GrpcTls Load(string? certificateFile, string? keyFile, string? authoritiesFile)
    {
        var authorities = new X509Certificate2Collection();
        if (authoritiesFile is not null) { authorities.ImportFromPemFile(authoritiesFile); }
        if (authoritiesFile is not null && authorities.Count == 0)
        {
            throw new CryptographicException($"no certificate in {authoritiesFile}");
        }
        var chain = new X509Certificate2Collection();
        if (certificateFile is not null) { chain.ImportFromPemFile(certificateFile); }
        return new()
        {
            Certificate = certificateFile is null ? null : X509Certificate2.CreateFromPemFile(certificateFile, keyFile),
            Chain = [.. chain.Skip(1)],
            Authorities = [.. authorities],
        };
    }

    /// <summary>What a client goes by. Throws nothing away: a name that does not fit is refused, unless the certificate is known by its
    /// thumbprint.</summary>
    internal SslClientAuthenticationOptions ForClient(string host)
    {
        var options = new SslClientAuthenticationOptions
        {
            TargetHost = host,
            CertificateRevocationCheckMode = X509RevocationMode.NoCheck,
            RemoteCertificateValidationCallback = (_, certificate, _, errors) =>
                IsPeerChecked ? Refusal(certificate, Thumbprints.Count > 0 ? errors & ~SslPolicyErrors.RemoteCertificateNameMismatch
                    : errors) is null : errors == SslPolicyErrors.None,
        };
        // Without anything of ours: whom the machine trusts.
        if (IsPeerChecked) { options.CertificateChainPolicy = Policy(ServerUse); }
        if (Certificate is not null) { options.ClientCertificateContext = Context(Certificate); }
        return options;
    }

    /// <summary>What a server goes by. A client that it refuses is connected all the same, and told so by the status of its
    /// calls.</summary>
    /// <param name="judged">Is told why the client is refused; null: it is not.</param>
    internal SslServerAuthenticationOptions ForServer(Action<string?> judged) => new()
    {
        ServerCertificateContext = _context ??= Context(Certificate ?? throw new InvalidOperationException("a server needs a certificate")),
        ClientCertificateRequired = IsPeerChecked,
        CertificateRevocationCheckMode = X509RevocationMode.NoCheck,
        CertificateChainPolicy = Policy(ClientUse),
        RemoteCertificateValidationCallback = (_, certificate, _, errors) =>
        {
            judged(IsPeerChecked ? Refusal(certificate, errors) : null);
            return true;
        },
    };

    private SslStreamCertificateContext? _context;
    private volatile GrpcTls? _successor;

    private SslStreamCertificateContext Context(X509Certificate2 certificate) =>
        SslStreamCertificateContext.Create(certificate, [.. Chain], offline: true);

    private X509ChainPolicy Policy(string use)
    {
        var policy = new X509ChainPolicy { RevocationMode = X509RevocationMode.NoCheck, DisableCertificateDownloads = true,
            TrustMode = X509ChainTrustMode.CustomRootTrust };
        policy.ApplicationPolicy.Add(new Oid(use));
        policy.CustomTrustStore.AddRange(Authorities.ToArray());
        return policy;
    }

    private string? Refusal(X509Certificate? shown, SslPolicyErrors errors)
    {
        if (shown is null) { return "a certificate is needed"; }
        using var certificate = new X509Certificate2(shown);
        DateTime now = DateTime.Now;
        if (now < certificate.NotBefore || now > certificate.NotAfter) { return "the certificate is out of its time"; }
        if (Authorities.Count > 0 && errors.HasFlag(SslPolicyErrors.RemoteCertificateChainErrors))
        {
            return "the certificate is of another authority, or for another use";
        }
        if (errors.HasFlag(SslPolicyErrors.RemoteCertificateNameMismatch)) { return "the certificate has another name"; }
        if (Thumbprints.Count == 0) { return null; }
        string thumbprint = certificate.GetCertHashString(HashAlgorithmName.SHA256);
        return Thumbprints.Any(t => string.Equals(t.Replace(":", "", StringComparison.Ordinal), thumbprint,
            StringComparison.OrdinalIgnoreCase)) ? null : "the certificate is not one of those that are known";
    }
}
