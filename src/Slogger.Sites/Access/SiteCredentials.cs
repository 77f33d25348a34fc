// What the processes and commands of two sites show each other, and ask of each other: a secret, certificates, or both. Read once, from the
// files that the --site-*-file options name; everything that listens or connects for a site is made from it.
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Server;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Sites.Access;

/// <summary>Credentials between sites.</summary>
internal sealed class SiteCredentials
{
    /// <summary>None: between addresses of one machine only.</summary>
    public static readonly SiteCredentials None = new(null, null);

    private readonly string? _secret;
    private readonly GrpcTls? _tls;

    private SiteCredentials(string? secret, GrpcTls? tls) => (_secret, _tls) = (secret, tls);

    /// <summary>Reads the files that a process's options name.</summary>
    public static (SiteCredentials? Credentials, ProxyExit? Failed) Load(SiteOptions site) =>
        Load(site.SecretFile, site.CertificateFile, site.KeyFile, site.CaFile);

    /// <summary>Reads the files; null: not given. Without certificates of ours and of authorities there is no TLS.</summary>
    /// <param name="secretFile">Its first line is what everybody has to know: printable ASCII without blanks.</param>
    /// <param name="certificateFile">Our certificate (PEM), and what leads from it to its authority: for both uses, of a server and of a
    /// client.</param>
    /// <param name="keyFile">Its key; null: in the same file.</param>
    /// <param name="authoritiesFile">Who may have issued the others' certificates (PEM): then each side asks for one.</param>
    public static (SiteCredentials? Credentials, ProxyExit? Failed) Load(string? secretFile, string? certificateFile, string? keyFile,
        string? authoritiesFile)
    {
        if (keyFile is not null && certificateFile is null)
        {
            return (null, ProxyExit.Failed("--site-key-file is given without the certificate that it belongs to",
                "give --site-cert-file too"));
        }
        (string? secret, ProxyExit? failed) = secretFile is null ? (null, null) : SecretIn(secretFile);
        if (failed is not null) { return (null, failed); }
        try
        {
            return (new(secret, certificateFile is null && authoritiesFile is null ? null
                : GrpcTls.Load(certificateFile, keyFile, authoritiesFile)), null);
        }
        catch (Exception e) when (e is CryptographicException or IOException or UnauthorizedAccessException or ArgumentException)
        {
            string files = string.Join(", ", new[] { certificateFile, keyFile, authoritiesFile }.Where(f => f is not null).Distinct());
            return (null, ProxyExit.Failed($"the certificates between the sites cannot be used ({files}): {e.Message}", "give PEM files "
                + "that belong together and can be read"));
        }
    }

    /// <summary>Reads the certificates again: connections from now on go by them. Whether there is TLS, and whom it is asked of, stays as
    /// it was.</summary>
    /// <returns>Why nothing was changed; null: they go by the new ones.</returns>
    public string? Renew(SiteOptions site) => Renew(site.CertificateFile, site.KeyFile, site.CaFile);

    /// <inheritdoc cref="Renew(SiteOptions)" />
    public string? Renew(string? certificateFile, string? keyFile, string? authoritiesFile)
    {
        if (_tls is null) { return null; }
        (SiteCredentials? read, ProxyExit? failed) = Load(null, certificateFile, keyFile, authoritiesFile);
        if (failed is not null) { return failed.Problem; }
        if (read!._tls is not { } tls || (tls.Certificate is null) != (_tls.Certificate is null)
            || tls.Authorities.Count > 0 != _tls.Authorities.Count > 0)
        {
            return "--site-cert-file or --site-ca-file is given only now, or not any more, which counts from the next start on";
        }
        _tls.Replace(tls);
        return null;
    }

    /// <summary>For whoever connects.</summary>
    public GrpcChannelOptions Channel => new() { Tls = _tls, Secret = _secret };

    /// <summary>A way to a process; nothing is connected yet.</summary>
    /// <param name="address">TCP.</param>
    public GrpcChannel Open(ListenAddress address) => new(address.Host!, address.Port, Channel);

    /// <summary>For whoever listens. A name is resolved.</summary>
    /// <param name="address">TCP.</param>
    public (GrpcServerOptions? Options, ProxyExit? Failed) ServerAt(ListenAddress address)
    {
        if (_tls is { Certificate: null })
        {
            return (null, ProxyExit.Failed("--site-ca-file is given without a certificate to show to those who connect",
                "give --site-cert-file and --site-key-file too"));
        }
        try
        {
            IPAddress ip = IPAddress.TryParse(address.Host, out IPAddress? parsed) ? parsed : Dns.GetHostAddresses(address.Host!)[0];
            return (new() { Listen = new(ip, address.Port), Tls = _tls, Secret = _secret }, null);
        }
        catch (SocketException e)
        {
            return (null, ProxyExit.Failed($"cannot listen on {address}: {e.Message}", "give an address of this machine with "
                + "--site-listen"));
        }
    }

    /// <summary>Whether anybody who reaches one of these addresses would be let in: what to do against it; null: nobody is, or only who is
    /// on this machine.</summary>
    public ProxyExit? OpenTo(params IEnumerable<ListenAddress> addresses)
    {
        bool isAsked = _secret is not null || _tls?.Authorities.Count > 0;
        return isAsked || addresses.FirstOrDefault(a => !a.IsLocal) is not { } open ? null
            : ProxyExit.Failed(
                $"{open} is not on this machine, and anyone who reaches it could read the whole store",
                "give --site-secret-file, or certificates: --site-cert-file, --site-key-file and --site-ca-file. A secret alone "
                    + "travels in clear");
    }

    private static (string? Secret, ProxyExit? Failed) SecretIn(string file)
    {
        try
        {
            string secret = File.ReadLines(file).FirstOrDefault() ?? "";
            return secret.Length > 0 && !secret.AsSpan().ContainsAnyExceptInRange('!', '~') ? (secret, null)
                : (null, ProxyExit.Failed($"the first line of {file} is no secret: that is printable ASCII, without blanks", "write one "
                + "into it, for example by: openssl rand -hex 32"));
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return (null, ProxyExit.Failed($"the secret between the sites cannot be read from {file}: {e.Message}", "give a file that the "
                + "proxy may read with --site-secret-file"));
        }
    }
}
