// The lives of a node's log while it follows, one after the other: one ends when the leader has no use for what the log holds, or when the
// copy that it received is whole, or when the node leads.
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;

namespace Slogger.Cohorts;

/// <summary>What follows the leader. The node's thread, if nothing else is said.</summary>
/// <param name="node">The node.</param>
/// <param name="thread">Its thread.</param>
/// <param name="options">The process's.</param>
/// <param name="report">For people.</param>
internal sealed class FollowedLives(CohortNode node, NodeThread thread, ServeOptions options, ILogger report)
{
    private IFollowingShard? _shard;

    /// <summary>The life that follows; null: the node leads, or is between two lives.</summary>
    public FollowedLife? Now { get; private set; }

    /// <summary>The first one begins. Before the thread does.</summary>
    public void Begin(IFollowingShard shard)
    {
        _shard = shard;
        Begin(bad: null);
    }

    /// <summary>The node leads: the log is another's.</summary>
    /// <returns>What has followed until now, and is to be disposed.</returns>
    public FollowedLife? End()
    {
        FollowedLife? last = Now;
        Now = null;
        last?.StopReceiving();
        return last;
    }

    /// <summary>The leader's node has admitted this one.</summary>
    public void OnLearned() => node.OnLearned();

    /// <summary>What the log holds is of no use to the leader: it is copied anew.</summary>
    public void BeginAnew(FollowedLife before, string why)
    {
        if (before != Now) { return; }
        report.Warn($"shard {options.Shard}: node {node.Options.Node} gets a copy of the leader's store: {why}");
        node.BeginLearning();
        Now = null;
        _ = Task.Run(async () =>
        {
            await before.DisposeAsync().ConfigureAwait(false);
            thread.Post(() => Begin(before.BadCopy, isAnew: true));
        });
    }

    /// <summary>A whole copy is here: the log begins with it.</summary>
    public void OnCopied(FollowedLife before)
    {
        if (before != Now) { return; }
        Now = null;
        _ = Task.Run(async () =>
        {
            await before.DisposeAsync().ConfigureAwait(false);
            string? bad = await before.BeginLogAsync(thread.Ending).ConfigureAwait(false);
            thread.Post(() => Begin(bad));
        });
    }

    private void Begin(string? bad, bool isAnew = false)
    {
        if (thread.Ending.IsCancellationRequested) { return; }
        Now = new(this, thread, options, _shard!, bad, isAnew, report);
        Now.SetBallot(node.Ballot);
    }
}
