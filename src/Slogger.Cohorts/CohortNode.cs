// The node of a cohort in one life of its shard: it follows, votes, may be elected, and leads until its reign is over. Performs what
// Election and Follower (Core) decide. One thread has both machines, the ballot and the log; links and disks give it what they have (Post).
//
// What follows from an election, in this order (design, replicated shards, 4.5): the reign's record in the log, durably; the log is
// shipped; the store is brought to the log's end, and made a primary's; when a majority has the record the shard serves.
using System.Collections.Concurrent;
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Cohorts;
using Slogger.Grpc.Server;
using Slogger.Log;
using Slogger.Log.Ballots;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Replication.Following;
using Slogger.Replication.Links;
using Slogger.Replication.Sending;
using Slogger.Sites.Access;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cohorts;

/// <summary>A node.</summary>
internal sealed class CohortNode : ICohort, IAsyncDisposable
{
    private const int TickMs = 4;
    private const int BeatsInALease = 8, BeatsUnderWayMax = 4;
    private static readonly TimeSpan LeadRetry = TimeSpan.FromMilliseconds(20);
    private const int LeadAttempts = 25;
    private readonly ServeOptions _options;
    private readonly SiteCredentials _credentials;
    private readonly ILogger _report;
    private readonly ElectionOptions _times;
    private readonly BlockingCollection<Action> _inputs = [];
    private readonly CancellationTokenSource _ending = new();
    private readonly Dictionary<NodeName, GrpcChannel> _channels = [];
    private readonly List<(NodeName, IShipConnector)> _others = [];
    private Thread? _thread;
    private GrpcServer? _server;
    private IFollowingShard? _shard;
    private BallotFile? _ballot;
    private Election? _election;
    private FollowedLife? _life;        // null: it leads
    private Vote? _vote;                // the answer to what was asked
    private Task _leading = Task.CompletedTask;
    private Task _handing = Task.CompletedTask;      // another node is asked to lead
    private long _beatUs;
    private readonly Dictionary<NodeName, int> _beatsUnderWay = [];
    private readonly Dictionary<NodeName, string> _refusals = [];
    private long _sinceUs;
    private readonly TaskCompletionSource _succeeded = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly CohortSeats _seats;
    private volatile NodeState _state = new(ElectionState.Follows, default, null);

    private sealed record NodeState(ElectionState Role, Reign Reign, NodeName? Leader);

    /// <summary>Nothing listens yet.</summary>
    public CohortNode(ServeOptions options, SiteCredentials credentials, ILogger report)
    {
        (_options, _credentials, _report) = (options, credentials, report);
        _times = new() { LeaseUs = (long)Options.Lease.TotalMicroseconds };
        _seats = new(options);
        foreach (CohortMember member in Options.Members.Where(m => m.Node != Options.Node))
        {
            // One connection for both: when a log is to be shipped it is there.
            GrpcChannel channel = _channels[member.Node] = credentials.Open(member.Address);
            _others.Add((member.Node, new GrpcShipConnector(channel, $"{member.Node} at {member.Address}", ShipTerms.Of(options),
                isGzip: false)));
        }
    }

    public CohortOptions Options => _options.Cohort!;

    public IReadOnlyList<(NodeName Node, IShipConnector Way)> Others => _others;

    public CohortView Seats => _seats.View;

    public long? AgeUs => _life?.CurrentUs is { } currentUs ? NowUs - currentUs : null;

    /// <summary>It has led, and does not any more.</summary>
    public bool HasSteppedDown { get; private set; }

    /// <summary>How often this process has taken over from another leader.</summary>
    public int Takeovers { get; set; }

    public IEnumerable<(string Name, object Value)> Status
    {
        get
        {
            NodeState state = _state;
            yield return ("node", Options.Node);
            yield return ("node_role", RoleOf(state));
            yield return ("reign", state.Reign);
            yield return ("leader", state.Leader?.Text ?? "none");
            ICohortLead? lead = state.Role == ElectionState.Leads ? _shard?.Cohort?.Lead : null;
            yield return ("commit_version", (lead is not null ? lead.Commit ?? default : _life?.Commit ?? default).Closed);
            if (lead is not null) { yield return ("lease", lead.MaySpeak ? "held" : "expired"); }
            yield return ("members", string.Join(',', Options.Members.Select(m => m.Node)));
            yield return ("takeovers", Takeovers);
            if (_life?.Problem is { } problem) { yield return ("failure", problem); }
        }
    }

    // ---- The start and the end ----

    public async Task StartAsync(IFollowingShard shard, CancellationToken stop)
    {
        _shard = shard;
        _ballot = BallotFile.Open(shard.Log.Files, Path.Combine(_options.DataDirectory, "ballot"), shard.Seat.Identity, shard.Seat.Shard,
            Options.Node);
        // A node that has a log, and no ballot, had no cohort before: nobody has ever been told what it has.
        Ballot ballot = _ballot.IsNew && shard.Log.IsEmpty ? _ballot.Ballot with { Learns = true } : _ballot.Ballot;
        _election = new(Options.Node, Options.Voters, ballot, NowUs, _times, Random.Shared.NextInt64);
        _sinceUs = NowUs;
        BeginLife(bad: null);
        _seats.Hears(Options.Node, shard.Seat.Address, follows: false);
        (GrpcServerOptions? at, ProxyExit? failed) = _credentials.ServerAt(Options.Self.Address);
        if (failed is not null) { throw new SiteException(failed); }
        _server = new GrpcServer(at!);
        _server.AddUnary(CohortMethods.Ask, AskedAsync).AddUnary(CohortMethods.Beat, BeatAsync).AddUnary(CohortMethods.Lead, LeadAsync)
            .AddUnary(CohortMethods.Status, StatusAsync).AddUnary(CohortMethods.HandOver, HandOverAsync);
        new FollowerService(this, ShipTerms.Of(_options)).AddTo(_server);
        await _server.StartAsync(stop).ConfigureAwait(false);
        _report.Info($"shard {_options.Shard}: node {Options.Node} of {Options.Members.Length} listens at {_server.EndPoint}");
        _thread = new Thread(Run) { Name = "cohort", IsBackground = true };
        _thread.Start();
    }

    public async Task WithLogAsync(Action change)
    {
        // While it leads the log is the shard's.
        if (_life is null)
        {
            change();
            return;
        }
        await DoAsync(() =>
        {
            change();
            return true;
        }).ConfigureAwait(false);
    }

    // What leads goes on to need the node.
    public async Task EndAsync()
    {
        if (_state.Role == ElectionState.Leads && !HasSteppedDown && _shard?.Cohort?.Lead is not null && !_isStopping) { return; }
        await StopAsync().ConfigureAwait(false);
    }

    public async ValueTask DisposeAsync()
    {
        _isStopping = true;
        await StopAsync().ConfigureAwait(false);
        foreach (GrpcChannel channel in _channels.Values) { channel.Dispose(); }
        _ending.Dispose();
        _inputs.Dispose();
    }

    private volatile bool _isStopping;

    private async Task StopAsync()
    {
        if (_ending.IsCancellationRequested) { return; }
        await _handing.ConfigureAwait(false);
        await _ending.CancelAsync().ConfigureAwait(false);
        await _leading.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (_server is { } server) { await server.DisposeAsync().ConfigureAwait(false); }
        _inputs.CompleteAdding();
        _thread?.Join();
        if (_life is { } life) { await life.DisposeAsync().ConfigureAwait(false); }
        _ballot?.Dispose();
    }

    // ---- The thread ----

    /// <summary>The clock, which counts the time in which the machine sleeps.</summary>
    public static long NowUs => LeaseClock.NowUs;

    /// <summary>Has the node's thread do something. False: it has ended.</summary>
    public bool Post(Action input)
    {
        try
        {
            return !_inputs.IsAddingCompleted && _inputs.TryAdd(input);
        }
        catch (Exception e) when (e is InvalidOperationException or ObjectDisposedException)
        {
            return false;
        }
    }

    /// <summary>Has the node's thread find something out.</summary>
    /// <exception cref="OperationCanceledException">The node has ended.</exception>
    public async Task<T> DoAsync<T>(Func<T> input)
    {
        var done = new TaskCompletionSource<T>(TaskCreationOptions.RunContinuationsAsynchronously);
        bool isPosted = Post(() =>
        {
            try
            {
                if (_ending.IsCancellationRequested) { done.TrySetCanceled(); }
                else { done.TrySetResult(input()); }
            }
            catch (Exception e)
            {
                done.TrySetException(e);
                throw;
            }
        });
        if (!isPosted) { throw new OperationCanceledException("The node has ended."); }
        return await done.Task.ConfigureAwait(false);
    }

    private void Run()
    {
        try
        {
            while (!_inputs.IsCompleted)
            {
                if (_inputs.TryTake(out Action? input, TickMs)) { input(); }
                if (!_ending.IsCancellationRequested) { Tick(); }
            }
        }
        catch (Exception e)
        {
            if (_ending.IsCancellationRequested) { return; }
            _shard!.OnIntakeFailed(e is LogException or IOException ? e.Message : e.ToString());
            while (_inputs.TryTake(out Action? rest, 0))
            {
                try
                {
                    rest();
                }
                catch (Exception again) when (again is BrokenInvariantException or LogException or IOException)
                {
                    // It has failed already.
                }
            }
        }
    }

    private void Tick()
    {
        if (_election!.State == ElectionState.Leads)
        {
            _shard!.Cohort!.Lead?.Look(lease => _election.Leased(NowUs, lease));
            if (NowUs - _beatUs >= _times.LeaseUs / BeatsInALease) { Beat(); }
        }
        else { _election.Tick(NowUs, View); }
        Perform();
    }

    private NodeView View => new(Last, _shard!.StoreFollows, IsBehind: false);

    // The last version that the log has closed, durably.
    private LogIndex Last => _life is { HasLog: false } || _shard!.Log.IsEmpty ? default : _shard.Log.DurableClosed;

    private void Perform()
    {
        foreach (ElectionEffect effect in _election!.TakeEffects())
        {
            switch (effect)
            {
                case ElectionEffect.Promise promise:
                    _ballot!.Write(promise.Ballot);
                    _life?.SetLearns(promise.Ballot.Learns);
                    break;
                case ElectionEffect.SendAsk ask:
                    foreach ((NodeName node, GrpcChannel channel) in _channels) { _ = AskAsync(node, channel, ask.Ask); }
                    break;
                case ElectionEffect.SendVote vote:
                    _vote = vote.Vote;
                    break;
                case ElectionEffect.SendLead lead:
                    _handing = SendLeadAsync(lead.To, lead.Lead);
                    break;
                case ElectionEffect.Begin begin:
                    Begin(begin.Reign);
                    break;
                case ElectionEffect.StepDown down:
                    StepDown(down.Reign);
                    break;
            }
        }
        Tell();
        NodeState before = _state;
        if (before.Role == _election.State && before.Reign == _election.Reign && before.Leader == _election.Leader) { return; }
        if (before.Leader != _election.Leader || before.Reign != _election.Reign) { _sinceUs = NowUs; }
        _state = new(_election.State, _election.Reign, _election.Leader);
        if (_election.Leader is { } leader && leader != before.Leader)
        {
            _report.Info($"shard {_options.Shard}: node {leader} leads, in reign {_election.Reign}");
            if (HasSteppedDown) { _succeeded.TrySetResult(); }
        }
    }

    // What clients are told.
    private void Tell()
    {
        _seats.Hears(Options.Node, _shard!.Seat.Address, _election!.State == ElectionState.Leads || Follows);
        _seats.Leads(HasSteppedDown ? null : _election.Leader, _election.Reign);
    }

    private bool Follows => _shard!.StoreFollows && !Learns;

    // ---- Votes ----

    private async Task AskAsync(NodeName node, GrpcChannel channel, Ask ask)
    {
        try
        {
            V1.VoteReply reply = await channel.CallAsync(CohortMethods.Ask, CohortWire.ToWire(ask, _options),
                new() { Timeout = TimeSpan.FromMicroseconds(_times.RoundUs), Cancellation = _ending.Token }).ConfigureAwait(false);
            Vote vote = CohortWire.FromWire(node, reply);
            Post(() => _election!.Voted(NowUs, vote, View));
        }
        catch (RpcException e)
        {
            // It has no vote, then.
            if (e.Code == StatusCode.FailedPrecondition) { SayRefused(node, e.Detail); }
        }
    }

    // What a person has to put right.
    private void SayRefused(NodeName node, string why) => Post(() =>
    {
        if (_refusals.GetValueOrDefault(node) == why) { return; }
        _refusals[node] = why;
        _report.Error($"shard {_options.Shard}: node {node} refuses this one: {why}");
    });

    // The node's thread beats itself: a leader whose node does nothing any more is none.
    private void Beat()
    {
        _beatUs = NowUs;
        foreach ((NodeName node, GrpcChannel channel) in _channels)
        {
            if (_beatsUnderWay.GetValueOrDefault(node) >= BeatsUnderWayMax) { continue; }
            _beatsUnderWay[node] = _beatsUnderWay.GetValueOrDefault(node) + 1;
            var request = new V1.BeatRequest { From = CohortWire.Of(_options), Reign = _election!.Reign.Number };
            request.Nodes.AddRange(_seats.ToWire());
            _ = BeatAsync(node, channel, request, _beatUs);
        }
    }

    private async Task BeatAsync(NodeName node, GrpcChannel channel, V1.BeatRequest request, long sentUs)
    {
        try
        {
            V1.BeatReply reply = await channel.CallAsync(CohortMethods.Beat, request,
                new() { Timeout = TimeSpan.FromMicroseconds(_times.LeaseUs), Cancellation = _ending.Token }).ConfigureAwait(false);
            if (reply.Promised > request.Reign) { Refused(new(reply.Promised)); }
            else if (!reply.Learns) { _shard!.Cohort!.Lead?.Echoed(node, sentUs); }
            Post(() => _seats.Hears(node, reply.Clients, reply.Follows));
        }
        catch (RpcException e)
        {
            Post(() => _seats.Misses(node));
            if (e.Code == StatusCode.FailedPrecondition) { SayRefused(node, e.Detail); }
        }
        Post(() => _beatsUnderWay[node]--);
    }

    private async Task<V1.BeatReply> BeatAsync(V1.BeatRequest request, ServerCall<V1.BeatRequest, V1.BeatReply> call)
    {
        CohortWire.Check(_options, request.From);
        return await AnswerAsync(() =>
        {
            if (Heard(new(request.Reign), new(request.From.Node), out Reign promised)) { _seats.FromWire(request.Nodes); }
            return new V1.BeatReply
            {
                Promised = promised.Number, Learns = Learns, Clients = _shard!.Seat.Address, Follows = Follows,
            };
        }).ConfigureAwait(false);
    }

    private async Task SendLeadAsync(NodeName to, Lead lead)
    {
        try
        {
            await _channels[to].CallAsync(CohortMethods.Lead, new() { From = CohortWire.Of(_options), Ends = lead.Ends.Number },
                new() { Timeout = TimeSpan.FromMicroseconds(_times.LeaseUs) }).ConfigureAwait(false);
        }
        catch (RpcException e)
        {
            _report.Warn($"shard {_options.Shard}: node {to} was asked to lead, and does not answer: {e.Detail}");
        }
    }

    private async Task<V1.VoteReply> AskedAsync(V1.AskRequest request, ServerCall<V1.AskRequest, V1.VoteReply> call)
    {
        CohortWire.Check(_options, request.From);
        Ask ask = CohortWire.FromWire(request);
        return await AnswerAsync(() =>
        {
            _vote = null;
            _election!.Asked(NowUs, ask, Last);
            Perform();
            return CohortWire.ToWire(_vote ?? new(Options.Node, ask.Reign, ask.IsPre, IsYes: false, _election.Ballot.Promised));
        }).ConfigureAwait(false);
    }

    private async Task<V1.LeadReply> LeadAsync(V1.LeadRequest request, ServerCall<V1.LeadRequest, V1.LeadReply> call)
    {
        CohortWire.Check(_options, request.From);
        return await AnswerAsync(() =>
        {
            _election!.LeadTold(NowUs, new(new(request.From.Node), new(request.Ends)), Last);
            Perform();
            return new V1.LeadReply();
        }).ConfigureAwait(false);
    }

    private async Task<T> AnswerAsync<T>(Func<T> answer)
    {
        try
        {
            return await DoAsync(answer).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            throw new RpcException(StatusCode.Unavailable, $"node {Options.Node} is ending");
        }
    }

    // ---- Following ----

    /// <summary>A message of a leader. Null: its reign is over; the answer says which was promised.</summary>
    public bool Heard(Reign reign, NodeName from, out Reign promised)
    {
        bool isHeard = _election!.Heard(NowUs, reign, from);
        promised = _election.Ballot.Promised;
        Perform();
        return isHeard;
    }

    /// <summary>What follows the leader; null: this node leads. The node's thread.</summary>
    public FollowedLife? Life => _life;

    /// <summary>The leader's node has admitted this one. The node's thread.</summary>
    public void OnLearned()
    {
        _election!.Learned();
        Perform();
        _report.Info($"shard {_options.Shard}: node {Options.Node} has all that was committed, and votes");
    }

    /// <summary>Whether the node only learns. The node's thread.</summary>
    public bool Learns => _election!.Ballot.Learns;

    /// <summary>What the log holds is of no use to the leader: it is copied anew. The node's thread.</summary>
    public void BeginAnew(FollowedLife before, string why)
    {
        if (before != _life) { return; }
        _report.Warn($"shard {_options.Shard}: node {Options.Node} gets a copy of the leader's store: {why}");
        _election!.BeginLearning();
        Perform();
        _life = null;
        _ = Task.Run(async () =>
        {
            await before.DisposeAsync().ConfigureAwait(false);
            Post(() => BeginLife(before.BadCopy, isAnew: true));
        });
    }

    /// <summary>A whole copy is here: the log begins with it. The node's thread.</summary>
    public void OnCopied(FollowedLife before)
    {
        if (before != _life) { return; }
        _life = null;
        _ = Task.Run(async () =>
        {
            await before.DisposeAsync().ConfigureAwait(false);
            string? bad = await before.BeginLogAsync(_ending.Token).ConfigureAwait(false);
            Post(() => BeginLife(bad));
        });
    }

    private void BeginLife(string? bad, bool isAnew = false)
    {
        if (_ending.IsCancellationRequested) { return; }
        _life = new(this, _options, _shard!, bad, isAnew, _report);
        _life.SetLearns(Learns);
    }

    // ---- Leading ----

    private void Begin(Reign reign)
    {
        _report.Info($"shard {_options.Shard}: node {Options.Node} is elected, and leads in reign {reign}");
        FollowedLife? life = _life;
        _life = null;
        life?.StopReceiving();
        _shard!.Cohort!.BeginReign(reign);
        Beat();
        _leading = Task.Run(() => LeadAsync(reign, life));
    }

    private async Task LeadAsync(Reign reign, FollowedLife? life)
    {
        CancellationToken stop = _ending.Token;
        if (life is not null) { await life.DisposeAsync().ConfigureAwait(false); }
        ICohortShard shard = _shard!.Cohort!;
        VersionLog log = _shard.Log;
        bool founds = log.IsEmpty;
        for (int attempt = 1; !founds; attempt++)
        {
            try
            {
                await _shard.BringToAsync(log.LastBoundary ?? LogPlaces.BaseOf(log), stop).ConfigureAwait(false);
                await _shard.PromoteAsync(stop).ConfigureAwait(false);
                break;
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                return;
            }
            catch (Exception e)
            {
                _report.Warn($"shard {_options.Shard}: the store cannot be made the leader's, and it is tried again: {e.Message}");
                // Its log is the newest; another node has it by now, and maybe a store.
                if (attempt >= LeadAttempts && GiveWay()) { return; }
                await Task.Delay(LeadRetry, stop).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            }
        }
        try
        {
            if (!founds) { await shard.Lead!.HasBegun.WaitAsync(stop).ConfigureAwait(false); }
        }
        catch (OperationCanceledException)
        {
            return;
        }
        if (_state.Reign != reign || _state.Role != ElectionState.Leads) { return; }
        if (!founds) { Takeovers++; }
        _shard.TakeOver(SiteState.Alone);
    }

    private void StepDown(Reign reign)
    {
        if (HasSteppedDown) { return; }
        HasSteppedDown = true;
        Tell();
        _report.Warn($"shard {_options.Shard}: node {Options.Node} leads no more: reign {reign} is over");
        _shard!.Cohort!.StepDown();
    }

    public void Refused(Reign promised) => Post(() =>
    {
        _election!.Refused(NowUs, promised);
        Perform();
    });

    public bool GiveWay()
    {
        if (_shard?.Cohort?.Lead is not { } lead || NearestOf(lead) is not { } to) { return false; }
        return Post(() => HandOver(to));
    }

    // The follower whose log is nearest, of those that answer.
    private NodeName? NearestOf(ICohortLead lead)
    {
        CohortFollowerStatus[] able = [.. lead.Followers.Where(f => !f.Learns && f.Problem is null && f.SilentUs >= 0
            && f.SilentUs < _times.LeaseUs)];
        return able.Length == 0 ? null : able.MaxBy(f => f.Durable).Node;
    }

    public async Task HandOverAsync()
    {
        if (!GiveWay()) { return; }
        await _succeeded.Task.WaitAsync(2 * Options.Lease).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private void HandOver(NodeName to)
    {
        _election!.HandOver(NowUs, to);
        Perform();
    }

    // ---- For people ----

    private string RoleOf(NodeState state) => state.Role switch
    {
        ElectionState.Leads => "leads",
        ElectionState.Asks => "asks",
        ElectionState.Stands => "stands",
        _ => _election?.Ballot.Learns == true ? "learns" : "follows",
    };

    private Task<V1.NodeStatusReply> StatusAsync(V1.NodeStatusRequest request, ServerCall<V1.NodeStatusRequest, V1.NodeStatusReply> call) =>
        AnswerAsync(() =>
        {
            ICohortLead? lead = _state.Role == ElectionState.Leads ? _shard!.Cohort!.Lead : null;
            var reply = new V1.NodeStatusReply
            {
                Node = Options.Node.Text, Role = RoleOf(_state), Reign = _state.Reign.Number, Leader = _state.Leader?.Text ?? "",
                Durable = ShipWire.ToWire(Last), Commit = ShipWire.ToWire(lead?.Commit ?? _life?.Commit ?? default),
                Clients = _shard!.Seat.Address, SinceUs = NowUs - _sinceUs, Problem = _life?.Problem ?? "",
            };
            foreach (CohortFollowerStatus f in lead?.Followers ?? [])
            {
                reply.Followers.Add(new V1.FollowerStatus
                {
                    Node = f.Node.Text, Durable = ShipWire.ToWire(f.Durable), LagBytes = f.LagBytes, Learns = f.Learns,
                    SilentUs = f.SilentUs, Problem = f.Problem ?? "",
                });
            }
            return reply;
        });

    private Task<V1.HandOverReply> HandOverAsync(V1.HandOverRequest request, ServerCall<V1.HandOverRequest, V1.HandOverReply> call) =>
        AnswerAsync(() =>
        {
            if (_state.Role != ElectionState.Leads || _shard!.Cohort!.Lead is not { } lead)
            {
                return new V1.HandOverReply { Problem = $"node {Options.Node} does not lead" };
            }
            CohortFollowerStatus? named = request.To.Length == 0 ? null
                : lead.Followers.Where(f => f.Node.Text == request.To).Cast<CohortFollowerStatus?>().FirstOrDefault();
            if (request.To.Length > 0 && named is null)
            {
                return new V1.HandOverReply { Problem = $"{request.To} is no other node of this cohort" };
            }
            if (named is { } f && (f.Learns || f.Problem is not null || f.SilentUs < 0))
            {
                return new V1.HandOverReply { Problem = $"node {f.Node} does not follow: {f.Problem ?? "it learns"}" };
            }
            if ((named?.Node ?? NearestOf(lead)) is not { } to) { return new V1.HandOverReply { Problem = "no other node follows" }; }
            HandOver(to);
            return new V1.HandOverReply();
        });
}
