// What an election has its driver do, in the order in which it stands. Each effect is done before the next one: a promise is durable before
// any message behind it is sent. If the process ends in between, the rest is not done.
using Slogger.Core.Identities;

namespace Slogger.Core.Cohorts;

/// <summary>One effect.</summary>
public abstract record ElectionEffect
{
    private ElectionEffect()
    {
    }

    /// <summary>Write the ballot, and sync it.</summary>
    public sealed record Promise(Ballot Ballot) : ElectionEffect;

    /// <summary>Send it to all other voters.</summary>
    public sealed record SendAsk(Ask Ask) : ElectionEffect;

    /// <summary>Send it to the candidate.</summary>
    public sealed record SendVote(NodeName To, Vote Vote) : ElectionEffect;

    /// <summary>Send it to a follower.</summary>
    public sealed record SendLead(NodeName To, Lead Lead) : ElectionEffect;

    /// <summary>This node leads: begin the reign in the log (design, 4.5).</summary>
    /// <param name="Reign">Which.</param>
    /// <param name="LosesNothing">All that anybody was told before is in this node's log, by the word of the leader before. If not, and
    /// replies are early, something that was told may be lost.</param>
    public sealed record Begin(Reign Reign, bool LosesNothing = false) : ElectionEffect;

    /// <summary>This node does not lead any more. Say nothing more in this reign, let out no reply, and close the connections of
    /// clients.</summary>
    public sealed record StepDown(Reign Reign) : ElectionEffect;
}
