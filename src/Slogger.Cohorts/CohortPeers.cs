// The other nodes of a cohort: one connection to each, over which it is asked for votes and told of a leader, and the log is shipped.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Grpc;
using Slogger.Grpc.Client;
using Slogger.Grpc.Cohorts;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;
using Slogger.Sites.Access;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cohorts;

/// <summary>Calls the other nodes. The node's thread, if nothing else is said.</summary>
internal sealed class CohortPeers : IDisposable
{
    private const int BeatsUnderWayMax = 4;
    private readonly ServeOptions _options;
    private readonly TimeSpan _lease, _round;
    private readonly NodeThread _thread;
    private readonly ILogger _report;
    private readonly Dictionary<NodeName, GrpcChannel> _channels = [];
    private readonly List<(NodeName, IShipConnector)> _ways = [];
    private readonly Dictionary<NodeName, int> _beatsUnderWay = [];
    private readonly Dictionary<NodeName, string> _refusals = [];

    /// <summary>Nobody is called yet.</summary>
    /// <param name="options">The process's.</param>
    /// <param name="times">Of the cohort.</param>
    /// <param name="credentials">Of the process.</param>
    /// <param name="thread">The node's.</param>
    /// <param name="report">For people.</param>
    public CohortPeers(ServeOptions options, ElectionOptions times, SiteCredentials credentials, NodeThread thread, ILogger report)
    {
        (_options, _thread, _report) = (options, thread, report);
        (_lease, _round) = (TimeSpan.FromMicroseconds(times.LeaseUs), TimeSpan.FromMicroseconds(times.RoundUs));
        foreach (CohortMember member in options.Cohort!.Members.Where(m => m.Node != options.Cohort.Node))
        {
            // One connection for both: when a log is to be shipped it is there.
            GrpcChannel channel = _channels[member.Node] = credentials.Open(member.Address);
            _ways.Add((member.Node, new GrpcShipConnector(channel, $"{member.Node} at {member.Address}", ShipTerms.Of(options),
                isGzip: false)));
        }
    }

    /// <summary>How each is shipped to. Any thread.</summary>
    public IReadOnlyList<(NodeName Node, IShipConnector Way)> Ways => _ways;

    /// <summary>Asks all for their votes.</summary>
    /// <param name="ask">What is asked.</param>
    /// <param name="voted">Is told each vote. The node's thread.</param>
    public void Ask(Ask ask, Action<Vote> voted)
    {
        foreach ((NodeName node, GrpcChannel channel) in _channels) { _ = AskAsync(node, channel, ask, voted); }
    }

    /// <summary>Tells all that this node leads.</summary>
    /// <param name="request">What they are told.</param>
    /// <param name="sentUs">When.</param>
    /// <param name="answered">Is told what each has answered; null: nothing. Any thread.</param>
    public void Beat(V1.BeatRequest request, long sentUs, Action<NodeName, long, V1.BeatReply?> answered)
    {
        foreach ((NodeName node, GrpcChannel channel) in _channels)
        {
            if (_beatsUnderWay.GetValueOrDefault(node) >= BeatsUnderWayMax) { continue; }
            _beatsUnderWay[node] = _beatsUnderWay.GetValueOrDefault(node) + 1;
            _ = BeatAsync(node, channel, request, sentUs, answered);
        }
    }

    /// <summary>Asks one to lead. Completes when it has answered, or not in the time of a lease.</summary>
    public async Task LeadAsync(NodeName to, Lead lead)
    {
        try
        {
            await _channels[to].CallAsync(CohortMethods.Lead, new() { From = CohortWire.Of(_options), Ends = lead.Ends.Number },
                new() { Timeout = _lease }).ConfigureAwait(false);
        }
        catch (RpcException e)
        {
            _report.Warn($"shard {_options.Shard}: node {to} was asked to lead, and does not answer: {e.Detail}");
        }
    }

    public void Dispose()
    {
        foreach (GrpcChannel channel in _channels.Values) { channel.Dispose(); }
    }

    private async Task AskAsync(NodeName node, GrpcChannel channel, Ask ask, Action<Vote> voted)
    {
        try
        {
            V1.VoteReply reply = await channel.CallAsync(CohortMethods.Ask, CohortWire.ToWire(ask, _options),
                new() { Timeout = _round, Cancellation = _thread.Ending }).ConfigureAwait(false);
            Vote vote = CohortWire.FromWire(node, reply);
            _thread.Post(() => voted(vote));
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
        if (e.Code != StatusCode.FailedPrecondition) { return; }
        _thread.Post(() =>
        {
            if (_refusals.GetValueOrDefault(node) == e.Detail) { return; }
            _refusals[node] = e.Detail;
            _report.Error($"shard {_options.Shard}: node {node} refuses this one: {e.Detail}");
        });
    }
}
