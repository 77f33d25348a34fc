// Whatever the mask of whoever starts it: nobody else can read what the product makes. A socket for clients has the mode that the mask
// says.
using System.Globalization;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Processes;

[System.Runtime.Versioning.UnsupportedOSPlatform("windows")]
public sealed class FileModeTests
{
    private const UnixFileMode Others =
        UnixFileMode.GroupRead | UnixFileMode.GroupWrite | UnixFileMode.GroupExecute
        | UnixFileMode.OtherRead | UnixFileMode.OtherWrite | UnixFileMode.OtherExecute;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("log", "022")]
    [InlineData("log", "000")]
    [InlineData("bgsave", "022")]
    [InlineData("bgsave", "000")]
    [InlineData("faster", "022")]
    [InlineData("faster", "000")]
    [InlineData("backup", "022")]
    [InlineData("backup", "000")]
    public async Task Product_InEachMode_MakesNothingThatOthersCanRead(string mode, string mask)
    {
        using var workspace = new Workspace();
        // The directory was there before, and is open.
        string data = workspace.Folder("data"), clients = Path.Combine(workspace.Folder("sockets"), "clients.sock"), secret =
            workspace.File("secret");
        File.SetUnixFileMode(data,
            UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute | UnixFileMode.GroupRead
            | UnixFileMode.GroupExecute | UnixFileMode.OtherRead | UnixFileMode.OtherExecute);
        await File.WriteAllTextAsync(secret, "a-secret-of-enough-length-0123456789\n", TestContext.Current.CancellationToken);
        File.SetUnixFileMode(secret, UnixFileMode.UserRead | UnixFileMode.UserWrite);
        int port = Workspace.FreePort();
        string[] options = mode switch
        {
            "faster" => ["serve", "--faster-memory", "256mb"],
            "backup" => ["backup", "--redis-server", RedisProcess.Executable, "--failover-rehearsal", "off", "--site-listen",
                $"127.0.0.1:{Workspace.FreePort()}", "--site-secret-file", secret],
            _ => ["serve", "--redis-server", RedisProcess.Executable, "--commit", mode, "--redis-password-file", secret],
        };
        using (ChildProcess proxy = Start(mask, [.. options, "--data", data, "--listen", Address(port), "--listen", "unix:" + clients]))
        {
            await proxy.WaitForLineAsync(l => l.Contains("listening on", StringComparison.OrdinalIgnoreCase), Generous);
            if (mode != "backup")
            {
                using RespClient client = await RespClient.ConnectAsync(new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, port));
                if (mode != "faster") { await client.DoAsync("AUTH", "a-secret-of-enough-length-0123456789"); }
                await client.DoAsync("SET", "k", "v");
                Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
            }
            UnixFileMode expected = (UnixFileMode)(0b111_111_111 & ~Convert.ToInt32(mask, 8));
            Assert.Equal(expected, File.GetUnixFileMode(clients));
            string seen = Check(data);
            Assert.Contains("metadata.db-wal", seen, StringComparison.Ordinal);
            proxy.Terminate();
            Assert.True(await proxy.WaitForExitAsync(Generous), proxy.Tail());
        }
        Check(data);

        // Another command makes the files that SQLite has beside the metadata.
        if (mode == "log")
        {
            using ChildProcess restore = Start(mask, ["restore", "--data", data, "--latest", "--redis-password-file", secret]);
            Assert.True(await restore.WaitForExitAsync(Generous), restore.Tail());
            Check(data);
            int server = int.Parse((await File.ReadAllLinesAsync(
                Directory.EnumerateFiles(Path.Combine(data, "redis"), "*.pid").First(), TestContext.Current.CancellationToken))[0],
                    CultureInfo.InvariantCulture);
            ChildProcess.Signal(server, 9);
        }
    }

    [Theory]
    [InlineData("metadata.db")]
    [InlineData("metadata.db-wal")]
    public async Task Metadata_ThatOthersCanRead_IsNamedAtTheStart(string name)
    {
        using var workspace = new Workspace();
        string data = workspace.File("data");
        int port = Workspace.FreePort();
        string[] arguments = ["serve", "--faster-memory", "256mb", "--data", data, "--listen", Address(port)];
        for (int start = 0; start < 2; start++)
        {
            using ChildProcess proxy = Start("022", arguments);
            await proxy.WaitForLineAsync(l => l.Contains("listening on", StringComparison.OrdinalIgnoreCase), Generous);
            string path = Path.Combine(data, name);
            if (start == 0) { Assert.DoesNotContain("chmod 600", proxy.Tail(), StringComparison.Ordinal); }
            else { Assert.Contains("chmod 600 " + path, proxy.Tail(), StringComparison.Ordinal); }
            // Killed, so that all files are left.
            proxy.KillHard();
            Assert.True(await proxy.WaitForExitAsync(Generous));
            File.SetUnixFileMode(path, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.OtherRead);
        }
        string metadata = Path.Combine(data, "metadata.db");
        foreach (string[] command in (string[][])[["restore", "--data", data, "--list"],
            ["recover", "--metadata", "sqlite:" + metadata, "--shard", "7"], ["leave", "--metadata", "sqlite:" + metadata, "--shard", "7"]])
        {
            File.SetUnixFileMode(metadata, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.OtherRead);
            (_, string said) = await ProxyProcess.CommandAsync(command);
            Assert.Contains("chmod 600 " + metadata, said, StringComparison.Ordinal);
        }
    }

    // There it is the application that says what the umask is. What the embedded store itself makes is in a directory that is closed.
    [Theory]
    [InlineData("022")]
    [InlineData("000")]
    public async Task Application_WithAShard_MakesNothingThatOthersCanReach(string mask)
    {
        using var workspace = new Workspace();
        string data = workspace.Folder("data"), metadata = Path.Combine(data, "metadata.db");
        File.SetUnixFileMode(data, File.GetUnixFileMode(data) | UnixFileMode.OtherRead | UnixFileMode.OtherExecute);
        for (int start = 0; start < 2; start++)
        {
            using ChildProcess application =
                Start(mask, [Path.Combine(AppContext.BaseDirectory, "Slogger.Integration.Tests.dll"), "--hosting-application",
                Workspace.FreePort().ToString(CultureInfo.InvariantCulture), data, "0"], isProxy: false);
            await application.WaitForLineAsync(l => l == "serves", Generous);
            if (start > 0)
            {
                await application.WaitForLineAsync(l => l.Contains("chmod 600 " + metadata, StringComparison.Ordinal), Generous);
            }
            else
            {
                string seen = Check(data, SearchOption.TopDirectoryOnly);
                foreach (string name in (string[])["lock", "proxy.pid", "proxy.json", "store.json", "metadata.db-wal"])
                {
                    Assert.Contains($"/{name}: ", seen, StringComparison.Ordinal);
                }
            }
            application.KillHard();
            Assert.True(await application.WaitForExitAsync(Generous));
            File.SetUnixFileMode(metadata, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.OtherRead);
        }
    }

    private static string Check(string data, SearchOption depth = SearchOption.AllDirectories)
    {
        var seen = new List<string>();
        foreach (string path in Directory.EnumerateFileSystemEntries(data, "*", depth))
        {
            UnixFileMode mode;
            try
            {
                mode = File.GetUnixFileMode(path);
            }
            catch (FileNotFoundException)
            {
                // A temporary one.
                continue;
            }
            seen.Add($"{path}: {mode}");
            Assert.True((mode & Others) == 0, seen[^1]);
        }
        return string.Join('\n', seen);
    }

    private static string Address(int port) => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}");

    private static ChildProcess Start(string mask, string[] arguments, bool isProxy = true) =>
        ChildProcess.Start("slogger", "/bin/sh",
            ["-c", $"umask {mask}; exec dotnet \"$@\"", "sh", .. isProxy ? [ProxyProcess.Executable] : Array.Empty<string>(),
                .. arguments]);
}
