// The file descriptors of this process. Clients could take all of them, and then the log could open no file and the proxy no connection of
// its own: some are kept back.
using System.Globalization;
using System.Net.Sockets;

namespace Slogger.FrontEnd.Transports;

/// <summary>Tells when clients must take no more descriptors.</summary>
internal static class Descriptors
{
    // For files, the database, the proxy's own connections to Redis and to other proxies, and for telling clients that they are too many.
    private const long Reserve = 256;

    /// <summary>How many the process may have; as good as none where that is not known.</summary>
    public static long Limit { get; } = Read();

    private static readonly long s_forClients = Limit - Math.Min(Reserve, Limit / 4);

    /// <summary>Whether a socket that was just opened has one of those that are kept back: the lowest number that is free is given
    /// first.</summary>
    public static bool AreScarce(Socket opened) => OperatingSystem.IsLinux() && opened.SafeHandle.DangerousGetHandle() >= s_forClients;

    private static long Read()
    {
        const string Path = "/proc/self/limits", Name = "Max open files";
        if (!OperatingSystem.IsLinux() || !File.Exists(Path)) { return int.MaxValue; }
        string? line = File.ReadLines(Path).FirstOrDefault(l => l.StartsWith(Name, StringComparison.Ordinal));
        string? soft = line?[Name.Length..].Split(' ', StringSplitOptions.RemoveEmptyEntries).FirstOrDefault();
        return long.TryParse(soft, NumberStyles.None, CultureInfo.InvariantCulture, out long limit) ? limit : int.MaxValue;
    }
}
