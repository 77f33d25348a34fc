// slogger leave, slogger interval and serve --join: what they are told, and what they say.
using System.Text.Json;
using Slogger.Core.Versions;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

namespace Slogger.Cli.Tests.Commands;

public sealed class MembershipCommandTests : IDisposable
{
    private readonly TempDirectory _temp = new();

    private string Metadata => "sqlite:" + _temp.Below("meta.db");

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData]
    [InlineData("--json")]
    public async Task Interval_AllShardsAgree_AppendsAStretch(params string[] json)
    {
        await using IMetadataStore store = await ClusterAsync(shards: 2);
        long epoch = await store.TakeShardEpochAsync("default", new(0), "a");
        Task<AppRun> running = AppRun.Of(["interval", "--to", "1ms", "--metadata", Metadata, .. json]);
        while (!running.IsCompleted)
        {
            GridState state = (await store.GridAsync("default", new(0), 0, epoch))!;
            if (state.ChangeUs > 0) { await store.GridAsync("default", new(0), state.ChangeUs, epoch); }
            await Task.Delay(20);
        }

        AppRun run = await running;
        Assert.True(run.ExitCode == 0, run.Error);
        GridStretch newest = (await store.FindClusterAsync("default"))!.Grid[^1];
        Assert.Equal(1000, newest.IntervalUs);
        if (json.Length == 0)
        {
            Assert.StartsWith($"versions are of 1ms from version {newest.FirstVersion} on, ", run.Output, StringComparison.Ordinal);
            return;
        }
        using JsonDocument facts = JsonDocument.Parse(run.Output);
        Assert.Equal((1.0, newest.FirstVersion.Number), (facts.RootElement.GetProperty("version_interval_ms").GetDouble(),
            facts.RootElement.GetProperty("first_version").GetInt64()));
        Assert.True(facts.RootElement.GetProperty("begins_in_ms").GetDouble() < 10_000);
    }

    [Fact]
    public async Task Move_ListPlanAndCancel_SayTheSameToAPersonAndToAProgram()
    {
        await using IMetadataStore store = await ClusterAsync(shards: 2);
        AppRun person = await MoveAsync("--list");
        Assert.Equal("slots 0-8191: shard 0\nslots 8192-16383: shard 1\n", person.Output);
        JsonElement before = await FactsAsync("--list");
        Assert.Equal("slots", before.GetProperty("kind").GetString());
        Assert.Equal([("0-8191", 0), ("8192-16383", 1)], before.GetProperty("owners").EnumerateArray()
            .Select(o => (o.GetProperty("partitions").GetString(), o.GetProperty("shard").GetInt32())));
        Assert.Equal(JsonValueKind.Null, before.GetProperty("owners")[0].GetProperty("keys").ValueKind);
        Assert.Empty(before.GetProperty("moves").EnumerateArray());

        JsonElement planned = await FactsAsync("--slots", "0-9,20", "--to", "1", "--no-wait");
        long move = planned.GetProperty("move").GetInt64();
        Assert.Equal(("slots", "0-9,20", 1, false), (planned.GetProperty("kind").GetString(), planned.GetProperty("partitions").GetString(),
            planned.GetProperty("to").GetInt32(), planned.GetProperty("is_done").GetBoolean()));
        Assert.Contains($"move {move}: slots 0-9,20 from shard 0 to shard 1: shard 0 serves, its keys are being copied",
            (await MoveAsync("--list")).Output, StringComparison.Ordinal);
        JsonElement under = Assert.Single((await FactsAsync("--list")).GetProperty("moves").EnumerateArray());
        Assert.Equal((move, "0-9,20", 0, 1, "Planned"),
            (under.GetProperty("number").GetInt64(), under.GetProperty("partitions").GetString(),
                under.GetProperty("from").GetInt32(), under.GetProperty("to").GetInt32(), under.GetProperty("state").GetString()));

        JsonElement off = Assert.Single((await FactsAsync("--slots", "0-9", "--cancel")).GetProperty("called_off").EnumerateArray());
        Assert.Equal((move, "Cancelled"), (off.GetProperty("number").GetInt64(), off.GetProperty("state").GetString()));

        AppRun refused = await MoveAsync("--slots", "8192", "--to", "1", "--json");
        Assert.Equal((1, ""), (refused.ExitCode, refused.Output));
        Assert.NotEqual("", refused.Error);

        async Task<AppRun> MoveAsync(params string[] args) => await AppRun.Of(["move", .. args, "--metadata", Metadata]);

        async Task<JsonElement> FactsAsync(params string[] args)
        {
            AppRun run = await MoveAsync([.. args, "--json"]);
            Assert.Equal((0, ""), (run.ExitCode, run.Error));
            using JsonDocument json = JsonDocument.Parse(run.Output);
            return json.RootElement.Clone();
        }
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
