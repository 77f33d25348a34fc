// Copies of this process's sockets that listen on a port, as a child process has them before its program begins.
using System.Globalization;
using System.Runtime.InteropServices;

namespace Slogger.Integration.Tests.Processes;

internal sealed partial class CopiedSockets : IDisposable
{
    private const string ListenState = "0A", Link = "socket:[";
    private readonly List<int> _copies = [];

    public CopiedSockets(int port)
    {
        // sl, local address, remote address, state, ..., inode as the tenth.
        HashSet<string> listening = [.. File.ReadLines("/proc/self/net/tcp")
            .Select(l => l.Split(' ', StringSplitOptions.RemoveEmptyEntries))
            .Where(w => w[3] == ListenState
                && w[1].EndsWith(":" + port.ToString("X4", CultureInfo.InvariantCulture), StringComparison.Ordinal)).Select(w => w[9])];
        foreach (FileInfo file in new DirectoryInfo("/proc/self/fd").GetFiles())
        {
            if (file.LinkTarget is { } target && target.StartsWith(Link, StringComparison.Ordinal)
                && listening.Contains(target[Link.Length..^1]))
            {
                _copies.Add(Duplicate(int.Parse(file.Name, CultureInfo.InvariantCulture)));
            }
        }
    }

    public int Count => _copies.Count;

    public void Dispose()
    {
        foreach (int copy in _copies) { _ = Close(copy); }
    }

    [LibraryImport("libc", EntryPoint = "dup")]
    private static partial int Duplicate(int descriptor);

    [LibraryImport("libc", EntryPoint = "close")]
    private static partial int Close(int descriptor);
}
