using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>One instant of a store's past.</summary>
/// <param name="Sources">From what the values at it are made.</param>
/// <param name="TimeMs">When it was, in milliseconds since the Unix epoch: a key that had expired by then is not there.</param>
public sealed record PastState(RollbackSources Sources, long TimeMs);

/// <summary>What stands in the way of an answer; for a program.</summary>
public enum PastProblem
{
    /// <summary>Only the text says.</summary>
    Other,

    /// <summary>The instant is before what is kept.</summary>
    NotKept,

    /// <summary>The instant is no past yet: it is not committed, or in the future.</summary>
    NotClosed,
}

/// <summary>What was asked of the past cannot be answered.</summary>
/// <param name="message">Why; for a person.</param>
/// <param name="problem">Why; for a program.</param>
public sealed class PastException(string message, PastProblem problem = PastProblem.Other) : Exception(message)
{
    /// <summary>Why; for a program.</summary>
    public PastProblem Problem => problem;
}
