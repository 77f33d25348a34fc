// A data directory that is a cohort's node's, for what runs without the cohort: a process alone, and slogger restore. What one node has is
// not all that was committed, and what it does alone the others do not know.
using Slogger.Core.Cohorts;
using Slogger.Log.Ballots;
using Slogger.Log.Files;

namespace Slogger.Proxy.Configuration;

/// <summary>What the directory's ballot says.</summary>
internal static class CohortDirectory
{
    private const string BallotName = "ballot";

    /// <summary>The ballot's file.</summary>
    public static string BallotOf(string dataDirectory) => Path.Combine(dataDirectory, BallotName);

    /// <summary>Whose node the directory is, if other nodes count beside it; null: nobody else does.</summary>
    /// <exception cref="InvalidDataException">The ballot is damaged.</exception>
    public static string? OtherMembers(string dataDirectory)
    {
        if (BallotFile.Read(SystemFileLayer.Instance, BallotOf(dataDirectory)) is not { } found) { return null; }
        (NodeName node, Ballot ballot) = (found.Node, found.Ballot);
        bool isNobodys = ballot.Members is null && ballot.Promised == default;
        if (isNobodys || (ballot.Members?.Voters is [var only] && only == node)) { return null; }
        return $"node {node} of a cohort{(ballot.Members is { } members ? $" of {members}" : "")}";
    }

    /// <summary>Why the node cannot be the only member; null: it can, or the directory is no node's.</summary>
    /// <exception cref="InvalidDataException">The ballot is damaged.</exception>
    public static string? WhyNotOnlyMember(string dataDirectory) =>
        BallotFile.Read(SystemFileLayer.Instance, BallotOf(dataDirectory)) is not var (node, ballot) || ballot.Members?.Has(node) == true ? null
            : $"the data directory is that of node {node}, which is no member of its cohort ({ballot.Members?.ToString() ?? "it knows none"})";

    /// <summary>The node is the only member from now on. What it has promised stays.</summary>
    /// <exception cref="InvalidDataException">The ballot is damaged.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    public static void BecomeOnlyMember(string dataDirectory)
    {
        string path = BallotOf(dataDirectory);
        StoreRecord store = StoreRecord.Read(dataDirectory)!;
        if (BallotFile.Read(SystemFileLayer.Instance, path) is not var (node, before)) { return; }
        using BallotFile ballot = BallotFile.Open(SystemFileLayer.Instance, path, store.ClusterIdentity, store.ShardId, node);
        ballot.Write(before with { Learns = false, Members = new(before.Members!.Members.Where(m => m.Node == node)) });
    }
}
