// Pieces that have come and wait in memory, until they are durable at the primary; those of a window also until all of it is there.
using System.Diagnostics.CodeAnalysis;

namespace Slogger.Core.Replication;

/// <summary>The pieces, in order. Not thread-safe.</summary>
internal sealed class StagedPieces
{
    // What a piece takes in memory besides its bytes: one may hold none, but the end of a version.
    private const int PieceBytes = 64;

    private readonly Queue<ShipRequest.Piece> _pieces = new();
    private long _bytes;

    /// <summary>The window of which a part is there, and not all; null: none.</summary>
    public ShipWindow? Partial { get; private set; }

    /// <summary>Whether there is none.</summary>
    public bool IsEmpty => _pieces.Count == 0;

    /// <summary>Whether a piece can be added. The first always can.</summary>
    public bool HasRoom(ShipRequest.Piece piece, long bytesMax) => IsEmpty || _bytes + BytesOf(piece) <= bytesMax;

    /// <summary>Adds one: the next of the log, or of the window of which a part is there.</summary>
    public void Add(ShipRequest.Piece piece)
    {
        _pieces.Enqueue(piece);
        _bytes += BytesOf(piece);
        Partial = piece.Window is { } window && piece.To != window.To ? window : null;
    }

    /// <summary>The first.</summary>
    /// <returns>Whether there is one.</returns>
    public bool TryPeek([NotNullWhen(true)] out ShipRequest.Piece? piece) => _pieces.TryPeek(out piece);

    /// <summary>Takes the first away.</summary>
    public void RemoveFirst() => _bytes -= BytesOf(_pieces.Dequeue());

    /// <summary>Forgets all.</summary>
    public void Clear()
    {
        _pieces.Clear();
        (_bytes, Partial) = (0, null);
    }

    private static long BytesOf(ShipRequest.Piece piece) => PieceBytes + piece.DataBytes;
}
