// Core's messages about who leads as they are on the wire (Protos/slogger/cohorts/v1/cohort.proto), and back.
using Slogger.Core.Cohorts;
using Slogger.Core.Replication;
using Slogger.Grpc;
using Slogger.Proxy.Configuration;
using Slogger.Sites.Shipping;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cohorts;

internal static class CohortWire
{
    public static V1.Membership Of(ServeOptions options) =>
        new()
    {
        Cluster = options.Cluster, Shard = options.Shard.Number, Node = options.Cohort!.Node.Text,
        LeaseUs = (long)options.Cohort.Lease.TotalMicroseconds,
    };

    public static V1.AskRequest ToWire(in Ask ask, ServeOptions options) => new()
    {
        From = Of(options), Reign = ask.Reign.Number, IsPre = ask.IsPre, Last = ShipWire.ToWire(ask.Last), Ends = ask.Ends.Number,
        Founded = ShipWire.ToWire(ask.Founded),
    };

    public static Ask FromWire(V1.AskRequest wire) => new(new(ShipWire.Required(wire.From).Node), new(wire.Reign), wire.IsPre,
        ShipWire.FromWire(ShipWire.Required(wire.Last)), new(wire.Ends), ShipWire.FromWire(wire.Founded));

    public static V1.VoteReply ToWire(in Vote vote, bool isStranger) => new()
    {
        Reign = vote.Reign.Number, IsPre = vote.IsPre, IsYes = vote.IsYes, Promised = vote.Promised.Number, IsStranger = isStranger,
        GrantedUs = vote.GrantedUs,
    };

    public static Vote FromWire(NodeName from, V1.VoteReply wire) =>
        new(from, new(wire.Reign), wire.IsPre, wire.IsYes, new(wire.Promised), wire.GrantedUs);

    /// <summary>Why a message is refused; null: it is of this cohort.</summary>
    public static string? Against(ServeOptions options, V1.Membership? from) =>
        from is null ? "it does not say from whom it is"
        : from.Cluster != options.Cluster || from.Shard != options.Shard.Number
            ? $"this is a node of shard {options.Shard} of cluster \"{options.Cluster}\", and not of shard {from.Shard} of "
                + $"\"{from.Cluster}\": look at --cohort"
        : from.Node == options.Cohort!.Node.Text
            ? $"this is node {from.Node}, too: look at --node and --cohort of both"
        // Who grants a shorter one than the leader counts on would vote too soon.
        : from.LeaseUs != (long)options.Cohort.Lease.TotalMicroseconds
            ? $"node {from.Node} has --lease {OptionText.FormatDuration(TimeSpan.FromMicroseconds(from.LeaseUs))}, and this one "
                + $"{OptionText.FormatDuration(options.Cohort.Lease)}: give all nodes the same"
        : null;

    /// <exception cref="RpcException">It is not of this cohort.</exception>
    public static void Check(ServeOptions options, V1.Membership? from)
    {
        if (Against(options, from) is { } why) { throw new RpcException(StatusCode.FailedPrecondition, why); }
    }
}
