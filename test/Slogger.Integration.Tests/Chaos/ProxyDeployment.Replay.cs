// The replay check: a copy of the data directory, restored offline into a fresh Redis, must hold what the live one holds.
using System.Globalization;
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Chaos;

internal sealed partial class ProxyDeployment
{
    // Longer than any short-lived key of the workload lives: afterwards both sides have expired the same keys.
    private const int ShortLivedKeysGoneMs = 2000;

    private const string ManifestPattern = "*.json";

    public async Task<IReadOnlyList<Violation>?> CheckReplayAsync()
    {
        if (_setup.Postgres)
        {
            // The copy would share its metadata with the live deployment.
            return null;
        }

        await Task.Delay(ShortLivedKeysGoneMs);
        await ObservedState.ReadAsync(Endpoint); // Touches, and so expires, what has run out.
        await WaitCommittedAsync();
        string copy = _workspace.Folder(string.Create(CultureInfo.InvariantCulture, $"copy{_copies++}"));
        CopyData(copy);
        using var fresh = await RedisProcess.StartAsync(_workspace.Folder(Path.GetFileName(copy) + "-redis"));
        var (exitCode, output) = await ProxyProcess.CommandAsync("restore", "--data", copy, "--latest",
            "--metadata", "sqlite:" + Path.Combine(copy, "metadata.db"),
            "--redis", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{fresh.Port}"));
        if (exitCode != 0)
        {
            return [new(ViolationKind.Replay, $"slogger restore ended with {exitCode}\n{output}")];
        }

        var live = await ObservedState.ReadAsync(Endpoint);
        var restored = await ObservedState.ReadAsync(fresh.Endpoint);
        var differences = ObservedState.Differences(live.Entries, restored.Entries).ToList();
        string liveDigest = await DigestAsync(_setup.Attached ? Redis.Endpoint : Endpoint);
        string restoredDigest = await DigestAsync(fresh.Endpoint);
        if (differences.Count == 0 && liveDigest != restoredDigest)
        {
            differences.Add($"DEBUG DIGEST: live {liveDigest}, restored {restoredDigest}");
        }

        Directory.Delete(copy, recursive: true);
        return [.. differences.Select(d => new Violation(ViolationKind.Replay, d))];
    }

    /// <summary>Waits until everything written so far is committed.</summary>
    public async Task WaitCommittedAsync()
    {
        using var client = await ConnectAsync();
        await client.DoAsync("DEL", "no such key"); // Its version is not below that of anything before it.
        var reply = await client.DoAsync("DPR.WAIT", "*", "20000");
        if (reply.Items[2].AsInteger() != 1)
        {
            throw new TimeoutException($"not committed within 20 s: {reply}\n" + Tail());
        }
    }

    private static async Task<string> DigestAsync(System.Net.EndPoint endpoint)
    {
        using var client = await RespClient.ConnectAsync(endpoint);
        return (await client.DoAsync("DEBUG", "DIGEST")).Text;
    }

    private void CopyData(string to)
    {
        // The metadata first: a log that is newer than the recorded cut is fine, an older one is an error.
        foreach (string file in Directory.EnumerateFiles(DataDirectory, "metadata.db*"))
        {
            File.Copy(file, Path.Combine(to, Path.GetFileName(file)));
        }

        // Manifests are listed first and copied last. They are the last to come and the first to go: one that is copied has its file.
        string[] manifests = Directory.GetFiles(DataDirectory, ManifestPattern, SearchOption.AllDirectories);
        foreach (string file in Directory.GetFiles(DataDirectory, "*", SearchOption.AllDirectories)
            .Except(Directory.GetFiles(DataDirectory, ManifestPattern, SearchOption.AllDirectories)).Concat(manifests))
        {
            string relative = Path.GetRelativePath(DataDirectory, file);
            if (relative.StartsWith("metadata.db", StringComparison.Ordinal)
                || relative.StartsWith("redis" + Path.DirectorySeparatorChar, StringComparison.Ordinal)
                || relative.EndsWith(".sock", StringComparison.Ordinal) || Path.GetFileName(relative) == "lock")
            {
                continue;
            }

            Directory.CreateDirectory(Path.GetDirectoryName(Path.Combine(to, relative))!);
            try
            {
                File.Copy(file, Path.Combine(to, relative));
            }
            catch (FileNotFoundException)
            {
                // A temporary file that was renamed or removed meanwhile.
            }
        }
    }
}
