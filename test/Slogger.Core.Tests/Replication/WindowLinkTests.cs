// Shipper and receiver, with a link between them that loses, doubles, and holds up what they say: what the receiver's log is made of is the
// log, or windows of it, each whole; and in the end all of it is there.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using static Slogger.Core.Tests.Replication.ShipKit;

namespace Slogger.Core.Tests.Replication;

public class WindowLinkTests
{
    private const int Seeds = 400;

    [Fact]
    public void AnyLink_TheLogArrives_AndWindowsOfItWhole()
    {
        long spared = 0;
        for (int seed = 1; seed <= Seeds; seed++)
        {
            (string? broken, Link link) = Ran(seed);
            Assert.True(broken is null, $"seed {seed}: {broken}");
            spared += link.Shipper.BytesSpared;
        }
        Assert.True(spared > 10_000, $"{spared} bytes were spared");
    }

    // Rules without which it does not.
    [Theory]
    [InlineData((int)ShipMutation.PlaceInLogIsInWindow)]
    [InlineData((int)ShipMutation.LogRunsIntoWindow)]
    [InlineData((int)ShipMutation.PartOfWindowStays)]
    [InlineData((int)ShipMutation.CutInsideWindow)]
    public void AnyLink_RuleIsOff_IsSeen(int mutation) =>
        Assert.Contains(Enumerable.Range(1, Seeds), seed => Ran(seed, (ShipMutation)mutation).Broken is not null);

    // What was sent before a window was made in its place arrives when the window is on its way. The receiver has that then, and says so.
    // That place in the log is one in the window, too: whoever went on there in the window would be refused for ever.
    [Fact]
    public void TheLogArrivesWhereAWindowIsOnItsWay_TheLogGoesOnBehindIt()
    {
        Link link = new(seed: 0, versions: 0, ShipMutation.None) { IsGood = true, WindowsAbove = 80 };
        for (int v = 1; v <= 4; v++) link.Grow(v * 15);
        link.Begin();
        link.Ship();
        ShipRequest[] late = link.Requests();
        Assert.Equal(["1:0@0 1:1@20", "1:1@20 1:2@40", "1:2@40 1:4@60"], Text(late));
        for (int v = 5; v <= 40; v++) link.Grow(v * 15);
        link.NowUs += 1000;
        link.Ship();
        ShipRequest[] window = link.Requests();
        Assert.NotEmpty(window);
        Assert.All(window.Cast<ShipRequest.Piece>(), p => Assert.NotNull(p.Window));
        link.Deliver([late[0]]);
        link.Deliver(window);
        Assert.Equal(Index("1:1@20"), link.Shipper.Received);
        link.Ship();
        ShipRequest.Piece next = Assert.IsType<ShipRequest.Piece>(link.Requests()[0]);
        Assert.Equal((Index("1:1@20"), null), (next.From, next.Window));
        link.Deliver([next]);
        for (int n = 0; n < 100 && !link.IsDone; n++) link.Step();
        Assert.True(link.IsDone && link.Broken is null, $"{link.Broken}; {link.Receiver.Durable} of {link.End}");
    }

    // It never catches up, and neither a connection nor a process of it lasts until all windows up to a cut have arrived: the next process
    // has to hear of the cuts that the one before knew.
    [Fact]
    public void LinkAndReceiverThatBeginAnewAgainAndAgain_CutsAreNotedAllTheSame()
    {
        Link link = new(seed: 1, versions: 200, ShipMutation.None) { IsGood = true };
        link.Begin();
        HashSet<WorldPoint> held = [];
        int behind = 0;
        for (int n = 0; n < 3000; n++)
        {
            if (n % 8 == 0) link.Connect();
            if (n % 40 == 0) link.Restart();
            for (int v = 0; v < 2; v++) link.Grow(link.End.Offset + 20);
            link.Step();
            held.Add(link.Receiver.Held);
            if (link.End.Offset - link.Receiver.Durable.Offset > link.WindowsAbove) behind++;
        }
        Assert.True(link.Broken is null && behind > 2900, $"{link.Broken}, {behind}");
        Assert.True(held.Count > 20, $"{held.Count} cuts were held, up to {held.Max()} of {link.End}");
    }

    private static string[] Text(ShipRequest[] pieces) => [.. pieces.Cast<ShipRequest.Piece>().Select(p => $"{p.From} {p.To}")];

    private static (string? Broken, Link Link) Ran(int seed, ShipMutation mutation = ShipMutation.None)
    {
        Link link = new(seed, versions: 60, mutation);
        link.Begin();
        for (int n = 0; n < 500 && link.Broken is null; n++) link.Step();
        link.IsGood = true;
        for (int n = 0; n < 1000 && link.Broken is null && !link.IsDone; n++) link.Step();
        return (link.Broken ?? (link.IsDone ? null : $"at {link.Receiver.Durable} of {link.End}, {link.Receiver.Held} is held"), link);
    }

    private sealed class Link : IShippedLog
    {
        private readonly Random _random;
        private readonly ShipMutation _mutation;
        private readonly List<long> _ends = [0];                 // of versions
        private readonly List<ShipRequest> _there = [];
        private readonly List<ShipReply> _back = [];
        private readonly List<ShipperEffect> _said = [];
        private readonly List<SyncTicket> _syncs = [];
        private (LogIndex At, ShipWindow? In) _log = (Index("1:0@0"), null);    // where the receiver's log ends
        private LogWindows _windows;
        private WorldPoint _held = Point("1:0"), _watermark = Point("1:0");

        public Link(int seed, int versions, ShipMutation mutation)
        {
            (_random, _mutation) = (new(seed), mutation);
            for (int v = 0; v < versions; v++) Grow(_ends[^1] + _random.Next(1, 40));
        }

        public Shipper Shipper { get; private set; } = null!;

        public Receiver Receiver { get; private set; } = null!;

        public bool IsGood { get; set; }

        public int WindowsAbove { get; init; } = 200;

        public long NowUs { get; set; }

        public string? Broken { get; private set; }

        public LogIndex End => new(WorldLine.First, _ends[^1], new(_ends.Count - 1));

        public bool IsDone => Receiver.Durable == End && Receiver.Held == End.Point;

        public void Begin()
        {
            ShipperOptions options = new()
            {
                PieceBytesMax = 20, PiecesMax = 6, WindowBytes = 1000, ResendUs = 100, HeartbeatUs = 50, BudgetBytes = 1 << 20,
                WindowsAboveBytes = WindowsAbove, FewBytes = 1,
            };
            Shipper = new(Shard, Sender(1), History, [], 0, End, End.Point, options, _mutation);
            Restart();
            Connect();
        }

        /// <summary>A version more.</summary>
        public void Grow(long end)
        {
            _ends.Add(end);
            Shipper?.Appended(End);
            Shipper?.Synced(End);
            Shipper?.CutRecorded(End.Point);
        }

        public void Step()
        {
            NowUs += 10;
            bool mayGrow = !IsGood && _ends.Count < 400;
            if (mayGrow && _random.Next(3) == 0) Grow(_ends[^1] + _random.Next(1, 40));
            // The link is away for a while.
            if (mayGrow && _random.Next(60) == 0) for (int n = 0; n < 30; n++) Grow(_ends[^1] + _random.Next(1, 40));
            if (!IsGood && _random.Next(50) == 0) Connect();
            if (!IsGood && _random.Next(80) == 0) Restart();
            Ship();
            for (int n = _random.Next(4); n > 0 && _there.Count > 0; n--)
                if (TakeAny(_there) is { } request) Hear(request);
            for (int n = _random.Next(4); n > 0 && _back.Count > 0; n--)
                if (TakeAny(_back) is { } reply) Shipper.Replied(reply, NowUs, _said);
            if (_syncs.Count > 0 && _random.Next(3) == 0) Sync();
        }

        /// <summary>The shipper sends what it can.</summary>
        public void Ship()
        {
            if (Shipper.WindowWanted is var (from, below) && _random.Next(2) == 0) Make(from, below);
            Shipper.Tick(NowUs, this, _said);
            if (Shipper.WindowWanted is var (next, last) && IsGood) Make(next, last);
            Shipper.Tick(NowUs, this, _said);
            _there.AddRange(_said.OfType<ShipperEffect.Send>().Select(s => s.Request));
            if (_said.Any(s => s is not ShipperEffect.Send)) Broken ??= $"the shipper says {_said[^1]}";
            _said.Clear();
        }

        /// <summary>What is on its way, but for signs of life, is held up.</summary>
        public ShipRequest[] Requests()
        {
            ShipRequest[] held = [.. _there.Where(r => r is ShipRequest.Piece { IsHeartbeat: false })];
            _there.Clear();
            return held;
        }

        /// <summary>It arrives, and so does what the receiver says.</summary>
        public void Deliver(ShipRequest[] requests)
        {
            foreach (ShipRequest request in requests) Hear(request);
            while (_syncs.Count > 0) Sync();
            foreach (ShipReply reply in _back) Shipper.Replied(reply, NowUs, _said);
            _back.Clear();
        }

        public LogIndex? EndOfPiece(LogIndex from, LogIndex limit, int bytesMax)
        {
            long offset = Math.Min(limit.Offset, from.Offset + bytesMax);
            int closed = _ends.FindLastIndex(e => e <= offset);
            return new(from.WorldLine, offset, VersionNumber.Min(limit.Closed, new(closed)));
        }

        private void Make(LogIndex from, VersionNumber below)
        {
            int first = (int)from.Closed.Number, last = (int)Math.Min(below.Number, first + _random.Next(1, 12));
            long bytes = _ends[last] - from.Offset;
            if (_ends[first] != from.Offset) Shipper.NotMade(from, _ends[first + 1]);
            else if (bytes < 30 || _random.Next(10) == 0) Shipper.NotMade(from, _ends[last]);
            else Shipper.Made(new(from, new(from.WorldLine, _ends[last], new(last)), _random.Next((int)bytes - 20)));
        }

        private T? TakeAny<T>(List<T> way)
            where T : class
        {
            int at = IsGood || _random.Next(3) > 0 ? 0 : _random.Next(way.Count);
            T one = way[at];
            bool isDoubled = !IsGood && _random.Next(10) == 0;
            if (!isDoubled) way.RemoveAt(at);
            return !IsGood && _random.Next(10) == 0 ? null : one;
        }

        /// <summary>The link breaks, and there is another one. What was sent before may arrive yet; nobody hears replies to it.</summary>
        public void Connect()
        {
            Shipper.Disconnected();
            _back.Clear();
            Shipper.Connected(NowUs, _said);
            if (!IsGood) return;
            Ship();
            Deliver([.. _there]);
            _there.Clear();
        }

        /// <summary>The receiver begins anew, with what it had appended.</summary>
        public void Restart()
        {
            while (_syncs.Count > 0) Sync();
            Receiver = new(new ReceiverStart
            {
                Stream = Shard, Generation = 1, Owner = 7, History = History, Log = _log.At, Held = _held, StagedBytesMax = 2000,
                ReportUs = 50, UnansweredPiecesMax = 1, Counts = true, TakesWindows = true, Windows = _windows, Applied = _watermark,
            }, _mutation);
            _back.Clear();
        }

        private void Hear(ShipRequest request)
        {
            if (request is ShipRequest.Piece { DataBytes: < 0 } piece) Broken ??= $"{piece} brings {piece.DataBytes} bytes";
            List<ReceiverEffect> effects = [];
            Receiver.Received(request, effects);
            Perform(effects);
        }

        private void Sync()
        {
            SyncTicket ticket = _syncs[0];
            _syncs.RemoveAt(0);
            List<ReceiverEffect> effects = [];
            Receiver.Synced(ticket, effects);
            Perform(effects);
        }

        private void Perform(List<ReceiverEffect> effects)
        {
            foreach (ReceiverEffect effect in effects)
            {
                List<ReceiverEffect> more = [];
                switch (effect)
                {
                    case ReceiverEffect.Reply reply: _back.Add(reply.Message); break;
                    case ReceiverEffect.NoteSender note: Receiver.SenderNoted(note.Sender, note.Sender, more); break;
                    case ReceiverEffect.Append append: Append(append.Piece); break;
                    case ReceiverEffect.NoteCut note:
                        if (note.Cut > _log.At.Point || note.Cut < _windows.End) Broken ??= $"{note.Cut} is noted at {_log}, {_windows}";
                        (_held, _windows) = (note.Cut, _windows.Noted(note.Cut));
                        break;
                    case ReceiverEffect.Sync sync: _syncs.Add(sync.Ticket); break;
                    case ReceiverEffect.Report report when report.Message.Held >= report.Message.Floor:
                        _watermark = report.Message.Held;
                        Receiver.WatermarkTold(_watermark, more);
                        break;
                }
                Perform(more);
            }
        }

        // What the log ends with now is what the piece goes on from: a place in the log, or in the window that it is a part of.
        private void Append(ShipRequest.Piece piece)
        {
            bool isRest = piece.Window is { } of && piece.From != of.From;
            if (_log != (piece.From, isRest ? piece.Window : null)) Broken ??= $"{piece.From} of {piece.Window} goes on from {_log}";
            bool isWhole = piece.Window is not { } window || piece.To == window.To;
            _log = (piece.To, isWhole ? null : piece.Window);
            if (piece.Window is not { } w) return;
            if (!isRest) _windows = _windows.Began(_held);
            if (isWhole) _windows = _windows.Ended(w.To.Point, w.To.Offset);
        }
    }
}
