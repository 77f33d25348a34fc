// The model against a real Redis: the harness is only as good as its idea of what each command does.
using System.Net;
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Model;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Harness;

public sealed class ModelTests
{
    [Theory]
    [InlineData(1, false)]
    [InlineData(2, true)]
    [InlineData(3, false)]
    public async Task Model_RandomCommands_AgreesWithRedisInRepliesAndState(int seed, bool resp3)
    {
        using var workspace = new Workspace();
        using var redis = await RedisProcess.StartAsync(workspace.Root);
        using var client = await redis.ConnectAsync();
        if (resp3)
        {
            await client.DoAsync("HELLO", "3");
        }

        var generator = new CommandGenerator(0, seed, new WriterProfile("test", 1, UsesDpr: false, Transactions: true), null);
        var model = new KeyspaceModel();
        for (int i = 0; i < 5000; i++)
        {
            var command = generator.Next(model);
            string? expected = model.Apply(command.Arguments, command.Expired);
            var reply = await client.CallAsync([.. command.Arguments]);
            bool agrees = expected is null || expected == reply.Compact || (expected[0] == '-' && reply.IsError);
            Assert.True(agrees, $"seed {seed}, command {i} ({command}): {reply}, the model says {expected}");
        }

        while (model.InTransaction)
        {
            model.Apply(["EXEC"]);
            await client.CallAsync("EXEC");
        }

        var observed = await ObservedState.ReadAsync(redis.Endpoint);
        var expectedEntries = model.Entries.Where(e => KeyspaceModel.IsFingerprinted(e.Key.Name)).ToDictionary();
        var found = observed.Entries.Where(e => KeyspaceModel.IsFingerprinted(e.Key.Name)).ToDictionary();
        Assert.Equal([], ObservedState.Differences(expectedEntries, found));
        Assert.Equal(model.Fingerprint, observed.Fingerprint(0));
        Assert.True(expectedEntries.Count > 15, "the commands leave something behind");
    }

    // After a rollback commands run on a state that they were not meant for.
    [Fact]
    public async Task Model_CommandsMeantForALongerHistory_AgreesWithRedis()
    {
        using var workspace = new Workspace();
        using var redis = await RedisProcess.StartAsync(workspace.Root);
        using var client = await redis.ConnectAsync();
        var random = new Random(5);
        var generator = new CommandGenerator(0, 5, new WriterProfile("test", 1, UsesDpr: false, Transactions: false), null);
        var meant = new KeyspaceModel();
        var model = new KeyspaceModel();
        for (int i = 0; i < 8000; i++)
        {
            var command = generator.Next(meant);
            meant.Apply(command.Arguments, command.Expired);
            if (i % 1000 == 999)
            {
                // Every expiry is over, so that the commands that rely on that come, too.
                await Task.Delay(1600, TestContext.Current.CancellationToken);
            }

            if (random.Next(5) == 0)
            {
                continue;
            }

            string? expected = model.Apply(command.Arguments, command.Expired);
            var reply = await client.CallAsync([.. command.Arguments]);
            bool agrees = expected is null || expected == reply.Compact || (expected[0] == '-' && reply.IsError);
            Assert.True(agrees, $"command {i} ({command}): {reply}, the model says {expected}");
        }
    }

    [Theory]
    [InlineData(true, ":7")]
    [InlineData(false, ":14")]
    public void Expired_KeyWhoseExpiryWasLost_IsThere(bool withExpiry, string expected)
    {
        var model = new KeyspaceModel();
        model.Apply(withExpiry ? ["SET", "x", "7", "PXAT", "1000"] : ["SET", "x", "7"]);
        Assert.Equal(expected, model.Apply(["INCRBY", "x", "7"], "x"));
    }

    [Fact]
    public void Fingerprint_KeptUpToDate_EqualsOneFromScratch()
    {
        var generator = new CommandGenerator(0, 7, new WriterProfile("test", 1, UsesDpr: false, Transactions: true), null);
        var model = new KeyspaceModel();
        for (int i = 0; i < 3000; i++)
        {
            var command = generator.Next(model);
            model.Apply(command.Arguments, command.Expired);
            ulong fresh = model.Entries.Where(e => KeyspaceModel.IsFingerprinted(e.Key.Name))
                .Aggregate(0UL, (sum, e) => sum ^ KeyspaceModel.Hash(e.Key, e.Value.Canonical));
            Assert.True(fresh == model.Fingerprint, $"after {i}: {command}");
        }

        Assert.Equal(model.Fingerprint, model.Clone().Fingerprint);
    }

    [Theory]
    [InlineData("ROLLBACK worldline=3 survived=120 uncertain=", 120, 0, 121, false)]
    [InlineData("ROLLBACK worldline=3 survived=120 uncertain=122,130-140", 120, 2, 135, true)]
    [InlineData("ROLLBACK worldline=3 survived=0", 0, 0, 1, false)]
    public void RollbackNotice_Text_IsParsed(string text, long survived, int ranges, long probe, bool uncertain)
    {
        var notice = RollbackNotice.Parse(text);
        Assert.Equal((3, survived, ranges), (notice.WorldLine, notice.Survived, notice.Uncertain.Count));
        Assert.Equal(uncertain, notice.IsUncertain(probe));
    }
}
