// slogger restore: the state of any version that the log holds, byte for byte, without changing the log; and what it refuses.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class OfflineRestoreTests
{
    [Fact]
    public async Task Restore_SeveralVersions_EachHasItsDigestAndTheLogIsUnchanged()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        var states = new List<(long Version, string Digest)>();
        for (int round = 0; round < 4; round++) { states.Add(await WriteAsync(deployment, round)); }
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        var before = Files(deployment.DataDirectory);
        using var fresh = await RedisProcess.StartAsync(workspace.Folder("fresh"));
        foreach (var (version, digest) in states.AsEnumerable().Reverse())
        {
            await RestoreAsync(deployment, fresh, "--version", Text(version));
            Assert.Equal(digest, await DigestAsync(fresh.Endpoint));
        }
        await RestoreAsync(deployment, fresh, "--latest");
        Assert.Equal(states[^1].Digest, await DigestAsync(fresh.Endpoint));
        Assert.Equal(before, Files(deployment.DataDirectory));

        // The proxy stands where it stood.
        await deployment.StartProxyAsync();
        Assert.Equal(states[^1].Digest, await DigestAsync(deployment.Endpoint));
        await WriteAsync(deployment, 9);
    }

    [Fact]
    public async Task Restore_IntoAServerOfItsOwn_LeavesItRunning()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        var state = await WriteAsync(deployment, 0);
        await deployment.WaitCommittedAsync();
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        var (exitCode, text) = await ProxyProcess.CommandAsync(
            "restore", "--data", deployment.DataDirectory, "--latest", "--redis-directive", "enable-debug-command yes");
        Assert.True(exitCode == 0, text);
        Assert.Equal(state.Digest,
            await DigestAsync(new System.Net.Sockets.UnixDomainSocketEndPoint(
                Path.Combine(deployment.DataDirectory, "redis", "redis.sock"))));
        // The proxy adopts it.
        await deployment.StartProxyAsync();
        Assert.Equal(state.Digest, await DigestAsync(deployment.Endpoint));
        Assert.Contains("nothing was lost", deployment.Proxy.Tail(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Restore_WhatCannotBe_IsRefusedWithWhatCan()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        var state = await WriteAsync(deployment, 0);
        await Refused(deployment, "in use", "--latest", "--redis", "127.0.0.1:1");
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        using var fresh = await RedisProcess.StartAsync(workspace.Folder("fresh"));
        string address = $"127.0.0.1:{fresh.Port}";
        await Refused(deployment, "newest durable version is", "--version", Text(state.Version + 1_000_000_000), "--redis", address);
        await Refused(deployment, "can be restored", "--version", "1", "--redis", address);
        using (var client = await fresh.ConnectAsync()) { await client.DoAsync("SET", "foreign", "data"); }
        await Refused(deployment, "unknown origin", "--latest", "--redis", address);
        using (var client = await fresh.ConnectAsync()) { Assert.Equal("$data", (await client.CallAsync("GET", "foreign")).Compact); }
        await RestoreAsync(deployment, fresh, "--latest", "--seed", "from-log");
        Assert.Equal(state.Digest, await DigestAsync(fresh.Endpoint));
    }

    private static async Task Refused(ProxyDeployment deployment, string because, params string[] arguments)
    {
        var (exitCode, text) = await ProxyProcess.CommandAsync(["restore", "--data", deployment.DataDirectory, .. arguments]);
        Assert.True(exitCode != 0, text);
        Assert.Contains(because, text, StringComparison.Ordinal);
    }

    private static async Task RestoreAsync(ProxyDeployment deployment, RedisProcess redis, params string[] arguments)
    {
        var (exitCode, text) = await ProxyProcess.CommandAsync(
            ["restore", "--data", deployment.DataDirectory, "--redis", $"127.0.0.1:{redis.Port}", .. arguments]);
        Assert.True(exitCode == 0, text);
    }

    /// <summary>Changes much, waits for the commit, and returns a version that holds exactly that, with its digest.</summary>
    private static async Task<(long Version, string Digest)> WriteAsync(ProxyDeployment deployment, int round)
    {
        using var client = await deployment.ConnectAsync();
        for (int i = 0; i < 300; i++)
        {
            await client.DoAsync("SET", $"s:{(i * 7) + round}", $"{round}-{i}");
            await client.DoAsync("RPUSH", $"l:{i % 11}", $"{round}-{i}");
            await client.DoAsync("HINCRBY", "h", $"f{i % 17}", $"{round + i}");
        }
        await client.DoAsync("SELECT", "3");
        await client.DoAsync("SADD", "elsewhere", $"{round}");
        await client.DoAsync("SELECT", "0");
        if (round == 2) { await client.DoAsync("DEL", "l:3"); }
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
        long version = (await client.DoAsync("DPR.CUT")).Items[1].AsInteger();
        return (version, await DigestAsync(deployment.Endpoint));
    }

    private static async Task<string> DigestAsync(EndPoint endpoint)
    {
        using var client = await RespClient.ConnectAsync(endpoint);
        return (await client.DoAsync("DEBUG", "DIGEST")).Text;
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    private static List<string> Files(string directory) =>
    [
        .. new[] { "log", "checkpoints" }.SelectMany(d => Directory.EnumerateFiles(Path.Combine(directory, d))).Order()
            .Select(f => $"{Path.GetFileName(f)} {new FileInfo(f).Length} "
                + $"{Convert.ToHexString(System.Security.Cryptography.SHA256.HashData(File.ReadAllBytes(f)))}"),
    ];
}
