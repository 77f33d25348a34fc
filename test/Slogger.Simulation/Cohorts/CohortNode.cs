// A node: what its disk keeps, what is in memory, and the driver of the machines.
using System.Collections.Immutable;
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Cohorts;

/// <summary>A version in a log, or the record that begins a reign.</summary>
/// <param name="Reign">In which it was made.</param>
/// <param name="Id">Unique: two logs that hold it at one place agree on it.</param>
internal readonly record struct CohortEntry(Reign Reign, long Id);

internal sealed class CohortNode
{
    /// <summary>A log.</summary>
    private sealed record Log(ImmutableArray<CohortEntry> Entries)
    {
        public LogIndex Index => UpTo(Entries.Length);

        public LogIndex UpTo(int count) => count == 0 ? default
            : new(s_line, count, new VersionNumber(count)) { Reign = Entries[count - 1].Reign };

        public int Common(ReadOnlySpan<CohortEntry> other) => Entries.AsSpan().CommonPrefixLength(other);
    }

    private static readonly WorldLine s_line = new(1);
    private readonly CohortWorld _world;
    private readonly double _rate;              // of its clock
    private readonly long _offsetUs;
    private readonly Queue<Action> _waiting = [];

    // What its disk keeps.
    private Ballot _ballot;
    private Log _disk = new([]);
    private long _diskUs = 1_000;

    // What is in memory.
    private Log _log = new([]);
    private Election? _election;
    private LeaderLease? _lease;
    private CommitRule? _rule;
    private int _commit;                        // that it knows of
    private long _echoUs;                       // of its leader
    private Ask _asked;
    private bool _isSyncing;
    private bool _isStopped;
    private long _life;                         // counts its processes

    public CohortNode(CohortWorld world, int index, NodeName name)
    {
        (_world, Index, Name) = (world, index, name);
        // Two clocks run apart by no more than the options say.
        _rate = 1 + ((world.Random.NextDouble() - 0.5) * world.Options.DriftPpm / 1_000_000);
        _offsetUs = world.Random.Next(1_000_000_000);
    }

    public int Index { get; }

    public NodeName Name { get; }

    public bool Leads => _election?.State == ElectionState.Leads;

    public bool IsAlive => _election is not null;

    /// <summary>When it heard a leader last, by its clock, in whatever life; and in which reign.</summary>
    public (long AtUs, Reign Reign)? HeardLast { get; private set; }

    public long ClockUs => _offsetUs + (long)(_world.NowUs * _rate);

    public override string ToString() => _election is null ? $"{Name} is dead"
        : $"{Name} {_election.State} in reign {_election.Reign}, promised {_ballot.Promised}, log {_disk.Index}/{_log.Index}, "
            + $"commit {_commit}";

    /// <summary>A process begins.</summary>
    public void Start()
    {
        _life++;
        _log = _disk;
        (_lease, _rule, _commit, _echoUs, _isSyncing, _isStopped) = (null, null, 0, 0, false, false);
        _waiting.Clear();
        _election = new(Name, _world.Cohort, _ballot, ClockUs, _world.Options, most => _world.Random.NextInt64(Math.Max(1, most)),
            _world.Settings.Mutation);
        Turn(_life);
    }

    /// <summary>kill -9, with the machine: what is not synced is gone. It starts again some time.</summary>
    public void Kill()
    {
        if (!IsAlive) { return; }
        _world.Count("killed");
        _world.Note(this, "is killed");
        _election = null;
        _life++;
        _world.After(_world.Random.Next(10) == 0 ? 1_000_000 : 1_000 + _world.Random.Next(200_000), () =>
        {
            if (!IsAlive) { Start(); }
        });
    }

    /// <summary>It does nothing for a while, as with SIGSTOP; its clock goes on.</summary>
    public void Stop(long forUs)
    {
        if (_isStopped || !IsAlive) { return; }
        _world.Count("stopped");
        _isStopped = true;
        long life = _life;
        _world.After(forUs, () =>
        {
            if (life == _life) { GoOn(); }
        });
    }

    public void SlowDisk(long us)
    {
        long before = _diskUs;
        _diskUs = us;
        _world.After(500_000, () => _diskUs = Math.Min(before, 5_000));
    }

    /// <summary>All is well from now on.</summary>
    public void Revive()
    {
        _diskUs = 1_000;
        if (!IsAlive) { Start(); } else if (_isStopped) { GoOn(); }
    }

    /// <summary>Does something as this process, later if it is stopped.</summary>
    public void Do(Action action)
    {
        if (!IsAlive) { return; }
        if (_isStopped) { _waiting.Enqueue(action); } else { action(); }
    }

    /// <summary>It ends its reign, and asks the follower with the newest log to lead.</summary>
    public void HandOver()
    {
        if (!Leads || _isStopped) { return; }
        NodeName to = _world.Cohort.Voters.Where(n => n != Name).MaxBy(n => _rule!.DurableOf(n) ?? default);
        _world.Count("handed over");
        _election!.HandOver(ClockUs, to);
        Perform();
    }

    private void GoOn()
    {
        _isStopped = false;
        while (_waiting.TryDequeue(out Action? action) && IsAlive && !_isStopped) { action(); }
    }

    private NodeView View => new(_log.Index, StoreFollows: true, IsBehind: false);

    // The node's own time: each few milliseconds, and by itself.
    private void Turn(long life)
    {
        if (life != _life || !IsAlive) { return; }
        Do(() =>
        {
            if (life != _life) { return; }
            _election!.Tick(ClockUs, View);
            Perform();
            if (Leads) { Lead(); }
        });
        _world.After(1_000 + _world.Random.Next(8_000), () => Turn(life));
    }

    private void Lead()
    {
        _election!.Leased(ClockUs, _lease!);
        Perform();
        if (!Leads) { return; }
        if (_world.Random.Next(2) == 0) { Append(); }
        if (_world.Random.Next(4) == 0) { Read(); }
        Beat();
    }

    private void Append()
    {
        _log = new(_log.Entries.Add(new(_election!.Reign, _world.Checks.NextId())));
        Sync();
    }

    private void Beat()
    {
        var beat = (_election!.Reign, Log: _log.Entries, Commit: _commit, SentUs: ClockUs);
        foreach (CohortNode other in _world.Nodes.Where(n => n != this))
        {
            _world.Send(this, other, to => to.OnBeat(this, beat.Reign, beat.Log, beat.Commit, beat.SentUs));
        }
    }

    // A strong read: the leader's store executes it now, and the reply is looked at some time later.
    private void Read()
    {
        Reign reign = _election!.Reign, newest = _world.Checks.NewestCommitted;
        long life = _life;
        _world.After(_world.Random.Next(10) == 0 ? _world.Random.Next(300_000) : _world.Random.Next(2_000), () => Do(() =>
        {
            if (life != _life || !Leads || _election!.Reign != reign || !_lease!.Holds(ClockUs)) { return; }
            _world.Count("strong reads");
            if (newest > reign)
            {
                throw new SimException(
                    $"R5: {Name} answers a read of reign {reign}, executed when reign {newest} had committed something.");
            }
        }));
    }

    private void Sync()
    {
        if (_isSyncing || _disk == _log) { return; }
        _isSyncing = true;
        long life = _life;
        Log log = _log;
        _world.After(100 + _world.Random.NextInt64(Math.Max(1, _diskUs)), () =>
        {
            if (life != _life) { return; }
            (_isSyncing, _disk) = (false, log);
            Do(OnDurable);
        });
    }

    private void OnDurable()
    {
        Sync();
        // What was made void meanwhile is not there to be durable.
        if (Leads) { Counts(Name, Durable); }
        else if (_election!.Leader is { } leader && leader != Name) { Acknowledge(leader, _election.Reign); }
    }

    // So much of its log its disk has.
    private LogIndex Durable => _disk.UpTo(_disk.Common(_log.Entries.AsSpan()));

    // Both carry all that there is to say, so a later one makes up for one that was lost.
    private void Acknowledge(NodeName leader, Reign reign)
    {
        LogIndex durable = Durable;
        long echo = _echoUs;
        CohortNode to = _world.Nodes.First(n => n.Name == leader);
        _world.Send(this, to, node => node.OnAcknowledged(Name, reign, durable, echo));
    }

    private void OnAcknowledged(NodeName from, Reign reign, LogIndex durable, long echoUs)
    {
        if (!Leads || _election!.Reign != reign) { return; }
        _lease!.Echoed(from, echoUs, ClockUs);
        Counts(from, durable);
    }

    private void Counts(NodeName node, LogIndex durable)
    {
        if (!_rule!.Durable(node, durable)) { return; }
        _commit = (int)_rule.Commit!.Value.Offset;
        _world.Checks.OnCommitted(this, _log.Entries.AsSpan()[.._commit], _election!.Reign);
    }

    private void OnBeat(CohortNode from, Reign reign, ImmutableArray<CohortEntry> log, int commit, long sentUs)
    {
        Reign before = _election!.Reign;
        if (!_election.Heard(ClockUs, reign, from.Name))
        {
            Reign promised = _ballot.Promised;
            _world.Send(this, from, node => node.OnRefused(promised));
            return;
        }
        HeardLast = (ClockUs, reign);
        if (!Perform()) { return; }
        if (before != reign) { _echoUs = 0; }
        _echoUs = Math.Max(_echoUs, sentUs);
        Take(log);
        // Its commit is of the log that it sent: an older message knows less.
        _commit = Math.Max(_commit, Math.Min(commit, _log.Common(log.AsSpan())));
        Acknowledge(from.Name, reign);
        Sync();
    }

    private void OnRefused(Reign promised)
    {
        _election!.Refused(ClockUs, promised);
        Perform();
    }

    // This log becomes as the leader's: what it has otherwise is void. An older message of the same leader has less.
    private void Take(ImmutableArray<CohortEntry> log)
    {
        int common = _log.Common(log.AsSpan());
        if (common == log.Length) { return; }
        // A piece of it.
        log = log[..Math.Min(log.Length, common + 1 + _world.Random.Next(8))];
        if (_commit > common) { throw new SimException($"R4: {Name} has executed {_commit} versions, and {common} of them are kept."); }
        if (common < _log.Entries.Length) { _world.Count("made void"); }
        _log = new(log);
    }

    /// <summary>Performs what the election asks for, in order. False: the process died in between.</summary>
    private bool Perform()
    {
        bool forgets = _world.Settings.Mutation == CohortMutation.PromiseNotDurable;
        foreach (ElectionEffect effect in _election!.TakeEffects())
        {
            switch (effect)
            {
                case ElectionEffect.Promise promise:
                    _world.Checks.OnPromise(this, promise.Ballot);
                    if (!forgets) { _ballot = promise.Ballot; }
                    // Dies behind it, before anything is said.
                    if (_world.IsTrouble && _world.Random.Next(50) == 0 && !forgets)
                    {
                        Kill();
                        return false;
                    }
                    break;
                case ElectionEffect.SendAsk ask:
                    if (!ask.Ask.IsPre) { _world.Checks.OnStands(this, ask.Ask); }
                    foreach (CohortNode other in _world.Nodes.Where(n => n != this))
                    {
                        _world.Send(this, other, to => to.OnAsk(ask.Ask));
                    }
                    break;
                case ElectionEffect.SendVote vote:
                    if (vote.Vote.IsYes) { _world.Checks.OnVotes(this, _asked); }
                    _world.Send(this, _world.Nodes.First(n => n.Name == vote.To), to => to.OnVote(vote.Vote));
                    break;
                case ElectionEffect.SendLead lead:
                    _world.Send(this, _world.Nodes.First(n => n.Name == lead.To), to => to.OnLead(lead.Lead));
                    break;
                case ElectionEffect.Begin begin:
                    Begin(begin.Reign);
                    break;
                case ElectionEffect.StepDown:
                    _world.Count("stepped down");
                    (_lease, _rule) = (null, null);
                    break;
            }
            _world.Note(this, $"{effect}");
        }
        return true;
    }

    private void Begin(Reign reign)
    {
        _world.Count("reigns");
        _world.Checks.OnBegins(this, reign, _log.Entries.AsSpan());
        _lease = new(Name, _world.Cohort, _world.Options.LeaseUs, ClockUs, _world.Settings.Mutation);
        _rule = new(reign, _world.Cohort, _world.Settings.Mutation);
        // Its record.
        Append();
        Beat();
    }

    private void OnAsk(Ask ask)
    {
        _election!.Asked(ClockUs, ask, _log.Index);
        _asked = ask;
        Perform();
        Ends(ask.Ends);
    }

    private void OnVote(Vote vote)
    {
        _election!.Voted(ClockUs, vote, View);
        Perform();
    }

    private void OnLead(Lead lead)
    {
        Ends(lead.Ends);
        _election!.LeadTold(ClockUs, lead, _log.Index);
        Perform();
    }

    // The leader's own word: what was granted to it is over.
    private void Ends(Reign reign)
    {
        if (HeardLast is { } heard && heard.Reign <= reign) { HeardLast = null; }
    }

    /// <summary>How much of the beginning of a log its disk has.</summary>
    public int DurableOf(ReadOnlySpan<CohortEntry> log) => _disk.Common(log);
}
