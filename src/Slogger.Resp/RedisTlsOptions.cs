namespace Slogger.Resp;

/// <summary>TLS towards Redis.</summary>
public sealed record RedisTlsOptions
{
    /// <summary>True; its option switches TLS on.</summary>
    public bool Enabled { get; init; } = true;

    /// <summary>Authorities (PEM) that Redis's certificate must come from. Default: null, the system's.</summary>
    public string? CaFile { get; init; }

    /// <summary>The proxy's own certificate (PEM) where Redis asks for one. Default: none.</summary>
    public string? CertificateFile { get; init; }

    /// <summary>Private key (PEM) of <see cref="CertificateFile"/>. Default: none.</summary>
    public string? KeyFile { get; init; }

    /// <summary>Take any certificate: protects against eavesdropping only. Default: false.</summary>
    public bool Insecure { get; init; }
}
