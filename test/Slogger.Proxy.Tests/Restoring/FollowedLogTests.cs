// A Redis that follows a version log which grows, begins a world-line, and is opened again.
using System.Globalization;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Proxy.Tests.Harness;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Tests.Restoring;

public sealed class FollowedLogTests : IDisposable
{
    private const string Identity = "0123456789012345678901234567890123456789";
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-followed-").FullName;
    private long _version;

    public void Dispose() => Directory.Delete(_directory, recursive: true);

    private VersionLog Open(long epoch) =>
        VersionLog.Open(new() { Directory = _directory, Shard = new ShardId(1), Epoch = epoch, SegmentBytes = 1 << 20,
            BlockBytes = 1 << 16 });

    // A version that sets n.
    private Boundary Append(VersionLog log, int n)
    {
        string number = n.ToString(CultureInfo.InvariantCulture);
        log.Append(Encoding.ASCII.GetBytes(
            string.Create(CultureInfo.InvariantCulture,
                $"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\nn\r\n${number.Length}\r\n{number}\r\n")));
        var boundary = new Boundary(log.WorldLine, new VersionNumber(++_version), log.EndOffset, 0, default);
        log.AppendBoundary(boundary);
        return boundary;
    }

    private static async Task BringAsync(StoreFollower follower, RedisConnection control, Boundary to, int n)
    {
        FollowResult result = await follower.BringToAsync(to.Offset);
        Assert.True(result.IsThere, result.Message);
        Assert.Equal(n.ToString(CultureInfo.InvariantCulture), (await control.ExpectAsync("GET", "n")).Text);
    }

    [Fact]
    public async Task Log_GrowsAndBranchesAndIsOpenedAgain_IsFollowed()
    {
        using var redis = new RedisServer();
        await using RedisConnection control = await RedisConnection.ConnectAsync(RedisEndpoint.Tcp("127.0.0.1", redis.Port));
        var options = new RestoreOptions { UndoFile = Path.Combine(redis.Directory, "undo") };
        string feed = FeedPlan.NewReplicationId();
        Boundary last = default;
        using (VersionLog log = Open(1))
        {
            log.Begin(new StreamOrigin(Identity, 1000, 0), new WorldLine(1), new VersionNumber(1));
            using var history = new FollowedLog(log);
            var plan = new FeedPlan { BaseOffset = 1000, History = history, TargetOffset = 1000, ReplicationId = feed };
            FollowStart start = await StoreFollower.BeginAsync(control, plan, options);
            Assert.True(start.Follower is not null, start.Message);
            await using StoreFollower follower = start.Follower;
            for (int n = 1; n <= 50; n++)
            {
                last = Append(log, n);
                if (n % 10 == 1)
                {
                    Assert.False((await follower.BringToAsync(last.Offset)).IsThere); // not durable yet
                    Assert.NotEqual(last.Offset, (await control.RoleAsync()).Offset);
                }
                log.Sync();
                await BringAsync(follower, control, last, n);
            }
            // Of these Redis has the first; the world-line keeps that.
            Boundary kept = Append(log, 51);
            Append(log, 52);
            log.Sync();
            await BringAsync(follower, control, kept, 51);
            log.BeginWorldLine(new WorldLine(2), kept, Identity);
            _version = kept.Version.Number + 5;
            last = Append(log, 1053);
            log.Sync();
            await BringAsync(follower, control, last, 1053);
        }
        using (VersionLog log = Open(2))
        {
            using var history = new FollowedLog(log);
            FollowStart start = await StoreFollower.ResumeAsync(control, feed, history, log.DurableOffset, options);
            Assert.True(start.Follower is not null, start.Message);
            await using StoreFollower follower = start.Follower;
            Assert.Equal(last.Offset, follower.Offset);
            Boundary voided = Append(log, 2054);
            log.Sync();
            await BringAsync(follower, control, voided, 2054);
            // What Redis has is void: nothing else is fed to it.
            log.BeginWorldLine(new WorldLine(3), last, Identity);
            _version = voided.Version.Number + 5;
            Append(log, 3055);
            Boundary beyond = Append(log, 3056);
            log.Sync();
            for (int i = 0; i < 2; i++) Assert.Contains("voids what lies above", (await follower.BringToAsync(beyond.Offset)).Message);
            Assert.Equal("2054", (await control.ExpectAsync("GET", "n")).Text);
        }
    }
}
