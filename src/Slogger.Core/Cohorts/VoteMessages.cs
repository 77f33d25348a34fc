// What the nodes of a cohort say to each other about who leads. All of it may be lost, late or doubled.
using Slogger.Core.Identities;
using Slogger.Core.Replication;

namespace Slogger.Core.Cohorts;

/// <summary>A node asks for votes.</summary>
/// <param name="From">The candidate.</param>
/// <param name="Reign">The reign that it would lead.</param>
/// <param name="IsPre">It only asks what would be answered (a pre-vote). Nothing is promised.</param>
/// <param name="Last">The last version that its log has closed.</param>
/// <param name="Ends">The reign whose leader has asked the candidate to follow it (<see cref="Lead"/>): grants to that leader are over.
/// <see cref="Reign.None"/>: nobody has.</param>
/// <param name="Founded">How the cohort began; null: the candidate does not know.</param>
public readonly record struct Ask(NodeName From, Reign Reign, bool IsPre, LogIndex Last, Reign Ends, Founding? Founded = null);

/// <summary>The answer.</summary>
/// <param name="From">Who votes.</param>
/// <param name="Reign">The reign that was asked about.</param>
/// <param name="IsPre">Whether the question was a pre-vote.</param>
/// <param name="IsYes">Whether it votes for the candidate, or would.</param>
/// <param name="Promised">The voter's own promise.</param>
/// <param name="GrantedUs">Of a pre-vote's yes: in how many microseconds it would vote, when its grant to the leader is over.</param>
public readonly record struct Vote(NodeName From, Reign Reign, bool IsPre, bool IsYes, Reign Promised, long GrantedUs = 0);

/// <summary>A leader ends its reign, and asks a follower to lead the next one.</summary>
/// <param name="From">The leader.</param>
/// <param name="Ends">The reign that ends. Its leader has given its lease back, for good.</param>
/// <param name="Members">The members of the next reign, if it begins by this word; null: those of this one.</param>
/// <param name="IsSettled">All that anybody was told in the reign that ends is committed.</param>
/// <param name="Votes">The reign in which the leader votes for the follower, by this word; <see cref="Reign.None"/>: it has to be asked,
/// since it does not know whether the follower has all that is committed.</param>
public readonly record struct Lead(NodeName From, Reign Ends, Cohort? Members = null, bool IsSettled = false, Reign Votes = default);
