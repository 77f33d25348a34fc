// The other nodes of a cohort: one connection to each, over which it is asked for votes and told of a leader, and the log is shipped.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Cohorts;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;
using Slogger.Resp;
using Slogger.Sites.Access;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cohorts;

/// <summary>Calls the other nodes. The node's thread, if nothing else is said.</summary>
internal sealed class CohortPeers : IDisposable
{
    private const int BeatsUnderWayMax = 4;
    private const long BeatUsMax = 250_000;
    private const long TryPeriodUs = 30_000_000;
    private static readonly TimeSpan s_tryLimit = TimeSpan.FromSeconds(5);
    private readonly ServeOptions _options;
    private readonly TimeSpan _lease, _round;
    private readonly NodeThread _thread;
    private readonly ILogger _report;
    private readonly SiteCredentials _credentials;
    private readonly Dictionary<NodeName, (string Address, GrpcChannel Channel)> _known = [];
    private readonly List<GrpcChannel> _left = [];
    private Dictionary<NodeName, GrpcChannel> _channels = [];       // of the other members
    private volatile IReadOnlyList<(NodeName, IShipConnector)> _ways = [];
    private volatile Cohort? _reign;                                // the members of the reign that this node leads
    private readonly Dictionary<NodeName, int> _beatsUnderWay = [];
    private readonly Dictionary<NodeName, long> _beatenUs = [];
    private readonly Dictionary<NodeName, string> _refusals = [];
    private long _tryUs;

    /// <summary>Nobody is called yet.</summary>
    /// <param name="options">The process's.</param>
    /// <param name="times">Of the cohort.</param>
    /// <param name="credentials">Of the process.</param>
    /// <param name="thread">The node's.</param>
    /// <param name="report">For people.</param>
    public CohortPeers(ServeOptions options, ElectionOptions times, SiteCredentials credentials, NodeThread thread, ILogger report)
    {
        (_options, _credentials, _thread, _report) = (options, credentials, thread, report);
        (_lease, _round) = (TimeSpan.FromMicroseconds(times.LeaseUs), TimeSpan.FromMicroseconds(times.RoundUs));
    }

    /// <summary>How each is shipped to. Any thread.</summary>
    public IReadOnlyList<(NodeName Node, IShipConnector Way)> Ways => _ways;

    /// <summary>These are the members from now on.</summary>
    public void Are(Cohort members)
    {
        (NodeName Node, string Address)[] others = [.. members.Members.Where(m => m.Node != _options.Cohort!.Node)];
        _channels = others.ToDictionary(m => m.Node, m => ChannelTo(m.Node, m.Address));
        _ways = [.. others.Select(m => (m.Node, WayTo(m.Node, m.Address)))];
    }

    /// <summary>This node leads a reign with the members that there are now. It leads one in its life.</summary>
    public void BeginReign(Cohort members) => _reign = members;

    /// <summary>How a node is shipped to. Where --cohort says where it is that counts: members may have moved since a leader named
    /// them.</summary>
    public IShipConnector WayTo(NodeName node, string address)
    {
        // One connection for both: when a log is to be shipped it is there.
        GrpcChannel channel = ChannelTo(node, address);
        return new GrpcShipConnector(channel, $"{node} at {_known[node].Address}", ShipTerms.Of(_options), isGzip: false)
        {
            Members = () => _reign,
        };
    }

    /// <summary>Why a node at an address cannot be reached from here; null: nothing stands against it.</summary>
    public string? Against(string address) =>
        !SiteOptionsReader.Peer(address, out ListenAddress? at, out string problem) ? $"{address} {problem}"
        : _credentials.OpenTo(at)?.Problem;

    private GrpcChannel ChannelTo(NodeName node, string named)
    {
        string address = _options.Cohort!.Members.FirstOrDefault(m => m.Node == node) is { Address: { } own } ? own.ToString() : named;
        if (_known.TryGetValue(node, out (string Address, GrpcChannel Channel) known))
        {
            if (known.Address == address) { return known.Channel; }
            // Whoever uses it is about to hear that it has moved.
            _left.Add(known.Channel);
        }
        GrpcChannel channel = _credentials.Open(ListenAddress.TryParse(address, out ListenAddress? at, out string? problem) ? at
            : throw new InvalidDataException($"node {node} is said to be at {address}: {problem}"));
        _known[node] = (address, channel);
        return channel;
    }

    /// <summary>Asks all for their votes.</summary>
    /// <param name="ask">What is asked.</param>
    /// <param name="voted">Is told each vote. The node's thread.</param>
    public void Ask(Ask ask, Action<Vote> voted)
    {
        foreach ((NodeName node, GrpcChannel channel) in _channels) { _ = AskAsync(node, channel, ask, voted); }
    }

    /// <summary>Tells those that this node leads that do not hear it otherwise; the rest now and then, since a beat says more.</summary>
    /// <param name="request">What they are told.</param>
    /// <param name="sentUs">When.</param>
    /// <param name="isHeard">Whether a node has lately answered what was shipped to it after that time.</param>
    /// <param name="answered">Is told what each has answered; null: nothing. Any thread.</param>
    public void Beat(Lazy<V1.BeatRequest> request, long sentUs, Func<NodeName, long, bool> isHeard,
        Action<NodeName, long, V1.BeatReply?> answered)
    {
        foreach ((NodeName node, GrpcChannel channel) in _channels)
        {
            if (_beatenUs.TryGetValue(node, out long beatenUs) && sentUs - beatenUs < BeatUsMax && isHeard(node, beatenUs)) { continue; }
            if (_beatsUnderWay.GetValueOrDefault(node) >= BeatsUnderWayMax) { continue; }
            _beatsUnderWay[node] = _beatsUnderWay.GetValueOrDefault(node) + 1;
            _beatenUs[node] = sentUs;
            _ = BeatAsync(node, channel, request.Value, sentUs, answered);
        }
    }

    /// <summary>Asks one to lead. Completes when it has answered, or not in the time of a lease.</summary>
    public async Task LeadAsync(NodeName to, Lead lead)
    {
        // Or to one that is to be a member: the log is shipped to it.
        GrpcChannel channel = _known[to].Channel;
        try
        {
            var request = new V1.LeadRequest
            {
                From = CohortWire.Of(_options), Ends = lead.Ends.Number, IsSettled = lead.IsSettled,
                Votes = lead.Votes.Number,
            };
            if (lead.Members is { } members)
            {
                request.Members.AddRange(ShipWire.ToWire(members));
                request.Founded = ShipWire.ToWire(members.Founded);
            }
            await channel.CallAsync(CohortMethods.Lead, request, new() { Timeout = _lease }).ConfigureAwait(false);
        }
        catch (RpcException e)
        {
            _report.Warn($"shard {_options.Shard}: node {to} was asked to lead, and does not answer: {e.Detail}");
        }
    }

    /// <summary>Goes to each node the way of a leader's log, in no reign: it is refused. So there is a connection, and its code is
    /// compiled, when this node leads. Again after half a minute, since a connection that nobody uses is closed.</summary>
    /// <param name="nowUs">The clock.</param>
    /// <param name="history">Of the log.</param>
    public void TryWays(long nowUs, StreamHistory history)
    {
        if (nowUs < _tryUs || !Trying.IsCompleted) { return; }
        _tryUs = nowUs + TryPeriodUs;
        Trying = Task.Run(() => TryWaysAsync(history));
    }

    /// <summary>Completes when none is being tried.</summary>
    public Task Trying { get; private set; } = Task.CompletedTask;

    // Whoever cannot be reached is left out.
    private async Task TryWaysAsync(StreamHistory history)
    {
        foreach ((NodeName _, IShipConnector way) in _ways)
        {
            using var limited = CancellationTokenSource.CreateLinkedTokenSource(_thread.Ending);
            limited.CancelAfter(s_tryLimit);
            try
            {
                await using IShipLink link = await way.ConnectAsync(limited.Token).ConfigureAwait(false);
                var hello = new ShipRequest.Hello(_options.Shard, new(default, Reign.None.Number, 0), history);
                await link.SendAsync(new(hello, default, []), isLast: true).ConfigureAwait(false);
                await link.ReceiveAsync(limited.Token).ConfigureAwait(false);
            }
            catch (Exception e) when (e is ShipLinkException or OperationCanceledException)
            {
                // Who leads says so.
            }
        }
    }

    public void Dispose()
    {
        foreach (GrpcChannel channel in _known.Values.Select(k => k.Channel).Concat(_left)) { channel.Dispose(); }
    }

    private async Task AskAsync(NodeName node, GrpcChannel channel, Ask ask, Action<Vote> voted)
    {
        try
        {
            V1.VoteReply reply = await channel.CallAsync(CohortMethods.Ask, CohortWire.ToWire(ask, _options),
                new() { Timeout = _round, Cancellation = _thread.Ending }).ConfigureAwait(false);
            Vote vote = CohortWire.FromWire(node, reply);
            _thread.Post(() =>
            {
                if (reply.IsStranger) { Say(node, "it does not know this node as a member: add it with slogger cohort add, or stop it"); }
                voted(vote);
            });
        }
        catch (RpcException e)
        {
            // It has no vote, then.
            SayRefused(node, e);
        }
    }

    private async Task BeatAsync(NodeName node, GrpcChannel channel, V1.BeatRequest request, long sentUs,
        Action<NodeName, long, V1.BeatReply?> answered)
    {
        V1.BeatReply? reply = null;
        try
        {
            reply = await channel.CallAsync(CohortMethods.Beat, request,
                new() { Timeout = _lease, Cancellation = _thread.Ending }).ConfigureAwait(false);
        }
        catch (RpcException e)
        {
            SayRefused(node, e);
        }
        _thread.Post(() => _beatsUnderWay[node]--);
        answered(node, sentUs, reply);
    }

    // What a person has to put right, once.
    private void SayRefused(NodeName node, RpcException e)
    {
        if (e.Code == StatusCode.FailedPrecondition) { _thread.Post(() => Say(node, e.Detail)); }
    }

    private void Say(NodeName node, string why)
    {
        if (_refusals.GetValueOrDefault(node) == why) { return; }
        _refusals[node] = why;
        _report.Error($"shard {_options.Shard}: node {node} refuses this one: {why}");
    }
}
