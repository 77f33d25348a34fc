// The methods of Protos/slogger/cohorts/v1, for GrpcServer and GrpcChannel.
using Google.Protobuf;
using Grpc.Core;
using Slogger.Grpc.Cohorts.V1;

namespace Slogger.Grpc.Cohorts;

/// <summary>Between the nodes of a cohort, and from commands to them. One request, one reply.</summary>
public static class CohortMethods
{
    /// <summary>A candidate asks for a vote.</summary>
    public static readonly Method<AskRequest, VoteReply> Ask = Of("Ask", AskRequest.Parser, VoteReply.Parser);

    /// <summary>A leader lives.</summary>
    public static readonly Method<BeatRequest, BeatReply> Beat = Of("Beat", BeatRequest.Parser, BeatReply.Parser);

    /// <summary>A leader asks the node to lead.</summary>
    public static readonly Method<LeadRequest, LeadReply> Lead = Of("Lead", LeadRequest.Parser, LeadReply.Parser);

    /// <summary>How the node is.</summary>
    public static readonly Method<NodeStatusRequest, NodeStatusReply> Status =
        Of("Status", NodeStatusRequest.Parser, NodeStatusReply.Parser);

    /// <summary>It is to have another node lead.</summary>
    public static readonly Method<HandOverRequest, HandOverReply> HandOver = Of("HandOver", HandOverRequest.Parser, HandOverReply.Parser);

    /// <summary>It is to add a member, or to remove one.</summary>
    public static readonly Method<ChangeRequest, ChangeReply> Change = Of("Change", ChangeRequest.Parser, ChangeReply.Parser);

    private static Method<TRequest, TReply> Of<TRequest, TReply>(string name, MessageParser<TRequest> request, MessageParser<TReply> reply)
        where TRequest : class, IMessage<TRequest> where TReply : class, IMessage<TReply> =>
            new(MethodType.DuplexStreaming, "slogger.cohorts.v1.Cohort", name, Messages.Of(request), Messages.Of(reply));
}
