// A leader has another node lead: by plan, for a change of members, or because its own store is lost. Within a round trip the other one has
// all that anybody was told, since nothing more is committed meanwhile (Leader.IsFrozen). Then this node votes for it, and no other has to.
using Slogger.Core.Cohorts;
using Slogger.Proxy.Ports;

namespace Slogger.Cohorts;

/// <summary>The end of one node's reign by its own word. The node's thread, if nothing else is said.</summary>
/// <param name="node">The node.</param>
/// <param name="leaseUs">As long as a hand-over waits for the next leader.</param>
/// <param name="report">For people.</param>
internal sealed class HandOver(CohortNode node, long leaseUs, ILogger report)
{
    private readonly TaskCompletionSource _succeeded = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private Begun? _begun;

    private sealed record Begun(NodeName To, Cohort? Members, long UntilUs, bool IsForced);

    /// <summary>Completes when another node leads, after this one has led. Any thread.</summary>
    public Task Succeeded => _succeeded.Task;

    /// <summary>The followers that answer, and vote. Any thread.</summary>
    public IEnumerable<CohortFollowerStatus> Able => (node.Reigns?.Followers ?? []).Where(f => !f.Learns && f.Problem is null
        && f.SilentUs >= 0 && f.SilentUs < leaseUs);

    /// <summary>The one of them whose log is nearest; null: there is none. Any thread.</summary>
    public NodeName? Nearest =>
        Able.Where(f => node.Members.Has(f.Node)).Cast<CohortFollowerStatus?>().MaxBy(f => f!.Value.Durable)?.Node;

    /// <summary>Another node leads.</summary>
    public void Succeed() => _succeeded.TrySetResult();

    /// <summary>Begins, unless one has begun.</summary>
    /// <param name="to">Who is to lead.</param>
    /// <param name="members">The members of the next reign, if they change.</param>
    /// <param name="isForced">Whether this node cannot go on to lead, should the other one not come to the end of the log in time.</param>
    public void Begin(NodeName to, Cohort? members = null, bool isForced = false)
    {
        if (node.Lead is not { } lead) { return; }
        if (_begun is { } begun)
        {
            // It has begun, by plan maybe; it cannot be called off any more.
            _begun = begun with { IsForced = begun.IsForced || isForced };
            return;
        }
        lead.Freeze(true);
        _begun = new(to, members, CohortNode.NowUs + leaseUs, isForced || lead.Commit is null);
        Tick();
    }

    /// <summary>A leader's time.</summary>
    public void Tick()
    {
        if (_begun is not { } begun || node.Lead is not { } lead) { return; }
        bool isReady = lead.Has(begun.To) || lead.Commit is null;
        if (!isReady && CohortNode.NowUs < begun.UntilUs) { return; }
        _begun = null;
        if (!isReady && !begun.IsForced)
        {
            report.Warn($"shard {node.Shard}: node {node.Options.Node} goes on to lead: {begun.To} has not come to the end of the log in the "
                + "time of a lease");
            lead.Freeze(false);
            return;
        }
        node.EndReign(begun.To, lead.Commit, begun.Members);
    }
}
