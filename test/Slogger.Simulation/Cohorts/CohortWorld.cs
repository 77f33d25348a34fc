// A cohort of nodes that elect a leader and replicate its log, in seeded cases: messages that are lost, late, doubled or cut off in one
// direction, processes that die or stop for a while, disks that are slow, clocks that run apart. The nodes run Slogger.Core's machines.
//
// A log is a list of versions, and a store is how far it has executed them. A node whose disk is lost has its log from the first version
// on.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;

namespace Slogger.Simulation.Cohorts;

/// <summary>One case.</summary>
internal sealed record CohortSettings
{
    public required int Seed { get; init; }

    /// <summary>How many nodes vote; 0: 3 or 5, by the seed.</summary>
    public int Nodes { get; init; }

    /// <summary>How long faults go on. Microseconds.</summary>
    public long TroubleUs { get; init; } = 3_000_000;

    public CohortMutation Mutation { get; init; }
}

/// <summary>A case as it runs. Times are the true ones, in microseconds, unless a name says otherwise.</summary>
internal sealed class CohortWorld
{
    private readonly PriorityQueue<Action, (long At, long Order)> _events = new();
    private readonly HashSet<(int From, int To)> _cut = [];
    private readonly List<string> _notes = [];
    private long _order;

    public CohortWorld(CohortSettings settings)
    {
        Settings = settings;
        Random = new(settings.Seed);
        int count = settings.Nodes > 0 ? settings.Nodes : Random.Next(4) == 0 ? 5 : 3;
        Cohort = new(Enumerable.Range(0, count).Select(i => new NodeName($"{(char)('a' + i)}")));
        Checks = new(this);
        // Of each third case the members change: two nodes wait to be some.
        IEnumerable<NodeName> spare = Changes ? [new("x"), new("y")] : [];
        Nodes = [.. Cohort.Voters.Concat(spare).Select((name, i) => new CohortNode(this, i, name))];
    }

    public CohortSettings Settings { get; }

    public Random Random { get; }

    public Cohort Cohort { get; }

    public ElectionOptions Options { get; } = new();

    public CohortChecks Checks { get; }

    public CohortNode[] Nodes { get; }

    /// <summary>The node that somebody has asked to add, or to remove; null: nobody has.</summary>
    public CohortNode? Changing { get; set; }

    public bool IsAdding { get; private set; }

    private bool Changes => Settings.Seed % 3 == 2;

    public long NowUs { get; private set; }

    /// <summary>Whether things go wrong yet.</summary>
    public bool IsTrouble { get; private set; } = true;

    /// <summary>How often each kind of thing happened.</summary>
    public SortedDictionary<string, long> Happened { get; } = new(StringComparer.Ordinal);

    public IReadOnlyList<string> Notes => _notes;

    public bool TakesNotes { get; init; }

    /// <summary>Runs the case: trouble, then a while in which a majority is well, and somebody has to lead.</summary>
    /// <exception cref="SimException">An invariant does not hold.</exception>
    public void Run()
    {
        foreach (CohortNode node in Nodes.Where(n => !Cohort.Has(n.Name))) { node.HasOnDisk([]); }
        if (Settings.Seed % 4 == 0) { HadOneProcess(); }
        foreach (CohortNode node in Nodes) { node.Start(); }
        After(Random.Next(50_000), Trouble);
        RunUntil(Settings.TroubleUs);
        IsTrouble = false;
        Heal();
        // A node that has just started waits, then asks, and may meet another that does. (R10: 2 T, and what the way there takes.)
        long deadline = NowUs + (6 * Options.GrantUs) + 500_000;
        long before = Checks.Committed;
        while (NowUs < deadline && Checks.Committed <= before + 20) { RunUntil(NowUs + 10_000); }
        if (Checks.Committed <= before + 20)
        {
            throw new SimException($"R10: nobody leads, although a majority is well: {string.Join("; ", Nodes.Select(n => n.ToString()))}");
        }
        Count("served again");
    }

    // The shard had a process of its own before, which has told clients what it has. Its directory is one node's now.
    private void HadOneProcess()
    {
        Count("had one process");
        CohortNode first = Nodes[Random.Next(Cohort.Voters.Length)];
        CohortEntry[] log = [.. Enumerable.Range(0, 1 + Random.Next(20)).Select(_ => new CohortEntry(Reign.None, Checks.NextId()))];
        foreach (CohortNode node in Nodes.Where(n => Cohort.Has(n.Name))) { node.HasOnDisk(node == first ? log : []); }
        Checks.OnToldBefore(log);
    }

    public void After(long delayUs, Action action) => _events.Enqueue(action, (NowUs + Math.Max(1, delayUs), _order++));

    /// <summary>Sends a message; it may be lost, late, or come twice. It goes over a connection to a process: if that has ended it is
    /// lost.</summary>
    /// <param name="from">Who sends it.</param>
    /// <param name="to">Who gets it.</param>
    /// <param name="deliver">What it does there.</param>
    /// <param name="ofLife">The process's life that it is for; null: the present one.</param>
    public void Send(CohortNode from, CohortNode to, Action<CohortNode> deliver, long? ofLife = null)
    {
        long life = ofLife ?? to.Life;
        int copies = IsTrouble ? Random.Next(50) switch { 0 => 0, 1 => 2, _ => 1 } : 1;
        for (int i = 0; i < copies; i++)
        {
            long delay = Random.Next(IsTrouble && Random.Next(40) == 0 ? 300_000 : 1_000) + 50;
            After(delay, () =>
            {
                // Cut off when it arrives: what was on its way is lost too.
                if (!_cut.Contains((from.Index, to.Index)) && life == to.Life) { to.Do(() => deliver(to)); }
            });
        }
    }

    public void Count(string what) => Happened[what] = Happened.GetValueOrDefault(what) + 1;

    public void Note(CohortNode node, string what)
    {
        if (TakesNotes) { _notes.Add($"{NowUs / 1000.0,10:0.000} ms  {node.Name}: {what}"); }
    }

    /// <summary>Nothing goes from one node to another any more.</summary>
    public void CutLink(int from, int to)
    {
        if (from != to) { _cut.Add((from, to)); }
    }

    private void RunUntil(long untilUs)
    {
        while (_events.TryPeek(out _, out (long At, long Order) next) && next.At <= untilUs)
        {
            Action action = _events.Dequeue();
            NowUs = next.At;
            action();
        }
        NowUs = Math.Max(NowUs, untilUs);
    }

    private void Trouble()
    {
        if (!IsTrouble) { return; }
        CohortNode node = Random.Next(2) == 0 ? Nodes.FirstOrDefault(n => n.Leads) ?? Any() : Any();
        switch (Random.Next(11))
        {
            case 10 when Changes:
                Change();
                break;
            // One at a time: a cohort of three stands the loss of one.
            case 10 when Nodes.All(n => !n.HasLost) && !Checks.IsAtOneNode:
                LoseDisk(node);
                break;
            case 0 or 1:
                node.Kill();
                break;
            case 2:
                node.Stop(Random.Next(400_000));
                break;
            case 3:
                CutOff(node, outward: true, inward: Random.Next(2) == 0);
                break;
            case 4:
                CutOff(node, outward: false, inward: true);
                break;
            case 5:
                CutApart(1 << node.Index | Random.Next(1 << Nodes.Length));
                break;
            case 6 or 7:
                _cut.Clear();
                break;
            case 8:
                node.HandOver();
                break;
            case 9 when node.Leads && Random.Next(2) == 0:
                SleepBeforeALateAck(node);
                break;
            default:
                node.SlowDisk(Random.Next(100_000));
                break;
        }
        After(Random.Next(2) == 0 ? Random.Next(20_000) : Random.Next(400_000), Trouble);
    }

    // A leader does it, or the next one.
    private void Change()
    {
        CohortNode node = Any();
        Cohort members = (Nodes.FirstOrDefault(n => n.Leads) ?? node).Members;
        IsAdding = !members.Has(node.Name);
        if (IsAdding || members.Voters.Length > 2) { Changing = node; }
    }

    // By itself, or when it matters: while the leader sleeps, or while the leader's own disk has not caught up and it is about to die.
    private void LoseDisk(CohortNode node)
    {
        CohortNode other = Nodes.FirstOrDefault(n => n.Leads && n != node) ?? Nodes.First(n => n != node);
        int how = Random.Next(3);
        if (how == 1) { other.Stop(100_000 + Random.Next(400_000)); }
        if (how == 2)
        {
            other.SlowDisk(200_000);
            After(Random.Next(150_000), () =>
            {
                if (IsTrouble) { other.Kill(); }
            });
        }
        After(how == 0 ? 1 : Random.Next(how == 1 ? 300_000 : 50_000), () =>
        {
            if (IsTrouble && Nodes.All(n => !n.HasLost) && !Checks.IsAtOneNode) { node.LoseDisk(); }
        });
    }

    // One follower alone has what the leader has just said, and makes it durable when another leader is about to be elected.
    private void SleepBeforeALateAck(CohortNode leader)
    {
        CohortNode[] others = [.. Nodes.Where(n => n != leader)];
        CohortNode syncs = others[Random.Next(others.Length)];
        foreach (CohortNode other in others.Where(n => n != syncs))
        {
            CutLink(leader.Index, other.Index);
            CutLink(other.Index, leader.Index);
        }
        syncs.SlowDisk(400_000);
        After(1 + Random.Next(20_000), () =>
        {
            if (IsTrouble) { leader.Stop(200_000 + Random.Next(300_000)); }
        });
        Count("late acks");
    }

    private CohortNode Any() => Nodes[Random.Next(Nodes.Length)];

    private void CutOff(CohortNode node, bool outward, bool inward)
    {
        foreach (CohortNode other in Nodes)
        {
            if (outward) { CutLink(node.Index, other.Index); }
            if (inward) { CutLink(other.Index, node.Index); }
        }
        Count("cut off");
    }

    // Some on one side, the others on the other.
    private void CutApart(int side)
    {
        foreach (CohortNode node in Nodes.Where(n => (side >> n.Index & 1) == 1))
        {
            foreach (CohortNode other in Nodes.Where(n => (side >> n.Index & 1) == 0))
            {
                CutLink(node.Index, other.Index);
                CutLink(other.Index, node.Index);
            }
        }
        Count("cut apart");
    }

    // All are well, or all but the leader: it hears nobody, and goes on talking (R10: one-way cuts included). A cohort that has yet to begin
    // needs all.
    private void Heal()
    {
        _cut.Clear();
        Changing = null;
        foreach (CohortNode node in Nodes) { node.Revive(); }
        if (Random.Next(2) == 0 && Checks.NewestCommitted != Reign.None && Nodes.All(n => !n.Learns || !Cohort.Has(n.Name))
            && Nodes.All(n => n.Members.Voters.Length > 2) && Nodes.FirstOrDefault(n => n.Leads) is { } leader)
        {
            CutOff(leader, outward: false, inward: true);
            Count("a deaf leader");
        }
    }
}
