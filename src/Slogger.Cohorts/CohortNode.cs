// The node of a cohort in one life of its shard: it follows, votes, may be elected, and leads until its reign is over. Performs what
// Election and Follower (Core) decide. Its thread (NodeThread) has both machines, the ballot and the log; who calls it, and what it calls,
// are CohortService, FollowerService and CohortPeers. What follows from its election does Takeover; how its reign ends by its own word,
// HandOver.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.FrontEnd;
using Slogger.Grpc.Server;
using Slogger.Log;
using Slogger.Log.Ballots;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Replication.Following;
using Slogger.Replication.Links;
using Slogger.Replication.Sending;
using Slogger.Sites.Access;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cohorts;

/// <summary>A node. The node's thread, if nothing else is said.</summary>
internal sealed class CohortNode : ICohort, IAsyncDisposable
{
    private const int BeatsInALease = 8, HeardInALease = 4;
    private const long HandOverTickUs = 1000;
    private readonly ServeOptions _options;
    private readonly SiteCredentials _credentials;
    private readonly ILogger _report;
    private readonly ElectionOptions _times;
    private readonly NodeThread _thread;
    private readonly CohortPeers _peers;
    private readonly CohortSeats _seats;
    private readonly FollowedLives _lives;
    private GrpcServer? _server;
    private IFollowingShard? _shard;
    private BallotFile? _ballot;
    private Election? _election;
    private Vote? _vote;                             // the answer to what was asked
    private Takeover? _takeover;                     // since it was elected
    private long _beatUs, _sinceUs;
    private volatile bool _hasSteppedDown;           // it has led, and does not any more
    private volatile bool _isStopping;
    private volatile NodeState _state;

    // For other threads.
    private sealed record NodeState(ElectionState Role, Reign Reign, NodeName? Leader, Cohort Members);

    /// <summary>Nothing listens yet.</summary>
    public CohortNode(ServeOptions options, SiteCredentials credentials, ILogger report)
    {
        (_options, _credentials, _report) = (options, credentials, report);
        _state = new(ElectionState.Follows, default, null, Options.Voters);
        _times = new() { LeaseUs = (long)Options.Lease.TotalMicroseconds };
        _thread = new(Tick, e => _shard!.OnIntakeFailed(e is LogException or IOException ? e.Message : e.ToString()));
        _peers = new(options, _times, credentials, _thread, report);
        _seats = new(options);
        _lives = new(this, _thread, options, report);
        HandingOver = new(this, _thread, _peers, Options.Lease, report);
        Changes = new(this, options);
    }

    /// <summary>The clock, which counts the time in which the machine sleeps. Any thread.</summary>
    public static long NowUs => LeaseClock.NowUs;

    // ---- What any thread may ask ----

    public CohortOptions Options => _options.Cohort!;

    public Cohort Members => _state.Members;

    public IReadOnlyList<(NodeName Node, IShipConnector Way)> Others => _peers.Ways;

    public CohortView Seats => _seats.View;

    public long? AgeUs => Life?.CurrentUs is { } currentUs ? NowUs - currentUs : null;

    /// <summary>How often this process has taken over from another leader.</summary>
    public int Takeovers { get; set; }

    /// <summary>The highest reign that this process has heard of: it never leads in a lower one.</summary>
    public Reign Highest { get; set; }

    /// <summary>Has commands of two sites served, by who leads (<see cref="SitePorts.Serve"/>); null: there are none.</summary>
    public Func<IPrimaryShard, IMetadataStore, CancellationToken, Task<IAsyncDisposable?>>? ServeSite { get; init; }

    /// <summary>The reign that the node leads; null: it leads none.</summary>
    public ICohortLead? Lead => _state.Role == ElectionState.Leads ? _shard?.Cohort?.Lead : null;

    public IEnumerable<(string Name, object Value)> Status
    {
        get
        {
            NodeState state = _state;
            ICohortLead? lead = Lead;
            yield return ("node", Options.Node);
            yield return ("node_role", RoleOf(state));
            yield return ("reign", state.Reign);
            yield return ("leader", state.Leader?.Text ?? "none");
            yield return ("commit_version", CommitOf(lead).Closed);
            if (lead is not null) { yield return ("lease", lead.MaySpeak ? "held" : "expired"); }
            yield return ("members", string.Join(',', state.Members.Voters));
            yield return ("takeovers", Takeovers);
            if (Life?.Problem is { } problem) { yield return ("failure", problem); }
        }
    }

    private LogIndex CommitOf(ICohortLead? lead) => lead is not null ? lead.Commit ?? default : Life?.Commit ?? default;

    private string RoleOf(NodeState state) => state.Role switch
    {
        ElectionState.Leads => "leads",
        ElectionState.Asks => "asks",
        ElectionState.Stands => "stands",
        _ => _election?.Ballot.Learns == true ? "learns" : "follows",
    };

    // ---- The start and the end: the shard's control task ----

    public async Task StartAsync(IFollowingShard shard, CancellationToken stop)
    {
        _shard = shard;
        _ballot = BallotFile.Open(shard.Log.Files, CohortDirectory.BallotOf(_options.DataDirectory), shard.Seat.Identity, shard.Seat.Shard,
            Options.Node);
        // A node that has a log, and no ballot, had no cohort before: nobody has ever been told what it has.
        Ballot ballot = _ballot.IsNew && shard.Log.IsEmpty ? _ballot.Ballot with { Learns = true } : _ballot.Ballot;
        _election = new(Options.Node, Options.Voters, ballot, NowUs, _times, Random.Shared.NextInt64);
        _state = _state with { Members = _election.Cohort };
        _peers.Are(Members);
        SayIfChanged();
        _election.Refused(NowUs, Highest);
        _sinceUs = NowUs;
        _lives.Begin(shard);
        _seats.Hears(Options.Node, shard.Seat.Address, follows: false);
        (GrpcServerOptions? at, ProxyExit? failed) = _credentials.ServerAt(Options.Self.Address);
        if (failed is not null) { throw new SiteException(failed); }
        _server = new GrpcServer(at!);
        new CohortService(this, _thread, _options).AddTo(_server);
        new FollowerService(this, _thread, ShipTerms.Of(_options)).AddTo(_server);
        await _server.StartAsync(stop).ConfigureAwait(false);
        _report.Info($"shard {_options.Shard}: node {Options.Node} of {Members.Voters.Length} listens at {_server.EndPoint}");
        _thread.Start();
    }

    public async Task WithLogAsync(Action change)
    {
        // While it leads the log is the shard's.
        if (Life is null)
        {
            change();
            return;
        }
        await _thread.DoAsync(() =>
        {
            change();
            return true;
        }).ConfigureAwait(false);
    }

    // What leads goes on to need the node.
    public async Task EndAsync()
    {
        if (Lead is not null && !_hasSteppedDown && !_isStopping) { return; }
        await StopAsync().ConfigureAwait(false);
    }

    public async ValueTask DisposeAsync()
    {
        _isStopping = true;
        await StopAsync().ConfigureAwait(false);
        _peers.Dispose();
        _thread.Dispose();
    }

    private async Task StopAsync()
    {
        if (_thread.Ending.IsCancellationRequested) { return; }
        await HandingOver.Asking.ConfigureAwait(false);
        await _thread.CancelAsync().ConfigureAwait(false);
        await _peers.Trying.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await EndAsync(_takeover, "its takeover").ConfigureAwait(false);
        await EndAsync(_server, "calls of other nodes").ConfigureAwait(false);
        _thread.Join();
        await EndAsync(Life, "its store").ConfigureAwait(false);
        _ballot?.Dispose();
    }

    private Task EndAsync(IAsyncDisposable? part, string name) => part is null ? Task.CompletedTask
        : part.DisposeAsync().AsTask().ToldAsync(_report, $"shard {_options.Shard}: the end of node {Options.Node} waits for {name}");

    // ---- The machine ----

    // When it is to be done again at the latest.
    private long Tick()
    {
        long nextUs = long.MaxValue;
        if (_election!.State == ElectionState.Leads)
        {
            Changes.Tick();
            HandingOver.Tick();
            // It may have handed over.
            if (_election.State != ElectionState.Leads) { return nextUs; }
            _shard!.Cohort!.Lead?.Look(lease => _election.Leased(NowUs, lease));
            long betweenUs = _times.LeaseUs / BeatsInALease;
            if (NowUs - _beatUs >= betweenUs) { Beat(); }
            nextUs = HandingOver.IsUnderWay ? NowUs + HandOverTickUs : _beatUs + betweenUs;
        }
        else
        {
            nextUs = _election.Tick(NowUs, View);
            if (_election.Leader is not null && Life is { HasLog: true }) { _peers.TryWays(NowUs, _shard!.Log.History); }
        }
        Perform();
        return nextUs;
    }

    private NodeView View => new(Last, _shard!.StoreFollows);

    // The last version that the log has closed, durably.
    private LogIndex Last => Life is { HasLog: false } || _shard!.Log.IsEmpty ? default : _shard.Log.DurableClosed;

    private void Perform()
    {
        foreach (ElectionEffect effect in _election!.TakeEffects())
        {
            switch (effect)
            {
                case ElectionEffect.Promise promise:
                    _ballot!.Write(promise.Ballot);
                    Life?.SetBallot(promise.Ballot);
                    break;
                case ElectionEffect.SendAsk ask:
                    _peers.Ask(ask.Ask, vote =>
                    {
                        _election.Voted(NowUs, vote, View);
                        Perform();
                    });
                    break;
                case ElectionEffect.SendVote vote:
                    _vote = vote.Vote;
                    break;
                case ElectionEffect.SendLead lead:
                    HandingOver.Ask(lead);
                    break;
                case ElectionEffect.Begin begin:
                    Begin(begin);
                    break;
                case ElectionEffect.StepDown down:
                    StepDown(down.Reign);
                    break;
            }
        }
        Show();
    }

    // What others are told: clients, and other threads.
    private void Show()
    {
        _seats.Hears(Options.Node, _shard!.Seat.Address, _election!.State == ElectionState.Leads || Follows);
        _seats.Leads(_hasSteppedDown ? null : _election.Leader, _election.Reign);
        NodeState before = _state;
        if (!before.Members.Equals(_election.Cohort))
        {
            _peers.Are(_election.Cohort);
            _seats.Are(_election.Cohort);
            if (before.Members.Differences(_election.Cohort) > 0)
            {
                _report.Info($"shard {_options.Shard}: the members are {_election.Cohort} now");
            }
        }
        else if (before.Role == _election.State && before.Reign == _election.Reign && before.Leader == _election.Leader) { return; }
        if (before.Leader != _election.Leader || before.Reign != _election.Reign) { _sinceUs = NowUs; }
        _state = new(_election.State, _election.Reign, _election.Leader, _election.Cohort);
        if (_election.Leader is { } leader && leader != before.Leader)
        {
            _report.Info($"shard {_options.Shard}: node {leader} leads, in reign {_election.Reign}");
            if (_hasSteppedDown) { HandingOver.Succeed(); }
        }
    }

    private bool Follows => _shard!.StoreFollows && !Ballot.Learns;

    // ---- Votes and beats ----

    /// <summary>Another node asks for this one's vote.</summary>
    public Vote Asked(Ask ask)
    {
        _vote = null;
        _election!.Asked(NowUs, ask, Last);
        Perform();
        return _vote ?? new(Options.Node, ask.Reign, ask.IsPre, IsYes: false, _election.Ballot.Promised);
    }

    /// <summary>A leader's beat.</summary>
    public V1.BeatReply Beaten(V1.BeatRequest beat, Cohort? members)
    {
        if (Heard(new(beat.Reign), new(beat.From.Node), members, out Reign promised)) { _seats.FromWire(beat.Nodes); }
        return new() { Promised = promised.Number, Learns = Ballot.Learns, Clients = _shard!.Seat.Address, Follows = Follows };
    }

    /// <summary>The leader asks this node to lead.</summary>
    public void LeadTold(Lead lead)
    {
        _election!.LeadTold(NowUs, lead, Last);
        Perform();
    }

    /// <summary>By these grids the leader's versions went.</summary>
    public void OnGrid(VersionGrid grid) => _shard!.OnGrid(grid);

    /// <summary>A message of a leader, which may name the members. False: its reign is over; the answer says which was promised.</summary>
    public bool Heard(Reign reign, NodeName from, Cohort? members, out Reign promised)
    {
        bool isHeard = _election!.Heard(NowUs, reign, from, members);
        promised = _election.Ballot.Promised;
        Perform();
        return isHeard;
    }

    // The node's thread beats itself: a leader whose node does nothing any more is none.
    private void Beat()
    {
        _beatUs = NowUs;
        Reign reign = _election!.Reign;
        var request = new Lazy<V1.BeatRequest>(() =>
        {
            var made = new V1.BeatRequest { From = CohortWire.Of(_options), Reign = reign.Number };
            made.Nodes.AddRange(_seats.ToWire());
            made.Members.AddRange(ShipWire.ToWire(_election.Cohort));
            made.Founded = ShipWire.ToWire(_election.Cohort.Founded);
            return made;
        });
        _peers.Beat(request, _beatUs, IsHeard, (node, sentUs, reply) =>
        {
            if (reply is null)
            {
                _thread.Post(() => _seats.Misses(node));
                return;
            }
            if (reply.Promised > reign.Number) { Refused(new(reply.Promised)); }
            else if (!reply.Learns) { _shard!.Cohort!.Lead?.Echoed(node, sentUs); }
            _thread.Post(() => _seats.Hears(node, reply.Clients, reply.Follows));
        });
    }

    // By what is shipped, since the last beat: that renews the lease as beats do.
    private bool IsHeard(NodeName node, long beatenUs)
    {
        bool isHeard = false;
        long sinceUs = Math.Max(beatenUs + 1, _beatUs - (_times.LeaseUs / HeardInALease));
        _shard!.Cohort!.Lead?.Look(lease => isHeard = lease.HasHeard(node, sinceUs));
        return isHeard;
    }

    // ---- Following ----

    /// <summary>What follows the leader; null: this node leads, or is between two lives.</summary>
    public FollowedLife? Life => _lives.Now;

    /// <summary>What the node has promised.</summary>
    public Ballot Ballot => _election!.Ballot;

    /// <summary>What the log holds is of no use to the leader, and is about to be deleted.</summary>
    public void BeginLearning()
    {
        _election!.BeginLearning();
        Perform();
    }

    /// <summary>The leader's node has admitted this one.</summary>
    public void OnLearned()
    {
        _election!.Learned();
        Perform();
        _report.Info($"shard {_options.Shard}: node {Options.Node} has all that was committed, and votes");
    }

    // ---- Leading ----

    private void Begin(ElectionEffect.Begin begin)
    {
        Reign reign = begin.Reign;
        _report.Info($"shard {_options.Shard}: node {Options.Node} is elected, and leads in reign {reign}");
        FollowedLife? life = _lives.End();
        // The members of this reign may be others.
        Show();
        _peers.BeginReign(_election!.Cohort);
        _shard!.Cohort!.BeginReign(reign);
        Beat();
        _takeover = new(this, _thread, _shard, _report);
        _takeover.Begin(reign, life, begin.LosesNothing);
    }

    /// <summary>The store is a primary's. Whether this node still leads: then it serves, as soon as a majority has the reign's
    /// record.</summary>
    public bool MayServe(Reign reign, bool founds)
    {
        if (_election!.State != ElectionState.Leads || _election.Reign != reign) { return false; }
        if (!founds) { Takeovers++; }
        return true;
    }

    private void StepDown(Reign reign)
    {
        if (_hasSteppedDown) { return; }
        _hasSteppedDown = true;
        // A shard leads once in its life.
        _election!.MayStand = false;
        Show();
        _report.Warn($"shard {_options.Shard}: node {Options.Node} leads no more: reign {reign} is over");
        _shard!.Cohort!.StepDown();
    }

    /// <inheritdoc />
    public void Refused(Reign promised) => _thread.Post(() =>
    {
        Highest = Reign.Max(Highest, promised);
        _election!.Refused(NowUs, promised);
        Perform();
    });

    // ---- Handing over ----

    /// <summary>How its reign ends by its own word.</summary>
    public HandOver HandingOver { get; }

    /// <summary>The reign that its shard leads, whatever the election says by now. Any thread.</summary>
    public ICohortLead? Reigns => _shard?.Cohort?.Lead;

    /// <summary>Which shard's. Any thread.</summary>
    public ShardId Shard => _options.Shard;

    /// <inheritdoc />
    public bool GiveWay() => HandingOver.Nearest is { } to && _thread.Post(() => HandingOver.Begin(to, isForced: true));

    /// <inheritdoc />
    public async Task HandOverAsync()
    {
        if (!GiveWay()) { return; }
        await HandingOver.Succeeded.WaitAsync(2 * Options.Lease).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    /// <summary>Its reign is over: another node is asked to lead. See <see cref="Election.HandOver"/>.</summary>
    public void EndReign(NodeName to, LogIndex? commit, Cohort? members, bool isSettled, bool hasAll)
    {
        _election!.HandOver(NowUs, to, commit, members, isSettled, hasAll);
        Perform();
    }

    /// <summary>See <see cref="ICohortShard.HoldAsync"/>.</summary>
    public Task<bool> HoldAsync() => _shard!.Cohort!.HoldAsync(_thread.Ending);

    /// <summary>See <see cref="ICohortShard.GoOn"/>.</summary>
    public void GoOn() => _shard!.Cohort!.GoOn();

    // ---- Members that come and go ----

    /// <summary>What is done for it while this node leads.</summary>
    public MemberChange Changes { get; }

    /// <summary>How a node that is to be a member is shipped to.</summary>
    public IShipConnector WayTo(NodeName node, string address) => _peers.WayTo(node, address);

    /// <summary>See <see cref="CohortPeers.Against"/>.</summary>
    public string? Against(string address) => _peers.Against(address);

    // What --cohort says is for the cohort's beginning.
    private void SayIfChanged()
    {
        NodeName[] strangers = [.. Options.Voters.Voters.Except(Members.Voters)];
        if (strangers.Length > 0)
        {
            _report.Warn($"shard {_options.Shard}: the members are {Members}, as the cohort's leader has said. --cohort names "
                + $"{string.Join(", ", strangers)} as well: slogger cohort add makes a node a member");
        }
    }

    /// <summary>What people are told, but for the followers.</summary>
    public V1.NodeStatusReply Facts => new()
    {
        Node = Options.Node.Text, Role = RoleOf(_state), Reign = _state.Reign.Number, Leader = _state.Leader?.Text ?? "",
        Durable = ShipWire.ToWire(Last), Commit = ShipWire.ToWire(CommitOf(Lead)), Clients = _shard!.Seat.Address,
        SinceUs = NowUs - _sinceUs, Problem = Life?.Problem ?? "", CalledOff = HandingOver.CalledOff ?? "",
    };
}
