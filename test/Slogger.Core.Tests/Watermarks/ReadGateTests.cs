// The gate between readers and the feed of a backup's store: single rules, then worlds of readers and versions by seed, of which each promise is
// checked; and faults in the gate that the worlds must show.
using Slogger.Core.Sessions;
using Slogger.Core.Watermarks;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Core.Tests.Watermarks;

public sealed class ReadGateTests(ITestOutputHelper output)
{
    private const long WaitUs = 1000;

    private static WorldPoint Point(long version) => new(new WorldLine(1), new Version(version));

    [Fact]
    public void Enter_NothingToFeed_ReadsWhereTheStoreStands()
    {
        var gate = new ReadGate(Point(3), WaitUs);
        ReadPass pass = gate.Enter()!.Value;
        Assert.Equal(Point(3), pass.At);
        Assert.Equal(new ReadEnd(true, false), gate.Leave(pass));
        Assert.Null(gate.FeedDueUs);
    }

    [Fact]
    public void TryFeed_ReadsUnderWay_WaitsForThemAndHoldsNewOnes()
    {
        var gate = new ReadGate(Point(3), WaitUs);
        ReadPass a = gate.Enter()!.Value, b = gate.Enter()!.Value;
        Assert.False(gate.TryFeed(50));
        Assert.Equal(50 + WaitUs, gate.FeedDueUs);
        Assert.Null(gate.Enter());
        Assert.Equal(new ReadEnd(true, false), gate.Leave(a));
        Assert.False(gate.TryFeed(60));
        Assert.Equal(50 + WaitUs, gate.FeedDueUs);
        Assert.Equal(new ReadEnd(true, true), gate.Leave(b));
        Assert.True(gate.TryFeed(70));
        Assert.Null(gate.FeedDueUs);
        Assert.Null(gate.Enter());
        (int count, ReadPass pass) = gate.Fed(Point(4));
        Assert.Equal((2, Point(4)), (count, pass.At));
        // The next one waits for them, though it was there before they were let in.
        Assert.False(gate.TryFeed(80));
        Assert.Equal(new ReadEnd(true, false), gate.Leave(pass));
        Assert.Equal(new ReadEnd(true, true), gate.Leave(pass));
    }

    [Fact]
    public void TryFeed_ReadTakesTooLong_BeginsAndTheReadIsVoid()
    {
        var gate = new ReadGate(Point(3), WaitUs);
        ReadPass slow = gate.Enter()!.Value;
        Assert.False(gate.TryFeed(0));
        Assert.False(gate.TryFeed(WaitUs - 1));
        Assert.True(gate.TryFeed(WaitUs));
        gate.Fed(Point(4));
        ReadPass next = gate.Enter()!.Value;
        Assert.False(gate.TryFeed(2 * WaitUs));
        Assert.Equal(new ReadEnd(false, false), gate.Leave(slow));
        Assert.Equal(new ReadEnd(true, true), gate.Leave(next));
    }

    [Fact]
    public void GiveUp_OfOneWhoWaits_IsNotLetIn()
    {
        var gate = new ReadGate(Point(3), WaitUs);
        Assert.True(gate.TryFeed(0));
        Assert.Null(gate.Enter());
        Assert.Null(gate.Enter());
        gate.GiveUp();
        Assert.Equal(1, gate.Fed(Point(4)).Count);
        Assert.Throws<BrokenInvariantException>(gate.GiveUp);
    }

    [Fact]
    public void Calls_OutOfTurn_AreFound()
    {
        var gate = new ReadGate(Point(3), WaitUs);
        Assert.Throws<BrokenInvariantException>(() => gate.Fed(Point(4)));
        ReadPass pass = gate.Enter()!.Value;
        gate.Leave(pass);
        Assert.Throws<BrokenInvariantException>(() => gate.Leave(pass));
        gate = new ReadGate(Point(3), WaitUs);
        Assert.True(gate.TryFeed(0));
        Assert.Throws<BrokenInvariantException>(() => gate.TryFeed(1));
        Assert.Throws<BrokenInvariantException>(() => gate.Fed(Point(2)));
    }

    [Fact]
    public void Worlds_OfReadersAndVersions_KeepEachPromise()
    {
        int seed = Environment.TickCount;
        output.WriteLine($"seed {seed}");
        (int held, int voided, int waited) = (0, 0, 0);
        for (int i = 0; i < 300; i++)
        {
            var world = new World(seed + i, ReadGateMutation.None);
            Assert.Null(world.Run());
            (held, voided, waited) = (held + world.Held, voided + world.Voided, waited + world.Waited);
        }
        output.WriteLine($"{held} reads held, {voided} were void, {waited} waited");
        Assert.True(held > 1000 && voided > 100 && waited > 1000);
    }

    [Theory]
    [InlineData(nameof(ReadGateMutation.NewcomersPass))]
    [InlineData(nameof(ReadGateMutation.FeedDoesNotWait))]
    [InlineData(nameof(ReadGateMutation.FeedWaitsForEver))]
    [InlineData(nameof(ReadGateMutation.VoidIsAnswered))]
    [InlineData(nameof(ReadGateMutation.OneIsLetIn))]
    public void Worlds_WithAFault_ShowIt(string fault)
    {
        string? found = Enumerable.Range(1, 300).Select(seed => new World(seed, Enum.Parse<ReadGateMutation>(fault)).Run()).FirstOrDefault(f => f is not null);
        Assert.NotNull(found);
        output.WriteLine(found);
    }

    // Readers of any length, some of them for ever, and versions that come as fast as they can be applied, in virtual microseconds.
    private sealed class World(int seed, ReadGateMutation mutation)
    {
        private sealed class Reader
        {
            public long CameUs;
            public long EndsUs;
            public long LastsUs;
            public int AppliedBefore;
            public int BegunWhenLetIn;
            public ReadPass Pass;
        }

        private const int Versions = 40;
        private readonly Random _random = new(seed);
        private readonly ReadGate _gate = new(Point(0), WaitUs, mutation);
        private readonly List<Reader> _waiting = [], _reading = [];
        private string? _broken;
        private int _begun, _applied;
        private long _nowUs, _wantsUs, _fedUs = long.MaxValue;

        public int Held { get; private set; }
        public int Voided { get; private set; }
        public int Waited { get; private set; }

        /// <summary>What is wrong; null: nothing.</summary>
        public string? Run()
        {
            int busy = _random.Next(1, 20);
            long comesUs = 0, askUs = 0;
            while (_broken is null && (_applied < Versions || _waiting.Count > 0))
            {
                long endsUs = _reading.Count == 0 ? long.MaxValue : _reading.Min(r => r.EndsUs);
                _nowUs = new[] { comesUs, askUs, endsUs, _fedUs }.Min();
                if (_nowUs > 1_000_000_000) return $"seed {seed}: nothing moves any more after {_applied} versions";
                if (_nowUs == endsUs) EndOne(ref askUs);
                else if (_nowUs == _fedUs) EndFeed(ref askUs);
                else if (_nowUs == askUs) Ask(ref askUs);
                else
                {
                    Come();
                    comesUs = _nowUs + _random.Next(1, 2000 / busy);
                }
            }
            return _broken;
        }

        private void Come()
        {
            if (_applied >= Versions) return;
            long lasts = _random.Next(20) switch { 0 => _random.Next(5000), 1 => 500_000_000, _ => _random.Next((int)WaitUs + 1) };
            var reader = new Reader { CameUs = _nowUs, LastsUs = lasts, AppliedBefore = _applied };
            if (_gate.Enter() is { } pass) LetIn(reader, pass);
            else _waiting.Add(reader);
        }

        private void LetIn(Reader reader, ReadPass pass)
        {
            (reader.Pass, reader.EndsUs, reader.BegunWhenLetIn) = (pass, _nowUs + reader.LastsUs, _begun);
            _reading.Add(reader);
            if (_begun != _applied) Break("let in while a version was being applied");
            if (pass.At != Point(_applied)) Break($"told {pass.At} where {_applied} versions were applied");
            if (_applied - reader.AppliedBefore > 1) Break($"waited for {_applied - reader.AppliedBefore} versions");
            if (_nowUs > reader.CameUs) Waited++;
        }

        private void EndOne(ref long askUs)
        {
            Reader reader = _reading.First(r => r.EndsUs == _nowUs);
            _reading.Remove(reader);
            ReadEnd end = _gate.Leave(reader.Pass);
            if (end.Holds && _begun != reader.BegunWhenLetIn) Break("what was read of two versions was answered");
            if (!end.Holds && reader.LastsUs <= WaitUs) Break($"a read of {reader.LastsUs} us was not waited for");
            if (end.Holds) Held++;
            else Voided++;
            if (end.FeedMayBegin) askUs = _nowUs;
        }

        private void Ask(ref long askUs)
        {
            if (_wantsUs == 0) _wantsUs = _nowUs;
            askUs = long.MaxValue;
            if (!_gate.TryFeed(_nowUs))
            {
                askUs = _gate.FeedDueUs!.Value > _nowUs ? _gate.FeedDueUs.Value : _nowUs + 1;
                if (_nowUs - _wantsUs >= WaitUs) Break($"a version has waited for {_nowUs - _wantsUs} us");
                return;
            }
            _begun++;
            _fedUs = _nowUs + _random.Next(1, 3000);
        }

        private void EndFeed(ref long askUs)
        {
            _fedUs = long.MaxValue;
            _wantsUs = 0;
            _applied++;
            (int count, ReadPass pass) = _gate.Fed(Point(_applied));
            for (int i = 0; i < count; i++)
            {
                LetIn(_waiting[0], pass);
                _waiting.RemoveAt(0);
            }
            if (_applied < Versions) askUs = _nowUs + (_random.Next(3) == 0 ? _random.Next(3000) : 0);
        }

        private void Break(string what) => _broken ??= $"seed {seed}, at {_nowUs} us: {what}";
    }
}
