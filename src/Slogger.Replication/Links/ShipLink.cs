// What shipping needs of a transport: messages in both directions, in any order and as often as it likes. Both ends are machines that stand
// every loss (Core's Shipper and Receiver), so a link that fails is thrown away, and another one made.
using System.Buffers;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Redis.Feeding;

namespace Slogger.Replication.Links;

/// <summary>A request, with what a piece holds of the log.</summary>
/// <param name="Request">What the shipper's machine said.</param>
/// <param name="Bytes">Of a piece the stream's bytes from its beginning to its end, or those of its window; valid until the call that it
/// was given to returns.</param>
/// <param name="Ends">Of a piece the ends of versions behind its beginning, up to its end.</param>
internal readonly record struct ShipMessage(ShipRequest Request, ReadOnlySequence<byte> Bytes, IReadOnlyList<VersionEnd> Ends)
{
    private const int SeedIdLengthMax = 400;

    /// <summary>What of it contradicts itself; null: nothing. Asked before a receiver gets it: it may come from anybody.</summary>
    public string? Flaw
    {
        get
        {
            if (Request is ShipRequest.Copied { Chunk: var chunk })
            {
                Seed seed = chunk.Seed;
                bool isNamed = seed.Id.Length is > 0 and <= SeedIdLengthMax && seed.History.ReplicationId.Length is > 0 and <= 40
                    && !seed.History.ReplicationId.AsSpan().ContainsAnyExceptInRange('!', '~');
                if (!isNamed || seed.Base.Offset < 0 || seed.Base.Closed < VersionNumber.Zero || seed.Floor.WorldLine != seed.Base.WorldLine
                    || seed.Floor.Version <= seed.Base.Closed)
                {
                    return $"{seed} is no copy of a store";
                }
                bool isInside = chunk.At >= 0 && chunk.Bytes >= 0 && chunk.At <= chunk.Seed.Bytes - chunk.Bytes
                    && (chunk.Bytes > 0 || chunk.At == chunk.Seed.Bytes);
                return isInside && chunk.Bytes == Bytes.Length && Ends.Count == 0 ? null
                    : $"the chunk of {Bytes.Length} bytes at {chunk.At} is none of a copy of {chunk.Seed.Bytes}";
            }
            if (Request is not ShipRequest.Piece piece)
            {
                return Bytes.IsEmpty && Ends.Count == 0 ? null : "only a piece and a chunk hold bytes, and only a piece ends of versions";
            }
            (LogIndex at, LogIndex to) = (piece.From, piece.To);
            bool isPlain = !piece.IsHeartbeat && !piece.IsBranch;
            if (to.Line < at.Line || (isPlain && (to.Offset < at.Offset || to.Closed < at.Closed)))
            {
                return $"the piece goes back, from {at} to {to}";
            }
            if (piece.Window is { } window && (isPlain ? FlawIn(piece, window) : "a heartbeat or a branch is part of a window") is { } flaw)
            {
                return flaw;
            }
            if (Bytes.Length != (isPlain ? piece.DataBytes : 0)) { return $"the piece from {at} to {to} holds {Bytes.Length} bytes"; }
            if (!isPlain) { return Ends.Count == 0 ? null : "a heartbeat or a branch holds ends of versions"; }
            foreach ((Boundary end, bool isEmptyRun, _) in Ends)
            {
                bool isInOrder = end.WorldLine == at.WorldLine && end.Version > at.Closed
                    && (isEmptyRun || (end.Offset >= at.Offset && end.Offset <= to.Offset));
                if (!isInOrder) { return $"the end of {end.Point} at offset {end.Offset} is out of order, behind {at}"; }
                at = at with { Closed = end.Version, Offset = isEmptyRun ? at.Offset : end.Offset };
            }
            return at.Closed == to.Closed ? null : $"the last version that is closed is {at.Closed}, not that of {to}";
        }
    }

    // What it says of a window, and what it says besides.
    private string? FlawIn(ShipRequest.Piece piece, in ShipWindow window)
    {
        long spared = window.To.Offset - window.From.Offset - window.Bytes, at = piece.From.Offset - window.From.Offset;
        bool isWindow = window.From.Line == window.To.Line && window.From.Closed < window.To.Closed
            && window.Bytes is >= 0 and <= ShipWindow.BytesMax && spared >= Filler.StretchBytesMin && spared <= ShipWindow.LogBytesMax;
        bool isLast = piece.To == window.To;
        bool isPart = piece.From.Line == window.From.Line && piece.From.Closed == window.From.Closed && at >= 0 && at <= window.Bytes
            && (isLast || (piece.To.Closed == window.From.Closed && piece.To.Offset < window.From.Offset + window.Bytes));
        bool hasEnd = isLast
            ? Ends.Count == 1 && Ends[0] is { IsEmptyRun: false, EndsWindow: true } end && end.Boundary.Offset == piece.To.Offset
            : Ends.Count == 0;
        return !isWindow ? $"there is no window from {window.From} to {window.To} of {window.Bytes} bytes"
            : !isPart || !hasEnd ? $"the piece from {piece.From} to {piece.To} is no part of the window from {window.From} to {window.To}"
            : null;
    }
}

/// <summary>A connection of a shipper to a receiver. One reader and one writer at a time.</summary>
internal interface IShipLink : IAsyncDisposable
{
    /// <summary>Sends. False when the link is broken: <see cref="ReceiveAsync"/> says why.</summary>
    /// <param name="message">What to send.</param>
    /// <param name="isLast">Whether nothing follows at once: what was sent goes out.</param>
    ValueTask<bool> SendAsync(ShipMessage message, bool isLast);

    /// <summary>The next reply.</summary>
    /// <exception cref="ShipLinkException">The link is broken, or was refused.</exception>
    ValueTask<ShipReply> ReceiveAsync(CancellationToken stop);
}

/// <summary>How a primary's keys are divided, as one of its shards says it.</summary>
/// <param name="Shards">How many shards there are; 0: it is not said.</param>
/// <param name="Slots">Which slots this one owns ("0-8191"); empty: its keys are divided otherwise.</param>
internal readonly record struct ShipShape(int Shards, string Slots);

/// <summary>Makes links.</summary>
internal interface IShipConnector
{
    /// <summary>Where it leads, for people.</summary>
    string Target { get; }

    /// <summary>How the shipper's keys are divided: said with each hello. While it gives null that is not known yet, and nothing is
    /// connected.</summary>
    Func<ShipShape?> Shape
    {
        get => static () => default(ShipShape);
        set { }
    }

    /// <summary>The grids by which the versions of the log went, which the receiver is told; null: they are not known.</summary>
    Func<VersionGrid?> Grid
    {
        get => static () => null;
        set { }
    }

    /// <summary>Connects.</summary>
    /// <exception cref="ShipLinkException">There is nobody, or it was refused.</exception>
    Task<IShipLink> ConnectAsync(CancellationToken stop);
}

/// <summary>A link to a receiver cannot be had, or is broken. The message is for a person.</summary>
internal sealed class ShipLinkException(string message, Exception? inner = null) : Exception(message, inner)
{
    /// <summary>Whether it stays so until a person acts: a wrong secret, settings that do not fit.</summary>
    public bool NeedsPerson { get; init; }
}
