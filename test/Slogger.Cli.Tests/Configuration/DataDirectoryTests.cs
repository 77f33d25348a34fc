using System.Diagnostics;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Cli.Tests.Configuration;

public sealed class DataDirectoryTests : IDisposable
{
    private readonly TempDirectory _temp = new();

    private string Data => _temp.Below("data");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void FirstStart_MakesAPrivateDirectoryThatRemembersItsStore()
    {
        using (DataDirectory data = Open())
        {
            Assert.Null(data.PreviousCommit);
            Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute, File.GetUnixFileMode(Data));
            Assert.Equal(UnixFileMode.UserRead | UnixFileMode.UserWrite, File.GetUnixFileMode(Path.Combine(Data, "store.json")));
        }

        string json = File.ReadAllText(Path.Combine(Data, "store.json"));
        Assert.Contains("\"store\": \"redis\"", json);
        Assert.Contains("\"commit\": \"log\"", json);
        StoreRecord first = StoreRecord.Read(Data)!;
        using DataDirectory again = Open(("commit", "none"));
        Assert.Equal(CommitMode.Log, again.PreviousCommit);
        Assert.Equal(first with { Commit = CommitMode.None }, StoreRecord.Read(Data));
    }

    [Theory]
    [InlineData("supervised Redis", "redis-server", "/bin/sh")]
    [InlineData("cluster \"default\", not to \"other\"", "redis", "127.0.0.1:6379", "cluster", "other")]
    [InlineData("shard 0, not to shard 1", "redis", "127.0.0.1:6379", "shard", "1")]
    public void LaterStart_AnotherStore_IsAnOptionError(string expected, params string[] pairs)
    {
        Open().Dispose();
        DataDirectoryResult result = DataDirectory.OpenForServe(
            Layers.Serve([("data", Data), .. pairs.Chunk(2).Select(pair => (pair[0], pair[1]))]).Options!);
        Assert.Null(result.Opened);
        Assert.True(result.IsOptionError);
        Assert.Contains(expected, result.Problem);
        Assert.NotEmpty(result.Remedy);
        Open().Dispose();
    }

    [Fact]
    public void LaterStart_AnotherAddressOfTheSameKind_IsFine()
    {
        Open().Dispose();
        using DataDirectory moved = Open(("redis", "127.0.0.1:7000"));
        Assert.Equal("127.0.0.1:7000", StoreRecord.Read(Data)!.Address);
    }

    [Fact]
    public void FailedFirstStart_LeavesTheDirectoryFree_ButNotIfThereIsData()
    {
        using (DataDirectory data = Open())
        {
            data.ForgetFailedFirstStart();
        }

        Assert.Null(StoreRecord.Read(Data));
        using (DataDirectory data = Open())
        {
            Directory.CreateDirectory(Path.Combine(Data, "log"));
            data.ForgetFailedFirstStart();
        }

        Assert.NotNull(StoreRecord.Read(Data));
        using (DataDirectory data = Open())
        {
            data.ForgetFailedFirstStart();
        }

        Assert.NotNull(StoreRecord.Read(Data));
    }

    [Fact]
    public void InUse_BySomeoneElse_IsAnErrorThatNamesTheProcess()
    {
        using DataDirectory held = Open();
        DataDirectoryResult second = DataDirectory.OpenForServe(Options());
        Assert.Null(second.Opened);
        Assert.False(second.IsOptionError);
        Assert.Contains($"in use by another Slogger process (process {Environment.ProcessId})", second.Problem);
        Assert.Null(DataDirectory.OpenExisting(Data).Opened);
        held.Dispose();
        Open().Dispose();
    }

    [Fact]
    public void InUse_SomebodyElsesChildren_DoNotKeepTheLock()
    {
        DataDirectory held = Open();
        using Process child = Process.Start(new ProcessStartInfo("sleep", "60"))!;
        try
        {
            held.Dispose();
            Open().Dispose();
        }
        finally
        {
            child.Kill();
            child.WaitForExit();
        }
    }

    [Theory]
    [InlineData("{", "damaged")]
    [InlineData("{}", "damaged")]
    [InlineData("""{ "format": 2 }""", "newer Slogger")]
    [InlineData("""{ "format": 1, "store": "memcached", "cluster": "c", "shard": 0, "commit": "log", "address": "a", "created": "2026-01-01T00:00:00+00:00" }""", "damaged")]
    public void StoreRecord_Unreadable_IsAnErrorAndKept(string json, string expected)
    {
        Directory.CreateDirectory(Data);
        string path = Path.Combine(Data, "store.json");
        File.WriteAllText(path, json);
        DataDirectoryResult result = DataDirectory.OpenForServe(Options());
        Assert.Null(result.Opened);
        Assert.Contains(expected, result.Problem);
        Assert.Equal(json, File.ReadAllText(path));
    }

    [Fact]
    public void StoreRecord_MissingBesideALog_IsAnError()
    {
        Directory.CreateDirectory(Path.Combine(Data, "log"));
        DataDirectoryResult result = DataDirectory.OpenForServe(Options());
        Assert.Null(result.Opened);
        Assert.Contains("log/ but no store.json", result.Problem);
    }

    [Fact]
    public void OpenExisting_NotADataDirectory_IsAnOptionError()
    {
        Assert.Contains("does not exist", DataDirectory.OpenExisting(_temp.Below("none")).Problem);
        Assert.Contains("no store.json", DataDirectory.OpenExisting(_temp.Path).Problem);
    }

    [Fact]
    public void NoPermissionOrNoRoom_IsAnErrorNotAnException()
    {
        DataDirectoryResult result = DataDirectory.OpenForServe(Options() with { DataDirectory = "/proc/slogger" });
        Assert.Null(result.Opened);
        Assert.Contains("/proc/slogger cannot be used", result.Problem);
    }

    [Fact]
    public void ProxyRecord_Published_IsReadAndRemovedAtTheEnd()
    {
        using (Open())
        {
            ProxyRecord.Publish(Data, [ListenAddress.Tcp("127.0.0.1", 7), ListenAddress.Unix("/s")], [ListenAddress.Tcp("::1", 8)]);
            ProxyRecord record = ProxyRecord.Read(Data)!;
            Assert.Equal(Environment.ProcessId, record.Pid);
            Assert.Equal(["127.0.0.1:7", "unix:/s"], record.Listen);
            Assert.Equal(["[::1]:8"], record.TlsListen);
        }

        Assert.Null(ProxyRecord.Read(Data));
        File.WriteAllText(Path.Combine(Data, "proxy.json"), "{");
        Assert.Null(ProxyRecord.Read(Data));
    }

    private ServeOptions Options(params (string Name, string Text)[] more)
    {
        (string, string)[] store = more.Any(pair => pair.Name == "redis") ? [] : [("redis", "127.0.0.1:6379")];
        OptionsResult<ServeOptions> result = Layers.Serve([("data", Data), .. store, .. more]);
        Assert.Empty(result.Errors);
        return result.Options!;
    }

    private DataDirectory Open(params (string Name, string Text)[] more)
    {
        DataDirectoryResult result = DataDirectory.OpenForServe(Options(more));
        Assert.True(result.Opened is not null, result.Problem);
        return result.Opened!;
    }
}
