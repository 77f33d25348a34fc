// A rollback in place leaves what a full restore to the same boundary leaves, whatever was done before and after it; and the log that
// goes on behind it restores what is there then. Random commands of the whole vocabulary, random boundaries.
// SLOGGER_TEST_ROLLBACKS=n for longer runs; SLOGGER_TEST_SEED to repeat one.
using System.Globalization;
using Slogger.Core.Recovery;
using Slogger.Integration.Tests.Model;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;
using Slogger.Redis.Rollback;

namespace Slogger.Integration.Tests.Recovery;

public sealed class RollbackEquivalenceTests(ITestOutputHelper output)
{
    private const int Databases = 16;
    private static readonly int s_rounds = int.TryParse(
        Environment.GetEnvironmentVariable("SLOGGER_TEST_ROLLBACKS"), CultureInfo.InvariantCulture, out int n) ? n : 24;
    private readonly Dictionary<string, int> _reasons = [];
    private int _inPlace, _keys, _commands;

    [Fact]
    public async Task RandomCommands_RandomBoundary_InPlaceEqualsAFullRestore()
    {
        int seed = int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_SEED"), CultureInfo.InvariantCulture, out int given)
            ? given : Random.Shared.Next(1_000_000);
        using var workspace = new Workspace();
        using RedisProcess live = await RedisProcess.StartAsync(
            workspace.Folder("live"), "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb");
        using RedisProcess other = await RedisProcess.StartAsync(workspace.Folder("other"));
        for (int round = 0; round < s_rounds; round++)
        {
            output.WriteLine($"seed {seed + round}");
            await RoundAsync(workspace, live, other, seed + round);
        }
        output.WriteLine($"{s_rounds} rounds, {_inPlace} in place, {_keys} keys put back by {_commands} commands; not possible: "
            + $"{string.Join("; ", _reasons.Select(r => $"{r.Value} {r.Key}"))}");
        Assert.True(_inPlace >= s_rounds / 3, "hardly ever in place");
    }

    // Past the proxy, when nobody should: what was undone was read before.
    [Fact]
    public async Task SomebodyElse_WritesBeforeTheTransaction_IsPutBackByAnother()
    {
        (string state, RollbackInPlace steps, int transactions) = await DisturbedAsync("SET", "other", "by somebody else");
        Assert.Null(steps.Reason);
        Assert.Equal(2, transactions);
        Assert.Equal("key=1 other=before", state);
    }

    [Fact]
    public async Task SomebodyElse_FlushesBeforeTheTransaction_IsNoRollbackInPlace()
    {
        (_, RollbackInPlace steps, _) = await DisturbedAsync("FLUSHALL");
        Assert.StartsWith("FLUSHALL is to be undone", steps.Reason);
    }

    private static async Task<(string State, RollbackInPlace Steps, int Transactions)> DisturbedAsync(params string[] command)
    {
        using var workspace = new Workspace();
        using RedisProcess live = await RedisProcess.StartAsync(workspace.Folder("live"), "--repl-diskless-sync-delay", "0");
        using RespClient writer = await live.ConnectAsync();
        (RollbackRequest request, _, _) = await RecordedAsync(workspace, live, seed: 1, async () =>
        {
            await writer.DoAsync("MSET", "key", "1", "other", "before");
            long at = await OffsetAsync(live);
            await writer.DoAsync("SET", "key", "2");
            return at;
        });
        using CheckpointIndex index = request.Index;
        await using var rollback = new RedisRollback(request);
        var steps = new RollbackInPlace(new(request.BranchOffset, request.BranchDatabase));
        int transactions = 0;
        await PutBackAsync(steps, rollback, async kind =>
        {
            if (kind != RollbackStepKind.PutBack || transactions++ > 0) { return; }
            using RespClient somebody = await live.ConnectAsync();
            await somebody.DoAsync(command);
        });
        using RespClient reader = await live.ConnectAsync();
        string state = $"key={(await reader.DoAsync("GET", "key")).Text} other={(await reader.DoAsync("GET", "other")).Text}";
        return (state, steps, transactions);
    }

    // A checkpoint, and the log on top of it.
    private static async Task<(RollbackRequest Request, StreamRecorder Log, string Rdb)> RecordedAsync(
        Workspace workspace, RedisProcess live, int seed, Func<Task<long>> write)
    {
        RedisEndpoint endpoint = RedisEndpoint.Tcp("127.0.0.1", live.Port);
        string rdb = workspace.File("base.rdb");
        using var link = new ReplicationLink(new ReplicationLinkOptions { Endpoint = endpoint });
        var full = Assert.IsType<AttachResult.Full>(
            await link.AttachAsync(new AttachRequest { OnFull = OnFullSync.WithData, RdbFile = rdb }));
        var log = new StreamRecorder(full.Offset);
        link.Start(log);
        long about = await write();
        await log.WaitForAsync(await OffsetAsync(live));
        link.Dispose();
        await link.Completion;
        (long branch, int database) = BoundaryNear(log, about);

        string index = workspace.File("base.idx");
        CheckpointIndex.Build(rdb, index, seed, default);
        CheckpointIndex opened = CheckpointIndex.Open(rdb, index, seed) ?? throw new InvalidOperationException("no index");
        var tail = new TailIndex();
        tail.Restart(full.Offset, 0);
        tail.ReadTo(log, branch);
        Assert.Equal(branch, tail.Position);
        return (new RollbackRequest
        {
            Endpoint = endpoint, ReplicationId = full.ReplicationId, OpenHistory = () => log, LogEnd = log.End, BranchOffset = branch,
            BranchDatabase = database, Index = opened, BaseOffset = full.Offset, Tail = tail,
        }, log, rdb);
    }

    // The steps in Redis, of which the last tells where it stands at the branch again; null: it does not.
    private static async Task<RollbackPlace?> PutBackAsync(
        RollbackInPlace steps, RedisRollback rollback, Func<RollbackStepKind, Task>? before = null)
    {
        while (steps.Next(out RollbackStep step))
        {
            if (step.Kind == RollbackStepKind.Attach) { return step.At; }
            // Those in the log.
            if (step.IsBeside || step.Kind == RollbackStepKind.AwaitBranch) { continue; }
            if (before is not null) { await before(step.Kind); }
            await rollback.PerformAsync(step, steps, default);
        }
        return null;
    }

    private async Task RoundAsync(Workspace workspace, RedisProcess live, RedisProcess other, int seed)
    {
        var random = new Random(seed);
        var workload = new Load(live, seed, isConfined: random.Next(5) > 0, isGenerated: random.Next(3) == 0);
        await workload.RunAsync(random.Next(400));
        (RollbackRequest request, StreamRecorder log, string rdb) = await RecordedAsync(workspace, live, seed, async () =>
        {
            await workload.RunAsync(random.Next(random.Next(2) == 0 ? 40 : 1500));
            long about = await OffsetAsync(live);
            await workload.RunAsync(random.Next(random.Next(2) == 0 ? 10 : 300));
            return about;
        });
        using CheckpointIndex index = request.Index;
        (long branch, long start) = (request.BranchOffset, request.BaseOffset);
        await using var rollback = new RedisRollback(request);
        var steps = new RollbackInPlace(new(branch, request.BranchDatabase));
        if (await PutBackAsync(steps, rollback) is not { } place)
        {
            string reason = Assert.IsType<string>(steps.Reason);
            output.WriteLine("  " + reason);
            _reasons[reason] = _reasons.GetValueOrDefault(reason) + 1;
            Assert.False(reason.StartsWith("Redis", StringComparison.Ordinal) || reason.Contains("stream", StringComparison.Ordinal),
                reason);
            using RespClient cleaner = await live.ConnectAsync();
            await cleaner.DoAsync("FLUSHALL");
            return;
        }
        _inPlace++;
        _keys += rollback.Keys;
        _commands += rollback.Commands;
        output.WriteLine($"  {rollback.Keys} keys by {rollback.Commands} commands, {log.End - branch} bytes undone, {branch - start} "
            + "of tail");
        StreamRecorder after = log.CutAndFill(branch, place.Offset, place.Database);
        using var next = new ReplicationLink(new ReplicationLinkOptions { Endpoint = request.Endpoint });
        Assert.IsType<AttachResult.Continued>(await next.AttachAsync(new AttachRequest
        {
            ReplicationId = request.ReplicationId, Position = new StreamScanner(place.Offset, place.Database), OnFull = OnFullSync.Refuse,
        }));
        next.Start(after);
        await RestoreAsync(other, rdb, start, log, branch);
        await CompareAsync(live, other, "rolled back in place, and restored to the boundary");

        // And on: what is in the log then is what is there.
        await workload.RunAsync(200);
        await QuietAsync(live);
        await after.WaitForAsync(await OffsetAsync(live));
        await RestoreAsync(other, rdb, start, after, after.End);
        await CompareAsync(live, other, "gone on behind the rollback, and restored to there");
    }

    private static async Task<long> OffsetAsync(RedisProcess redis)
    {
        using RespClient client = await redis.ConnectAsync();
        return (await client.DoAsync("ROLE")).Items[1].AsInteger();
    }

    // The last place at or below an offset that is between two commands, outside of transactions.
    private static (long Offset, int Database) BoundaryNear(StreamRecorder log, long offset)
    {
        byte[] bytes = log.Bytes;
        var effect = new Effect();
        (long, int) last = (log.Start, 0);
        int database = 0;
        bool isIn = false;
        for (int at = 0; effect.TryRead(bytes, at, bytes.Length) && log.Start + effect.End <= offset; at = effect.End)
        {
            database = effect.Is(0, "SELECT"u8) ? EffectScope.DatabaseOf(effect)!.Value : database;
            isIn = effect.Is(0, "MULTI"u8) || (isIn && !effect.Is(0, "EXEC"u8));
            if (!isIn) { last = (log.Start + effect.End, database); }
        }
        return last;
    }

    private static async Task RestoreAsync(RedisProcess redis, string rdb, long baseOffset, StreamRecorder log, long target)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(
            RedisEndpoint.Tcp("127.0.0.1", redis.Port), TimeSpan.FromSeconds(30));
        var plan = new FeedPlan { BaseFile = rdb, BaseOffset = baseOffset, History = log, TargetOffset = target };
        Assert.IsType<RestoreResult.Restored>(await RedisRestore.RunAsync(control, plan));
    }

    // Short lives end on both sides first.
    private static async Task QuietAsync(RedisProcess redis)
    {
        using RespClient client = await redis.ConnectAsync();
        const string Script =
            """
            for d = 0, tonumber(ARGV[1]) - 1 do redis.call('SELECT', d) for _, k in ipairs(redis.call('KEYS', '*')) do
              redis.call('EXISTS', k) local t = redis.call('PTTL', k) if t >= 0 and t < 100000 then return 1 end end end return 0
            """;
        for (int quiet = 0; quiet < 2; await Task.Delay(3))
        {
            for (int database = 0; database < Databases; database++)
            {
                await client.DoAsync("SELECT", $"{database}");
                // It deletes what has expired.
                await client.DoAsync("SCAN", "0", "COUNT", "100000");
            }
            quiet = (await client.DoAsync("EVAL", Script, "0", $"{Databases}")).AsInteger() == 1 ? 0 : quiet + 1;
        }
    }

    private static async Task CompareAsync(RedisProcess live, RedisProcess other, string what)
    {
        await QuietAsync(live);
        await QuietAsync(other);
        string here = await StateAsync(live), there = await StateAsync(other);
        Assert.True(here == there, $"{what}: they differ\n{Differences(here, there)}");
    }

    private static string Differences(string here, string there)
    {
        string[] a = here.Split('\n'), b = there.Split('\n');
        return string.Join('\n', a.Except(b).Select(l => "in place: " + l).Concat(b.Except(a).Select(l => "restored: " + l)).Take(20));
    }

    // All that can be seen of a store: the digest, and per key type, expiry and serialised value or contents.
    private static async Task<string> StateAsync(RedisProcess redis)
    {
        using RespClient client = await redis.ConnectAsync();
        var lines = new List<string> { (await client.DoAsync("DEBUG", "DIGEST")).Text,
            (await client.DoAsync("FUNCTION", "LIST", "WITHCODE")).Compact };
        for (int database = 0; database < Databases; database++)
        {
            await client.DoAsync("SELECT", $"{database}");
            foreach (RespValue key in (await client.DoAsync("KEYS", "*")).Items.OrderBy(k => k.Text, StringComparer.Ordinal))
            {
                string digest = (await client.DoAsync("DEBUG", "DIGEST-VALUE", key.Text)).Compact;
                string groups = "";
                if ((await client.DoAsync("TYPE", key.Text)).Text == "stream")
                {
                    groups = (await client.DoAsync("XINFO", "STREAM", key.Text, "FULL")).Compact;
                }
                lines.Add($"{database} {key.Text} {digest} {(await client.DoAsync("PEXPIRETIME", key.Text)).AsInteger()} "
                    + $"{WithoutTimes(groups)}");
            }
        }
        return string.Join('\n', lines);
    }

    // Of a consumer Redis keeps when it was seen, by the clock of whoever executes; how much a group has read it does not tell its
    // replicas; and the layout of a stream is not its content.
    private static string WithoutTimes(string info) =>
        System.Text.RegularExpressions.Regex.Replace(info, @"(seen-time|radix-tree-keys|radix-tree-nodes|entries-read|lag)\W+(\d+|_)",
            "$1");

    // A client with random commands; its connection may be closed at any time.
    private sealed class Load(RedisProcess redis, int seed, bool isConfined, bool isGenerated)
    {
        private readonly RandomCommands _commands = new(seed);
        private readonly CommandGenerator _generator = new(0, seed, WriterProfile.Mixed[3], null);
        private readonly KeyspaceModel _model = new();

        public async Task RunAsync(int count)
        {
            using RespClient client = await redis.ConnectAsync();
            for (int i = 0; i < count; i++)
            {
                IReadOnlyList<string[]> commands = isGenerated ? [[.. _generator.Next(_model).Arguments]] : _commands.Next();
                foreach (string[] command in commands)
                {
                    bool isWhole = command[0] is "SWAPDB" or "FLUSHALL" or "FLUSHDB" || (command[0] == "FUNCTION" && count < 300);
                    if (isWhole && isConfined) { continue; }
                    await client.CallAsync(command);
                    if (isGenerated) { _model.Apply(command); }
                }
            }
            await client.CallAsync("DISCARD");
        }
    }
}
