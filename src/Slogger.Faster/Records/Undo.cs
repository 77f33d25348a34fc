namespace Slogger.Faster.Records;

/// <summary>A stretch of the log that a rollback has taken back, while records of it can still be found.</summary>
internal sealed record Undo(long From, long To)
{
    private volatile bool _isListed;

    /// <summary>Whether the list of keys has all again that was removed there.</summary>
    public bool IsListed
    {
        get => _isListed;
        set => _isListed = value;
    }

    public bool Holds(long address) => address >= From && address < To;
}
