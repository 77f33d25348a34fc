// A log that is shipped while it is written, over a bad link, from processes and to processes that end at any moment and forget what they
// had not synced: what the backup's log holds is at any time a beginning of the primary's, and the cuts that it notes are those that were
// recorded.
using System.Buffers;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Replication.Links;
using Slogger.Replication.Sending;

namespace Slogger.Sites.Tests.Shipping;

public sealed class ShippingTests : ShippingHarness
{
    [Fact]
    public async Task Log_Shipped_IsAtTheBackupWithItsCuts()
    {
        await StartReceiverAsync();
        await using (ShardShipper shipper = NewShipper(new BadWay(1, () => Receiver, isGood: true)))
        {
            Random random = new(1);
            for (int i = 0; i < 300; i++) { Write(random, shipper); }
            await CatchUpAsync(shipper);
            Assert.Equal(ShipperState.Shipping, shipper.Status.State);
            Assert.Equal(PrimaryLog.End.Point, shipper.Status.BackedUp.Point);
        }
        AssertSame();
        Assert.Equal(Backup.Reported, BackupLog.HeldCut);
    }

    // What the primary has not synced is shipped, and is in nobody's log.
    [Fact]
    public async Task Log_NotDurableAtThePrimary_IsShippedAndNotAppended()
    {
        await StartReceiverAsync();
        await using ShardShipper shipper = NewShipper(new BadWay(1, () => Receiver, isGood: true));
        Append(1, 500);
        shipper.Wake();
        await UntilAsync(() => shipper.Status.Received == PrimaryLog.End);
        Assert.Equal(1000, BackupLog.EndOffset);
        PrimaryLog.Sync();
        shipper.Wake();
        await UntilAsync(() => BackupLog.End == PrimaryLog.End);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    public Task Log_OverABadLinkAndThroughCrashesOfEither_IsTheSame(int seed)
    {
        var way = new BadWay(seed, () => Receiver);
        return CrashesAsync(seed, () => way, onStep: _ => { }, onCalm: () => way.IsGood = true);
    }

    // The leader of a cohort whose reign is over, and whose process takes its time to end.
    [Fact]
    public async Task Shipper_FallsSilent_SaysNothingMore()
    {
        await StartReceiverAsync();
        var way = new BadWay(1, () => Receiver, isGood: true);
        await using ShardShipper shipper = await ShippingAsync(way);
        shipper.FallSilent();
        await UntilAsync(() => way.Open == 0);
        int sent = way.Sent;
        Append(1, 100);
        PrimaryLog.Sync();
        shipper.Wake();

        // Many times its heartbeat, and its wait before it connects anew.
        await Task.Delay(200);
        Assert.Equal((0, sent), (way.Open, way.Sent));
        Assert.Equal(1000, BackupLog.EndOffset);
    }

    private async Task<ShardShipper> ShippingAsync(BadWay way)
    {
        ShardShipper shipper = NewShipper(way);
        await UntilAsync(() => shipper.Status.State == ShipperState.Shipping);
        return shipper;
    }

    // Another process owns the shard by then: one that wakes up ships nothing any more, and hears of it.
    [Fact]
    public async Task Shipper_OfAnOlderProcess_IsDeposed()
    {
        await StartReceiverAsync();
        var way = new BadWay(1, () => Receiver, isGood: true);
        await using ShardShipper old = await ShippingAsync(way);
        await using ShardShipper young = await ShippingAsync(way);
        Append(1, 100);
        PrimaryLog.Sync();
        old.Wake();
        await UntilAsync(() => Shard.Deposed is not null);
        Assert.Equal((2L, false), (Shard.Deposed!.Value.By.Epoch, Shard.Deposed.Value.IsSite));
        young.Wake();
        await UntilAsync(() => BackupLog.End == PrimaryLog.End);

        // For good: a receiver that starts knows it from SQL.
        await Receiver!.DisposeAsync();
        Receiver = null;
        await StartReceiverAsync();
        Shard.Deposed = null;
        await using ShardShipper again = NewShipper(way, epoch: 1);
        await UntilAsync(() => Shard.Deposed is not null);
        Assert.Equal(ShipperState.Deposed, again.Status.State);
    }

    [Fact]
    public async Task Receiver_WhoseStreamAnotherProcessHasTaken_Ends()
    {
        await StartReceiverAsync();
        await Metadata.ChangeSiteAsync("c", s => new(s.TakeStream(new(0), 99), null));
        await using ShardShipper shipper = NewShipper(new BadWay(1, () => Receiver, isGood: true));
        while (Backup.Failure is null) { await Task.Delay(2); }
        Assert.Contains("by another process", Backup.Failure, StringComparison.Ordinal);
        Assert.Equal(1000, BackupLog.EndOffset);
    }

    [Fact]
    public async Task Failover_Frozen_NothingIsTakenAndTheLogEndsAtTheFinalWatermark()
    {
        await StartReceiverAsync();
        await using ShardShipper shipper = NewShipper(new BadWay(1, () => Receiver, isGood: true));
        for (int v = 1; v <= 20; v++) { Append(v, 50); }
        PrimaryLog.Sync();
        Shard.RecordedCut = new(WorldLine.First, new(15));
        shipper.Wake();
        await UntilAsync(() => BackupLog.HeldCut == Shard.RecordedCut && BackupLog.DurableEnd == PrimaryLog.End);
        await UntilAsync(() => Metadata.SiteAsync("c").GetAwaiter().GetResult().Streams[0].Phase == StreamPhase.Counts);
        SiteEpoch number = (await Metadata.ChangeSiteAsync("c", s => s.Take([]))).Site.Epoch;
        await Receiver!.FreezeAsync(number);
        await UntilAsync(() => Backup.FinalOf is not null);
        Assert.Equal(new FinalReport(number, new(0), 1, 1, Shard.RecordedCut), Backup.FinalOf);
        Append(21, 50);
        PrimaryLog.Sync();
        shipper.Wake();
        await UntilAsync(() => Shard.Deposed is { IsSite: true });
        // One that starts by then knows of the failover from SQL alone, and says so to whoever comes.
        Shard.Deposed = null;
        await Receiver.DisposeAsync();
        await StartReceiverAsync();
        await using ShardShipper late = NewShipper(new BadWay(1, () => Receiver, isGood: true));
        await UntilAsync(() => Shard.Deposed is { IsSite: true });
        WorldPoint final = Backup.FinalOf!.Value.Held;
        await Metadata.DecideFailoverAsync("c", number, final, []);
        await Receiver.DecidedAsync(number, final);
        await UntilAsync(() => Backup.Opened == number);
        Assert.Equal(final, Backup.AppliedTo);
        Assert.Equal((number.FirstWorldLine, new VersionNumber(15), 1000 + (15 * 50)),
            (BackupLog.WorldLine, BackupLog.DurableBoundary!.Value.Version, BackupLog.EndOffset));
    }

    [Fact]
    public void Message_ThatContradictsItself_IsFlawed()
    {
        LogIndex from = new(WorldLine.First, 1000, new(5)), to = new(WorldLine.First, 1010, new(7));
        ShipRequest.Piece piece = new(new(0), default, from, to, from, default, 1);
        VersionEnd End(long version, long offset, bool isRun = false) => new(new(WorldLine.First, new(version), offset, 0, default), isRun);
        Assert.Null(new ShipMessage(piece, Bytes(10), [End(6, 1005), End(7, 1005, isRun: true)]).Flaw);
        ShipMessage[] flawed =
        [
            new(piece, Bytes(9), [End(6, 1005), End(7, 1010)]),
            new(piece, Bytes(10), [End(6, 1005)]),
            new(piece, Bytes(10), [End(7, 1005), End(6, 1006)]),
            new(piece, Bytes(10), [End(6, 1006), End(7, 1005)]),
            new(piece, Bytes(10), [End(6, 999), End(7, 1005)]),
            new(piece, Bytes(10), [End(6, 1005), End(7, 1011)]),
            new(piece with { To = from, From = to }, default, []),
            new(piece with { To = from }, Bytes(1), []),
            new(new ShipRequest.Hello(new(0), default, new(ReplicationId, 1000)), Bytes(1), []),
        ];
        Assert.All(flawed, m => Assert.NotNull(m.Flaw));
        Seed seed = new("copy", 1, 100, new(ReplicationId, 55), new(WorldLine.First, 1000, new(5)), new(WorldLine.First, new(6)));
        ShipMessage Chunk(Seed of, long at, int count) => new(new ShipRequest.Copied(new(0), default, new(of, at, count)), Bytes(10), []);
        Assert.Null(Chunk(seed, 90, 10).Flaw);
        ShipMessage[] none =
        [
            Chunk(seed, 91, 10), Chunk(seed, -1, 10), Chunk(seed, 10, 9), Chunk(seed with { Id = "" }, 0, 10),
                Chunk(seed with { Floor = new(WorldLine.First, new(5)) }, 0, 10),
            Chunk(seed with { History = new("with a blank", 55) }, 0, 10), Chunk(seed with { Bytes = -1 }, 0, 10),
        ];
        Assert.All(none, m => Assert.NotNull(m.Flaw));
    }

    private static ReadOnlySequence<byte> Bytes(int count) => new(new byte[count]);
}
