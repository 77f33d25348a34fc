// The invariants of a cohort (design, replicated shards, 12.1), checked as things happen on what is really in the logs.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;

namespace Slogger.Simulation.Cohorts;

internal sealed class CohortChecks(CohortWorld world)
{
    private readonly List<CohortEntry> _history = [];           // all that was ever committed
    private readonly List<Reign> _committedIn = [];
    private readonly Dictionary<Reign, NodeName> _leaders = [];
    private readonly Dictionary<Reign, Cohort> _members = [];
    private readonly Dictionary<(NodeName Voter, Reign Reign), NodeName> _votes = [];
    private readonly HashSet<CohortEntry> _told = [];           // with early replies, and not committed yet
    private readonly Dictionary<Reign, CohortEntry[]> _lines = [];      // the logs with which world-lines are to begin
    private long _ids;

    /// <summary>How many versions are committed.</summary>
    public long Committed => _history.Count;

    /// <summary>The newest reign that has committed anything.</summary>
    public Reign NewestCommitted { get; private set; }

    /// <summary>Nothing is committed by the cohort yet, and there is one copy of what was told before.</summary>
    public bool IsAtOneNode => Committed > 0 && NewestCommitted == Reign.None;

    public long NextId() => ++_ids;

    /// <summary>The shard had a process of its own, which has told clients that it has this.</summary>
    public void OnToldBefore(ReadOnlySpan<CohortEntry> log)
    {
        foreach (CohortEntry entry in log)
        {
            _history.Add(entry);
            _committedIn.Add(Reign.None);
        }
    }

    /// <summary>R1 and R3: a leader says that its log is committed up to here.</summary>
    public void OnCommitted(CohortNode leader, ReadOnlySpan<CohortEntry> log, Reign reign)
    {
        Cohort members = _members[reign];
        if (reign > NewestCommitted && NewestCommitted != Reign.None && members.Differences(_members[NewestCommitted]) > 1)
        {
            throw new SimException($"R12: reign {reign} commits with {members}, and reign {NewestCommitted} did with "
                + $"{_members[NewestCommitted]}.");
        }
        int have = 0;
        foreach (CohortNode node in world.Nodes)
        {
            have += members.Has(node.Name) && node.DurableOf(log) >= log.Length ? 1 : 0;
        }
        if (have < members.Majority)
        {
            throw new SimException($"R3: {leader.Name} counts {log.Length} versions as committed, and {have} nodes have them.");
        }
        for (int i = 0; i < log.Length; i++)
        {
            if (i == _history.Count)
            {
                _history.Add(log[i]);
                _committedIn.Add(reign);
                _told.Remove(log[i]);
            }
            else if (_history[i] != log[i])
            {
                throw new SimException($"R1: version {i + 1} is committed twice: {_history[i]} and {log[i]} by {leader.Name}.");
            }
        }
        // It has begun its world-line by now: everybody knows what is lost.
        if (_lines.Remove(reign, out CohortEntry[]? kept)) { _told.IntersectWith(kept); }
        NewestCommitted = Reign.Max(NewestCommitted, reign);
        world.Count("commits");
    }

    /// <summary>With early replies a leader tells of what it has executed.</summary>
    public void OnTold(CohortEntry entry) => _told.Add(entry);

    /// <summary>R2: who begins a reign has all that earlier ones have committed. R1: it leads the reign alone. One that was stopped may
    /// begin when a later one leads already; it can commit nothing. R13: who begins it without a world-line has all that was told.</summary>
    public void OnBegins(CohortNode leader, Reign reign, ReadOnlySpan<CohortEntry> log, Cohort members, bool losesNothing)
    {
        if (!losesNothing) { _lines[reign] = log.ToArray(); }
        else
        {
            world.Count("nothing lost");
            if (_told.Where(e => e.Reign < reign).Except(log.ToArray()).Any())
            {
                throw new SimException($"R13: {leader.Name} begins reign {reign} in the same world-line, and lacks what clients were told.");
            }
        }
        if (!_leaders.TryAdd(reign, leader.Name))
        {
            throw new SimException($"R1: {_leaders[reign]} and {leader.Name} lead reign {reign}.");
        }
        _members[reign] = members;
        for (int i = 0; i < _history.Count; i++)
        {
            if (_committedIn[i] < reign && (i >= log.Length || log[i] != _history[i]))
            {
                throw new SimException($"R2: {leader.Name} leads reign {reign} without version {i + 1}, which was committed.");
            }
        }
    }

    /// <summary>R4: a follower's store executes versions. Who has executed what is not committed would have to take it back.</summary>
    public void OnExecuted(CohortNode node, ReadOnlySpan<CohortEntry> log)
    {
        for (int i = 0; i < log.Length; i++)
        {
            if (i >= _history.Count || _history[i] != log[i])
            {
                throw new SimException($"R4: {node.Name} executes {log[i]} as version {i + 1}, which is not committed.");
            }
        }
    }

    /// <summary>A node has lost its disk, and with that what it has promised.</summary>
    public void OnLost(CohortNode node)
    {
        foreach ((NodeName, Reign) vote in _votes.Keys.Where(v => v.Voter == node.Name).ToList()) { _votes.Remove(vote); }
    }

    /// <summary>A node promises a reign to one node.</summary>
    public void OnPromise(CohortNode voter, Ballot ballot)
    {
        if (!_votes.TryAdd((voter.Name, ballot.Promised), ballot.For) && _votes[(voter.Name, ballot.Promised)] != ballot.For)
        {
            throw new SimException($"R1: {voter.Name} promises reign {ballot.Promised} to {ballot.For}, too.");
        }
    }

    /// <summary>R9: nobody votes while its grant runs.</summary>
    public void OnVotes(CohortNode voter, in Ask ask)
    {
        if (!ask.IsPre && IsGranted(voter, ask))
        {
            throw new SimException($"R9: {voter.Name} votes for {ask.From} while its grant runs.");
        }
    }

    /// <summary>R9: nobody stands while its grant runs.</summary>
    public void OnStands(CohortNode node, in Ask ask)
    {
        if (IsGranted(node, ask)) { throw new SimException($"R9: {node.Name} stands while its grant runs."); }
    }

    private bool IsGranted(CohortNode node, in Ask ask) =>
        node.HeardLast is { } heard && node.ClockUs < heard.AtUs + world.Options.GrantUs && ask.Ends < heard.Reign;
}
