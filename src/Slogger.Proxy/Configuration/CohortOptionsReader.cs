// Reads what concerns a shard's cohort, and the rules between those options. Part of what ServeOptionsReader reads.
using System.Collections.Immutable;
using Slogger.Core.Cohorts;
using Slogger.Core.Shards;
using Slogger.Log.Ballots;

namespace Slogger.Proxy.Configuration;

/// <summary>Reads <see cref="CohortOptions"/>.</summary>
internal static class CohortOptionsReader
{
    private static readonly TimeSpan LeaseMin = TimeSpan.FromMilliseconds(60), LeaseMax = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan StaleMax = TimeSpan.FromDays(1);

    public static CohortOptions? Read(OptionReader reader)
    {
        string? node = reader.Optional<string>("node", OptionText.Name);
        ImmutableArray<CohortMember> members = reader.Value<ImmutableArray<CohortMember>>("cohort", Members, []);
        CohortOptions defaults = new() { Node = new(node ?? ""), Members = members };
        TimeSpan lease = reader.Value("lease", OptionText.Duration(LeaseMin, LeaseMax), defaults.Lease);
        TimeSpan stale = reader.Value("reads-stale-max", OptionText.Duration(TimeSpan.Zero, StaleMax), defaults.ReadsStaleMax);
        StrongReads reads = reader.Value("strong-reads", OptionText.Choice(("lease", StrongReads.Lease), ("quorum", StrongReads.Quorum)),
            defaults.StrongReads);
        if (!reader.IsGiven("cohort"))
        {
            if (reader.IsGiven("strong-reads")) { reader.Fail("strong-reads", "is given without --cohort", "remove it"); }
            if (reader.IsGiven("node")) { reader.Fail("node", "is given without --cohort", "give both, or none"); }
            if (reader.IsGiven("lease")) { reader.Fail("lease", "is given without --cohort", "remove it"); }
            if (reader.IsGiven("reads-stale-max")) { reader.Fail("reads-stale-max", "is given without --cohort", "remove it"); }
            return null;
        }
        if (node is null)
        {
            reader.Fail("cohort", "is given without --node", $"say which of {string.Join(", ", members.Select(m => m.Node))} this process "
                + "is");
            return null;
        }
        if (members.IsEmpty) { return null; }
        if (!members.Any(m => m.Node.Text == node))
        {
            reader.Fail("node", $"is none of --cohort, which has {string.Join(", ", members.Select(m => m.Node))}", "give one of them");
            return null;
        }
        return defaults with { Lease = lease, ReadsStaleMax = stale, StrongReads = reads };
    }

    public static void Check(OptionReader reader, ServeOptions options)
    {
        if (options.Cohort is null) { return; }
        if (options.Commit != CommitMode.Log)
        {
            reader.Fail("cohort", "replicates the version log, which a Redis with --commit log has alone",
                "remove it, or name a Redis with --redis or --redis-server and leave out --commit");
        }
        if (options.Replies == ReplyTiming.Early && options.Cohort.StrongReads == StrongReads.Quorum)
        {
            reader.Fail("strong-reads", "has quorum, which waits for a majority, and --replies early waits for nobody",
                "remove one of them");
        }
        if (options.Joins)
        {
            reader.Fail("join", "is not for a shard with --cohort", "have the shard join as a process alone, then start that with --node and "
                + "--cohort in place of --join, and the other nodes");
        }
        if (!reader.IsGiven("metadata"))
        {
            reader.Errors.Add(new OptionError("a cohort's nodes share their metadata, and none is given", "",
                "give --metadata, the same to all"));
        }
    }

    /// <summary>Parses NAME=HOST:PORT,...</summary>
    public static bool Members(string text, out ImmutableArray<CohortMember> value, out string problem)
    {
        value = [];
        problem = "";
        foreach (string part in text.Split(','))
        {
            int at = part.IndexOf('=', StringComparison.Ordinal);
            if (at < 0)
            {
                problem = $"has {part.Trim()}, which is no NAME=HOST:PORT";
                return false;
            }
            if (!OptionText.Name(part[..at].Trim(), out string name, out problem)
                || !SiteOptionsReader.Peer(part[(at + 1)..].Trim(), out Resp.ListenAddress address, out problem)) { return false; }
            if (address.ToString().Length > BallotFile.AddressMax)
            {
                problem = $"has an address of {name} with more than {BallotFile.AddressMax} characters";
                return false;
            }
            var node = new NodeName(name);
            if (value.Any(m => m.Node == node || m.Address == address))
            {
                problem = $"has {name} or {address} twice";
                return false;
            }
            value = value.Add(new(node, address));
        }
        problem = value.Length > BallotFile.MembersMax ? $"has {value.Length} nodes, and {BallotFile.MembersMax} are the most" : "";
        return problem.Length == 0;
    }
}
