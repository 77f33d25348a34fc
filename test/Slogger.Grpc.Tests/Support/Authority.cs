// Certificates of a test's own, made in memory: two authorities, and what they issue.
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Slogger.Grpc.Tests.Support;

public sealed class Authority : IDisposable
{
    public const string ServerUse = "1.3.6.1.5.5.7.3.1", ClientUse = "1.3.6.1.5.5.7.3.2";
    private readonly ECDsa _key = ECDsa.Create(ECCurve.NamedCurves.nistP256);

    public Authority(string name) => Certificate = RequestOf(name)
        .CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-100), DateTimeOffset.UtcNow.AddDays(100));

    private Authority(string name, Authority above)
    {
        using X509Certificate2 issued = RequestOf(name)
            .Create(above.Certificate, DateTimeOffset.UtcNow.AddDays(-50), DateTimeOffset.UtcNow.AddDays(50),
                RandomNumberGenerator.GetBytes(8));
        Certificate = issued.CopyWithPrivateKey(_key);
    }

    /// <summary>An authority that this one vouches for.</summary>
    public Authority Sub(string name) => new(name, this);

    private CertificateRequest RequestOf(string name)
    {
        var request = new CertificateRequest($"CN={name}", _key, HashAlgorithmName.SHA256);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        request.CertificateExtensions.Add(new X509KeyUsageExtension(X509KeyUsageFlags.KeyCertSign, true));
        return request;
    }

    public X509Certificate2 Certificate { get; }

    /// <summary>A certificate with its key, valid for this machine unless said otherwise, and now unless it is over.</summary>
    public X509Certificate2 Issue(string use, bool isExpired = false, string? name = null)
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest("CN=of a test", key, HashAlgorithmName.SHA256);
        request.CertificateExtensions.Add(new X509EnhancedKeyUsageExtension([new Oid(use)], false));
        var names = new SubjectAlternativeNameBuilder();
        names.AddDnsName(name ?? "localhost");
        if (name is null) { names.AddIpAddress(IPAddress.Loopback); }
        request.CertificateExtensions.Add(names.Build());
        DateTimeOffset until = DateTimeOffset.UtcNow.AddDays(isExpired ? -1 : 10);
        using X509Certificate2 issued = request.Create(Certificate, until.AddDays(-20), until, RandomNumberGenerator.GetBytes(8));
        return issued.CopyWithPrivateKey(key);
    }

    public void Dispose()
    {
        Certificate.Dispose();
        _key.Dispose();
    }
}
