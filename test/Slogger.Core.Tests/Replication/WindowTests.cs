// Windows in place of the log, for a backup that is far behind: what the shipper sends, what the receiver takes of it, what it says that it
// holds, and where a failover ends.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.Watermarks;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Replication;

public class WindowTests
{
    private static readonly ShipperOptions Options = new()
    {
        PieceBytesMax = 20, PiecesMax = 8, WindowBytes = 1000, ResendUs = 100, HeartbeatUs = 50, BudgetBytes = 10_000,
        WindowsAboveBytes = 80, FewBytes = 1,
    };

    private static readonly ReceiverStart Fresh = new()
    {
        Stream = Shard, Generation = 1, Owner = 7, History = History, Log = Index("1:1@10"), Held = Point("1:1"), StagedBytesMax = 2000,
        ReportUs = 50, UnansweredPiecesMax = 1, Counts = true, TakesWindows = true,
    };

    private static readonly ShipWindow Window = new(Index("1:1@10"), Index("1:9@90"), 35);

    private readonly Log _log = new();
    private readonly List<ShipperEffect> _sent = [];
    private readonly List<ReceiverEffect> _effects = [];

    // ---- The shipper ----

    [Theory]
    [InlineData("1:9@90", "1:9", true, false)]       // 80 bytes behind
    [InlineData("1:9@91", "1:9", true, true)]        // more
    [InlineData("1:9@91", "1:9", false, false)]      // the receiver does not know windows
    [InlineData("1:9@91", "1:1", true, false)]       // no recorded cut behind what it has
    public void Shipper_FarBehind_WantsWindowsUpToTheCut(string durable, string cut, bool takes, bool isWanted)
    {
        Shipper shipper = Greeted(durable, cut, takes);
        shipper.Tick(1, _log, _sent);
        Assert.Equal(isWanted ? (Index("1:1@10"), Point(cut).Version) : null, shipper.WindowWanted);
        Assert.Equal(!isWanted, Pieces().Length > 0);
    }

    [Fact]
    public void Shipper_SendsAWindowByItsOwnBytes_AndEndsWhereItDoes()
    {
        Shipper shipper = FarBehind();
        shipper.Made(Window);
        shipper.Tick(2, _log, _sent);
        Assert.Equal(["1:1@10 1:1@30: 20", "1:1@30 1:9@90: 15"], Pieces());
        // The next one is wanted, and nothing is sent before it is there.
        Assert.Equal(Index("1:9@90"), shipper.WindowWanted?.From);
        Assert.Equal(35, shipper.WindowUsed);
        // Where there is none the log goes on up to that offset, as it is.
        shipper.NotMade(Index("1:9@90"), 105);
        shipper.Tick(3, _log, _sent);
        Assert.Equal(["1:9@90 1:10@105: 15"], Pieces());
        Assert.Equal(Index("1:10@105"), shipper.WindowWanted?.From);
    }

    [Fact]
    public void Shipper_Nacked_GoesOnInTheWindow_OrWithAnother()
    {
        Shipper shipper = FarBehind();
        shipper.Made(Window);
        shipper.Tick(2, _log, _sent);
        Pieces();
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:1@30", of: Window), 3, _sent);
        shipper.Tick(3, _log, _sent);
        Assert.Equal(["1:1@30 1:9@90: 15"], Pieces());
        // Who has nothing of it may not take it any more.
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:1@10", takes: false), 200, _sent);
        shipper.Tick(200, _log, _sent);
        Assert.Empty(shipper.Windows);
        Assert.Equal("1:1@10 1:3@30: 20", Pieces()[0]);
    }

    // Behind that a place in the log would be taken for one in the window.
    [Fact]
    public void Shipper_GoesBackBelowAWindow_TheLogEndsWhereThatBegins()
    {
        Shipper shipper = BackBelowWindow();
        shipper.Tick(1000, _log, _sent);
        Assert.Equal(["1:1@18 1:3@30: 12", "1:3@30 1:9@90: 5", "1:9@90 1:11@110: 20"], Pieces());
    }

    // The log has other bytes there.
    [Fact]
    public void Shipper_HearsLateOfAPartOfAWindow_DoesNotGoOnThere()
    {
        Shipper shipper = FarBehind();
        shipper.Made(Window);
        shipper.Tick(2, _log, _sent);
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:1@10", takes: false), 200, _sent);
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:1@30", takes: false, of: Window), 201, _sent);
        Assert.Equal(Index("1:1@10"), shipper.Received);
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:1@30", takes: false, of: Window), 400, _sent);
        Pieces();
        shipper.Tick(400, _log, _sent);
        Assert.Equal("1:1@10 1:3@30: 20", Pieces()[0]);
    }

    // What was sent before the window was made arrives after all. The same place is one in the window, too, and means something else there.
    [Theory]
    [InlineData("1:1@30")]
    [InlineData("1:1@50")]      // what is left of the window has no such place
    public void Shipper_ReceiverHasTheLogBehindWhereAWindowBegins_TheLogGoesOn(string received)
    {
        Shipper shipper = FarBehind();
        shipper.Made(Window);
        shipper.Tick(2, _log, _sent);
        Pieces();
        shipper.Replied(Reply(ShipReplyKind.Nack, received), 3, _sent);
        Assert.Empty(shipper.Windows);
        Assert.Equal((Index(received), Index(received)), (shipper.Received, shipper.WindowWanted!.Value.From));
        shipper.NotMade(Index(received), 90);
        shipper.Tick(3, _log, _sent);
        Assert.StartsWith(received, Pieces()[0], StringComparison.Ordinal);
    }

    // It may not be in the log any more.
    [Fact]
    public void Shipper_HearsLateOfAPlaceInTheLog_BelowWhatIsBackedUp_GoesOn()
    {
        Shipper shipper = FarBehind();
        shipper.Made(Window);
        shipper.Tick(2, _log, _sent);
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:9@90") with { Durable = Index("1:9@90") }, 3, _sent);
        Pieces();
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:1@30"), 4, _sent);
        shipper.Tick(4, _log, _sent);
        Assert.Equal((Index("1:9@90"), Index("1:9@90")), (shipper.Received, shipper.WindowWanted!.Value.From));
        Assert.Empty(Pieces());
    }

    [Fact]
    public void Shipper_WindowHasArrived_IsForgotten()
    {
        Shipper shipper = FarBehind();
        shipper.Made(Window);
        shipper.Tick(2, _log, _sent);
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:1@30", of: Window), 3, _sent);
        Assert.Single(shipper.Windows);
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:9@90"), 3, _sent);
        Assert.Empty(shipper.Windows);
        Assert.Equal(0, shipper.WindowUsed);
    }

    // On a link that breaks again and again windows would go on to one cut after the other, and the receiver could note none.
    [Fact]
    public void Shipper_ConnectsAnewAmongWindows_GoesOnToTheSameCut_AndNamesItFirst()
    {
        Shipper shipper = FarBehind();
        shipper.Appended(Index("1:60@600"));
        shipper.Synced(Index("1:60@600"));
        foreach (string cut in (string[])["1:31", "1:60"]) shipper.CutRecorded(Point(cut));
        shipper.Made(Window);
        shipper.Tick(2, _log, _sent);
        shipper.Disconnected();
        // Who is away may be so for long: nothing is kept in memory for it.
        Assert.Equal((0, false), (shipper.Windows.Count, shipper.SendsWindows));
        shipper.Connected(3, _sent);
        _sent.Clear();
        shipper.Replied(Reply(ShipReplyKind.Welcome, "1:9@90"), 3, _sent);
        shipper.Tick(3, _log, _sent);
        Assert.Equal((Index("1:9@90"), Point("1:30").Version), shipper.WindowWanted);
        for (int us = 4; us < 20; us++) shipper.Tick(us, _log, _sent);
        Assert.Equal([Point("1:30"), Point("1:31"), Point("1:60")],
            _sent.Select(s => ((ShipRequest.Piece)((ShipperEffect.Send)s).Request).Cut));
        // Behind it the log goes as it is, until the backup as a whole has that cut.
        shipper.Made(new(Index("1:9@90"), Index("1:30@300"), 30));
        shipper.Tick(5, _log, _sent);
        Assert.Contains("1:30@300 1:32@320: 20", Pieces());
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:30@300"), 6, _sent);
        shipper.Tick(6, _log, _sent);
        Assert.Null(shipper.WindowWanted);
        shipper.Replied(Reply(ShipReplyKind.Ack, "1:32@320") with { Watermark = Point("1:30") }, 7, _sent);
        shipper.Tick(7, _log, _sent);
        Assert.Equal(Point("1:60").Version, shipper.WindowWanted?.Below);
    }

    [Fact]
    public void Shipper_NearTheEnd_SendsTheLogAsItIs()
    {
        Shipper shipper = FarBehind();
        shipper.Made(Window with { To = Index("1:29@290") });
        shipper.Tick(2, _log, _sent);
        // Of 80 bytes an eighth is left.
        shipper.Tick(3, _log, _sent);
        Assert.Equal((null, false), (shipper.WindowWanted, shipper.SendsWindows));
        Assert.Equal("1:29@290 1:30@300: 10", Pieces()[^1]);
    }

    private Shipper FarBehind(ShipMutation mutation = ShipMutation.None)
    {
        Shipper shipper = Greeted("1:30@300", "1:30", takes: true, mutation);
        shipper.Tick(1, _log, _sent);
        Pieces();
        return shipper;
    }

    // Between pieces of the log as it is.
    private Shipper BackBelowWindow(ShipMutation mutation = ShipMutation.None)
    {
        Shipper shipper = FarBehind(mutation);
        shipper.NotMade(Index("1:1@10"), 30);
        shipper.Tick(2, _log, _sent);
        shipper.Made(new(Index("1:3@30"), Index("1:9@90"), 5));
        shipper.Tick(3, _log, _sent);
        shipper.NotMade(Index("1:9@90"), 110);
        shipper.Tick(4, _log, _sent);
        Assert.Equal(["1:1@10 1:3@30: 20", "1:3@30 1:9@90: 5", "1:9@90 1:11@110: 20"], Pieces());
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:1@18"), 5, _sent);
        return shipper;
    }

    private Shipper Greeted(string end, string cut, bool takes, ShipMutation mutation = ShipMutation.None)
    {
        Shipper shipper = new(Shard, Sender(1), History, [], 0, Index(end), Point(cut), Options, mutation);
        shipper.Connected(0, _sent);
        shipper.Replied(Reply(ShipReplyKind.Welcome, "1:1@10", takes: takes), 0, _sent);
        _sent.Clear();
        return shipper;
    }

    private static ShipReply Reply(ShipReplyKind kind, string received, bool takes = true, ShipWindow? of = null) =>
        new(kind, Shard, 1, Index(received), Index("1:1@10"), default, default, 0, Sender(1)) { TakesWindows = takes, Window = of };

    // Without signs of life.
    private string[] Pieces()
    {
        string[] pieces = [.. _sent.OfType<ShipperEffect.Send>().Select(s => s.Request).OfType<ShipRequest.Piece>()
            .Where(p => !p.IsHeartbeat).Select(p => $"{p.From} {p.To}: {p.DataBytes}")];
        _sent.Clear();
        return pieces;
    }

    // ---- The receiver ----

    [Fact]
    public void Receiver_TakesAWindowWholeOrNotAtAll()
    {
        Receiver receiver = Welcomed();
        Assert.Equal("Keep 1:1@10, Ack 1:1@30", TakePart(receiver, "1:1@10", "1:1@30"));
        Assert.Equal(Window, LastReply().Window);
        Assert.Equal("Keep 1:1@30, Append 1:1@10, Append 1:1@30, Sync, Ack 1:9@90", TakePart(receiver, "1:1@30", "1:9@90"));
        Assert.Null(LastReply().Window);
    }

    // Its parts have offsets of their own, below what is durable there.
    [Fact]
    public void Receiver_TakesNoWindowBeforeItsEndIsDurableAtThePrimary()
    {
        Receiver receiver = Welcomed();
        ShipRequest.Piece whole = Piece(Window.From, Window.To, "1:1") with { Window = Window, Durable = Index("1:5@50") };
        receiver.Received(whole with { To = Index("1:1@30") }, Clear());
        receiver.Received(whole with { From = Index("1:1@30") }, Clear());
        Assert.Equal("Keep 1:1@30, Ack 1:9@90", Text());
        receiver.Received(whole with { From = Window.To, Window = null, Durable = Window.To }, Clear());
        Assert.StartsWith("Append 1:1@10, Append 1:1@30", Text(), StringComparison.Ordinal);
    }

    [Fact]
    public void Receiver_TheLogGoesOnInsideOfAWindow_WhatThereIsOfThatIsForgotten()
    {
        Receiver receiver = Welcomed();
        TakePart(receiver, "1:1@10", "1:1@30");
        Assert.Equal("Forget, Nack 1:1@10", Take(receiver, "1:1@30", "1:4@40"));
        // Neither does the rest of it follow what is the same place of the log.
        Assert.StartsWith("Keep 1:1@10, Append 1:1@10", Take(receiver, "1:1@10", "1:1@30"), StringComparison.Ordinal);
        Assert.Equal("Nack 1:1@30", TakePart(receiver, "1:1@30", "1:9@90"));
    }

    [Fact]
    public void Receiver_AnotherWindowComes_WhatThereIsOfTheOneBeforeIsForgotten()
    {
        Receiver receiver = Welcomed();
        TakePart(receiver, "1:1@10", "1:1@30");
        ShipWindow other = Window with { To = Index("1:8@80") };
        Assert.Equal("Forget, Nack 1:1@10", TakePart(receiver, "1:1@30", "1:8@80", other));
        Assert.Equal("Keep 1:1@10, Ack 1:1@30", TakePart(receiver, "1:1@10", "1:1@30", other));
    }

    [Fact]
    public void Receiver_SenderConnectsAnew_HasNoPartOfAWindow()
    {
        Receiver receiver = Welcomed();
        TakePart(receiver, "1:1@10", "1:1@30");
        receiver.Received(new ShipRequest.Hello(Shard, Sender(1), History), Clear());
        Assert.Equal("Forget, Welcome 1:1@10", Text());
    }

    // With it the stretch would be over, and the rest of the window would begin the next one.
    [Fact]
    public void Receiver_HasAPartOfAWindow_NotesNoCut()
    {
        Receiver receiver = Welcomed();
        TakeWhole(receiver, Window, cut: "1:1");
        ShipWindow next = new(Index("1:9@90"), Index("1:20@200"), 35);
        receiver.Received(Piece(next.From, Index("1:9@110"), "1:9") with { Window = next }, Clear());
        Assert.Equal("Keep 1:9@90, Ack 1:9@110", Text());
        receiver.Received(Piece(Index("1:9@110"), next.To, "1:9") with { Window = next }, Clear());
        Assert.DoesNotContain("Note", Text());
        Assert.Contains("Note 1:21", Take(receiver, "1:20@200", "1:21@210", cut: "1:21"));
    }

    [Fact]
    public void Receiver_NoCutInsideOfWindows_IsNoted()
    {
        Receiver receiver = Welcomed();
        Assert.DoesNotContain("Note", TakeWhole(receiver, Window, cut: "1:8"));
        Assert.Contains("Append 1:9@90, Note 1:10", Take(receiver, "1:9@90", "1:10@100", cut: "1:10"));
        // The end of one is a version.
        receiver = Welcomed();
        Assert.Contains("Note 1:9", TakeWhole(receiver, Window, cut: "1:9"));
    }

    [Fact]
    public void Receiver_HoldsBehindWindows_SaysFromWhereOn()
    {
        Receiver receiver = Welcomed();
        TakeWhole(receiver, Window, cut: "1:1");
        receiver.Synced(LastSync(), Clear());
        receiver.Tick(1000, _effects);
        Assert.Equal((default, Point("1:1")), LastReport());
        Take(receiver, "1:9@90", "1:12@120", cut: "1:11");
        receiver.Synced(LastSync(), Clear());
        Assert.Equal((Point("1:11"), Point("1:11")), LastReport());
        Take(receiver, "1:12@120", "1:15@150", cut: "1:14");
        receiver.Synced(LastSync(), Clear());
        Assert.Equal((Point("1:11"), Point("1:14")), LastReport());
        // Of a watermark in between nothing is applied.
        receiver.WatermarkTold(Point("1:5"), Clear());
        Assert.DoesNotContain(_effects, e => e is ReceiverEffect.Apply);
        receiver.WatermarkTold(Point("1:12"), Clear());
        Assert.Contains(new ReceiverEffect.Apply(Point("1:12")), _effects);
    }

    [Fact]
    public void Receiver_TakesNextWindows_WhenAWatermarkHasPassedThoseBefore()
    {
        Receiver receiver = Welcomed();
        TakeWhole(receiver, Window, cut: "1:1");
        Assert.True(LastReply().TakesWindows);
        Take(receiver, "1:9@90", "1:11@110", cut: "1:11");
        receiver.Synced(LastSync(), Clear());
        Assert.False(LastReply().TakesWindows);
        ShipWindow next = new(Index("1:11@110"), Index("1:20@200"), 30);
        Assert.Equal("Nack 1:11@110", TakePart(receiver, "1:11@110", "1:20@200", next));
        receiver.WatermarkTold(Point("1:11"), Clear());
        Assert.True(LastReply().TakesWindows);
        Assert.StartsWith("Keep 1:11@110, Append 1:11@110", TakePart(receiver, "1:11@110", "1:20@200", next), StringComparison.Ordinal);
    }

    // With the rule off: what the tests above and below look at is otherwise then.
    [Fact]
    public void RulesOff_AreSeen()
    {
        Receiver receiver = Welcomed(mutation: ShipMutation.WindowsFollowWindows);
        TakeWhole(receiver, Window, cut: "1:1");
        Take(receiver, "1:9@90", "1:11@110", cut: "1:11");
        receiver.Synced(LastSync(), Clear());
        Assert.True(LastReply().TakesWindows);
        Assert.Equal(new FailoverStep.Decide(new(1), Point("1:9")), Decided("1:9", ShipMutation.FinalInsideWindow));
        receiver = Welcomed(mutation: ShipMutation.PartOfWindowStays);
        TakePart(receiver, "1:1@10", "1:1@30");
        Assert.StartsWith("Keep 1:1@30", Take(receiver, "1:1@30", "1:4@40"), StringComparison.Ordinal);
        Shipper shipper = BackBelowWindow(ShipMutation.LogRunsIntoWindow);
        shipper.Tick(1000, _log, _sent);
        Assert.Equal("1:3@38 1:9@90: -3", Pieces()[1]);
        shipper = FarBehind(ShipMutation.PlaceInLogIsInWindow);
        shipper.Made(Window);
        shipper.Tick(2, _log, _sent);
        shipper.Replied(Reply(ShipReplyKind.Nack, "1:1@50"), 3, _sent);
        Assert.Single(shipper.Windows);
    }

    [Theory]
    [InlineData(false, true)]
    [InlineData(true, false)]
    public void Receiver_ThatTakesNoWindows_SaysSoAndTakesNone(bool takes, bool counts)
    {
        Receiver receiver = Welcomed(Fresh with { TakesWindows = takes, Counts = counts });
        Assert.False(LastReply().TakesWindows);
        Assert.Equal("Nack 1:1@10", TakePart(receiver, "1:1@10", "1:1@30"));
    }

    // Who sees no window sees each command; a log whose windows hide what is seen next, those before them.
    [Fact]
    public void LastIn_IsTheLastThatIsSeen()
    {
        LogWindows windows = default(LogWindows).Began(Point("1:1")).Ended(Point("1:9"), 90);
        Assert.Equal((default, 0), windows.LastIn(new(1)));
        windows = windows.Noted(Point("1:11"));
        Assert.Equal((Point("1:9"), 90), windows.LastIn(new(11)));
        windows = windows.Began(Point("1:20")).Ended(Point("1:30"), 300);
        Assert.Equal((Point("1:9"), 90), windows.LastIn(new(20)));
        Assert.Equal((Point("1:30"), 300), windows.Noted(Point("1:31")).LastIn(new(31)));
    }

    [Fact]
    public void Receiver_BeginsAnew_KnowsTheSame()
    {
        LogWindows windows = default(LogWindows).Began(Point("1:1")).Ended(Point("1:9"), 90);
        Receiver receiver = Welcomed(Fresh with { Log = Index("1:9@90"), Windows = windows });
        Assert.DoesNotContain("Note", Take(receiver, "1:9@90", "1:10@100", cut: "1:8"));
        windows = windows.Noted(Point("1:11"));
        receiver = Welcomed(Fresh with { Log = Index("1:12@120"), Windows = windows, Held = Point("1:12") });
        receiver.Tick(1000, Clear());
        Assert.Equal((Point("1:11"), Point("1:12")), LastReport());
        Assert.Equal("Nack 1:12@120", TakePart(receiver, "1:12@120", "1:20@200", new(Index("1:12@120"), Index("1:20@200"), 5)));
    }

    // ---- What the log knows ----

    [Fact]
    public void Known_TheLogGoesBackBelowAStretch_WhatTheOnesBeforeLackIsKnown()
    {
        LogWindows first = default(LogWindows).Began(Point("1:1")).Ended(Point("1:9"), 90).Noted(Point("1:11"));
        LogWindows second = first.Began(Point("1:20")).Ended(Point("1:30"), 300).Began(Point("1:20")).Ended(Point("1:40"), 400);
        Assert.Equal((Point("1:20"), Point("1:40"), 400), (second.Base, second.End, second.EndOffset));
        // A failover ends at the cut before the stretch, or between the two.
        foreach (string back in (string[])["2:20@200", "2:12@120", "2:9@90"])
        {
            LogWindows left = second.BackTo(Index(back).Point, Index(back).Offset);
            Assert.Equal((false, false, Point("1:9"), 90L), (left.HasStretch, left.Hides(Point("1:5")), left.End, left.EndOffset));
        }
        // Among windows of which nothing more is known all below counts as lacking something.
        foreach (string back in (string[])["2:30@300", "2:5@50"])
        {
            LogWindows left = second.BackTo(Index(back).Point, Index(back).Offset);
            Assert.Equal((false, Index(back).Point, Index(back).Offset), (left.HasStretch, left.End, left.EndOffset));
        }
        // So it does where windows came on in a log.
        LogWindows came = default(LogWindows).Ended(Point("1:9"), 90).Ended(Point("1:40"), 400);
        Assert.Equal(200, came.BackTo(Point("2:20"), 200).EndOffset);
        Assert.Equal(came, came.BackTo(Point("2:41"), 410));
        // Above its windows a stretch stays, and one that has none yet goes.
        Assert.Equal(first, first.BackTo(Point("2:11"), 110));
        LogWindows open = first.Began(Point("1:20"));
        LogWindows gone = open.BackTo(Point("1:20"), 200);
        Assert.Equal((false, false, 90L), (gone.HasStretch, gone.IsOpen, gone.EndOffset));
    }

    // ---- Watermark and failover ----

    [Fact]
    public void Watermark_IsNotInsideOfWindows()
    {
        WatermarkService service = new([1, 1]);
        service.Report(new(new(0), 1, default, Point("1:4")));
        service.Report(new(new(1), 1, default, Point("1:5")));
        Assert.Equal(Point("1:4"), service.Current);
        service.Report(new(new(1), 1, Point("1:11"), Point("1:12")));
        service.Report(new(new(0), 1, default, Point("1:9")));
        Assert.Equal(Point("1:4"), service.Current);
        service.Report(new(new(0), 1, default, Point("1:11")));
        Assert.Equal(Point("1:11"), service.Current);
    }

    [Fact]
    public void Final_OfAStreamWithWindows_NamesBothSides()
    {
        Receiver receiver = Holding();
        receiver.Freeze(new(1), Clear());
        FinalReport final = Assert.Single(_effects.OfType<ReceiverEffect.Final>()).Message;
        Assert.Equal((Point("1:1"), (Point("1:11"), Point("1:14"))), (final.Held, final.Behind!.Value));
        Assert.StartsWith("I4", Assert.Throws<BrokenInvariantException>(
            () => receiver.Decided(new(1), Point("1:9"), Clear())).Message, StringComparison.Ordinal);
        // A word alone does nothing.
        receiver.Decided(new(1), Point("1:9"), Clear(), isWord: true);
        Assert.Empty(_effects);
        receiver.Decided(new(1), Point("1:1"), Clear());
        Assert.Contains(_effects, e => e is ReceiverEffect.Apply or ReceiverEffect.Void);
    }

    [Fact]
    public void Final_WhenAWatermarkHasPassedTheWindows_IsAsWithoutThem()
    {
        Receiver receiver = Holding();
        receiver.WatermarkTold(Point("1:12"), Clear());
        receiver.Freeze(new(1), Clear());
        FinalReport final = Assert.Single(_effects.OfType<ReceiverEffect.Final>()).Message;
        Assert.Equal((Point("1:14"), null), (final.Held, final.Behind));
    }

    [Theory]
    [InlineData("1:20", "1:20")]            // behind the windows of both
    [InlineData("1:14", "1:14")]
    [InlineData("1:9", "1:3")]              // inside of those of the first: what it held before, inside of those of the second
    [InlineData("1:5", "1:3")]
    [InlineData("1:2", "1:2")]
    public void Failover_EndsAtTheNewestCutThatAllHold(string third, string final) =>
        Assert.Equal(new FailoverStep.Decide(new(1), Point(final)), Decided(third));

    private static FailoverStep Decided(string third, ShipMutation mutation = ShipMutation.None)
    {
        SiteState taken = (SiteState.BackupOf(3, SiteEpoch.First) with
        {
            Streams = [.. Enumerable.Range(0, 3).Select(s => new StreamState(1, StreamPhase.Counts, Sender(3), Owner: 5))],
        }).Take([]).After!;
        Failover failover = new(taken, 0, mutation);
        failover.Next(0);
        failover.Reported(new FinalReport(new(1), new(0), 1, 5, Point("1:5")) { Behind = (Point("1:12"), Point("1:21")) }, 1);
        failover.Reported(new FinalReport(new(1), new(1), 1, 5, Point("1:3")) { Behind = (Point("1:6"), Point("1:30")) }, 1);
        failover.Reported(new FinalReport(new(1), new(2), 1, 5, Point(third)), 1);
        return failover.Next(2);
    }

    private Receiver Holding()
    {
        Receiver receiver = Welcomed();
        TakeWhole(receiver, Window, cut: "1:1");
        Take(receiver, "1:9@90", "1:11@110", cut: "1:11");
        Take(receiver, "1:11@110", "1:15@150", cut: "1:14");
        // One that was asked for before may be under way.
        for (int n = 0; n < 3; n++) { receiver.Synced(LastSync(), Clear()); }
        Assert.Equal(Point("1:14"), receiver.Held);
        return receiver;
    }

    private SyncTicket _ticket;

    private Receiver Welcomed(ReceiverStart? start = null, ShipMutation mutation = ShipMutation.None)
    {
        Receiver receiver = new(start ?? Fresh, mutation);
        receiver.Received(new ShipRequest.Hello(Shard, Sender(1), History), Clear());
        receiver.SenderNoted(Sender(1), Sender(1), Clear());
        Assert.Equal(ShipReplyKind.Welcome, LastReply().Kind);
        return receiver;
    }

    private string TakeWhole(Receiver receiver, ShipWindow window, string cut)
    {
        receiver.Received(Piece(window.From, window.To, cut) with { Window = window }, Clear());
        return Text();
    }

    private string TakePart(Receiver receiver, string from, string to, ShipWindow? window = null)
    {
        receiver.Received(Piece(Index(from), Index(to), "1:1") with { Window = window ?? Window }, Clear());
        return Text();
    }

    private string Take(Receiver receiver, string from, string to, string cut = "1:1")
    {
        receiver.Received(Piece(Index(from), Index(to), cut), Clear());
        return Text();
    }

    private static ShipRequest.Piece Piece(LogIndex from, LogIndex to, string cut) =>
        new(Shard, Sender(1), from, to, Index("1:99@990"), Point(cut), 0);

    private List<ReceiverEffect> Clear()
    {
        if (_effects.OfType<ReceiverEffect.Sync>().LastOrDefault() is { } sync) _ticket = sync.Ticket;
        _effects.Clear();
        return _effects;
    }

    private SyncTicket LastSync() => _effects.OfType<ReceiverEffect.Sync>().LastOrDefault()?.Ticket ?? _ticket;

    private ShipReply LastReply() => _effects.OfType<ReceiverEffect.Reply>().Last().Message;

    private (Core.WorldLines.WorldPoint Floor, Core.WorldLines.WorldPoint Held) LastReport() =>
        _effects.OfType<ReceiverEffect.Report>().Last().Message is var report ? (report.Floor, report.Held) : default;

    private string Text() => string.Join(", ", _effects.Select(e => e switch
    {
        ReceiverEffect.Keep k => $"Keep {k.Piece.From}",
        ReceiverEffect.Append a => $"Append {a.Piece.From}",
        ReceiverEffect.NoteCut n => $"Note {n.Cut}",
        ReceiverEffect.Reply r => $"{r.Message.Kind} {r.Message.Received}",
        _ => e.GetType().Name,
    }));
}
