// The past of a cluster in seeded cases: shards that close versions by the real ShardMachine, and keep, reduce, trim and prune what lies
// behind them by the real decisions of Core; clients, readers of single shards and of all, resets; and processes that die at any step, torn
// logs, recoveries that take back what was not committed, clocks that differ, markers that come late, gaps, keys that move, a budget that
// runs out. While a reset is on its way another node of a cohort may come to lead a shard, and go on with what a majority has of the log.
//
// What is checked, against what really was (PastOracle): R1 what is read is what was; R2 all shards show one version, closed under what
// clients heard; R3 nothing that is promised becomes unreachable; R4 what was reduced is what it was; R5 a reset is done at all shards or at
// none, and the cut never goes back; R6 what somebody reads stays, as long as the lease does, and no longer; R7 what was said to be durable
// is.
using System.Globalization;
using Slogger.Core.Cuts;
using Slogger.Core.Resets;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Past;

/// <summary>A case as it runs. Times are the true ones, unless a name says otherwise.</summary>
internal sealed class PastWorld
{
    public const int Keys = 6;

    private sealed record Move(int Key, int From, int To, WorldLine Line, VersionNumber Landed);

    private readonly List<string> _notes = [];
    private readonly List<PastClient> _clients;
    private readonly List<PastSnapshot> _snapshots = [];
    private readonly List<PastReset> _resets = [];
    private readonly DurableClaim[] _claims;
    private readonly ResetMark[] _marks;
    private Move? _move;
    private int _value, _checkpoint;
    private long _order;

    public PastWorld(PastSettings settings)
    {
        Settings = settings;
        Random = new(settings.Seed);
        int shards = Random.Next(1, 4);
        long skewUs = Dice(2) ? 0 : Random.Next(1, 3000);
        ClockErrorUs = 2 * skewUs;
        IntervalUs = 5000;
        NowUs = BeganUs;
        GridStretch first = new(new(1), NowUs, IntervalUs);
        Grid = Dice(3) ? new([first, first.Successor(Dice(2) ? 2000 : 10_000, NowUs + (Random.Next(20, 100) * IntervalUs))]) : new([first]);
        HoldMs = Random.Next(20, 120);
        EveryBytes = Random.Next(5, 25);
        SegmentBytes = Random.Next(1, 12);
        IsBudgetTight = Dice(3);
        BudgetBytes = IsBudgetTight ? EveryBytes * Random.Next(3, 8) : 1_000_000;
        DetailUs = Dice(4) ? 0 : Random.Next(4, 30) * IntervalUs;
        RetentionUs = Dice(3) ? 0 : DetailUs + (Random.Next(10, 80) * IntervalUs);
        Group = 1L << Random.Next(4);
        ShardOptions = new() { EmptyRunIntervalUs = Random.Next(1, 4) * IntervalUs, HasPeers = shards > 1 };
        _claims = [.. Enumerable.Range(0, shards).Select(_ => DurableClaim.Of(new(WorldLine.First, VersionNumber.Zero)))];
        _marks = new ResetMark[shards];
        Cut = new(WorldLine.First, VersionNumber.Zero);
        Shards = [.. Enumerable.Range(0, shards).Select(i => new PastShard(this, i, Random.NextInt64(-skewUs, skewUs + 1)))];
        Owners = [.. Enumerable.Range(0, Keys).Select(_ => Random.Next(shards))];
        _clients = [.. Enumerable.Range(0, Random.Next(2, 6)).Select(_ => new PastClient(this))];
    }

    public PastSettings Settings { get; }

    public Random Random { get; }

    public IReadOnlyList<PastShard> Shards { get; }

    /// <summary>Which shard has a key.</summary>
    public int[] Owners { get; }

    public VersionGrid Grid { get; }

    public ShardOptions ShardOptions { get; }

    public long BeganUs => 1_000_000;

    public long IntervalUs { get; }

    /// <summary>How far two clocks may be apart.</summary>
    public long ClockErrorUs { get; }

    public long NowUs { get; private set; }

    public long NowMs => NowUs / 1000;

    // ---- What is to be kept: bytes are commands ----

    public long HoldMs { get; }

    public long EveryBytes { get; }

    public int SegmentBytes { get; }

    public bool IsBudgetTight { get; }

    public long BudgetBytes { get; }

    public long RetentionUs { get; }

    public long DetailUs { get; }

    /// <summary>Of so many versions one is kept behind the detail.</summary>
    public long Group { get; }

    // ---- What the cluster's database has ----

    public WorldPoint Cut { get; private set; }

    public WorldLine Line => Cut.WorldLine;

    /// <summary>Where the present world-line branched off.</summary>
    public VersionNumber Branch { get; private set; }

    public IReadOnlyList<DurableClaim> Claims => _claims;

    public IReadOnlyList<ResetMark> Marks => _marks;

    /// <summary>From this version on each key is where <see cref="Owners"/> says.</summary>
    public VersionNumber Settled { get; private set; }

    public bool IsMoving => _move is not null;

    public bool IsWithheld(int key) => _move?.Key == key;

    /// <summary>Whether things go wrong yet.</summary>
    public bool IsTrouble { get; private set; } = true;

    /// <summary>How often each kind of thing happened.</summary>
    public SortedDictionary<string, long> Happened { get; } = new(StringComparer.Ordinal);

    public IReadOnlyList<string> Notes => _notes;

    public bool TakesNotes { get; init; }

    /// <summary>One time in so many.</summary>
    public bool Dice(int times) => Random.Next(times) == 0;

    public void Count(string what)
    {
        Happened[what] = Happened.GetValueOrDefault(what) + 1;
        if (TakesNotes) { _notes.Add(string.Create(CultureInfo.InvariantCulture, $"{NowUs - BeganUs,9}  {what}")); }
    }

    public long NextOrder() => ++_order;

    public int NextValue() => ++_value;

    public int NextCheckpoint() => ++_checkpoint;

    public long TimeMsOf(VersionNumber version) => Grid.StartOf(version.Next) / 1000;

    /// <summary>Runs the case: trouble, then a while in which nothing fails; at the end all that is promised is read.</summary>
    /// <exception cref="SimException">An invariant does not hold.</exception>
    public void Run()
    {
        for (int i = 0; i < Settings.Steps; i++) { Step(); }
        IsTrouble = false;
        for (int i = 0; i < 40; i++) { Step(); }
        foreach (PastShard shard in Shards)
        {
            shard.CheckKept();
            for (int i = 0; i < 10; i++) { shard.ReadAny(); }
            if (TakesNotes) { _notes.Add(shard.ToString()); }
        }
    }

    private void Step()
    {
        NowUs += Random.NextInt64(IntervalUs);
        foreach (PastShard shard in Shards) { GoOn(shard); }
        foreach (PastClient client in _clients)
        {
            if (Dice(2)) { client.Go(); }
        }
        PastShard one = Shards[Random.Next(Shards.Count)];
        switch (Random.Next(10))
        {
            case 0: one.ReadAny(); break;
            case 1: one.ReadAtTime(Math.Max(BeganUs + IntervalUs, NowUs - Random.NextInt64(30 * IntervalUs))); break;
            case 2 when _snapshots.Count < 2: _snapshots.Add(new(this)); break;
            case 3 when Dice(6): BeginReset(); break;
            case 4 when Dice(4): BeginMove(); break;
            case 5: one.CheckKept(); break;
        }
        foreach (PastSnapshot snapshot in _snapshots)
        {
            if (Dice(2)) { snapshot.Step(); }
        }
        _snapshots.RemoveAll(s => s.IsOver);
        foreach (PastReset reset in _resets)
        {
            for (int i = 0; i < Shards.Count; i++)
            {
                if (!reset.IsOver) { reset.Step(); }
            }
        }
        GoOnMoving();
        if (IsTrouble) { Trouble(one); }
    }

    private void GoOn(PastShard shard)
    {
        if (!shard.IsUp)
        {
            if (Dice(6) || !IsTrouble) { shard.Start(); }
            return;
        }
        if (Dice(3) || !IsTrouble) { shard.EnterLine(); }
        // One that is late now and then.
        if (!Dice(8)) { shard.Pulse(); }
        if (shard.IsServing)
        {
            if (Dice(4)) { shard.Expire(); }
            for (int n = Dice(5) ? 0 : Random.Next(8); n > 0 && shard.IsServing; n--) { shard.ExecuteNext(); }
        }
        if (Dice(2)) { shard.Sync(); }
        if (Dice(2)) { shard.Record(); }
        if (Dice(2)) { shard.HearCut(); }
        if (Dice(3)) { shard.TakeCheckpoint(); }
        if (Dice(3)) { shard.KeepDetail(); }
        if (Dice(2)) { shard.ReduceOn(); }
        if (Dice(4) || !IsTrouble) { shard.GoOnBehindGap(); }
    }

    private void Trouble(PastShard one)
    {
        switch (Random.Next(150))
        {
            case 0: one.Die(isPowerCut: false); break;
            case 1: one.Die(isPowerCut: true); break;
            case 2 or 3: one.LoseLink(); break;
            case 4 when Dice(3):
                foreach (PastShard shard in Shards) { shard.Die(isPowerCut: true); }
                break;
        }
    }

    // ---- The database ----

    /// <summary>A shard has something durable.</summary>
    /// <returns>False: the cluster is in another world-line.</returns>
    public bool Record(int shard, DurableClaim claim)
    {
        if (claim.Point.WorldLine != Line) { return false; }
        _claims[shard] = claim;
        Advance();
        return true;
    }

    /// <summary>A shard is about to write a reset.</summary>
    public void MarkReset(int shard, WorldLine line)
    {
        if (line == Line) { _marks[shard] = new(line); }
    }

    /// <summary>A world-line begins at the newest cut.</summary>
    /// <param name="shard">Who begins it.</param>
    /// <param name="claim">What it has durable; null: what it has said.</param>
    public void BeginWorldLine(int shard, DurableClaim? claim)
    {
        if (claim is { } durable)
        {
            if (durable.Point.WorldLine != Line || durable.Point.Version < _claims[shard].Point.Version) { return; }
            _claims[shard] = durable;
            Advance();
        }
        Branch = Cut.Version;
        Cut = Cut with { WorldLine = Line.Next };
        for (int i = 0; i < _claims.Length; i++) { _claims[i] = new(Cut, _claims[i].Stride, Branch); }
        Count("world-lines");
    }

    private void Advance()
    {
        WorldPoint next = GridCut.Advance(Cut, _claims);
        if (next < Cut) { throw new SimException($"R5: the cut goes back from {Cut} to {next}"); }
        if (next == Cut) { return; }
        Cut = next;
        foreach (PastReset reset in _resets) { reset.Check(Cut); }
    }

    // ---- Resets and moves ----

    private void BeginReset()
    {
        if (IsMoving || _resets.Exists(r => !r.IsOver) || Cut.Version.Number < 3) { return; }
        var to = new VersionNumber(Math.Max(1, Cut.Version.Number - Random.Next(1, 40)));
        if (to < Settled) { return; }
        // One that all have, as its manager finds it.
        var common = new CommonVersion(Shards.Count, isNow: false);
        VersionNumber found = to;
        while (common.Next is { } question)
        {
            if (Shards[question.Shard].Ask(question.Version ?? to, isNow: false).Place is not { } place) { return; }
            common.OnAnswer(found = place.End);
        }
        if (found == VersionNumber.Zero) { return; }
        Count("resets begun");
        _resets.Add(new(this, _resets.Count + 1, found));
    }

    private void BeginMove()
    {
        if (Shards.Count < 2 || IsMoving || _resets.Exists(r => !r.IsOver)) { return; }
        int key = Random.Next(Keys), from = Owners[key], to = (from + Random.Next(1, Shards.Count)) % Shards.Count;
        if (!Shards[from].IsServing || !Shards[to].IsServing || Shards[from].Line != Line || Shards[to].Line != Line
            || Shards[from].Sends(key))
        {
            return;
        }
        // What was done at the old owner is in versions up to the one that is open there.
        VersionNumber open = Shards[from].Open;
        if (Shards[from].Store.TryGetValue(key, out (int Value, long ExpiresMs) value))
        {
            Shards[to].Send(new(key, value.Value, value.ExpiresMs), null, isOfMove: true);
        }
        else { Shards[to].Send(new(key, 0), null, isOfMove: true); }
        _move = new(key, from, to, Line, VersionNumber.Max(open, Shards[to].Open));
        Count("moves begun");
    }

    private void GoOnMoving()
    {
        if (_move is not { } move) { return; }
        if (Line != move.Line)
        {
            Count("moves given up");
            _move = null;
            return;
        }
        if (Cut.Version < move.Landed) { return; }
        Owners[move.Key] = move.To;
        Settled = VersionNumber.Max(Settled, move.Landed);
        if (Shards[move.From].IsServing) { Shards[move.From].Send(new(move.Key, 0), null, isOfMove: true); }
        _move = null;
        Count("moves");
    }

    // ---- What is compared ----

    /// <summary>All keys at the end of a version, whichever shard had them.</summary>
    /// <param name="version">The version.</param>
    /// <param name="shown">What is shown of it: where a store was early to delete what had expired, that is right, too.</param>
    public Dictionary<int, int> TruthAt(VersionNumber version, Dictionary<int, int> shown)
    {
        var state = new Dictionary<int, int>();
        long timeMs = TimeMsOf(version);
        PastDone[] done = [.. Shards.SelectMany(s => s.Oracle.Done).Where(d => d.Label <= version && !d.IsOfMove).OrderBy(d => d.Order)];
        foreach (PastDone one in done.Where(d => !d.IsExpiry)) { PastOracle.Put(state, one.Op, timeMs); }
        foreach (PastDone one in done.Where(d => d.IsExpiry && !shown.ContainsKey(d.Op.Key))) { state.Remove(one.Op.Key); }
        return state;
    }

    public bool IsSame(Dictionary<int, int> a, Dictionary<int, int> b) =>
        a.Count == b.Count && a.All(k => b.TryGetValue(k.Key, out int value) && value == k.Value);

    public static string Text(Dictionary<int, int> state) =>
        $"{{{string.Join(", ", state.OrderBy(k => k.Key).Select(k => FormattableString.Invariant($"{k.Key}: {k.Value}")))}}}";
}
