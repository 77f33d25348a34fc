// A certificate authority of a test's own, and certificates of it that serve both uses, of a server and of a client, at 127.0.0.1.
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Slogger.Integration.Tests.Sites;

internal sealed class SiteAuthority : IDisposable
{
    private static readonly OidCollection s_uses = [new Oid("1.3.6.1.5.5.7.3.1"), new Oid("1.3.6.1.5.5.7.3.2")];

    private readonly ECDsa _key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
    private readonly X509Certificate2 _certificate;

    public SiteAuthority(string name)
    {
        var request = new CertificateRequest($"CN={name} authority", _key, HashAlgorithmName.SHA256);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        request.CertificateExtensions.Add(new X509KeyUsageExtension(X509KeyUsageFlags.KeyCertSign, true));
        _certificate = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(2));
    }

    /// <summary>Writes a certificate, its key, and an authority that peers have to come from: the options that name them.</summary>
    public string[] Issue(string directory, SiteAuthority of)
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest("CN=slogger", key, HashAlgorithmName.SHA256);
        var names = new SubjectAlternativeNameBuilder();
        names.AddIpAddress(IPAddress.Loopback);
        request.CertificateExtensions.Add(names.Build());
        request.CertificateExtensions.Add(new X509EnhancedKeyUsageExtension(s_uses, false));
        using X509Certificate2 certificate = request.Create(
            _certificate, DateTimeOffset.UtcNow.AddHours(-1), DateTimeOffset.UtcNow.AddDays(1), RandomNumberGenerator.GetBytes(8));
        string certificateFile = Path.Combine(directory, "cert.pem"), keyFile = Path.Combine(directory, "key.pem"), authorities =
            Path.Combine(directory, "ca.pem");
        File.WriteAllText(certificateFile, certificate.ExportCertificatePem());
        File.WriteAllText(keyFile, key.ExportPkcs8PrivateKeyPem());
        File.WriteAllText(authorities, of._certificate.ExportCertificatePem());
        return ["--site-cert-file", certificateFile, "--site-key-file", keyFile, "--site-ca-file", authorities];
    }

    public void Dispose()
    {
        _certificate.Dispose();
        _key.Dispose();
    }
}
