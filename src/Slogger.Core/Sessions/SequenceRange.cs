namespace Slogger.Core.Sessions;

/// <summary>Consecutive operations of a session, both ends included. Empty if Last is before First.</summary>
public readonly record struct SequenceRange(SequenceNumber First, SequenceNumber Last)
{
    /// <summary>No operation.</summary>
    public static readonly SequenceRange Empty = new(new(1), SequenceNumber.None);

    /// <summary>How many operations.</summary>
    public long Count => Math.Max(0, Last.Number - First.Number + 1);

    /// <summary>Whether there is none.</summary>
    public bool IsEmpty => Last < First;

    /// <inheritdoc />
    public override string ToString() => IsEmpty ? "none" : First == Last ? $"{First}" : $"{First}-{Last}";
}
