// One node's part in electing the leader of its cohort. Pure: driven by the node's process in the product, and by the simulator.
//
// Rules (design, replicated shards, 4.4; from Raft, with leases)
// - Who hears a leader grants it a time: until that is over it votes for nobody and does not stand (R9). Grants are in memory only, so a
//   node that starts waits as if it had granted just before.
// - A grant is over before its time only by the leader's own word: it has asked another node to lead (Lead), and the candidate names the
//   reign that ends.
// - Nodes stand one after the other, in the order of their names: each leaves the time of a vote to those before it.
// - A node asks first whether it would be elected (pre-vote). That promises nothing, so a node that is cut off disturbs nobody. It asks a
//   little before its grant is over, and is told when those of the others are: when all are it stands at once.
// - A voter votes for a candidate whose log ends nowhere before its own, once in a reign, and never below its promise. A leader that has
//   handed over votes for who has all that it has counted as committed; with its word, if it knows that the other one has.
// - A node that has lost what it had, or is new, only learns: it neither votes nor stands. But a cohort has to begin: for a candidate whose
//   log has no reign all members have to vote, and those that learn may. No log has a reign then, so no cohort has committed anything that
//   is lost by that. If the shard had a process of its own before, its log wins: it is the newest. Whoever has voted so learns until it
//   is told that the cohort began so: the others may have refused, since they have what this node has lost.
// - A leader that has had no lease for some time says nothing more: followers that hear it, and are not heard, could else never elect.
//
// Contract with the driver
// - Calls are serialised. After each call the driver takes the effects, and performs them in their order; a Promise is durable before
//   anything behind it is done.
// - Times are of a clock that counts the time in which the machine sleeps.
// - The answer to what a node asks is given to the life of it that asked, and to no later one: that may have lost what it asked with.
// - A message of a leader is given to Heard before anything else is done with it: if that says no, nothing of it is used.
using Slogger.Core.Identities;
using Slogger.Core.Replication;

namespace Slogger.Core.Cohorts;

/// <summary>What a node does.</summary>
public enum ElectionState
{
    /// <summary>It follows a leader, or waits for one.</summary>
    Follows,

    /// <summary>It asks whether it would be elected.</summary>
    Asks,

    /// <summary>It asks for votes.</summary>
    Stands,

    /// <summary>It leads.</summary>
    Leads,
}

/// <summary>The node, when it may have to stand.</summary>
/// <param name="Last">The last version that its log has closed.</param>
/// <param name="StoreFollows">Whether its store could serve soon.</param>
public readonly record struct NodeView(LogIndex Last, bool StoreFollows);

/// <summary>The election, at one node. Not thread-safe. Source: design, replicated shards, 4.4.</summary>
public sealed class Election
{
    private readonly NodeName _self;
    private readonly ElectionOptions _options;
    private readonly Func<long, long> _jitter;
    private readonly CohortMutation _mutation;
    private readonly HashSet<NodeName> _yes = [];
    private List<ElectionEffect> _effects = [];
    private Reign _highest;             // ever heard of: the next candidate's reign is above it
    private Reign _round;               // that it asks about
    private (Reign Reign, LogIndex Commit)? _ended;     // by this leader's own word; nobody was told of anything beyond its commit
    private Reign _ends;                // whose leader has asked this node to lead
    private Cohort? _members;           // of the reign that begins by its word; null: as they are
    private bool _areSettled;           // the replies of the reign that ends
    private bool _isFounding;           // the log that it asks with has no reign: all have to vote, whatever the log has by then
    private long _grantUntilUs;
    private long _standAtUs = long.MaxValue;
    private long _roundUntilUs;

    /// <summary>A node starts.</summary>
    /// <param name="self">Its name.</param>
    /// <param name="cohort">Who votes, if the ballot does not say.</param>
    /// <param name="ballot">What it has promised, as its disk says.</param>
    /// <param name="nowUs">The clock.</param>
    /// <param name="options">Times.</param>
    /// <param name="jitter">A random number from 0 to the given one, exclusive.</param>
    public Election(NodeName self, Cohort cohort, Ballot ballot, long nowUs, ElectionOptions options, Func<long, long> jitter)
        : this(self, cohort, ballot, nowUs, options, jitter, CohortMutation.None)
    {
    }

    internal Election(NodeName self, Cohort cohort, Ballot ballot, long nowUs, ElectionOptions options, Func<long, long> jitter,
        CohortMutation mutation)
    {
        (_self, Cohort, Ballot, _highest, _options, _jitter, _mutation) = (self, ballot.Members ?? cohort, ballot, ballot.Promised,
            options, jitter, mutation);
        // Of a cohort that nobody has ever led nothing was granted.
        bool waits = ballot.Promised != Reign.None && mutation != CohortMutation.NoWaitAtStart;
        _grantUntilUs = waits ? nowUs + GrantUs : nowUs;
    }

    /// <summary>What it does.</summary>
    public ElectionState State { get; private set; }

    /// <summary>What it has promised.</summary>
    public Ballot Ballot { get; private set; }

    /// <summary>Who votes, as the leader says that this node leads as, or has obeyed last.</summary>
    public Cohort Cohort { get; private set; }

    /// <summary>Whom it has heard last; null: nobody.</summary>
    public NodeName? Leader { get; private set; }

    /// <summary>The reign that it leads, or follows.</summary>
    public Reign Reign { get; private set; }

    /// <summary>Whether it may stand, and lead if it is asked to. Else it only votes.</summary>
    public bool MayStand { get; set; } = true;

    /// <summary>Until then it votes for nobody, and does not stand.</summary>
    public long GrantUntilUs => _grantUntilUs;

    private bool Learns => Ballot.Learns && _mutation != CohortMutation.LossForgotten;

    private long GrantUs => _mutation == CohortMutation.NoDrift ? _options.LeaseUs : _options.GrantUs;

    /// <summary>What is to be done, in this order. They are taken once.</summary>
    public IReadOnlyList<ElectionEffect> TakeEffects()
    {
        if (_effects.Count == 0) { return []; }
        List<ElectionEffect> effects = _effects;
        _effects = [];
        return effects;
    }

    /// <summary>Time has passed.</summary>
    /// <returns>When this is to be called again, at the latest.</returns>
    public long Tick(long nowUs, in NodeView view)
    {
        if (State == ElectionState.Leads || !MayStand || !Cohort.Has(_self)) { return long.MaxValue; }
        if (State == ElectionState.Asks) { Count(nowUs, view.Last); }
        if (State == ElectionState.Leads) { return long.MaxValue; }
        if (State != ElectionState.Follows)
        {
            if (nowUs < _roundUntilUs) { return NextOfRound(nowUs); }
            Rest(nowUs, view);
        }
        if (_standAtUs == long.MaxValue) { Rest(nowUs, view); }
        if (nowUs < _standAtUs - _options.AheadUs) { return _standAtUs - _options.AheadUs; }
        if (Learns && view.Last != default) { return long.MaxValue; }
        BeginRound(nowUs, view.Last);
        return NextOfRound(nowUs);
    }

    /// <summary>A message of a leader has come.</summary>
    /// <param name="nowUs">The clock, when it was received.</param>
    /// <param name="reign">Its reign.</param>
    /// <param name="leader">Who.</param>
    /// <param name="members">Whom it names as the members of its reign. Its first message to this node has to: before that nothing of the
    /// reign is acknowledged. Null: the message does not say.</param>
    /// <returns>False: its reign is over. It is answered with <see cref="Ballot"/>'s promise, and nothing of it is used.</returns>
    /// <exception cref="BrokenInvariantException">R1: two nodes lead one reign.</exception>
    public bool Heard(long nowUs, Reign reign, NodeName leader, Cohort? members = null)
    {
        // In no reign speaks who only tries the way (CohortPeers).
        if (reign == Reign.None || (reign < Ballot.Promised && _mutation != CohortMutation.OldLeaderObeyed)) { return false; }
        if (reign == Reign && (State == ElectionState.Leads || (Leader is { } other && other != leader)))
        {
            throw new BrokenInvariantException($"R1: {leader} and {(State == ElectionState.Leads ? _self : Leader)} lead reign {reign}.");
        }
        Ballot obeys = reign > Ballot.Promised ? Ballot with { Promised = reign, For = leader, Founds = false } : Ballot;
        if (BeganWithThis(members?.Founded, leader)) { obeys = obeys with { Learns = false, Founds = false }; }
        if (members is not null)
        {
            Cohort = members;
            if (_mutation != CohortMutation.MembersForgotten) { obeys = obeys with { Members = members }; }
        }
        Promise(obeys);
        End(nowUs);
        (State, Reign, Leader, _standAtUs) = (ElectionState.Follows, reign, leader, long.MaxValue);
        _highest = Reign.Max(_highest, reign);
        _grantUntilUs = Math.Max(_grantUntilUs, nowUs + GrantUs);
        return true;
    }

    /// <summary>A candidate asks.</summary>
    /// <param name="nowUs">The clock.</param>
    /// <param name="ask">What it asks.</param>
    /// <param name="last">The last version that this node's log has closed.</param>
    public void Asked(long nowUs, in Ask ask, LogIndex last)
    {
        // Whether this node is a member the candidate knows, and counts: this one may have yet to hear of it.
        if (ask.From == _self) { return; }
        _highest = Reign.Max(_highest, ask.IsPre ? Reign.None : ask.Reign);
        bool mayEnd = (ask.Ends != Reign.None && ask.Ends == Reign) || _mutation == CohortMutation.GrantIgnored;
        long grantedUs = mayEnd ? 0 : Math.Max(nowUs, _grantUntilUs) - nowUs;
        bool isGranted = grantedUs > (ask.IsPre ? _options.AheadUs : 0);
        bool isNewEnough = _mutation switch
        {
            CohortMutation.AnyLogWins => true,
            CohortMutation.LongestLogWins => ask.Last.Offset >= last.Offset,
            _ => ask.Last >= last,
        };
        // Nobody counts any more what this leader did not, as long as its log is of no later reign.
        isNewEnough |= _ended is { } ended && ask.Ends == ended.Reign && last.Reign == ended.Reign
            && (ask.Last >= ended.Commit || _mutation == CohortMutation.AnyLogIsHandedTo);
        bool mayPromise = ask.IsPre ? ask.Reign > Ballot.Promised : Ballot.MayPromise(ask.Reign, ask.From);
        // A vote that came before what this node has lost since founds nothing.
        bool founds = Learns && Founds(ask.Last) && (ask.Reign > Ballot.Promised || Ballot.Founds);
        bool hasFounded = BeganWithThis(ask.Founded, ask.From);
        // Who stands, or leads without a log as yet, may be the founder: else those that vote for another one forget that.
        bool mayBegin = !ask.IsPre || !Founds(ask.Last) || State is not (ElectionState.Stands or ElectionState.Leads);
        bool mayVote = mayBegin && (!Learns || founds || hasFounded);
        bool yes = !isGranted && isNewEnough && mayVote && (mayPromise || _mutation == CohortMutation.PromiseIgnored);
        if (yes && !ask.IsPre)
        {
            End(nowUs);
            Promise(Ballot with { Promised = ask.Reign, For = ask.From, Learns = Ballot.Learns && !hasFounded, Founds = founds && !hasFounded });
            // Nobody else founds the cohort before this one has been heard.
            if (founds) { _grantUntilUs = Math.Max(_grantUntilUs, nowUs + GrantUs); }
            // Its time to be elected, and to be heard.
            (State, _standAtUs) = (ElectionState.Follows, (founds ? _grantUntilUs : nowUs + _options.RoundUs) + TurnUs);
        }
        _effects.Add(new ElectionEffect.SendVote(ask.From, new(_self, ask.Reign, ask.IsPre, yes, Ballot.Promised,
            yes ? grantedUs : 0)));
    }

    /// <summary>An answer has come.</summary>
    public void Voted(long nowUs, in Vote vote, in NodeView view)
    {
        _highest = Reign.Max(_highest, vote.Promised);
        bool isOfThis = vote.Reign == _round
            && ((State == ElectionState.Asks && vote.IsPre) || (State == ElectionState.Stands && !vote.IsPre));
        if (!isOfThis || !Cohort.Has(vote.From)) { return; }
        if (!vote.IsYes)
        {
            // Another reign has begun, or is about to: this one cannot.
            if (vote.Promised >= _round) { Rest(nowUs, view); }
            return;
        }
        _yes.Add(vote.From);
        if (vote.IsPre) { _standAtUs = Math.Max(_standAtUs, nowUs + Math.Min(vote.GrantedUs, _options.AheadUs)); }
        Count(nowUs, view.Last);
    }

    /// <summary>The leader asks this node to lead.</summary>
    public void LeadTold(long nowUs, in Lead lead, LogIndex last)
    {
        if (State == ElectionState.Leads || !MayStand || lead.Ends != Reign || lead.From != Leader || Learns) { return; }
        // One that is to be a member may lead as its first: it has to be elected by those before.
        if (!(lead.Members ?? Cohort).Has(_self)) { return; }
        _grantUntilUs = nowUs;
        (_ends, _members, _areSettled) = (lead.Ends, lead.Members, lead.IsSettled);
        Reign next = NextReign, round = Reign.Max(next, lead.Votes);
        Stand(nowUs, round, last);
        if (round != lead.Votes || State != ElectionState.Stands) { return; }
        _yes.Add(lead.From);
        Count(nowUs, last);
    }

    /// <summary>Another node's promise is above this leader's reign: it will never answer it again.</summary>
    public void Refused(long nowUs, Reign promised)
    {
        _highest = Reign.Max(_highest, promised);
        if (State == ElectionState.Leads && promised > Reign) { End(nowUs); }
    }

    /// <summary>The leader's lease, at each turn. Until it has run out the leader votes for nobody. Without one for too long it steps
    /// down.</summary>
    public void Leased(long nowUs, LeaderLease lease)
    {
        if (State != ElectionState.Leads) { return; }
        _grantUntilUs = lease.UntilUs;
        if (!lease.Holds(nowUs) && nowUs - lease.LostSinceUs >= _options.SilentAfterUs && _mutation != CohortMutation.NeverSilent)
        {
            End(nowUs);
        }
    }

    /// <summary>This node has to learn the log anew: what it has is of no use to the leader, and is about to be deleted.</summary>
    public void BeginLearning() => Promise(Ballot with { Learns = true, Founds = false });

    /// <summary>This node has all that was committed: it votes again.</summary>
    public void Learned() => Promise(Ballot with { Learns = false, Founds = false });

    /// <summary>This leader ends its reign, by plan or because it cannot serve, and asks a follower to lead. It has given its lease back:
    /// no reply of this reign is let out any more.</summary>
    /// <param name="nowUs">The clock.</param>
    /// <param name="to">Who is to lead: the one whose log is nearest.</param>
    /// <param name="commit"><see cref="Cohorts.Leader.Commit"/>: this node votes for whoever has that, since what lies beyond nobody was told
    /// of. Null: nothing is known to be committed.</param>
    /// <param name="members">The members of the next reign, if they change: this one's with one more or one less
    /// (<see cref="Cohorts.Leader.MayChange"/>).</param>
    /// <param name="isSettled">Whether all that anybody was told in this reign, and before, is in <paramref name="commit"/>.</param>
    /// <param name="hasAll">Whether the other node is known to have <paramref name="commit"/> (<see cref="Cohorts.Leader.Has"/>): then it
    /// has this one's vote already.</param>
    public void HandOver(long nowUs, NodeName to, LogIndex? commit, Cohort? members = null, bool isSettled = false, bool hasAll = false)
    {
        if (State != ElectionState.Leads) { return; }
        Reign ends = Reign, votes = hasAll || _mutation == CohortMutation.AnyLogIsHandedTo ? NextReign : Reign.None;
        _ended = commit is { } told ? (ends, told) : null;
        if (_mutation != CohortMutation.GoesOnAfterLead) { End(nowUs); }
        _grantUntilUs = nowUs;
        if (votes != Reign.None) { Promise(Ballot with { Promised = votes, For = to }); }
        _effects.Add(new ElectionEffect.SendLead(to,
            new(_self, ends, members, isSettled || _mutation == CohortMutation.AlwaysSettled, votes)));
    }

    // No other reign that this node knows of is as high.
    private Reign NextReign => Reign.Max(_highest, Ballot.Promised).Next;

    private void BeginRound(long nowUs, LogIndex last)
    {
        // Whom the leader has asked goes on by its word, until there is another leader.
        (State, _round, _ends) = (ElectionState.Asks, NextReign, _ends == Reign ? _ends : Reign.None);
        _isFounding = Founds(last);
        _roundUntilUs = Math.Max(nowUs, _standAtUs) + _options.RoundUs;
        _yes.Clear();
        _yes.Add(_self);
        _effects.Add(new ElectionEffect.SendAsk(new(_self, _round, IsPre: true, last, _ends, Cohort.Founded)));
        Count(nowUs, last);
    }

    private void Stand(long nowUs, Reign reign, LogIndex last)
    {
        (State, _round, _isFounding) = (ElectionState.Stands, reign, Founds(last));
        _roundUntilUs = nowUs + _options.RoundUs;
        _yes.Clear();
        _yes.Add(_self);
        Promise(Ballot with { Promised = reign, For = _self, Founds = Learns && Founds(last) });
        _effects.Add(new ElectionEffect.SendAsk(new(_self, reign, IsPre: false, last, _ends, Cohort.Founded)));
        Count(nowUs, last);
    }

    private void Count(long nowUs, LogIndex last)
    {
        int needed = _isFounding && _mutation != CohortMutation.MinorityFounds ? Cohort.Voters.Length : Cohort.Majority;
        if (_yes.Count(Cohort.Has) < needed - (_mutation == CohortMutation.MinorityCounts ? 1 : 0)) { return; }
        if (State == ElectionState.Asks)
        {
            if (nowUs >= _standAtUs) { Stand(nowUs, _round, last); }
            return;
        }
        (State, Reign, Leader, _standAtUs) = (ElectionState.Leads, _round, _self, long.MaxValue);
        bool followsWord = _ends != Reign.None, losesNothing = followsWord && _areSettled && last.Reign == _ends;
        if (followsWord && _members is { } members) { Cohort = members; }
        if (_isFounding) { Cohort = Cohort.Begun(new(_round, _self)); }
        (_ends, _members, _areSettled) = (Reign.None, null, false);
        Promise(Ballot with { Members = Cohort, Learns = false, Founds = false });
        _effects.Add(new ElectionEffect.Begin(_round, losesNothing));
    }

    // Whether the cohort began by the vote that this node, which learns, has given.
    private bool BeganWithThis(Founding? founded, NodeName says) => Ballot.Founds && founded == new Founding(Ballot.Promised, Ballot.For)
        && (says == Ballot.For || _mutation != CohortMutation.FoundingNotPassedOn);

    // Whether a candidate with this log begins the cohort.
    private static bool Founds(LogIndex last) => last.Reign == Reign.None;

    // When something is to be done in a round, if nobody answers.
    private long NextOfRound(long nowUs) => State == ElectionState.Asks && nowUs < _standAtUs ? _standAtUs : _roundUntilUs;

    // Follows, and stands when its grant is over and its turn has come.
    private void Rest(long nowUs, in NodeView view)
    {
        State = ElectionState.Follows;
        long fromUs = _mutation == CohortMutation.GrantIgnored ? nowUs : Math.Max(nowUs, _grantUntilUs);
        _standAtUs = fromUs + TurnUs + (view.StoreFollows ? 0 : _options.StorelessUs);
    }

    // How long this node leaves it to others to stand. Those that hear their leader no more would else stand at the same time, and fail.
    private long TurnUs => _jitter(_options.JitterUs)
        + (Cohort.Voters.Count(n => n < _self && n != Leader) * _options.TurnUs);

    private void End(long nowUs)
    {
        if (State != ElectionState.Leads) { return; }
        _effects.Add(new ElectionEffect.StepDown(Reign));
        (State, Leader, _standAtUs) = (ElectionState.Follows, null, nowUs + _options.GrantUs);
    }

    private void Promise(Ballot ballot)
    {
        if (ballot == Ballot) { return; }
        Ballot = ballot;
        _highest = Reign.Max(_highest, ballot.Promised);
        _effects.Add(new ElectionEffect.Promise(ballot));
    }
}
