// Certificates of a test's own, made in memory and written as PEM files: an authority, a server's, a client's, and a
// client's from another authority.
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Slogger.Proxy.Tests.Harness;

public sealed class Certificates : IDisposable
{
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-ce-").FullName;

    public Certificates()
    {
        (AuthorityFile, ServerFile, ServerKeyFile, ClientFile, ClientKeyFile) = Make("good");
        (OtherAuthorityFile, OtherServerFile, OtherServerKeyFile, OtherClientFile, OtherClientKeyFile) = Make("other");
    }

    public string AuthorityFile { get; }

    public string ServerFile { get; }

    public string ServerKeyFile { get; }

    public string ClientFile { get; }

    public string ClientKeyFile { get; }

    public string OtherAuthorityFile { get; }

    public string OtherServerFile { get; }

    public string OtherServerKeyFile { get; }

    public string OtherClientFile { get; }

    public string OtherClientKeyFile { get; }

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    private (string Authority, string Server, string ServerKey, string Client, string ClientKey) Make(string name)
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest($"CN={name} authority", key, HashAlgorithmName.SHA256);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        request.CertificateExtensions.Add(new X509KeyUsageExtension(X509KeyUsageFlags.KeyCertSign, true));
        using X509Certificate2 authority = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(30));
        string file = Path.Combine(_directory, name + "-ca.pem");
        File.WriteAllText(file, authority.ExportCertificatePem());
        (string server, string serverKey) = Issue(authority, name + "-server", "1.3.6.1.5.5.7.3.1");
        (string client, string clientKey) = Issue(authority, name + "-client", "1.3.6.1.5.5.7.3.2");
        return (file, server, serverKey, client, clientKey);
    }

    private (string File, string KeyFile) Issue(X509Certificate2 authority, string name, string use)
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest($"CN={name}", key, HashAlgorithmName.SHA256);
        request.CertificateExtensions.Add(new X509EnhancedKeyUsageExtension([new Oid(use)], false));
        var names = new SubjectAlternativeNameBuilder();
        names.AddIpAddress(IPAddress.Loopback);
        names.AddDnsName("localhost");
        request.CertificateExtensions.Add(names.Build());
        using X509Certificate2 issued = request.Create(authority, DateTimeOffset.UtcNow.AddHours(-1), DateTimeOffset.UtcNow.AddDays(10),
            RandomNumberGenerator.GetBytes(8));
        string file = Path.Combine(_directory, name + ".pem"), keyFile = Path.Combine(_directory, name + ".key");
        File.WriteAllText(file, issued.ExportCertificatePem());
        File.WriteAllText(keyFile, key.ExportPkcs8PrivateKeyPem());
        return (file, keyFile);
    }
}
