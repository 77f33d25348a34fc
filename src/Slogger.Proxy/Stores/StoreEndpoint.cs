// From options to the address, credentials and TLS settings of the proxy's own connections to Redis.
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Proxy.Stores;

internal static class StoreEndpoint
{
    /// <summary>The AUTH request with an endpoint's credentials; empty if it has none. Never to be shown.</summary>
    public static byte[] LoginOf(RedisEndpoint endpoint)
    {
        if (endpoint.Password is not { } password) { return []; }
        string[] words = endpoint.User is { } user ? ["AUTH", user, password] : ["AUTH", password];
        var request = new List<byte>();
        request.AddRange(Encoding.ASCII.GetBytes($"*{words.Length}\r\n"));
        foreach (string word in words)
        {
            byte[] bytes = Encoding.UTF8.GetBytes(word);
            request.AddRange(Encoding.ASCII.GetBytes($"${bytes.Length}\r\n"));
            request.AddRange(bytes);
            request.AddRange("\r\n"u8);
        }
        return [.. request];
    }

    /// <summary>The password in a file: its first line. Throws IOException if the file cannot be read.</summary>
    public static string? PasswordIn(string? file) => file is null ? null : File.ReadLines(file).FirstOrDefault();

    /// <summary>The endpoint that the options describe. Throws IOException if the password's file cannot be read.</summary>
    public static RedisEndpoint Of(ListenAddress redis, string? user, string? passwordFile, RedisTlsOptions? tls)
    {
        string? password = PasswordIn(passwordFile);
        RedisEndpoint endpoint = redis.UnixPath is { } path
            ? RedisEndpoint.Unix(path, password, user)
            : RedisEndpoint.Tcp(redis.Host!, redis.Port, password, user);
        return endpoint with { Tls = tls };
    }
}
