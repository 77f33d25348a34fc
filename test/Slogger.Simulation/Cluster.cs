// A whole cluster in one seed: shards with their proxies, stores and logs, SQL, a coordinator, clients of both kinds, and the network
// and clocks between them. Single-threaded: each step one of them does a little, chosen by the dice, and something may go wrong.
using System.Runtime.InteropServices;
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Simulation.Checks;
using Slogger.Simulation.Clients;
using Slogger.Simulation.Processes;
using Slogger.Simulation.Sites;

namespace Slogger.Simulation;

internal sealed partial class Cluster
{
    public const long IntervalUs = 1000;
    public const int ShardsMax = 16;
    private const long StartUs = 1_000_000_000;

    // Of the events of a case: longer than it takes another process to start and to serve.
    private const int LateMax = 300;

    private readonly List<(VersionReport Report, long Epoch)> _reports = [];
    private readonly List<string> _notes = [];
    private readonly int _calm;      // one in so many misfortunes that the dice show does happen
    private readonly int _stepUsMax;
    private int _historyIds = 1;
    private int _linkIds;
    private int _names;

    public Cluster(SimSettings settings)
        : this(settings, null)
    {
    }

    /// <summary>A cluster, or one that goes on where a backup has taken over.</summary>
    private Cluster(SimSettings settings, BackupSite? from)
    {
        Settings = settings;
        Random = new(settings.Seed);
        // A backup knows nothing of slots and members yet.
        Keys = new(settings.Finder == FinderKind.Approximate && settings.Backup != true
            && (settings.Moves ?? (settings.Faults && settings.Seed % 3 == 0)));
        Grows = Keys.Move && (settings.Members ?? (settings.Faults && settings.Seed % 12 is 0 or 9));
        // A move needs some time to come to a step at which it can go wrong, and so does a backup to fall behind.
        _calm = 1 << ((settings.Seed % 4) + (Keys.Move || settings.Windows ? 3 : 0));
        // Where more happens in a version, markers are back in time, and cuts come at every version: not only at multiples of a stride that
        // has grown, which hide what is a version too early or too late.
        // A backup falls behind within some versions.
        _stepUsMax = settings.Finder == FinderKind.Approximate && settings.Seed % 11 < 4 && !settings.Windows ? 20 : 80;
        int shards = settings.Shards ?? Random.Next(2, Keys.Move ? 4 : 6);
        ClockKind clocks = settings.Clocks ?? (settings.Seed % 3 == 2 ? ClockKind.BeyondBound : ClockKind.WithinBound);
        Clocks = clocks;
        (SyncIntervalUs, RecordIntervalUs, AskPeriodUs) =
            (settings.Seed % 5) switch { 0 => (3 * IntervalUs, 5 * IntervalUs, 2 * IntervalUs), _ => (0, 0, IntervalUs / 2) };
        // With one clock for all no reply is held.
        ClockErrorUs = settings.ClockErrorUs
            ?? (settings.Seed % 7 == 3 && clocks == ClockKind.WithinBound ? 0 : settings.Seed % 2 == 0 ? 400 : 3 * IntervalUs);
        Histories = new(this);
        Checks = new(this) { IsRealTime = settings.Finder == FinderKind.Approximate && clocks == ClockKind.WithinBound };
        if (from is not null) (NowUs, Tick, shards) = (from.NowUs, from.Primary.Tick, from.Streams.Length);
        VersionGrid grid = from is null ? new(new(1), StartUs, IntervalUs)
            : new(from.Sql.State.Final!.Value.Version.Next, NowUs, IntervalUs);
        Sql = new(this, settings, shards, grid);
        Hosts = [.. Enumerable.Range(0, shards)
            .Select(s => new ShardHost(this, s, settings.Mutation == SimMutation.GapForgetsLog, from?.Streams[s].Log))];
        if (from is not null) BeginWhere(from);
        foreach (ShardHost host in Hosts)
        {
            host.SkewUs = DrawSkew();
            StartProxy(host);
        }

        Sessions = [.. Enumerable.Range(1, 2 + (settings.Seed % 2)).Select(i => new SessionClient(this, i))];
        Plains = [.. Enumerable.Range(1, 3).Select(i => new PlainClient(this, i, isDedicated: i == 3))];
        if (HasCoordinators) Coordinators.Add(new(this, "coordinator 1"));
        if (settings.Finder == FinderKind.Approximate && !Keys.Move && (settings.Backup ?? (settings.Faults && settings.Seed % 3 == 1)))
            Backup = new(this, Sql.Site.Epoch, isFresh: from is null && settings.Seed % 4 != 0);
        Backup?.Checks.OnRecorded(new(Sql.Line, Sql.Cut.Versions[0]));
    }

    public SimSettings Settings { get; }

    public ClockKind Clocks { get; }

    public Random Random { get; }

    public long SyncIntervalUs { get; }

    public long RecordIntervalUs { get; }

    public long AskPeriodUs { get; }

    /// <summary>Whether shards whose stores are alive go back in place, if they can; else everything is restored.</summary>
    public bool RollsBackInPlace => Settings.InPlace ?? Settings.Seed % 5 < 2;

    /// <summary>Whether a shard that has entered a world-line soon takes those that have not for dead, and serves without them. They may
    /// live, and be in an older one: sessions notice that. Plain clients cannot, so that there are none.</summary>
    private bool IsImpatient => Settings.Faults && Settings.Seed % 5 is 0 or 2;

    /// <summary>How long shards that are to enter a world-line are waited for, in microseconds.</summary>
    public long PeersUs => IsImpatient ? IntervalUs / 2 : Settings.Faults ? long.MaxValue : 50 * IntervalUs;

    /// <summary>How far the clocks may be apart, in microseconds: not at all, less than a version, or several.</summary>
    public long ClockErrorUs { get; }

    /// <summary>True time, in microseconds.</summary>
    public long NowUs { get; private set; } = StartUs + 500;

    /// <summary>Counts what happens, one after the other.</summary>
    public long Tick { get; private set; }

    public Invariants Checks { get; }

    public Sql Sql { get; }

    public List<SqlCall> Calls { get; } = [];

    public ShardHost[] Hosts { get; private set; }

    public SessionClient[] Sessions { get; }

    public PlainClient[] Plains { get; }

    public List<Coordinator> Coordinators { get; } = [];

    /// <summary>How often each kind of thing happened: a test of the test looks at it.</summary>
    public Dictionary<string, long> Happened { get; } = [];

    public bool IsTraced => Settings.Trace;

    /// <summary>What happened, if it is traced: here, and then at the site that has taken over.</summary>
    public IReadOnlyList<string> Notes =>
        Successor is { } next ? [.. _notes, "-- the site that has taken over --", .. next.Notes] : _notes;

    /// <summary>Runs the case to its end.</summary>
    /// <exception cref="SimException">An invariant does not hold.</exception>
    public void Run()
    {
        for (int i = Grows ? -Settings.Steps : 0; i < Settings.Steps; i++) Step();
        foreach (SessionClient s in Sessions) s.CheckAll();
        Backup?.FinishSwitch();
        if (Backup is { IsWanted: true, IsOver: false } site) site.Finish();
        if (Backup is { IsOver: true } over) over.FinishHandOver();
        if (Successor is { } next) next.Run();
        else if (Settings.ChecksProgress && !IsLost && Backup?.Refusal is null) Settle();
    }

    public void Count(string what) => CollectionsMarshal.GetValueRefOrAddDefault(Happened, what, out _)++;

    public void Note(string what) => _notes.Add($"{Tick,5} {NowUs - StartUs,7} us  {what}");

    /// <summary>Whether something happens that happens once in so many times. In a scenario file nothing happens that it does not
    /// say.</summary>
    public bool Dice(int sides) => !Settings.Scripted && Random.Next(sides) == 0;

    public long NextTick() => ++Tick;

    public int NewHistoryId() => ++_historyIds;

    public int NewLinkId() => ++_linkIds;

    public void ForgetPositions(List<Command> history, int from)
    {
        for (int i = from; i < history.Count; i++)
            if (history[i].Op is { } op) op.Position = -1;
    }

    /// <summary>Shards have somebody to speak with: always, but in every second case of the approximate finder, which needs
    /// nobody.</summary>
    public bool HasCoordinators => Settings.Finder != FinderKind.Approximate || Settings.Seed % 2 == 0;

    /// <summary>Some coordinator listens.</summary>
    public bool IsCoordinated => Coordinators.Exists(c => c.IsListening);

    public void SendReport(in VersionReport report, long epoch)
    {
        if (!HasCoordinators) return;
        _reports.Add((report, epoch));
        if (Settings.Faults && Dice(10)) _reports.Add((report, epoch));
    }

    /// <summary>A coordinator has started from SQL: it knows of nothing else.</summary>
    public void AskAgain()
    {
        foreach (ShardHost host in Hosts)
            foreach (ProxyProcess p in host.Proxies) p.AskedAgain();
    }

    public ProxyProcess StartProxy(ShardHost host)
    {
        ProxyProcess started = new(this, host, $"proxy {host.Number}{(char)('a' + (_names++ % 26))}");
        host.Proxies.Add(started);
        if (IsTraced) Note($"{started.Name} starts");
        return started;
    }

    /// <summary>Time passes for everybody.</summary>
    public void PassTime(long us) => NowUs += us;

    public void Step()
    {
        Tick++;
        NowUs += Random.Next(_stepUsMax);
        Backup?.Turn();
        if (IsLost) return;
        if (Keys.Move) MoveTurn();
        if (Grows) MembersTurn();
        if (Sql.Proposal.ChangeUs > 0) IntervalTurn();
        int dice = Random.Next(1000);
        ShardHost host = Hosts[Random.Next(Hosts.Length)];
        switch (dice)
        {
            case < 230: Loop(Someone(host)); break;
            case < 370: for (int n = Random.Next(1, 6); n > 0; n--) host.Store.ExecuteSome(Random, unblock: Dice(6)); break;
            case < 470: StreamSome(host); break;
            case < 530: Someone(host)?.SyncSome(Random); break;
            case < 650: StepTasks(Someone(host)); break;
            case < 760: for (int n = 0; n < 4; n++) SqlTurn(); break;
            case < 860: for (int n = 0; n < 3; n++) Sessions[Random.Next(Sessions.Length)].Step(Random); break;
            case < 940 when !IsImpatient: for (int n = 0; n < 3; n++) Plains[Random.Next(Plains.Length)].Step(Random); break;
            case < 960: CoordinatorTurn(); break;
            case < 970: StartMissing(); break;
            case < 975: host.Newest?.BeginToWait(); break;
            default: if (Settings.Faults && Dice(_calm)) Misfortune(host); break;
        }
    }

    /// <summary>Mostly the newest process of a shard, sometimes one that was deposed and does not know.</summary>
    private ProxyProcess? Someone(ShardHost host) =>
        host.Proxies.Count > 1 && Dice(3) ? host.Proxies[Random.Next(host.Proxies.Count)] : host.Newest;

    private void Loop(ProxyProcess? p)
    {
        for (int n = Random.Next(1, 4); n > 0; n--) p?.Loop(Random);
    }

    private void StepTasks(ProxyProcess? p)
    {
        // Each task is a thread: many of them do not slow each other down.
        for (int n = Random.Next(2, 9) * (p?.TaskCount ?? 0); n > 0; n--) p!.StepTask(Random);
    }

    private void StreamSome(ShardHost host)
    {
        ProxyProcess? p = Someone(host);
        for (int n = Random.Next(1, 6); n > 0; n--) p?.StreamOne();
    }

    /// <summary>A request reaches SQL, or an answer its caller; or not, or only when the caller has given up.</summary>
    private void SqlTurn()
    {
        // What is late holds up nothing else.
        int ready = Calls.Count(c => c.LateUntil <= Tick);
        if (ready == 0) return;
        int nth = Random.Next(ready), i = Calls.FindIndex(c => c.LateUntil <= Tick && nth-- == 0);
        SqlCall call = Calls[i];
        if (Sql.IsDown || call.Caller.CutOffUntil > Tick)
        {
            // What is on its way to nowhere waits there; the caller gives up.
            if (Dice(2)) return;
            Count("SQL unreachable");
            call.Complete(null);
            if (Dice(2)) Calls.RemoveAt(i);
            return;
        }

        bool mayFail = Settings.Faults && !call.IsDone;
        if (call.Answer is not null)
        {
            Calls.RemoveAt(i);
            bool isLost = mayFail && Dice(24);
            if (isLost) Count("SQL answer lost");
            call.Complete(isLost ? null : call.Answer);
        }
        else if (mayFail && Dice(32))
        {
            Count("SQL request lost");
            Calls.RemoveAt(i);
            call.Complete(null);
        }
        else if (mayFail && Dice(32))
        {
            Count("SQL request late");
            call.LateUntil = Tick + Random.Next(LateMax);
            call.Complete(null);
            if (call.What == "move") OnMoveLate((ProxyProcess)call.Caller);
        }
        else
        {
            if (call.IsDone) Count("late SQL request applied");
            call.Answer = call.Apply();
        }
    }

    /// <summary>Reports reach the coordinators, and these do something.</summary>
    public void CoordinatorTurn()
    {
        if (Coordinators.Count == 0)
        {
            if (HasCoordinators) Coordinators.Add(new(this, $"coordinator {++_names}"));
            return;
        }

        Coordinators.RemoveAll(c => c.IsDead);
        for (int n = Random.Next(1, 12); n > 0 && _reports.Count > 0; n--)
        {
            int i = Dice(3) ? Random.Next(_reports.Count) : 0;
            (VersionReport report, long epoch) = _reports[i];
            _reports.RemoveAt(i);
            if (Settings.Faults && Dice(12))
            {
                Count("report lost");
                continue;
            }

            foreach (Coordinator c in Coordinators) c.Hear(report, epoch);
        }

        foreach (Coordinator c in Coordinators.ToArray())
            for (int n = 0; n < 4; n++) c.StepTask(Random);
    }

    private void StartMissing()
    {
        foreach (ShardHost host in Hosts)
            if (host.Proxies.Count == 0 && MayStart(host)) StartProxy(host);
    }
}
