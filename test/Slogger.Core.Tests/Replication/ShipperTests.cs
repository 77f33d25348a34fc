// The paper's rules about the primary's agent (section 5.2), each by the sentence that it checks, and what is ours: what the primary has
// durable, world-lines, sites.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Replication;

public class ShipperTests
{
    private static readonly ShipperOptions Options = new() { PieceBytesMax = 20, PiecesMax = 3, WindowBytes = 1000, ResendUs = 100,
        HeartbeatUs = 50, BudgetBytes = 1000, FewBytes = 1 };

    private readonly Log _log = new();
    private readonly List<ShipperEffect> _effects = [];

    // "PSA sends log records to the backup site in the order they were appended at the primary shard's log." And: "The number of pending
    // acks can be capped by a configurable threshold after which PSA blocks, waiting for those acks."
    [Fact]
    public void Shipping_MoreThanTheWindow_GoesInOrderAndWaits()
    {
        Shipper shipper = Welcomed("1:0@0", "1:10@100");
        Assert.Equal(["1:0@0 1:2@20", "1:2@20 1:4@40", "1:4@40 1:6@60"], Pieces(shipper, 1));
        Assert.Empty(Pieces(shipper, 2));
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:2@20"), 3, _effects);
        Assert.Equal(["1:6@60 1:8@80"], Pieces(shipper, 3));
    }

    // "Log records are resent if their acks are not received in a preconfigured timeout interval."
    [Fact]
    public void Shipping_NoAck_IsSentAgainFromWhereTheReceiverIs()
    {
        Shipper shipper = Welcomed("1:0@0", "1:3@30");
        Assert.Equal(["1:0@0 1:2@20", "1:2@20 1:3@30"], Pieces(shipper, 1));
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:2@20"), 10, _effects);
        Assert.Empty(Pieces(shipper, 50));
        Assert.Equal(["1:2@20 1:3@30"], Pieces(shipper, 110));
    }

    // "PSA can use the received append-indx to resend log records that were not received by BSA in the correct order." Once, however many
    // say so of what was under way.
    [Fact]
    public void Nack_SeveralOfTheSamePlace_ItIsSentAgainOnce()
    {
        Shipper shipper = Welcomed("1:0@0", "1:6@60");
        Assert.Equal(3, Pieces(shipper, 1).Length);
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:2@20"), 2, _effects);
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:2@20"), 2, _effects);
        Assert.Equal(["1:2@20 1:4@40", "1:4@40 1:6@60"], Pieces(shipper, 2));
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:2@20"), 3, _effects);
        Assert.Empty(Pieces(shipper, 3));
    }

    // Else the log may no longer reach back to it, and the backup would be seeded anew.
    [Fact]
    public void Nack_OvertakenByALaterAck_NothingIsSentAgain()
    {
        Shipper shipper = Welcomed("1:0@0", "1:6@60");
        Assert.Equal(3, Pieces(shipper, 1).Length);
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:6@60", durable: "1:4@40"), 2, _effects);
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:2@20"), 3, _effects);
        Assert.Empty(Pieces(shipper, 3));
        // What is not durable there may be missing again: the receiver has begun anew.
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:4@40", durable: "1:4@40"), 4, _effects);
        Assert.Equal(["1:4@40 1:6@60"], Pieces(shipper, 4));
    }

    // "PSA's state variables do not need to persist; they can be reconstructed from the primary and backup shards' states." The receiver's
    // answer "contains its current append-indx and commit-indx values that are used to initialize PSA's variables".
    [Fact]
    public void Welcome_NewProcess_GoesOnWhereTheReceiverIs()
    {
        Shipper shipper = Welcomed("1:4@40", "1:5@50", durable: "1:3@30");
        Assert.Equal(Index("1:4@40"), shipper.Received);
        Assert.Equal(Index("1:3@30"), shipper.BackedUp);
        Assert.Equal(30, shipper.KeepFrom);
        Assert.Equal(["1:4@40 1:5@50"], Pieces(shipper, 1));
    }

    [Fact]
    public void Piece_SaysWhatIsDurableHereAndWhichCutIsRecorded()
    {
        Shipper shipper = Welcomed("1:3@30", "1:3@30");
        shipper.Appended(Index("1:4@44"));
        ShipRequest.Piece piece = Assert.Single(Sent(shipper, 1));
        Assert.Equal((Index("1:3@30"), Point("1:1")), (piece.Durable, piece.Cut));
        // By itself no news: it goes with the cut that makes it count.
        shipper.Synced(Index("1:4@44"));
        Assert.Empty(Sent(shipper, 1));
        shipper.CutRecorded(Point("1:3"));
        piece = Assert.Single(Sent(shipper, 2));
        Assert.True(piece.IsHeartbeat);
        Assert.Equal((Index("1:4@44"), Point("1:3")), (piece.Durable, piece.Cut));
    }

    // The driver sleeps for so long: whenever a tick has something sent, that time was over; and when it is over, a tick has.
    [Fact]
    public void UsToNextTick_IsWhenTimeAloneHasSomethingSent()
    {
        Shipper shipper = Welcomed("1:0@0", "1:3@30");
        Assert.Equal(long.MaxValue, new Shipper(Shard, Sender(1), History, [], 0, Index("1:3@30"), Point("1:1"), Options).UsToNextTick(5));
        Assert.Equal(2, Pieces(shipper, 1).Length);
        Assert.Equal(50, shipper.UsToNextTick(1));
        Assert.Empty(Sent(shipper, 50));
        Assert.True(Assert.Single(Sent(shipper, 51)).IsHeartbeat);
        // Two pieces are on their way since 1, and are sent again from 101 on: as soon as a heartbeat.
        Assert.Equal(50, shipper.UsToNextTick(51));
        Assert.Equal(20, shipper.UsToNextTick(81));
        Assert.Equal(2, Pieces(shipper, 101).Length);
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:3@30"), 102, _effects);
        Assert.Equal(49, shipper.UsToNextTick(102));

        _effects.Clear();
        Shipper eager = Welcomed("1:3@30", "1:3@30", Options with { DurableUs = 10 });
        Sent(eager, 1);
        Assert.Equal(50, eager.UsToNextTick(1));
        eager.Appended(Index("1:4@40"));
        eager.Synced(Index("1:4@40"));
        Assert.Equal(10, eager.UsToNextTick(1));
    }

    // They go with what makes them count; without that, with what says that somebody is there.
    [Fact]
    public void Ends_BehindNoBytes_WaitForACut()
    {
        Shipper shipper = Welcomed("1:3@30", "1:3@30");
        Assert.Single(Sent(shipper, 1));
        shipper.Appended(Index("1:4@30"));
        Assert.Empty(Sent(shipper, 2));
        shipper.Appended(Index("1:5@30"));
        shipper.Synced(Index("1:5@30"));
        shipper.CutRecorded(Point("1:5"));
        Assert.Equal(["1:3@30 1:5@30"], Pieces(shipper, 3));
        shipper.Appended(Index("1:6@30"));
        Assert.Empty(Sent(shipper, 52));
        Assert.Equal(["1:5@30 1:6@30"], Pieces(shipper, 53));
    }

    // The receiver has no use for them before: a message of their own would only cost.
    [Fact]
    public void FewBytes_GoWithACut_OrAHeartbeat_ManyAtOnce()
    {
        Shipper shipper = Welcomed("1:3@30", "1:3@30", Options with { FewBytes = 15 });
        Assert.Single(Sent(shipper, 1));
        shipper.Appended(Index("1:3@35"));
        shipper.Appended(Index("1:4@40"));
        shipper.Synced(Index("1:4@40"));
        Assert.Empty(Sent(shipper, 2));
        shipper.CutRecorded(Point("1:4"));
        ShipRequest.Piece piece = Assert.Single(Sent(shipper, 3));
        Assert.Equal((Index("1:4@40"), Index("1:4@40"), Point("1:4")), (piece.To, piece.Durable, piece.Cut));
        shipper.Appended(Index("1:4@50"));
        Assert.Empty(Sent(shipper, 52));
        Assert.Equal(["1:4@40 1:4@50"], Pieces(shipper, 53));
        shipper.Appended(Index("1:4@64"));
        Assert.Empty(Sent(shipper, 54));
        shipper.Appended(Index("1:4@65"));
        Assert.Equal(["1:4@50 1:4@65"], Pieces(shipper, 55));
    }

    [Fact]
    public void FewBytes_AreMissedByTheReceiver_AreSentAgainAtOnce()
    {
        Shipper shipper = Welcomed("1:3@30", "1:4@40", Options with { FewBytes = 15 });
        Assert.Equal(["1:3@30 1:4@40"], Pieces(shipper, 1));
        shipper.Appended(Index("1:5@50"));
        shipper.CutRecorded(Point("1:5"));
        Assert.Equal(["1:4@40 1:5@50"], Pieces(shipper, 2));
        Assert.True(shipper.Replied(Reply(ShipReplyKind.Nack, "1:4@40"), 3, _effects));
        Assert.Equal(["1:4@40 1:5@50"], Pieces(shipper, 4));
    }

    // The driver need not look again otherwise.
    [Fact]
    public void Replied_SaysWhetherSomethingMayHaveToBeSent()
    {
        Shipper shipper = Welcomed("1:0@0", "1:6@60");
        Assert.Equal(3, Pieces(shipper, 1).Length);
        Assert.True(shipper.Replied(Reply(ShipReplyKind.Ack, "1:2@20"), 2, _effects));
        Assert.False(shipper.Replied(Reply(ShipReplyKind.Ack, "1:4@40"), 3, _effects));
        Assert.True(shipper.Replied(Reply(ShipReplyKind.WhoAreYou, "1:4@40"), 4, _effects));
    }

    [Fact]
    public void Piece_PartOfItIsDurable_ThatIsOneByItself()
    {
        Shipper shipper = Welcomed("1:3@30", "1:3@30");
        shipper.Appended(Index("1:4@46"));
        shipper.Synced(Index("1:4@40"));
        Assert.Equal(["1:3@30 1:4@40", "1:4@40 1:4@46"], Pieces(shipper, 1));
    }

    // A follower's store goes as far as its leader has said that a majority is: that goes with the next piece, or soon by itself.
    [Fact]
    public void MoreIsDurable_GoesWithThePiece_OrAfterAWhile()
    {
        Shipper shipper = Welcomed("1:3@30", "1:3@30", Options with { DurableUs = 20 });
        shipper.Appended(Index("1:4@40"));
        Assert.Equal(Index("1:3@30"), Assert.Single(Sent(shipper, 1)).Durable);
        shipper.Synced(Index("1:4@40"));
        Assert.Empty(Sent(shipper, 20));
        Assert.Equal(Index("1:4@40"), Assert.Single(Sent(shipper, 21)).Durable);
        Assert.Empty(Sent(shipper, 41));
    }

    // Else the receiver would hold the cut only with the next one, or the next sign of life.
    [Fact]
    public void Cut_OfWhatTheReceiverCannotTakeInYet_ThatItCanIsNews()
    {
        Shipper shipper = Welcomed("1:3@30", "1:3@30");
        shipper.Appended(Index("1:5@48"));
        Assert.Equal(["1:3@30 1:5@48"], Pieces(shipper, 1));
        shipper.Synced(Index("1:4@44"));
        shipper.CutRecorded(Point("1:4"));
        Assert.Equal(Index("1:4@44"), Assert.Single(Sent(shipper, 2)).Durable);
        shipper.Synced(Index("1:4@47"));
        Assert.Empty(Sent(shipper, 3));
        shipper.Synced(Index("1:5@48"));
        Assert.Equal(Index("1:5@48"), Assert.Single(Sent(shipper, 4)).Durable);
        Assert.Empty(Sent(shipper, 5));
    }

    // "each primary shard keeps sending log records with monotonically increasing timestamps at regular intervals".
    [Fact]
    public void Idle_SaysSomethingNowAndThen()
    {
        Shipper shipper = Welcomed("1:3@30", "1:3@30");
        Assert.Single(Sent(shipper, 1));
        Assert.Empty(Sent(shipper, 50));
        Assert.True(Assert.Single(Sent(shipper, 51)).IsHeartbeat);
    }

    [Fact]
    public void WorldLine_BeginsBehindTheReceiver_TheRestOfTheOldOneComesFirst()
    {
        Shipper shipper = Welcomed("1:1@10", "1:5@50");
        shipper.Branched(Branch("2:3@30"));
        shipper.Appended(Index("2:4@35"));
        Assert.Equal(["1:1@10 1:3@30", "1:3@30 2:3@30", "2:3@30 2:4@35"], Pieces(shipper, 1));
    }

    [Fact]
    public void WorldLine_BeginsBeforeWhatWasSent_NothingOfTheOldOneIsSentAnyMore()
    {
        Shipper shipper = Welcomed("1:4@44", "1:5@50");
        shipper.Branched(Branch("2:3@30"));
        shipper.Branched(Branch("3:3@30"));
        Assert.Equal(["1:4@44 2:3@30", "2:3@30 3:3@30"], Pieces(shipper, 1));
        Assert.Equal(30, shipper.KeepFrom);
    }

    // A reign began, and then a world-line of it branched off below its record. Who has not heard of the reign hears of the world-line alone.
    [Theory]
    [InlineData("1:2@20", "1:2@20 1:3@30, 1:3@30 2:3@30")]
    [InlineData("1:4@44", "1:4@44 2:3@30")]
    public void WorldLine_BranchesOffBelowItsReign_TheRecordOfTheReignIsNotSent(string receiver, string pieces)
    {
        Shipper shipper = Welcomed(receiver, "1:5@50");
        shipper.Branched(Branch("1:5@50") with { Reign = new(1) });
        shipper.Branched(Branch("2:3@30") with { Reign = new(1) });
        Assert.Equal(pieces.Split(", "), Pieces(shipper, 1).Select(p => p.Replace("1/", "", StringComparison.Ordinal)));
    }

    [Theory]
    [InlineData("1:9@90", "1:5@50", 0)]       // further than this log ever went
    [InlineData("3:1@10", "2:5@50", 0)]       // in a world-line that it does not know
    [InlineData("1:1@10", "1:5@50", 20)]      // before what it still holds
    public void Welcome_ReceiverIsOnNoPartOfThisLog_ItHasToBeSeeded(string receiver, string end, long start)
    {
        Shipper shipper = new(Shard, Sender(1), History, [Branch("2:2@20")], start, Index(end), Point("1:1"), Options);
        shipper.Connected(0, _effects);
        shipper.Replied(Reply(ShipReplyKind.Welcome, receiver, generation: 4), 0, _effects);
        Assert.Equal(ShipperState.AwaitsSeed, shipper.State);
        Assert.Equal(4, Assert.Single(_effects.OfType<ShipperEffect.Seed>()).Generation);
        Assert.Null(shipper.KeepFrom);
        // It asks again, and goes on when that has been done.
        _effects.Clear();
        shipper.Tick(100, _log, _effects);
        Assert.IsType<ShipRequest.Hello>(Assert.Single(_effects.OfType<ShipperEffect.Send>()).Request);
        shipper.Replied(Reply(ShipReplyKind.Welcome, end, generation: 5), 101, _effects);
        Assert.Equal((ShipperState.Shipping, 5), (shipper.State, shipper.Generation));
    }

    // It is not told again that it has to be seeded: it would begin anew.
    [Fact]
    public void NeedsSeed_WithWhatIsLacking_IsSentAndNothingIsGivenUp()
    {
        Shipper shipper = new(Shard, Sender(1), History, [], 0, Index("1:5@50"), Point("1:1"), Options);
        shipper.Connected(0, _effects);
        _effects.Clear();
        SeedAsk ask = new(4, "copy", 40);
        shipper.Replied(Reply(ShipReplyKind.NeedsSeed, "0:0@0", generation: 4) with { Ask = ask }, 0, _effects);
        Assert.Equal([new ShipperEffect.Copy(ask)], _effects);
        Assert.Equal((ShipperState.AwaitsSeed, 4), (shipper.State, shipper.Generation));
    }

    [Fact]
    public void Shipping_TheLogIsTrimmedUnderIt_ItHasToBeSeeded()
    {
        Shipper shipper = Welcomed("1:1@10", "1:5@50");
        _log.Start = 20;
        Assert.Empty(Pieces(shipper, 1));
        Assert.Equal(ShipperState.AwaitsSeed, shipper.State);
    }

    [Theory]
    [InlineData(0, 2, true)]
    [InlineData(1, 1, false)]
    public void Reply_NamesALaterSender_ItEnds(long site, long epoch, bool isShard)
    {
        Shipper shipper = Welcomed("1:1@10", "1:5@50");
        shipper.Replied(Reply(ShipReplyKind.NotLeader, "1:1@10", newest: Sender(epoch, site)), 1, _effects);
        Assert.Equal(ShipperState.Deposed, shipper.State);
        Assert.Equal(isShard, _effects.OfType<ShipperEffect.ShardTaken>().Any());
        Assert.Equal(!isShard, _effects.OfType<ShipperEffect.SiteDeposed>().Any());
        Assert.Empty(Pieces(shipper, 1000));
    }

    // "In principle, there exists a pathological scenario": the log kept for the backup fills up.
    [Fact]
    public void Budget_Stall_WritesAreHeldUntilWellBelow()
    {
        Shipper shipper = Welcomed("1:0@0", "1:0@0");
        Assert.Equal("", Budget(shipper, "1:1@700"));
        Assert.Equal("warn 800", Budget(shipper, "1:1@800"));
        Assert.Equal("hold", Budget(shipper, "1:1@1000"));
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:1@100", durable: "1:1@100"), 1, _effects);
        Assert.Equal("", Budget(shipper, "1:1@1000"));
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:1@300", durable: "1:1@300"), 1, _effects);
        Assert.Equal("let go", Budget(shipper, "1:1@1000"));
    }

    [Fact]
    public void Budget_Detach_NothingIsKeptUntilItIsSeededAnew()
    {
        Shipper shipper = Welcomed("1:0@0", "1:0@0", Options with { AtBudget = BudgetChoice.Detach });
        shipper.Appended(Index("1:1@1000"));
        shipper.Synced(Index("1:1@1000"));
        Assert.Equal("warn 1000, detached", Budget(shipper, "1:1@1000"));
        Assert.Equal((ShipperState.Detached, null), (shipper.State, shipper.KeepFrom));
        // The log has gone on, and the connection has been another one since.
        shipper.Appended(Index("1:3@9000"));
        shipper.Synced(Index("1:3@9000"));
        shipper.Disconnected();
        shipper.Connected(2, _effects);
        shipper.Attach(2, _effects);
        Assert.Equal("", Budget(shipper, "1:3@9000"));
        Assert.Equal(ShipperState.Greeting, shipper.State);
        shipper.Replied(Reply(ShipReplyKind.Welcome, "1:0@0"), 2, _effects);
        Assert.Equal(ShipperState.AwaitsSeed, shipper.State);
        shipper.Replied(Reply(ShipReplyKind.Welcome, "1:3@9000", generation: 2), 3, _effects);
        Assert.Equal(ShipperState.Shipping, shipper.State);
        Assert.Equal("", Budget(shipper, "1:4@9001"));
    }

    // A process that starts over a log as large as the budget: the backup may have all of it.
    [Theory]
    [InlineData(BudgetChoice.Stall, "hold")]
    [InlineData(BudgetChoice.Detach, "detached")]
    public void Budget_BeforeTheFirstAnswer_CountsWhatIsNew(BudgetChoice choice, string over)
    {
        Shipper shipper = new(Shard, Sender(1), History, [], 0, Index("1:5@5000"), Point("1:1"), Options with { AtBudget = choice });
        Assert.Equal("", Budget(shipper, "1:5@5700"));
        shipper.Connected(0, _effects);
        Assert.Equal("", Budget(shipper, "1:5@5700"));
        Assert.Equal("warn 1000, " + over, Budget(shipper, "1:5@6000"));

        shipper = new(Shard, Sender(1), History, [], 0, Index("1:5@5000"), Point("1:1"), Options with { AtBudget = choice });
        shipper.Connected(0, _effects);
        shipper.Replied(Reply(ShipReplyKind.Welcome, "1:4@4500"), 0, _effects);
        Assert.Equal("", Budget(shipper, "1:5@5000"));
    }

    // It is there: given up once more it would never come back.
    [Fact]
    public void Budget_Detach_ABackupThatIsFurtherBehindIsSeededAnew()
    {
        Shipper shipper = new(Shard, Sender(1), History, [], 0, Index("1:5@5000"), Point("1:1"),
            Options with { AtBudget = BudgetChoice.Detach });
        shipper.Connected(0, _effects);
        shipper.Replied(Reply(ShipReplyKind.Welcome, "1:4@4000"), 0, _effects);
        Assert.Equal(ShipperState.AwaitsSeed, shipper.State);
        Assert.Equal("", Budget(shipper, "1:5@5000"));
    }

    // An acknowledgement of a life of the stream that is over says nothing about what may be trimmed.
    [Fact]
    public void Ack_OfAnEarlierGeneration_IsNone()
    {
        Shipper shipper = Welcomed("1:0@0", "1:5@50", generation: 2);
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:5@50", durable: "1:5@50", generation: 1), 1, _effects);
        Assert.Equal((Index("1:0@0"), Index("1:0@0")), (shipper.Received, shipper.BackedUp));
    }

    [Fact]
    public void Watermark_IsWhatTheReceiverHasHeardOf()
    {
        Shipper shipper = Welcomed("1:0@0", "1:5@50");
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:0@0") with { Watermark = Point("1:4") }, 1, _effects);
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:0@0") with { Watermark = Point("1:3") }, 1, _effects);
        Assert.Equal(Point("1:4"), shipper.Watermark);
    }

    private Shipper Welcomed(string receiver, string end, ShipperOptions? options = null, string? durable = null, long generation = 1)
    {
        Shipper shipper = new(Shard, Sender(1), History, [], 0, Index(end), Point("1:1"), options ?? Options);
        shipper.Connected(0, _effects);
        Assert.Equal(new ShipRequest.Hello(Shard, Sender(1), History), Assert.Single(_effects.OfType<ShipperEffect.Send>()).Request);
        shipper.Replied(Reply(ShipReplyKind.Welcome, receiver, durable, generation), 0, _effects);
        _effects.Clear();
        return shipper;
    }

    private static ShipReply Reply(ShipReplyKind kind, string received, string? durable = null, long generation = 1,
        Sender? newest = null) =>
        new(kind, Shard, generation, Index(received), Index(durable ?? received), default, default, 0, newest ?? Sender(1));

    private ShipRequest.Piece[] Sent(Shipper shipper, long nowUs)
    {
        _effects.Clear();
        shipper.Tick(nowUs, _log, _effects);
        return [.. _effects.OfType<ShipperEffect.Send>().Select(s => (ShipRequest.Piece)s.Request)];
    }

    private string[] Pieces(Shipper shipper, long nowUs) =>
        [.. (shipper.State == ShipperState.Shipping ? Sent(shipper, nowUs) : []).Where(p => !p.IsHeartbeat)
            .Select(p => $"{p.From} {p.To}")];

    private string Budget(Shipper shipper, string end)
    {
        shipper.Appended(Index(end));
        _effects.Clear();
        shipper.Tick(1, _log, _effects);
        return string.Join(", ", _effects.Select(e => e switch
        {
            ShipperEffect.Warn w => $"warn {w.KeptBytes}",
            ShipperEffect.HoldWrites h => h.IsHeld ? "hold" : "let go",
            ShipperEffect.Detached => "detached",
            _ => "",
        }).Where(t => t.Length > 0));
    }
}
