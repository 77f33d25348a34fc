// What other nodes, and people, call at a node of a cohort, except shipping (FollowerService). The node's thread answers.
using Slogger.Core.Cohorts;
using Slogger.Grpc;
using Slogger.Grpc.Cohorts;
using Slogger.Grpc.Server;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cohorts;

/// <summary>Serves a node.</summary>
/// <param name="node">Which.</param>
/// <param name="thread">Its thread.</param>
/// <param name="options">The process's.</param>
internal sealed class CohortService(CohortNode node, NodeThread thread, ServeOptions options)
{
    /// <summary>Has a server answer.</summary>
    public void AddTo(GrpcServer server) => server.AddUnary(CohortMethods.Ask, AskAsync).AddUnary(CohortMethods.Beat, BeatAsync)
        .AddUnary(CohortMethods.Lead, LeadAsync).AddUnary(CohortMethods.Status, StatusAsync)
        .AddUnary(CohortMethods.HandOver, HandOverAsync).AddUnary(CohortMethods.Change, ChangeAsync);

    private async Task<V1.VoteReply> AskAsync(V1.AskRequest request, ServerCall<V1.AskRequest, V1.VoteReply> call)
    {
        CohortWire.Check(options, request.From);
        Ask ask = CohortWire.FromWire(request);
        // One that this node is to hear of may be a member all the same: it is answered.
        return await AnswerAsync(() => CohortWire.ToWire(node.Asked(ask), isStranger: !node.Members.Has(ask.From))).ConfigureAwait(false);
    }

    private async Task<V1.BeatReply> BeatAsync(V1.BeatRequest request, ServerCall<V1.BeatRequest, V1.BeatReply> call)
    {
        CohortWire.Check(options, request.From);
        Cohort? members = ShipWire.FromWire(request.Members, request.Founded);
        return await AnswerAsync(() => node.Beaten(request, members)).ConfigureAwait(false);
    }

    private async Task<V1.LeadReply> LeadAsync(V1.LeadRequest request, ServerCall<V1.LeadRequest, V1.LeadReply> call)
    {
        CohortWire.Check(options, request.From);
        Lead lead = new(new(request.From.Node), new(request.Ends), ShipWire.FromWire(request.Members, request.Founded), request.IsSettled,
            new(request.Votes));
        return await AnswerAsync(() =>
        {
            node.LeadTold(lead);
            return new V1.LeadReply();
        }).ConfigureAwait(false);
    }

    private Task<V1.NodeStatusReply> StatusAsync(V1.NodeStatusRequest request, ServerCall<V1.NodeStatusRequest, V1.NodeStatusReply> call) =>
        AnswerAsync(() =>
        {
            V1.NodeStatusReply reply = node.Facts;
            reply.Members.AddRange(ShipWire.ToWire(node.Members));
            foreach (CohortFollowerStatus f in node.Lead?.Followers ?? [])
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
        AnswerAsync(() => new V1.HandOverReply { Problem = HandOver(request.To) ?? "" });

    private Task<V1.ChangeReply> ChangeAsync(V1.ChangeRequest request, ServerCall<V1.ChangeRequest, V1.ChangeReply> call) =>
        AnswerAsync(() =>
        {
            (string? problem, string? waitsFor) = node.Changes.Ask(new(request.Node), request.Address);
            return new V1.ChangeReply { Problem = problem ?? "", WaitsFor = waitsFor ?? "" };
        });

    // What stands against it; null: the node hands over.
    private string? HandOver(string name)
    {
        if (node.Lead is not { } lead) { return $"node {options.Cohort!.Node} does not lead"; }
        if (name.Length == 0)
        {
            if (node.HandingOver.Nearest is not { } nearest) { return "no other node follows"; }
            node.HandingOver.Begin(nearest);
            return null;
        }
        CohortFollowerStatus[] named = [.. lead.Followers.Where(f => f.Node.Text == name)];
        if (named is not [var to]) { return $"{name} is no other node of this cohort"; }
        if (to.Learns || to.Problem is not null || to.SilentUs < 0)
        {
            return $"node {to.Node} does not follow: {to.Problem ?? (to.Learns ? "it learns" : "it has not answered yet")}";
        }
        node.HandingOver.Begin(to.Node);
        return null;
    }

    private async Task<T> AnswerAsync<T>(Func<T> answer)
    {
        try
        {
            return await thread.DoAsync(answer).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            throw new RpcException(StatusCode.Unavailable, $"node {options.Cohort!.Node} is ending");
        }
    }
}
