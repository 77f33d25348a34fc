// A cluster that does what a scenario file says. Time stands still while something happens: all processes take turns until nothing changes
// any more, so it does not matter how many steps they need. Time passes in halves of a version, and stops in the middle of one.
using Slogger.Core.Cuts;
using Slogger.Simulation.Clients;
using Slogger.Simulation.Processes;
using Slogger.Simulation.Sites;

namespace Slogger.Simulation.Scenarios;

internal sealed partial class Story(int seed)
{
    private const long HalfUs = Cluster.IntervalUs / 2;
    private const int QuietTurns = 25;      // nothing has changed for so long: nothing will
    private const int TurnsMax = 2000;
    private const int VersionsMax = 400;
    private const long BeginsUs = 9 * Cluster.IntervalUs;

    private readonly HashSet<int> _storesHeld = [];
    private readonly HashSet<int> _answersHeld = [];                                 // sessions whose answers are held
    private readonly HashSet<int> _requestsHeld = [];                                // sessions whose requests are held
    private readonly List<(SessionLink Link, Batch Batch)> _requests = [];
    private readonly List<Late> _late = [];
    private readonly Dictionary<Op, string> _names = [];
    private SimSettings _settings = new()
    {
        Seed = seed, Scripted = true, Faults = false, Clocks = ClockKind.WithinBound, ClockErrorUs = 0,
        Moves = false, Members = false, InPlace = false, Backup = false,
    };

    private Cluster? _cluster;
    private StoryWords? _words;
    private bool _isFaulty;         // a rule is off: what the story waits for need not come
    private bool _tellsCuts = true;
    private long _beganUs;

    // A request to SQL that is late: its sender hears nothing, and what it asks for is done when the story says so. Or all of a kind,
    // which are lost.
    private sealed class Late(string what, Predicate<Process> isOf, bool isEach)
    {
        public string What => what;

        public bool IsEach => isEach;

        public SqlCall? Call { get; private set; }

        public bool Takes(SqlCall call)
        {
            if (call.What != what || !isOf(call.Caller) || (Call is not null && !isEach)) return false;
            Call = call;
            return true;
        }
    }

    private Cluster C => _cluster ?? throw new InvalidOperationException("there is no cluster yet");

    /// <summary>Switches a rule off.</summary>
    public void UseFault(Step step, string name)
    {
        _isFaulty = true;
        _settings = StoryFaults.With(_settings, name)
            ?? throw step.Error($"there is no fault {name}, or there are several: then say of what first, as in Ship.ToldForEver");
    }

    public void UseFinder(Step step, string name) =>
        _settings = Enum.TryParse(name, ignoreCase: true, out FinderKind kind) ? _settings with { Finder = kind }
            : throw step.Error($"there is no finder {name}");

    /// <summary>Does what a step says.</summary>
    /// <returns>What has happened, in words.</returns>
    public IReadOnlyList<string> Do(Step step)
    {
        Perform(step);
        if (_cluster is null) return [];
        Quieten();
        return _words!.News();
    }

    /// <summary>All goes on as usual, until everything is committed; with that the invariants are checked for the last time.</summary>
    public void End()
    {
        _storesHeld.Clear();
        _late.Clear();
        foreach ((SessionLink link, Batch batch) in _requests) link.ToProxy.Enqueue(batch);
        _requests.Clear();
        foreach (ProxyProcess p in C.Hosts.SelectMany(h => h.Proxies)) p.IsStreamHeld = p.IsSyncHeld = false;
        C.Backup?.FinishSwitch();
        if (C.Backup is { IsWanted: true, IsOver: false } site) site.Finish();
        if (C.Successor is { } next) next.Run();
        else if (!C.IsLost && C.Backup?.Refusal is null) C.Settle();
    }

    /// <summary>What an invariant says, with names of the story.</summary>
    public string InWords(string violation) => _words?.InWords(violation) ?? violation;

    private void Make(int shards)
    {
        _cluster = new(_settings with { Shards = shards });
        _beganUs = C.NowUs - HalfUs;
        _words = new(C, _names) { TellsCuts = _tellsCuts };
        while (C.NowUs < _beganUs + BeginsUs + HalfUs) PassHalf();
    }

    // ---- Time ----

    private void Pass(long us)
    {
        for (long untilUs = C.NowUs + us; C.NowUs < untilUs;) PassHalf();
    }

    private bool PassUntil(Func<bool> condition)
    {
        for (int n = 0; n < 2 * VersionsMax && !condition(); n++) PassHalf();
        while (condition() && (C.NowUs - _beganUs) % Cluster.IntervalUs != HalfUs) PassHalf();
        return condition();
    }

    // Somebody always waits for commits: idle shards close each version at its end, as they do when clients ask.
    private void PassHalf()
    {
        C.PassTime(HalfUs);
        foreach (ProxyProcess p in C.Hosts.SelectMany(h => h.Proxies).ToArray()) p.BeginToWait();
        Quieten();
    }

    // Until nothing changes.
    private void Quieten()
    {
        int quiet = 0, before = State();
        for (int turns = 0; quiet < QuietTurns && turns < TurnsMax; turns++)
        {
            Turn();
            int after = State();
            quiet = after == before ? quiet + 1 : 0;
            before = after;
        }
    }

    private void Turn()
    {
        C.NextTick();
        foreach (ShardHost host in C.Hosts)
        {
            foreach (ProxyProcess p in host.Proxies.ToArray())
            {
                for (int n = 0; n < 6; n++) p.Loop(C.Random);
                p.StepTasks();
                for (int n = 0; n < 40; n++) p.StreamOne();
                p.SyncSome(C.Random);
            }

            if (!_storesHeld.Contains(host.Number)) host.Store.ExecuteAll();
        }

        foreach (SqlCall call in C.Calls.ToArray())
        {
            if (_late.Exists(l => l.Takes(call))) call.Complete(null);
            else call.Complete(C.Sql.IsDown || call.Caller.CutOffUntil > C.Tick ? null : call.Answer ?? call.Apply());
        }

        C.Calls.Clear();
        if (C.HasCoordinators) C.CoordinatorTurn();
        foreach (Operator o in C.Operators.ToArray()) o.StepTasks();
        C.Operators.RemoveAll(o => o.IsDead);
        for (int n = 0; n < 10 && C.Backup is not null; n++, C.NextTick()) C.Backup.Turn();
        for (int i = 0; i < C.Sessions.Length; i++)
            if (!_answersHeld.Contains(i)) C.Sessions[i].ReceiveAll();
        foreach (PlainClient plain in C.Plains)
            while (plain.Receive()) { }
    }

    private int State()
    {
        HashCode state = default;
        state.Add(C.Sql.Cut);
        state.Add(C.Sql.Owners.Revision);
        state.Add(C.Sql.ClockGrid);
        state.Add(C.Sql.Proposal);
        foreach (SqlShard s in C.Sql.Shards) state.Add((s.Epoch, s.Claim, s.Entered, s.AgreedUs));
        foreach (ShardHost host in C.Hosts)
        {
            state.Add((host.Store.History.Count, host.Store.HistoryId, host.Log.Appended, host.Log.DurableIndex));
            state.Add((host.Proxies.Count, C.Sql.Members.States[host.Number]));
            foreach (ProxyProcess p in host.Proxies)
            {
                state.Add((p.Epoch, p.IsOpen));
                if (p.Machine is { } m) state.Add((m.OpenVersion, m.Committed, m.Durable, m.LastBoundary.Point, m.MarkerInFlight));
            }
        }

        foreach (SessionClient s in C.Sessions) state.Add((s.Session.Unanswered, s.Session.Committed, s.Session.WorldLine));
        foreach (PlainClient p in C.Plains)
            state.Add((p.Ops.Count, p.Ops.Count(o => o.Answered > 0), p.Link?.IsClosed, p.Link?.Progress.Committed));
        if (C.Backup is { } site)
            foreach (StreamHost s in site.Streams) state.Add((s.Log.Appended, s.Log.DurableIndex, s.Offset, s.At, site.Sql.State.Role));
        return state.ToHashCode();
    }
}
