// SQLite: the conformance tests, and what can go wrong with a file. See also SqliteDamageTests.
using System.Diagnostics;
using System.Globalization;
using Microsoft.Data.Sqlite;
using Slogger.Core.WorldLines;
using Slogger.Metadata.Sql;
using Slogger.Metadata.Tests.Fixtures;
using static Slogger.Metadata.Tests.Fixtures.Common;

namespace Slogger.Metadata.Tests;

/// <summary>A directory for one test.</summary>
public abstract class TemporaryDirectory : IDisposable
{
    protected string Root { get; } = Directory.CreateTempSubdirectory("slogger-meta-").FullName;

    protected string NewFile() => Path.Combine(Root, Guid.NewGuid().ToString("N") + ".db");

    public virtual void Dispose()
    {
        Directory.Delete(Root, recursive: true);
        GC.SuppressFinalize(this);
    }
}

public sealed class SqliteConformanceTests : ConformanceTests, IDisposable
{
    private readonly string root = Directory.CreateTempSubdirectory("slogger-meta-").FullName;

    protected override Task<string> FreshSpecAsync() =>
        Task.FromResult("sqlite:" + Path.Combine(root, Guid.NewGuid().ToString("N") + " база.db"));

    public void Dispose() => Directory.Delete(root, recursive: true);
}

public sealed partial class SqliteTests : TemporaryDirectory
{
    // The peers' secret is in it, and where the proxy runs in an application, that one says what the umask is.
    [Fact]
    public async Task Initialize_WithAnyUmask_MakesFilesForTheirOwnerOnly()
    {
        if (OperatingSystem.IsWindows())
        {
            Assert.Skip("there is no mode");
            return;
        }

        string file = NewFile();
        int mask = Umask(0);
        try
        {
            (IMetadataStore store, _) = await OpenAsync(file);
            await using (store)
            {
                foreach (string path in (string[])[file, file + "-wal", file + "-shm"])
                {
                    Assert.Equal((path, UnixFileMode.UserRead | UnixFileMode.UserWrite), (path, File.GetUnixFileMode(path)));
                }
            }
        }
        finally
        {
            _ = Umask(mask);
        }
    }

    [System.Runtime.InteropServices.LibraryImport("libc", EntryPoint = "umask")]
    private static partial int Umask(int mask);

    private static async Task<(IMetadataStore Store, long Epoch)> OpenAsync(string file, MetadataStoreOptions? options = null)
    {
        IMetadataStore store = MetadataStoreFactory.Create("sqlite:" + file, options);
        try
        {
            await store.InitializeAsync();
            await store.GetOrCreateClusterAsync("c", Settings());
            return (store, await store.TakeShardEpochAsync("c", Shard0, "me"));
        }
        catch
        {
            await store.DisposeAsync();
            throw;
        }
    }

    [Fact]
    public async Task Connection_Open_IsWriteAheadAndFullySynced()
    {
        SqliteDialect dialect = new(NewFile(), new());
        await using SqlSession session = await SqlSession.OpenAsync(dialect, default);
        Assert.Equal("wal", Assert.Single(await session.QueryAsync("PRAGMA journal_mode", r => r.GetString(0), default)));
        Assert.Equal(2, Assert.Single(await session.QueryAsync("PRAGMA synchronous", r => r.GetInt64(0), default)));
    }

    [Fact]
    public async Task AnyCall_FileLockedByAnother_IsUnavailableThenWorks()
    {
        string file = NewFile();
        (IMetadataStore store, long epoch) = await OpenAsync(file, new() { CommandTimeout = TimeSpan.FromMilliseconds(200) });
        await using SqliteConnection other = new($"Data Source={file};Pooling=false");
        await other.OpenAsync();
        SqliteTransaction locked = other.BeginTransaction();
        MetadataUnavailableException refused = await Assert.ThrowsAsync<MetadataUnavailableException>(
            () => store.RecordAsync("c", Shard0, Point("1:1"), epoch));
        Assert.Contains("write lock", refused.Message, StringComparison.Ordinal);
        Assert.Equal(Point("1:0"), (await store.ShardsAsync("c"))[0].Durable);
        await Assert.ThrowsAsync<MetadataUnavailableException>(() => store.TakeShardEpochAsync("c", Shard0, "you"));
        locked.Dispose();
        Assert.Equal(DurableOutcome.Recorded, await store.RecordAsync("c", Shard0, Point("1:1"), epoch));
        await store.DisposeAsync();
    }

    [Fact]
    public async Task AnyCall_DiskFull_IsUnavailableUntilThereIsSpace()
    {
        Assert.SkipUnless(Environment.IsPrivilegedProcess, "Mounting a small file system takes root.");
        string mount = Directory.CreateDirectory(Path.Combine(Root, "small")).FullName;
        await PostgresServer.RunAsync("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount);
        try
        {
            (IMetadataStore opened, long epoch) = await OpenAsync(Path.Combine(mount, "m.db"));
            await using IMetadataStore store = opened;
            string ballast = Path.Combine(mount, "ballast");
            FillUp(ballast);
            long recorded = 0;
            MetadataUnavailableException? full = null;
            for (long version = 1; full is null && version < 10_000; version++)
            {
                try
                {
                    await store.RecordAsync("c", Shard0, new(new(1), new(version)), epoch);
                    recorded = version;
                }
                catch (MetadataUnavailableException exception)
                {
                    full = exception;
                }
            }

            Assert.NotNull(full);
            await Assert.ThrowsAsync<MetadataUnavailableException>(() => store.TakeShardEpochAsync("c", Shard0, "you"));

            // The last acknowledged cut is there, and with space the store goes on: the same object.
            ShardRecord now = (await EventuallyAsync(() => store.ShardsAsync("c")))[0];
            Assert.Equal((recorded, epoch), (now.Durable.Version.Number, now.Epoch));
            File.Delete(ballast);
            WorldPoint next = new(new(1), new(recorded + 1));
            Assert.Equal(DurableOutcome.Recorded, await EventuallyAsync(() => store.RecordAsync("c", Shard0, next, epoch)));
        }
        finally
        {
            await PostgresServer.RunAsync("umount", mount);
        }
    }

    private static void FillUp(string file)
    {
        using FileStream ballast = new(file, FileMode.Create, FileAccess.Write, FileShare.None, bufferSize: 0);
        try
        {
            while (true)
            {
                ballast.Write(new byte[4096]);
            }
        }
        catch (IOException)
        {
            // Full, as intended.
        }
    }

    [Fact]
    public async Task Initialize_NotADatabase_SaysHowToGoOnAndKeepsTheFile()
    {
        string file = NewFile();
        string text = string.Concat(Enumerable.Repeat("This is no database. ", 500));
        await File.WriteAllTextAsync(file, text);
        await using IMetadataStore store = MetadataStoreFactory.Create("sqlite:" + file);
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => store.InitializeAsync());
        Assert.Contains(file, refused.Message, StringComparison.Ordinal);
        Assert.Contains("restore it from a backup", refused.Message, StringComparison.Ordinal);
        Assert.Equal(text, await File.ReadAllTextAsync(file));
    }

    [Fact]
    public async Task Initialize_DamagedPages_IsRefused()
    {
        string file = NewFile();
        (IMetadataStore store, _) = await OpenAsync(file);
        await store.DisposeAsync();
        await using (FileStream bytes = File.OpenWrite(file))
        {
            // All but the first page, which holds the header and the list of tables.
            bytes.Position = 4096;
            await bytes.WriteAsync(Enumerable.Repeat((byte)0xA5, (int)(bytes.Length - 4096)).ToArray());
        }

        await using IMetadataStore again = MetadataStoreFactory.Create("sqlite:" + file);
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => again.InitializeAsync());
        Assert.Contains("restore it from a backup", refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Initialize_NoDirectoryOrADirectory_SaysSo()
    {
        await using IMetadataStore missing = MetadataStoreFactory.Create($"sqlite:{Root}/none/m.db");
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => missing.InitializeAsync());
        Assert.Contains("does not exist. Create it", refused.Message, StringComparison.Ordinal);
        await using IMetadataStore directory = MetadataStoreFactory.Create("sqlite:" + Root);
        await Assert.ThrowsAsync<MetadataException>(() => directory.InitializeAsync());

        // Not remembered: it works once the directory is there.
        Directory.CreateDirectory(Path.Combine(Root, "none"));
        await missing.InitializeAsync();
    }

    [Fact]
    public async Task RecordCut_TooManyCallsWait_FailsInsteadOfQueueing()
    {
        string file = NewFile();
        (IMetadataStore store, long epoch) = await OpenAsync(
            file, new() { CommandTimeout = TimeSpan.FromSeconds(2), WaitingCallsMax = 3 });
        await using SqliteConnection other = new($"Data Source={file};Pooling=false");
        await other.OpenAsync();
        SqliteTransaction locked = other.BeginTransaction();
        Task<DurableOutcome>[] calls =
            [.. Enumerable.Range(0, 50).Select(_ => Task.Run(() => store.RecordAsync("c", Shard0, Point("1:1"), epoch)))];
        await Assert.ThrowsAsync<MetadataUnavailableException>(() => Task.WhenAll(calls));
        Assert.Contains(calls, c => c.Exception is { } e
            && e.InnerException!.Message.Contains("More than 3 calls", StringComparison.Ordinal));
        locked.Dispose();
        await store.DisposeAsync();
    }

    [Fact]
    public async Task RecordCut_OneByOne_ReportsItsCost()
    {
        (IMetadataStore store, long epoch) = await OpenAsync(NewFile());
        const int Calls = 1000;
        Stopwatch took = Stopwatch.StartNew();
        for (int version = 1; version <= Calls; version++)
        {
            await store.RecordAsync("c", Shard0, new(new(1), new(version)), epoch);
        }

        TestContext.Current.TestOutputHelper?.WriteLine(string.Create(
            CultureInfo.InvariantCulture, $"RecordCut: {took.Elapsed.TotalMilliseconds / Calls:F3} ms"));
        Assert.Equal(new(new(1), new(Calls)), (await store.ShardsAsync("c"))[0].Durable);
        await store.DisposeAsync();
    }
}
