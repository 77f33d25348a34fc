// Windows in place of the log, over real logs and bad links: what the backup's log can be brought to is as it was at the primary, whatever
// dies when.
using System.Buffers;
using System.Globalization;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Replication.Links;
using Slogger.Replication.Sending;
using Slogger.Sites.Shipping;

namespace Slogger.Sites.Tests.Shipping;

public sealed class WindowShippingTests : ShippingHarness
{
    private const int Above = 200_000;
    private readonly ITestOutputHelper _output;
    private readonly SortedDictionary<long, string> _states = [];      // by version, of the line that the log is in
    private readonly SortedDictionary<string, string> _keys = new(StringComparer.Ordinal);
    private long _time, _written;

    public WindowShippingTests(ITestOutputHelper output)
    {
        _output = output;
        // Windows of 200 KB at most.
        Options = Options with { WindowsAboveBytes = Above, WindowBytes = 100_000 };
    }

    [Fact]
    public async Task FarBehind_FewerBytesAreSent_AndTheEndsOfWindowsAreVersionsThere()
    {
        Random random = new(1);
        for (int v = 0; v < 400; v++) { WriteVersion(random); }
        PrimaryLog.Sync();
        Shard.RecordedCut = PrimaryLog.DurableBoundary!.Value.Point;
        await StartReceiverAsync();
        await using ShardShipper shipper = NewShipper(new BadWay(1, () => Receiver, isGood: true));
        // Before the stream counts it gets the log as it is.
        await UntilAsync(() => BackupLog.HeldCut == Shard.RecordedCut && shipper.Status.BackedUp == PrimaryLog.End);
        Assert.Equal(0, shipper.Status.BytesSpared);
        Assert.Equal(PrimaryLog.End, BackupLog.End);
        AssertStates();

        await UntilAsync(() => Backup.AppliedTo == Shard.RecordedCut);
        long before = shipper.Status.BytesSent;
        long end = PrimaryLog.EndOffset;
        await Receiver!.DisposeAsync();
        Receiver = null;
        for (int v = 0; v < 800; v++) { WriteVersion(random); }
        PrimaryLog.Sync();
        Shard.RecordedCut = PrimaryLog.DurableBoundary!.Value.Point;
        await StartReceiverAsync();
        await UntilAsync(() => BackupLog.HeldCut == Shard.RecordedCut && shipper.Status.BackedUp == PrimaryLog.End);
        ShipperStatus status = shipper.Status;
        long log = PrimaryLog.EndOffset - end;
        _output.WriteLine($"{log} bytes of log, {status.BytesSent - before} sent, {status.BytesSpared} spared");
        Assert.True(status.BytesSent - before < log / 2, $"{status.BytesSent - before} of {log} bytes were sent");
        Assert.True(status.BytesSpared > log / 2);
        await UntilAsync(() => !shipper.Status.SendsWindows);
        LogWindows windows = BackupLog.Windows;
        Assert.True(windows.HasStretch && windows.From <= Shard.RecordedCut && windows.EndOffset > end);
        // Inside there is nothing, at the ends there is all, and behind there is each version.
        HashSet<long> ends = [.. BackupLog.BoundariesFrom(new(401)).Select(b => b.Version.Number)];
        Assert.InRange(ends.Count(v => v <= windows.End.Version.Number), 5, 100);
        for (long v = 401; v <= windows.End.Version.Number; v++) { Assert.True(ends.Contains(v) || BackupLog.IsInWindow(new(v))); }
        for (long v = windows.End.Version.Number + 1; v <= 1200; v++) { Assert.True(ends.Contains(v) && !BackupLog.IsInWindow(new(v))); }
        AssertStates();

        // One that follows gets the log as it is, and each version.
        for (int v = 0; v < 20; v++) { WriteVersion(random); }
        PrimaryLog.Sync();
        Shard.RecordedCut = PrimaryLog.DurableBoundary!.Value.Point;
        shipper.Wake();
        await UntilAsync(() => BackupLog.HeldCut == Shard.RecordedCut && BackupLog.DurableEnd == PrimaryLog.End);
        Assert.Equal(status.BytesSpared, shipper.Status.BytesSpared);
        Assert.Equal(PrimaryLog.BoundariesFrom(new(1202)).Select(b => b.Point), BackupLog.BoundariesFrom(new(1202)).Select(b => b.Point));
        AssertStates();
    }

    // Nothing that is not in the recorded cut is sent as a window.
    [Fact]
    public async Task FarBehind_BeyondTheCut_TheLogIsSentAsItIs()
    {
        Random random = new(2);
        await StartReceiverAsync();
        await using ShardShipper shipper = NewShipper(new BadWay(1, () => Receiver, isGood: true));
        await CountAsync(random, shipper);
        await Receiver!.DisposeAsync();
        Receiver = null;
        for (int v = 0; v < 100; v++) { WriteVersion(random); }
        VersionNumber cut = PrimaryLog.End.Closed;
        for (int v = 0; v < 300; v++) { WriteVersion(random); }
        PrimaryLog.Sync();
        Shard.RecordedCut = new(WorldLine.First, cut);
        await StartReceiverAsync();
        await UntilAsync(() => shipper.Status.BackedUp == PrimaryLog.End && BackupLog.HeldCut == Shard.RecordedCut);
        Assert.True(shipper.Status.BytesSpared > 0);
        Assert.True(BackupLog.Windows.End <= Shard.RecordedCut, $"{BackupLog.Windows} goes beyond {Shard.RecordedCut}");
        Assert.Equal(PrimaryLog.BoundariesFrom(cut.Next).Select(b => b.Point), BackupLog.BoundariesFrom(cut.Next).Select(b => b.Point));
        AssertStates();
    }

    [Fact]
    public async Task Crashes_OfAnyProcessWhileWindowsAreSent_WhatIsHeldIsAsItWasAtThePrimary()
    {
        Random random = new(NewSeed());
        BadWay? way = null;
        IShipConnector Way() => way = new BadWay(random.Next(), () => Receiver);
        await StartReceiverAsync();
        ShardShipper shipper = NewShipper(Way());
        await CountAsync(random, shipper);
        long spared = 0;
        int parts = 0;
        for (int round = 0; round < 25; round++)
        {
            await Receiver!.DisposeAsync();
            Receiver = null;
            for (int v = 0; v < random.Next(80, 250); v++) { WriteVersion(random); }
            PrimaryLog.Sync();
            Record(random);
            if (random.Next(4) == 0) { GoBack(random); }
            await StartReceiverAsync();
            shipper.Wake();
            for (int n = random.Next(4); n > 0; n--)
            {
                await Task.Delay(random.Next(25));
                if (random.Next(3) == 0)
                {
                    spared += shipper.Status.BytesSpared;
                    await shipper.DisposeAsync();
                    PrimaryLog.Dispose();
                    OpenPrimary();
                    shipper = NewShipper(Way());
                }
                else
                {
                    await Receiver!.DisposeAsync();
                    Receiver = null;
                    BackupLog.Dispose();
                    OpenBackup();
                    parts += BackupLog.Windows.IsOpen ? 1 : 0;
                    AssertStates();
                    await StartReceiverAsync();
                }
                if (random.Next(3) == 0) { Record(random); }
            }
            if (random.Next(2) == 0) { await CatchUpAsync(shipper, way!); }
        }
        await CatchUpAsync(shipper, way!);
        spared += shipper.Status.BytesSpared;
        await shipper.DisposeAsync();
        Assert.Null(Backup.Failure);
        AssertStates();
        await UntilAsync(() => Backup.AppliedTo == Shard.RecordedCut);
        _output.WriteLine($"{_written} bytes of log, {spared} spared, {parts} logs had a part of a window");
        Assert.True(spared > _written / 10, $"{spared} of {_written} bytes were spared");
    }

    // The backup is frozen with a part of the windows: its failover ends at a cut that it has all of.
    [Fact]
    public async Task Failover_AmongWindows_EndsAtTheCutBefore()
    {
        Random random = new(3);
        await StartReceiverAsync();
        ShardShipper shipper = NewShipper(new BadWay(1, () => Receiver, isGood: true));
        await CountAsync(random, shipper);
        WorldPoint held = BackupLog.HeldCut;
        // A link that ends when the first windows are there: the cut that is recorded lies behind them.
        await shipper.DisposeAsync();
        for (int v = 0; v < 400; v++) { WriteVersion(random); }
        PrimaryLog.Sync();
        Shard.RecordedCut = PrimaryLog.DurableBoundary!.Value.Point;
        shipper = NewShipper(new BadWay(1, () => Receiver, isGood: true) { PiecesMax = 3 });
        await UntilAsync(() => BackupLog.Windows is { HasStretch: true, EndOffset: > 0 });
        await shipper.DisposeAsync();
        SiteEpoch number = (await Metadata.ChangeSiteAsync("c", s => s.Take([]))).Site.Epoch;
        await Receiver!.FreezeAsync(number);
        await UntilAsync(() => Backup.FinalOf is not null);
        FinalReport final = Backup.FinalOf!.Value;
        Assert.Equal((held, null), (final.Held, final.Behind));
        await Metadata.DecideFailoverAsync("c", number, held, []);
        await Receiver.DecidedAsync(number, held);
        await UntilAsync(() => Backup.Opened == number);
        Assert.Equal((number.FirstWorldLine, held.Version), (BackupLog.WorldLine, BackupLog.DurableBoundary!.Value.Version));
        Assert.False(BackupLog.Windows.HasStretch);
        Assert.Equal(_states[held.Version.Number], StatesOf(BackupLog)[^1].State);
    }

    // Shards have logs of different lengths. So do these.
    [Fact]
    public void Makers_OfSeveralLogs_EndWithVersionsThatAllHave()
    {
        Random random = new(5);
        for (int v = 0; v < 600; v++) { WriteVersion(random); }
        PrimaryLog.Sync();
        List<HashSet<long>> ends = [];
        foreach (long leftBytesMax in (long[])[100_000, 120_000, 150_000])
        {
            var maker = new WindowMaker(PrimaryLog, leftBytesMax, e => throw e);
            ends.Add([]);
            for (LogIndex at = new(WorldLine.First, PrimaryLog.BoundaryAtOrBelow(new(1))!.Value.Offset, new(1));
                maker.Make(at, new(600), default).Made is { } made; at = made.Window.To)
            {
                ends[^1].Add(made.Window.To.Closed.Number);
            }
        }
        _output.WriteLine(string.Join('\n', ends.Select(e => string.Join(' ', e))));
        Assert.True(ends.All(e => e.Count >= 4));
        Assert.True(ends.Aggregate((a, b) => [.. a.Intersect(b)]).Count >= 2);
    }

    // Each key is written once: nothing is to be spared, and it is tried seldom. Then each is written often.
    [Fact]
    public void Maker_OfWhatDoesNotReduce_TriesLessAndLessOften_AndAgainAsBeforeWhereItDoes()
    {
        Random random = new(7);
        for (int v = 0; v < 1200; v++)
        {
            for (int n = 0; n < 60; n++) { Append("SET", $"once:{v}:{n}", new string('v', 40)); }
            CloseVersion();
        }
        long single = PrimaryLog.EndOffset;
        for (int v = 0; v < 2000; v++) { WriteVersion(random); }
        PrimaryLog.Sync();
        var maker = new WindowMaker(PrimaryLog, 100_000, e => throw e);
        List<long> passed = [];
        List<ShipWindow> made = [];
        LogIndex at = new(WorldLine.First, PrimaryLog.BoundaryAtOrBelow(new(1))!.Value.Offset, new(1));
        while (at.Offset < PrimaryLog.EndOffset - 400_000)
        {
            (MadeWindow? window, long until) = maker.Make(at, PrimaryLog.End.Closed, default);
            if (window is not null)
            {
                made.Add(window.Window);
                at = window.Window.To;
                continue;
            }
            passed.Add(until - at.Offset);
            Boundary next = PrimaryLog.BoundariesFrom(at.Closed.Next).First(b => b.Offset >= until);
            at = at with { Offset = next.Offset, Closed = next.Version };
        }
        _output.WriteLine($"passed {string.Join(' ', passed)}; then {made.Count} windows");
        Assert.InRange(passed.Count, 3, 6);
        Assert.Equal(passed.Order(), passed);
        Assert.True(passed[^1] > 2 * passed[0]);
        Assert.All(made, w => Assert.True(w.From.Offset >= single));
        Assert.True(made.Count >= 4);
    }

    // Whoever sends the log as it is finds out by itself whether it can be read.
    [Fact]
    public void Maker_CannotReadTheLog_SaysSoOnce_AndThatItIsToBeSentAsItIs()
    {
        Random random = new(4);
        for (int v = 0; v < 100; v++) { WriteVersion(random); }
        PrimaryLog.Sync();
        LogIndex start = new(WorldLine.First, PrimaryLog.BoundaryAtOrBelow(new(1))!.Value.Offset, new(1));
        List<Exception> failed = [];
        var maker = new WindowMaker(PrimaryLog, 100_000, failed.Add);
        Assert.NotNull(maker.Make(start, new(100), default).Made);
        Damage();
        for (int n = 0; n < 2; n++)
        {
            (MadeWindow? made, long until) = maker.Make(start, new(100), default);
            Assert.Equal((null, start.Offset + 200_000), (made, until));
        }
        Assert.IsType<LogCorruptException>(Assert.Single(failed));
    }

    [Fact]
    public void Message_ThatIsNoPartOfItsWindow_IsFlawed()
    {
        LogIndex start = new(WorldLine.First, 1000, new(5)), to = new(WorldLine.First, 1500, new(9));
        var window = new ShipWindow(start, to, 30);
        ShipRequest.Piece last = new(new(0), default, start, to, to, default, 1) { Window = window };
        ShipRequest.Piece first = last with { To = start with { Offset = 1020 } };
        VersionEnd end = new(new(WorldLine.First, new(9), 1500, 0, default), IsEmptyRun: false, EndsWindow: true);
        Assert.Null(new ShipMessage(last, Bytes(30), [end]).Flaw);
        Assert.Null(new ShipMessage(first, Bytes(20), []).Flaw);
        Assert.Null(new ShipMessage(last with { From = first.To }, Bytes(10), [end]).Flaw);
        ShipMessage[] flawed =
        [
            new(last, Bytes(29), [end]), new(last, Bytes(500), [end]), new(last, Bytes(30), []),
            new(last, Bytes(30), [end with { EndsWindow = false }]), new(last, Bytes(30), [end with { IsEmptyRun = true }]),
            new(last, Bytes(30), [end, end]),
            new(first, Bytes(20), [end]),
            new(first with { To = start with { Offset = 1030 } }, Bytes(30), []),
            new(first with { To = start with { Offset = 1020, Closed = new(6) } }, Bytes(20), []),
            new(last with { From = start with { Offset = 990 } }, Bytes(40), [end]),
            // What is left has to leave room for what fills the place of the rest.
            new(last with { Window = window with { Bytes = 490 } }, Bytes(490), [end]),
            new(last with { Window = window with { Bytes = -1 } }, default, [end]),
            new(last with { Window = window with { To = to with { Closed = new(5) } } }, Bytes(30), [end]),
            new(first with { To = start }, default, []),
            new(first with { To = new(new(2), 1000, new(5)) }, default, []),
        ];
        Assert.All(flawed, m => Assert.NotNull(m.Flaw));
    }

    [Fact]
    public void Wire_OfWindows_ComesAsItWasSent()
    {
        LogIndex start = new(WorldLine.First, 1000, new(5)), to = new(WorldLine.First, 1500, new(9));
        ShipRequest.Piece piece = new(new(0), default, start, to, to, new(WorldLine.First, new(9)), 1) { Window = new(start, to, 30) };
        VersionEnd end = new(new(WorldLine.First, new(9), 1500, 3, HybridTimestamp.Of(7, 0)), IsEmptyRun: false, EndsWindow: true);
        ShipMessage there = ShipWire.FromWire(ShipWire.ToWire(new(piece, Bytes(30), [end]), new("c", TimeSpan.Zero)));
        Assert.Equal(piece, there.Request);
        Assert.Equal([end], there.Ends);
        ShipReply reply = new(ShipReplyKind.Ack, new(0), 1, start, start, default, default, 0, default);
        Assert.All([reply, reply with { TakesWindows = true }, reply with { TakesWindows = true, Window = piece.Window }],
            r => Assert.Equal(r, ShipWire.FromWire(ShipWire.ToWire(r))));
    }

    private static ReadOnlySequence<byte> Bytes(int count) => new(new byte[count]);

    private int NewSeed()
    {
        int seed = Random.Shared.Next();
        _output.WriteLine($"seed {seed}");
        return seed;
    }

    private async Task CountAsync(Random random, ShardShipper shipper)
    {
        WriteVersion(random);
        PrimaryLog.Sync();
        Shard.RecordedCut = PrimaryLog.DurableBoundary!.Value.Point;
        shipper.Wake();
        await UntilAsync(() => Backup.AppliedTo == Shard.RecordedCut);
    }

    private async Task CatchUpAsync(ShardShipper shipper, BadWay way)
    {
        way.IsGood = true;
        await CatchUpAsync(shipper);
        way.IsGood = false;
    }

    private void Record(Random random)
    {
        long cut = PrimaryLog.DurableEnd.Closed.Number - random.Next(30);
        if (new WorldPoint(PrimaryLog.WorldLine, new(cut)) is var point && point > Shard.RecordedCut) { Shard.RecordedCut = point; }
    }

    private void GoBack(Random random)
    {
        VersionNumber at = new(random.NextInt64(Shard.RecordedCut.Version.Number, PrimaryLog.DurableEnd.Closed.Number + 1));
        if (PrimaryLog.BoundaryAtOrBelow(at) is not { } branch || branch.Version < Shard.RecordedCut.Version) { return; }
        PrimaryLog.BeginWorldLine(PrimaryLog.WorldLine.Next, branch, ReplicationId);
        Shard.RecordedCut = new(PrimaryLog.WorldLine, branch.Version);
        foreach (long void_ in _states.Keys.Where(v => v > branch.Version.Number).ToArray()) { _states.Remove(void_); }
        _keys.Clear();
        foreach ((string key, string value) in _states[branch.Version.Number].Split(' ', StringSplitOptions.RemoveEmptyEntries)
            .Select(p => p.Split('=')).Select(p => (p[0], p[1]))) { _keys[key] = value; }
    }

    // Some 5 KB of writes on few keys.
    private void WriteVersion(Random random)
    {
        for (int n = random.Next(40, 80); n > 0; n--)
        {
            string key = $"key:{random.Next(30)}";
            if (random.Next(6) == 0)
            {
                _keys.Remove(key);
                Append("DEL", key);
                continue;
            }
            string value = string.Create(CultureInfo.InvariantCulture, $"{++_time}-{new string('v', random.Next(60))}");
            _keys[key] = value;
            Append("SET", key, value);
        }
        _states[CloseVersion().Number] = State(_keys);
    }

    private VersionNumber CloseVersion()
    {
        VersionNumber next = PrimaryLog.End.Closed.Next;
        PrimaryLog.AppendBoundary(new(PrimaryLog.WorldLine, next, PrimaryLog.EndOffset, 0, HybridTimestamp.Of(++_time, 0)));
        return next;
    }

    private void Append(params string[] words)
    {
        byte[] command = Encoding.ASCII.GetBytes($"*{words.Length}\r\n" + string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n")));
        PrimaryLog.Append(command);
        _written += command.Length;
    }

    private static string State(SortedDictionary<string, string> keys) => string.Join(' ', keys.Select(k => $"{k.Key}={k.Value}"));

    // All that the log can be brought to is what it was at the primary; and to what it is said to hold it can.
    private void AssertStates()
    {
        if (BackupLog.WorldLine != PrimaryLog.WorldLine) { return; }
        foreach ((Boundary end, string state) in StatesOf(BackupLog))
        {
            Assert.Equal(PrimaryLog.BoundaryAtOrBelow(end.Version)?.Offset, end.Offset);
            Assert.Equal(_states[end.Version.Number], state);
        }
        if (BackupLog.HeldCut is { WorldLine.Number: > 0 } held)
        {
            Assert.Equal(held.Version, BackupLog.BoundaryAtOrBelow(held.Version)?.Version);
        }
    }

    private static List<(Boundary End, string State)> StatesOf(VersionLog log)
    {
        var keys = new SortedDictionary<string, string>(StringComparer.Ordinal);
        List<(Boundary, string)> states = [];
        byte[] bytes = new byte[log.DurableOffset - 1000];
        using (LogReader reader = log.OpenReader(1000))
        {
            for (int at = 0; at < bytes.Length;) { at += reader.Read(bytes.AsSpan(at)); }
        }
        int place = 0;
        foreach (Boundary end in log.Boundaries)
        {
            while (place < end.Offset - 1000) { place = Execute(bytes, place, keys); }
            Assert.Equal(end.Offset - 1000, place);
            states.Add((end, State(keys)));
        }
        return states;
    }

    private static int Execute(byte[] bytes, int at, SortedDictionary<string, string> keys)
    {
        if (bytes[at] == '\n') { return at + 1; }
        string[] words = new string[Number(bytes, ref at)];
        for (int i = 0; i < words.Length; i++)
        {
            int length = Number(bytes, ref at);
            words[i] = Encoding.ASCII.GetString(bytes, at, length);
            at += length + 2;
        }
        if (words[0] == "SET") { keys[words[1]] = words[2]; }
        else if (words[0] == "DEL") { keys.Remove(words[1]); }
        else { Assert.True(words[0] is "PING" or "SELECT", words[0]); }
        return at;
    }

    private static int Number(byte[] bytes, ref int at)
    {
        int end = Array.IndexOf(bytes, (byte)'\r', at);
        int number = int.Parse(Encoding.ASCII.GetString(bytes, at + 1, end - at - 1), CultureInfo.InvariantCulture);
        at = end + 2;
        return number;
    }
}
