// A data directory that is a cohort's node's, for what runs without the cohort: a process alone, and slogger restore. What one node has is
// not all that was committed, and what it does alone the others do not know.
using Slogger.Core.Cohorts;
using Slogger.Log.Ballots;
using Slogger.Log.Files;

namespace Slogger.Proxy.Configuration;

/// <summary>What the directory's ballot says.</summary>
internal sealed class CohortDirectory
{
    private readonly string _directory;
    private readonly NodeName _node;
    private readonly Ballot _ballot;

    private CohortDirectory(string directory, NodeName node, in Ballot ballot) => (_directory, _node, _ballot) = (directory, node, ballot);

    /// <summary>Whether other nodes count beside this one. A node that has promised nothing, and obeyed nobody, is nobody's yet.</summary>
    public bool HasOthers => _ballot.Members is { } members ? members.Voters is not [var only] || only != _node
        : _ballot.Promised != default;

    /// <summary>Whether the node is a member, as it knows.</summary>
    public bool IsMember => _ballot.Members?.Has(_node) == true;

    /// <summary>The ballot's file.</summary>
    public static string BallotOf(string dataDirectory) => Path.Combine(dataDirectory, "ballot");

    /// <summary>Null: the directory is no node's.</summary>
    /// <exception cref="InvalidDataException">The ballot is damaged.</exception>
    public static CohortDirectory? Of(string dataDirectory) =>
        BallotFile.Read(SystemFileLayer.Instance, BallotOf(dataDirectory)) is var (node, ballot) ? new(dataDirectory, node, ballot) : null;

    /// <summary>The node is the only member from now on. What it has promised stays.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    public void BecomeOnlyMember()
    {
        StoreRecord store = StoreRecord.Read(_directory)!;
        using BallotFile ballot = BallotFile.Open(SystemFileLayer.Instance, BallotOf(_directory), store.ClusterIdentity, store.ShardId, _node);
        ballot.Write(_ballot with { Learns = false, Founds = false, Members = new(_ballot.Members!.Members.Where(m => m.Node == _node)) });
    }

    /// <summary>For people: node b of a cohort of a, b, c.</summary>
    public override string ToString() => $"node {_node} of a cohort{(_ballot.Members is { } members ? $" of {members}" : "")}";
}
