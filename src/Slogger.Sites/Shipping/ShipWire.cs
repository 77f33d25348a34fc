// Core's messages of shipping as they are on the wire (Protos/slogger/shipping/v1/shipping.proto), and back. What comes may be from
// anybody: it is refused before a machine sees it.
using System.Buffers;
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Grpc;
using Slogger.Grpc.Shipping;
using Slogger.Log;
using Slogger.Log.Ballots;
using Slogger.Replication.Links;
using LogLines = Slogger.Core.Replication.LogLines;
using V1 = Slogger.Grpc.Shipping.V1;

namespace Slogger.Sites.Shipping;

internal static class ShipWire
{
    public static ShipFrame ToWire(in ShipMessage message, ShipTerms terms)
    {
        ShipRequest request = message.Request;
        var wire = new V1.ShipRequest { Shard = request.Stream.Number, Sender = ToWire(request.Sender) };
        switch (request)
        {
            case ShipRequest.Hello hello:
                wire.Hello = new()
                {
                    History = new() { ReplicationId = hello.History.ReplicationId, Offset = hello.History.Offset },
                        Cluster = terms.Cluster, LeaseUs = (long)terms.Lease.TotalMicroseconds,
                    Shards = terms.Shape.Shards, Slots = terms.Shape.Slots ?? "",
                    Node = terms.Node,
                };
                if (terms.Members is { } members)
                {
                    wire.Hello.Members.AddRange(ToWire(members));
                    wire.Hello.Founded = ToWire(members.Founded);
                }
                break;
            case ShipRequest.Piece piece:
                wire.Piece = new() { From = ToWire(piece.From), To = ToWire(piece.To), Durable = ToWire(piece.Durable),
                    Cut = ToWire(piece.Cut), SentUs = piece.SentUs, Admits = piece.Admits, HeardUs = piece.HeardUs,
                    Window = ToWire(piece.Window) };
                foreach ((Boundary end, bool isEmptyRun, bool endsWindow) in message.Ends)
                {
                    wire.Piece.Entries.Add(new V1.Entry
                    {
                        Kind = isEmptyRun ? V1.EntryKind.EmptyRun : V1.EntryKind.Boundary, Version = end.Version.Number,
                            Offset = end.Offset, Database = end.Database, Time = end.Time.Bits,
                            EndsWindow = endsWindow,
                    });
                }
                break;
            case ShipRequest.Rewind rewind:
                wire.Rewind = new() { To = ToWire(rewind.To) };
                break;
            case ShipRequest.WantsSeed wanted:
                wire.WantsSeed = new() { Generation = wanted.Generation };
                break;
            case ShipRequest.Copied { Chunk: var chunk }:
                wire.SeedChunk = new() { Seed = ToWire(chunk.Seed), At = chunk.At };
                break;
        }
        return new(wire, message.Bytes);
    }

    public static IEnumerable<V1.Member> ToWire(Cohort members) =>
        members.Members.Select(m => new V1.Member { Node = m.Node.Text, Address = m.Address });

    public static V1.Founding? ToWire(Founding? founded) =>
        founded is { } known ? new() { Reign = known.Reign.Number, By = known.By.Text } : null;

    public static Founding? FromWire(V1.Founding? founded) => founded is null ? null : new(new(founded.Reign), new(founded.By));

    /// <summary>Null: nothing is said of members.</summary>
    /// <exception cref="RpcException">One is named twice, or they cannot be kept in a ballot.</exception>
    public static Cohort? FromWire(IReadOnlyCollection<V1.Member> members, V1.Founding? founded)
    {
        if (members.Count == 0) { return null; }
        try
        {
            Cohort named = new(members.Select(m => (new NodeName(m.Node), m.Address))) { Founded = FromWire(founded) };
            BallotFile.Check(named);
            return named;
        }
        catch (ArgumentException e)
        {
            throw new RpcException(StatusCode.InvalidArgument, e.Message);
        }
    }

    public static IEnumerable<V1.GridStretch> ToWire(VersionGrid grid) => grid.Stretches.Select(s => new V1.GridStretch
    {
        FirstVersion = s.FirstVersion.Number, StartUs = s.StartUs, IntervalUs = s.IntervalUs,
    });

    /// <summary>The grids by which the sender's versions went; null: the request does not say.</summary>
    /// <exception cref="RpcException">They are none.</exception>
    public static VersionGrid? GridOf(ShipFrame frame)
    {
        if (frame.Request.Grid.Count == 0) { return null; }
        try
        {
            return VersionGrid.OfHistory(frame.Request.Grid.Select(s => new GridStretch(new(s.FirstVersion), s.StartUs, s.IntervalUs)));
        }
        catch (ArgumentException e)
        {
            throw new RpcException(StatusCode.InvalidArgument, e.Message);
        }
    }

    public static ShipTerms TermsOf(V1.Hello hello) =>
        new(hello.Cluster, TimeSpan.FromMicroseconds(hello.LeaseUs)) { Shape = new(hello.Shards, hello.Slots) };

    /// <exception cref="RpcException">It contradicts itself, or lacks something.</exception>
    public static ShipMessage FromWire(ShipFrame frame)
    {
        V1.ShipRequest wire = frame.Request;
        var stream = new ShardId(wire.Shard);
        Sender sender = FromWire(Required(wire.Sender));
        ShipMessage message = wire.ItemCase switch
        {
            V1.ShipRequest.ItemOneofCase.Hello =>
                new(new ShipRequest.Hello(stream, sender, FromWire(Required(wire.Hello.History))), frame.Data, []),
            V1.ShipRequest.ItemOneofCase.Piece => Piece(stream, sender, wire.Piece, frame.Data),
            V1.ShipRequest.ItemOneofCase.WantsSeed =>
                new(new ShipRequest.WantsSeed(stream, sender, wire.WantsSeed.Generation), frame.Data, []),
            V1.ShipRequest.ItemOneofCase.Rewind =>
                new(new ShipRequest.Rewind(stream, sender, FromWire(Required(wire.Rewind.To))), frame.Data, []),
            V1.ShipRequest.ItemOneofCase.SeedChunk => new(
                new ShipRequest.Copied(stream, sender,
                    new(FromWire(Required(wire.SeedChunk.Seed)), wire.SeedChunk.At, checked((int)frame.Data.Length))), frame.Data, []),
            _ => throw new RpcException(StatusCode.InvalidArgument,
                $"a request of a kind that is not known here ({wire.ItemCase}): update this site"),
        };
        return message.Flaw is { } flaw ? throw new RpcException(StatusCode.InvalidArgument, flaw) : message;
    }

    public static V1.ShipReply ToWire(ShipReply reply) => new()
    {
        Kind = reply.Kind switch
        {
            ShipReplyKind.Welcome => V1.ReplyKind.Welcome,
            ShipReplyKind.Ack => V1.ReplyKind.Ack,
            ShipReplyKind.Nack => V1.ReplyKind.Nack,
            ShipReplyKind.WhoAreYou => V1.ReplyKind.WhoAreYou,
            ShipReplyKind.NotLeader => V1.ReplyKind.NotLeader,
            _ => V1.ReplyKind.NeedsSeed,
        },
        Shard = reply.Stream.Number, Generation = reply.Generation, Received = ToWire(reply.Received), Durable = ToWire(reply.Durable),
            Held = ToWire(reply.Held),
        Watermark = ToWire(reply.Watermark), EchoUs = reply.EchoUs, Newest = ToWire(reply.Newest),
        SeedAsk = reply.Ask is { } ask
            ? new() { Generation = ask.Generation, Id = ask.Id ?? "", HasBytes = ask.HasBytes, BadId = ask.Bad ?? "" } : null,
        Lines = reply.Lines is { } lines ? ToWire(lines) : null, Learns = reply.Learns, SentUs = reply.SentUs,
        TakesWindows = reply.TakesWindows, Window = ToWire(reply.Window),
    };

    /// <exception cref="RpcException">It lacks something, or says what is not known here.</exception>
    public static ShipReply FromWire(V1.ShipReply wire) => new(
        wire.Kind switch
        {
            V1.ReplyKind.Welcome => ShipReplyKind.Welcome,
            V1.ReplyKind.Ack => ShipReplyKind.Ack,
            V1.ReplyKind.Nack => ShipReplyKind.Nack,
            V1.ReplyKind.WhoAreYou => ShipReplyKind.WhoAreYou,
            V1.ReplyKind.NotLeader => ShipReplyKind.NotLeader,
            V1.ReplyKind.NeedsSeed => ShipReplyKind.NeedsSeed,
            _ => throw new RpcException(StatusCode.InvalidArgument,
                $"a reply of a kind that is not known here ({wire.Kind}): update this site"),
        },
        new(wire.Shard),
        wire.Generation,
        FromWire(Required(wire.Received)),
        FromWire(Required(wire.Durable)),
        FromWire(Required(wire.Held)),
        FromWire(Required(wire.Watermark)),
        wire.EchoUs,
        FromWire(Required(wire.Newest)))
    {
        Ask = wire.SeedAsk is { } ask
            ? new(ask.Generation, ask.Id.Length > 0 ? ask.Id : null,
            Math.Max(0, ask.HasBytes)) { Bad = ask.BadId.Length > 0 ? ask.BadId : null } : null,
        Lines = wire.Lines is { } lines ? FromWire(lines) : null, Learns = wire.Learns, SentUs = wire.SentUs,
        TakesWindows = wire.TakesWindows, Window = FromWire(wire.Window),
    };

    private static ShipMessage Piece(ShardId stream, Sender sender, V1.Piece wire, ReadOnlySequence<byte> data)
    {
        LogIndex from = FromWire(Required(wire.From)), to = FromWire(Required(wire.To));
        var ends = new VersionEnd[wire.Entries.Count];
        for (int i = 0; i < ends.Length; i++)
        {
            V1.Entry entry = wire.Entries[i];
            bool isEmptyRun = entry.Kind switch
            {
                V1.EntryKind.Boundary => false,
                V1.EntryKind.EmptyRun => true,
                _ => throw new RpcException(StatusCode.InvalidArgument,
                    $"an end of versions of a kind that is not known here ({entry.Kind}): update this site"),
            };
            ends[i] = new(new(from.WorldLine, new(entry.Version), entry.Offset, entry.Database, new HybridTimestamp(entry.Time)),
                isEmptyRun, entry.EndsWindow);
        }
        return new(new ShipRequest.Piece(stream, sender, from, to, FromWire(Required(wire.Durable)), FromWire(Required(wire.Cut)),
            wire.SentUs)
        {
            Admits = wire.Admits, HeardUs = wire.HeardUs,
            Window = FromWire(wire.Window),
        }, data, ends);
    }

    public static T Required<T>(T? part)
        where T : class => part ?? throw new RpcException(StatusCode.InvalidArgument, $"the message has no {typeof(T).Name}");

    private static V1.Sender ToWire(Sender sender) =>
        new() { SiteEpoch = sender.Site.Number, Epoch = sender.Epoch, Incarnation = sender.Incarnation };

    private static Sender FromWire(V1.Sender wire) => new(new SiteEpoch(wire.SiteEpoch), wire.Epoch, wire.Incarnation);

    public static V1.WorldPoint ToWire(WorldPoint point) => new() { WorldLine = point.WorldLine.Number, Version = point.Version.Number };

    public static WorldPoint FromWire(V1.WorldPoint wire) => new(new(wire.WorldLine), new(wire.Version));

    public static V1.LogIndex ToWire(LogIndex index) =>
        new() { WorldLine = index.WorldLine.Number, Offset = index.Offset, Closed = index.Closed.Number, Reign = index.Reign.Number };

    public static LogIndex FromWire(V1.LogIndex wire) =>
        new(new(wire.WorldLine), wire.Offset, new(wire.Closed)) { Reign = new(wire.Reign) };

    private static V1.Window? ToWire(ShipWindow? window) =>
        window is { } known ? new() { From = ToWire(known.From), To = ToWire(known.To), Bytes = known.Bytes } : null;

    private static ShipWindow? FromWire(V1.Window? wire) =>
        wire is null ? null : new(FromWire(Required(wire.From)), FromWire(Required(wire.To)), wire.Bytes);

    private static V1.LogLines ToWire(LogLines lines)
    {
        var wire = new V1.LogLines { End = ToWire(lines.End) };
        wire.Begins.AddRange(lines.Begins.Select(b => ToWire(b.Index)));
        return wire;
    }

    private static LogLines FromWire(V1.LogLines wire) => wire.Begins.Count is > 0 and <= LogBranch.KeptMax + 1
        ? new([.. wire.Begins.Select(FromWire).Select(i => new LogBranch(i.WorldLine, i.Closed, i.Offset) { Reign = i.Reign })],
            FromWire(Required(wire.End)))
        : throw new RpcException(StatusCode.InvalidArgument, $"a log of {wire.Begins.Count} lines");

    private static V1.Seed ToWire(Seed seed) => new()
    {
        Id = seed.Id, Generation = seed.Generation, Bytes = seed.Bytes,
            History = new() { ReplicationId = seed.History.ReplicationId, Offset = seed.History.Offset }, Base = ToWire(seed.Base),
        Floor = ToWire(seed.Floor), Checksum = seed.Checksum,
    };

    private static Seed FromWire(V1.Seed wire) =>
        new(wire.Id, wire.Generation, wire.Bytes, FromWire(Required(wire.History)), FromWire(Required(wire.Base)),
            FromWire(Required(wire.Floor))) { Checksum = wire.Checksum };

    private static StreamHistory FromWire(V1.History wire) => new(wire.ReplicationId, wire.Offset);
}
