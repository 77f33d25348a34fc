// slogger leave, slogger interval and serve --join: what they are told, and what they say.
using Slogger.Core.Versions;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

namespace Slogger.Cli.Tests.Commands;

public sealed class MembershipCommandTests : IDisposable
{
    private readonly TempDirectory _temp = new();

    private string Metadata => "sqlite:" + _temp.Below("meta.db");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public async Task Interval_AllShardsAgree_AppendsAStretch()
    {
        await using IMetadataStore store = await ClusterAsync(shards: 2);
        long epoch = await store.TakeShardEpochAsync("default", new(0), "a");
        Task<AppRun> running = AppRun.Of(["interval", "--to", "1ms", "--metadata", Metadata]);
        while (!running.IsCompleted)
        {
            GridState state = (await store.GridAsync("default", new(0), 0, epoch))!;
            if (state.ChangeUs > 0) { await store.GridAsync("default", new(0), state.ChangeUs, epoch); }
            await Task.Delay(20);
        }

        AppRun run = await running;
        Assert.True(run.ExitCode == 0, run.Error);
        Assert.Matches("^versions are of 1ms from version [0-9]+ on, ", run.Output);
        Assert.Equal(1000, (await store.FindClusterAsync("default"))!.Grid[^1].IntervalUs);
    }

    [Fact]
    public async Task Interval_AShardDoesNotAnswer_StaysAsItIsAndSaysWhich()
    {
        await using IMetadataStore store = await ClusterAsync(shards: 2);
        await store.TakeShardEpochAsync("default", new(1), "a");
        AppRun run = await AppRun.Of(["interval", "--to", "1ms", "--metadata", Metadata]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("shard 1 did not agree", run.Error, StringComparison.Ordinal);
        Assert.Single((await store.FindClusterAsync("default"))!.Grid);
        Assert.Equal(0, (await store.ProposeIntervalAsync(
            "default", (await store.FindClusterAsync("default"))!.Grid[0].IntervalUs, NowUs)).ChangeUs);
    }

    [Fact]
    public async Task Interval_WrongOrImpossible_SaysWhatToDo()
    {
        Assert.Equal(2, (await AppRun.Of(["interval", "--metadata", Metadata])).ExitCode);
        Assert.Equal(2, (await AppRun.Of(["interval", "--to", "1us", "--metadata", Metadata])).ExitCode);
        AppRun missing = await AppRun.Of(["interval", "--to", "1ms", "--metadata", Metadata]);
        Assert.Equal((1, true), (missing.ExitCode, missing.Error.Contains("does not exist", StringComparison.Ordinal)));
        await (await ClusterAsync(shards: 1)).DisposeAsync();
        AppRun alone = await AppRun.Of(["interval", "--to", "1ms", "--metadata", Metadata]);
        Assert.Equal(1, alone.ExitCode);
        Assert.Contains("start it again with --version-interval 1ms", alone.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Leave_OwnsSlots_IsRefusedAndSaysWhatToDo()
    {
        await (await ClusterAsync(shards: 2)).DisposeAsync();
        Assert.Equal(2, (await AppRun.Of(["leave", "--metadata", Metadata])).ExitCode);
        AppRun run = await AppRun.Of(["leave", "--metadata", Metadata, "--shard", "1"]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("owns 8192 hash slots", run.Error, StringComparison.Ordinal);
        Assert.Contains("slogger move", run.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Leave_HasNotJoinedYet_IsRemovedAtOnce()
    {
        await using (IMetadataStore store = await ClusterAsync(shards: 2)) { await store.AddShardAsync("default", new(2)); }
        AppRun run = await AppRun.Of(["leave", "--metadata", Metadata, "--shard", "2"]);
        Assert.True(run.ExitCode == 0, run.Error);
        Assert.Contains("has left", run.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Serve_JoinWithShards_IsRefused()
    {
        AppRun run = await AppRun.Of(["serve", "--redis", "127.0.0.1:6379", "--data", _temp.Below("data"), "--join", "--shards", "3"]);
        Assert.Equal(2, run.ExitCode);
        Assert.Contains("--join", run.Error, StringComparison.Ordinal);
        AppRun joins = await AppRun.Of(["serve", "--redis", "127.0.0.1:6379", "--data", _temp.Below("data"), "--join", "--shard", "3"]);
        Assert.True(joins.Served!.Joins);
    }

    [Theory]
    [InlineData("leave", "--shard")]
    [InlineData("interval", "--to")]
    [InlineData("serve", "--join")]
    public async Task Help_OfTheCommands_ListsTheirOptions(string command, string option)
    {
        AppRun run = await AppRun.Of([command, "--help"]);
        Assert.Equal(0, run.ExitCode);
        Assert.Contains(option, run.Output, StringComparison.Ordinal);
    }

    private async Task<IMetadataStore> ClusterAsync(int shards)
    {
        IMetadataStore store = MetadataStoreFactory.Create(Metadata);
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("default", new() { ShardCount = shards, Grid = [new GridStretch(new(1), NowUs, 5000)] });
        return store;
    }

    private static long NowUs => (DateTime.UtcNow - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;
}
