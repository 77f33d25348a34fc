using System.Collections.Immutable;
using Slogger.Resp;

namespace Slogger.FrontEnd.Transports;

/// <summary>TLS towards clients.</summary>
public sealed record ClientTlsOptions
{
    /// <summary>Addresses that take clients over TLS. At least one.</summary>
    public required ImmutableArray<ListenAddress> Listen { get; init; }

    /// <summary>The certificate chain, PEM, absolute path.</summary>
    public required string CertificateFile { get; init; }

    /// <summary>The private key, PEM, absolute path.</summary>
    public required string KeyFile { get; init; }

    /// <summary>Authorities (PEM) that a client's certificate must come from. Default: null, clients need no certificate.</summary>
    public string? ClientCaFile { get; init; }
}
