// From options to the address, credentials and TLS settings of the proxy's own connections to Redis.
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

internal static class StoreEndpoint
{
    /// <summary>The endpoint that the options describe. Throws IOException if the password's file cannot be read.</summary>
    public static RedisEndpoint Of(ListenAddress redis, string? user, string? passwordFile, Configuration.RedisTlsOptions? tls)
    {
        string? password = passwordFile is null ? null : File.ReadLines(passwordFile).FirstOrDefault();
        RedisEndpoint endpoint = redis.UnixPath is { } path
            ? RedisEndpoint.Unix(path, password, user)
            : RedisEndpoint.Tcp(redis.Host!, redis.Port, password, user);
        return tls is null ? endpoint : endpoint with
        {
            Tls = new Redis.Connections.RedisTlsOptions
            {
                AuthorityFile = tls.CaFile,
                CertificateFile = tls.CertificateFile,
                KeyFile = tls.KeyFile,
                AcceptAnyCertificate = tls.Insecure,
            },
        };
    }
}
