// The stock implementation: test/External/grpc-js, installed by npm by its lock file into the cache of the outside suites.
using System.Diagnostics;
using System.Security.Cryptography;

namespace Slogger.Grpc.Tests.Support;

public static class StockPeer
{
    private static readonly Lazy<Task<string>> Installed = new(InstallAsync);
    private static readonly string Proto = Path.Combine(AppContext.BaseDirectory, "Protos", "echo.proto");

    /// <summary>A server of the echo service; null certificates: without TLS.</summary>
    public static async Task<(Process Process, int Port)> ServeAsync(string? certificates)
    {
        Process process = Start(await Installed.Value, ["server", Proto, .. Given(certificates)], null);
        string? line = await process.StandardOutput.ReadLineAsync().WaitAsync(EchoServer.Guard);
        if (line is null || !line.StartsWith("port ", StringComparison.Ordinal))
        {
            throw new InvalidOperationException($"the stock server says '{line}'");
        }
        return (process, int.Parse(line[5..], System.Globalization.CultureInfo.InvariantCulture));
    }

    /// <summary>Runs the stock client's checks.</summary>
    /// <returns>Its lines: <c>ok NAME</c> or <c>FAILED NAME: why</c>.</returns>
    public static async Task<string[]> CheckAsync(int port, string? certificates, string? secret)
    {
        using Process process = Start(await Installed.Value, ["client", Proto, $"{port}", .. Given(certificates)], secret);
        string text = await process.StandardOutput.ReadToEndAsync().WaitAsync(TimeSpan.FromMinutes(10));
        await process.WaitForExitAsync();
        return text.Split('\n', StringSplitOptions.RemoveEmptyEntries);
    }

    private static string[] Given(string? certificates) => certificates is null ? [] : [certificates];

    private static Process Start(string directory, string[] arguments, string? secret)
    {
        // It ends with our end of its input, whatever becomes of us.
        var start = new ProcessStartInfo("node", [Path.Combine(directory, "peer.mjs"), .. arguments]) { RedirectStandardInput = true,
            RedirectStandardOutput = true };
        if (secret is not null) { start.Environment["SECRET"] = secret; }
        return Process.Start(start)!;
    }

    /// <returns>The folder with the script; its libraries are in the cache.</returns>
    private static async Task<string> InstallAsync()
    {
        if (!IsThere("node") || !IsThere("npm"))
        {
            Assert.Skip("the stock implementation needs node and npm, which are not on this machine");
        }
        string script = Path.Combine(AppContext.BaseDirectory, "grpc-js");
        string version = Convert.ToHexString(
            SHA256.HashData(await File.ReadAllBytesAsync(Path.Combine(script, "package-lock.json"))))[..12].ToLowerInvariant();
        string home = Environment.GetEnvironmentVariable("XDG_CACHE_HOME") is { Length: > 0 } cache ? cache
            : Path.Combine(Environment.GetFolderPath(Environment.SpecialFolder.UserProfile), ".cache");
        string directory = Path.Combine(Environment.GetEnvironmentVariable("SLOGGER_EXTERNAL_CACHE")
            ?? Path.Combine(home, "slogger-external"), "grpc-js-" + version);
        Directory.CreateDirectory(directory);
        using (await AloneAsync(directory + ".lock"))
        {
            if (!File.Exists(Path.Combine(directory, ".installed"))) { await InstallAsync(script, directory); }
            // The link may be of another cache, which may be gone.
            string link = Path.Combine(script, "node_modules"), target = Path.Combine(directory, "node_modules");
            string? old = new FileInfo(link).LinkTarget;
            if (old is not null && old != target) { File.Delete(link); }
            if (old != target) { Directory.CreateSymbolicLink(link, target); }
        }
        return script;
    }

    private static async Task InstallAsync(string script, string directory)
    {
        foreach (string name in (string[])["package.json", "package-lock.json"])
        {
            File.Copy(Path.Combine(script, name), Path.Combine(directory, name), overwrite: true);
        }
        var start = new ProcessStartInfo(
            "npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]) { WorkingDirectory = directory,
                RedirectStandardError = true, RedirectStandardOutput = true };
        using Process npm = Process.Start(start)!;
        Task<string> said = npm.StandardOutput.ReadToEndAsync();
        string errors = await npm.StandardError.ReadToEndAsync().WaitAsync(TimeSpan.FromMinutes(5));
        await npm.WaitForExitAsync();
        await said;
        if (npm.ExitCode != 0) { Assert.Skip($"the stock implementation cannot be installed by npm: {errors}"); }
        await File.WriteAllTextAsync(Path.Combine(directory, ".installed"), "");
    }

    // Several runs of the tests share the cache.
    private static async Task<FileStream> AloneAsync(string path)
    {
        while (true)
        {
            try { return new FileStream(path, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.None); }
            catch (IOException) { await Task.Delay(100); }
        }
    }

    private static bool IsThere(string program) =>
        (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator)
            .Any(d => File.Exists(Path.Combine(d, program)) || File.Exists(Path.Combine(d, program + ".exe")));
}
