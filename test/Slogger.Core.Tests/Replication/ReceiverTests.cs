// The paper's rules about the backup's agent (sections 5.3 and 5.6), each by the sentence that it checks, and what is ours: nothing that
// the primary may lose, recorded cuts, seeds.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Replication;

public class ReceiverTests
{
    private static readonly ReceiverStart Fresh = new() { Stream = Shard, Generation = 1, Owner = 7, History = History,
        Log = Index("1:0@0"), StagedBytesMax = 200, ReportUs = 50, UnansweredPiecesMax = 1 };

    private readonly List<ReceiverEffect> _effects = [];
    private SyncTicket _ticket;

    // "Log records are received in the order they were appended at the primary shard's log; log records received out-of-order are nacked."
    // And: "Both the ack/nack messages contain the value of append-indx".
    [Fact]
    public void Pieces_OutOfOrder_AreNackedWithWhatIsThere()
    {
        Receiver receiver = Welcomed();
        Assert.Equal("Keep 1:0@0, Ack 1:2@20", Take(receiver, "1:0@0", "1:2@20"));
        Assert.Equal("Nack 1:2@20", Take(receiver, "1:4@40", "1:5@50"));
        Assert.Equal("Keep 1:2@20, Ack 1:4@40", Take(receiver, "1:2@20", "1:4@40"));
    }

    // "BSAs ignore redundantly received log records."
    [Fact]
    public void Pieces_Again_AreAcknowledgedOnly()
    {
        Receiver receiver = Welcomed();
        Take(receiver, "1:0@0", "1:2@20");
        Assert.Equal("Ack 1:2@20", Take(receiver, "1:0@0", "1:2@20"));
        Assert.Equal("Ack 1:2@20", Take(receiver, "1:0@0", "1:1@10"));
    }

    // Shipped before it is durable at the primary; taken into the log when it is.
    [Fact]
    public void Pieces_GoIntoTheLogWhenThePrimaryHasThem()
    {
        Receiver receiver = Welcomed();
        Take(receiver, "1:0@0", "1:2@20");
        Assert.Equal("Keep 1:2@20, Append 1:0@0, Sync, Ack 1:4@40", Take(receiver, "1:2@20", "1:4@40", durable: "1:3@30"));
        SyncTicket ticket = LastSync();
        Assert.Equal("Append 1:2@20", Take(receiver, "1:4@40", "1:4@40", durable: "1:4@40"));
        // Of a heartbeat the sync that is under way says all.
        Synced(receiver, ticket);
        Assert.Equal((Index("1:2@20"), Index("1:4@40")), (LastReply().Durable, LastReply().Received));
    }

    // "We consider the backup shard's log records committed only after they are successfully replicated": here, synced.
    [Fact]
    public void Ack_TellsDurableOnlyAfterTheSync()
    {
        Receiver receiver = Welcomed();
        Take(receiver, "1:0@0", "1:2@20", durable: "1:2@20");
        Assert.Equal(Index("1:0@0"), LastReply().Durable);
        SyncTicket ticket = LastSync();
        Take(receiver, "1:2@20", "1:3@30", durable: "1:3@30");
        Synced(receiver, ticket);
        Assert.Equal((Index("1:2@20"), Index("1:3@30")), (LastReply().Durable, LastReply().Received));
        Synced(receiver, LastSync());
        Assert.Equal(Index("1:3@30"), LastReply().Durable);
    }

    // The sync says as much, and soon: only for room somebody may wait meanwhile.
    [Fact]
    public void Ack_WhileASyncIsUnderWay_GoesWhenMuchHasCome()
    {
        Receiver receiver = Welcomed(start: Fresh with { UnansweredPiecesMax = 3, UnansweredBytesMax = 25, StagedBytesMax = 2000 });
        Assert.Equal("Keep 1:0@0, Append 1:0@0, Sync", Take(receiver, "1:0@0", "1:1@1", "1:1@1"));
        Assert.Equal("Keep 1:1@1", Take(receiver, "1:1@1", "1:2@2"));
        Assert.Equal("Keep 1:2@2, Ack 1:3@3", Take(receiver, "1:2@2", "1:3@3"));
        Assert.Equal("Keep 1:3@3", Take(receiver, "1:3@3", "1:4@4"));
        Assert.Equal("Keep 1:4@4, Ack 1:5@29", Take(receiver, "1:4@4", "1:5@29"));
        Assert.Equal("Nack 1:5@29", Take(receiver, "1:6@30", "1:7@31"));
        Assert.Equal("", Take(receiver, "1:5@29", "1:5@29"));
        Synced(receiver, LastSync());
        Assert.Equal((Index("1:1@1"), Index("1:5@29")), (LastReply().Durable, LastReply().Received));
        // What waits for the primary's own sync has none here that would answer.
        Assert.Equal("Keep 1:5@29, Ack 1:6@30", Take(receiver, "1:5@29", "1:6@30"));
    }

    // Not the version of the last record, as in the paper, but the newest recorded cut that the log has come to counts: noted in the log,
    // and synced.
    [Fact]
    public void Held_IsTheNewestRecordedCutThatTheLogReaches()
    {
        Receiver receiver = Welcomed();
        Assert.DoesNotContain("Note", Take(receiver, "1:0@0", "1:2@20", "1:2@20", cut: "1:3"));
        Assert.Contains("Append 1:2@20, Note 1:3", Take(receiver, "1:2@20", "1:4@40", "1:4@40", cut: "1:5"));
        Assert.Equal(default, receiver.Held);
        Synced(receiver, LastSync());
        Synced(receiver, LastSync());
        Assert.Equal(Point("1:3"), receiver.Held);
        Assert.Equal(Point("1:3"), _effects.OfType<ReceiverEffect.Report>().Last().Message.Held);
    }

    // 1:50 does not hold 2:30: it lacks the world-line's beginning.
    [Fact]
    public void Held_ACutOfALaterWorldLine_TakesItsBeginning()
    {
        Receiver receiver = Welcomed();
        Assert.DoesNotContain("Note", Take(receiver, "1:0@0", "1:50@500", "1:50@500", cut: "2:30"));
        Assert.Contains("Append 1:50@500, Note 2:30", Take(receiver, "1:50@500", "2:30@300", "2:30@300", cut: "2:30"));
    }

    // However far behind the log is: the first cut that was heard of is reached first, whatever comes after it.
    [Fact]
    public void Held_FarBehind_TheFirstCutIsNotForgotten()
    {
        Receiver receiver = Welcomed();
        for (int cut = 100; cut < 200; cut++) Take(receiver, "1:0@0", "1:0@0", cut: $"1:{cut}");
        Assert.Contains("Note 1:100", Take(receiver, "1:0@0", "1:100@1000", "1:100@1000", cut: "1:200"));
        Assert.Contains("Note 1:200", Take(receiver, "1:100@1000", "1:250@2500", "1:250@2500", cut: "1:300"));
    }

    // "a committed log record r becomes eligible for application only after all shards on the backup site have committed all the log
    // records with timestamps less than r's".
    [Fact]
    public void Store_FollowsTheWatermark()
    {
        Receiver receiver = Holding("1:4");
        Assert.DoesNotContain(_effects, e => e is ReceiverEffect.Apply);
        receiver.WatermarkTold(Point("1:3"), Clear());
        Assert.Equal(Point("1:3"), Assert.Single(_effects.OfType<ReceiverEffect.Apply>()).To);
        // Somebody at the primary may wait for it.
        Assert.Equal(Point("1:3"), LastReply().Watermark);
        // From another life of this stream: it does not hold that.
        receiver.WatermarkTold(Point("1:9"), Clear());
        Assert.Equal(Point("1:9"), Assert.IsType<ReceiverEffect.Reply>(Assert.Single(_effects)).Message.Watermark);
        receiver.WatermarkTold(Point("1:2"), Clear());
        Assert.Empty(_effects);
    }

    // "The new watermark received at BSA [...] apply-to does not need to be a part of the persistent metadata".
    [Fact]
    public void Start_FromTheLog_KnowsAgainWhatWasReported()
    {
        Receiver receiver = new(Fresh with { Log = Index("1:6@60"), Held = Point("1:4"), Applied = Point("1:2"), Counts = true });
        receiver.Tick(1000, Clear());
        Assert.Equal(Point("1:4"), Assert.Single(_effects.OfType<ReceiverEffect.Report>()).Message.Held);
        receiver.Received(new ShipRequest.Hello(Shard, Sender(2), History), Clear());
        receiver.SenderNoted(Sender(2), Sender(2), Clear());
        Assert.Equal((ShipReplyKind.Welcome, Index("1:6@60"), Index("1:6@60")),
            (LastReply().Kind, LastReply().Received, LastReply().Durable));
    }

    [Fact]
    public void Hello_IsNotedBeforeItIsAnswered()
    {
        Receiver receiver = new(Fresh);
        receiver.Received(new ShipRequest.Hello(Shard, Sender(3), History), Clear());
        Assert.Equal(new ReceiverEffect.NoteSender(Sender(3)), Assert.Single(_effects));
        // SQL knows of a newer one.
        receiver.SenderNoted(Sender(3), Sender(4), Clear());
        Assert.Equal((ShipReplyKind.NotLeader, Sender(4)), (LastReply().Kind, LastReply().Newest));
    }

    // "It responds with a NOT_LEADER message": who came before the newest sender, whatever has died since.
    [Fact]
    public void OlderSender_IsRefused()
    {
        Receiver receiver = Welcomed(Sender(5));
        Assert.Equal("NotLeader 1:0@0", Take(receiver, "1:0@0", "1:2@20", sender: Sender(4)));
        receiver.Received(new ShipRequest.Hello(Shard, Sender(4), History), Clear());
        Assert.Equal(ShipReplyKind.NotLeader, LastReply().Kind);
        Assert.Equal("WhoAreYou 1:0@0", Take(receiver, "1:0@0", "1:2@20", sender: Sender(6)));
        receiver = new(Fresh with { Newest = Sender(5) });
        receiver.Received(new ShipRequest.Hello(Shard, Sender(4), History), Clear());
        Assert.Equal(ShipReplyKind.NotLeader, LastReply().Kind);
    }

    // A later process may go on otherwise than an earlier one has sent; one whose connection broke goes on where it was.
    [Theory]
    [InlineData(1, 1, "1:4@40")]
    [InlineData(1, 2, "1:2@20")]
    [InlineData(2, 1, "1:2@20")]
    public void Hello_OfALaterSender_WhatWasNotDurableIsForgotten(long epoch, long incarnation, string goesOn)
    {
        Receiver receiver = Welcomed();
        Take(receiver, "1:0@0", "1:2@20", durable: "1:2@20");
        Take(receiver, "1:2@20", "1:4@40", durable: "1:2@20");
        Sender sender = Sender(epoch, incarnation: incarnation);
        receiver.Received(new ShipRequest.Hello(Shard, sender, History), Clear());
        if (sender != Sender(1)) receiver.SenderNoted(sender, sender, _effects);
        Assert.Equal((ShipReplyKind.Welcome, Index(goesOn)), (LastReply().Kind, LastReply().Received));
        Assert.Equal(sender != Sender(1), _effects.OfType<ReceiverEffect.Forget>().Any());
    }

    [Fact]
    public void Hello_OfAnotherHistory_HasItSeeded()
    {
        Receiver receiver = new(Fresh);
        receiver.Received(new ShipRequest.Hello(Shard, Sender(1), new("another", 0)), Clear());
        Assert.Equal(ShipReplyKind.NeedsSeed, LastReply().Kind);
        Assert.Single(_effects.OfType<ReceiverEffect.Reseed>());
        // While it is being seeded, that is under way.
        receiver = new(Fresh with { History = null });
        receiver.Received(new ShipRequest.Hello(Shard, Sender(1), new("another", 0)), Clear());
        Assert.Equal(ShipReplyKind.NeedsSeed, LastReply().Kind);
        Assert.Single(_effects);
    }

    // Only a shipper knows that its log does not reach back to where this one ends. Said late of a life that is over it would have the next
    // one seeded again, without end.
    [Theory]
    [InlineData(1, 1, true, "Reseed")]
    [InlineData(1, 2, true, "")]
    [InlineData(1, 1, false, "")]
    [InlineData(0, 1, true, "NotLeader 1:0@0")]
    public void ShipperCannotGoOn_ThatLifeIsOver(long epoch, long generation, bool isSeeded, string said)
    {
        Receiver receiver = new(Fresh with { History = isSeeded ? History : null, Newest = Sender(1) });
        receiver.Received(new ShipRequest.WantsSeed(Shard, Sender(epoch), generation), Clear());
        Assert.Equal(said, string.Join(", ", _effects.Select(Text)));
    }

    [Theory]
    [InlineData(1, false, false, "WriteCopy 0, NeedsSeed 0:0@0")]
    [InlineData(1, true, false, "")]
    [InlineData(0, false, false, "NotLeader 0:0@0")]
    [InlineData(1, false, true, "NotLeader 0:0@0")]
    public void Copied_IsTakenOnlyWhileItIsBeingSeededAndOfTheNewestSender(long epoch, bool isSeeded, bool isFrozen, string said)
    {
        Receiver receiver = new(Fresh with { History = isSeeded ? History : null, Log = default, Newest = Sender(1), IsFrozen = isFrozen });
        Seed seed = new("copy", 1, 100, History, Index("1:3@37"), Point("1:4"));
        receiver.Received(new ShipRequest.Copied(Shard, Sender(epoch), new(seed, 0, 20)), Clear());
        Assert.Equal(said, string.Join(", ", _effects.Select(Text)));
    }

    // Written is not durable: a crash would have the log begin with less than its source was told.
    [Fact]
    public void Copy_IsUsedOnlyWhenASyncHasCoveredAllOfIt()
    {
        Receiver receiver = new(Fresh with { History = null, Log = default, Newest = Sender(1), CopySyncBytes = 30 });
        Seed seed = new("copy", 1, 100, History, Index("1:3@37"), Point("1:4"));
        Assert.Equal("WriteCopy 0, NeedsSeed 20", Chunk(0, 20));
        Assert.Equal("WriteCopy 20, SyncCopy 40, NeedsSeed 40", Chunk(20, 20));
        Assert.Equal("WriteCopy 40, NeedsSeed 100", Chunk(40, 60));
        receiver.CopySynced(new("copy", 40), Clear());
        Assert.Equal("SyncCopy 100", Said());
        receiver.CopySynced(new("copy", 100), Clear());
        Assert.Equal("Copied", Said());

        string Chunk(long at, int bytes)
        {
            receiver.Received(new ShipRequest.Copied(Shard, Sender(1), new(seed, at, bytes)), Clear());
            return Said();
        }

        string Said() => string.Join(", ", _effects.Select(e => e switch
        {
            ReceiverEffect.SyncCopy s => $"SyncCopy {s.Ticket.Bytes}",
            ReceiverEffect.Reply r => $"{r.Message.Kind} {r.Message.Ask?.HasBytes}",
            _ => Text(e),
        }));
    }

    // What the disk refused is asked for again, from what is durable there.
    [Fact]
    public void Copy_TheDiskRefuses_IsAskedForFromWhatIsDurable()
    {
        Seed seed = new("copy", 1, 100, History, Index("1:3@37"), Point("1:4"));
        Receiver receiver = new(Fresh with { History = null, Log = default, Newest = Sender(1), Copy = new(seed, 50) });
        receiver.Received(new ShipRequest.Copied(Shard, Sender(1), new(seed, 50, 20)), Clear());
        Assert.Equal(70, LastReply().Ask!.Value.HasBytes);
        receiver.CopyRefused(new(seed, 50), Clear());
        receiver.Received(new ShipRequest.Copied(Shard, Sender(1), new(seed, 70, 20)), Clear());
        Assert.Equal(50, LastReply().Ask!.Value.HasBytes);
    }

    [Fact]
    public void Memory_Full_IsNacked()
    {
        Receiver receiver = Welcomed();
        Take(receiver, "1:0@0", "1:8@80");
        Assert.Equal("Nack 1:8@80", Take(receiver, "1:8@80", "1:11@110"));
        Assert.Equal("Append 1:0@0, Sync", Take(receiver, "1:8@80", "1:8@80", durable: "1:8@80"));
        Assert.Equal("Keep 1:8@80, Ack 1:11@110", Take(receiver, "1:8@80", "1:11@110"));
    }

    // A lease runs from what was sent before this: only what the log was touched for since grants one.
    [Fact]
    public void Echo_IsOfWhatCameBeforeASync()
    {
        Receiver receiver = Welcomed();
        Take(receiver, "1:0@0", "1:2@20", sentUs: 70);
        Assert.Equal(0, LastReply().EchoUs);
        Synced(receiver, LastSync());
        Assert.Equal(70, LastReply().EchoUs);
        receiver.Received(new ShipRequest.Hello(Shard, Sender(1), History), Clear());
        Assert.Equal(0, LastReply().EchoUs);
    }

    // "a copy belongs to no version": it counts, and is loaded, when a watermark has come to the first version that ends behind it.
    [Fact]
    public void Seeded_NoCutBeforeItsFloorCounts()
    {
        Receiver receiver = Welcomed(start: Fresh with { Log = Index("1:3@37"), Base = 37, Floor = Point("1:4") });
        Assert.DoesNotContain("Note", Take(receiver, "1:3@37", "1:3@40", "1:3@40", cut: "1:3"));
        Assert.Contains("Note 1:4", Take(receiver, "1:3@40", "1:4@44", "1:4@44", cut: "1:4"));
        Synced(receiver, LastSync());
        Synced(receiver, LastSync());
        Assert.Equal((Point("1:4"), Point("1:4")), (_effects.OfType<ReceiverEffect.Report>().Last().Message.Floor, receiver.Held));
        receiver.WatermarkTold(Point("1:3"), Clear());
        Assert.IsType<ReceiverEffect.Reply>(Assert.Single(_effects));
        receiver.WatermarkTold(Point("1:4"), Clear());
        Assert.Equal([new ReceiverEffect.Count(), new ReceiverEffect.Apply(Point("1:4"))],
            _effects.Where(e => e is not ReceiverEffect.Reply));
    }

    [Fact]
    public void Seeded_ThePrimaryGoesBackBehindTheSeed_ItNeedsAnother()
    {
        Receiver receiver = Welcomed(start: Fresh with { Log = Index("1:3@37"), Base = 37, Floor = Point("1:4") });
        Assert.Equal("NeedsSeed 1:3@37, Reseed", Take(receiver, "1:3@37", "2:3@30", "2:3@30", cut: "2:3"));
        receiver = Welcomed(start: Fresh with { Log = Index("1:3@37"), Base = 37, Floor = Point("1:4"), Counts = true });
        Assert.StartsWith("I4", Assert.Throws<BrokenInvariantException>(
            () => Take(receiver, "1:3@37", "2:3@30", "2:3@30", cut: "2:3")).Message, StringComparison.Ordinal);
    }

    // "If the replica is the leader of a shard, it computes its final lcommit-ts value, and sends it to the watermark service. The leader
    // also marks its message as the final message."
    [Fact]
    public void Freeze_AwaitsTheSyncAndAcceptsNothingMore()
    {
        Receiver receiver = Welcomed();
        Take(receiver, "1:0@0", "1:4@40", "1:4@40", cut: "1:3");
        SyncTicket ticket = LastSync();
        receiver.Freeze(new(1), Clear());
        Assert.DoesNotContain(_effects, e => e is ReceiverEffect.Final);
        Synced(receiver, ticket);
        Assert.Equal(new FinalReport(new(1), Shard, 1, 7, Point("1:3")), Assert.Single(_effects.OfType<ReceiverEffect.Final>()).Message);
        Assert.Equal("NotLeader 1:4@40", Take(receiver, "1:4@40", "1:5@50", "1:5@50"));
        receiver.Received(new ShipRequest.Hello(Shard, Sender(9), History), Clear());
        Assert.Equal((ShipReplyKind.NotLeader, new SiteEpoch(1)), (LastReply().Kind, LastReply().Newest.Site));
        receiver.WatermarkTold(Point("1:3"), Clear());
        Assert.Empty(_effects);
        // Asked again it says the same.
        receiver.Freeze(new(1), Clear());
        Assert.Equal(Point("1:3"), Assert.Single(_effects.OfType<ReceiverEffect.Final>()).Message.Held);
    }

    // "Then, the leader of each shard applies all log records based on the received watermark and sends a recovery completion message".
    [Fact]
    public void Decided_ExactlyTheFinalWatermarkIsAppliedAndTheRestIsVoid()
    {
        Receiver receiver = Holding("1:4");
        receiver.Freeze(new(1), Clear());
        receiver.Decided(new(1), Point("1:3"), Clear());
        Assert.Equal([new ReceiverEffect.Apply(Point("1:3"))], _effects);
        receiver.Decided(new(1), Point("1:3"), Clear());
        Assert.Empty(_effects);
        receiver.Applied(Point("1:3"), Clear());
        Assert.Equal([new ReceiverEffect.Void(new(new SiteEpoch(1).FirstWorldLine, Point("1:3")))], _effects);
        receiver.Voided(Clear());
        Assert.Equal([new ReceiverEffect.Open(new(1))], _effects);
    }

    [Theory]
    [InlineData("1:5")]     // more than it holds
    [InlineData("1:1")]     // less than it has applied
    public void Decided_WhatCannotBe_IsABrokenInvariant(string final)
    {
        Receiver receiver = Holding("1:4");
        receiver.WatermarkTold(Point("1:2"), Clear());
        receiver.Applied(Point("1:2"), Clear());
        receiver.Freeze(new(1), Clear());
        Assert.StartsWith("I4", Assert.Throws<BrokenInvariantException>(() => receiver.Decided(new(1), Point(final), _effects)).Message,
            StringComparison.Ordinal);
    }

    // A crash during the failover: who starts then is frozen by what SQL says, and goes on.
    [Fact]
    public void Start_DuringAFailover_IsFrozen()
    {
        Receiver receiver = new(Fresh with { Log = Index("1:6@60"), Held = Point("1:4"), Site = new(1), IsFrozen = true });
        receiver.Received(new ShipRequest.Hello(Shard, Sender(9), History), Clear());
        Assert.Equal(ShipReplyKind.NotLeader, LastReply().Kind);
        receiver.Tick(1000, Clear());
        Assert.Empty(_effects);
        receiver.Freeze(new(1), Clear());
        Assert.Equal(Point("1:4"), Assert.Single(_effects.OfType<ReceiverEffect.Final>()).Message.Held);
    }

    private Receiver Welcomed(Sender? sender = null, ReceiverStart? start = null)
    {
        Sender who = sender ?? Sender(1);
        Receiver receiver = new(start ?? Fresh);
        receiver.Received(new ShipRequest.Hello(Shard, who, History), Clear());
        receiver.SenderNoted(who, who, Clear());
        Assert.Equal(ShipReplyKind.Welcome, LastReply().Kind);
        return receiver;
    }

    private Receiver Holding(string cut)
    {
        Receiver receiver = Welcomed(start: Fresh with { Counts = true });
        Take(receiver, "1:0@0", "1:9@90", "1:9@90", cut: cut);
        Synced(receiver, LastSync());
        Assert.Equal(Point(cut), receiver.Held);
        return receiver;
    }

    private List<ReceiverEffect> Clear()
    {
        if (_effects.OfType<ReceiverEffect.Sync>().LastOrDefault() is { } sync) _ticket = sync.Ticket;
        _effects.Clear();
        return _effects;
    }

    private ShipReply LastReply() => _effects.OfType<ReceiverEffect.Reply>().Last().Message;

    private SyncTicket LastSync() => _effects.OfType<ReceiverEffect.Sync>().LastOrDefault()?.Ticket ?? _ticket;

    private void Synced(Receiver receiver, SyncTicket ticket) => receiver.Synced(ticket, _effects);

    private string Take(Receiver receiver, string from, string to, string durable = "1:0@0", string cut = "0:0", Sender? sender = null,
        long sentUs = 0)
    {
        receiver.Received(new ShipRequest.Piece(Shard, sender ?? Sender(1), Index(from), Index(to), Index(durable), Point(cut), sentUs),
            Clear());
        return string.Join(", ", _effects.Select(Text));
    }

    private static string Text(ReceiverEffect effect) => effect switch
    {
        ReceiverEffect.Keep k => $"Keep {k.Piece.From}",
        ReceiverEffect.Append a => $"Append {a.Piece.From}",
        ReceiverEffect.NoteCut n => $"Note {n.Cut}",
        ReceiverEffect.Sync => "Sync",
        ReceiverEffect.Reply r => $"{r.Message.Kind} {r.Message.Received}",
        ReceiverEffect.WriteCopy c => $"WriteCopy {c.Chunk.At}",
        _ => effect.GetType().Name,
    };
}
