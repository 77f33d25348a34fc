// A kind of store, as the conformance suite sees it: how slogger serve is told of it, and how what it has kept is looked at from outside. A
// new store is tested by one more of these (docs/internals/STORES.md).
using System.Globalization;
using System.Text;
using Slogger.Faster;
using Slogger.Faster.Records;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Stores;

/// <param name="Key">A key that has changed.</param>
/// <param name="Value">What it was at the end; null: it was removed.</param>
/// <param name="ExpiryMs">When it expires, in milliseconds since the Unix epoch; 0: never.</param>
internal readonly record struct KeyChange(string Key, string? Value, long ExpiryMs);

internal abstract class StoreUnderTest
{
    /// <summary>The word of --commit.</summary>
    public abstract string Mode { get; }

    /// <summary>What runs its proxies, with its first arguments; null: the executable.</summary>
    public string[]? Program { get; init; }

    /// <summary>Whether it lives in the proxy's process, and dies with it.</summary>
    public abstract bool IsEmbedded { get; }

    /// <summary>Whether a survivor puts back what is above a branch, and the rest of it stays as it is.</summary>
    public abstract bool GoesBackInPlace { get; }

    /// <summary>Whether it deletes what the cut has left behind; else some amount is kept.</summary>
    public abstract bool PrunesBehindTheCut { get; }

    /// <summary>What keys had at the end of a version (null: of the last that is kept), from the data directory of a shard whose proxy does
    /// not run, which stays as it is; null if that is kept no more. An empty text: no such key.</summary>
    public abstract Task<string[]?> AtAsync(ClusterDeployment cluster, int shard, long? version, string[] keys, Workspace workspace);

    /// <summary>What each version that is kept has changed, oldest first, as its feed tells it: keys, and what they were at its end. For a
    /// store that has one.</summary>
    public virtual IReadOnlyList<(long Version, IReadOnlyList<KeyChange> Changes)> Feed(string data, Workspace workspace) =>
        throw new NotSupportedException($"a store of mode {Mode} has no change feed");

    public static readonly StoreUnderTest Log = new RedisStore("log", goesBackInPlace: true, prunes: false);
    public static readonly StoreUnderTest Bgsave = new RedisStore("bgsave", goesBackInPlace: false, prunes: true);
    public static readonly StoreUnderTest Faster = new FasterStoreUnderTest();

    /// <summary>The same with a fault.</summary>
    public static StoreUnderTest FasterWith(StoreFault fault) => new FasterStoreUnderTest { Program = FaultyStores.Program(fault) };

    private sealed class RedisStore(string mode, bool goesBackInPlace, bool prunes) : StoreUnderTest
    {
        public override string Mode => mode;

        public override bool IsEmbedded => false;

        public override bool GoesBackInPlace => goesBackInPlace;

        public override bool PrunesBehindTheCut => prunes;

        public override async Task<string[]?> AtAsync(ClusterDeployment cluster, int shard, long? version, string[] keys,
            Workspace workspace)
        {
            using RedisProcess fresh = await RedisProcess.StartAsync(workspace.Folder("restored"));
            (int exitCode, string text) = await ProxyProcess.CommandAsync(
                ["restore", "--data", cluster.Data(shard), "--metadata", cluster.Metadata,
                    .. version is { } v ? (string[])["--version", v.ToString(CultureInfo.InvariantCulture)] : ["--latest"], "--redis",
                        $"127.0.0.1:{fresh.Port}"]);
            if (exitCode != 0)
            {
                Assert.Contains(mode == "log" ? "version " : "no snapshot of version ", text, StringComparison.Ordinal);
                return null;
            }

            using RespClient client = await fresh.ConnectAsync();
            return [.. (await client.DoAsync(["MGET", .. keys])).Items.Select(v => v.IsNull ? "" : v.Text)];
        }
    }

    private sealed class FasterStoreUnderTest : StoreUnderTest
    {
        public override string Mode => "faster";

        public override bool IsEmbedded => true;

        public override bool GoesBackInPlace => true;

        public override bool PrunesBehindTheCut => true;

        public override Task<string[]?> AtAsync(ClusterDeployment cluster, int shard, long? version, string[] keys, Workspace workspace)
        {
            FasterOptions copy = EmbeddedCopy.Of(cluster.Data(shard), workspace);
            // The newest that is not later: in the versions behind it nothing was done, or this one would be missing something.
            if (FasterStore.CommitsIn(copy).LastOrDefault(c => version is null || c.Point.Version.Number <= version) is not { } commit)
            {
                return Task.FromResult<string[]?>(null);
            }
            using FasterStore store = FasterStore.OpenAt(copy, commit.Point);
            using FasterWorker worker = store.NewWorker();
            return Task.FromResult<string[]?>([.. keys.Select(k => EmbeddedCopy.Read(worker, k))]);
        }

        public override IReadOnlyList<(long Version, IReadOnlyList<KeyChange> Changes)> Feed(string data, Workspace workspace)
        {
            using FasterStore store = FasterStore.OpenAt(EmbeddedCopy.Of(data, workspace));
            return [.. store.Commits.Select(
                c => (c.Point.Version.Number, (IReadOnlyList<KeyChange>)[.. store.Changes(c).Select(EmbeddedCopy.Change)]))];
        }
    }
}

/// <summary>The embedded store of a data directory, opened in the test's own process on a copy.</summary>
internal static class EmbeddedCopy
{
    /// <summary>As a proxy opens it without further options.</summary>
    public static FasterOptions Of(string data, Workspace workspace)
    {
        string to = Directory.CreateDirectory(Path.Combine(workspace.Folder("copies"), Guid.NewGuid().ToString("N"))).FullName;
        string from = Path.Combine(data, "faster");
        foreach (string file in Directory.EnumerateFiles(from, "*", SearchOption.AllDirectories))
        {
            string target = Path.Combine(to, Path.GetRelativePath(from, file));
            Directory.CreateDirectory(Path.GetDirectoryName(target)!);
            File.Copy(file, target);
        }

        return new FasterOptions { Directory = to };
    }

    public static KeyChange Change(Change change) =>
        new(Encoding.ASCII.GetString(change.Key), change.Value is { } value ? Encoding.ASCII.GetString(value) : null, change.ExpiryMs);

    public static string Read(FasterWorker worker, string key)
    {
        var value = new ValueBuffer();
        return worker.TryRead(Encoding.ASCII.GetBytes(key), value, out _, out _) ? Encoding.ASCII.GetString(value.Bytes) : "";
    }
}
