// Primaries of a backup's test without stores of their own: logs of real commands, cut into versions, and shipped. In each version keys a
// and b are set to the same number, one after the other: who sees the end of a version, at any stream, sees them equal.
using System.Buffers;
using System.Globalization;
using Microsoft.Extensions.Logging;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Grpc.Client;
using Slogger.Integration.Tests.Wire;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Rdb;
using Slogger.Replication.Seeding;
using Slogger.Replication.Sending;
using Slogger.Sites.Shipping;

namespace Slogger.Integration.Tests.Sites;

internal sealed class WrittenPrimary : IShipperListener, IAsyncDisposable
{
    public const string ReplicationId = "0123456789abcdef0123456789abcdef01234567";
    public const long Base = 1000;
    private readonly string _empty;
    private readonly GrpcShipConnector _way;
    private readonly ShardShipper _shipper;
    private readonly ArrayBufferWriter<byte> _bytes = new();
    private readonly bool _stringsOnly;
    private readonly string _first, _last;
    private long _cut;

    /// <param name="stringsOnly">What it writes an embedded store can follow.</param>
    public WrittenPrimary(string directory, int shard, string host, int port, bool stringsOnly = false)
    {
        (_stringsOnly, _first, _last) = (stringsOnly, KeyOf(shard, "a"), KeyOf(shard, "b"));
        Log = VersionLog.Open(new() { Directory = directory, Shard = new(shard), TailBytes = 1 << 20 });
        _empty = Path.Combine(directory, "empty.rdb");
        File.WriteAllBytes(_empty, RdbFile.Empty());
        if (Log.IsEmpty) { Log.Begin(new(ReplicationId, Base, 0), WorldLine.First, new(1)); }
        _way = new(new GrpcChannel(host, port), $"{host}:{port}", new("c", TimeSpan.Zero), isGzip: false);
        _shipper = new(Log, new(shard), new(SiteEpoch.First, 1, 1), new(), _way, this, new LineSink($"primary {shard}"));
    }

    /// <summary>A key in one of the slots of a shard of two: a backup sends readers of others away.</summary>
    public static string KeyOf(int shard, string name) => (shard == 0 ? "{b}" : "{a}") + name;

    public VersionLog Log { get; }

    public long Written { get; private set; }

    public ShipperStatus Status => _shipper.Status;

    public WorldPoint RecordedCut => new(WorldLine.First, new(Interlocked.Read(ref _cut)));

    public bool IsDeposed { get; private set; }

    /// <summary>Writes a version: the keys a and b of its shard, and some more; durable.</summary>
    public void Write(Random random)
    {
        _bytes.Clear();
        string number = (++Written).ToString(CultureInfo.InvariantCulture);
        RespClient.Append(_bytes, ["SET", _first, number]);
        for (int i = random.Next(5); i > 0; i--)
        {
            RespClient.Append(_bytes, _stringsOnly ? OnString(random, number) : ["RPUSH", $"list{random.Next(50)}", number]);
        }
        if (random.Next(8) == 0) { RespClient.Append(_bytes, ["SET", "large", new string('x', random.Next(200_000))]); }
        foreach (string[] command in Further) { RespClient.Append(_bytes, command); }
        RespClient.Append(_bytes, ["SET", _last, number]);
        Log.Append(_bytes.WrittenSpan);
        long now = (DateTime.UtcNow - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;
        Log.AppendBoundary(new(Log.WorldLine, new(Written), Log.EndOffset, 0, HybridTimestamp.Of(now, 0)));
        Log.Sync();
        _shipper.Wake();
    }

    /// <summary>Commands that the next versions have besides.</summary>
    public IReadOnlyList<string[]> Further { get; set; } = [];

    private static string[] OnString(Random random, string number)
    {
        string key = $"key{random.Next(50)}";
        return random.Next(6) switch
        {
            0 => ["APPEND", key, number],
            1 => ["DEL", key],
            2 => ["SET", key, number, "PXAT", "4102444800000"],
            3 => ["PEXPIREAT", key, "4102444800001"],
            4 => ["INCRBY", $"count{random.Next(5)}", number],
            _ => ["SET", key, number, "KEEPTTL"],
        };
    }

    public void Record(VersionNumber cut)
    {
        Interlocked.Exchange(ref _cut, cut.Number);
        _shipper.Wake();
    }

    public void HoldWrites(bool isHeld)
    {
    }

    public void OnSeedWanted(long generation, string why)
    {
    }

    // It began with an empty store.
    public SeedCopy? CopyOf(long generation)
    {
        WorldPoint floor = new(WorldLine.First, new(1));
        return Log.DurableEnd.Point < floor ? null : new(
            new Seed($"empty {generation}", generation, new FileInfo(_empty).Length, new(ReplicationId, Base),
                new(WorldLine.First, Base, VersionNumber.Zero), floor) { Checksum = CheckpointStore.ChecksumOf(_empty) }, _empty);
    }

    public void OnShippingDeposed(Sender by, bool isSite) => IsDeposed = true;

    public void OnShippingFailed(Exception e) => Assert.Fail(e.ToString());

    public void OnWatermark(WorldPoint watermark)
    {
    }

    public async ValueTask DisposeAsync()
    {
        await _shipper.DisposeAsync();
        _way.Dispose();
        Log.Dispose();
    }
}

internal sealed class LineSink(string name) : LineLogger(LogLevel.Information)
{
    protected override void Write(LogLevel level, string message) =>
        TestContext.Current.TestOutputHelper?.WriteLine($"{DateTime.UtcNow:ss.ffffff} {name}: {level} {message}");
}
