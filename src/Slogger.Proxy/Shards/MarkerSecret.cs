// The secret in the name of the marker channel: scripts and clients that do not know it cannot forge a boundary.
using System.Security.Cryptography;
using Slogger.Log.Files;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Shards;

internal static class MarkerSecret
{
    private const string FileName = "marker.secret";
    private const int NonceBytes = 16;

    /// <summary>The data directory's secret, made at first use: a restarted proxy finds its markers again by it.</summary>
    public static string LoadOrCreate(string dataDirectory)
    {
        string path = Path.Combine(dataDirectory, FileName);
        if (File.Exists(path))
        {
            string found = File.ReadAllText(path).Trim();
            if (found.Length == NonceBytes * 2 && found.All(char.IsAsciiHexDigitLower)) { return found; }
        }
        string nonce = Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(NonceBytes));
        DurableFile.Write(SystemFileLayer.Instance, path, System.Text.Encoding.ASCII.GetBytes(nonce + "\n"));
        return nonce;
    }
}
