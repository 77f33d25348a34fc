// slogger snapshot --to s3:// and slogger load --from s3://, with a storage that others made: what comes back is what was there, whatever
// interrupts it; half of it is never taken for one.
using System.Globalization;
using System.Net;
using System.Text.Json;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using static Slogger.Integration.Tests.Past.BackupPastTests;

namespace Slogger.Integration.Tests.Past;

public sealed class SnapshotBucketTests
{
    private const string Bucket = "copies", To = $"s3://{Bucket}/of/shop", Manifest = "manifest.json";
    private const int Megabyte = 1 << 20;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(3);

    private static readonly string[] s_foreign = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
        "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"];

    // Of one number of shards into another: what differs, what that rests on, and a directory that rests on the bucket.
    [Theory]
    [InlineData(1, 3)]
    [InlineData(3, 2)]
    public async Task AChain_IsLoadedFromTheBucket_IntoAnotherNumberOfShards(int shards, int others)
    {
        Assert.SkipUnless(S3Storage.IsInstalled, S3Storage.Missing);
        using var workspace = new Workspace();
        using S3Storage storage = await S3Storage.StartAsync(workspace);
        await storage.Client.PutBucketAsync(Bucket);
        await using var cluster = new ClusterDeployment(workspace, shards, usesPostgres: false);
        await cluster.StartAsync();
        for (int shard = 0; shard < shards; shard++)
        {
            using RespClient client = await cluster.ConnectAsync(shard);
            for (int i = 0; i < 500; i++) { await client.DoAsync("SET", cluster.Key(shard, $"key:{i}"), Text(i)); }
        }
        string first = await TakeAsync(storage, cluster.Port(0));
        for (int shard = 0; shard < shards; shard++)
        {
            using RespClient client = await cluster.ConnectAsync(shard);
            for (int i = 0; i < 50; i++) { await client.DoAsync("SET", cluster.Key(shard, $"key:{i}"), "changed"); }
            for (int i = 50; i < 80; i++) { await client.DoAsync("DEL", cluster.Key(shard, $"key:{i}")); }
            await client.DoAsync("HSET", cluster.Key(shard, "new"), "f", "v");
        }
        string second = await TakeAsync(storage, cluster.Port(shards - 1), "--from", first), version = second.Split('-')[^1];
        string[] keys = await storage.KeysAsync(Bucket);
        Assert.Equal(shards + 1 + (2 * shards) + 1, keys.Length);
        Assert.Equal(2, keys.Count(k => k.EndsWith("/" + Manifest, StringComparison.Ordinal)));
        JsonElement[] parts = [.. JsonDocument.Parse(await storage.ReadAsync(Bucket, KeyOf(second, Manifest))).RootElement
            .GetProperty("shards").EnumerateArray()];
        Assert.Equal(51 * shards, parts.Sum(s => s.GetProperty("keys").GetInt64()));
        Assert.Equal(30 * shards, parts.Sum(s => s.GetProperty("removed").GetProperty("keys").GetInt64()));

        // What is there is not written over.
        (int code, string told) = await RunAsync(storage.Environment(),
            ["snapshot", "--address", At(cluster.Port(0)), "--to", To, "--version", version]);
        Assert.Equal(1, code);
        Assert.Contains("is there already", told);
        Assert.Equal(keys, await storage.KeysAsync(Bucket));

        string all = await SnapshotTests.TakeAsync(workspace, cluster.Port(0), "--version", version);
        using (RespClient client = await cluster.ConnectAsync(0)) { await client.DoAsync("SET", cluster.Key(0, "last"), "x"); }
        string third = workspace.Folder("third");
        (code, told) = await RunAsync(storage.Environment(),
            ["snapshot", "--address", At(cluster.Port(0)), "--to", third, "--from", second]);
        Assert.True(code == 0, told);
        third = Directory.GetDirectories(third).Single();

        await using var other = new ClusterDeployment(new Workspace(), others, usesPostgres: false);
        await other.StartAsync();
        foreach ((string from, int count) in ((string, int)[])[(third, (471 * shards) + 1), (second, 471 * shards)])
        {
            for (int shard = 0; shard < others; shard++)
            {
                using RespClient client = await other.ConnectAsync(shard);
                await client.DoAsync("FLUSHALL");
            }
            (code, told) = await LoadAsync(storage.Environment(), other.Port(0), from);
            Assert.True(code == 0, told);
            Assert.Contains($"{count} keys loaded", told);
        }
        string again = await SnapshotTests.TakeAsync(new Workspace(), other.Port(0)), expected = await DigestAsync(workspace, all, shards);
        Assert.Equal(expected, await DigestAsync(workspace, again, others));

        // A copy of both elsewhere, side by side: what one rests on is found beside it.
        foreach (string key in await storage.KeysAsync(Bucket))
        {
            await storage.Client.CopyObjectAsync(Bucket, key, Bucket, "copied/" + key);
            await storage.Client.DeleteObjectAsync(Bucket, key);
        }
        for (int shard = 0; shard < others; shard++)
        {
            using RespClient client = await other.ConnectAsync(shard);
            await client.DoAsync("FLUSHALL");
        }
        string copied = second.Replace("/of/", "/copied/of/", StringComparison.Ordinal);
        (code, told) = await LoadAsync(storage.Environment(), other.Port(0), copied);
        Assert.True(code == 0, told);

        // Damage is found before anything is loaded.
        string damaged = (await storage.KeysAsync(Bucket)).First(k => k.EndsWith(".rdb", StringComparison.Ordinal)
            && k.Contains("delta", StringComparison.Ordinal));
        byte[] bytes = await storage.ReadAsync(Bucket, damaged);
        bytes[bytes.Length / 2] ^= 1;
        await storage.Client.PutObjectAsync(new()
        {
            BucketName = Bucket, Key = damaged, InputStream = new MemoryStream(bytes), UseChunkEncoding = false,
        });
        (code, told) = await LoadAsync(storage.Environment(), other.Port(0), copied);
        Assert.Equal(1, code);
        Assert.Contains("is damaged", told);
        Assert.Contains("nothing was loaded", told);
        await storage.Client.DeleteObjectAsync(Bucket, damaged);
        (code, told) = await LoadAsync(storage.Environment(), other.Port(0), copied);
        Assert.Equal(1, code);
        Assert.Contains("is missing", told);
    }

    [Fact]
    public async Task ValuesLargerThanAPart_AreUploadedInParts_AndComeBack()
    {
        Assert.SkipUnless(S3Storage.IsInstalled, S3Storage.Missing);
        using var workspace = new Workspace();
        using S3Storage storage = await S3Storage.StartAsync(workspace);
        await storage.Client.PutBucketAsync(Bucket);
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        await WriteLargeAsync(client);
        string taken = await TakeAsync(storage, deployment.Port);
        string file = Assert.Single(await storage.KeysAsync(Bucket), k => k.EndsWith(".rdb", StringComparison.Ordinal));
        // The tag of what has come in parts says how many they were.
        string tag = (await storage.Client.GetObjectMetadataAsync(Bucket, file)).ETag.Trim('"');
        Assert.True(int.Parse(tag.Split('-')[^1], CultureInfo.InvariantCulture) >= 3 && tag.Contains('-', StringComparison.Ordinal), tag);
        Assert.Empty(await storage.UploadsAsync(Bucket));
        string before = (await client.DoAsync("DEBUG", "DIGEST")).Text;
        await client.DoAsync("FLUSHALL");
        (int code, string told) = await LoadAsync(storage.Environment(), deployment.Port, taken);
        Assert.True(code == 0, told);
        Assert.Equal(before, (await client.DoAsync("DEBUG", "DIGEST")).Text);
    }

    // The way to the storage ends in the middle of the upload, and so does the command.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task ACommandThatEndsInTheMiddle_LeavesNoSnapshot_AndTheNextIsWhole(bool isKilled)
    {
        Assert.SkipUnless(S3Storage.IsInstalled, S3Storage.Missing);
        using var workspace = new Workspace();
        using S3Storage storage = await S3Storage.StartAsync(workspace);
        await storage.Client.PutBucketAsync(Bucket);
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        await WriteLargeAsync(client);
        string version = Text((await client.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());
        string[] command = ["snapshot", "--address", At(deployment.Port), "--to", To, "--version", version];
        using var way = new TcpRelay(new IPEndPoint(IPAddress.Loopback, storage.Port)) { PassesAtMost = 24 * Megabyte };
        using (ChildProcess taking = Start(storage.Environment(way.Port), command))
        {
            await way.HasCut.WaitAsync(s_limit);
            if (isKilled) { taking.KillHard(); }
            else
            {
                taking.Terminate();
                await taking.WaitForLineAsync(l => l.Contains("stopping in order", StringComparison.Ordinal), s_limit);
                way.Open();
                Assert.True(await taking.WaitForExitAsync(s_limit), taking.Tail());
                await taking.LastWordsAsync();
                Assert.Equal(1, taking.ExitCode);
                Assert.Contains("interrupted", taking.Tail());
            }
        }
        Assert.Empty(await storage.KeysAsync(Bucket));
        Assert.Equal(isKilled ? 1 : 0, (await storage.UploadsAsync(Bucket)).Count);
        string whole = $"{To}/default-{version}";
        (int code, string told) = await LoadAsync(storage.Environment(), deployment.Port, whole);
        Assert.Equal(1, code);
        Assert.Contains("is no snapshot: it has no manifest.json", told);

        // A file that another run has left, too.
        await storage.Client.PutObjectAsync(new()
        {
            BucketName = Bucket, Key = KeyOf(whole, "shard-0-12345678.rdb"), ContentBody = "half of it", UseChunkEncoding = false,
        });
        (code, told) = await RunAsync(storage.Environment(), command);
        Assert.True(code == 0, told);
        Assert.Empty(await storage.UploadsAsync(Bucket));
        Assert.Equal(2, (await storage.KeysAsync(Bucket)).Length);
        string before = (await client.DoAsync("DEBUG", "DIGEST")).Text;
        await client.DoAsync("FLUSHALL");
        (code, told) = await LoadAsync(storage.Environment(), deployment.Port, whole);
        Assert.True(code == 0, told);
        Assert.Equal(before, (await client.DoAsync("DEBUG", "DIGEST")).Text);
    }

    // The second one begins and ends while the first one is in the middle.
    [Theory]
    [InlineData("heeds")]
    [InlineData("ignores")]
    [InlineData("refuses")]
    public async Task TwoRunsForOneVersion_LeaveOneSnapshotThatIsWhole(string conditions)
    {
        Assert.SkipUnless(S3Storage.IsInstalled, S3Storage.Missing);
        using var workspace = new Workspace();
        using S3Storage storage = await S3Storage.StartAsync(workspace, conditions);
        await storage.Client.PutBucketAsync(Bucket);
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        await WriteLargeAsync(client);
        string version = Text((await client.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger()), whole = $"{To}/default-{version}";
        string[] command = ["snapshot", "--address", At(deployment.Port), "--to", To, "--version", version];
        using var way = new TcpRelay(new IPEndPoint(IPAddress.Loopback, storage.Port)) { PassesAtMost = 24 * Megabyte };
        using ChildProcess first = Start(storage.Environment(way.Port), command);
        await way.HasCut.WaitAsync(s_limit);
        (int code, string told) = await RunAsync(storage.Environment(), command);
        Assert.True(code == 0, told);
        Assert.Equal(conditions == "heeds" ? 0 : 1, (await storage.UploadsAsync(Bucket)).Count);
        way.Open();
        Assert.True(await first.WaitForExitAsync(s_limit), first.Tail());
        await first.LastWordsAsync();
        Assert.Equal(1, first.ExitCode);
        Assert.Contains(conditions == "heeds" ? "its upload has been removed" : "is there already", first.Tail());
        Assert.DoesNotContain("could not be removed", first.Tail());
        Assert.Empty(await storage.UploadsAsync(Bucket));
        Assert.Equal(2, (await storage.KeysAsync(Bucket)).Length);
        string before = (await client.DoAsync("DEBUG", "DIGEST")).Text;
        await client.DoAsync("FLUSHALL");
        (code, told) = await LoadAsync(storage.Environment(), deployment.Port, whole);
        Assert.True(code == 0, told);
        Assert.Equal(before, (await client.DoAsync("DEBUG", "DIGEST")).Text);
    }

    [Fact]
    public async Task Refusals_SayWhatToDo_AndNoSecrets()
    {
        Assert.SkipUnless(S3Storage.IsInstalled, S3Storage.Missing);
        using var workspace = new Workspace();
        using S3Storage storage = await S3Storage.StartAsync(workspace);
        await storage.Client.PutBucketAsync(Bucket);
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "k", "v");
        Dictionary<string, string> mine = storage.Environment();
        await RefusedAsync(mine, "s3://nothing-there/x", "the storage has no bucket nothing-there: make it, or correct the name");
        await RefusedAsync(new(mine) { ["AWS_SECRET_ACCESS_KEY"] = "guessed-secret" }, To,
            "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
        await RefusedAsync(storage.EnvironmentOfStranger(), To, "these keys need the rights to");
        Dictionary<string, string> without = new(mine);
        without.Remove("AWS_ACCESS_KEY_ID");
        without.Remove("AWS_SECRET_ACCESS_KEY");
        await RefusedAsync(without, To, "there are no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE");
        // Roles, of which nobody gives out the keys.
        string role = "arn:aws:iam::123456789012:role/copies", config = workspace.File("config"), token = workspace.File("token");
        await File.WriteAllTextAsync(config, $"[profile role]\nrole_arn = {role}\nsource_profile = base\n[profile base]\n"
            + "aws_access_key_id = AKIDOFBASE\naws_secret_access_key = secret-of-base\n[profile half]\n"
            + $"role_arn = {role}\nsource_profile = nothing\n[profile made]\ncredential_process = echo secret-of-process >&2; exit 3\n");
        await File.WriteAllTextAsync(token, "secret-of-token");
        Dictionary<string, string> byRole = new(without)
        {
            ["AWS_CONFIG_FILE"] = config, ["AWS_ENDPOINT_URL_STS"] = $"http://localhost:{Text(Workspace.FreePort())}",
        };
        string cannotCall = $"the keys cannot be had (Error calling AssumeRole for role {role}: Connection refused";
        await RefusedAsync(new(byRole) { ["AWS_PROFILE"] = "role" }, To, cannotCall);
        await RefusedAsync(new(byRole) { ["AWS_ROLE_ARN"] = role, ["AWS_WEB_IDENTITY_TOKEN_FILE"] = token }, To, cannotCall);
        await RefusedAsync(new(byRole) { ["AWS_PROFILE"] = "half" }, To, "Error reading source profile [nothing] for profile [half]");
        await RefusedAsync(new(byRole) { ["AWS_PROFILE"] = "made" }, To, "the keys cannot be had (its credential_process fails): check");
        await RefusedAsync(new(byRole) { ["AWS_PROFILE"] = "nobody" }, To, "(Unable to find the \"nobody\" profile): check AWS_PROFILE");
        await RefusedAsync(storage.Environment(Workspace.FreePort()), To, "check AWS_ENDPOINT_URL_S3 and AWS_REGION");
        await RefusedAsync(mine, "s3:/copies/x", "does not have the form s3://BUCKET/PREFIX", wrongly: true);
        await RefusedAsync(mine, "http://copies/x", "is neither a directory nor s3://BUCKET/PREFIX", wrongly: true);
        Dictionary<string, string> nowhere = new(mine);
        nowhere.Remove("AWS_ENDPOINT_URL_S3");
        nowhere.Remove("AWS_REGION");
        await RefusedAsync(nowhere, To, "set AWS_REGION, or AWS_ENDPOINT_URL_S3");
        Assert.Empty(await storage.KeysAsync(Bucket));

        async Task RefusedAsync(Dictionary<string, string> environment, string to, string why, bool wrongly = false)
        {
            foreach (string[] command in (string[][])[["snapshot", "--to", to], ["load", "--from", to + "/default-1"]])
            {
                (int code, string told) = await RunAsync(environment, [.. command, "--address", At(deployment.Port)]);
                Assert.True(code == (wrongly ? 2 : 1), told);
                Assert.Contains(why, told);
                Assert.DoesNotContain("secret-of", told);
                Assert.DoesNotContain("guessed-secret", told);
            }
        }
    }

    // Some parts: bytes that cannot be packed.
    private static async Task WriteLargeAsync(RespClient client)
    {
        byte[] value = new byte[40 * Megabyte];
        new Random(1).NextBytes(value);
        await client.DoAsync("SET", "small", "x");
        await SetAsync(client, "large", value);
        for (int i = 0; i < 20; i++) { await SetAsync(client, $"many:{i}", value.AsMemory(i * Megabyte, Megabyte)); }
        await client.DoAsync("SET", "last", "y");
    }

    private static async Task SetAsync(RespClient client, string key, ReadOnlyMemory<byte> value)
    {
        await client.WriteAsync(System.Text.Encoding.ASCII.GetBytes($"*3\r\n$3\r\nSET\r\n${key.Length}\r\n{key}\r\n${value.Length}\r\n"));
        await client.WriteAsync(value);
        await client.WriteAsync("\r\n"u8.ToArray());
        Assert.Equal("OK", (await client.ReadAsync()).Text);
    }

    private static async Task<string> TakeAsync(S3Storage storage, int port, params string[] options)
    {
        (int code, string told) = await RunAsync(storage.Environment(), ["snapshot", "--address", At(port), "--to", To, .. options]);
        Assert.True(code == 0, told + storage.Tail());
        const string begin = "the snapshot is in ";
        return told.Split('\n').Single(l => l.StartsWith(begin, StringComparison.Ordinal))[begin.Length..];
    }

    private static Task<(int Code, string Told)> LoadAsync(Dictionary<string, string> environment, int port, string from) =>
        RunAsync(environment, ["load", "--address", At(port), "--from", from]);

    private static async Task<(int Code, string Told)> RunAsync(Dictionary<string, string> environment, string[] arguments)
    {
        using ChildProcess command = Start(environment, arguments);
        Assert.True(await command.WaitForExitAsync(s_limit), command.Tail());
        await command.LastWordsAsync();
        return (command.ExitCode, command.Tail());
    }

    // What this process may have of it does not count.
    private static ChildProcess Start(Dictionary<string, string> environment, string[] arguments) =>
        ChildProcess.Start("slogger", "env", [.. s_foreign.SelectMany(name => (string[])["-u", name]),
            .. environment.Select(e => $"{e.Key}={e.Value}"), "dotnet", ProxyProcess.Executable, .. arguments]);

    // The name in the bucket of a file of a snapshot.
    private static string KeyOf(string snapshot, string file) => $"{snapshot[$"s3://{Bucket}/".Length..]}/{file}";

    private static string At(int port) => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}");

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
