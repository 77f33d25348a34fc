// The methods of Protos/slogger/shipping/v1, for GrpcServer and GrpcChannel.
using Google.Protobuf;
using Grpc.Core;
using Slogger.Grpc.Shipping.V1;

namespace Slogger.Grpc.Shipping;

/// <summary>A shard's log, from the primary's site to the backup's.</summary>
public static class ShippingMethods
{
    /// <summary>Both ways, for as long as it lasts.</summary>
    public static readonly Method<ShipFrame, ShipReply> Ship =
        new(MethodType.DuplexStreaming, Name, "Ship", ShipFrame.Marshaller, Messages.Of(ShipReply.Parser));

    private const string Name = "slogger.shipping.v1.Shipping";
}

/// <summary>Inside the backup's site.</summary>
public static class WatermarkMethods
{
    /// <summary>Both ways, for as long as it lasts.</summary>
    public static readonly Method<WatermarkReport, WatermarkNotice> Follow =
        new(MethodType.DuplexStreaming, "slogger.shipping.v1.Watermark", "Follow", Messages.Of(WatermarkReport.Parser),
            Messages.Of(WatermarkNotice.Parser));
}

/// <summary>What is asked of a site. One request, one reply, but for <see cref="Failover"/>.</summary>
public static class SiteControlMethods
{
    /// <summary>How it is.</summary>
    public static readonly Method<StatusRequest, StatusReply> Status = Of("Status", StatusRequest.Parser, StatusReply.Parser);

    /// <summary>Its receivers stop, and report.</summary>
    public static readonly Method<FreezeRequest, FreezeReply> Freeze = Of("Freeze", FreezeRequest.Parser, FreezeReply.Parser);

    /// <summary>A failover is decided.</summary>
    public static readonly Method<FinalRequest, FinalReply> Final = Of("Final", FinalRequest.Parser, FinalReply.Parser);

    /// <summary>Its shard serves.</summary>
    public static readonly Method<ServeRequest, ServeReply> Serve = Of("Serve", ServeRequest.Parser, ServeReply.Parser);

    /// <summary>It performs a failover: one request, notices until it is over.</summary>
    public static readonly Method<FailoverRequest, FailoverNotice> Failover = Of("Failover", FailoverRequest.Parser, FailoverNotice.Parser);

    /// <summary>It holds its clients' operations, or does no more.</summary>
    public static readonly Method<HoldRequest, HoldReply> Hold = Of("Hold", HoldRequest.Parser, HoldReply.Parser);

    /// <summary>It ships again.</summary>
    public static readonly Method<AttachRequest, AttachReply> Attach = Of("Attach", AttachRequest.Parser, AttachReply.Parser);

    /// <summary>It reads a log.</summary>
    public static readonly Method<VerifyRequest, VerifyReply> Verify = Of("Verify", VerifyRequest.Parser, VerifyReply.Parser);

    /// <summary>It restores a log, and compares.</summary>
    public static readonly Method<TryRestoreRequest, TryRestoreReply> TryRestore =
        Of("TryRestore", TryRestoreRequest.Parser, TryRestoreReply.Parser);

    private static Method<TRequest, TReply> Of<TRequest, TReply>(string name, MessageParser<TRequest> request, MessageParser<TReply> reply)
        where TRequest : class, IMessage<TRequest> where TReply : class, IMessage<TReply> =>
            new(MethodType.DuplexStreaming, "slogger.shipping.v1.SiteControl", name, Messages.Of(request), Messages.Of(reply));
}
