// A Redis as primary, what it has replicated, and where it stood with which data: what a follower is compared with.
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;

namespace Slogger.Redis.Tests.Support;

internal sealed class FollowedHistory : IAsyncDisposable
{
    private readonly ReplicationLink _link;

    private FollowedHistory(TestRedis primary, RedisConnection client, ReplicationLink link, RecordingSink sink, string? baseFile,
        long baseOffset)
    {
        (Primary, Client, _link, Sink, BaseFile, BaseOffset) = (primary, client, link, sink, baseFile, baseOffset);
    }

    public TestRedis Primary { get; }
    public RedisConnection Client { get; }
    public RecordingSink Sink { get; }
    public string? BaseFile { get; }
    public long BaseOffset { get; }

    public sealed record Point(long Offset, string Digest);

    /// <summary>From an empty data set, or from a base if something is done first.</summary>
    public static async Task<FollowedHistory> StartAsync(Func<RedisConnection, Task>? first = null)
    {
        TestRedis primary = await TestRedis.StartAsync();
        RedisConnection client = await primary.ConnectAsync();
        if (first is not null) await first(client);
        var link = new ReplicationLink(new() { Endpoint = primary.Endpoint });
        string? rdb = first is null ? null : Path.Combine(primary.Directory, "base.rdb");
        AttachRequest request = rdb is null ? new() : new() { OnFull = OnFullSync.WithData, RdbFile = rdb };
        var full = Assert.IsType<AttachResult.Full>(await link.AttachAsync(request));
        var sink = new RecordingSink(full.Offset);
        link.Start(sink);
        return new FollowedHistory(primary, client, link, sink, rdb, full.Offset);
    }

    /// <summary>Where it stands, with the digest of its data; nothing may expire in between.</summary>
    public async Task<Point> TakeAsync()
    {
        while (true)
        {
            long before = (await Client.RoleAsync()).Offset;
            string digest = (await Client.ExpectAsync("DEBUG", "DIGEST")).Text;
            if ((await Client.RoleAsync()).Offset != before) continue;
            await Sink.WaitForAsync(before);
            return new Point(before, digest);
        }
    }

    public FeedPlan Plan(long? target = null, IHistorySource? history = null) =>
        new() { BaseFile = BaseFile, BaseOffset = BaseOffset, History = history ?? Sink, TargetOffset = target ?? BaseOffset };

    public async ValueTask DisposeAsync()
    {
        _link.Dispose();
        await Client.DisposeAsync();
        await Primary.DisposeAsync();
    }
}
