// A network, a table of processes and mounts of the command's own. When the command ends, in whatever way, the kernel ends all processes
// that it has started and takes away its namespaces, links and mounts: there is nothing to clean up.
using System.ComponentModel;
using System.Runtime.InteropServices;

namespace Slogger.Linearizability.Rounds;

internal static partial class Isolation
{
    private const string Mark = "SLOGGER_LINEARIZABILITY_ISOLATED";

    /// <summary>Where small file systems are mounted, seen by this command and its processes only.</summary>
    public const string Mounts = "/mnt";

    /// <summary>Why it cannot be had here, or null.</summary>
    public static string? Lacking =>
        !Environment.IsPrivilegedProcess ? "network namespaces need root"
        : new[] { "/usr/bin/unshare", "/usr/bin/ip", "/usr/bin/redis-server" }.FirstOrDefault(f => !File.Exists(f)) is { } missing
            ? $"{missing} is not installed" : null;

    /// <summary>Whether this process is in it.</summary>
    public static bool IsEntered => Environment.GetEnvironmentVariable(Mark) is not null;

    /// <summary>Begins anew in it, with the same arguments; returns when that is done already.</summary>
    public static void Enter(string[] args)
    {
        if (IsEntered) { return; }
        string program = Path.Combine(AppContext.BaseDirectory, "Slogger.Linearizability");
        string?[] command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
            "env", $"{Mark}=1", program, .. args, null];
        _ = Execute(command[0]!, command);
        throw new Win32Exception(Marshal.GetLastPInvokeError(), "unshare could not be started");
    }

    [LibraryImport("libc", EntryPoint = "execvp", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Execute(string file, string?[] arguments);
}
