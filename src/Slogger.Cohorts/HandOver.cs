// A leader has another node lead: by plan, for a change of members, or because its own store is lost. First all that anybody was told is
// committed: with committed replies it is anyway, with early ones operations are held until it is. Within a round trip the other node has
// all that is committed, since nothing more is meanwhile (Leader.IsFrozen). Then this node votes for it with its word, and no other has
// to.
using Slogger.Core.Cohorts;
using Slogger.Proxy.Ports;

namespace Slogger.Cohorts;

/// <summary>The end of one node's reign by its own word. The node's thread, if nothing else is said.</summary>
/// <param name="node">The node.</param>
/// <param name="thread">Its thread.</param>
/// <param name="peers">The other nodes.</param>
/// <param name="lease">As long as a hand-over waits for the next leader.</param>
/// <param name="report">For people.</param>
internal sealed class HandOver(CohortNode node, NodeThread thread, CohortPeers peers, TimeSpan lease, ILogger report)
{
    private readonly TaskCompletionSource _succeeded = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private Begun? _begun;

    private long LeaseUs => (long)lease.TotalMicroseconds;

    // FrozenUntilUs is null until it is known whether all that was told is committed.
    private sealed record Begun(NodeName To, Cohort? Members, bool IsForced, bool IsSettled = false, long? FrozenUntilUs = null);

    /// <summary>Why the last one was called off; null: it was not.</summary>
    public string? CalledOff { get; private set; }

    /// <summary>Whether one has begun: <see cref="Tick"/> is to come soon.</summary>
    public bool IsUnderWay => _begun is not null;

    /// <summary>Completes when nobody is being asked to lead: until then the node does not end, since the next leader may need its vote.</summary>
    public Task Asking { get; private set; } = Task.CompletedTask;

    /// <summary>Completes when another node leads, after this one has led. Any thread.</summary>
    public Task Succeeded => _succeeded.Task;

    /// <summary>The followers that answer, and vote. Any thread.</summary>
    public IEnumerable<CohortFollowerStatus> Able => (node.Reigns?.Followers ?? []).Where(f => !f.Learns && f.Problem is null
        && f.SilentUs >= 0 && f.SilentUs < LeaseUs);

    /// <summary>The one of them whose log is nearest; null: there is none. Any thread.</summary>
    public NodeName? Nearest =>
        Able.Where(f => node.Members.Has(f.Node)).Cast<CohortFollowerStatus?>().MaxBy(f => f!.Value.Durable)?.Node;

    /// <summary>Asks another node to lead.</summary>
    public void Ask(ElectionEffect.SendLead lead) => Asking = AskAsync(lead);

    private async Task AskAsync(ElectionEffect.SendLead lead)
    {
        await peers.LeadAsync(lead.To, lead.Lead).ConfigureAwait(false);
        await Succeeded.WaitAsync(lease).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

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
        (_begun, CalledOff) = (new(to, members, isForced || lead.Commit is null), null);
        Task<bool> holding = node.HoldAsync();
        if (holding.IsCompletedSuccessfully) { Held(holding.Result); }
        else { _ = AwaitAsync(holding); }
    }

    private async Task AwaitAsync(Task<bool> holding)
    {
        bool isSettled = false;
        try
        {
            isSettled = await holding.ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // The node ends.
        }
        catch (Exception e)
        {
            report.Error($"shard {node.Shard}: what clients were told cannot be waited for: {e}");
        }
        thread.Post(() => Held(isSettled));
    }

    private void Held(bool isSettled)
    {
        if (_begun is not { FrozenUntilUs: null } begun || node.Lead is not { } lead) { return; }
        if (!isSettled && !begun.IsForced)
        {
            CallOff("what clients were told was not committed in time");
            return;
        }
        lead.Freeze(true);
        _begun = begun with { IsSettled = isSettled, FrozenUntilUs = CohortNode.NowUs + LeaseUs };
        Tick();
    }

    /// <summary>A leader's time.</summary>
    public void Tick()
    {
        if (_begun is not { FrozenUntilUs: { } untilUs } begun || node.Lead is not { } lead) { return; }
        bool hasAll = lead.Has(begun.To), isReady = hasAll || lead.Commit is null;
        if (!isReady && CohortNode.NowUs < untilUs) { return; }
        if (!isReady && !begun.IsForced)
        {
            CallOff($"{begun.To} has not come to the end of the log in the time of a lease");
            lead.Freeze(false);
            return;
        }
        _begun = null;
        node.EndReign(begun.To, lead.Commit, begun.Members, begun.IsSettled, hasAll);
    }

    private void CallOff(string why)
    {
        report.Warn($"shard {node.Shard}: node {node.Options.Node} goes on to lead: {why}");
        (_begun, CalledOff) = (null, why);
        node.GoOn();
    }
}
