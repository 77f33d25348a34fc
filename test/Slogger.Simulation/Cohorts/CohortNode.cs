// A node: what its disk keeps, what is in memory, and the driver of the machines.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;

namespace Slogger.Simulation.Cohorts;

internal sealed class CohortNode
{
    private static readonly ShipperOptions s_options = new() { PieceBytesMax = 8, HeartbeatUs = 10_000, ResendUs = 60_000, FewBytes = 1 };
    private readonly CohortWorld _world;
    private readonly double _rate;              // of its clock
    private readonly long _offsetUs;
    private readonly Queue<Action> _waiting = [];

    // What its disk keeps.
    private Ballot _ballot;
    private CohortLog _disk = CohortLog.Empty;
    private long _diskUs = 1_000;
    private CohortLog _lost = CohortLog.Empty;  // what it had before it lost its disk

    // What is in memory.
    private CohortLog _log = CohortLog.Empty;
    private Election? _election;
    private Follower? _follower;
    private Leader? _leads;
    private readonly Dictionary<CohortNode, (Shipper Machine, long Life)> _shippers = [];
    private Ask _asked;
    private long _askersLife;
    private bool _isSyncing;
    private bool _isStopped;
    private long _life;                         // counts its processes
    private long _reigns;                       // counts those that it has led: each has connections of its own

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

    /// <summary>The members, as far as it knows.</summary>
    public Cohort Members => _election?.Cohort ?? _ballot.Members ?? Configured;

    // A node that is to join names itself.
    private Cohort Configured => _world.Cohort.Has(Name) ? _world.Cohort : _world.Cohort.With(Name, "");

    public bool IsAlive => _election is not null;

    /// <summary>Counts its processes.</summary>
    public long Life => _life;

    /// <summary>When it heard a leader last, by its clock, in whatever life; and in which reign.</summary>
    public (long AtUs, Reign Reign)? HeardLast { get; private set; }

    public long ClockUs => _offsetUs + (long)(_world.NowUs * _rate);

    public override string ToString() => _election is null ? $"{Name} is dead"
        : $"{Name} {_election.State} in reign {_election.Reign}, promised {_ballot.Promised}, log {_disk.Index}/{_log.Index}, "
            + $"{(_ballot.Learns ? "learns" : "votes")}, of {Members}";

    /// <summary>Before it has ever started: the log of a shard that had no cohort, or nothing.</summary>
    public void HasOnDisk(CohortEntry[] log) => (_disk, _ballot) = (CohortLog.Empty.Add(log), new() { Learns = log.Length == 0 });

    /// <summary>A process begins.</summary>
    public void Start()
    {
        _life++;
        _log = _disk;
        (_leads, _isSyncing, _isStopped) = (null, false, false);
        _waiting.Clear();
        _shippers.Clear();
        Follow();
        _election = new(Name, Configured, _ballot, ClockUs, _world.Options, most => _world.Random.NextInt64(Math.Max(1, most)),
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

    /// <summary>kill -9, and its disk is lost: it starts with an empty one.</summary>
    public void LoseDisk()
    {
        if (!IsAlive) { return; }
        _world.Count("disks lost");
        _world.Note(this, "loses its disk");
        (_lost, _disk, _ballot, HasLost) = (_disk, CohortLog.Empty, new() { Learns = true }, true);
        _world.Checks.OnLost(this);
        HeardLast = null;
        Kill();
    }

    /// <summary>Whether it only learns.</summary>
    public bool Learns => _ballot.Learns;

    /// <summary>Whether it has lost what it had, and has yet to learn it.</summary>
    public bool HasLost { get; private set; }

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
        HandOver(null);
    }

    private void HandOver(Cohort? members)
    {
        NodeName[] others = [.. (members ?? Members).Voters.Where(n => n != Name)];
        if (others.Length == 0) { return; }
        NodeName to = _world.Random.Next(4) == 0 ? others[^1] : others.MaxBy(n => _leads!.DurableOf(n) ?? default);
        _world.Count(members is null ? "handed over" : members.Has(_world.Changing!.Name) ? "member added" : "member removed");
        _election!.HandOver(ClockUs, to, _leads!.Commit, members, isSettled: _leads.Commit?.Offset == _log.Index.Offset,
            hasAll: _leads.Has(to));
        Perform();
    }

    // Somebody has asked for another member, or for one less: the log is shipped to one that is to come.
    private void Change()
    {
        if (_world.Changing is not { } node) { return; }
        // The last one stays, as in the product.
        bool isLast = !_world.IsAdding && Members.Voters.Length == 1;
        if (isLast || _world.IsAdding == Members.Has(node.Name))
        {
            _world.Changing = null;
            return;
        }
        if (_world.IsAdding && !_shippers.ContainsKey(node)) { ShipTo(node); }
        Cohort next = _world.IsAdding ? Members.With(node.Name, "") : Members.Without(node.Name);
        if (_world.Settings.Mutation == CohortMutation.ChangesTwo && Members.Voters.Length > 3)
        {
            next = next.Without(next.Voters.First(n => n != Name && n != node.Name));
        }
        if (_leads!.MayChange(next)) { HandOver(next); }
    }

    private void GoOn()
    {
        _isStopped = false;
        while (_waiting.TryDequeue(out Action? action) && IsAlive && !_isStopped) { action(); }
    }

    private NodeView View => new(_disk.Index, StoreFollows: true);

    private void Follow()
    {
        _follower = new(new() { Shard = CohortLog.Shard, History = CohortLog.History, Lines = _disk.Lines },
            _world.Settings.Mutation) { Ballot = _ballot };
    }

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
        _election!.Leased(ClockUs, _leads!.Lease);
        Perform();
        if (!Leads) { return; }
        if (_world.Random.Next(2) == 0) { Append(); }
        if (_world.Random.Next(4) == 0) { Read(); }
        Ship();
        Change();
    }

    private void Append()
    {
        var entry = new CohortEntry(_election!.Reign, _world.Checks.NextId());
        _log = _log.Add(entry);
        // As with early replies. Nobody is served before the reign's record is committed.
        if (_leads!.Commit is not null && _leads.Lease.Holds(ClockUs)) { _world.Checks.OnTold(entry); }
        Sync();
    }

    private void Ship()
    {
        foreach ((CohortNode to, (Shipper machine, long _)) in _shippers)
        {
            machine.Appended(_log.Index);
            if (_leads!.Commit is { } commit) { machine.Synced(commit); }
            machine.Admits = _leads.Admits(to.Name);
            List<ShipperEffect> effects = [];
            machine.Tick(ClockUs, _log, effects);
            Say(to, effects);
        }
    }

    private void Say(CohortNode to, List<ShipperEffect> effects)
    {
        long reigns = _reigns;
        foreach (ShipRequest request in effects.OfType<ShipperEffect.Send>().Select(e => e.Request))
        {
            CohortLog log = _log;
            Cohort? members = request is ShipRequest.Hello ? Members : null;
            _world.Send(this, to, node => node.OnShipped(this, reigns, request, log, members));
        }
    }

    // A strong read: the leader's store executes it now, and the reply is looked at some time later.
    private void Read()
    {
        Reign reign = _election!.Reign, newest = _world.Checks.NewestCommitted;
        long life = _life;
        _world.After(_world.Random.Next(10) == 0 ? _world.Random.Next(300_000) : _world.Random.Next(2_000), () => Do(() =>
        {
            if (life != _life || !Leads || _election!.Reign != reign || !_leads!.Lease.Holds(ClockUs)) { return; }
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
        CohortLog log = _log;
        _world.After(100 + _world.Random.NextInt64(Math.Max(1, _diskUs)), () =>
        {
            if (life != _life) { return; }
            _isSyncing = false;
            Keep(log);
            Do(() =>
            {
                Sync();
                if (Leads) { Counts(_leads!.Synced(log.Index)); }
            });
        });
    }

    private void Counts(bool hasGrown)
    {
        if (!hasGrown) { return; }
        _world.Checks.OnCommitted(this, _log.Entries.AsSpan()[..(int)_leads!.Commit!.Value.Offset], _election!.Reign);
    }

    // ---- A follower ----

    private void OnShipped(CohortNode from, long itsReigns, ShipRequest request, CohortLog log, Cohort? members)
    {
        Reign reign = new(request.Sender.Epoch);
        if (!_election!.Heard(ClockUs, reign, from.Name, members))
        {
            Reign promised = _ballot.Promised;
            _world.Send(this, from, node => node.OnRefused(promised));
            return;
        }
        HeardLast = (ClockUs, reign);
        if (!Perform()) { return; }
        List<ReceiverEffect> effects = [];
        _follower!.Received(request, effects);
        Perform(from, itsReigns, log, effects);
    }

    private void Perform(CohortNode leader, long itsReigns, CohortLog log, List<ReceiverEffect> effects)
    {
        for (int i = 0; i < effects.Count; i++)
        {
            switch (effects[i])
            {
                case ReceiverEffect.Reply { Message: var reply }:
                    long own = _life;
                    _world.Send(this, leader, node => node.OnReplied(this, own, itsReigns, reply));
                    break;
                case ReceiverEffect.Append { Piece: { IsBranch: true } piece }:
                    _log = _log.Begin(new(piece.To.WorldLine, piece.To.Closed, piece.To.Offset) { Reign = piece.To.Reign });
                    // A new file, whose header is synced with all that lies before.
                    _disk = _log;
                    break;
                case ReceiverEffect.Append { Piece: var piece }:
                    _log = _log.Add(log.Entries.AsSpan()[(int)piece.From.Offset..(int)piece.To.Offset]);
                    break;
                case ReceiverEffect.Rewind { To: null }:
                    _disk = _log;
                    _follower!.Rewound(_log.Lines, effects);
                    break;
                case ReceiverEffect.Rewind { To: { } to }:
                    _world.Count("made void");
                    _disk = _log = _log.RewindTo(to);
                    _follower!.Rewound(_log.Lines, effects);
                    break;
                case ReceiverEffect.Sync:
                    SyncFor(leader, itsReigns);
                    break;
                case ReceiverEffect.Apply { To: var to }:
                    _world.Checks.OnExecuted(this, _log.Entries.AsSpan()[..(int)to.Version.Number]);
                    break;
                case ReceiverEffect.Learned:
                    _world.Count("learned");
                    _election!.Learned();
                    if (!Perform()) { return; }
                    break;
            }
        }
    }

    private void SyncFor(CohortNode leader, long itsReigns)
    {
        long life = _life;
        CohortLog log = _log;
        _world.After(100 + _world.Random.NextInt64(Math.Max(1, _diskUs)), () =>
        {
            if (life != _life) { return; }
            Keep(log);
            Do(() =>
            {
                List<ReceiverEffect> effects = [];
                _follower!.Synced(_disk.Lines.End, effects);
                Perform(leader, itsReigns, _log, effects);
            });
        });
    }

    // Unless it was rewound meanwhile, or more is durable by now.
    private void Keep(CohortLog log)
    {
        if (_log.Begins.AsSpan().StartsWith(log.Begins.AsSpan()) && _log.Entries.AsSpan().StartsWith(log.Entries.AsSpan())
            && log.Index > _disk.Index)
        {
            _disk = log;
        }
    }

    // ---- Its leader ----

    private void OnReplied(CohortNode from, long itsLife, long ownReigns, ShipReply reply)
    {
        if (!Leads || ownReigns != _reigns || new Reign(reply.Newest.Epoch) > _election!.Reign
            || !_shippers.TryGetValue(from, out (Shipper Machine, long Life) to) || itsLife < to.Life) { return; }
        bool isNews = itsLife > to.Life;
        if (isNews) { _shippers[from] = (to.Machine, itsLife); }
        List<ShipperEffect> effects = [];
        if (isNews)
        {
            to.Machine.Disconnected();
            to.Machine.Connected(ClockUs, effects);
            _leads!.Linked(from.Name);
        }
        to.Machine.Replied(reply, ClockUs, effects);
        Say(from, effects);
        if (isNews || reply.Newest.Epoch != _election.Reign.Number) { return; }
        Counts(_leads!.Replied(from.Name, reply, ClockUs));
    }

    private void OnRefused(Reign promised)
    {
        _election!.Refused(ClockUs, promised);
        Perform();
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
                    HasLost &= promise.Ballot.Learns;
                    if (!forgets) { _ballot = promise.Ballot; }
                    _follower!.Ballot = promise.Ballot;
                    // Dies behind it, before anything is said.
                    if (_world.IsTrouble && _world.Random.Next(50) == 0 && !forgets)
                    {
                        Kill();
                        return false;
                    }
                    break;
                case ElectionEffect.SendAsk ask:
                    if (!ask.Ask.IsPre) { _world.Checks.OnStands(this, ask.Ask); }
                    long life = _life;
                    foreach (CohortNode other in _world.Nodes.Where(n => n != this))
                    {
                        _world.Send(this, other, to => to.OnAsk(ask.Ask, life));
                    }
                    break;
                case ElectionEffect.SendVote vote:
                    if (vote.Vote.IsYes) { _world.Checks.OnVotes(this, _asked); }
                    CohortNode candidate = _world.Nodes.First(n => n.Name == vote.To);
                    // The answer to a call: it goes to the process that has called.
                    _world.Send(this, candidate, to => to.OnVote(vote.Vote), _askersLife);
                    // Its vote arrives, and it hears no more of whom it has elected.
                    if (vote.Vote is { IsYes: true, IsPre: false } && _world.IsTrouble && _world.Random.Next(8) == 0)
                    {
                        _world.CutLink(candidate.Index, Index);
                    }
                    break;
                case ElectionEffect.SendLead lead:
                    _world.Send(this, _world.Nodes.First(n => n.Name == lead.To), to => to.OnLead(lead.Lead));
                    break;
                case ElectionEffect.Begin begin:
                    Begin(begin.Reign, begin.LosesNothing);
                    break;
                case ElectionEffect.StepDown:
                    _world.Count("stepped down");
                    _leads = null;
                    _shippers.Clear();
                    Follow();
                    break;
            }
            _world.Note(this, $"{effect}");
        }
        return true;
    }

    private void Begin(Reign reign, bool losesNothing)
    {
        _world.Count("reigns");
        _reigns++;
        _world.Checks.OnBegins(this, reign, _log.Entries.AsSpan(), Members, losesNothing);
        _leads = new(Name, reign, Members, _world.Options.LeaseUs, ClockUs, _world.Settings.Mutation);
        // Its record: durable at once, with all that lies before.
        _disk = _log = _log.Begin(new(_log.Lines.End.WorldLine, _log.Lines.End.Closed, _log.Lines.End.Offset) { Reign = reign });
        foreach (CohortNode other in _world.Nodes.Where(n => n != this && Members.Has(n.Name))) { ShipTo(other); }
        Counts(_leads.Synced(_log.Index));
    }

    private void ShipTo(CohortNode other)
    {
        var machine = new Shipper(CohortLog.Shard, new Sender(default, _leads!.Reign.Number, _life), CohortLog.History,
            _log.Lines.Begins[1..], 0, _log.Index, default, s_options) { First = _log.Lines.Begins[0], Committed = default };
        _shippers[other] = (machine, -1);
        List<ShipperEffect> effects = [];
        machine.Connected(ClockUs, effects);
        Say(other, effects);
    }

    private void OnAsk(Ask ask, long askersLife)
    {
        _election!.Asked(ClockUs, ask, _disk.Index);
        (_asked, _askersLife) = (ask, askersLife);
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
        _election!.LeadTold(ClockUs, lead, _disk.Index);
        Perform();
    }

    // The leader's own word: what was granted to it is over.
    private void Ends(Reign reign)
    {
        if (HeardLast is { } heard && heard.Reign <= reign) { HeardLast = null; }
    }

    /// <summary>How much of the beginning of a log its disk has, or had.</summary>
    public int DurableOf(ReadOnlySpan<CohortEntry> log) => Math.Max(_disk.Common(log), _lost.Common(log));
}
