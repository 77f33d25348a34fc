// What the loop keeps for a cohort's node: what CLUSTER answers, and the word about a new leader. That word is a message on Sentinel's
// channel. Each node has its own Redis publish it, the leader's once it serves: what one node publishes the others' subscribers do not
// hear.
using System.Collections.Immutable;
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Of a cohort's node. The loop's thread.</summary>
internal sealed class CohortNews(FrontEndLoop loop, ICohortPort cohort)
{
    private CohortView? _shown;
    private ClusterReplies? _among;
    private ClusterReplies? _replies;

    /// <summary>The last leader that was heard of, and of which has been told; null: none yet.</summary>
    public CohortSeat? Leader { get; private set; }

    /// <summary>What CLUSTER answers; null: it is not known yet where clients reach any node.</summary>
    public ClusterReplies? Replies
    {
        get
        {
            CohortView view = cohort.View;
            ClusterReplies? among = loop.Slots?.Replies;
            if (view != _shown || among != _among) { (_shown, _among, _replies) = (view, among, Make(view, among)); }
            return _replies;
        }
    }

    private ClusterReplies? Make(CohortView view, ClusterReplies? among)
    {
        if (view.Nodes.FirstOrDefault(n => n.Node == view.Self) is null) { return null; }
        ImmutableArray<ClusterNode> nodes = [.. view.Nodes
            .Select(n => new ClusterNode(cohort.Shard, n.Host, n.Port, n.Follows) { Name = n.Node })];
        // Without a leader somebody has to have the slots, and is down.
        ClusterNode leads = view.Leader is { } leader ? nodes.First(n => n.Name == leader.Node) : nodes[0] with { IsAlive = false };
        leads = leads with { Replicas = [.. nodes.Where(n => n.Name != leads.Name)] };
        return among is null
            ? new(cohort.Cluster, Partitioning.Hash, SlotMap.Even(1), new(view.Reign), [leads], cohort.Shard, view.Self)
            : among.With(leads, view.Self);
    }

    /// <summary>Tells of a new leader, now and then.</summary>
    public void Look()
    {
        CohortView view = cohort.View;
        if (view.Leader is not { } leader || leader == Leader) { return; }
        bool isChange = Leader is { } known && known.Node != leader.Node;
        if (isChange)
        {
            if (view.Leads && !CohortCommands.Leads(loop)) { return; }
            if (loop.Shared is not { IsClosed: false } shared || !loop.Shard.IsOpen) { return; }
            if (!loop.Boundary.MayForward() || loop.Gate.IsShut) { return; }
            string text = string.Create(CultureInfo.InvariantCulture,
                $"{cohort.MasterName} {Leader!.Host} {Leader.Port} {leader.Host} {leader.Port}");
            var request = new List<byte>();
            RespText.AppendHeader(request, '*', 3);
            RespText.AppendBulk(request, "PUBLISH"u8);
            RespText.AppendBulk(request, "+switch-master"u8);
            RespText.AppendBulk(request, Encoding.UTF8.GetBytes(text));
            shared.Write(System.Runtime.InteropServices.CollectionsMarshal.AsSpan(request));
            shared.Expect(null, 1, ReplyKind.Dropped);
            loop.CountInternal("publish");
            loop.Sharing.IsDirty = true;
        }
        Leader = leader;
    }
}
